"""RFC 3339 timestamps to seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from console.errors import Unreadable


@lru_cache(maxsize=8192)
def parse_time(text: str | None) -> float:
    """Seconds since the epoch (UTC); 0.0 for none or an empty text. Digits beyond microseconds are dropped."""
    if not text:
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(f"{text!r} is no timestamp.") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_time(moment: float) -> str:
    """RFC 3339 with microseconds, as the API server takes it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
