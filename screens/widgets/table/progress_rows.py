"""Rows on operations in progress: a glyph, the operation, its progress and start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.widgets.line import CutLines
from screens.wording import BAD, DONE, WAITS, Span, age, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.google.clusters import GkeOperation
    from console.google.node_pools import ProvisioningRequest

BAR = 16  # columns of a bar
MOST = 6  # rows that are shown
_REQUEST = {"provisioned": DONE, "failed": BAD, "revoked": BAD, "expired": BAD}


def operation_row(operation: GkeOperation, words: str, now: float) -> tuple[Span, ...]:
    """A row for an operation that is running or has failed."""
    began = Span(f"  began {age(now - operation.started)} ago" if operation.started else "", "dim")
    if operation.error:
        return (BAD, Span(f" {words} {sentence(operation.error)}", "bad"), began)
    return (DONE if operation.over else WAITS, Span(f" {words}  ", "text"), *bar(operation), began)


def bar(operation: GkeOperation) -> list[Span]:
    done, total = operation.done or 0, operation.total or 0
    if not total:
        return []
    full = BAR * done // total
    return [Span("█" * full, "accent"), Span("░" * (BAR - full), "faint"), Span(f" {done}/{total}", "text")]


def request_row(request: ProvisioningRequest, now: float) -> tuple[Span, ...]:
    """A row for a ProvisioningRequest (DWS)."""
    glyph = _REQUEST.get(request.state, WAITS)
    pods = f"{request.pods} pod" if request.pods == 1 else f"{request.pods} pods"
    why = f"  {sentence(request.why)}" if request.why else ""
    since = f"  asked {age(now - request.created)} ago" if request.created else ""
    return (glyph, Span(f" DWS: {request.namespace}/{request.name} for {pods}: ", "text"),
            Span(request.state, "strong"),
            Span(why, "dim"), Span(since, "dim"))  # fmt: skip


class ProgressRows(CutLines):
    """Shows as many rows as fit, and counts the others in the last line."""

    DEFAULT_CSS = "ProgressRows { height: auto; max-height: 7; padding: 0 0; }"

    def show(self, rows: Sequence[tuple[Span, ...]]) -> None:
        shown = tuple(rows[:MOST])
        if len(rows) > MOST:
            shown = (*shown, (Span(f"and {len(rows) - MOST} more", "dim"),))
        moved = len(shown) != len(self.lines)
        self.lines = shown
        if moved:
            self.styles.height = len(shown)
