"""Files of a pod over SFTP, as its shell sees them; relative paths begin in the pod's folder."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer
from paramiko.sftp import SFTP_FAILURE, SFTP_OK

from practice.node.pod_volumes import find_on_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from _typeshed import ReadableBuffer as Buffer

_ResultT = TypeVar("_ResultT")


def _result_of(function: Callable[[], _ResultT]) -> _ResultT | int:
    """Return the result of a file operation, or SFTP's code for its error."""
    try:
        return function()
    except OSError as error:
        return int(SFTPServer.convert_errno(error.errno or 0))


def _status_of(function: Callable[[], object]) -> int:
    def done() -> int:
        function()
        return int(SFTP_OK)

    return _result_of(done)


class _OpenFile(SFTPHandle):
    """An open file with random access."""

    def __init__(self, descriptor: int, flags: int) -> None:
        super().__init__(flags)
        self._descriptor = descriptor
        self._appends = bool(flags & os.O_APPEND)

    def read(self, offset: int, length: int) -> bytes | int:
        """The bytes at an offset, or SFTP's code for the error."""
        return _result_of(lambda: os.pread(self._descriptor, length, offset))

    def write(self, offset: int, data: Buffer) -> int:
        """Write bytes at an offset."""

        def write() -> None:
            left, at = memoryview(data).cast("B"), offset
            while left:
                done = os.write(self._descriptor, left) if self._appends else os.pwrite(self._descriptor, left, at)
                left, at = left[done:], at + done

        return _status_of(write)

    def stat(self) -> SFTPAttributes | int:
        return SFTPAttributes.from_stat(os.fstat(self._descriptor))

    def chattr(self, attr: SFTPAttributes) -> int:
        """Change the size, mode or times of a file."""
        return _status_of(lambda: _change_attributes(self._descriptor, attr))

    def close(self) -> None:
        os.close(self._descriptor)


def _change_attributes(target: int | Path, attr: SFTPAttributes) -> None:
    """Change size, mode and times; the owner is ignored, as in the pod all files are root's."""
    if attr.st_size is not None:
        os.truncate(target, attr.st_size)
    if attr.st_mode is not None:
        os.chmod(target, attr.st_mode & 0o7777)  # noqa: PTH101 - of a descriptor too
    if attr.st_mtime is not None:
        os.utime(target, (attr.st_atime if attr.st_atime is not None else attr.st_mtime, attr.st_mtime))


class PodFiles(paramiko.SFTPServerInterface):
    def __init__(self, server: paramiko.ServerInterface, folder: Path) -> None:
        super().__init__(server)
        self._folder = folder

    def _path(self, path: str) -> Path:
        return self._folder / find_on_machine(self._folder, path)

    def canonicalize(self, path: str) -> str:
        """The absolute path without dots."""
        return os.path.normpath(self._path(path))

    def list_folder(self, path: str) -> list[SFTPAttributes] | int:
        folder = self._path(path)
        return _result_of(
            lambda: [SFTPAttributes.from_stat(each.lstat(), each.name) for each in sorted(folder.iterdir())]
        )

    def stat(self, path: str) -> SFTPAttributes | int:
        return _result_of(lambda: SFTPAttributes.from_stat(self._path(path).stat()))

    def lstat(self, path: str) -> SFTPAttributes | int:
        return _result_of(lambda: SFTPAttributes.from_stat(self._path(path).lstat()))

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        """Open a file, creating it if requested; or SFTP's code for the error."""
        mode = attr.st_mode & 0o7777 if attr.st_mode is not None else 0o644
        return _result_of(lambda: _OpenFile(os.open(self._path(path), flags | os.O_CLOEXEC, mode), flags))

    def remove(self, path: str) -> int:
        return _status_of(self._path(path).unlink)

    def rename(self, oldpath: str, newpath: str) -> int:
        """Rename, unless the target exists."""
        target = self._path(newpath)
        if target.exists():
            return int(SFTP_FAILURE)
        return _status_of(lambda: self._path(oldpath).rename(target))

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        """Rename, replacing an existing target."""
        return _status_of(lambda: self._path(oldpath).replace(self._path(newpath)))

    def mkdir(self, path: str, attr: SFTPAttributes) -> int:
        mode = attr.st_mode & 0o7777 if attr.st_mode is not None else 0o755
        return _status_of(lambda: self._path(path).mkdir(mode))

    def rmdir(self, path: str) -> int:
        """Delete an empty folder."""
        return _status_of(self._path(path).rmdir)

    def chattr(self, path: str, attr: SFTPAttributes) -> int:
        """Change the size, mode or times of a file."""
        return _status_of(lambda: _change_attributes(self._path(path), attr))

    def symlink(self, target_path: str, path: str) -> int:
        return _status_of(lambda: self._path(path).symlink_to(target_path))

    def readlink(self, path: str) -> str | int:
        return _result_of(lambda: str(self._path(path).readlink()))


class Sftp(SFTPServer):
    """The SFTP subsystem, which ends with an exit code like a program."""

    def finish_subsystem(self) -> None:
        """Send exit code 0 before the channel is closed, since a client receives nothing after that."""
        with suppress(OSError, EOFError):  # the client has gone
            if self.sock is not None:
                self.sock.send_exit_status(0)
        super().finish_subsystem()
