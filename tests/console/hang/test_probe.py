"""What a pod is asked beside its stacks: whether it reaches the port where ranks meet, and its RDMA devices."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rankscope import HangReport, PodTrace, format_pod_lines, probe
from tests.console.hang.test_inspector import FORBIDDEN
from tests.fakes import present


def test_the_master_s_port_is_reached_or_the_reason_is_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        found = present(probe.check_master([{"env": {}}, {"env": env}]))
        assert (found["ok"], found["address"], found["port"]) == (True, "127.0.0.1", port)
    shut = present(probe.check_master([{"env": env}]))
    assert (shut["ok"], shut["why"]) == (False, "Connection refused")
    assert probe.check_master([{"env": {"MASTER_ADDR": "a", "MASTER_PORT": "none"}}]) is None


def test_a_process_of_another_proc_may_have_the_number_of_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.getpid() not in probe.read_all_processes()
    monkeypatch.setattr(probe, "PROC_FOLDER", str(tmp_path))
    place = tmp_path / str(os.getpid())
    place.mkdir()
    (place / "cmdline").write_bytes(b"python\0train.py\0")
    assert list(probe.read_all_processes()) == [os.getpid()]


def test_rdma_devices_with_the_state_of_their_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A4_RDMA", str(tmp_path))
    assert probe.read_rdma_state() == []
    for name, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        port = tmp_path / name / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    assert [(each["name"], each["state"]) for each in probe.read_rdma_state()] == [
        ("mlx5_0", "ACTIVE"),
        ("mlx5_1", "DOWN"),
    ]


def test_both_are_reported_pod_by_pod() -> None:
    devices = (("mlx5_0", "ACTIVE"), ("mlx5_1", "DOWN"))
    pods = (
        PodTrace(0, "w-0", "n0", master="w-0:6002", reached=True, rdma=devices[:1]),
        PodTrace(1, "w-1", "n1", master="w-0:6002", reached=False, unreached="Connection refused", rdma=devices),
    )
    told = "\n".join(format_pod_lines(report(pods)))
    assert "Master w-0:6002: reached from 1 of 2 pods" in told
    assert "✗ pod 1, n1: Connection refused" in told
    assert "RDMA: 1–2 devices a pod, 1 not active" in told
    assert "✗ pod 1, n1: mlx5_1 DOWN" in told
    assert "no pod knows MASTER_ADDR" in format_pod_lines(report((PodTrace(0, "w-0", "n0"),)))[0]


def report(pods: tuple[PodTrace, ...]) -> HangReport:
    return HangReport("job", pods, ())


def test_nccl_alone_is_asked_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "ncclras"
    tool.write_text("#!/bin/sh\necho NCCL version 2.28.9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("sys.argv", ["-c", "ras-only"])
    probe.main()
    assert json.loads(capsys.readouterr().out) == {
        "processes": [], "ras": {"text": "NCCL version 2.28.9\n", "why": ""},
    }  # fmt: skip


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize("reads", [True, False])
def test_a_recorder_whose_watchdog_has_ended_is_given_up_at_once(
    reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a collective that failed, or where the process is stopped: its pipe is open, and nobody reads it."""
    monkeypatch.setattr(probe, "PIPE_UNREAD_TIMEOUT", 0.4)
    monkeypatch.setattr(probe, "RECORDER_TIMEOUT", 1.2)
    pipe = tmp_path / "recorder-3.pipe"
    os.mkfifo(pipe)
    watchdog = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    process = {
        "rank": 3,
        "env": {
            probe.RECORDER_PIPE_VARIABLE: f"{tmp_path}/recorder-",
            probe.DUMP_FILE_VARIABLES[0]: f"{tmp_path}/dump-",
        },
    }
    if reads:
        threading.Timer(0.2, os.read, (watchdog, 128)).start()
    told = probe.recorder(process, probe.read_dump)
    os.close(watchdog)
    why = "its recorder wrote no dump" if reads else "nobody reads its recorder's pipe"
    assert told == {"rank": 3, "why": why}


def test_the_stack_of_a_process_that_the_kernel_does_not_let_stop_is_read_beside_it(tmp_path: Path) -> None:
    """As one that writes to storage that does not answer: its state is D, and py-spy would wait for it to halt."""
    tool = Path(sys.executable).with_name("py-spy")
    program = tmp_path / "save.py"
    program.write_text(
        "import os\n"
        "def save_checkpoint(path):\n"
        "    # Until the child has its program, which waits for a reader of that pipe, the kernel holds its parent.\n"
        "    os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, path, os.O_WRONLY, 0)])\n"
        "save_checkpoint(os.path.join(os.path.dirname(__file__), 'pipe'))\n"
    )
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen([sys.executable, str(program)])
    try:
        found = None
        until = time.monotonic() + 30
        while (found is None or found["state"] != "D") and time.monotonic() < until:
            found = probe.read_process(process.pid)
        assert found is not None
        assert found["state"] == "D"
        dump, error = probe.dump_stacks(str(tool), found)
        assert "ermission" not in error, FORBIDDEN
        assert "save_checkpoint" in dump, error
    finally:
        (tmp_path / "pipe").read_bytes()
        process.kill()
        process.wait()
