"""A session's findings about jobs: alarms, measures, slow ranks and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from console.kube.stream_completeness import SERVER_CLOCK

if TYPE_CHECKING:
    from console.checkpoints.reader import CheckpointReader
    from console.checkpoints.saved_state import SavedState
    from console.hang.inspector import JobInspector
    from console.kube.objects.jobset import JobSet
    from console.metrics.alarm import Alarm
    from console.metrics.alarm_service import AlarmService
    from console.metrics.job_measures import JobMeasures
    from console.metrics.job_monitor import JobMonitor
    from console.metrics.lost_work import SeenFolder
    from console.metrics.measure_service import MeasureService
    from console.metrics.time_spans import TimeSpan
    from rankscope import SlowReport

    Key = tuple[str, str]


class SessionJobs:
    """This session's findings about jobs; `alarms`, `inspector` and `checkpoints` are None until first used."""

    def __init__(self, measures: Callable[[], MeasureService]) -> None:
        self._measures = measures
        self.alarms: AlarmService | None = None
        self.inspector: JobInspector | None = None
        self.checkpoints: CheckpointReader | None = None

    def find_monitor(self, key: Key) -> JobMonitor | None:
        """The monitor of a job that is watched now; None if it is not watched."""
        return self.alarms.find(key) if self.alarms is not None else None

    def find_measures(self, key: Key, *, is_followed: bool = False) -> JobMeasures | None:
        return self.alarms.find_measures(*key, is_followed=is_followed) if self.alarms is not None else None

    def list_alarms(self, key: Key, since: float) -> tuple[Alarm, ...]:
        return self.alarms.history_of(*key, since) if self.alarms is not None else ()

    async def read_log(self, namespace: str, name: str) -> JobMeasures:
        return await self._measures().read_log(namespace, name)

    def list_spans(self, key: Key) -> Sequence[TimeSpan]:
        """The use of a watched job's time as spans; an empty span marks the time at which a slow rank was found."""
        from console.metrics.time_spans import PARTS_OF_STEP, SpanKind, TimeSpan

        monitor, report = self.find_monitor(key), self.slow_report(key)
        found = list(monitor.list_spans(SERVER_CLOCK.now())) if monitor is not None else []
        if report is not None:
            at, kind = report.at, SpanKind.NAMED
            found += [TimeSpan(at, at, kind, round(PARTS_OF_STEP * each.share), each.rank or 0) for each in report.slow]
        return found

    def slow_report(self, key: Key) -> SlowReport | None:
        """The last report on slow ranks of a job; None if this session has none."""
        return self.inspector.slow_reports.get(key) if self.inspector is not None else None

    def saved_state(self, key: Key) -> SavedState | None:
        """The last reading of a job's checkpoints; None if this session has not read them."""
        return self.checkpoints.saved_states.get(key) if self.checkpoints is not None else None

    def seen_folder(self, key: Key) -> SeenFolder | None:
        saved = self.saved_state(key)
        return saved.in_folder if saved is not None else None

    def has_checkpoint(self, jobset: JobSet) -> bool | None:
        """Whether a launch could resume from a job's checkpoint, by its log and its folder; None if unknown."""
        from console.metrics.lost_work import has_checkpoint

        return has_checkpoint(jobset, self._measures().find_followed(jobset.key), self.seen_folder(jobset.key))
