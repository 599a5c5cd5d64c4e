"""The interface through which launches and their history read logs, measures and alarms of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from console.metrics.alarm import Alarm
    from console.metrics.job_measures import JobMeasures
    from console.metrics.lost_work import SeenFolder
    from console.metrics.time_spans import TimeSpan

    Key = tuple[str, str]


class KnownJobs(Protocol):
    def list_alarms(self, key: Key, since: float) -> tuple[Alarm, ...]: ...

    def list_spans(self, key: Key) -> Sequence[TimeSpan]:
        """The use of a job's time as spans, by its log."""
        ...

    def find_measures(self, key: Key) -> JobMeasures | None:
        """The measures of a job whose log this session follows, once the log is read up to now; None for other jobs."""
        ...

    async def read_log(self, namespace: str, name: str) -> JobMeasures:
        """A job's measures up to now; its log is read if nobody follows it."""
        ...

    def seen_folder(self, key: Key) -> SeenFolder | None:
        """The job's checkpoint folder as last read in this session; None if not read."""
        ...
