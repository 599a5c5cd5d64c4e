"""Run a command in a container, with its input, output and exit code, or a shell on this process's own terminal.

Over a WebSocket, which needs the right to `get` pods/exec (kubectl's older SPDY needed `create`). v5 can close the
command's input; v4, for older servers, cannot.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
import termios
import tty
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from console.errors import BadInput, ProgramFailed, Unreachable, Unreadable
from console.kube.actions import pod_path
from console.kube.api_errors import read_status
from console.work_slices import rest_after_slice

if TYPE_CHECKING:
    from console.kube.client import Client
    from console.kube.websocket import WebSocket


PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

MAX_SHORT_OUTPUT_BYTES = 1 << 20  # bytes that a command which is asked something short may print
SHORT_COMMAND_TIMEOUT = 7.0  # seconds that such a command may be silent
PIECES_PER_TURN = 50  # pieces of an output that are passed on before others get their turn
ANNOUNCE_START = "echo >&2; "  # the first words of a script: an empty line on stderr tells that a shell has begun
START_TIMEOUT = 6.0  # seconds until that line has come
SHORT_OUTPUT_SECONDS = 6.0  # seconds from the first byte of such an answer to its last: it is printed at once

MAX_EXEC_MESSAGE_BYTES = 4 << 20  # bytes of one message; API servers send 32 KiB at a time
MAX_BUFFERED_BYTES, MAX_BUFFERED_PIECES = 1 << 18, 1 << 12  # of output, beyond which the command is kept waiting

Output = Callable[[int, bytes], None]  # called with 1 (output) or 2 (errors) and the bytes


class ExecProcess:
    def __init__(self, socket: WebSocket, action: str) -> None:
        self._socket = socket
        self._action = action
        self._output_parts: deque[tuple[int, bytes]] = deque()
        self._held_bytes = 0
        self._status = bytearray()
        self._channel = -1  # of the message under way; -1 until its first byte has come
        self._length = 0
        self._is_over = False
        self._output_event, self._sent_event = asyncio.Event(), asyncio.Event()
        self.code: int | None = None  # exit code; None until it has ended
        socket.listen(self)

    async def write(self, data: bytes) -> None:
        """Send bytes to the command's standard input; does nothing once it has ended."""
        self._socket.send(bytes([STDIN]), data)
        if self._socket.is_buffer_full and not self._is_over:
            self._sent_event.clear()
            await self._sent_event.wait()
        await asyncio.sleep(0)  # input that is always there leaves its turn to the output

    def close_input(self) -> None:
        """Close the command's standard input, if the protocol can (v5)."""
        if self._socket.protocol == PROTOCOLS[0]:
            self._socket.send(bytes([CLOSE, STDIN]))

    def resize(self, columns: int, rows: int) -> None:
        self._socket.send(bytes([RESIZE]), msgspec.json.encode({"Width": columns, "Height": rows}))

    async def output(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (1 stdout or 2 stderr, bytes), then set `code`. Raises ProgramFailed or Unreachable."""
        pieces = 0
        while self._output_parts or not self._is_over:
            if self._output_parts:
                channel, data = self._output_parts.popleft()
                self._held_bytes -= len(data)
                if not self._output_parts:
                    self._socket.resume()
                yield channel, data
                pieces += 1
                if not pieces % PIECES_PER_TURN:  # those that are there already come without a turn of the event loop
                    await rest_after_slice()
            else:
                self._output_event.clear()
                await self._output_event.wait()
        if not self._status:
            hint = "What it did until then remains."
            raise Unreachable(f"Could not {self._action} to the end: the connection was lost.", hint)
        self.code = exit_code(bytes(self._status), self._action)

    def begin(self) -> None:
        self._channel, self._length = -1, 0

    def feed(self, data: memoryview) -> None:
        self._length += len(data)
        if self._length > MAX_EXEC_MESSAGE_BYTES or len(self._status) > MAX_EXEC_MESSAGE_BYTES:
            self._socket.abort("a message of it has no end")
            return
        if self._channel < 0 and data:
            self._channel, data = data[0], data[1:]
        if self._channel == STATUS:
            self._status += data
        elif self._channel in (STDOUT, STDERR) and data:
            self._output_parts.append((self._channel, bytes(data)))
            self._held_bytes += len(data)

    def on_chunk_fed(self) -> None:
        if self._held_bytes > MAX_BUFFERED_BYTES or len(self._output_parts) > MAX_BUFFERED_PIECES:
            self._socket.pause()
        self._output_event.set()

    def on_buffer_full(self, is_paused: bool) -> None:
        if not is_paused:
            self._sent_event.set()

    def ended(self, why: str) -> None:
        self._is_over = True
        self._output_event.set()
        self._sent_event.set()

    async def wait(self, on_output: Output) -> int:
        """Pass output to the callback until the command ends; returns its exit code and raises as `output` does."""
        async for channel, data in self.output():
            on_output(channel, data)
        return self.code or 0


_EXIT_STATUS = re.compile(r"(?:exit status|exit code) (\d{1,18})")


def exit_code(status: bytes, doing: str) -> int:
    """The exit code in the Status message with which an exec ends; ProgramFailed if the command did not start."""
    outcome = read_status(status)
    if outcome.status == "Success":
        return 0
    for cause in (outcome.details.causes or ()) if outcome.details else ():
        if cause.reason == "ExitCode" and (found := re.fullmatch(r"\d{1,18}", cause.message or "")):
            return int(found[0])
    words = outcome.message or outcome.reason or "no reason given"
    found = _EXIT_STATUS.search(words)  # some kubelets send the code in words only
    if found:
        return int(found[1])
    raise ProgramFailed(f"Could not {doing}: {words.rstrip('.')}.", "Check that the program is in the image.", code=126)


def exec_params(container: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> list[tuple[str, str]]:
    flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    params = [("command", each) for each in argv]
    params += [(name, "true") for name, on in flags.items() if on]
    return params + ([("container", container)] if container else [])


@asynccontextmanager
async def start_process(
    client: Client,
    namespace: str,
    pod: str,
    argv: Sequence[str],
    *,
    container: str = "",
    stdin: bytes | AsyncIterator[bytes] | None = None,
    action: str = "",
) -> AsyncIterator[ExecProcess]:
    """Start a command with `stdin`, `action` in errors; leaving the block ends it. Raises Refused, Unreachable."""
    action = action or f"run `{' '.join(argv)}` in pod {pod}"
    async with client.websocket(
        pod_path(namespace, pod, "exec"),
        action=action,
        params=exec_params(container, argv, tty=False, stdin=stdin is not None),
        protocols=PROTOCOLS,
    ) as socket:
        process = ExecProcess(socket, action)
        feeding = asyncio.create_task(_feed_stdin(process, stdin, socket)) if stdin is not None else None
        try:
            yield process
        finally:
            if feeding:
                feeding.cancel()
                with suppress(asyncio.CancelledError):
                    await feeding


async def run(
    client: Client,
    namespace: str,
    pod: str,
    argv: Sequence[str],
    on_output: Output,
    *,
    container: str = "",
    stdin: bytes | AsyncIterator[bytes] | None = None,
    action: str = "",
) -> int:
    """Run a command: its exit code; `action` is for errors. Raises Refused, ProgramFailed, Unreachable, OSError."""
    async with start_process(client, namespace, pod, argv, container=container, stdin=stdin, action=action) as process:
        return await process.wait(on_output)


class CommandOutput:
    """The output of a command so far, limited as `limit_output` says."""

    def __init__(
        self, pod: str, max_bytes: int, flow: float | None, clock: asyncio.Timeout, start_seconds: float | None = None
    ) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self._pod, self._max_bytes, self._flow_seconds, self._clock = pod, max_bytes, flow, clock
        self._deadline = clock.when()
        self.has_begun = False
        self.silent = start_seconds is not None  # whether the shell has yet to say that it has begun
        if start_seconds is not None:
            clock.reschedule(asyncio.get_running_loop().time() + start_seconds)

    def add(self, channel: int, data: bytes) -> None:
        """Add a piece of output; Unreadable once there is more than the limit."""
        if self.silent:
            self.silent = False
            self._clock.reschedule(self._deadline)
        if self._flow_seconds is not None and not self.has_begun and channel == STDOUT:
            end = asyncio.get_running_loop().time() + self._flow_seconds
            self._clock.reschedule(end if self._deadline is None else min(self._deadline, end))
            self.has_begun = True
        kept = self.output if channel == STDOUT else self.errors
        kept += data
        if len(self.output) + len(self.errors) > self._max_bytes:
            most = f"{self._max_bytes >> 20} MiB" if self._max_bytes >= 1 << 20 else f"{self._max_bytes >> 10} KiB"
            raise Unreadable(f"Pod {self._pod} has printed more than {most}: the command was stopped.")

    def reset(self) -> None:
        """Drop the output collected so far and restart the limits on size and time."""
        self.output.clear()
        self.errors.clear()
        if self.has_begun:
            self._clock.reschedule(self._deadline)
            self.has_begun = False


@asynccontextmanager
async def limit_output(
    pod: str,
    *,
    max_bytes: int = MAX_SHORT_OUTPUT_BYTES,
    limit: float = SHORT_COMMAND_TIMEOUT,
    flow: float | None = SHORT_OUTPUT_SECONDS,
    begins: float | None = None,
) -> AsyncIterator[CommandOutput]:
    """Collect the output of a command that runs in this block, as in `run(..., collected.add)`.

    The block ends with Unreadable once the output exceeds `max_bytes` or takes more than `flow` seconds from its first
    byte to its end; with Unreachable after `limit` seconds, or if there is no output after `begins` seconds (a script
    that starts with `ANNOUNCE_START` prints at once).
    """
    try:
        async with asyncio.timeout(limit) as clock:
            output = CommandOutput(pod, max_bytes, flow, clock, begins if begins is None or begins < limit else None)
            yield output
    except TimeoutError as error:
        if output.has_begun:
            why = f"Pod {pod} has been printing for {flow:g} s without an end: the command was stopped."
            raise Unreadable(why) from error
        if output.silent:
            why = f"Pod {pod} did not answer within {begins:g} s: no shell has begun in it."
            raise Unreachable(why, f"kubectl describe pod {pod}") from error
        raise Unreachable(f"Pod {pod} did not answer within {limit:g} s.") from error


async def run_and_collect(
    client: Client,
    namespace: str,
    pod: str,
    argv: Sequence[str],
    *,
    container: str = "",
    stdin: bytes | None = None,
    max_bytes: int = MAX_SHORT_OUTPUT_BYTES,
    limit: float = SHORT_COMMAND_TIMEOUT,
    start_seconds: float | None = None,
    action: str = "",
) -> tuple[int, bytes, bytes]:
    """Run a command: (exit code, output, errors). Raises as `run` and `limit_output` (`begins` is `start_seconds`)."""
    async with limit_output(pod, max_bytes=max_bytes, limit=limit, begins=start_seconds) as answer:
        code = await run(client, namespace, pod, argv, answer.add, container=container, stdin=stdin, action=action)
    return code, bytes(answer.output), bytes(answer.errors)


async def _feed_stdin(process: ExecProcess, stdin: bytes | AsyncIterator[bytes], socket: WebSocket) -> None:
    try:
        if isinstance(stdin, bytes):
            for start in range(0, len(stdin), 1 << 15):
                await process.write(stdin[start : start + (1 << 15)])
        else:
            async for data in stdin:
                await process.write(data)
    except Exception:
        socket.close()  # a command whose input cannot be read any further would wait for it for ever
        raise
    process.close_input()


TMUX_QUERY_SECONDS = 1.0  # seconds that the tmux around this terminal has to tell its prefix
_SANE_TERMINAL = "TERM=${TERM:-xterm-256color}; export TERM; [ -t 0 ] && stty sane 2>/dev/null; "
_OPEN_TMUX = (
    'command -v tmux >/dev/null && [ -z "$TMUX" ] && {'
    ' code=${TMUX_TMPDIR:-/tmp}/tmux-$(id -u)/default.a4; rm -f "$code"; ',
    "; } && {"
    ' tmux has-session -t a4 2>/dev/null && exit; end=0; [ -r "$code" ] && read -r end <"$code"; exit "$end"; }; ',
)
_SHELL_IN_TMUX = 'if command -v bash >/dev/null; then bash; else sh; fi; echo $? >"${TMUX%%,*}.a4"'
"""The shell of a tmux window. tmux exits with 0, so the shell's exit code is written to a file beside tmux's socket."""
_TMUX_SESSION = "a4"
_TMUX_PREFIX_KEY = "C-b"
_BASH_OR_SH = "command -v bash >/dev/null && exec bash; exec sh"
_SET_WINDOW_TITLE, _RESTORE_WINDOW_TITLE = "\x1b[22;2t\x1b]2;{}\x07", "\x1b[23;2t"
_RESET_TERMINAL = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n"
"""Escape sequences that undo what a killed program switched on: other screen, hidden cursor, mouse, paste, colours."""


def shell_command(*, tmux: bool, name: str = "", is_nested: bool = False) -> tuple[str, ...]:
    """The command for a shell: tmux's session `a4`, else bash, else sh; `is_nested`: inside another tmux."""
    in_tmux = shlex.join(_tmux_script(name, is_nested=is_nested)).join(_OPEN_TMUX) if tmux else ""
    return "/bin/sh", "-c", _SANE_TERMINAL + in_tmux + _BASH_OR_SH


def _tmux_script(name: str, *, is_nested: bool) -> Iterator[str]:
    yield from ("tmux", "-u", "new-session", "-A", "-s", _TMUX_SESSION, _SHELL_IN_TMUX)
    leave = f"{'ctrl-b ctrl-b d' if is_nested else 'ctrl-b d'} leaves it running, exit ends it"
    shown = "".join(each for each in name if each.isprintable())
    shown = shown.replace("#", "##").replace("%", "%%")  # neither a format of tmux nor a time
    left, right = f" {shown}  ", f" {leave} "
    options = {
        "status": "on",
        "status-left-length": "60",
        "status-right-length": "60",
        "status-left": left,
        "status-right": right,
        "default-command": _SHELL_IN_TMUX,
    }
    for option, value in options.items():
        yield from (";", "set-option", "-t", _TMUX_SESSION, option, value)


async def is_nested() -> bool:
    """Whether this terminal is inside a tmux that has the same prefix key as the tmux in the pod."""
    if not os.environ.get("TMUX"):
        return False
    asks = ("tmux", "show-options", "-gv", "prefix")
    try:
        process = await asyncio.create_subprocess_exec(*asks, stdout=PIPE, stderr=DEVNULL, stdin=DEVNULL)
        async with asyncio.timeout(TMUX_QUERY_SECONDS):
            output, _ = await process.communicate()
    except (OSError, TimeoutError):
        return True
    return output.decode(errors="replace").strip() in ("", _TMUX_PREFIX_KEY)


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
    """Run a shell (or `argv`) on this terminal, titled `name`; returns its exit code. BadInput without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("A shell needs a terminal.", "Use `a4 exec` to run a command without one.")
    name = name or f"pod {pod}"
    argv = argv or shell_command(tmux=tmux, name=name, is_nested=tmux and await is_nested())
    async with client.websocket(
        pod_path(namespace, pod, "exec"),
        action=f"open a shell in {name}",
        params=exec_params(container, argv, tty=True, stdin=True),
        protocols=PROTOCOLS,
    ) as socket:
        process = ExecProcess(socket, f"the shell in {name}")
        screen = sys.stdout.fileno()
        with _raw_terminal(sys.stdin.fileno()), _window_title(screen, name):
            try:
                return await _relay_terminal(process, sys.stdin.fileno(), screen)
            except BaseException:
                _write_all(screen, _RESET_TERMINAL.encode())
                raise


@contextmanager
def _window_title(screen: int, name: str) -> Iterator[None]:
    plain = "".join(each for each in f"a4: {name}" if each.isprintable())
    _write_all(screen, _SET_WINDOW_TITLE.format(plain).encode())
    try:
        yield
    finally:
        _write_all(screen, _RESTORE_WINDOW_TITLE.encode())


async def _relay_terminal(process: ExecProcess, keys: int, screen: int) -> int:
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
            return await process.wait(lambda _, data: _write_all(screen, data))
    finally:
        loop.remove_reader(keys)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


def _write_all(screen: int, data: bytes) -> None:
    while data:
        data = data[os.write(screen, data) :]


@contextmanager
def _raw_terminal(input_fd: int) -> Iterator[None]:
    """Put the terminal in raw mode for this block (Ctrl-C is passed on too), and restore it afterwards."""
    before = termios.tcgetattr(input_fd)
    try:
        tty.setraw(input_fd)
        yield
    finally:
        termios.tcsetattr(input_fd, termios.TCSADRAIN, before)


@contextmanager
def _on_resize(loop: asyncio.AbstractEventLoop, resized: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: loop.call_soon_threadsafe(resized))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
