"""A test that fails over a pause of the machine runs once more; one that is wrong fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import os, signal, time

from tests import pauses

pauses.PAUSE = 0.9
began = []

def test_over_a_pause():
    began.append(time.monotonic())
    if len(began) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    assert time.monotonic() - began[-1] < 0.5

def test_that_is_wrong():
    assert False
"""


def test_only_a_failure_over_a_pause_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    with subprocess.Popen(
        [*argv, f"--rootdir={tmp_path}", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        stopped, _ = os.waitpid(run.pid, os.WUNTRACED)
        assert stopped == run.pid
        Event().wait(1.5)
        os.kill(run.pid, signal.SIGCONT)
        said = run.communicate(timeout=60)[0].decode()
    assert "1 failed, 1 passed, 1 rerun" in said
    assert "test_suite.py::test_that_is_wrong" in said
