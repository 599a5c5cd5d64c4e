"""Measurements of a run by field of RunRecord, from what this session has read, or from the end of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import RunRecord, merge_alarms
from console.metrics.job_progress import progress_of_measures
from console.metrics.progress_reader import FAILURE_TAIL_LINES, find_end
from console.metrics.time_spans import TimeSpan
from console.scheduling.pod_slots import first_failure, pod_slots
from console.settings_file import current_config
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.jobs_interface import KnownJobs
    from console.metrics.job_measures import JobMeasures
    from console.scheduling.pod_slots import PodSlot
    from trainlog import NcclTest

FIGURE_TAIL_LINES = 20_000  # lines at the end of a log in which its last figures stand
FIGURES_TIMEOUT = 10.0  # seconds that reading such a log may take


async def read_last_figures(
    cluster: WatchedCluster, jobset: JobSet, fleet: Fleet
) -> tuple[dict[str, Any], str, list[TimeSpan], Mapping[str, float]]:
    """(figures by RunRecord field, lateness, time spans, phases) by the log of the first failed pod, else the last.

    `why` among the figures is the reason of the failure; the phases are seconds by name of the job's start.
    """
    pods = [(slot.number, slot.pod) for slot in pod_slots(jobset, fleet) if slot.pod]
    first = first_failure(jobset, fleet) if jobset.state is JobState.FAILED else None
    failed = [(first.number, first.pod)] if first is not None and first.pod is not None else []
    why: dict[str, Any] = {}
    for number, pod in dict.fromkeys((*failed, *pods[:1], *pods[-1:])):
        try:
            async with asyncio.timeout(FIGURES_TIMEOUT):
                found, late, spans, phases = await _read_pod_figures(
                    cluster, number, pod, first, jobset.finished_at or SERVER_CLOCK.now()
                )
        except (ConsoleError, TimeoutError):
            continue  # a log that is gone or slow: the run is complete without
        why = why or ({"why": found.pop("why")} if "why" in found else {})
        if found or spans:
            return found | why, late, spans, phases
    return why, "", [], {}


async def _read_pod_figures(
    cluster: WatchedCluster, number: int, pod: Pod, failed_pod: PodSlot | None, until: float
) -> tuple[dict[str, Any], str, list[TimeSpan], Mapping[str, float]]:
    from console.logs.container_log import read_tail
    from console.logs.log_line import PodLine
    from console.metrics.job_measures import JobMeasures, LogReader

    lines = await read_tail(cluster.current_connection.client, pod, FIGURE_TAIL_LINES)
    measures = JobMeasures((pod.namespace, pod.name))
    reader = LogReader(measures, 1)
    await asyncio.to_thread(reader.feed_lines, [PodLine(0, line.time, line.text) for line in lines])
    reader.close()
    if (end := find_end(lines[-FAILURE_TAIL_LINES:], number, failed_pod)) is not None:
        measures.pod_ends[number] = end
    for line in lines:
        measures.feed_start(number, line.time, line.text)
    spans = measures.list_spans(until, current_config().config.alarms)
    late = measures.tracks[-1].late_text(SERVER_CLOCK.now()) if measures.tracks and not measures.tests else ""
    return latest_figures(measures), late, spans, measures.phases


def bandwidth_figures(tests: tuple[NcclTest, ...]) -> dict[str, Any]:
    """`peak_busbw` (best of these tests) and `average_busbw` (last average), in GB/s; unknown ones are left out."""
    peaks = [test.peak_busbw for test in tests if test.peak_busbw is not None]
    means = [test.avg_busbw for test in tests if test.avg_busbw is not None]
    found = {"peak_busbw": max(peaks, default=None), "average_busbw": means[-1] if means else None}
    return {figure: value for figure, value in found.items() if value is not None}


def training_figures(position: RunPosition, speeds: Mapping[str, float] = MappingProxyType({})) -> dict[str, Any]:
    """Figures by RunRecord field: last step and loss, first step of a NaN loss, and `speeds` by metric."""
    return {
        **{"tflops" if metric == "tflops_per_gpu" else metric: speed for metric, speed in speeds.items()},
        "step": position.step,
        "loss": position.loss,
        "loss_step": position.valid_loss_step,
        "nan": position.nan,
        "nan_from": position.nan_from,
        "nan_by": position.nan_by,
        "nan_what": position.what,
    }


def latest_figures(measures: JobMeasures) -> dict[str, Any]:
    """The measurements of a job so far, by field of RunRecord."""
    found = bandwidth_figures(tuple(each.test for each in measures.tests))
    track = measures.track
    if track is not None and track.last is not None:
        found |= training_figures(track.position(), track.recent_speeds())
    return found | failure_figures(measures)


def failure_figures(measures: JobMeasures) -> dict[str, Any]:
    """The cause of the program's failure in its log, by RunRecord field; empty if it has not failed."""
    progress = progress_of_measures(measures, SERVER_CLOCK.now(), current_config().config.alarms.pass_line)
    end = progress.end if progress is not None else None
    if progress is None or end is None or not end.code:
        return {}
    return {"why": progress.reason if end.kept else progress.failure}


def known_figures(run: RunRecord, jobs: KnownJobs) -> dict[str, Any]:
    """The figures of a run's job that this session has read, by field of RunRecord."""
    measures = jobs.find_measures(run.key)
    return latest_figures(measures) if measures is not None else {}


def known_phases(run: RunRecord, jobs: KnownJobs) -> Mapping[str, float]:
    measures = jobs.find_measures(run.key)
    return measures.phases if measures is not None else {}


def with_alarms(run: RunRecord, jobs: KnownJobs) -> RunRecord:
    alarms = jobs.list_alarms(run.key, run.launched)
    return replace(run, alarms=merge_alarms(run.alarms, alarms)) if alarms else run
