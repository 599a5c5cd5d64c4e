"""Records launched runs and completes their records with outcome and last figures."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from console.config import config_in_force
from console.errors import ConsoleError, NotThere
from console.kube.actions import read_jobset
from console.kube.arrivals import CLOCK
from console.kube.nested_values import Value, merge_values
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.meta import short_name
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet, WatchState
from console.launch.run_database import RunHistory, default_path
from console.launch.run_record import (
    Outcome,
    RunRecord,
    find_run,
    finish_record,
    is_run_of_job,
    merge_alarms,
    update_from_cluster,
    update_seen,
)
from console.metrics.alarm import Alarm
from console.metrics.job_progress import progress_of_measures
from console.metrics.progress_reader import END_LINES, find_end
from console.metrics.seen_time import TimeSpan, decode_seen_time, merge_spans
from console.metrics.start_phase import longest_phases
from console.scheduling.pod_slots import first_failure, pod_slots
from console.scheduling.start_windows import PastRun
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.target import Target
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import ChartCatalog, Launcher
    from console.launch.recipes import LaunchPlan
    from console.metrics.job_measures import JobMeasures
    from console.scheduling.pod_slots import PodSlot
    from trainlog import NcclTest

TAIL_LINES = 20_000  # lines at the end of a log in which its last figures stand
READ_TIMEOUT = 10.0  # seconds that reading such a log may take


async def read_last_figures(
    cluster: WatchedCluster, jobset: JobSet, fleet: Fleet
) -> tuple[dict[str, Any], str, list[TimeSpan], Mapping[str, float]]:
    """Of the first pod's log, else the last one's: final figures by field of RunRecord, lateness, and the time seen.

    The latter is spans, and how long the phases of its start took.

    `why` among them is the reason that the log of the pod that failed first names.
    """
    pods = [(slot.number, slot.pod) for slot in pod_slots(jobset, fleet) if slot.pod]
    first = first_failure(jobset, fleet) if jobset.state is JobState.FAILED else None
    failed = [(first.number, first.pod)] if first is not None and first.pod is not None else []
    why: dict[str, Any] = {}
    for number, pod in dict.fromkeys((*failed, *pods[:1], *pods[-1:])):
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                found, late, spans, phases = await _read_pod_figures(
                    cluster, number, pod, first, jobset.finished_at or CLOCK.now()
                )
        except (ConsoleError, TimeoutError):
            continue  # a log that is gone or slow: the run is complete without
        why = why or ({"why": found.pop("why")} if "why" in found else {})
        if found or spans:
            return found | why, late, spans, phases
    return why, "", [], {}


async def _read_pod_figures(
    cluster: WatchedCluster, number: int, pod: Pod, failed: PodSlot | None, until: float
) -> tuple[dict[str, Any], str, list[TimeSpan], Mapping[str, float]]:
    from console.logs.container_log import read_tail
    from console.logs.line import PodLine
    from console.metrics.job_measures import JobMeasures
    from console.metrics.measured_log import LogReader

    lines = await read_tail(cluster.current_connection.client, pod, TAIL_LINES)
    measures = JobMeasures((pod.namespace, pod.name))
    reader = LogReader(measures, 1)
    await asyncio.to_thread(reader.feed_lines, [PodLine(0, line.time, line.text) for line in lines])
    reader.close()
    if (end := find_end(lines[-END_LINES:], number, failed)) is not None:
        measures.ends[number] = end
    for line in lines:
        measures.feed_start(number, line.time, line.text)
    spans = measures.list_spans(until, config_in_force().config.alarms)
    late = measures.tracks[-1].late_text(CLOCK.now()) if measures.tracks and not measures.tests else ""
    return latest_figures(measures), late, spans, measures.phases


def bandwidth_figures(tests: tuple[NcclTest, ...]) -> dict[str, Any]:
    """The best bus bandwidth of these tests, and the last average."""
    peaks = [test.peak_busbw for test in tests if test.peak_busbw is not None]
    means = [test.avg_busbw for test in tests if test.avg_busbw is not None]
    found = {"peak_busbw": max(peaks, default=None), "average_busbw": means[-1] if means else None}
    return {figure: value for figure, value in found.items() if value is not None}


def training_figures(where: RunPosition, speeds: Mapping[str, float] = MappingProxyType({})) -> dict[str, Any]:
    """The position of a training: its last step, its last loss with the step, and since when the loss is NaN.

    `speeds`: of its last steps, by the names of their metrics.
    """
    return {
        **{"tflops" if metric == "tflops_per_gpu" else metric: speed for metric, speed in speeds.items()},
        "step": where.step,
        "loss": where.loss,
        "loss_step": where.loss_step,
        "nan": where.nan,
        "nan_from": where.nan_from,
        "nan_by": where.nan_by,
    }


def latest_figures(measures: JobMeasures) -> dict[str, Any]:
    """What was measured of a job so far, by field of RunRecord."""
    found = bandwidth_figures(tuple(each.test for each in measures.tests))
    track = measures.track
    if track is not None and track.last is not None:
        found |= training_figures(track.position(), track.recent_speeds())
    return found | failure_figures(measures)


def failure_figures(measures: JobMeasures) -> dict[str, Any]:
    """Why a program failed, as its log tells; nothing of one that has not."""
    progress = progress_of_measures(measures, CLOCK.now(), config_in_force().config.alarms.pass_line)
    end = progress.end if progress is not None else None
    if progress is None or end is None or not end.code:
        return {}
    return {"why": progress.reason if end.kept else progress.failure}


REFRESH_SECONDS = 5.0  # seconds after which the file is asked again what other consoles launched
POLL_SECONDS = 1.0  # seconds between two looks at the snapshot
STOP_GRACE_SECONDS = 3.0  # seconds in which whoever stopped a job that is gone will have recorded it
BEFORE_STOP_TIMEOUT = 4.0  # seconds for which the stop of a job waits for the last figures of its log
SPEEDS_SECONDS = 60.0  # seconds for which it is believed how fast earlier runs were
MAX_STARTS = 50  # latest runs by which it is known how long a start takes
SEEN_SECONDS = 30.0  # seconds between two notes of what a run's time goes into
SETTLE_SECONDS = 30.0  # seconds in which the watch will have listed a job that was just launched
MAX_CONCURRENT_READS = 8  # logs that are read at the same time


class Runs:
    """The run history of one session: real clusters share a file, each practice cluster has its own."""

    def __init__(
        self,
        cluster: WatchedCluster,
        catalogue: Callable[[], ChartCatalog],
        launcher: Callable[[], Launcher],
        alarms: Callable[[str, str, float], tuple[Alarm, ...]] = lambda *_: (),
        spans: Callable[[str, str], Sequence[TimeSpan]] = lambda *_: (),
        measures: Callable[[str, str], JobMeasures | None] = lambda *_: None,
    ) -> None:
        """`alarms`: a job's alarms in this session since a given time; `spans`: its time by its log.

        `measures`: of a job whose log this session follows, once it is read up to now.
        """
        self._alarms, self._spans, self._measures = alarms, spans, measures
        self._seen: dict[int, float] = {}  # when it was last noted what a run's time goes into
        self._cluster, self._catalogue, self._launcher = cluster, catalogue, launcher
        self._histories: dict[Path, RunHistory] = {}
        self._open: dict[int, RunRecord] = {}
        self._asked = 0.0
        self._speeds: dict[tuple[str, int, str], list[float]] = {}  # of runs that have ended: recipe, GPUs, metric
        self._speeds_at = float("-inf")
        self._phases: dict[str, tuple[float, Mapping[str, float]]] = {}  # by uid of a job: when it was read, and that
        self._alive: set[int] = set()  # runs whose job this session has seen alive
        self._missed: dict[int, float] = {}  # since when it has not been seen any more
        self._settling = asyncio.Lock()

    @property
    def _target(self) -> Target:
        return self._cluster.current_connection.target

    @property
    def history(self) -> RunHistory:
        folder = self._target.cluster.practice_folder
        place = folder / "history.db" if folder else default_path()
        return self._histories.setdefault(place, RunHistory(place))

    @property
    def note(self) -> str:
        """The problem of the history file, as a sentence; empty if there is none."""
        return next((each.note for each in self._histories.values() if each.note), "")

    def on_context_changed(self) -> None:
        self._open, self._asked, self._alive, self._missed = {}, 0.0, set(), {}
        self._speeds_at = float("-inf")

    async def list_runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        """All recorded runs of all clusters (of a recipe if one is given), newest first, as this session knows them."""
        return tuple(map(self._with_present, await self.history.list_runs(recipe)))

    def _with_present(self, run: RunRecord) -> RunRecord:
        """An open run with what this session knows by now, as its record is written at intervals only."""
        if not run.open or run.server != self._target.cluster.server:
            return run
        fleet, now = self._cluster.fleet, CLOCK.now()
        jobset = fleet.jobsets.get(run.key)
        if jobset is None or not is_run_of_job(run, jobset):
            return run
        known = replace(self._with_alarms(run), looked=now, **self._figures_of(run))
        return update_seen(known, jobset, fleet, self._spans(*run.key), self._phases_of(run))

    def _phases_of(self, run: RunRecord) -> Mapping[str, float]:
        measures = self._measures(*run.key)
        return measures.phases if measures is not None else {}

    def _figures_of(self, run: RunRecord) -> dict[str, Any]:
        measures = self._measures(*run.key)
        return latest_figures(measures) if measures is not None else {}

    async def past(self, server: str) -> list[PastRun]:
        """Runs of a cluster that ended by themselves, which say how long jobs run."""
        return [
            PastRun(each.recipe, short_name(each.who), each.gpus, *each.ran)
            for each in await self.history.list_runs()
            if each.server == server and each.outcome is Outcome.SUCCEEDED and each.started and each.ended
        ]

    async def find_run(self, word: str) -> RunRecord:
        """The run with that number, else the latest with that name; BadInput lists the known ones."""
        known = await self.list_runs()
        found = find_run(known, word)
        if found is None:
            names = ", ".join(f"{run.number} {run.name}" for run in known[:5])
            hint = f"The latest are: {names}." if names else "The history is empty."
            raise NotThere(f"There is no run {word} in the history.", hint)
        return found

    async def last_launch_values(self, recipe: str) -> tuple[str, Mapping[str, Value]] | None:
        return next(((run.name, run.values) for run in await self.list_runs(recipe)), None)

    async def delete_runs(self, numbers: Iterable[int]) -> int:
        wanted = set(numbers)
        for number in wanted:
            self._open.pop(number, None)
        return await self.history.delete_runs(wanted)

    async def read_spans(self, namespace: str, name: str) -> Sequence[TimeSpan]:
        """What consoles saw of the time of a job that has not ended."""
        found = await self._open_runs((namespace, name))
        return decode_seen_time(found[0].seen).spans if found else ()

    def find_launch(self, jobset: JobSet) -> RunRecord | None:
        """The launch of that very object by this account, as the history was last read; None: it knows of none."""
        return next((run for run in self._open.values() if run.uid == jobset.uid and run.key == jobset.key), None)

    async def has_open_runs(self) -> bool:
        """Whether a run on this cluster has not ended."""
        return bool(await self._open_runs())

    async def record_launch(self, plan: LaunchPlan) -> RunRecord:
        catalogue, target = self._catalogue(), self._target
        values, left_out = self._values_without_secrets(plan)
        whole = merge_values(catalogue.defaults(plan.recipe), plan.values)
        gpus, chart = whole.get("gpus"), await asyncio.to_thread((catalogue.chart / "Chart.yaml").read_text)
        uid, connection = "", self._cluster.current_connection
        with suppress(ConsoleError):  # the watch will tell it
            uid = (await read_jobset(connection.client, connection.catalogue, plan.namespace, plan.name)).uid
        version = re.search(r"^version: *\"?([^\s\"]+)", chart, re.MULTILINE)
        run = RunRecord(
            recipe=catalogue.find_recipe(plan.recipe).id,
            name=plan.name,
            namespace=plan.namespace,
            values=values,
            left_out=left_out,
            context=target.context,
            server=target.cluster.server,
            chart=version[1] if version else "",
            launched=CLOCK.now(),
            who=await self._cluster.me(),
            uid=uid,
            gpus=gpus if isinstance(gpus, int) else 0,
            queue=str(whole.get("queue") or ""),
        )
        kept = await self.history.add_run(run)
        if kept.number:
            self._open[kept.number] = kept
        return kept

    def _values_without_secrets(self, plan: LaunchPlan) -> tuple[dict[str, Value], tuple[str, ...]]:
        from console.launch.schema import without_secrets  # of what may be launched, a list of jobs needs nothing

        return without_secrets(self._catalogue().fields(plan.recipe), plan.values)

    async def record_before_stop(self, namespace: str, name: str) -> str:
        """Record the last figures in a job's log before it is deleted; returns how overdue its next step was."""
        fleet = self._cluster.fleet
        jobset = fleet.jobsets.get((namespace, name))
        if jobset is None or not await self._open_runs(jobset.key, fresh=True):
            return ""
        try:
            async with asyncio.timeout(BEFORE_STOP_TIMEOUT):
                found, late, spans, phases = await read_last_figures(self._cluster, jobset, fleet)
        except TimeoutError:
            return ""
        for run in await self._open_runs(jobset.key):
            await self._write(run, update_seen(replace(run, **found), jobset, fleet, spans, phases))
        return late

    async def record_stop(self, namespace: str, name: str, late: str = "") -> None:
        """Record that a job was stopped here; `late` says how overdue its next step was."""
        for run in await self._open_runs((namespace, name), fresh=True):
            ended = replace(
                self._with_alarms(run),
                outcome=Outcome.STOPPED,
                why=run.why if run.kept_end is not None else "",
                ended=CLOCK.now(),
            )
            await self._write(run, finish_record(ended, late=late))

    def _with_alarms(self, run: RunRecord) -> RunRecord:
        alarms = self._alarms(*run.key, run.launched)
        return replace(run, alarms=merge_alarms(run.alarms, alarms)) if alarms else run

    async def record_training(self, namespace: str, name: str, where: RunPosition, speeds: Mapping[str, float]) -> None:
        """Record how far the training of a job is, if it was launched here."""
        await self._record_figures(namespace, name, training_figures(where, speeds))

    async def earlier_speeds(self, recipe: str, gpus: int, metric: str) -> Sequence[float]:
        """Speeds by that metric in each run of the recipe on so many GPUs that has ended on this cluster."""
        if time.monotonic() > self._speeds_at + SPEEDS_SECONDS:
            self._speeds_at, self._speeds = time.monotonic(), {}
            for run in await self.history.list_runs():
                if run.open or run.server != self._target.cluster.server:
                    continue
                for name, speed in (("tflops_per_gpu", run.tflops), ("tokens_per_s", run.tokens_per_s)):
                    if speed is not None:
                        self._speeds.setdefault((run.recipe, run.gpus, name), []).append(speed)
        return self._speeds.get((recipe, gpus, metric), ())

    async def earlier_phases(self, job: JobSet) -> Mapping[str, float]:
        """How long the phases of a start took at most in other runs of the job's recipe on as many GPUs."""
        read_at, known = self._phases.get(job.uid, (-inf, {}))
        if time.monotonic() > read_at + SPEEDS_SECONDS:
            runs = await self.history.list_runs(job.recipe) if job.recipe else ()
            server = self._target.cluster.server
            others = (run for run in runs if run.gpus == job.gpus and run.uid != job.uid and run.server == server)
            some = [run.seen for run in islice(others, MAX_STARTS)]
            known = await asyncio.to_thread(lambda: longest_phases(decode_seen_time(each).phases for each in some))
            now = time.monotonic()
            fresh = {uid: each for uid, each in self._phases.items() if now <= each[0] + SPEEDS_SECONDS}
            self._phases = {**fresh, job.uid: (now, known)}
        return known

    async def record_tests(self, namespace: str, name: str, tests: tuple[NcclTest, ...]) -> None:
        """Record the results of a job's NCCL tests so far: the best bus bandwidth and the last average."""
        await self._record_figures(namespace, name, bandwidth_figures(tests))

    async def _record_figures(self, namespace: str, name: str, known: dict[str, Any]) -> None:
        for run in await self._open_runs((namespace, name)):
            await self._write(run, replace(run, **known))

    async def update_periodically(self) -> None:
        """Complete the records of open runs at intervals, until cancelled."""
        while True:
            try:
                await self.update_open_runs()
            except ConsoleError:
                # The cluster or the file does not answer now; links and `note` say so, and it is tried again.
                await asyncio.sleep(REFRESH_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def update_open_runs(self) -> None:
        """Complete open records from the current snapshot, as far as jobs are visible."""
        link, pods = (self._cluster.fleet.links.get(kind) for kind in ("jobsets", "pods"))
        if not link or link.state is not WatchState.LIVE or not pods or pods.state is WatchState.LISTING:
            return  # why a job failed stands in its pods
        async with self._settling:
            fleet = self._cluster.fleet
            for run in await self._open_runs():
                jobset = fleet.jobsets.get(run.key)
                if jobset is not None and is_run_of_job(run, jobset):
                    self._missed.pop(run.number, None)
                    await self._record_state(run, jobset, fleet)
                elif self._cluster.is_watched("jobsets", run.namespace) and self._job_is_gone(run, link.since):
                    ended = replace(self._with_alarms(run), ended=CLOCK.now(), **await self._outcome_of_gone(run))
                    await self._write(run, finish_record(ended))

    async def _open_runs(self, key: tuple[str, str] | None = None, *, fresh: bool = False) -> tuple[RunRecord, ...]:
        """Open runs of this cluster (of one job if given); launches of other consoles appear with a delay."""
        if fresh or not self._asked or time.monotonic() - self._asked > REFRESH_SECONDS:
            self._asked = time.monotonic()
            found = await self.history.open_runs(self._target.cluster.server)
            self._open = {run.number: run for run in found}
        return tuple(run for run in self._open.values() if key in {None, run.key})

    async def _record_state(self, run: RunRecord, jobset: JobSet, fleet: Fleet) -> None:
        self._alive.add(run.number)
        now = self._with_alarms(update_from_cluster(run, jobset, fleet))
        due = time.monotonic() > self._seen.get(run.number, 0.0) + SEEN_SECONDS or len(now.alarms) > len(run.alarms)
        if due or not now.open:
            now = replace(now, **self._figures_of(run))
        spans, phases = self._spans(*run.key), self._phases_of(run)
        if not now.open:
            found, _, last, phases = await read_last_figures(self._cluster, jobset, fleet)
            found["why"] = "; ".join(filter(None, (found.get("why"), now.why)))
            now, spans = replace(now, **found), merge_spans(spans, last)
            now = finish_record(now)
        if due or not now.open:
            self._seen[run.number] = time.monotonic()
            now = update_seen(now, jobset, fleet, spans, phases)
        await self._write(run, now)

    def _job_is_gone(self, run: RunRecord, listed: float) -> bool:
        """Whether a job that is missing in the snapshot was deleted, and is not just too new to be listed."""
        if run.number not in self._alive:
            return run.launched < listed and CLOCK.now() > run.launched + SETTLE_SECONDS
        missed = self._missed.setdefault(run.number, time.monotonic())
        if time.monotonic() < missed + STOP_GRACE_SECONDS:
            self._asked = 0.0  # what another console has written meanwhile counts
            return False
        return True

    async def _outcome_of_gone(self, run: RunRecord) -> dict[str, Any]:
        if run.kept_end is not None:  # what it came to was seen
            return {"outcome": Outcome.STOPPED}
        if run.number in self._alive:
            return {"outcome": Outcome.STOPPED, "why": "It was deleted outside this console."}
        why = "The job was deleted while the console was closed"
        try:
            known = await self._launcher().releases(run.namespace)
        except ConsoleError as error:
            return {"outcome": Outcome.UNKNOWN, "why": f"{why}. {error.message}"}
        release = next((each for each in known if each.name == run.name), None)
        if release is not None and release.status == "failed":
            return {"outcome": Outcome.FAILED, "why": "Helm says that its release failed, and its job is gone."}
        still = f"; its Helm release is still {release.status}" if release else ""
        return {"outcome": Outcome.UNKNOWN, "why": f"{why}{still}."}

    async def _write(self, before: RunRecord, after: RunRecord) -> None:
        if after == before:
            return
        await self.history.update_run(before, after)
        if after.open:
            self._open[after.number] = after
        else:
            self._open.pop(after.number, None)

    async def read_open_logs(self) -> None:
        """Note what the ends of the logs of open runs tell of their time, of which nobody follows the log."""
        fleet, gate = self._cluster.fleet, asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def read(run: RunRecord, jobset: JobSet) -> None:
            async with gate:
                found, _, spans, phases = await read_last_figures(self._cluster, jobset, fleet)
            explained = replace(run, why=found.get("why", run.why))
            await self._write(run, update_seen(explained, jobset, fleet, spans, phases))

        open_runs = [(run, fleet.jobsets.get(run.key)) for run in await self._open_runs(fresh=True)]
        jobs = [(run, jobset) for run, jobset in open_runs if jobset is not None and is_run_of_job(run, jobset)]
        await asyncio.gather(*(read(*each) for each in jobs if not each[1].suspended))

    async def close(self) -> None:
        """Complete open records once more and close the files."""
        self._seen.clear()  # what was found since it was last noted, such as a slow rank
        try:
            await self.update_open_runs()
        except ConsoleError:
            self._asked = 0.0  # nothing is lost: the next console sees it
        for history in self._histories.values():
            await history.close()
