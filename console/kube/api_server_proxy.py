"""A proxy on this machine that leads to one API server and nowhere else.

Helm's library follows a redirect and sends the login again, to whatever host it names. What goes through this proxy
reaches the API server only. TLS ends at the two sides: the proxy sees neither logins nor answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from console.kube.failures import NotConnected
from console.kube.raw_connection import CONNECT, connect_stream

if TYPE_CHECKING:
    from console.kube.login import Login

_PIECE = 1 << 16


class ApiServerProxy:
    """Answers CONNECT for the API server's address, on a loop and thread of its own: who uses it may block."""

    def __init__(self, login: Login) -> None:
        self._login = login
        base = urlsplit(login.server)
        host = base.hostname or ""
        self._place = f"[{host}]:{base.port or 443}" if ":" in host else f"{host}:{base.port or 443}"
        self.url = ""
        self.elsewhere = ""  # the last other address that was asked for, and refused
        self.failure: Exception | None = None  # why the last connection to the API server was not made

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT):
                asked = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            if asked[:2] != ["CONNECT", self._place]:
                self.elsewhere = asked[1] if len(asked) > 1 else "another address"
                writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            try:
                async with asyncio.timeout(CONNECT):
                    there_reader, there_writer = await connect_stream(self._login)
            except (OSError, EOFError, NotConnected, asyncio.LimitOverrunError) as error:
                self.failure = error
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
            finally:
                there_writer.transport.abort()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            """Who asked has gone, or speaks no HTTP."""
        except asyncio.CancelledError:
            """The proxy ends; until Python 3.12 a server prints the traceback of a cancelled connection."""
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE):
        target.write(piece)
        await target.drain()
    with suppress(OSError):
        target.write_eof()


@contextmanager
def api_server_proxy(login: Login) -> Iterator[ApiServerProxy]:
    """Such a proxy as long as this block runs, also while the caller's event loop stands still or has ended."""
    proxy, loop = ApiServerProxy(login), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="api-server-proxy")
    thread.start()
    server = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()

    async def end() -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
