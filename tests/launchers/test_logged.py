"""A pod whose log is kept: what it prints comes into the mounted folder, and it ends as it would without."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console import assets

LIMIT = 20.0
PAUSE = threading.Event()
TABLE = "   1048576    262144   float   sum   -1   23.02   45.55   68.32    0   23.86   43.94   65.91    0"
COORDINATOR = f"""echo "step 7 connectivity: run"; echo node-1; echo node-2
echo "step 7 connectivity: done in 3 s"
echo "#       size         count      type   redop"; echo "{TABLE}"
echo complaint >&2
exit 7
"""


class Pod:
    """logged.sh beside a run.sh of the test's own."""

    def __init__(self, folder: Path, script: str, index: int = 0, **env: str) -> None:
        self.logs = folder / "pod/gcs/logs/anna-1"
        (folder / "pod/tmp").mkdir(parents=True)
        (folder / "pod/gcs").mkdir()
        shutil.copy(assets.launchers_folder() / "logged.sh", folder)
        (folder / "run.sh").write_text(script)
        self._argv = ["bash", str(folder / "logged.sh"), "one", "two"]
        self._env = {
            "PATH": "/usr/bin:/bin", "A4_ROOT": str(folder / "pod"), "A4_LOG_FOLDER": "/gcs/logs",
            "JOB_IDENTIFIER": "anna-1", "JOB_COMPLETION_INDEX": str(index), **env,
        }  # fmt: skip

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._argv, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self) -> tuple[int, str]:
        with self.start() as process:
            said, _ = process.communicate(timeout=LIMIT)
        return process.returncode, said

    def kept(self) -> dict[str, str]:
        return {str(each.relative_to(self.logs)): each.read_text() for each in self.logs.rglob("*") if each.is_file()}


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < deadline
        PAUSE.wait(0.02)


def test_pod_0_keeps_its_log_and_its_results(tmp_path: Path) -> None:
    pod = Pod(tmp_path, COORDINATOR)
    code, said = pod.run()
    assert code == 7
    assert "complaint\n" in said
    kept = pod.kept()
    assert kept["pod-logs/coordinator.log"] == said
    assert kept["nccl-test-results.txt"].splitlines() == ["#       size         count      type   redop", TABLE]
    assert kept["connectivity-test.log"].splitlines() == [
        "step 7 connectivity: run", "node-1", "node-2", "step 7 connectivity: done in 3 s",
    ]  # fmt: skip


def test_other_pods_keep_their_logs_alone_and_arguments_arrive(tmp_path: Path) -> None:
    pod = Pod(tmp_path, 'echo "$1 $2"\n', 3)
    assert pod.run() == (0, "one two\n")
    assert pod.kept() == {"pod-logs/worker-3.log": "one two\n"}


def test_a_pod_that_is_stopped_ends_as_it_would_and_its_log_is_kept(tmp_path: Path) -> None:
    script = "sleep 60 & child=$!\ntrap 'echo stopped; kill $child; exit 143' TERM\necho begun\nwait $child\n"
    pod = Pod(tmp_path, script)
    with pod.start() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, said) == (143, "stopped\n")
    assert pod.kept() == {"pod-logs/coordinator.log": "begun\nstopped\n"}


def test_the_log_of_a_pod_that_goes_on_is_kept_from_time_to_time(tmp_path: Path) -> None:
    pod = Pod(tmp_path, "echo begun\nexec sleep 60\n", A4_LOG_SECONDS="0.1")
    with pod.start() as process:
        until(lambda: pod.logs.exists() and pod.kept() == {"pod-logs/coordinator.log": "begun\n"})
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)


@pytest.mark.slow(reason="runs a launcher as a process")
def test_what_the_recipe_leaves_running_does_not_keep_the_pod(tmp_path: Path) -> None:
    """Such as a server that holds the output open."""
    pod = Pod(tmp_path, "(sleep 12) & echo begun\n")
    began = time.monotonic()
    with pod.start() as process:
        assert process.wait(timeout=LIMIT) == 0
    assert time.monotonic() - began < 11
    assert pod.kept() == {"pod-logs/coordinator.log": "begun\n"}


def test_a_bucket_that_takes_nothing_fails_no_job(tmp_path: Path) -> None:
    pod = Pod(tmp_path, "echo begun\n")
    (tmp_path / "pod/gcs/logs").write_text("no folder")
    code, said = pod.run()
    assert code == 0
    assert said.startswith("begun\n")
    assert "mkdir: cannot create directory" in said
