"""Run times of jobs, by earlier runs and finished workloads; those by step pace are in `metrics.progress_reader`."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from console.kube.objects.meta import GPU, condition
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.median import median
from console.scheduling.kueue_snapshot import job_name

MIN_SPREAD = 0.1  # of run times of which few are known
MIN_RUNS = 3  # earlier runs that say how long a job runs
_NUMBERS_AT_END = re.compile(r"(-[0-9a-z]*[0-9][0-9a-z]*)+$")


class PastRun(Struct, frozen=True):
    """A run that ended by itself, with its run time."""

    recipe: str
    owner: str
    gpus: int
    seconds: float  # that it ran in all
    before: float = 0.0  # of these, until it had to wait again for the last time


class RunTime(Struct, frozen=True):
    """The expected run time of a job: the median, and the deviation of its logarithm."""

    median: float
    spread: float
    resumes: bool = False  # whether a job that was evicted goes on where it stopped, as far as earlier ones say


class PastTimes:
    """Run times of earlier jobs with the same recipe, size and, if possible, owner.

    For other workloads: run times of finished ones with the same name, queue and size.
    """

    def __init__(self, fleet: Fleet, past_runs: Iterable[PastRun]) -> None:
        self._run_times: dict[tuple[object, ...], list[float]] = defaultdict(list)
        self._interrupted: dict[tuple[str, int], list[PastRun]] = defaultdict(list)
        for run in past_runs:
            if run.recipe and run.before > 0:
                self._interrupted[run.recipe, run.gpus].append(run)
            elif run.recipe and run.seconds > 0:
                self._run_times[run.recipe, run.gpus, run.owner].append(run.seconds)
                self._run_times[run.recipe, run.gpus].append(run.seconds)
        for done in fleet.workloads.values():
            finished = condition(done.conditions, "Finished")
            since = condition(done.conditions, "QuotaReserved")
            if finished and finished.is_true and finished.reason == "Succeeded" and since and since.is_true:
                self._run_times[_likeness_key(done)].append(max(1.0, finished.since - since.since))

    def of_jobset(self, recipe: str, gpus: int, owner: str) -> RunTime | None:
        for like in ((recipe, gpus, owner), (recipe, gpus)):
            if (found := self._find_run_time(like)) is not None:
                resumes = _mostly_resumed(self._interrupted.get((recipe, gpus), ()), found.median)
                return structs.replace(found, resumes=resumes)
        return None

    def of_workload(self, workload: Workload) -> RunTime | None:
        return self._find_run_time(_likeness_key(workload)) if workload.owner_kind != "JobSet" else None

    def _find_run_time(self, likeness_key: tuple[object, ...]) -> RunTime | None:
        times = self._run_times.get(likeness_key, ())
        if len(times) < MIN_RUNS:
            return None
        from statistics import pstdev

        return RunTime(median(times), max(MIN_SPREAD, pstdev(map(math.log, times))))


def run_times(fleet: Fleet, times: PastTimes) -> dict[str, RunTime]:
    found = {each.job_uid: times.of_workload(each) for each in fleet.workloads.values()}
    found |= {job.uid: times.of_jobset(job.recipe, job.gpus, job.owner) for job in fleet.jobsets.values()}
    return {uid: time for uid, time in found.items() if time is not None}


def _likeness_key(workload: Workload) -> tuple[object, ...]:
    """The key of workloads with similar run times: all but the numbers at the end of their jobs' names."""
    stem = _NUMBERS_AT_END.sub("", job_name(workload))
    return workload.namespace, workload.owner_kind, stem, workload.queue, workload.total(GPU)


def _mostly_resumed(interrupted: Sequence[PastRun], total: float) -> bool:
    """Whether most interrupted runs were resumed: all their parts together lasted as long as an uninterrupted run."""
    nearer = [abs(run.seconds - total) < abs(run.seconds - run.before - total) for run in interrupted]
    return 2 * sum(nearer) > len(nearer)
