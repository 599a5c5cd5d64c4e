"""Notices: what stands in a table's place when it has no rows, and why."""

from __future__ import annotations

from dataclasses import dataclass

from console.kube.snapshot import Link, LinkState
from screens.widgets.line import wrap
from screens.wording import Run, sentence


@dataclass(frozen=True, slots=True)
class Notice:
    """One sentence on why there is nothing, and one on what to do about it."""

    text: str
    hint: str = ""
    glyph: str = "○"
    ink: str = "dim"

    def line(self, y: int, width: int) -> list[Run]:
        """Line `y` of the notice: an empty one, the sentence, the hint."""
        inner = max(1, width - 2)
        lines = [[Run(f"{self.glyph if not number else ' '} ", self.ink), Run(text, "text")]
                 for number, text in enumerate(wrap(self.text, inner))]  # fmt: skip
        lines += [[Run("  "), Run(text, "dim")] for text in wrap(self.hint, inner) if self.hint]
        return lines[y - 1] if 1 <= y <= len(lines) else []


def notice_for(link: Link | None, empty: Notice) -> Notice:
    """The notice for a kind without rows, from the state of its watch."""
    if link is None or link.state is LinkState.LISTING:
        kind = link.kind if link else ""
        return Notice(f"Listing {kind} …" if kind else "Connecting …", sentence(link.why) if link else "", "◐", "waits")
    if link.state is LinkState.LIVE:
        return empty
    glyph, ink = {
        LinkState.STALE: ("◐", "waits"),
        LinkState.FORBIDDEN: ("✗", "bad"),
        LinkState.ABSENT: ("○", "dim"),
    }[link.state]
    return Notice(sentence(f"{link.kind}: {link.why or link.state}"), sentence(link.hint), glyph, ink)
