from __future__ import annotations

import asyncio
import socket

import pytest

from console.cluster.forward import dial, forward
from console.errors import BadInput, NotFound, Unreachable
from tests.apiserver import ApiServer, status
from tests.console.cluster.kubelet import FORWARD, echo_port


async def test_bytes_both_ways_and_several_at_once() -> None:
    async with ApiServer() as server, server.client() as client:
        server.handlers[FORWARD] = echo_port(2222)
        async with forward(client, "default", "p", 2222) as port:
            pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for number, (_, writer) in enumerate(pairs):
                writer.write(f"hello {number}".encode() * 1000)
            for number, (reader, writer) in enumerate(pairs):
                assert await asyncio.wait_for(reader.readexactly(7000), 5) == f"HELLO {number}".encode() * 1000
                writer.write(b"bye")
                assert await asyncio.wait_for(reader.read(), 5) == b"BYE"
                writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_nobody_serves_closes_the_connection_and_keeps_listening() -> None:
    async with ApiServer() as server, server.client() as client:
        server.handlers[FORWARD] = echo_port(2222)
        async with forward(client, "default", "p", 9) as port:
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.close()
                await writer.wait_closed()
        async with dial(client, "default", "p", 9) as pipe:
            with pytest.raises(Unreachable, match="port 9 of pod p: error forwarding port: connection refused"):
                await pipe.receive()


async def test_a_pod_that_is_not_there() -> None:
    async with ApiServer() as server, server.client() as client:
        server.refuse[FORWARD] = status(404, 'pods "p" not found', reason="NotFound")
        with pytest.raises(NotFound, match="Could not reach port 22 of pod p"):
            async with dial(client, "default", "p", 22):
                pass


async def test_a_local_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with ApiServer() as server, server.client() as client:
            with pytest.raises(BadInput, match="cannot be used"):
                async with forward(client, "default", "p", 22, local_port=taken.getsockname()[1]):
                    pass


async def test_closing_ends_open_connections() -> None:
    async with ApiServer() as server, server.client() as client:
        server.handlers[FORWARD] = echo_port(2222)
        async with forward(client, "default", "p", 2222) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            assert await asyncio.wait_for(reader.readexactly(1), 5) == b"X"
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
