"""The table of Kubernetes events, newest first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on

from console.kube.objects.event import Event
from console.kube.snapshot import WatchStatus
from screens import wording
from screens.columns.column import Column, age_column
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span


class EventTable(ResourceTable[Event]):
    """The events of one job or of all objects; Enter shows the whole message as a toast."""

    NOUN = "event"
    EMPTY = EmptyNotice("No events.", "The API server forgets them after an hour.")
    COLUMNS: ClassVar = (
        age_column("AGO", lambda event: event.last),
        Column("", lambda event: Span("⚠", "waits") if event.type == "Warning" else Span("·", "dim"), width=1),
        Column("REASON", lambda event: event.reason, least=8, most=28, sort=lambda event: event.reason),
        Column(
            "OBJECT",
            lambda event: Span(f"{event.kind} {event.object_name}", "dim"),
            least=8,
            most=40,
            drop=2,
            cut="middle",
        ),
        Column(
            "×", lambda event: Span(f"{event.count}" if event.count > 1 else "", "dim"), width=3, right=True, drop=3
        ),
        Column("MESSAGE", lambda event: wording.sentence(event.message), fill=True, least=20),
    )

    def show_rows(self, rows: Mapping[Any, Event], link: WatchStatus | None = None, at_once: int = sys.maxsize) -> None:
        """Show these events; a cursor on the newest event moves along to new ones."""
        newest = self.shown_keys[:1] == [self.cursor]
        super().show_rows(rows, link, at_once)
        if newest and self.shown_keys[:1] != [self.cursor]:
            self.action_edge(0)

    @on(ResourceTable.Opened)
    def show_whole(self, opened: ResourceTable.Opened) -> None:
        opened.stop()
        if event := self.row:
            self.notify(event.message, title=f"{event.reason}: {event.kind} {event.object_name}")

    def row_text(self, row: Event) -> str:
        return f"{row.reason} {row.kind} {row.object_name} {row.message}"
