"""A cable to the API server that can be pulled out and put back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Cable:
    """Passes bytes on to a server of this machine, under a port of its own."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._dead = False
        self._silent: set[asyncio.StreamWriter] = set()

    @property
    def connections(self) -> int:
        """How many there are through it."""
        return len(self._open) // 2

    def kill(self) -> None:
        """Let whatever is sent vanish, without a word to either side, until it is pulled."""
        self._dead = True

    def hush(self) -> None:
        """Let whatever is sent over the connections that stand vanish for ever; new ones work."""
        self._silent |= self._open

    async def plug(self) -> None:
        """Put it in."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._dead = False
        self.port = self._server.sockets[0].getsockname()[1]

    async def pull(self) -> None:
        """Break every connection off, and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
            self._open |= {writer, back}
            try:
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
            finally:
                for each in (writer, back):
                    self._open.discard(each)
                    each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if not self._dead and writer not in self._silent:
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def cable(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[Cable, Path]]:
    """A cable to the server of that kubeconfig, and a kubeconfig that leads through it."""
    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert server.port is not None
    made = Cable(server.port)
    await made.plug()
    config["clusters"][0]["cluster"]["server"] = f"{server.scheme}://127.0.0.1:{made.port}"
    through = folder / "kubeconfig"
    through.write_text(yaml.safe_dump(config))
    through.chmod(0o600)
    try:
        yield made, through
    finally:
        await made.pull()
