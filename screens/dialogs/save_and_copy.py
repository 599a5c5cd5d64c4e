"""Saves a log, table or chart to a file, and copies files between this machine and a pod."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from console.attach.files.copy_progress import CopyProgress, CopyReport
from console.errors import BadInput, ConsoleError
from console.folders import write_new_file
from console.logs.log_text import LogText
from console.scheduling.pod_slots import PodSlot
from screens.columns.jobs import JobLine
from screens.dialogs.question import FilePrompt, WorkDialog
from screens.live_screen import LiveScreen
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span, bar, count, duration, percent, size, whole_path

if TYPE_CHECKING:
    Listener = Callable[[CopyProgress], None]
    Perform = Callable[[str, str, Listener], Awaitable[CopyReport]]


PAGE = 5000


async def save_log(screen: LiveScreen, text: LogText, name: str) -> None:
    """Ask for a file and write the shown lines; to be run in a worker."""
    hint = "Another folder is typed before the name. Enter writes it, Esc cancels."
    place = await screen.app.push_screen_wait(FilePrompt("Save the lines that are shown to", f"{name}.log", hint=hint))
    if not place:
        return
    with screen.report_errors("The log is not saved"):
        number = await asyncio.to_thread(write_lines, text, place)
        screen.notify(f"{count(number, 'line')} in {whole_path(place)}.", title="Saved", markup=False)


def write_lines(text: LogText, path: str) -> int:
    """Write lines to a new file with mode 0600; returns their number. Raises BadInput."""
    total = len(text)
    if not total:
        raise BadInput("There are no lines to save.", "Wait for new lines, or clear the filter with esc.")
    rows = chain.from_iterable(text.read_rows(start, min(total, start + PAGE)) for start in range(0, total, PAGE))
    lines = (f"[{row.label}] {row.text}\n" if row.label else f"{row.text}\n" for row in rows)
    write_new_file(Path(path), (line.encode("utf-8", "replace") for line in lines))
    return total


EXPORT_FORMATS = ("csv", "json", "svg")


async def save_export(screen: LiveScreen, name: str, text: Callable[[str], str]) -> None:
    """Ask for a file and write what `text` returns for its extension; to be run in a worker."""
    hint = "The ending says what it becomes: .csv, .json or .svg. Another folder is typed before the name. Esc cancels."
    place = await screen.app.push_screen_wait(FilePrompt("Save as", name, hint=hint))
    if not place:
        return
    with screen.report_errors("Nothing is saved"):
        await asyncio.to_thread(write_export, place, text)
        screen.notify(f"{whole_path(place)} is written.", title="Saved", markup=False)


def write_export(path: str, text: Callable[[str], str]) -> None:
    """Write a new file with mode 0600. Raises BadInput for another extension or if it cannot be created."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in EXPORT_FORMATS:
        raise BadInput(f"{Path(path).name} has no ending that says what to write.", "End it in .csv, .json or .svg.")
    write_new_file(Path(path), text(kind).encode("utf-8", "replace"))


_PROGRESS_SECONDS = 0.1  # seconds between two drawings of the progress


class CopyDialog(WorkDialog):
    """Asks for both paths, copies, and reports the result; a stopped copy can be resumed."""

    DEFAULT_CSS: ClassVar[str] = """
    CopyDialog > Vertical { width: 90; max-width: 95%; padding: 1 2; }
    CopyDialog Horizontal { height: 1; margin-bottom: 1; }
    CopyDialog Horizontal Static { width: 14; color: $ink-head; }
    CopyDialog Input { width: 1fr; }
    CopyDialog SentenceLine { padding: 0; max-height: 8; }
    CopyDialog .keys { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Stop or close", id="copy.leave")]

    source = getters.query_one("#source", Input)
    target = getters.query_one("#target", Input)
    details = getters.query_one("#details", SentenceLine)

    def __init__(self, title: str, path_labels: tuple[str, str], perform: Perform, *, target: str = "") -> None:
        super().__init__()
        self._heading, self._sides, self._perform, self._first_target = title, path_labels, perform, target
        self._began_at = self._progress_drawn_at = 0.0

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._heading)
            for name, label, value in (("source", self._sides[0], ""), ("target", self._sides[1], self._first_target)):
                with Horizontal():
                    yield Static(label, markup=False)
                    yield Input(value, compact=True, id=name)
            yield SentenceLine(id="status")
            yield SentenceLine(id="details")
            yield Static("⏎ copies   ⇥ next line   esc stops it, then closes", classes="keys", markup=False)

    def on_mount(self) -> None:
        self.source.focus()

    def stopped_words(self) -> str:
        return "Stopped. What was copied is kept: the same copy continues from there."

    @on(Input.Submitted)
    def _submit_paths(self) -> None:
        if self.is_busy:
            return
        empty = next((each for each in (self.source, self.target) if not each.value.strip()), None)
        if empty is not None:
            empty.focus()
            self.note("waits", "Both lines are needed; a folder ends with /.")
            return
        self._run_copy(self.source.value.strip(), self.target.value.strip())

    @work(group="work", exclusive=True)
    async def _run_copy(self, source: str, target: str) -> None:
        self.is_busy, self._began_at = True, time.monotonic()
        self.details.runs = ()
        self.note("dim", "Listing files…")
        try:
            report = await self._perform(source, target, self._show_progress)
        except ConsoleError as error:
            self.note("bad", str(error))
        else:
            self._show_report(report)
        self.is_busy = False

    def _show_progress(self, far: CopyProgress) -> None:
        now = time.monotonic()
        if now - self._progress_drawn_at < _PROGRESS_SECONDS:
            return
        self._progress_drawn_at = now
        spent = now - self._began_at
        rate = (far.done - far.resumed_bytes) / spent if spent > 0 else 0.0
        left = f", {duration((far.total - far.done) / rate)} left" if rate > 0 and far.total > far.done else ""
        files = f"  {far.done_files} of {count(far.all_files, 'file')}" if far.all_files > 1 else ""
        self.status.runs = (
            *bar(far.done, far.total, 24),
            Span(f" {percent(far.done, far.total)}", "strong"),
            Span(f"  {size(far.done)} of {size(far.total)}, {size(int(rate))}/s{left}{files}"),
        )
        self.details.runs = (Span(far.now[-200:], "dim"),)

    def _show_report(self, report: CopyReport) -> None:
        before = f", {size(report.resumed)} of it resumed" if report.resumed else ""
        words = f"{count(report.files, 'file')}, {size(report.bytes)}{before}, by {report.way}, {report.proof} equal: "
        left_out = len(report.problems)
        self.note("waits" if left_out else "ok", words + report.target)
        spans = [Span(f"{count(left_out, 'thing')} skipped: ", "waits")] if left_out else []
        spans += [Span(f"{each.path} {each.why} ".lstrip()) for each in report.problems[:8]]
        self.details.runs = (*spans, Span(report.note, "dim"))


async def fetch_from_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    where = f"pod {slot.number} of {line.jobset.name}"
    await copy_files(screen, line.jobset.namespace, slot.name, where, is_fetch=True)


async def send_to_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    where = f"pod {slot.number} of {line.jobset.name}"
    await copy_files(screen, line.jobset.namespace, slot.name, where, is_fetch=False)


async def copy_files(
    screen: LiveScreen, namespace: str, pod: str, label: str, container: str = "", *, is_fetch: bool
) -> None:
    """Open the dialog to copy from a pod or to it; without a container the main one is used."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        found = screen.app.fleet.pods.get((namespace, pod))
        main = found.main.name if found and found.main else ""
        copies = screen.session.copies.for_container(namespace, pod, container=container or main, label=label)
        return await (copies.fetch if is_fetch else copies.send)(source, target, progress=progress)

    dialog = (
        CopyDialog(f"Copy from {label}", ("Path there", "To here"), perform, target="./")
        if is_fetch
        else CopyDialog(f"Copy to {label}", ("Path here", "To there"), perform, target="/tmp/")
    )
    await screen.app.push_screen_wait(dialog)
