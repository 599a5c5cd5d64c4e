"""A quick NCCL test inside a pod: asked for once, then its table grows row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from console.errors import ConsoleError
from screens.modals.question import Question
from screens.widgets.nccl_panel import NcclPanel
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Run, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult

    from console.models.nccl_kept import MeasuredTest

    Perform = Callable[[Callable[[MeasuredTest], None], Callable[[str], None]], Awaitable[None]]


class QuickNccl(Question[None]):
    """Runs the test when it is told to; again until it is closed."""

    DEFAULT_CSS: ClassVar[str] = """
    QuickNccl > Vertical { width: 94%; max-width: 140; height: 90%; background: $surface; border: round $accent;
                           border-title-color: $accent; padding: 0 1; }
    QuickNccl SentenceLine { margin: 0 0 1 0; padding: 0; }
    QuickNccl .keys { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "measure", "Run", id="quicknccl.run", priority=True),
        Binding("escape", "leave", "Stop or close", id="quicknccl.leave"),
    ]
    panel = getters.query_one(NcclPanel)
    status = getters.query_one(SentenceLine)

    def __init__(self, title: str, sizes: str, perform: Perform) -> None:
        super().__init__()
        self._title, self._sizes, self._do = title, sizes, perform
        self._busy = False
        self._complaint = ""
        """What it last said beside its table."""

    def compose(self) -> ComposeResult:
        """What it will do or does, the table, the keys."""
        with Vertical() as box:
            box.border_title = Content(self._title)
            yield SentenceLine()
            yield NcclPanel()
            yield Static("⏎ runs   esc stops waiting, then closes", classes="keys", markup=False)

    def on_mount(self) -> None:
        """Say what it costs, before it is run."""
        self.panel.waiting = "No row yet."
        self._say(
            "waits", f"all_reduce_perf of {self._sizes} on all GPUs of the pod, which slows down what runs there."
        )
        self.panel.table.focus()

    def action_measure(self) -> None:
        """Run it, unless it runs."""
        if not self._busy:
            self._busy = True
            self._say("dim", "It runs…")
            self._measure()

    @work(group="quick-nccl", exclusive=True)
    async def _measure(self) -> None:
        try:
            await self._do(self._take, self._hear)
        except ConsoleError as error:
            self._say("bad", " ".join(filter(None, (error.message, error.hint))))
        else:
            test = self.panel.test
            average = test.avg_busbw if test else None
            bad = test is None or test.ok is False
            words = "Done" if average is None else f"Done: average {average:,.1f} GB/s"
            told = f"{words}; values are wrong." if bad and test else f"{words}."
            self._say("bad" if bad else "ok", f"{told} {self._complaint}".rstrip())
        self._busy = False

    def _take(self, test: MeasuredTest) -> None:
        self.panel.measured = (test,)

    def _hear(self, text: str) -> None:
        self._complaint = one_line(text.strip().rpartition("\n")[2])

    def action_leave(self) -> None:
        """Stop waiting for it, or close."""
        if self._busy:
            self.workers.cancel_group(self, "quick-nccl")
            self._busy = False
            self._say("waits", "Stopped waiting; it may still run there.")
        else:
            self.dismiss(None)

    def _say(self, ink: str, words: str) -> None:
        glyph = {"bad": "✗ ", "ok": "● ", "waits": "⚠ "}.get(ink, "◐ ")
        self.status.runs = (Run(glyph, ink), Run(words, "" if ink in ("ok", "dim") else ink))
