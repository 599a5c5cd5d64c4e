"""Columns of alarms."""

from __future__ import annotations

from console.metrics.alarm import Alarm
from screens import wording
from screens.columns.column import PAGE, Column, age_column
from screens.wording import Span

ALARMS: tuple[Column[Alarm], ...] = (
    age_column("AGO", lambda alarm: alarm.since),
    Column("", lambda alarm: wording.ALARM if alarm.is_active else wording.IDLE, only=PAGE, width=1),
    Column(
        "JOB",
        lambda alarm: Span(alarm.job, "strong" if alarm.is_active else "dim"),
        least=8,
        most=32,
        cut="middle",
        sort=lambda alarm: alarm.job,
    ),
    Column("ALARM", lambda alarm: alarm.kind.label, width=8, sort=True),
    Column("WHAT", lambda alarm: alarm.text + (f" ({alarm.ended_text})" if alarm.over else ""), fill=True, least=20),
    Column("NAMESPACE", lambda alarm: alarm.namespace, least=9, most=16, drop=2, style="dim"),
)
