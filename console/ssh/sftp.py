"""Bytes of files over SFTP: from an offset on, with many requests under way. One user at a time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import paramiko

from console.errors import CopyFailed, Unreachable
from console.ssh.client import ANSWER, open_transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from console.watched import WatchedCluster

_REQUEST = 1 << 15
"""Bytes of one answer; servers need not give more."""
_BLOCK = 64 * _REQUEST
"""Bytes that are asked for at a time."""
_LONGEST_PACKET = 1 << 20
"""Bytes; servers answer with a quarter of it at most."""
_PATIENCE = 2.0
"""Seconds for which a block that is no longer wanted is waited for: a connection closed below it would complain."""


class _Client(paramiko.SFTPClient):
    """A client whose server cannot fill the memory: the library reads a packet of any announced length whole."""

    def _read_all(self, n: int) -> bytes:
        if n > _LONGEST_PACKET:
            raise paramiko.SSHException(f"the server announces a packet of {n} bytes")
        return super()._read_all(n)  # type: ignore[misc, no-any-return]


class Sftp:
    """Files of one connection."""

    def __init__(self, client: paramiko.SFTPClient) -> None:
        self._client = client

    async def read(self, path: str, offset: int, size: int) -> AsyncGenerator[bytes, None]:
        """At most `size` bytes from there on. Raises Unreachable, CopyFailed."""
        with _told(path):
            file = await asyncio.to_thread(self._client.open, path, "rb")
            try:
                while size and (data := await _finished(_block, file, offset, min(_BLOCK, size))):
                    data = data[:size]
                    size -= len(data)
                    offset += len(data)
                    yield data
            finally:
                await asyncio.to_thread(file.close)

    async def write(self, path: str, chunks: AsyncIterator[bytes], offset: int) -> None:
        """Write from there on; 0 begins the file anew. Raises Unreachable, CopyFailed."""
        with _told(path):
            file = await asyncio.to_thread(self._client.open, path, "r+b" if offset else "wb")
            try:
                file.set_pipelined(True)
                await asyncio.to_thread(file.seek, offset)
                async for data in chunks:
                    await asyncio.to_thread(file.write, data)
            finally:
                await asyncio.to_thread(file.close)


def _block(file: paramiko.SFTPFile, offset: int, size: int) -> bytes:
    """So many bytes from there on, fewer at the end; all asked for before the first is waited for."""
    end = offset + size
    return b"".join(file.readv([(at, min(_REQUEST, end - at)) for at in range(offset, end, _REQUEST)]))


async def _finished(work: Callable[..., bytes], *arguments: object) -> bytes:
    """The same in a thread, which is not left alone with the connection when nobody waits for it any more."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_PATIENCE)
        raise


@asynccontextmanager
async def open_sftp(watched: WatchedCluster, namespace: str, pod: str) -> AsyncIterator[Sftp]:
    """SFTP with a pod's sshd; raises as `open_transport` does."""
    async with open_transport(watched, namespace, pod) as transport:
        with _told("SFTP"):
            client = await asyncio.to_thread(_Client.from_transport, transport)
        if client is None:
            raise Unreachable("The SSH server has no SFTP.")
        channel = client.get_channel()
        if channel is not None:
            channel.settimeout(ANSWER * 3)
        try:
            yield Sftp(client)
        finally:
            await asyncio.to_thread(client.close)


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (paramiko.SSHException, EOFError, TimeoutError, ConnectionError) as error:
        raise Unreachable(f"The SFTP connection broke off: {str(error).strip('. ') or 'no answer'}.") from error
    except OSError as error:
        if str(error) == "Socket is closed":
            raise Unreachable("The SFTP connection broke off.") from error
        raise CopyFailed(f"{path}: {error.strerror or error}, says the SFTP server.") from error
