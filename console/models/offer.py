"""What a namespace has to choose from for one kind of field."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class OfferState(StrEnum):
    """Whether the names are all there are."""

    LISTED = "listed"
    NOT_ALLOWED = "not allowed"
    """There may be some, and this account may not see them."""
    ABSENT = "absent"
    """The cluster does not serve the kind."""
    UNASKED = "not asked"
    """Google has the list, and is asked when somebody wants to choose."""
    FAILED = "failed"
    """The list could not be had just now."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Names to choose from; other text is allowed in every field too."""

    kind: str
    """As in `Field.choices_from`."""
    names: tuple[str, ...] = ()
    """What is most likely wanted first."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Name -> a few words, where there is something to say."""
    state: OfferState = OfferState.LISTED
    why: str = ""
    """One sentence while nothing can be chosen."""
    fills: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Name -> texts of fields, by path, that belong together and are all filled by choosing it."""

    def joined(self, more: Offer) -> Offer:
        """This one, with the names that another has beyond it; its reason where there is still nothing."""
        names = tuple(dict.fromkeys((*self.names, *more.names)))
        return Offer(
            self.kind,
            names,
            {**more.about, **self.about},
            OfferState.LISTED if names else more.state,
            "" if names else more.why or self.why,
            {**more.fills, **self.fills},
        )


ASKS = "⏎ asks Google for a list."
GOOGLE_KINDS = {
    "buckets": "its buckets",
    "lustre": "its Lustre instances",
    "filestore": "its Filestore instances",
    "images": "the images of its registries",
    "nodelabels": "its node pools",
}
"""What Google has more of than the cluster shows, in words that continue "Asking Google for"."""


def unasked() -> dict[str, Offer]:
    """What stands for the lists that only Google has, until it is asked."""
    return {kind: Offer(kind, state=OfferState.UNASKED, why=ASKS) for kind in ("buckets", "lustre", "filestore")}
