"""Copies between this machine and a pod: the dialog with source, destination and progress."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from console.attach.files.entries import CopyProgress, CopyReport
from console.errors import ConsoleError
from console.scheduling.ranks import Rank
from screens.base import LiveScreen
from screens.columns.jobs import JobLine
from screens.dialogs.question import WorkDialog
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Span, bar, count, duration, percent, size

if TYPE_CHECKING:
    Listener = Callable[[CopyProgress], None]
    Perform = Callable[[str, str, Listener], Awaitable[CopyReport]]

_EVERY = 0.1  # seconds between two drawings of the progress


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

    def __init__(self, title: str, sides: tuple[str, str], perform: Perform, *, target: str = "") -> None:
        super().__init__()
        self._heading, self._sides, self._do, self._first_target = title, sides, perform, target
        self._began = self._drawn = 0.0

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
    def _submit(self) -> None:
        if self.busy:
            return
        empty = next((each for each in (self.source, self.target) if not each.value.strip()), None)
        if empty is not None:
            empty.focus()
            self.say("waits", "Both lines are needed; a folder ends with /.")
            return
        self._copy(self.source.value.strip(), self.target.value.strip())

    @work(group="work", exclusive=True)
    async def _copy(self, source: str, target: str) -> None:
        self.busy, self._began = True, time.monotonic()
        self.details.runs = ()
        self.say("dim", "Listing files…")
        try:
            report = await self._do(source, target, self._progress)
        except ConsoleError as error:
            self.say("bad", str(error))
        else:
            self._tell(report)
        self.busy = False

    def _progress(self, far: CopyProgress) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        self._drawn = now
        spent = now - self._began
        rate = (far.done - far.resumed) / spent if spent > 0 else 0.0
        left = f", {duration((far.total - far.done) / rate)} left" if rate > 0 and far.total > far.done else ""
        files = f"  {far.files} of {count(far.all_files, 'file')}" if far.all_files > 1 else ""
        self.status.runs = (
            *bar(far.done, far.total, 24),
            Span(f" {percent(far.done, far.total)}", "strong"),
            Span(f"  {size(far.done)} of {size(far.total)}, {size(int(rate))}/s{left}{files}"),
        )
        self.details.runs = (Span(far.now[-200:], "dim"),)

    def _tell(self, report: CopyReport) -> None:
        before = f", {size(report.resumed)} of it resumed" if report.resumed else ""
        words = f"{count(report.files, 'file')}, {size(report.bytes)}{before}, by {report.way}, {report.proof} equal: "
        left_out = len(report.problems)
        self.say("waits" if left_out else "ok", words + report.target)
        told = [Span(f"{count(left_out, 'thing')} skipped: ", "waits")] if left_out else []
        told += [Span(f"{each.path} {each.why} ".lstrip()) for each in report.problems[:8]]
        self.details.runs = (*told, Span(report.note, "dim"))


async def fetch_from_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    where = f"pod {rank.number} of {line.jobset.name}"
    await copy_files(screen, line.jobset.namespace, rank.name, where, fetch=True)


async def send_to_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    where = f"pod {rank.number} of {line.jobset.name}"
    await copy_files(screen, line.jobset.namespace, rank.name, where, fetch=False)


async def copy_files(
    screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "", *, fetch: bool
) -> None:
    """Open the dialog to copy from a pod or to it; without a container the main one is used."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        found = screen.app.fleet.pods.get((namespace, pod))
        main = found.main.name if found and found.main else ""
        copies = screen.session.copies.of(namespace, pod, container=container or main, where=where)
        return await (copies.fetch if fetch else copies.send)(source, target, progress=progress)

    dialog = (
        CopyDialog(f"Copy from {where}", ("Path there", "To here"), perform, target="./")
        if fetch
        else CopyDialog(f"Copy to {where}", ("Path here", "To there"), perform, target="/tmp/")
    )
    await screen.app.push_screen_wait(dialog)
