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
