"""Random input for everything that reads bytes from outside: `python -m tests.fuzz [SECONDS [TARGET ...]]`.

Inputs are recordings with bytes changed, cut, repeated and mixed: a run takes microseconds, where a search for small
examples (hypothesis, which the tests use) takes a hundred times as long. The seed is printed; the same seed gives the
same inputs. Ends with 1 at the first input that is answered by anything but an error of ours, which it writes down.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target, run

SLOW = 2.0
"""Seconds of processor time that no input may take."""
LONGEST = 200_000
DICTIONARY = (
    b"\0", b"\xff", b"\xc3\x28", b"\x1b[31m", b"\r", b"\n", b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b"true",
    b'"', b"9" * 400,
    "\u200d".encode(), "\u202e".encode(), "🙂".encode(), b"[" * 3000, b'{"a":' * 3000, b"2147483648",
    b"0x", b"%s", b"../", b" " * 300,
)  # fmt: skip


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def changed(source: random.Random, seeds: list[bytes]) -> bytes:
    """An input like the seeds."""
    data = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        at = source.randrange(len(data) + 1)
        to = min(len(data), at + source.choice((0, 1, 1, 2, 4, 16, 300)))
        match source.randrange(8):
            case 0:
                data[at:to] = source.randbytes(to - at)
            case 1:
                del data[at:to]
            case 2:
                data[at:at] = source.choice(DICTIONARY)
            case 3:
                data[at:to] = source.choice(DICTIONARY)
            case 4:
                data[at:at] = data[at:to] * source.choice((2, 8, 64))
            case 5:
                other = source.choice(seeds)
                begin = source.randrange(len(other) + 1)
                data[at:to] = other[begin : begin + 200]
            case 6:
                del data[at:]
            case _:
                if data:
                    at = min(at, len(data) - 1)
                    data[at] ^= 1 << source.randrange(8)
    return bytes(data[:LONGEST])


def fuzz(name: str, target: Target, seconds: float, seed: int) -> bool:
    """Run one target for so long; whether all went well."""
    source = random.Random(f"{seed} {name}")
    runs, slowest, until = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        data = changed(source, target.seeds)
        began = time.process_time()
        try:
            run(target, data)
            took = time.process_time() - began
            assert took < SLOW, f"it took {took:.1f} s"
        except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
            traceback.print_exc()
            place = Path(f"fuzz-{name.replace(' ', '-')}.bin")
            place.write_bytes(data)
            say(f"{name}: failed after {runs:,} runs with seed {seed}; the input is in {place}")
            return False
        slowest, runs = max(slowest, took), runs + 1
    say(f"{name:18} {runs:>9,} runs, the slowest {slowest:.3f} s")
    return True


def main() -> int:
    """Run the targets that are named, or all."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    names = sys.argv[2:] or list(TARGETS)
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}, {seconds:g} s each")
    good = [fuzz(name, TARGETS[name], seconds, seed) for name in names]
    say(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
