"""Copies between this machine and a pod: the dialog with source, destination and progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from console.errors import ConsoleError
from screens.dialogs.question import Question
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Span, bar, count, duration, percent, size

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult

    from console.attach.files.copies import ContainerCopies
    from console.attach.files.entries import CopyProgress, CopyReport
    from console.scheduling.ranks import Rank
    from screens.base import LiveScreen
    from screens.columns.jobs import JobLine


if TYPE_CHECKING:
    Perform = Callable[[str, str, Callable[[CopyProgress], None]], Awaitable[CopyReport]]

_EVERY = 0.1  # seconds between two drawings of the progress


class CopyDialog(Question[None]):
    """Asks for both paths, copies, says how it went; what is stopped is gone on with by the same copy."""

    DEFAULT_CSS: ClassVar[str] = """
    CopyDialog > Vertical { width: 90; max-width: 95%; height: auto; max-height: 90%; background: $surface;
                            border: round $accent; border-title-color: $accent; padding: 1 2; }
    CopyDialog Horizontal { height: 1; margin-bottom: 1; }
    CopyDialog Horizontal Static { width: 14; color: $ink-head; }
    CopyDialog Input { border: none; height: 1; padding: 0 1; background: $panel; width: 1fr; }
    CopyDialog SentenceLine { padding: 0; max-height: 8; }
    CopyDialog .keys { height: 1; color: $text-muted; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Stop or close", id="copy.leave")]

    source = getters.query_one("#source", Input)
    target = getters.query_one("#target", Input)
    status = getters.query_one("#status", SentenceLine)
    details = getters.query_one("#details", SentenceLine)

    def __init__(self, title: str, sides: tuple[str, str], perform: Perform, *, target: str = "") -> None:
        super().__init__()
        self._heading, self._sides, self._do, self._first_target = title, sides, perform, target
        self._busy = False
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

    def action_leave(self) -> None:
        if self._busy:
            self.workers.cancel_group(self, "copy")
            self._busy = False
            self._say("waits", "Stopped. What was copied is kept: the same copy continues from there.")
        else:
            self.dismiss(None)

    @on(Input.Submitted)
    def _submit(self) -> None:
        if self._busy:
            return
        empty = next((each for each in (self.source, self.target) if not each.value.strip()), None)
        if empty is not None:
            empty.focus()
            self._say("waits", "Both lines are needed; a folder ends with /.")
            return
        self._copy(self.source.value.strip(), self.target.value.strip())

    @work(group="copy", exclusive=True)
    async def _copy(self, source: str, target: str) -> None:
        self._busy, self._began = True, time.monotonic()
        self.details.runs = ()
        self._say("dim", "Listing files…")
        try:
            report = await self._do(source, target, self._progress)
        except ConsoleError as error:
            self._say("bad", str(error))
        else:
            self._tell(report)
        self._busy = False

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
        self._say("waits" if left_out else "ok", words + report.target)
        told = [Span(f"{count(left_out, 'thing')} skipped: ", "waits")] if left_out else []
        told += [Span(f"{each.path} {each.why} ".lstrip()) for each in report.problems[:8]]
        self.details.runs = (*told, Span(report.note, "dim"))

    def _say(self, ink: str, words: str) -> None:
        glyph = {"bad": "✗ ", "ok": "✓ ", "waits": "⚠ "}.get(ink, "◐ ")
        self.status.runs = (Span(glyph, ink), Span(words, "" if ink in ("ok", "dim") else ink))


if TYPE_CHECKING:
    Listener = Callable[[CopyProgress], None]


async def fetch_from_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    await fetch_from_pod(screen, line.jobset.namespace, rank.name, f"pod {rank.number} of {line.jobset.name}")


async def send_to_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    await send_to_pod(screen, line.jobset.namespace, rank.name, f"pod {rank.number} of {line.jobset.name}")


async def fetch_from_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from a pod to this machine."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await _copies(screen, namespace, pod, where, container).fetch(source, target, progress=progress)

    dialog = CopyDialog(f"Copy from {where}", ("Path there", "To here"), perform, target="./")
    await screen.app.push_screen_wait(dialog)


async def send_to_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from this machine to a pod."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await _copies(screen, namespace, pod, where, container).send(source, target, progress=progress)

    dialog = CopyDialog(f"Copy to {where}", ("Path here", "To there"), perform, target="/tmp/")
    await screen.app.push_screen_wait(dialog)


def _copies(screen: LiveScreen, namespace: str, pod: str, where: str, container: str) -> ContainerCopies:
    """Of that container; where none is named, of the one that does the work."""
    found = screen.app.fleet.pods.get((namespace, pod))
    main = found.main.name if found and found.main else ""
    return screen.session.copies.of(namespace, pod, container=container or main, where=where)
