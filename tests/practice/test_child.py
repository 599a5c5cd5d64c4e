"""The practice cluster as a process: ready, reachable, gone without a trace, even when its parent is killed."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from urllib.parse import urlsplit

import pytest
import yaml

from console.errors import ConsoleError
from practice.child import PracticeProcess
from practice.folder_removal import remove_folder

LIMIT = 30.0


def eventually_gone(path: Path) -> bool:
    """Whether a folder goes within the limit."""
    deadline, clock = monotonic() + LIMIT, Event()
    while path.exists() and monotonic() < deadline:
        clock.wait(0.02)
    return not path.exists()


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_it_starts_and_leaves_nothing() -> None:
    practice = PracticeProcess.start(speed=10, seed=1)
    kubeconfig = practice.kubeconfig()
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert kubeconfig.parent.stat().st_mode & 0o777 == 0o700
    practice.stop()
    assert practice.process.returncode == 0
    assert not kubeconfig.parent.exists()


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_it_ends_with_its_parent() -> None:
    code = (
        "from practice.child import PracticeProcess\n"
        "import time\n"
        "practice = PracticeProcess.start()\n"
        "print(practice.kubeconfig(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip()).parent
        assert folder.exists()
        parent.send_signal(signal.SIGKILL)
    assert eventually_gone(folder)


def test_a_program_that_writes_as_it_ends_leaves_no_folder_behind(tmp_path: Path) -> None:
    folder = tmp_path / "pods"
    folder.mkdir()
    over = Event()

    def write() -> None:
        for number in range(200):
            with suppress(FileNotFoundError):
                (folder / f"history-{number}").write_text("ls\n" * 100)
        over.set()

    Thread(target=write).start()
    assert remove_folder(folder)
    assert over.wait(LIMIT)
    assert not folder.exists()


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_one_that_has_to_be_killed_leaves_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("practice.child._STOP_SECONDS", 0.3)
    practice = PracticeProcess.start(scene="empty")
    kubeconfig = practice.kubeconfig()
    practice.process.send_signal(signal.SIGSTOP)
    practice.stop()
    assert not kubeconfig.parent.exists()


def test_a_process_that_cannot_start_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    practice = PracticeProcess.start()
    with pytest.raises(ConsoleError, match="could not start: its process ended with exit code 1"):
        practice.kubeconfig()
    practice.stop()


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_in_the_foreground_it_prints_its_kubeconfig(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "practice", "--scene", "empty", "--folder", str(tmp_path / "k")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"KUBECONFIG={tmp_path / 'k' / 'kubeconfig'}\n"
        assert (tmp_path / "k" / "reader.kubeconfig").exists()
        process.terminate()
    assert process.returncode == 0


@pytest.mark.slow(reason="a practice cluster runs a job")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_lets_somebody_in_is_the_persons_alone_and_goes_with_ctrl_c(how: signal.Signals) -> None:
    """Its folder has a name that nobody guesses; it is served over TLS on this machine only."""
    command, folders = [sys.executable, "-m", "practice", "--scene", "empty"], set()
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            kubeconfig = Path(process.stdout.readline().strip().partition("=")[2])
            made = [kubeconfig.parent, *kubeconfig.parent.rglob("*")]
            assert {path.name for path in made} >= {"kubeconfig", "reader.kubeconfig"}
            assert {path.stat().st_mode & 0o077 for path in made if path.name.endswith("kubeconfig")} == {0}
            assert kubeconfig.parent.stat().st_mode & 0o777 == 0o700
            url = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
            assert (url.scheme, url.hostname) == ("https", "127.0.0.1")
            sockets = (Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()).splitlines()
            listening = {local for _, local, _, state, *_ in map(str.split, sockets) if state == "0A"}
            assert {each for each in listening if each.endswith(f":{url.port:04X}")} == {f"0100007F:{url.port:04X}"}
            with socket.create_connection(("127.0.0.1", url.port or 0), 10) as plain:
                plain.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                with suppress(ConnectionError):
                    assert b"HTTP/1.1 200" not in plain.recv(1000)
            if os.geteuid() == 0:
                for path in made:
                    tried = subprocess.run(["head", "-c1", str(path)], user=65534, capture_output=True, check=False)
                    assert (tried.returncode, tried.stdout) == (1, b""), path
            folders.add(kubeconfig.parent)
            process.send_signal(how)
        assert process.returncode == 0
        assert not kubeconfig.parent.exists()
    assert len(folders) == 2
