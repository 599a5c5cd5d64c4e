import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from aiohttp import web

from console.attach.tunnel import tunnel_files, tunnel_files as memory
from console.attach.tunnel.background import TunnelRequest, start_detached_tunnel, start_tunnel
from console.attach.tunnel.tunnel_files import TunnelProfile
from console.errors import BadInput, ConsoleError, NotFound
from tests.apiserver import ApiServer, alive, eventually
from tests.console.kube.kubelet import FORWARD, echo_port

POD = "/api/v1/namespaces/default/pods/p"
META = {"name": "p", "namespace": "default", "uid": "u"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tunnels of this test alone."""
    for name in ("STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path / "state" / "a4" / "tunnels"


def pod(phase: str = "Running") -> web.Response:
    return web.json_response({"metadata": META, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": phase}})


def serving(server: ApiServer) -> None:
    server.refuse[POD] = pod()
    server.handlers[FORWARD] = echo_port(2222)


async def carried(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    got = await asyncio.wait_for(reader.readexactly(5), 60)
    writer.close()
    return got


async def test_a_tunnel_by_itself_is_listed_and_stopped_from_elsewhere(
    tmp_path: Path, state: Path, server: ApiServer
) -> None:
    serving(server)
    order = TunnelRequest(
        "default", "pod/p", "", (":2222",), "", str(server.kubeconfig(tmp_path, token="secret-token"))
    )
    made, notes = await start_detached_tunnel(order)
    assert (made.name, made.kept, made.state) == ("p", True, "ready")
    taken = [note for note in notes if note.startswith("Port 2222 of this machine is taken by another program")]
    assert notes == taken, "another program of this machine may have that port"
    assert made.pid != os.getpid()
    port = made.listeners[0].local
    assert await carried(port) == b"HELLO"
    (listed,) = await tunnel_files.list_tunnels()
    assert (listed.pid, listed.listeners[0].connections, listed.listeners[0].sent) == (made.pid, 1, 5)
    assert_private(state)
    with pytest.raises(NotFound, match=r"There is no tunnel q\. There are: p\."):
        await tunnel_files.stop_tunnel("q")
    assert (await tunnel_files.stop_tunnel("p")).pid == made.pid
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert await tunnel_files.list_tunnels() == ()
    await eventually(lambda: not alive(made.pid))


def assert_private(folder: Path) -> None:
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"secret-token" not in path.read_bytes()


async def test_whoever_asked_reports_what_keeps_it_from_opening(tmp_path: Path, server: ApiServer) -> None:
    server.refuse[POD] = web.json_response({"kind": "Status", "message": "no", "reason": "NotFound"}, status=404)
    order = TunnelRequest("default", "pod/p", "", ("2222",), "", str(server.kubeconfig(tmp_path)))
    with pytest.raises(ConsoleError, match="There is no pod p in namespace default") as error:
        await start_detached_tunnel(order)
    assert error.value.exit_code == 1
    assert await tunnel_files.list_tunnels() == ()


async def test_it_ends_with_its_pod_and_says_why_afterwards(tmp_path: Path, server: ApiServer) -> None:
    serving(server)
    order = TunnelRequest("default", "pod/p", "", (":2222",), "", str(server.kubeconfig(tmp_path)))
    made, _ = await start_detached_tunnel(order)
    server.refuse[POD] = pod("Succeeded")
    _, writer = await asyncio.open_connection("127.0.0.1", made.listeners[0].local)
    await eventually(lambda: not alive(made.pid))
    writer.close()
    (listed,) = await tunnel_files.list_tunnels()
    assert (listed.state, listed.words) == ("ended", "Pod p has ended (succeeded).")
    await tunnel_files.stop_tunnel("p")
    assert await tunnel_files.list_tunnels() == ()


async def test_a_process_that_was_killed_is_reported(tmp_path: Path, server: ApiServer) -> None:
    serving(server)
    made, _ = await start_detached_tunnel(
        TunnelRequest("default", "pod/p", "", (":2222",), "", str(server.kubeconfig(tmp_path)))
    )
    os.kill(made.pid, 9)
    await eventually(lambda: not alive(made.pid))
    (listed,) = await tunnel_files.list_tunnels()
    assert (listed.state, listed.words) == ("ended", "Its process ended without an error message.")


async def test_two_to_the_same_place_have_two_names(server: ApiServer) -> None:
    serving(server)
    order = TunnelRequest("default", "pod/p", "", ("2222",))
    first = await start_tunnel(server.login(), order, is_background=False)
    second = await start_tunnel(server.login(), order, is_background=False)
    try:
        assert [each.name for each in await tunnel_files.list_tunnels()] == ["p", "p-2"]
        assert first.tunnel.listeners[0].local != second.tunnel.listeners[0].local
    finally:
        await first.close()
        await second.close()
    assert await tunnel_files.list_tunnels() == ()


def test_profiles_are_saved_and_forgotten() -> None:
    made = TunnelProfile("work", "default", "train", "0", ("8888",), "test")
    memory.save_profile(made)
    assert memory.find_profile("work") == made
    with pytest.raises(BadInput, match=r"There is no profile play\. There are: work\."):
        memory.find_profile("play")
    memory.forget_profile("work")
    assert memory.read_profiles() == ()


def test_files_that_are_broken_are_as_if_they_were_not(state: Path, tmp_path: Path) -> None:
    state.mkdir(parents=True)
    (state / "ports.json").write_text("{")
    (state / "odd.json").write_text(json.dumps({"name": "odd"}))
    (tmp_path / "config" / "a4").mkdir(parents=True)
    (tmp_path / "config" / "a4" / "tunnels.json").write_text('{"x": 1}')
    assert asyncio.run(tunnel_files.list_tunnels()) == ()
    assert memory.read_profiles() == ()
