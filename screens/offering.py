"""What Google has to choose from in the fields of a launch: asked when somebody drops a list down, then kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.models.offer import GOOGLE_KINDS, Offer, OfferState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.session import Session

AGAIN = 30.0
"""Seconds after which Google is asked anew."""


class GoogleOffers:
    """As far as one form has asked."""

    def __init__(self) -> None:
        self._known: dict[str, Offer] = {}
        self._asked: dict[str, float] = {}

    def over(self, offers: Mapping[str, Offer]) -> dict[str, Offer]:
        """What there is to choose from, with what Google has beyond it."""
        none = {kind: Offer(kind) for kind in self._known}
        return {**offers, **{kind: {**none, **offers}[kind].joined(more) for kind, more in self._known.items()}}

    def wants(self, kind: str) -> bool:
        """Whether Google is to be asked for that kind now; from then on it is being asked."""
        now = time.monotonic()
        if kind not in GOOGLE_KINDS or now < self._asked.get(kind, -AGAIN) + AGAIN:
            return False
        self._asked[kind] = now
        if kind not in self._known:
            words = f"Asking Google for {GOOGLE_KINDS[kind]} …"
            self._known[kind] = Offer(kind, state=OfferState.UNASKED, why=words)
        return True

    async def ask(self, session: Session, kind: str) -> None:
        """Know it."""
        found = self._known[kind] = await session.google_offer(kind)
        if found.state is OfferState.FAILED:
            self._asked.pop(kind, None)  # the next try need not wait
