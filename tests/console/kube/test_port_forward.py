import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from console.attach.tunnel import local_forward, relay
from console.attach.tunnel.local_forward import LocalForward, PortForwarder
from console.attach.tunnel.tunnel_files import Tunnel
from console.errors import BadInput, NotFound, NotLoggedIn, Unreachable
from console.kube import websocket
from console.kube.kubeconfig import User
from console.kube.pod_address import PodAddress, PortPair
from console.kube.port_forward import JobEnded, LivePod
from console.kube.raw_connection import RawConnection
from tests.apiserver import ApiServer, eventually, status
from tests.console.kube.kubelet import FORWARD, V4, echo_port

P = LivePod("default", "p", "uid-p")
POD = "/api/v1/namespaces/default/pods/p"
TO_P = PodAddress("default", "", pod="p")


def pod(uid: str = "uid-p", phase: str = "Running") -> web.Response:
    meta = {"name": "p", "namespace": "default", "uid": uid}
    return web.json_response({"metadata": meta, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": phase}})


@asynccontextmanager
async def tunnel(server: ApiServer, port: int = 2222, local: int = 0) -> AsyncIterator[LocalForward]:
    """A tunnel to pod p."""
    server.refuse.setdefault(POD, pod())
    made = LocalForward(PortForwarder(server.login(), limit=5), TO_P, [PortPair(port, local)], name="p", context="test")
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def local_of(forwarding: LocalForward) -> int:
    return forwarding.tunnel.listeners[0].local


def streaming(
    behave: Callable[[web.WebSocketResponse], Awaitable[None]],
) -> Callable[..., Awaitable[web.StreamResponse]]:
    """A kubelet that does as it is told once the channels are open."""

    async def serve(request: web.Request) -> web.StreamResponse:
        answer = web.WebSocketResponse(protocols=(V4,), autoping=False)
        await answer.prepare(request)
        for channel in (0, 1):
            await answer.send_bytes(bytes([channel]) + int(request.query["ports"]).to_bytes(2, "little"))
        with suppress(ConnectionError):
            await behave(answer)
        return answer

    return serve


async def test_bytes_both_ways_and_several_at_once(server: ApiServer) -> None:
    server.handlers[FORWARD] = echo_port(2222)
    async with tunnel(server) as made:
        port = local_of(made)
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for number, (_, writer) in enumerate(pairs):
            writer.write(f"hello {number}".encode() * 1000)
        for number, (reader, writer) in enumerate(pairs):
            assert await asyncio.wait_for(reader.readexactly(7000), 60) == f"HELLO {number}".encode() * 1000
            writer.write(b"bye")
            assert await asyncio.wait_for(reader.read(), 60) == b"BYE"
            writer.close()
        await eventually(lambda: made.tunnel.listeners[0].open == 0)
        counted = made.tunnel.listeners[0]
        assert (counted.connections, counted.sent, counted.received) == (3, 21_009, 21_009)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_nobody_serves_closes_the_connection_and_keeps_listening(server: ApiServer) -> None:
    server.handlers[FORWARD] = echo_port(2222)
    async with tunnel(server, 9) as made:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        await eventually(lambda: made.tunnel.last_end)
        assert made.tunnel.last_end == "Nothing listens on port 9 of pod p."
    async with PortForwarder(server.login()).open_stream(P, 9) as pipe:
        with pytest.raises(Unreachable, match=r"Nothing listens on port 9 of pod p\."):
            await pipe.receive()


async def test_a_pod_that_is_not_there(server: ApiServer) -> None:
    server.refuse[FORWARD] = status(404, 'pods "p" not found', reason="NotFound")
    with pytest.raises(NotFound, match="Could not reach port 22 of pod p"):
        await PortForwarder(server.login()).open_pipe(P, 22)
    server.refuse[POD] = status(404, 'pods "p" not found', reason="NotFound")
    with pytest.raises(JobEnded, match="There is no pod p in namespace default"):
        await PortForwarder(server.login()).open_pipe(TO_P, 22)


async def test_a_local_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with ApiServer() as server:
            with pytest.raises(BadInput, match=f"Port {port} of this machine is taken by another program"):
                async with tunnel(server, 22, local=port):
                    pass
            async with tunnel(server, port) as made:  # nobody asked for that very one
                assert local_of(made) != port
                assert made.notes == [
                    f"Port {port} of this machine is taken by another program: {local_of(made)} forwards to {port}."
                ]
                again = local_of(made)
        async with server, tunnel(server, port) as made:
            assert local_of(made) == again  # the same again, though the first choice would be free


async def test_closing_ends_open_connections(server: ApiServer) -> None:
    server.handlers[FORWARD] = echo_port(2222)
    async with tunnel(server) as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
        writer.write(b"x")
        assert await asyncio.wait_for(reader.readexactly(1), 60) == b"X"
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()


async def test_a_connection_that_breaks_says_so() -> None:
    async def behave(answer: web.WebSocketResponse) -> None:
        await answer.send_bytes(b"\x00some")
        assert (await answer.receive()).data == b"\x00more"
        assert isinstance(answer._req, web.Request)
        assert answer._req.transport is not None
        answer._req.transport.abort()

    async with ApiServer() as server:
        server.handlers[FORWARD] = streaming(behave)
        async with tunnel(server) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
            assert await reader.readexactly(4) == b"some"
            writer.write(b"more")
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
            await eventually(lambda: made.tunnel.last_end)
            assert made.tunnel.last_end.startswith("The connection to port 2222 of pod p broke off: ")


async def test_an_api_server_that_restarts(server: ApiServer) -> None:
    server.handlers[FORWARD] = echo_port(2222)
    async with tunnel(server) as made:
        await server.stop()
        reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        await eventually(lambda: made.tunnel.state == "lost")
        assert "nothing answers there (connection refused)" in made.tunnel.words
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
        writer.write(b"back")
        assert await asyncio.wait_for(reader.readexactly(4), 60) == b"BACK"
        assert made.tunnel.state == "ready"
        writer.close()


async def test_a_token_that_runs_out_in_the_middle(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with ApiServer(secure=True) as server:
        server.tokens, server.refuse[POD] = {"old"}, pod()
        server.handlers[FORWARD] = echo_port(2222)
        reach = PortForwarder(server.login(User(token_file=str(file))))
        async with reach.open_stream(TO_P, 2222) as pipe:
            server.tokens = {"new"}
            await pipe.send(b"still")  # who is in stays in
            assert await pipe.receive() == b"STILL"
            file.write_text("new")
            async with reach.open_stream(TO_P, 2222) as other:
                await other.send(b"again")
                assert await other.receive() == b"AGAIN"
        file.write_text("wrong")
        server.tokens = {"newer"}
        with pytest.raises(NotLoggedIn, match="Unauthorized"):
            await reach.open_pipe(TO_P, 2222)


async def test_a_slow_reader_holds_the_pod_back() -> None:
    size, piece = 64 << 20, bytes(1 << 16)

    async def behave(answer: web.WebSocketResponse) -> None:
        for _ in range(size // len(piece)):
            await answer.send_bytes(b"\x00" + piece)
        await answer.close()

    async with ApiServer() as server:
        server.handlers[FORWARD] = streaming(behave)
        async with tunnel(server) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made), limit=1 << 16)
            got, most = 0, 0
            while data := await reader.read(1 << 16):
                got += len(data)
                held = [each._sink.get_write_buffer_size() for each in made._relays if each._sink]
                most = max([most, *held])
            writer.close()
    assert got == size
    assert most <= 2 * relay.MAX_BUFFERED + (1 << 18)


async def test_a_slow_pod_holds_the_writer_back() -> None:
    size = 64 << 20
    got = 0
    reads = asyncio.Event()

    async def behave(answer: web.WebSocketResponse) -> None:
        nonlocal got
        await reads.wait()
        while got < size and (message := await answer.receive()).type is web.WSMsgType.BINARY:
            got += len(message.data) - 1
        await answer.close()

    async def write(writer: asyncio.StreamWriter) -> None:
        for _ in range(size >> 16):
            writer.write(bytes(1 << 16))
            await writer.drain()

    async with ApiServer() as server:
        server.handlers[FORWARD] = streaming(behave)
        async with tunnel(server) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
            writing = asyncio.ensure_future(write(writer))
            # Nobody reads, so it can never end: what is written has nowhere to go but the buffers of the system.
            assert not (await asyncio.wait({writing}, timeout=0.3))[0]
            pipes = [each._pipe for each in made._relays if each._pipe]  # others of this machine may connect too
            waiting = [each._socket._transport.get_write_buffer_size() for each in pipes]
            assert 0 < max(waiting) <= 2 * websocket.MAX_UNSENT_BYTES + (1 << 18)
            reads.set()
            await asyncio.wait_for(writing, 60)
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
    assert got == size


async def test_a_network_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(websocket, "PONG_TIMEOUT", 0.05)
    silent = asyncio.Event()

    async def behave(answer: web.WebSocketResponse) -> None:
        await silent.wait()

    async with ApiServer() as server:
        server.handlers[FORWARD] = streaming(behave)
        async with PortForwarder(server.login()).open_stream(P, 2222) as pipe:
            with pytest.raises(Unreachable, match="the API server no longer answers on it"):
                await asyncio.wait_for(pipe.receive(), 60)
        silent.set()


async def test_a_machine_that_slept_asks_whether_its_connections_still_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_forward, "CLOCK_CHECK_SECONDS", 0.01)
    now = [1000.0]
    pinged = asyncio.Event()

    async def behave(answer: web.WebSocketResponse) -> None:
        while (message := await answer.receive()).type is not web.WSMsgType.PING:
            assert message.type is web.WSMsgType.BINARY
        pinged.set()
        await answer.pong(message.data)
        await answer.send_bytes(b"\x00here")
        await answer.receive()

    async with ApiServer() as server:
        server.handlers[FORWARD] = streaming(behave)
        server.refuse[POD] = pod()
        made = LocalForward(
            PortForwarder(server.login()), TO_P, [PortPair(2222)], name="p", context="test", clock=lambda: now[0]
        )
        await made.open()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
            writer.write(b"hello")
            await eventually(lambda: made.tunnel.listeners[0].sent == 5)
            now[0] += 3600
            await asyncio.wait_for(pinged.wait(), 60)
            assert await reader.readexactly(4) == b"here"
            writer.close()
        finally:
            await made.close()


async def test_the_pod_of_the_next_connection_is_the_one_there_is_then(server: ApiServer) -> None:
    server.handlers[FORWARD] = echo_port(2222)
    server.refuse[POD] = pod("first")
    told: list[Tunnel] = []
    async with tunnel(server) as made:
        made.on_change = told.append
        server.refuse[POD] = pod("second", "Pending")
        reader, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
        writer.write(b"x")
        await eventually(lambda: made.tunnel.state == "waiting")
        assert made.tunnel.words == "Waiting for pod p: it is pending."
        server.refuse[POD] = pod("second")
        assert await asyncio.wait_for(reader.readexactly(1), 60) == b"X"
        writer.close()
        assert (made.tunnel.state, made.tunnel.reconnections) == ("ready", 1)
        server.refuse[POD] = pod("second", "Failed")
        _, writer = await asyncio.open_connection("127.0.0.1", local_of(made))
        await asyncio.wait_for(made.ended.wait(), 60)
        writer.close()
        assert told[-1].words == "Pod p has ended (failed)."


async def answer(local: int) -> None:
    """A client that gets what it sends in capitals, and goes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", local)
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.readexactly(5), 60) == b"HELLO"
    writer.close()


async def test_the_next_connection_goes_over_one_that_was_made_ahead_unless_it_has_ended() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with ApiServer() as server:
        server.handlers[FORWARD] = echo_port(2222)
        async with tunnel(server) as made, await asyncio.start_server(end, "127.0.0.1", 0) as ends:
            ahead = made._forwarder._spare_connections
            await eventually(lambda: [each for each in ahead._opening if each.done()])
            ((first, _),) = ahead._opening.items()
            await answer(local_of(made))
            assert first.result()._is_upgraded
            assert first not in ahead._opening
            ahead.close()
            ended = RawConnection(made._forwarder.login, *await asyncio.open_connection(*ends.sockets[0].getsockname()))
            gone = asyncio.get_running_loop().create_future()
            gone.set_result(ended)
            ahead._opening[gone] = asyncio.get_running_loop().call_later(60, ended.close)
            await answer(local_of(made))
            assert gone not in ahead._opening, "it was tried"
            assert not ended._is_upgraded, "but a new one was made when it had ended at the first word"
        assert not ahead._opening


async def test_a_client_after_others_has_a_connection_that_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_forward, "_MIN_POLL_SECONDS", 60.0)  # no look at the pod but the test's own
    async with ApiServer() as server:
        server.handlers[FORWARD] = echo_port(2222)
        async with tunnel(server) as made:
            (door,) = made._local_ports
            await answer(local_of(made))
            assert not door.spares._opening, "what listens may accept one connection only"
            await answer(local_of(made))
            await eventually(lambda: all(each.done() for each in door.spares._opening))
            (spare,) = door.spares._opening
            server.refuse[POD] = pod("second")
            await made._find_pod()
            assert not door.spares._opening, "it led to the pod of before"
            await eventually(lambda: spare.result()[0].closed)
            await answer(local_of(made))
            await eventually(lambda: all(each.done() for each in door.spares._opening))
            assert sum(each.path == FORWARD for each in server.requests) == 6, "three clients and three spares"
            server.refuse[POD] = pod("second", "Pending")  # nobody asks
            await answer(local_of(made))
            assert (len(door.spares._opening), made.tunnel.listeners[0].connections) == (3, 4)
        assert not door.spares._opening
