"""A4's own folders, and files that are private and written atomically."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from math import inf
from pathlib import Path

from console.errors import BadInput

KEEP_LOGS_DAYS = 30.0  # days for which logs are kept after their last line, unless A4_LOGS_KEEP_DAYS says otherwise
KEEP_LOGS_GB = 20.0  # gigabytes that logs may take, unless A4_LOGS_KEEP_GB says otherwise; the oldest jobs go first
PRACTICE_PREFIX = "a4-practice-"
"""Prefix of the names of practice clusters' folders in the temporary folder."""


def state_folder() -> Path:
    """The folder `a4` in XDG_STATE_HOME."""
    return _xdg_folder("XDG_STATE_HOME", ".local/state")


def config_folder() -> Path:
    """The folder `a4` in XDG_CONFIG_HOME."""
    return _xdg_folder("XDG_CONFIG_HOME", ".config")


def _xdg_folder(variable: str, default: str) -> Path:
    return _own_folder(os.environ.get(variable, ""), os.environ.get("HOME"), default)


@lru_cache(maxsize=8)
def _own_folder(variable_value: str, _home: str | None, default: str) -> Path:
    named = Path(variable_value)  # one that is not absolute counts for nothing, say the rules
    return (named if named.is_absolute() else Path.home() / default) / "a4"


def make_private(folder: Path) -> None:
    """Create the folder and missing parents with mode 0700; OSError if that fails.

    `mkdir(mode=…, parents=True)` would give parents the mode of the umask. An existing folder keeps its mode, unless
    others may write in it. The folder of a practice cluster that has ended is not created again. Blocking.
    """
    missing = []
    above = folder.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    for each in (*reversed(missing), folder):
        if each.name.startswith(PRACTICE_PREFIX) and not each.exists():
            raise FileNotFoundError(errno.ENOENT, "the practice cluster has ended", str(each))
        each.mkdir(mode=0o700, exist_ok=True)
    make_owner_only(folder)


def make_owner_only(folder: Path) -> None:
    """Remove other users' write permission on a folder; PermissionError if another account owns it. Blocking."""
    found = folder.stat()
    if not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "others may write in this folder, and it is not yours", str(folder))
    folder.chmod(0o700)


def make_own_folders_private() -> None:
    """Remove other users' write permission on a4's folders. Raises BadInput if another account owns one. Blocking."""
    for folder in (state_folder(), config_folder()):
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                make_owner_only(folder)
        except OSError as error:
            hint = "Make it yours (chown), or name another: XDG_STATE_HOME, XDG_CONFIG_HOME."
            raise BadInput(f"{folder} cannot be used: {error.strerror}.", hint) from error


MAX_OWN_FILE_BYTES = 64 << 20  # bytes of a file of a4 that is read as a whole


def open_own_file(path: Path, flags: int = os.O_RDONLY, *, max_bytes: float = inf) -> int:
    """Open a regular file of a4; OSError for a pipe, device or folder, and for more than `max_bytes` bytes."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a pipe that nobody reads
            raise
        raise OSError(errno.EINVAL, "it is no regular file", str(path)) from error
    found = os.fstat(handle)
    why = "" if stat.S_ISREG(found.st_mode) else "it is no regular file"
    why = why or (f"it is larger than {max_bytes / (1 << 20):,.0f} MiB" if found.st_size > max_bytes else "")
    if why:
        os.close(handle)
        raise OSError(errno.EINVAL, why, str(path))
    return handle


def read_own_file(path: Path, max_bytes: int = MAX_OWN_FILE_BYTES) -> bytes:
    """The content of a file of a4; OSError if it is no regular file or too large. Blocking."""
    with os.fdopen(open_own_file(path, max_bytes=max_bytes), "rb") as file:
        return file.read(max_bytes)


def atomic_write(path: Path, content: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Replace a file atomically; OSError if that fails. Blocking."""
    import tempfile  # 10 ms that a command which writes nothing does not wait for

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.writelines((content,) if isinstance(content, bytes) else content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_new_file(path: Path) -> None:
    """Raise BadInput if a new file cannot be written at `path`; called before the work whose result it will hold."""
    path = path.expanduser()
    if path.exists():
        raise BadInput(f"{path} already exists.", "Choose another name.")
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise BadInput(f"{path} cannot be written: {path.parent} is no folder to write to.", "Choose another place.")


def write_new_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a new file atomically, never over an existing one. Raises BadInput if it cannot be written."""
    import tempfile

    try:
        path = path.expanduser()
        fd, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as out:
                out.writelines((data,) if isinstance(data, bytes) else data)
            _publish_file(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except FileExistsError as error:
        raise BadInput(f"{path} already exists.", "Choose another name.") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.", "Choose another place.") from error


def _publish_file(temporary_path: str, path: Path) -> None:
    """Rename a finished temporary file to `path`, atomically if hard links work. FileExistsError if `path` exists."""
    try:
        os.link(temporary_path, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        Path(temporary_path).rename(path)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock for that file among all threads and processes of this account. Blocking."""
    make_private(path.parent)
    lock = open_own_file(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
