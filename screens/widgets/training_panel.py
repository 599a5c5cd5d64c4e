"""The panel of a training run: how far it is, what happened, and the charts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from screens import wording
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.training_charts import Picture, TrainingCharts
from screens.widgets.training_words import earlier_words, marks_words, summary
from screens.wording import Run

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from console.models.training_track import Track
    from console.models.unreadable import Unreadable


class TrainingPanel(Container):
    """Shows the runs of one job; the last one unless another is chosen."""

    DEFAULT_CSS: ClassVar[str] = """
    TrainingPanel { layout: vertical; height: 1fr;
        & #far, & #happened { max-height: 2; }
        &.-low #happened { max-height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "turn(-1)", "Run before", key_display="<", id="training.run-before"),
        Binding("greater_than_sign", "turn(1)", "Run after", key_display=">", id="training.run-after"),
    ]

    charts = query_one(TrainingCharts)
    sentence = query_one("#far", SentenceLine)
    happened = query_one("#happened", SentenceLine)
    waiting: reactive[str] = reactive("No training step has been printed in this job.")
    """What stands there before the first step."""
    chosen: reactive[int | None] = reactive(None)
    """Which run is shown; None: the last."""
    gpu: reactive[str] = reactive("")
    """Label of the GPUs, for the MFU."""
    late: reactive[str] = reactive("")
    """That the next step is late, in words; empty: it is not."""
    unreadable: reactive[tuple[int, Unreadable] | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self.tracks: tuple[Track, ...] = ()
        self.earlier: tuple[tuple[str, Track], ...] = ()
        """Runs of the same recipe that are laid under it, with the names of their jobs."""

    def compose(self) -> ComposeResult:
        """Two sentences, the charts."""
        yield SentenceLine(id="far")
        yield SentenceLine(id="happened")
        yield TrainingCharts()

    @property
    def track(self) -> Track | None:
        """The run shown."""
        if not self.tracks:
            return None
        return self.tracks[-1 if self.chosen is None else min(self.chosen, len(self.tracks) - 1)]

    def show(self, tracks: tuple[Track, ...]) -> None:
        """These runs, as they are."""
        self.tracks = tracks
        self.redraw()

    def on_mount(self) -> None:
        """What was set before."""
        self.redraw()

    def watch_waiting(self) -> None:
        """It waits for something else."""
        if self.is_mounted and self.track is None:
            self.redraw()

    def watch_late(self) -> None:
        """A step is late, or has come."""
        if self.is_mounted:
            self.redraw()

    def watch_chosen(self) -> None:
        """Another run."""
        if self.is_mounted:
            self.redraw()

    def redraw(self) -> None:
        """All of it."""
        if not self.children:
            return  # the page is being closed, and its session with it
        track = self.track
        if track is None:
            self.sentence.runs = (Run("○ ", "dim"), Run(self.waiting, "dim"))
            self.happened.runs = tuple(self._not_read())
            self.charts.picture = None
            return
        with track.series.lock:
            marks = track.marks()
            late = self.late if track is self.tracks[-1] else ""
            told = summary(track, self.gpu, now=time.time(), late=late, short=self.size.width < 100)
            self.sentence.runs = (*self._which(), *told)
        names = [name for name, _ in self.earlier]
        self.happened.runs = (*self._not_read(), *marks_words(marks), *earlier_words(names))
        self.charts.picture = Picture(track, marks, [each for _, each in self.earlier])

    def _which(self) -> list[Run]:
        if len(self.tracks) < 2:
            return []
        at = len(self.tracks) if self.chosen is None else self.chosen + 1
        return [Run(f"run {at} of {len(self.tracks)}  ", "dim")]

    def _not_read(self) -> list[Run]:
        if self.unreadable is None:
            return []
        rank, what = self.unreadable
        where = f" of pod {rank}" if rank else ""
        return [Run(f"⚠ {what.words}{where}: “{wording.sentence(what.text)[:80]}”  ", "waits")]

    def action_turn(self, step: int) -> None:
        """The run before or after."""
        last = len(self.tracks) - 1
        at = (last if self.chosen is None else self.chosen) + step
        self.chosen = None if at >= last else max(0, at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One run needs no turning."""
        return len(self.tracks) > 1 if action == "turn" else True

    def on_resize(self, event: events.Resize) -> None:
        """Fewer words where there is little room."""
        self.set_class(event.size.height < 22, "-low")
        self.redraw()
