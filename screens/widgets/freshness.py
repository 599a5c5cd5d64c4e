"""Freshness: how new what is shown is, in words; per kind when kinds differ (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.link import Link, LinkState
from screens.wording import Run, duration, freshness, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

STEP = 5
"""Seconds by which the age of a live picture is told: it says little, and need not be painted every second."""
GLYPHS = {
    LinkState.LIVE: Run("●", "ok"),
    LinkState.LISTING: Run("◐", "waits"),
    LinkState.STALE: Run("◐", "waits"),
    LinkState.FORBIDDEN: Run("✗", "bad"),
}


def freshness_runs(links: Sequence[Link], now: float, *, trouble: str = "") -> list[Run]:
    """One phrase for the worst state among those kinds; kinds the cluster does not have say so in their own list."""
    if trouble:
        return [Run("✗ ", "bad"), Run(f"not connected: {sentence(trouble)}", "bad")]
    known = [link for link in links if link.state is not LinkState.ABSENT]
    if not known:
        return [Run("◐ ", "waits"), Run("connecting …", "dim")] if not links else [Run("● ", "ok"), Run("live", "dim")]
    for state in (LinkState.STALE, LinkState.LISTING, LinkState.FORBIDDEN):
        in_state = [link for link in known if link.state is state]
        if in_state:
            return [Run(f"{GLYPHS[state].text} ", GLYPHS[state].ink), *_phrase(state, in_state, known, now)]
    return [Run("● ", "ok"), Run("live", "text"), *_age(known, now)]


def _age(links: Sequence[Link], now: float) -> list[Run]:
    heard = max((link.heard for link in links), default=0.0)
    quiet = (now - heard) // STEP * STEP
    return [Run(f", no change for {duration(quiet)}", "dim")] if heard and quiet else []


def _phrase(state: LinkState, links: Sequence[Link], known: Sequence[Link], now: float) -> list[Run]:
    kinds = "" if len(links) == len(known) else _names(links) + " "
    if state is LinkState.LISTING:
        return [Run(f"listing {_names(links)} …", "dim")]
    if state is LinkState.FORBIDDEN:
        return [Run(f"not allowed: {_names(links)}", "bad")]
    oldest = min((link.heard or link.since for link in links), default=now)
    why = next((link.why for link in links if link.why), "")
    return [
        Run(f"{kinds}reconnecting, {freshness(now - oldest)} old", "waits"),
        *([Run(f": {sentence(why)}", "dim")] if why else []),
    ]


def _names(links: Sequence[Link]) -> str:
    names = [link.kind for link in links]
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
