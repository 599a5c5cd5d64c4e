"""`a4 ssh`, `a4 code`, `a4 doctor` on the practice cluster: what they print, ask, leave, and their exit codes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from console.attach.ssh.editors import DOCTOR_STEPS
from tests.openssh import OpenSsh, alone
from tests.screens.cli.commands import Commands

pytestmark = pytest.mark.programs("ssh", "ssh-keygen")
JOB = "llama-70b"
SPEED = 10.0
A4 = Path(sys.executable).with_name("a4")


class SshCommands(Commands):
    """Commands with an ssh folder of the test's own."""

    def __init__(self, kubeconfig: Path, openssh: OpenSsh, capfd: pytest.CaptureFixture[str]) -> None:
        super().__init__(kubeconfig, capfd)
        self.openssh = openssh


@pytest.fixture
def a4(
    kubeconfig: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> SshCommands:
    return SshCommands(kubeconfig, alone(monkeypatch, tmp_path / "ssh"), capfd)


def test_a_command_over_ssh_and_its_exit_code(a4: SshCommands) -> None:
    command = [str(A4), "ssh", "--kubeconfig", str(a4.kubeconfig), "--yes", JOB, "1", "--", "hostname; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (done.stdout, done.returncode) == (f"{JOB}-workload-0-1\n", 7), done.stderr
    assert "Created the key pair" in done.stderr
    assert "a4 ssh --undo removes it" in done.stderr
    again = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (again.stdout, again.stderr) == (f"{JOB}-workload-0-1\n", ""), "there is nothing to do and to say"


def test_a_config_that_cannot_be_changed_is_no_hindrance(a4: SshCommands) -> None:
    a4.openssh.config.mkdir(parents=True)
    command = [str(A4), "ssh", "--kubeconfig", str(a4.kubeconfig), "--yes", JOB, "5", "--", "hostname"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.stdout == f"{JOB}-workload-0-5\n", done.stderr
    assert "cannot be read: Is a directory" in done.stderr


def test_no_key_is_put_anywhere_without_a_yes(a4: SshCommands) -> None:
    code, out, err = a4.run("ssh", JOB, "0")
    assert (code, out) == (3, "")
    assert "does not know your key" in err
    assert "Add --yes." in err
    assert not a4.openssh.folder.exists()


def test_hosts_of_all_running_jobs_listed_forgotten_and_undone(a4: SshCommands) -> None:
    a4.openssh.folder.mkdir()
    a4.openssh.config.write_bytes(b"Host mine\r\n  User me")
    written = a4.json("ssh", "--write-config", "--yes")["hosts"]
    assert "a4-llama-70b-0" in [host["host"] for host in written]
    listed = a4.json("ssh")["items"]
    assert [host["host"] for host in listed if host["job"] == JOB] == [f"a4-{JOB}-{rank}" for rank in range(8)]
    assert a4.json("ssh", "--forget", JOB)["forgotten"] == [f"a4-{JOB}-{rank}" for rank in range(8)]
    assert not [host for host in a4.json("ssh")["items"] if host["job"] == JOB]
    done = a4.json("ssh", "--undo")["done"]
    assert f"{a4.openssh.config} was restored." in done
    assert a4.openssh.config.read_bytes() == b"Host mine\r\n  User me"


def test_no_private_key_is_readable_by_others_or_printed(a4: SshCommands) -> None:
    host = a4.json("ssh", JOB, "2", "--yes")
    assert host["fingerprints"][0].startswith("SHA256:")
    files = [path for path in a4.openssh.folder.rglob("*") if path.is_file()]
    secret = [path for path in files if "PRIVATE KEY" in path.read_text()]
    assert [path.name for path in secret] == ["id_ed25519"]
    assert stat.S_IMODE(secret[0].stat().st_mode) == 0o600


def test_an_editor_of_this_machine_is_started(a4: SshCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "cursor"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >"{tmp_path}/started"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    code, out, err = a4.run("code", JOB, "3", "--yes", "--quiet", "--editor", "cursor", "--folder", "/work space")
    assert (code, out, err) == (0, "Cursor opens a4-llama-70b-3.\n", "")
    assert (tmp_path / "started").read_text() == "--remote|ssh-remote+a4-llama-70b-3|/work space|"


def test_without_an_editor_there_are_its_link_and_the_steps(a4: SshCommands) -> None:
    out, _ = a4.outputs("code", JOB, "3", "--yes", "--editor", "code-insiders", "--folder", "/a b")
    assert out.splitlines()[0] == "vscode-insiders://vscode-remote/ssh-remote+a4-llama-70b-3/a%20b"
    assert f"ssh -F {a4.openssh.config} a4-llama-70b-3" in out
    _, out, _ = a4.run("code", JOB, "3", "--editor", "gateway")
    assert "://" not in out
    assert "host a4-llama-70b-3" in out


def test_the_doctor_in_words_and_in_json(a4: SshCommands) -> None:
    out, _ = a4.outputs("doctor", JOB, "4", code=1)
    assert "✗ Login" in out
    assert f"a4 ssh {JOB} 4" in out
    assert a4.run("ssh", JOB, "4", "--yes", "--json")[0] == 0
    steps = a4.json("doctor", JOB, "4")["items"]
    assert [step["name"] for step in steps] == list(DOCTOR_STEPS)
    assert [step["title"] for step in steps] == list(DOCTOR_STEPS.values())
    assert {step["state"] for step in steps} <= {"ok", "warning"}
    assert {step["state"] for step in a4.json("doctor", JOB, "workload/4")["items"]} <= {"ok", "warning"}
    out, _ = a4.outputs("doctor", "nowhere", "0", code=1)
    assert "There is no job nowhere" in out


def test_what_cannot_be(a4: SshCommands) -> None:
    assert a4.run("ssh", "nowhere", "0")[0] == 1
    assert a4.run("ssh", JOB, "99")[0] == 1
    assert a4.run("ssh", JOB, "0", "1")[0] == 2
    assert a4.run("ssh", "--forget")[0] == 2
    _, err = a4.outputs("ssh", "--read-only", JOB, "0", "--yes", code=3)
    assert "read-only" in err
