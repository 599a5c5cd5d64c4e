"""What the X-ray does on this machine: it keeps what was recorded, and lends its py-spy."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from console.errors import BadInput


def write_new(place: Path, data: bytes) -> None:
    """Write a file that has its name only once it is whole, and that is put over no other; BadInput if it cannot be."""
    try:
        place = place.expanduser()
        fd, beside = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        try:
            with os.fdopen(fd, "wb") as out:
                out.write(data)
            _name(beside, place)
        finally:
            Path(beside).unlink(missing_ok=True)
    except FileExistsError as error:
        raise BadInput(f"{place} is there already.", "Choose another name.") from error
    except OSError as error:
        raise BadInput(f"{place} cannot be written: {error.strerror}.", "Choose another place.") from error


def _name(beside: str, place: Path) -> None:
    """Give a file its name, if nobody has it; file systems that know no second name for a file have it renamed."""
    try:
        os.link(beside, place)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        if place.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        Path(beside).rename(place)


def own_py_spy() -> bytes:
    """This machine's py-spy, where it is one that runs on A4; else nothing."""
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None or platform.system() != "Linux" or platform.machine() != "x86_64":
        return b""
    program = Path(found).read_bytes()
    return program if program.startswith(b"\x7fELF") else b""
