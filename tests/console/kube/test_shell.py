"""A shell on a pseudo-terminal: another process, as a person would have it."""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.errors import BadInput
from console.kube.exec import is_nested, shell, shell_command
from tests.apiserver import ApiServer, eventually
from tests.console.kube.kubelet import EXEC, Exec, ended

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import asyncio, sys
from pathlib import Path
from console.session import Session
from console.connection_settings import Settings

async def main():
    session = await Session.open(Settings(kubeconfig=Path(sys.argv[1])), kinds=[])
    code = await session.watch.shell("default", "p")
    await session.close()
    print(f"left with {code}", flush=True)

asyncio.run(main())
"""


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@asynccontextmanager
async def terminal(kubeconfig: Path) -> AsyncIterator[tuple[int, bytearray, asyncio.subprocess.Process]]:
    """The terminal of a process that opens a shell: its keys and size, what it shows, the process."""
    outside, inside = pty.openpty()
    set_size(outside, 100, 30)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(kubeconfig), stdin=inside, stdout=inside, cwd=ROOT,
    )  # fmt: skip
    os.close(inside)
    shown = bytearray()

    def read() -> None:
        try:
            shown.extend(os.read(outside, 65536))
        except OSError:  # how Linux says that nobody has the terminal open any more
            asyncio.get_running_loop().remove_reader(outside)

    asyncio.get_running_loop().add_reader(outside, read)
    try:
        yield outside, shown, process
    finally:
        asyncio.get_running_loop().remove_reader(outside)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(outside)


async def test_keys_size_output_and_exit_code(tmp_path: Path) -> None:
    got = bytearray()

    async def behave(command: Exec) -> None:
        await command.say(1, b"prompt$ ")
        while piece := await command.input.get():
            got.extend(piece)
            await command.say(1, b"<" + piece.replace(b"\x03", b"^C") + b">")
            if b"\x04" in piece:
                break
        await command.say(3, ended(7))

    async with ApiServer() as server:
        command = server.handlers[EXEC] = Exec(behave)
        async with terminal(server.kubeconfig(tmp_path)) as (keys, shown, process):
            await eventually(lambda: b"prompt$ " in shown, 20)
            await eventually(lambda: command.sizes == [{"Width": 100, "Height": 30}])
            os.write(keys, b"ls\r")
            os.write(keys, b"\x03")
            await eventually(lambda: b"^C" in shown)
            set_size(keys, 20, 5)
            process.send_signal(signal.SIGWINCH)
            await eventually(lambda: command.sizes[-1] == {"Width": 20, "Height": 5})
            os.write(keys, b"\x04")
            await eventually(lambda: b"left with 7" in shown)
            assert await asyncio.wait_for(process.wait(), 60) == 0
            assert termios.tcgetattr(keys)[3] & termios.ICANON
        assert bytes(got) == b"ls\r\x03\x04"
        assert (command.parameter("tty"), command.parameter("stderr")) == (["true"], [])
        assert command.parameter("command")[:2] == ["/bin/sh", "-c"]


async def test_a_shell_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:  # noqa: ASYNC230 - nothing is read of it
        monkeypatch.setattr(sys, "stdin", nothing)
        async with ApiServer() as server, server.client() as client:
            with pytest.raises(BadInput, match="needs a terminal"):
                await shell(client, "default", "p")


def fake_tmux(folder: Path, prints: str = "") -> None:
    """A tmux that writes down what it is asked."""
    folder.mkdir()
    tmux = folder / "tmux"
    tmux.write_text(
        f'#!/bin/sh\n[ "$1" = has-session ] || printf "%s\\n" "$@" > "{folder}/asked"\nprintf "%s\\n" "{prints}"\n'
    )
    tmux.chmod(0o755)


@pytest.mark.parametrize(("nested", "keys"), [(False, "ctrl-b d"), (True, "ctrl-b ctrl-b d")])
def test_the_status_line_of_tmux_tells_where_it_is_and_how_to_leave(tmp_path: Path, nested: bool, keys: str) -> None:
    fake_tmux(tmp_path / "bin")
    name = "pod 1 of x'; touch hurt #(touch hurt) 100%"
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    subprocess.run(shell_command(tmux=True, name=name, is_nested=nested), cwd=tmp_path, env={"PATH": path}, check=True)
    asked = (tmp_path / "bin/asked").read_text().splitlines()
    assert asked[:5] == ["-u", "new-session", "-A", "-s", "a4"]
    left, right = asked[asked.index("status-left") + 1], asked[asked.index("status-right") + 1]
    assert left == " pod 1 of x'; touch hurt ##(touch hurt) 100%%  "
    assert right == f" {keys} leaves it running, exit ends it "
    assert not (tmp_path / "hurt").exists()


@pytest.mark.parametrize(("said", "goes_on", "code"), [("exit 3", False, 3), ("exit", False, 0), ("exit 3", True, 0)])
def test_the_exit_code_of_the_shell_in_tmux_is_passed_on(tmp_path: Path, said: str, goes_on: bool, code: int) -> None:
    """tmux itself ends with 0; where its session goes on, it was only left."""
    sockets = tmp_path / f"tmux-{os.getuid()}"
    sockets.mkdir()
    (sockets / "default.a4").write_text("9\n", encoding="utf-8")  # of a session of before
    tmux = tmp_path / "tmux"
    tmux.write_text(
        f'#!/bin/sh\n[ "$1" = has-session ] && exit {int(not goes_on)}\n'
        f'TMUX={sockets}/default,1,0 sh -c "$6"\nexit 0\n',
        encoding="utf-8",
    )
    tmux.chmod(0o755)
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMUX_TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    ended = subprocess.run(shell_command(tmux=True), input=f"{said}\n".encode(), env=around, check=False, timeout=60)
    assert ended.returncode == code


@pytest.mark.parametrize(
    ("around", "prefix", "nested"),
    [("", "C-b", False), ("/tmp/x,1,0", "C-b", True), ("/tmp/x,1,0", "C-a", False), ("/tmp/x,1,0", "", True)],
)
async def test_a_tmux_around_the_terminal_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, around: str, prefix: str, nested: bool
) -> None:
    fake_tmux(tmp_path / "bin", prefix)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", around)
    assert await is_nested() is nested
