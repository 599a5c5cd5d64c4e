"""Random input for everything that reads bytes from outside: `python -m tests.fuzz [SECONDS [TARGET ...]]`.

Inputs are made from recordings (inputs.py): a run takes microseconds, where a search for small examples (hypothesis,
which the tests use) takes a hundred times as long. The seed is printed; `--seed` gives the same inputs again. Ends with
1 if any input was answered by anything but an error of ours; the input is written down, and its target ends there.
"""

import argparse
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.fuzz.inputs import changed, documents_of
from tests.fuzz.targets import TARGETS, Target, run

SLOW = 4.0  # seconds of processor time that no input may take: 8 MiB of lines, each parsed alone, take 3
IDLE = 0.06  # what `pace` measures where that is so
LARGE = 300 << 20  # bytes of memory that no input may take beyond what the program has without it
MEMORY = 4 << 30
"""Bytes of addresses that the process may have: an input that takes more is told of, where the kernel would end all."""
HEAD = f"{'reader':18} {'inputs':>9}  {'slowest':>8}  {'most memory':>11}"
_STATUS = Path("/proc/self/status")


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def memory(what: str) -> int:
    """Bytes of memory that the process has (VmRSS), or had at most since the input began (VmHWM); Linux only."""
    found = re.search(rf"{what}:\s*(\d+) kB", _STATUS.read_text()) if _STATUS.exists() else None
    return int(found[1]) << 10 if found else 0


def pace() -> float:
    """How much slower than `IDLE` this machine computes now; a quarter is the noise of such a measurement."""
    began = time.process_time()
    sum(number % 7 for number in range(1_000_000))
    return max(1.25, (time.process_time() - began) / IDLE)


def fuzz(name: str, target: Target, seconds: float, seed: int, folder: Path = Path()) -> tuple[int, bool]:
    """Run one target for so much time of a processor: how many runs, and whether all went well."""
    source = random.Random(f"{seed} {name}")
    documents = documents_of(target.seeds)
    runs, slowest, most, until = 0, 0.0, 0, time.process_time() + seconds
    while time.process_time() < until:
        data = changed(source, target.seeds, documents, target.grammar, target.longest)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_bytes(b"5")  # VmHWM begins anew
        began, had = time.process_time(), memory("VmRSS")
        try:
            run(target, data)
            took, more = time.process_time() - began, memory("VmHWM") - had
            assert took < SLOW or took < SLOW * pace(), f"it took {took:.1f} s"
            assert more < LARGE, f"it took {more >> 20} MiB"
        except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
            traceback.print_exc()
            place = folder / f"fuzz-{name.replace(' ', '-')}-{seed}-{runs}.bin"
            place.write_bytes(data)
            say(f"{name}: failed after {runs:,} runs with seed {seed}; the input is in {place}")
            return runs, False
        slowest, most, runs = max(slowest, took), max(most, more), runs + 1
    say(f"{name:18} {runs:>9,}  {slowest:>6.3f} s  {most >> 20:>7,} MiB")
    return runs, True


def main(words: Sequence[str] | None = None) -> int:
    """Run the targets that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("seconds", type=float, nargs="?", default=30.0, help="of a processor, for each target")
    parser.add_argument("targets", nargs="*", metavar="target", help=f"some of: {', '.join(TARGETS)}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args(words)
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    say(f"seed {asked.seed}, {asked.seconds:g} s each")
    say(HEAD)
    done = [fuzz(name, TARGETS[name], asked.seconds, asked.seed) for name in asked.targets or TARGETS]
    good = sum(ok for _, ok in done)
    say(f"{sum(runs for runs, _ in done):,} runs in all; {good} passed, {len(done) - good} failed")
    return 0 if good == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
