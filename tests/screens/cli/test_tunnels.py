import asyncio
import json
import sys
from pathlib import Path

import pytest
from aiohttp import web

from screens.__main__ import main
from screens.cli.proxy import parse_arguments, proxy_arguments
from tests.apiserver import ApiServer, status
from tests.console.kube.kubelet import FORWARD, echo_port
from tests.kubeconfigs import write_kubeconfig

POD = "/api/v1/namespaces/default/pods/p"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def pod() -> web.Response:
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    return web.json_response({"metadata": meta, "spec": {}, "status": {"phase": "Running"}})


async def a4(*argv: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "screens", *argv, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def test_standard_input_and_output_lead_to_the_port(tmp_path: Path) -> None:
    async with ApiServer() as server:
        server.refuse[POD], server.handlers[FORWARD] = pod(), echo_port(2222)
        process = await a4("proxy", "pod/p", "--kubeconfig", str(server.kubeconfig(tmp_path)))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello")
        assert await asyncio.wait_for(process.stdout.readexactly(5), 60) == b"HELLO"
        process.stdin.write(b"bye")
        assert await process.communicate() == (b"BYE", b"")
        assert process.returncode == 0


@pytest.mark.slow(reason="commands as processes on a practice cluster")
async def test_what_is_wrong_is_reported_on_standard_error_and_by_the_exit_code(tmp_path: Path) -> None:
    async with ApiServer() as server:
        server.refuse[POD] = status(404, "no", reason="NotFound")
        kubeconfig = str(server.kubeconfig(tmp_path))
        process = await a4("--kubeconfig", kubeconfig, "proxy", "pod/p")
        out, errors = await process.communicate()
        assert (out, errors, process.returncode) == (b"", b"a4: There is no pod p in namespace default.\n", 1)
        process = await a4("proxy", "train", "x", "--kubeconfig", kubeconfig)
        _, errors = await process.communicate()
        assert process.returncode == 2
        assert errors.startswith(b"a4: x is not the index of a pod. Give the index of a pod in the job (3)")
    process = await a4("proxy", "pod/p", "--kubeconfig", kubeconfig, "--wait", "0")
    _, errors = await process.communicate()
    assert process.returncode == 4
    assert b"nothing answers there (connection refused)" in errors


def test_where_the_word_proxy_is_the_command() -> None:
    assert proxy_arguments(["proxy", "a", "0"]) == ["a", "0"]
    assert proxy_arguments(["-n", "proxy", "jobs"]) is None
    assert proxy_arguments(["--context", "c", "--read-only", "proxy", "a"]) == ["--context", "c", "--read-only", "a"]
    assert proxy_arguments(["logs", "proxy"]) is None
    words, given = parse_arguments(["-nteam", "a", "--port=22", "workers/1", "--read-only"])
    assert (words, given) == (["a", "workers/1"], {"namespace": "team", "port": "22"})


@pytest.mark.slow(reason="commands as processes on a practice cluster")
async def test_forward_then_list_stop_and_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "console.attach.tunnel.tunnel_files.TUNNEL_ANSWER_TIMEOUT", 60.0
    )  # its process may have to wait for a processor
    async with ApiServer() as server:
        server.refuse[POD], server.handlers[FORWARD] = pod(), echo_port(2222)
        kubeconfig = str(server.kubeconfig(tmp_path))
        process = await a4("forward", "pod/p", ":2222", "--save", "mine", "--kubeconfig", kubeconfig)
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        port = int(line.removeprefix("127.0.0.1:").split(" ")[0])
        assert line == f"127.0.0.1:{port} forwards to port 2222 of pod p (pod p).\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"bye")
        assert await reader.read() == b"BYE"
        writer.close()
        assert await asyncio.to_thread(main, ["tunnels", "--json"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)["items"]
        assert (listed["name"], listed["state"], listed["kept"]) == ("p", "ready", False)
        assert listed["listeners"][0]["local"] == port
        assert await asyncio.to_thread(main, ["tunnels", "stop", "p"]) == 0
        assert await process.wait() == 0
        assert capsys.readouterr().out == f"Stopped p: 127.0.0.1:{port} forwards to port 2222 of pod p.\n"
    assert await asyncio.to_thread(main, ["tunnels"]) == 0
    assert "No tunnel is open." in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["tunnels", "profiles"]) == 0
    assert ":2222" in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["tunnels", "forget", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"kind": "profiles", "forgotten": ["mine"]}
    assert await asyncio.to_thread(main, ["tunnels", "forget", "mine"]) == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["forward", "train", "0"], "Name a job, a pod and one or more ports."),
        (["forward", "train", "0", "99999"], "99999 names no ports."),
        (["forward", "train:0", "99999"], "99999 names no ports."),
        (["forward", "train:0"], "Name a job, a pod and one or more ports."),
        (["forward", "train", "0", "8888", "9000:8888"], "Port 8888 of the pod is named twice."),
        (["forward", "--profile", "nope"], "There is no profile nope."),
        (["tunnels", "stop"], "Name the tunnels to stop, or give --all."),
    ],
)
def test_usage(argv: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:9"}, {})
    assert main([*argv, "--kubeconfig", str(file)]) == (1 if "nope" in argv else 2)
    assert words in capsys.readouterr().err
