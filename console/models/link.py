"""How fresh each kind of object is: a lost connection is state, not an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LinkState(StrEnum):
    """What the watch of one kind is doing."""

    LISTING = "listing"
    """The first list is under way; nothing is known yet."""
    LIVE = "live"
    STALE = "stale"
    """The connection is lost; the last picture is kept and a new try is under way."""
    FORBIDDEN = "forbidden"
    """The account may not list this kind."""
    ABSENT = "absent"
    """The cluster does not serve this kind (Kueue or JobSet is not installed)."""


@dataclass(frozen=True, slots=True)
class Link:
    """The state of one kind's watch."""

    kind: str
    """Plural name of the kind: "pods", "jobsets"."""
    state: LinkState = LinkState.LISTING
    since: float = 0.0
    """When this state began."""
    heard: float = 0.0
    """When the server was last heard on this watch: a list, an event or a bookmark."""
    why: str = ""
    """One sentence for stale, forbidden and absent."""
    hint: str = ""
    version: str = ""
    """API group and version in use, such as "kueue.x-k8s.io/v1beta2"."""
