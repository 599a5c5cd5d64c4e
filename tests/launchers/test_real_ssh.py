"""The first stage with a real sshd, real keys and real ssh: two pods are two folders, two ports, one machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.launchers.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = (f"anna-workload-0-{index}.anna.team.svc.cluster.local" for index in (0, 1))
# Every pod listens on 2222 at an address of its own; here all have one address, and a port each.
TO_ITS_PORT = """#!/bin/bash
for word in "$@"; do if [[ "$word" == *-workload-0-1.* ]]; then port={second}; fi; done
arguments=() last=
for word in "$@"; do
    if [[ "$last" == -p ]]; then word="${{port:-{first}}}"; fi
    arguments+=("$word")
    last="$word"
done
exec {ssh} -o HostName=127.0.0.1 -o User="{user}" "${{arguments[@]}}"
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[tuple[Sandbox, Sandbox]]:
    if not shutil.which("sshd") or os.getuid() != 0:
        pytest.skip("needs openssh-server, and root to log in as root")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd will have no other
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("id_pods", "host_key"):
        command = ["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", str(keys / name)]
        subprocess.run(command, check=True)
    ports = [free_port(), free_port()]
    made = (Sandbox(tmp_path / "pod-0"), Sandbox(tmp_path / "pod-1", index=1))
    for pod, port in zip(made, ports, strict=True):
        pod.environment["A4_SSH_PORT"] = str(port)
        for name in ("id_pods", "host_key"):
            shutil.copy(keys / name, pod.root / "a4/ssh" / name)
        (pod.root / "bin/ssh-keygen").unlink()
        (pod.root / "bin/ssh-keygen").symlink_to(str(shutil.which("ssh-keygen")))
        # Everybody may write to /tmp, and sshd trusts no keys below such a folder.
        pod.program(pod.root / "bin/sshd", f'#!/bin/bash\nexec {shutil.which("sshd")} "$@" -o StrictModes=no\n')
        ssh = TO_ITS_PORT.format(first=ports[0], second=ports[1], ssh=shutil.which("ssh"), user="root")
        pod.program(pod.root / "bin/ssh", ssh)
    yield made
    for pod in made:
        process = pod.root / "run/sshd/a4.pid"
        if process.exists():
            os.kill(int(process.read_text()), signal.SIGTERM)


def test_two_pods_find_each_other_through_real_sshd(pods: tuple[Sandbox, Sandbox]) -> None:
    first, second = pods
    first.environment["A4_DISCOVERY_SECONDS"] = "60"
    code, lines = second.run("prepare.sh")
    assert code == 0, "\n".join(lines)
    code, lines = first.run("prepare.sh")
    assert code == 0, "\n".join(lines)
    assert [line for line in lines if line.startswith("pong")] == [f"pong from {FIRST}", f"pong from {SECOND}"]
    assert first.text("etc/job-worker-services.txt").splitlines() == [f"{FIRST} slots=8", f"{SECOND} slots=8"]


def test_a_stranger_is_not_let_in(pods: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
    first, second = pods
    assert second.run("prepare.sh")[0] == 0
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(stranger)], check=True)
    command = [
        "ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", str(stranger),
        "-o", f"UserKnownHostsFile={tmp_path / 'known'}", "-o", "StrictHostKeyChecking=no",
        "-p", second.environment["A4_SSH_PORT"], "root@127.0.0.1", "true",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr
    assert first.calls("sshd") == []


def test_a_person_logs_in_with_a_key_of_their_own(pods: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
    """To port 2222, as root, whatever key pairs the image has; files go by SFTP."""
    _, pod = pods
    own = tmp_path / "own"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "anna@laptop", "-f", str(own)], check=True)
    pod.environment["SSH_PUBLIC_KEY"] = own.with_suffix(".pub").read_text().strip()
    assert pod.run("prepare.sh")[0] == 0
    to = [
        "-F", "none", "-i", str(own), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
        "-o", f"UserKnownHostsFile={tmp_path / 'known'}", "-o", "StrictHostKeyChecking=no",
    ]  # fmt: skip
    port = pod.environment["A4_SSH_PORT"]
    login = ["ssh", *to, "-p", port, "root@127.0.0.1", 'echo "in $PATH"']
    done = subprocess.run(login, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    assert str(pod.root / "bin") in done.stdout, "commands find the pod's own programs"
    (tmp_path / "there").write_text("data")
    copy = ["sftp", "-q", *to, "-P", port, f"root@127.0.0.1:{tmp_path / 'there'}", str(tmp_path / "here")]
    done = subprocess.run(copy, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here").read_text() == "data"


def test_the_other_pod_ends_as_index_0_did(pods: tuple[Sandbox, Sandbox]) -> None:
    """Through real ssh: what index 0 writes lands in the other pod's folder only where its paths are the pod's."""
    first, second = pods
    assert second.run("prepare.sh")[0] == 0
    command = ["ssh", "-q", "-F", str(first.root / "root/.ssh/config"), "-p", "2222", SECOND, "echo told"]
    assert first.run("prepare.sh")[0] == 0
    done = subprocess.run(
        command,
        env=first.variables(),
        executable=str(first.root / "bin/ssh"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
