"""Programs that the console starts look for modules where they lie, never in the current folder."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.attach.ssh import identities, proxy_connection
from console.attach.tunnel import background
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from practice.child import PracticeProcess
from tests.kubeconfigs import write_kubeconfig

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
    answer = json.loads(background._spawn_and_read_line(json.dumps(order).encode() + b"\n"))
    assert "none" in answer["error"]
    assert not trapped.exists()


@pytest.mark.slow(reason="starts programs of its own")
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
    assert proxy_connection.a4_command()[1:] == ("-P", "-m", "screens")
    assert not trapped.exists()


PLANTED = {"token": "PLANTED-token", "password": "PLANTED-password", "key": "PLANTED-key"}
KEY = base64.b64encode(PLANTED["key"].encode()).decode()
SAYS = """#!/bin/sh
tr '\\0' '\\n' < /proc/$$/cmdline >> {0}
tr '\\0' '\\n' < /proc/$$/environ >> {0}
exit 1
"""
"""A program that writes down what anybody of this user may read of it."""


def kubeconfig(folder: Path) -> Path:
    user = {"token": PLANTED["token"], "username": "u", "password": PLANTED["password"], "client-key-data": KEY}
    return write_kubeconfig(folder / "kubeconfig", {"server": "https://127.0.0.1:1"}, user)


def assert_none_planted(seen: Path) -> None:
    text = seen.read_text()
    assert "PATH=" in text, "the environment was seen"
    for each in (*PLANTED.values(), KEY):
        assert each not in text


async def test_a_credential_plugin_sees_no_secret_of_the_kubeconfig(tmp_path: Path) -> None:
    seen, plugin = tmp_path / "seen", tmp_path / "plugin"
    plugin.write_text(SAYS.format(seen))
    plugin.chmod(0o700)
    spec: dict[str, Any] = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "provideClusterInfo": True,
    }  # fmt: skip
    user = User(password=PLANTED["password"], client_key_data=KEY, exec=spec)
    login = Login(Target("c", "u", "n", Cluster(server="https://127.0.0.1:1"), user))
    with pytest.raises(Exception, match="failed with exit code 1"):
        await login.headers()
    assert_none_planted(seen)


def test_a_tunnel_of_its_own_gets_no_secret_by_its_arguments_or_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the kubeconfig itself; the order names the file, on standard input."""
    seen, program = tmp_path / "seen", tmp_path / "program"
    program.write_text(SAYS.format(seen))
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))
    order = {"namespace": "n", "job": "j", "rank": "0", "ports": ["8888"], "kubeconfig": str(kubeconfig(tmp_path))}
    assert background._spawn_and_read_line(json.dumps(order).encode() + b"\n") == b""
    assert "console.attach.tunnel.background" in seen.read_text()
    assert_none_planted(seen)


@pytest.mark.slow(reason="starts programs of its own")
def test_the_practice_cluster_has_its_tokens_in_no_argument_or_variable() -> None:
    practice = PracticeProcess.start(scene="empty")
    try:
        text = practice.kubeconfig().read_text()
        here = Path("/proc") / str(practice.process.pid)
        shown = (here / "cmdline").read_bytes() + (here / "environ").read_bytes()
    finally:
        practice.stop()
    (user,) = yaml.safe_load(text)["users"]
    secrets = [value for value in user["user"].values() if isinstance(value, str)]
    assert secrets
    assert b"PATH=" in shown
    assert not [each for each in secrets if each.encode() in shown]


def test_a_private_key_is_named_to_programs_of_ssh_and_never_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    for name in ("ssh-keygen", "ssh-add"):
        (tmp_path / name).write_text(SAYS.format(seen))
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    key = tmp_path / "id_ed25519"
    key.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PLANTED['key']}\n-----END OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(Exception, match="is not a private key"):
        identities.read_named_key(key)
    assert str(key) in seen.read_text()
    assert_none_planted(seen)
