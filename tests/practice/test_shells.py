"""Shells in pods: real ones, on this machine, with nothing of the person's in them; and SSH to port 2222."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import paramiko
import pytest

from console.metrics.gpu_metrics import parse_nvidia_smi
from practice.cluster import PracticeCluster
from practice.objects.api_error import ApiError
from practice.objects.resources import PODS
from practice.runtime import Stdio
from tests.practice.world import container

LIMIT = 60.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[PracticeCluster]:
    async with PracticeCluster(scene=False, speed=100, folder=tmp_path) as made:
        yield made


@pytest.fixture
def key() -> paramiko.PKey:
    return paramiko.ECDSAKey.generate()


async def pod(
    cluster: PracticeCluster, name: str = "a", command: tuple[str, ...] = ("sleep", "infinity"),
    image: str = "busybox:1", **env: str,
) -> None:  # fmt: skip
    variables = [{"name": key, "value": value} for key, value in env.items()]
    running = asyncio.Event()

    def notice(event: object) -> None:
        found = cluster.storage.find(PODS, "default", name)
        if found is not None and found["status"].get("phase") == "Running":
            running.set()

    unsubscribe = cluster.storage.subscribe(notice)
    made = {**container(env=variables), "command": list(command), "image": image}
    cluster.storage.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [made]}})
    await asyncio.wait_for(running.wait(), LIMIT)
    unsubscribe()


async def run(
    cluster: PracticeCluster, *argv: str, tty: bool = False, typed: bytes | None = None, sizes: int = 0
) -> tuple[int, bytes, bytes]:
    said = {1: b"", 2: b""}

    async def write(channel: int, data: bytes) -> None:
        said[channel] += data

    stdin = None
    if typed is not None:
        stdin = asyncio.StreamReader()
        stdin.feed_data(typed)
        stdin.feed_eof()
    resize: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    if sizes:
        resize.put_nowait((sizes, 33))
    call = cluster.runtime.exec("default", "a", "main", list(argv), Stdio(write, stdin, tty, resize))
    code = await asyncio.wait_for(call, LIMIT)
    return code, said[1], said[2]


async def test_the_environment_is_the_containers_alone(
    cluster: PracticeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "hush")
    await pod(cluster, A4_RECIPE="interactive")
    _, out, _ = await run(cluster, "env")
    env = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert env["A4_RECIPE"] == "interactive"
    assert "MY_SECRET" not in env
    assert env["HOME"].startswith(str(cluster.folder))
    assert env["HOME"] != os.environ.get("HOME")
    assert (await run(cluster, "pwd"))[1].decode().strip() == env["HOME"]


async def test_a_terminal_says_where_it_is(cluster: PracticeCluster) -> None:
    await pod(cluster)
    code, out, _ = await run(cluster, "sh", tty=True, typed=b"stty size; exit 4\n", sizes=101)
    assert code == 4
    first = out.decode().splitlines()[0]
    assert first == f"practice cluster: this shell runs on your own machine, in {cluster.folder}/pods/default/a/main"
    assert b"33 101" in out


async def test_gpus_are_those_of_the_machine(cluster: PracticeCluster) -> None:
    await pod(cluster)
    _, out, err = await run(cluster, "nvidia-smi")
    gpus = parse_nvidia_smi(out)
    assert [(gpu.name, gpu.memory_total, gpu.utilization) for gpu in gpus] == [("NVIDIA B200", 183359.0, 0.0)] * 8
    assert err == b"practice cluster: these readings are made up; no GPU is behind them\n"
    _, out, _ = await run(cluster, "nvidia-smi", "-L")
    listed = out.decode().splitlines()
    assert len(listed) == 8
    assert listed[0].startswith("GPU 0: NVIDIA B200 (UUID: GPU-")
    assert len(set(listed)) == 8
    _, out, _ = await run(cluster, "nvidia-smi", "--query-gpu=index,name,uuid", "--format=csv")
    assert [line.split(", ")[2] for line in out.decode().splitlines()[1:]] == [
        line.partition("UUID: ")[2].rstrip(")") for line in listed
    ]
    assert (await run(cluster, "hostname"))[1] == b"a\n"


async def test_a_missing_command(cluster: PracticeCluster) -> None:
    await pod(cluster)
    code, _, err = await run(cluster, "no-such-command")
    assert code == 127
    assert b"not found" in err


async def test_a_pod_that_does_not_run_has_no_shell(cluster: PracticeCluster) -> None:
    cluster.storage.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container(gpus=99)]}})
    with pytest.raises(ApiError):
        await run(cluster, "true")


async def test_another_port_is_closed(cluster: PracticeCluster) -> None:
    await pod(cluster)
    with pytest.raises(ApiError, match="connection refused"):
        await cluster.runtime.dial("default", "a", 6006)


async def test_a_program_that_was_started_in_the_pod_is_reached_at_its_port(cluster: PracticeCluster) -> None:
    await pod(cluster)
    await pod(cluster, "b")
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def write(channel: int, data: bytes) -> None:
        if channel == 1:
            port.set_result(int(data))

    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); "
        "s.accept()[0].sendall(b'hello')"
    )
    running = asyncio.create_task(
        cluster.runtime.exec("default", "a", "main", [sys.executable, "-c", script], Stdio(write))
    )
    number = await asyncio.wait_for(port, LIMIT)
    with pytest.raises(ApiError, match="connection refused"):  # of another pod, though of the same machine
        await cluster.runtime.dial("default", "b", number)
    reader, writer = await cluster.runtime.dial("default", "a", number)
    assert await asyncio.wait_for(reader.read(), LIMIT) == b"hello"
    writer.close()
    assert await asyncio.wait_for(running, LIMIT) == 0
    with pytest.raises(ApiError, match="connection refused"):
        await cluster.runtime.dial("default", "a", number)


async def test_an_image_without_sshd_has_nothing_on_its_port(cluster: PracticeCluster) -> None:
    await pod(cluster, image="nvcr.io/nvidia/pytorch:25.06-py3")
    with pytest.raises(ApiError, match="connection refused"):
        await cluster.runtime.dial("default", "a", 2222)


@contextlib.asynccontextmanager
async def bridge(cluster: PracticeCluster) -> AsyncIterator[socket.socket]:
    """A blocking socket whose other end is port 2222 of the pod."""
    ours, theirs = socket.socketpair()
    near_reader, near_writer = await asyncio.open_connection(sock=theirs)
    far_reader, far_writer = await cluster.runtime.dial("default", "a", 2222)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()

    copies = [
        asyncio.ensure_future(copy(near_reader, far_writer)),
        asyncio.ensure_future(copy(far_reader, near_writer)),
    ]
    try:
        yield ours
    finally:
        ours.close()
        for one in copies:
            one.cancel()
        near_writer.close()
        far_writer.close()


async def session(cluster: PracticeCluster, key: paramiko.PKey, command: str) -> tuple[int, bytes]:
    """Exit code and output of a command by ssh."""

    def talk(connection: socket.socket) -> tuple[int, bytes]:
        transport = paramiko.Transport(connection)
        transport.start_client(timeout=LIMIT)
        transport.auth_publickey("root", key)
        channel = transport.open_session(timeout=LIMIT)
        channel.exec_command(command)
        out = channel.makefile("rb").read()
        code = channel.recv_exit_status()
        transport.close()
        return code, out

    async with bridge(cluster) as connection:
        return await asyncio.wait_for(asyncio.to_thread(talk, connection), LIMIT)


async def test_a_known_key_logs_in(cluster: PracticeCluster, key: paramiko.PKey) -> None:
    await pod(cluster, SSH_PUBLIC_KEY=f"{key.get_name()} {key.get_base64()} me")

    assert await session(cluster, key, "echo $HOSTNAME; exit 7") == (7, b"a\n")


async def test_another_key_does_not(cluster: PracticeCluster, key: paramiko.PKey) -> None:
    await pod(cluster)

    def talk(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.start_client(timeout=LIMIT)
        try:
            transport.auth_publickey("root", key)
        finally:
            transport.close()

    async with bridge(cluster) as connection:
        with pytest.raises(paramiko.AuthenticationException):
            await asyncio.wait_for(asyncio.to_thread(talk, connection), LIMIT)


async def test_a_command_ends_with_its_container(cluster: PracticeCluster) -> None:
    await pod(cluster)
    begun = asyncio.Event()

    async def write(channel: int, data: bytes) -> None:
        begun.set()

    running = asyncio.create_task(
        cluster.runtime.exec("default", "a", "main", ["sh", "-c", "echo begun; sleep 60"], Stdio(write))
    )
    await asyncio.wait_for(begun.wait(), LIMIT)
    cluster.storage.delete(PODS, "default", "a", grace_seconds=0)
    assert await asyncio.wait_for(running, LIMIT) in (129, 137)


async def test_disks_are_the_pods(cluster: PracticeCluster) -> None:
    await pod(cluster)
    _, out, _ = await run(cluster, "df", "-hP")
    head, *rows = out.decode().splitlines()
    assert head.split() == ["Filesystem", "Size", "Used", "Available", "Capacity", "Mounted", "on"]
    assert [row.split()[0] for row in rows] == ["overlay"]
    _, out, _ = await run(cluster, "df", "-Pk", ".")
    assert int(out.decode().splitlines()[1].split()[3]) == (11_000 - 38) * 1024 * 1024
    _, out, _ = await run(cluster, "cat", "/proc/mounts")
    assert out == b"overlay / overlay rw,relatime 0 0\n"


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_mpi_and_its_test_answer_in_the_pod(cluster: PracticeCluster) -> None:
    await pod(
        cluster, HOSTNAME_PREFIX="t-workload-", DOMAIN_NAME="t.default.svc", NNODES="2", GPUS_PER_NODE="8",
        JOB_COMPLETION_INDEX="0",
    )  # fmt: skip
    hosts = "/etc/job-worker-services.txt"
    _, out, _ = await run(cluster, "cat", hosts)
    assert out == b"t-workload-0-0.t.default.svc slots=8\nt-workload-0-1.t.default.svc slots=8\n"
    _, out, _ = await run(cluster, "mpirun", "--allow-run-as-root", "--hostfile", hosts, "hostname")
    assert out.decode().split() == ["t-workload-0-0"] * 8 + ["t-workload-0-1"] * 8
    test = ["./build/all_reduce_perf", "-b", "1G", "-e", "8G", "-f", "2", "-g", "1"]
    code, out, err = await run(cluster, "mpirun", "--hostfile", hosts, "-np", "16", *test)
    rows = [line.split()[0] for line in out.decode().splitlines() if line and not line.startswith("#")]
    assert (code, rows) == (0, [str(2**power) for power in (30, 31, 32, 33)])
    assert err.startswith(b"practice cluster: figures worked out")
    code, out, err = await run(cluster, "mpirun", "--hostfile", hosts, "-np", "17", "hostname")
    assert (code, out) == (1, b"")
    assert b"not enough slots" in err
    code, _, err = await run(cluster, "mpirun", "--hostfile", hosts, "rm", "-rf", "/")
    assert (code, err.startswith(b"practice cluster: mpirun starts nothing here")) == (127, True)
    _, out, _ = await run(cluster, "ibv_devices")
    assert sum(b"mlx5_" in line for line in out.splitlines()) == 8


@pytest.mark.parametrize("launched", [False, True], ids=["sleep", "launcher"])
async def test_a_session_of_ssh_has_what_the_launcher_shares(
    cluster: PracticeCluster, key: paramiko.PKey, launched: bool
) -> None:
    """An sshd knows nothing of its container's environment; the launchers write it to where sshd reads it."""
    command = ("bash", "/a4/launchers/run.sh") if launched else ("sleep", "infinity")
    env = {"NCCL_DEBUG": "WARN", "SSH_PUBLIC_KEY": f"{key.get_name()} {key.get_base64()}", "TWO": "a\nb"}
    await pod(cluster, command=command, **env)
    _, out, _ = await run(cluster, "env")
    assert b"NCCL_DEBUG=WARN" in out
    said = (await session(cluster, key, "env"))[1].decode().splitlines()
    assert ("NCCL_DEBUG=WARN" in said) is launched
    assert not any(line.startswith("TWO=") for line in said)
    assert any(line.startswith("HOME=") for line in said)


async def test_who_only_knocks_is_no_news(cluster: PracticeCluster, caplog: pytest.LogCaptureFixture) -> None:
    await pod(cluster)
    async with bridge(cluster):
        (transport,) = cluster.runtime._ports._transports
    await asyncio.to_thread(transport.join, LIMIT)
    assert not transport.is_active()
    assert not [each for each in caplog.records if each.levelname in ("ERROR", "WARNING")]


async def test_pods_of_a_release_reach_each_other_by_ssh(cluster: PracticeCluster) -> None:
    launched = ("bash", "/a4/launchers/run.sh")
    await pod(cluster, command=launched)
    await pod(cluster, "b", launched, WHO="b", LINES="two\nlines")
    address = cluster.storage.get(PODS, "default", "b")["status"]["podIP"]
    command = "'echo $WHO-$HOSTNAME-$LINES; cat; exit 3'"
    over = f"ssh -F ~/.ssh/config -o BatchMode=yes -o HostName={address} -- b-workload-0-0 {command}"
    assert await run(cluster, "sh", "-c", over, typed=b"typed") == (3, b"b-b-\ntyped", b"")
    code, _, why = await run(cluster, "ssh", "10.99.99.99", "true")
    assert (code, why.decode()) == (255, "ssh: Could not resolve hostname 10.99.99.99: Name or service not known\n")
    code, _, why = await run(cluster, "sh", "-c", "rm ~/.ssh/id_pods; ssh b true")
    assert (code, why.decode()) == (255, "root@b: Permission denied (publickey).\n")
