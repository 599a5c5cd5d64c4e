"""The list that drops down under a value: names that the cluster has to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from console.launch.recipes import FieldKind
from screens.widgets.line import Inked, fit

if TYPE_CHECKING:
    from textual import events

    from console.launch.choices import Offer
    from console.launch.recipes import Field


TALLEST = 8  # names in view at once


class ChoiceList(Inked):
    """Names that match what is typed, one under the cursor; without any, why there is none."""

    DEFAULT_CSS: ClassVar[str] = "ChoiceList { display: none; position: absolute; height: 1; background: $panel; }"

    @dataclass
    class Picked(Message):
        """A name was clicked."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self._offer: Offer | None = None
        self._names: tuple[str, ...] = ()
        self._at = 0
        self._top = 0
        self._typed, self._narrow = "", False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> str:
        """The name under the cursor; empty if there is none."""
        return self._names[self._at] if self._names else ""

    def lines_in(self, width: int) -> int:
        return min(TALLEST, len(self._names) or len(self._why(width)))

    def _why(self, width: int) -> list[str]:
        """Why there is nothing, line by line."""
        why = self._offer.why if self._offer else ""
        return wrap(why or "No choices.", max(10, width - 2))

    def open(self, offer: Offer, typed: str = "", *, narrow: bool = False) -> None:
        """Shows the names; `narrow`: only those that hold what is typed, those that begin with it first."""
        wanted = typed.strip().lower()
        names = [name for name in offer.names if wanted in name.lower()] if narrow and wanted else list(offer.names)
        names.sort(key=lambda name: not name.lower().startswith(wanted) if narrow else False)
        self._offer, self._names = offer, tuple(names)
        self._typed, self._narrow = typed, narrow
        self._at = names.index(typed) if typed in names else 0
        self._top = 0
        self._keep_in_view()
        self.display = not narrow or bool(names)
        self.refresh()

    def renew(self, offer: Offer) -> None:
        """There are others to choose from now; the cursor stays on its name."""
        if offer == self._offer:
            return
        here = self.chosen
        self.open(offer, self._typed, narrow=self._narrow)
        if here in self._names:
            self._at = self._names.index(here)
            self._keep_in_view()

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        """The name below or above, round the end."""
        if self._names:
            self._at = (self._at + step) % len(self._names)
            self._keep_in_view()
            self.refresh()

    def _keep_in_view(self) -> None:
        self._top = min(max(self._top, self._at - TALLEST + 1), self._at)

    def render_line(self, y: int) -> Strip:
        width, ground = self.size.width, self.rich_style
        if not self._names or self._offer is None:
            lines = self._why(width)
            return Strip([Segment(fit(f" {lines[y]}" if y < len(lines) else "", width), ground + self.ink("waits"))])
        at = self._top + y
        if at >= len(self._names):
            return Strip.blank(width, ground)
        name = self._names[at]
        about = self._offer.about.get(name, "")
        ground = self.ground("cursor") if at == self._at else ground
        left = min(width, max(len(each) for each in self._names) + 3) if about else width
        mark = "▸" if at == self._at else " "
        return Strip(
            [
                Segment(fit(f"{mark}{name}", left), ground + self.ink("strong" if at == self._at else "text")),
                Segment(fit(f" {about}", width - left) if about else "", ground + self.ink("dim")),
            ]
        ).adjust_cell_length(width, ground)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._top + event.y
        if at < len(self._names):
            self.post_message(self.Picked(self._names[at]))


BUCKET_AT = "/gcs"  # where a bucket is mounted unless somebody says otherwise


def part_typed(field: Field, text: str) -> str:
    """What is typed of the name: all of the text, but in NAME=text only one side of it."""
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return text
    before, _, after = text.partition("=")
    return after.partition("/")[0] if field.choices_from == "secrets" else before


def completed(field: Field, text: str, name: str) -> str:
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return name
    before, _, after = text.partition("=")
    if field.choices_from == "secrets":
        return f"{before or 'NAME'}={name}/{after.partition('/')[2]}"
    return f"{name}={after or BUCKET_AT}" if field.choices_from == "buckets" else f"{name}={after}"
