"""The card of what failed first: who, how and where, then the last lines that were printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.reactive import reactive
from textual.widgets import Static

from screens.widgets.line import wrap
from screens.widgets.log_text import printable

if TYPE_CHECKING:
    from textual import events

    from console.models.failure import FailureCard

TAIL = 3
"""Printed lines that stay when there is room for little; the newest always does."""


def card_lines(card: FailureCard, width: int, room: int) -> list[str]:
    """The card in at most `room` lines, 2 at least: its head, folded to `width`, and the newest lines that fit.

    What is cut is the end of the head and the older of the lines; the head's first line and the newest line never are.
    """
    room = max(2, room)
    said, printed = card.told(), len(card.lines)
    head = [line for part in said[: len(said) - printed] for line in wrap(printable(part), max(1, width))]
    high = max(1, room - min(TAIL, printed, room - 1))
    if len(head) > high:
        head = [*head[: high - 1], f"{head[high - 1]} …"]
    newest = max(0, room - len(head))
    return head + [printable(line) for line in said[len(said) - printed :][-newest:] if newest]


class FailureCardView(Static):
    """The card, as high as `room` lets it be; not there while there is no card."""

    DEFAULT_CSS: ClassVar[str] = """
    FailureCardView { display: none; height: auto; margin: 1 1 0 1; padding: 0 1; border-left: outer $error;
        text-wrap: nowrap; text-overflow: ellipsis; }
    """

    card: reactive[FailureCard | None] = reactive(None, init=False)
    room: reactive[int] = reactive(0, init=False)
    """Lines there are for it."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def watch_card(self) -> None:
        """Another card, or none."""
        self.display = self.card is not None
        self._draw()

    def watch_room(self) -> None:
        """Another size of the page, or another number of ranks beside it."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """The head folds otherwise at another width."""
        self._draw()

    def _draw(self) -> None:
        if self.card is not None:
            self.update("\n".join(card_lines(self.card, self.size.width, self.room)) if self.size.width else "")
