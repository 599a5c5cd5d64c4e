"""Programs on a pseudo-terminal."""

import os
import pty
import re
import subprocess
from collections.abc import Sequence
from typing import Any


def read_piece(terminal: int) -> bytes:
    """The next bytes that a terminal shows; none once its last writer is gone."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says so
        return b""


def run_on_terminal(argv: Sequence[object], *, typed: bytes = b"", **options: Any) -> tuple[int, str]:
    """The exit code of a program, and what its terminal shows. `typed`: at the first prompt of a shell."""
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(list(map(str, argv)), stdin=theirs, stdout=theirs, stderr=theirs, **options) as process:
        os.close(theirs)
        while piece := read_piece(ours):
            shown += piece
            if typed and re.search(rb"[#$] ", shown):
                os.write(ours, typed)
                typed = b""
        code = process.wait(60)
    os.close(ours)
    return code, shown.decode(errors="replace").replace("\r\n", "\n")
