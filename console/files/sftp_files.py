"""Files of one container, large ones over SFTP: the rest is done by commands, which are quicker to begin."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from console.errors import ConsoleError, CopyFailed
from console.files.pod_files import PodFiles, Start, closing
from console.models.copying import Way

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager, AsyncExitStack

    from console.ssh.sftp import Sftp

FROM = 32 << 20
"""Bytes from which a file is worth a connection to sshd, which takes half a second."""


class SftpFiles(PodFiles):
    """Connects at the first large file; where sshd does not answer, commands do all, and `note` says why."""

    def __init__(
        self,
        start: Start,
        where: str,
        connect: Callable[[], AbstractAsyncContextManager[Sftp]],
        stack: AsyncExitStack,
        *,
        only: bool,
    ) -> None:
        super().__init__(start, where)
        self._connect, self._stack, self._only = connect, stack, only
        self._sftp: Sftp | None = None
        self.way = Way.SFTP if only else Way.EXEC
        self.together = not only

    async def _for(self, size: int) -> Sftp | None:
        """SFTP for that many bytes; None if it is not worth it, or cannot be had."""
        if self._sftp is None and not self.note and (self._only or size >= FROM):
            try:
                self._sftp = await self._stack.enter_async_context(self._connect())
                self.way = Way.SFTP
            except ConsoleError as error:
                if self._only:
                    raise
                self.note = f"It went by exec, because SFTP could not be used: {error.message}"
        return self._sftp

    async def read(self, path: str, offset: int, size: int) -> AsyncGenerator[bytes, None]:
        """At most `size` bytes from there on."""
        sftp = await self._for(size)
        source = sftp.read(path, offset, size) if sftp else super().read(path, offset, size)
        async with aclosing(source) as pieces:
            async for data in pieces:
                yield data

    async def write(self, path: str, chunks: AsyncIterator[bytes], offset: int, size: int) -> None:
        """Append `size` bytes to a file that has `offset`; 0 begins it anew."""
        sftp = await self._for(size)
        if sftp is None:
            await super().write(path, chunks, offset, size)
            return
        if offset and await self.size(path) != offset:
            raise CopyFailed("The part that was there has changed.")
        async with closing(chunks):
            await sftp.write(path, chunks, offset)
