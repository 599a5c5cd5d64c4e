"""The lab itself: it says what it lacks, leaves nothing behind, and its fake machines behave like machines."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.lab.build import LabError, find_go
from tests.lab.control_plane import Lab
from tests.lab.processes import Processes, free_ports

HOLDER = """
import sys
from pathlib import Path
from tests.lab.processes import Processes
processes = Processes(Path(sys.argv[1]))
processes.start("sleeper", "sleep", "600")
print(processes.running["sleeper"].pid, flush=True)
sys.stdin.read()
"""


def wait_until(probe: Callable[[], bool], what: str, limit: float = 20) -> None:
    """Poll by waiting on a child that ends by itself, so that nothing blocks longer than the condition."""
    deadline = monotonic() + limit
    while not probe():
        assert monotonic() < deadline, f"not within {limit:.0f} s: {what}"
        subprocess.run(["sleep", "0.1"], check=True)


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_without_go_one_sentence_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"needs Go 1\.26 or newer; no `go` was found"):
        find_go(str(tmp_path))


def test_an_old_go_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.20.3\n")
    old.chmod(0o755)
    with pytest.raises(LabError, match=r"needs Go 1\.26 or newer; .*go is go1\.20\.3"):
        find_go(str(tmp_path))


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        # Before that it is still setpriv, which may not have asked the kernel for the signal yet.
        wait_until(lambda: Path(f"/proc/{child}/comm").read_text().strip() == "sleep", "the child runs its program")
        os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child), "the child of a killed parent is gone")


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.slow(reason="waits until a process is killed")
def test_stop_ends_what_ignores_the_polite_signal(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    child = processes.running["stubborn"].pid
    processes.stop()
    assert not is_alive(child)


def test_a_program_that_dies_shows_the_end_of_its_log(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("broken", "sh", "-c", "echo no such flag >&2; exit 7")
    with pytest.raises(LabError, match=r"(?s)broken ended with exit code 7; .*no such flag"):
        processes.wait_ready("broken", lambda: False)


def test_ports_are_all_different() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {"name": "main", "image": "busybox:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
        ],
        "restartPolicy": "Never",
    },
}


@contextmanager
def running_pod(lab: Lab, name: str) -> Iterator[str]:
    lab.api.request("POST", "/api/v1/namespaces/default/pods", {**POD, "metadata": {"name": name}})
    try:
        wait_until(lambda: phase(lab, name) == "Running", f"pod {name} runs")
        yield name
    finally:
        lab.api.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")


def phase(lab: Lab, name: str) -> str:
    return str(lab.api.request("GET", f"/api/v1/namespaces/default/pods/{name}")["status"]["phase"])


@pytest.mark.lab
def test_exec_finds_the_stand_ins_and_works_in_the_local_folder(lab: Lab) -> None:
    with running_pod(lab, "executed") as name:
        assert len(lab.kubectl("exec", name, "--", "nvidia-smi", "-L").splitlines()) == 8
        assert lab.kubectl("exec", name, "--", "pwd").strip() == str(lab.pod_root)
