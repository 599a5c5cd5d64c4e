"""An interactive shell in a container on this process's own terminal, on which the caller must not draw meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
import tty
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.kube.actions import pod_path
from console.kube.exec import PROTOCOLS, Process, exec_params

if TYPE_CHECKING:
    from console.kube.client import Client


ASKED = 1.0  # seconds that the tmux around this terminal has to tell its prefix
_BEGIN = "TERM=${TERM:-xterm-256color}; export TERM; [ -t 0 ] && stty sane 2>/dev/null; "
_TMUX = (
    'command -v tmux >/dev/null && [ -z "$TMUX" ] && {'
    ' code=${TMUX_TMPDIR:-/tmp}/tmux-$(id -u)/default.a4; rm -f "$code"; ',
    "; } && {"
    ' tmux has-session -t a4 2>/dev/null && exit; end=0; [ -r "$code" ] && read -r end <"$code"; exit "$end"; }; ',
)
_IN_TMUX = 'if command -v bash >/dev/null; then bash; else sh; fi; echo $? >"${TMUX%%,*}.a4"'
"""The shell of each window. tmux itself ends with 0, so the shell's exit code is written down beside tmux's socket."""
_SESSION = "a4"
_PREFIX = "C-b"
_SHELL = "command -v bash >/dev/null && exec bash; exec sh"
_TITLE, _TITLE_BACK = "\x1b[22;2t\x1b]2;{}\x07", "\x1b[23;2t"
_SANE = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n"
"""What a program leaves switched on that could not say goodbye: other screen, no cursor, mouse, paste, colours."""


def best_shell(*, tmux: bool, name: str = "", nested: bool = False) -> tuple[str, ...]:
    """The command for a shell: tmux's session `a4`, else bash, else sh; `nested`: inside another tmux."""
    return "/bin/sh", "-c", _BEGIN + (shlex.join(_tmux(name, nested=nested)).join(_TMUX) if tmux else "") + _SHELL


def _tmux(name: str, *, nested: bool) -> Iterator[str]:
    yield from ("tmux", "-u", "new-session", "-A", "-s", _SESSION, _IN_TMUX)
    leave = f"{'ctrl-b ctrl-b d' if nested else 'ctrl-b d'} leaves it running, exit ends it"
    shown = "".join(each for each in name if each.isprintable())
    shown = shown.replace("#", "##").replace("%", "%%")  # neither a format of tmux nor a time
    left, right = f" {shown}  ", f" {leave} "
    options = {"status": "on", "status-left-length": "60", "status-right-length": "60", "status-left": left,
               "status-right": right, "default-command": _IN_TMUX}  # fmt: skip
    for option, value in options.items():
        yield from (";", "set-option", "-t", _SESSION, option, value)


async def is_nested() -> bool:
    """Whether this terminal is inside a tmux with the same prefix key (the default unless it says otherwise)."""
    if not os.environ.get("TMUX"):
        return False
    asks = ("tmux", "show-options", "-gv", "prefix")
    try:
        process = await asyncio.create_subprocess_exec(*asks, stdout=PIPE, stderr=DEVNULL, stdin=DEVNULL)
        async with asyncio.timeout(ASKED):
            told, _ = await process.communicate()
    except (OSError, TimeoutError):
        return True
    return told.decode(errors="replace").strip() in ("", _PREFIX)


async def shell(
    client: Client,
    namespace: str,
    pod: str,
    *,
    container: str = "",
    argv: Sequence[str] = (),
    tmux: bool = True,
    name: str = "",
) -> int:
    """Run a shell (or `argv`) in a window `name`; its exit code. BadInput without a terminal; else as `exec.run`."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("A shell needs a terminal.", "Use `a4 exec` to run a command without one.")
    name = name or f"pod {pod}"
    argv = argv or best_shell(tmux=tmux, name=name, nested=tmux and await is_nested())
    async with client.websocket(
        pod_path(namespace, pod, "exec"),
        doing=f"open a shell in {name}",
        params=exec_params(container, argv, tty=True, stdin=True),
        protocols=PROTOCOLS,
    ) as socket:
        process = Process(socket, f"the shell in {name}")
        screen = sys.stdout.fileno()
        with _raw_terminal(sys.stdin.fileno()), _window_title(screen, name):
            try:
                return await _relay_terminal(process, sys.stdin.fileno(), screen)
            except BaseException:
                _write(screen, _SANE.encode())
                raise


@contextmanager
def _window_title(screen: int, name: str) -> Iterator[None]:
    plain = "".join(each for each in f"a4: {name}" if each.isprintable())
    _write(screen, _TITLE.format(plain).encode())
    try:
        yield
    finally:
        _write(screen, _TITLE_BACK.encode())


async def _relay_terminal(process: Process, keys: int, screen: int) -> int:
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        data = os.read(keys, 1 << 14)
        typed.put_nowait(data or None)
        if not data:
            loop.remove_reader(keys)

    async def send_keys() -> None:
        while data := await typed.get():
            await process.write(data)
        process.close_input()

    def send_size() -> None:
        size = os.get_terminal_size(screen)
        process.resize(size.columns, size.lines)

    loop.add_reader(keys, read)
    sending = asyncio.create_task(send_keys())
    try:
        with _on_resize(loop, send_size):
            send_size()
            return await process.wait(lambda _, data: _write(screen, data))
    finally:
        loop.remove_reader(keys)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


def _write(screen: int, data: bytes) -> None:
    while data:
        data = data[os.write(screen, data) :]


@contextmanager
def _raw_terminal(keys: int) -> Iterator[None]:
    """Put the terminal in raw mode for this block (Ctrl-C is passed on too), and restore it afterwards."""
    before = termios.tcgetattr(keys)
    try:
        tty.setraw(keys)
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


@contextmanager
def _on_resize(loop: asyncio.AbstractEventLoop, resized: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: loop.call_soon_threadsafe(resized))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
