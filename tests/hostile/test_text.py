"""One gate for text: whatever a cluster says, a terminal shows it and never obeys it."""

import io
import os
import pty
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct, structs
from rich.cells import cell_len

from console.attach.files.copy_progress import CopyProgress
from screens.cli.exec import MAX_HELD_BYTES, RankOutputPrinter
from screens.cli.files import progress_bars
from screens.cli.output import GuardedStream, sanitized_output
from screens.dialogs.run_in_ranks import ExecAll
from screens.pages.job import JobScreen
from screens.sanitize import for_terminal, one_line
from screens.widgets.styled_text import cut_text, fit_text, wrap_text
from tests.fakes import FakeSession
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.press import console, press, screen_text, until
from tests.screens.scene import scene
from tests.terminals import run_on_terminal

WORDS = st.text(
    st.one_of(st.characters(), st.sampled_from("\u200d\ufe0f\u0301\x1b\x9b 🙂あ\u202e\t\n")), max_size=60
)  # fmt: skip


@pytest.mark.parametrize("attack", PAYLOADS)
def test_nothing_of_it_is_left(attack: str) -> None:
    text = f"before {PAYLOADS[attack]} after"
    assert not RAW.search(one_line(text))
    assert "\n" not in one_line(f"{text}\n")
    assert not RAW.search(for_terminal(f"{text}\n{text}"))
    assert one_line(text).startswith("before ")
    assert one_line(text).endswith(" after")


@given(WORDS, st.integers(0, 40))
def test_a_text_has_the_width_it_is_given(text: str, width: int) -> None:
    fitted = fit_text(text, width)
    assert cell_len(fitted) == width
    assert not RAW.search(fitted)
    assert cell_len(cut_text(one_line(text), width)) <= width


@given(WORDS, st.integers(1, 40))
def test_wrapped_lines_are_no_wider_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrap_text(text, width)
    assert all(cell_len(line) <= width for line in lines)
    if width > 1:
        assert "".join(lines).replace(" ", "") == one_line(text).replace(" ", "")


@pytest.mark.parametrize("width", [1, 2, 80, 180])
def test_words_that_ended_the_console_once(width: int) -> None:
    words = " ".join("\u200d\u200d🙂" + "a" * length for length in range(max(width - 17, 0), width + 3))
    assert all(cell_len(line) <= width for line in wrap_text(words, width))


def test_a_stream_to_a_terminal_passes_the_gate() -> None:
    out = io.StringIO()
    guarded = GuardedStream(out)
    for payload in PAYLOADS.values():
        guarded.write(f"{payload}\n")
    guarded.writelines(PAYLOADS.values())
    assert not RAW.search(out.getvalue())


def test_lines_of_many_pods_pass_the_gate_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8", newline="") as terminal:  # noqa: PTH123 - a descriptor
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout", terminal)
            with sanitized_output():
                lines = RankOutputPrinter(8)
                for payload in PAYLOADS.values():
                    lines.print_complete_lines(7, 1, payload.encode() + b"\n")
                    lines.print_complete_lines(7, 1, payload.encode("latin-1", "replace") + b"\n")
                lines.print_complete_lines(7, 1, b"x" * 100)
        os.set_blocking(ours, False)
        shown = bytearray()
        with suppress(BlockingIOError):
            while piece := os.read(ours, 65536):
                shown += piece
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert text.count("7: ") >= 2 * len(PAYLOADS)
    assert not RAW.search(text)


def test_the_bar_of_a_copy_is_drawn_and_the_names_of_files_are_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    with sanitized_output(), progress_bars(1, is_shown=True) as begin:
        listen = begin("")
        for payload in PAYLOADS.values():
            listen(CopyProgress(done=1, total=2, now=f"notes{payload}"[:40]))
    assert "━" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue(), "each picture of the bar takes the place of the one before"
    colours_and_cursor = re.compile(r"\x1b\[[\d;?]*[mKAlh]|[\r\n]")
    assert not RAW.search(colours_and_cursor.sub("", terminal.getvalue()))


def test_a_line_of_a_pod_without_end_is_printed_in_pieces(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lines = RankOutputPrinter(8)
    for _ in range(100):
        lines.print_complete_lines(7, 1, b"x" * MAX_HELD_BYTES)
    assert len(capfdbinary.readouterr().out) > 90 * MAX_HELD_BYTES


LOG = "".join(f"{number} {payload}\n" for number, payload in enumerate(PAYLOADS.values()))
COMMANDS: dict[str, Sequence[str]] = {
    "an error that repeats what was typed": ("read", "/tmp/none" + "".join(PAYLOADS.values()).replace("\0", "")),
    "a log of nothing but payloads": ("read", "LOG"),
    "a usage mistake": ("jobs", "--nothing" + PAYLOADS["the clipboard written"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_plain_command_in_a_terminal(command: str, tmp_path: Any) -> None:
    """On a real pseudo-terminal: no byte of a payload arrives as it was sent."""
    log = tmp_path / "log"
    log.write_text(f"{LOG}# Out of bounds values : 0 OK {PAYLOADS['the title set']}\n[E] NCCL WARN {LOG}")
    words = [str(log) if each == "LOG" else each for each in COMMANDS[command]]
    _, text = run_on_terminal([sys.executable, "-m", "screens", *words])
    assert text
    assert not RAW.search(text)


ALL = "".join(payload for name, payload in PAYLOADS.items())


def poisoned(value: Any) -> Any:
    """The same picture of a cluster, with every payload behind every text in it."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return f"{value}{ALL}" if value else value
    if is_dataclass(value) and not isinstance(value, type):
        made = {each.name: poisoned(getattr(value, each.name)) for each in fields(value) if each.init}
        return replace(value, **made)
    if isinstance(value, Struct):
        return structs.replace(value, **{name: poisoned(each) for name, each in structs.asdict(value).items()})
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(poisoned, value))
    if isinstance(value, dict):
        return {key: poisoned(item) for key, item in value.items()}
    return value


@pytest.mark.slow(reason="opens every page")
async def test_no_page_lets_a_payload_through() -> None:
    """Every text of every object is hostile: names, messages, labels, images, reasons."""
    fleet = scene()
    session = FakeSession(poisoned(fleet))
    seen = 0
    async with console(session, size=(140, 45)) as (app, pilot, _):
        for keys in (
            ("1",),
            ("1", "enter"),
            ("2",),
            ("2", "w"),
            ("w", "3"),
            ("3", "enter"),
            ("4",),
            ("4", "enter"),
            ("5",),
            ("6",),
        ):
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
            shown = screen_text(app)
            seen += shown.count("PWNT")
            assert not RAW.search(shown), f"on the page after {keys}"
        for attack, payload in PAYLOADS.items():
            app.notify(f"{attack}: {payload}", title=payload)
        app.sub_title = ALL
        await pilot.pause()
        shown = screen_text(app)
        assert not RAW.search(shown)
    assert seen


async def test_a_name_with_markup_does_not_end_the_question_for_a_command() -> None:
    """The dialog of `!` names the job and its pods."""
    fleet = scene()
    markup = PAYLOADS["markup"].replace("/", "")  # it is part of an address
    key = "default", f"llama-70b{markup}[x"
    named = structs.replace(
        fleet.jobsets["default", "llama-70b"], name=key[1], recipe=f"x{PAYLOADS['markup']}", owner=ALL
    )
    pods = {
        at: structs.replace(
            each,
            name=f"{each.name}{PAYLOADS['markup']}",
            node=f"{each.node}{ALL}",
            jobset=key[1] if each.jobset == "llama-70b" else each.jobset,
        )
        for at, each in fleet.pods.items()
    }
    session = FakeSession(structs.replace(fleet, jobsets={**fleet.jobsets, key: named}, pods=pods))
    session.answers["exec"] = lambda number: (number, ALL.encode(errors="replace"), PAYLOADS["markup"].encode())
    async with console(session, size=(140, 45)) as (app, pilot, _):
        app.open_page("job", *key)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
        await until(pilot, lambda: "Running" in screen_text(app))
        await press(pilot, "exclamation_mark", then=lambda: isinstance(app.screen, ExecAll) and app.screen.is_mounted)
        await pilot.press(*"true", "enter")
        await until(pilot, lambda: bool(session.called("everywhere")) and "PWNT" in screen_text(app))
        assert not RAW.search(screen_text(app))


@pytest.mark.slow(reason="opens every page")
async def test_what_pods_print_and_answer_stays_text_on_the_pages_that_show_it() -> None:
    """The log of one pod and of all."""
    fleet = scene()
    session = FakeSession(fleet)
    pods = [each for each in fleet.pods.values() if each.jobset == "llama-70b"]
    for pod in pods:
        session.say(pod.name, *(f"{name} {payload} PWNT" for name, payload in PAYLOADS.items()))
    async with console(session, size=(140, 45)) as (app, pilot, _):
        app.open_page("job", "default", "llama-70b")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "Running" in screen_text(app))
        for keys in (
            ("l",),
            ("m",),
            ("home",),
            ("W",),
            ("slash", *"PWNT", "enter"),
            ("escape",),
        ):
            await press(pilot, *keys, then=lambda: "PWNT" in screen_text(app))
            assert not RAW.search(screen_text(app)), keys
