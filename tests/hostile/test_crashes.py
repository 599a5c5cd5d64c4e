"""What a4 says when it fails itself: where, but no value; no token, no Secret, nothing that a terminal obeys."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from textual import work

from console.connection_settings import Settings
from screens.app import ConsoleApp
from screens.cli.crash_report import MAX_REPORT_CHARACTERS, clean_text, format_crash
from screens.pages.log import LogFileApp
from tests.fakes import FakeSession
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.press import STYLES, connecting, console
from tests.screens.scene import scene
from tests.terminals import run_on_terminal

PLANTED = "hf_PLANTEDabcdefghijkl"
VALUE = "a value of a Secret: PLANTED-VALUE"
HEADER = "Authorization: Bearer PLANTED.abcdefgh-1234"
ALL = "".join(PAYLOADS.values())


def fail() -> None:
    """What an ordinary fault looks like: secrets in variables, and in the words of the error."""
    token, secret = PLANTED, {"password": VALUE}
    try:
        raise KeyError(f"{HEADER} {ALL}")
    except KeyError as error:
        raise RuntimeError(f"no place for token={token} {len(secret)} {ALL}") from error


def failed() -> BaseException:
    try:
        fail()
    except RuntimeError as error:
        return error
    raise AssertionError


def check(text: str) -> None:
    assert "RuntimeError" in text
    assert "in fail" in text, "where it was is said"
    assert "PLANTED" not in text.replace("PLANTED, {", "").replace("PLANTED\n", "")
    assert not RAW.search(text)


def test_a_report_has_no_values() -> None:
    check(format_crash(failed()))


def test_a_report_has_an_end() -> None:
    assert len(clean_text("x" * 10 * MAX_REPORT_CHARACTERS)) < MAX_REPORT_CHARACTERS + 10


@pytest.mark.parametrize("where", ["key", "mount", "timer", "draw"])
def test_a_console_that_fails_tells_no_value(where: str, capfd: pytest.CaptureFixture[str]) -> None:
    class Failing(ConsoleApp):
        CSS_PATH = STYLES

        def on_ready(self) -> None:
            match where:
                case "key":
                    self.call_later(fail)
                case "mount":
                    fail()
                case "timer":
                    self.set_timer(0.001, fail)
                case "draw":
                    draw: Any = lambda _: fail()  # noqa: E731
                    self.screen.render_lines = draw  # type: ignore[method-assign]
                    self.screen.refresh()

    app = Failing(Settings(), connect=connecting(FakeSession(scene())))
    app.run(headless=True, size=(100, 30))
    assert app.return_code == 1
    check(capfd.readouterr().err)


def test_a_worker_that_fails_is_reported_and_the_console_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    output = list[str]()

    class Failing(ConsoleApp):
        CSS_PATH = STYLES

        def on_ready(self) -> None:
            self.run_worker(self.work_that_fails(), name="a worker")

        async def work_that_fails(self) -> None:
            token = PLANTED
            assert token
            fail()

        def notify(self, message: str, **_: Any) -> None:
            output.append(message)
            if "failed" in message:
                self.call_later(self.exit, 0)  # it still handles messages

    app = Failing(Settings(), connect=connecting(FakeSession(scene())))
    app.run(headless=True, size=(100, 30))
    assert app.return_code == 0
    assert any(re.match(r"A part of the console failed \(RuntimeError in test_crashes.py:\d+\)\. The rest", each)
               for each in output)  # fmt: skip
    check(capfd.readouterr().err)


async def test_a_worker_that_shows_something_on_a_page_being_removed_is_no_failure() -> None:
    from textual.widgets import Label

    class Part(Label):
        @work
        async def wait(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.query_one("#gone")

    async with console() as (app, pilot, _):  # raises what a worker raised
        part = Part()
        await app.screen.mount(part)
        part.wait()
        await pilot.pause()
        await part.remove()


COMPUTING = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background has it ignored
from screens.__main__ import main
import screens.__main__ as program

async def compute():
    print("computing", flush=True)
    def endless():
        while True:
            pass
    await asyncio.to_thread(endless)

program.run_options = lambda _: program.run_to_end(compute())
sys.exit(main(["jobs"]))
"""


@pytest.mark.slow(reason="starts a program of its own")
def test_ctrl_c_ends_a_plain_command_whatever_its_threads_compute() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", COMPUTING], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"computing\n"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        try:
            assert process.wait(20) == 130
        finally:
            process.kill()
        assert time.monotonic() - began < 5, "a second on an idle machine"


SCRIPT = """
import asyncio, gc, logging, sys, threading
sys.path.insert(0, {root!r})
from screens import __main__ as program
from tests.hostile.test_crashes import PLANTED, HEADER, ALL, fail

class Broken:
    def __del__(self):
        fail()

async def forgotten():
    asyncio.get_running_loop().create_task(bad())
    await asyncio.sleep(0)

async def bad():
    token = PLANTED
    fail()

def run_command(argv, **_):
    where = argv[0]
    if where == "command":
        fail()
    if where == "thread":
        thread = threading.Thread(target=fail); thread.start(); thread.join()
    if where == "freed":
        Broken()
    if where == "task":
        asyncio.run(forgotten()); gc.collect()
    if where == "log":
        try:
            fail()
        except RuntimeError:
            logging.getLogger("library").exception(f"{{HEADER}} {{ALL}}")
    return 0

program.run_command = run_command
sys.exit(program.main(sys.argv[1:]))
"""


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize("where", ["command", "thread", "freed", "task", "log"])
def test_a_plain_command_that_fails_tells_no_value(where: str, tmp_path: Path) -> None:
    """On a real pseudo-terminal, as Python and libraries would print it by themselves."""
    root = str(Path(__file__).parents[2])
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SCRIPT.format(root=root)))
    code, shown = run_on_terminal([sys.executable, program, where])
    check(shown)
    assert code == (1 if where == "command" else 0)


def test_the_viewer_of_files_has_the_same_gate() -> None:
    assert LogFileApp._fatal_error is ConsoleApp._fatal_error
    assert LogFileApp.get_line_filters is ConsoleApp.get_line_filters


@pytest.mark.slow(reason="starts a console of its own")
def test_a_console_ends_when_its_terminal_is_gone_without_a_signal(tmp_path: Path) -> None:
    """Without a controlling terminal nobody sends SIGHUP, and standard input is at its end for ever."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "XDG_STATE_HOME": str(tmp_path)}
    argv = [Path(sys.executable).with_name("a4")]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while b"No kubeconfig" not in shown:
            shown += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(30) in {0, 120}  # 120: Python could not write what was left for the terminal
