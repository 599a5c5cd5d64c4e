"""A log of a gigabyte: how soon its first page is there, and how fast it is searched and filtered."""

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.logs.log_text import FileText, LineFilter

GIGABYTE = 1 << 30
FAST = 200.0
"""MB/s at which it has to be searched and filtered."""


def lines_of_training() -> Iterator[bytes]:
    for step in range(2000):
        head = f"2026-11-21 12:00:{step % 60:02d} [rank{step % 128}] iteration {step:8d}/ 10000"
        speed = f"elapsed time per iteration (ms): {step / 7:.1f}"
        yield f"{head} | {speed} | lm loss: {step / 3:.6E} | grad norm: {step / 11:.3f} |\n".encode()
        if step % 100 == 99:
            yield b"/usr/lib/python3/torch/cuda/__init__.py:61: FutureWarning: pynvml is deprecated\n"


def large_file(bound: Any, say: Any) -> bool:
    """A file of a gigabyte: to its first page, and through all of it."""
    with tempfile.TemporaryDirectory() as folder:
        place, block = Path(folder) / "large.log", b"".join(lines_of_training())
        with place.open("wb") as file:
            for _ in range(-(-GIGABYTE // len(block))):
                file.write(block)
            file.write(b"RuntimeError: the end\n")
        began = time.perf_counter()
        text = FileText(place)
        assert len(text.read_rows(0, 50)) == 50
        opened = time.perf_counter() - began
        through(text)
        counted = time.perf_counter() - began
        assert text.read_rows(len(text) - 1, len(text))[0].text == "RuntimeError: the end"
        say(f"\n{text.size / 1e9:.2f} GB, {len(text):,} lines")
        kept = [bound("1 GB: open (s)", opened, 1.0), bound("1 GB: open and count all lines (s)", counted, 5.0)]
        for pattern in (re.compile(b"RuntimeError"), re.compile(b"runtimeerror: the.*end", re.IGNORECASE)):
            text.start_search(pattern)
            kept.append(fast(f"search {pattern.pattern.decode()}", text, say))
            assert text.match_count == 1
        text.start_search(None)
        for keep in (
            LineFilter(level="error"),
            LineFilter(level="warn"),
            LineFilter(pattern=re.compile(rb"rank7\].*99[0-9]{2}/")),
        ):
            text.apply_filter(keep)
            kept.append(fast(f"show only {keep.description}", text, say))
        text.close()
    return all(kept)


def through(text: FileText) -> float:
    """Look at all of it; seconds."""
    began = time.perf_counter()
    while text.advance():
        pass
    return time.perf_counter() - began


def fast(what: str, text: FileText, say: Any) -> bool:
    """Print how fast the text is looked through; whether that is fast enough."""
    speed = text.size / through(text) / 1e6
    say(f"{f'{what} (MB/s)':45} {speed:8.0f} {'at least':>12} {FAST:7.0f}  {'kept' if speed >= FAST else 'BROKEN'}")
    return speed >= FAST
