"""Prints alarms on standard error and in JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from console.metrics.alarm import GLYPH, Alarm, AlarmKind, format_alarm, next_step
from console.metrics.health import Health, HealthLevel
from screens.cli.output import warn

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.job_monitor import JobMonitor
    from console.session import Session

LOOK_EVERY = 0.5
ALARM = 5
"""What a command exits with for an alarm."""


def health_code(health: Health) -> int:
    """The exit code for a job's health: 5 for an alarm, 1 if it failed or cannot start, else 0."""
    if health.level is not HealthLevel.BAD:
        return 0
    return ALARM if health.alarmed or health.state in {"diverged", "stalled"} else 1


def alarm_json(session: Session, alarm: Alarm) -> dict[str, object]:
    made: dict[str, object] = msgspec.to_builtins(alarm)
    return made | {"next": next_step(alarm, session.watch)}


def alarm_line(alarm: Alarm, watch: WatchedCluster) -> str:
    return f"{alarm.job}: {alarm.kind.label}: {format_alarm(alarm, watch)}"


async def print_alarms(session: Session, name: str, watched: JobMonitor) -> None:
    """Print each alarm of a job as it begins, until its log has been read; a failure is reported as its state."""
    told = 0
    while True:
        over = watched.trouble is not None or watched.complete
        for alarm in watched.watch.alarms[told:]:
            if alarm.kind is not AlarmKind.FAILED:
                warn(f"{name}: {GLYPH} {alarm.kind.label}: {format_alarm(alarm, session.watch)}")
        told = len(watched.watch.alarms)
        if over:
            if watched.trouble is not None:
                warn(f"{name} is not watched for alarms: {watched.trouble}")
            return
        await asyncio.sleep(LOOK_EVERY)
