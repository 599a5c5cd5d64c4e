"""Programs that the console starts look for modules where they lie, never in the current folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from console.attach.ssh import connect
from console.attach.tunnel import background
from practice.child import PracticeProcess

if TYPE_CHECKING:
    from pathlib import Path

TRAPS = ("json", "ssl", "socket", "asyncio", "sitecustomize", "console", "screens", "encodings")


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, as downloaded from somewhere: modules in it write down that they were run."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", ".:")
    return tmp_path / "ran"


def test_a_tunnel_of_its_own_runs_nothing_of_the_current_folder(trapped: Path, tmp_path: Path) -> None:
    order = {"namespace": "n", "job": "j", "rank": "0", "ports": ["8888"], "kubeconfig": str(tmp_path / "none")}
    answer = json.loads(background._first_line(json.dumps(order).encode() + b"\n"))
    assert "none" in answer["error"]
    assert not trapped.exists()


def test_the_practice_cluster_runs_nothing_of_the_current_folder(trapped: Path) -> None:
    practice = PracticeProcess.start(scene="empty")
    assert practice.kubeconfig().exists()
    practice.stop()
    assert not trapped.exists()


def test_ssh_starts_nothing_of_the_current_folder(trapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no program a4 is installed, Python runs the module."""
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setattr("sys.executable", "/usr/bin/env python3")
    monkeypatch.setenv("PATH", "")
    assert connect.program()[1:] == ("-P", "-m", "screens")
    assert not trapped.exists()
