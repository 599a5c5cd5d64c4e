"""The charts of a training run: one large, the others small beside or below it, over one axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.strip import Strip

from console.models.training_series import METRICS
from screens.widgets.ink import Inked
from screens.widgets.plot import Canvas
from screens.widgets.training_axes import clock_words
from screens.widgets.training_plot import Box, Chart, View, draw_chart, reach
from screens.widgets.training_words import chart_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from console.models.training_marks import Mark
    from console.models.training_series import Metric
    from console.models.training_track import Track

NARROWEST = 1 / 4096
"""The smallest share of the axis that may fill the chart."""
_ZOOM = 2.0
_SCROLL = 0.25
"""Share of what is in sight by which it is moved."""
_SMALL_HIGH, _SMALL_WIDE = 6, 26


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn: a run, what happened in it, earlier runs."""

    track: Track
    marks: Sequence[Mark] = ()
    earlier: Sequence[Track] = ()


def boxes(width: int, height: int, metrics: Sequence[Metric], *, alone: bool) -> list[Box]:
    """Where the charts of these metrics go, the large one first; those without room have none."""
    others = 0 if alone else len(metrics) - 1
    if width >= 110 and height >= 10 and others:
        beside = min(others, max(1, height // _SMALL_HIGH))
        large, high = width * 62 // 100, height // beside
        return [Box(0, 0, large - 2, height)] + [
            Box(large, at * high, width - large, high if at < beside - 1 else height - at * high)
            for at in range(beside)
        ]
    if height >= 14 and others:
        below = min(others, max(1, width // _SMALL_WIDE), 4)
        low = max(5, height // 3)
        wide = width // below
        return [Box(0, 0, width, height - low)] + [Box(at * wide, height - low, wide - 1, low) for at in range(below)]
    return [Box(0, 0, width, height)]


def draw(picture: Picture, view: View, metrics: Sequence[Metric], width: int, height: int, *, alone: bool) -> Canvas:
    """All charts on one canvas; the first of the metrics is the large one."""
    canvas = Canvas(width, height)
    series = picture.track.series
    with series.lock:
        for at, (metric, box) in enumerate(zip(metrics, boxes(width, height, metrics, alone=alone), strict=False)):
            chart = Chart(metric, picture.track, picture.earlier, picture.marks, large=at == 0)
            own = view if metric.name == "loss" or at == 0 else replace(view, log=False)
            draw_chart(canvas, box, chart, own, _title(picture, metric, own, large=at == 0))
    return canvas


def _title(picture: Picture, metric: Metric, view: View, *, large: bool) -> str:
    column = picture.track.series.columns.get(metric.name)
    if column is None:
        return metric.title
    extra = []
    value = column.last()
    if view.cursor is not None:
        sight = reach([picture.track, *picture.earlier], view)
        series = picture.track.series
        start = series.times[0] if view.by_time and len(series) else 0.0
        at = series.place(start + sight.low + (sight.high - sight.low) * view.cursor, by_time=view.by_time)
        if at is not None:
            value = column.values[at] if column.values[at] == column.values[at] else None
            extra.append(f"at step {series.numbers[at]:,.0f}, {clock_words(series.times[at])}")
    if large:
        extra += ["log"] * view.log
        extra += [f"{1 / view.span:,.3g}× zoom"] * (view.span < 1)
    return chart_title(metric, value, "  ".join(extra))


class TrainingCharts(Inked, can_focus=True):
    """Draws once per change; keys choose, zoom, scroll and point."""

    DEFAULT_CSS: ClassVar[str] = "TrainingCharts { height: 1fr; width: 1fr; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next metric", id="training.next", key_display="↓"),
        Binding("up,k", "choose(-1)", "Metric before", show=False, id="training.before", key_display="↑"),
        Binding("plus,equals_sign", "zoom(1)", "Zoom", id="training.in", key_display="+"),
        Binding("minus", "zoom(-1)", "Zoom out", id="training.out", key_display="-"),
        Binding("left", "scroll_by(-1)", "Earlier", show=False, id="training.left", key_display="←"),
        Binding("right", "scroll_by(1)", "Later", show=False, id="training.right", key_display="→"),
        Binding("0,home", "whole", "Whole run", show=False, id="training.whole", key_display="0"),
        Binding("end,G", "latest", "Latest", show=False, id="training.latest", key_display="end"),
        Binding("comma", "point(-1)", "Point left", show=False, id="training.point-left", key_display=","),
        Binding("full_stop", "point(1)", "Point right", show=False, id="training.point-right", key_display="."),
        Binding("a", "axis", "Steps/time", id="training.axis", tooltip="Steps or time on the axis"),
        Binding("g", "log", "Log", id="training.log", tooltip="Logarithmic or linear"),
        Binding("w", "smooth", "Smooth", show=False, id="training.smooth", tooltip="Smoothed beside raw, or raw alone"),
        Binding("z", "alone", "Large", show=False, id="training.alone", tooltip="The large chart alone, or all"),
    ]

    picture: reactive[Picture | None] = reactive(None, always_update=True)
    view: reactive[View] = reactive(View())
    chosen: reactive[str] = reactive("loss")
    """Name of the metric that is large."""
    alone: reactive[bool] = reactive(False)
    _rows: list[Strip] | None = None
    _drawn_at: tuple[int, int] = (0, 0)

    def watch_picture(self) -> None:
        """Something has changed: it is drawn anew."""
        self._rows = None

    watch_view = watch_picture
    watch_chosen = watch_picture
    watch_alone = watch_picture

    def notify_style_update(self) -> None:
        """Textual's call after styles changed."""
        super().notify_style_update()
        self._rows = None

    @property
    def metrics(self) -> list[Metric]:
        """Those that the run tells, the large one first."""
        columns = self.picture.track.series.columns if self.picture else {}
        told = [metric for metric in METRICS if metric.name in columns] or list(METRICS[:1])
        return sorted(told, key=lambda metric: metric.name != self.chosen)

    def render_line(self, y: int) -> Strip:
        """One line of the picture."""
        size = self.size.width, self.size.height
        if self._rows is None or self._drawn_at != size:
            self._rows, self._drawn_at = self._draw(*size), size
        return self._rows[y] if y < len(self._rows) else Strip.blank(size[0], self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        if self.picture is None or width < 12 or height < 3:
            return []
        canvas = draw(self.picture, self.view, self.metrics, width, height, alone=self.alone)
        ground = self.rich_style
        return [Strip([Segment(run.text, ground + self.ink(run.ink)) for run in row], width) for row in canvas.rows()]

    # keys

    def action_choose(self, step: int) -> None:
        """Another metric is the large one."""
        told = sorted(self.metrics, key=METRICS.index)
        at = next((at for at, metric in enumerate(told) if metric.name == self.metrics[0].name), 0)
        self.chosen = told[(at + step) % len(told)].name

    def action_zoom(self, step: int) -> None:
        """In or out, about the place that is pointed at, else about the latest steps or the middle."""
        view = self.view
        span = min(1.0, max(NARROWEST, view.span / _ZOOM if step > 0 else view.span * _ZOOM))
        about = view.end - view.span * (1 - view.cursor) if view.cursor is not None else None
        if about is not None:
            end = about + span * (1 - (view.cursor or 0.0))
        else:
            end = view.end if view.end >= 1 else view.end - (view.span - span) / 2
        self.view = replace(view, span=span, end=min(1.0, max(span, end)))

    def action_scroll_by(self, step: int) -> None:
        """Earlier or later."""
        view = self.view
        end = view.end + step * _SCROLL * view.span
        self.view = replace(view, end=min(1.0, max(view.span, end)))

    def action_whole(self) -> None:
        """The whole run."""
        self.view = replace(self.view, span=1.0, end=1.0, cursor=None)

    def action_latest(self) -> None:
        """The latest steps, and on with them."""
        self.view = replace(self.view, end=1.0, cursor=None)

    def action_point(self, step: int) -> None:
        """The place that is pointed at, by a column."""
        old = self.view.cursor
        large = boxes(self.size.width, self.size.height, self.metrics, alone=self.alone)[0]
        at = (1.0 if step < 0 else 0.0) if old is None else old + step / max(1, large.width - 8)
        self.view = replace(self.view, cursor=min(1.0, max(0.0, at)))

    def action_axis(self) -> None:
        """Steps or time."""
        self.view = replace(self.view, by_time=not self.view.by_time)

    def action_log(self) -> None:
        """Logarithmic or linear."""
        self.view = replace(self.view, log=not self.view.log)

    def action_smooth(self) -> None:
        """With or without the smoothed line."""
        self.view = replace(self.view, smooth=not self.view.smooth)

    def action_alone(self) -> None:
        """The large chart alone."""
        self.alone = not self.alone

    def on_click(self, event: events.Click) -> None:
        """A click points, and makes a small chart the large one."""
        found = boxes(self.size.width, self.size.height, self.metrics, alone=self.alone)
        x, y = event.get_content_offset_capture(self)
        for metric, box in zip(self.metrics, found, strict=False):
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                if metric.name != self.metrics[0].name:
                    self.chosen = metric.name
                else:
                    self.view = replace(self.view, cursor=min(1.0, max(0.0, (x - 7) / max(1, box.width - 8))))
                return
