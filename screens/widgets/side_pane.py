"""The pane beside a list, with details of the row under the cursor; it never moves the list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import ClassVar

from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from console.kube.objects.event import Event
from console.kube.stream_completeness import SERVER_CLOCK
from screens import wording
from screens.widgets.styled_text import NeverScrolled, SnapshotText, as_last_known, cut_sentence, dim_spans, line
from screens.widgets.table.row_painter import cell_width
from screens.widgets.wrapped_sentence import fold_spans
from screens.wording import Fact, Span, spans_of

GAP_COLUMNS = 3


def lay_out_facts(facts: tuple[Fact, ...], width: int) -> list[list[Fact]]:
    """The facts of each line, as many on a line as fit into `width`; facts without a value are left out."""
    width = max(1, width)
    known = [fact for fact in facts if cell_width(fact[1])]
    if not known:
        return []
    wide = [fact for fact in known if _fact_width(fact) > width // 2 - GAP_COLUMNS]
    narrow = [fact for fact in known if _fact_width(fact) <= width // 2 - GAP_COLUMNS]
    widest = max((_fact_width(fact) for fact in narrow), default=width)
    columns = max(1, min(4, width // (widest + GAP_COLUMNS)))
    lines = -(-len(narrow) // columns)
    grid = [narrow[index::lines] for index in range(lines)]
    return [*grid, *([fact] for fact in wide)]


def _fact_width(fact: Fact) -> int:
    return NAME_COLUMNS + cell_width(fact[1])


NAME_COLUMNS = 14  # columns of a fact's name
STALE_FACT: Fact = ("Connection", Span("lost: last known", "waits"))


class FactsWidget(SnapshotText):
    DEFAULT_CSS = "FactsWidget { height: auto; padding: 0 0; }"
    facts: reactive[tuple[Fact, ...]] = reactive((), layout=True)

    @property
    def _shown_facts(self) -> tuple[Fact, ...]:
        """The facts, after one that marks an outdated snapshot."""
        if not self.stale:
            return self.facts
        return (STALE_FACT, *((name, dim_spans(spans_of(cell))) for name, cell in self.facts))

    def lines_at(self, width: int) -> Lines:
        return fact_lines(self._shown_facts, width - 4, columns_beside=0, style="head")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines_at(width))

    def render_line(self, y: int) -> Strip:
        lines = self.lines_at(self.size.width)
        runs = lines[y] if y < len(lines) else []
        return line([Span("  "), *runs], self.size.width, self.over(self.rich_style.background_style))


Lines = list[list[Span]]
AGE_COLUMNS = 8  # columns before an event
WIDE_COLUMNS = 100
"""Minimum width in columns at which a pane shows several facts on one line."""


def whole_lines(spans: Iterable[Span], width: int) -> Lines:
    """Spans of text wrapped to lines; a name longer than a line continues on the next."""
    width = max(8, width)
    long = re.compile(rf"\S{{{width}}}(?=\S)")
    return fold_spans([Span(long.sub(r"\g<0> ", run.text), run.style) for run in spans], width)


def fact_lines(facts: Iterable[Fact], width: int, *, columns_beside: int = WIDE_COLUMNS, style: str = "dim") -> Lines:
    """Names and values, one a line or, from `columns_beside` on, several; long values wrap, empty ones are left out.

    `style`: the style of the names.
    """
    found: Lines = []
    lines = lay_out_facts(tuple(facts), width if width >= columns_beside else 0)
    column = width // max(map(len, lines), default=1)
    for row in lines:
        if len(row) > 1:
            found.append(
                [
                    run
                    for name, cell in row
                    for run in (
                        Span(f"{name:<{NAME_COLUMNS}}", style),
                        *spans_of(cell),
                        Span(" " * (column - _fact_width((name, cell)))),
                    )
                ]
            )
            continue
        name, cell = row[0]
        folded = whole_lines(spans_of(cell), width - NAME_COLUMNS)
        found += [[Span(f"{name if not at else '':<{NAME_COLUMNS}}", style), *runs] for at, runs in enumerate(folded)]
    return found


def side_by_side(left_lines: Lines, right_lines: Lines, width: int) -> Lines:
    """Two texts side by side: the left one cut to `width` columns, then a rule, then the right one."""
    both = zip_longest((cut_sentence(runs, width) for runs in left_lines), right_lines, fillvalue=list[Span]())
    return [[*runs, Span(" " * (width - cell_width(runs))), Span(" │ ", "faint"), *right] for runs, right in both]


def event_lines(events: Iterable[Event], now: float, width: int, room: int, *, are_named: bool = False) -> Lines:
    """Kubernetes events under a heading, newest first, in at most `room` lines."""
    rows: Lines = []
    for each in events:
        words = [
            Span(each.reason, "waits" if each.type == "Warning" else ""),
            *([Span(f"  {wording.short_node(each.object_name)}")] if are_named else []),
            Span(f"  {wording.sentence(each.message)}", "dim"),
        ]
        lines = whole_lines(words, width - AGE_COLUMNS)
        if len(rows) + len(lines) > room - 2:
            break
        ages = f"{wording.age(now - each.last):>{AGE_COLUMNS - 2}}  ", " " * AGE_COLUMNS
        rows += [[Span(ages[at > 0], "dim"), *runs] for at, runs in enumerate(lines)]
    return [[], [Span("events", "head")], *rows] if rows else []


class SidePane(SnapshotText, NeverScrolled):
    """A pane that shows the lines its function returns for (width, height, now); `renew` calls it again."""

    DEFAULT_CSS: ClassVar[str] = "SidePane { padding: 0 1; }"
    more_text = "… z shows more"  # in place of the lines that have no room

    def __init__(
        self, lines: Callable[[int, int, float], Lines], *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._make_lines = lines
        self.lines: Lines = []

    def renew(self) -> None:
        """Get the lines again and repaint if they changed; a hidden pane does nothing."""
        width, height = self.content_size
        if self.display and width and height:
            self.show_lines(self._make_lines(width, height - self.stale, SERVER_CLOCK.now()), height)

    def show_lines(self, lines: Lines, height: int) -> None:
        before = self.lines
        if self.stale and lines:
            lines = [[*as_last_known(())], *map(dim_spans, lines)]
        self.lines = lines if len(lines) <= height else [*lines[: height - 1], [Span(self.more_text, "dim")]]
        pairs, width = enumerate(zip_longest(before, self.lines)), self.content_size.width
        if changed := [Region(0, y, width, 1) for y, (old, new) in pairs if old != new]:
            self.refresh(*changed)

    def has_lines(self, width: int, height: int) -> bool:
        """Renew the pane; returns whether there is anything to show."""
        self.renew()
        laid_out = self.display and self.content_size
        return bool(self.lines if laid_out else self._make_lines(width, height, SERVER_CLOCK.now()))

    def on_resize(self) -> None:
        self.renew()

    watch_stale = renew

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        runs = cut_sentence(self.lines[y], width) if y < len(self.lines) else []
        return line(runs, width, self.over(self.base_style))
