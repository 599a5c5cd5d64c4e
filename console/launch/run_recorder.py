"""Records launched runs and completes their records with outcome and last figures."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.actions import read_jobset
from console.kube.nested_values import merge_values
from console.kube.objects.jobset import JobSet
from console.kube.snapshot import Fleet, WatchState
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.open_runs import RUNS_REFRESH_SECONDS
from console.launch.run_figures import known_figures, known_phases, read_last_figures, with_alarms
from console.launch.run_record import Outcome, RunRecord, finish_record, is_run_of_job, update_from_cluster, update_seen
from console.metrics.time_spans import merge_spans

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import ChartCatalog, Launcher
    from console.launch.jobs_interface import KnownJobs
    from console.launch.recipes import LaunchPlan
    from console.launch.session_runs import SessionRuns

POLL_SECONDS = 1.0  # seconds between two looks at the snapshot
BEFORE_STOP_TIMEOUT = 4.0  # seconds for which the stop of a job waits for the last figures of its log
SECONDS_BETWEEN_LEDGER_NOTES = 30.0  # seconds between two notes of what a run's time goes into
MAX_CONCURRENT_READS = 8  # logs that are read at the same time


class RunRecorder:
    def __init__(
        self,
        cluster: WatchedCluster,
        jobs: KnownJobs,
        session_runs: SessionRuns,
        chart_catalog: Callable[[], ChartCatalog],
        launcher: Callable[[], Launcher],
    ) -> None:
        self._cluster, self._jobs, self._session_runs = cluster, jobs, session_runs
        self._chart_catalog, self._launcher = chart_catalog, launcher
        self._recorded_at: dict[int, float] = {}  # when it was last noted what a run's time goes into
        self._update_lock = asyncio.Lock()

    async def record_launch(self, plan: LaunchPlan) -> RunRecord:
        from console.launch.values_schema import (
            without_secrets,  # of what may be launched, a list of jobs needs nothing
        )

        catalogue, target = self._chart_catalog(), self._cluster.current_connection.target
        values, left_out = without_secrets(catalogue.fields(plan.recipe), plan.values)
        whole = merge_values(catalogue.defaults(plan.recipe), plan.values)
        gpus, chart = whole.get("gpus"), await asyncio.to_thread((catalogue.chart / "Chart.yaml").read_text)
        uid, connection = "", self._cluster.current_connection
        with suppress(ConsoleError):  # the watch will tell it
            uid = (await read_jobset(connection.client, connection.discovery, plan.namespace, plan.name)).uid
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
            launched=SERVER_CLOCK.now(),
            who=await self._cluster.me(),
            uid=uid,
            gpus=gpus if isinstance(gpus, int) else 0,
            queue=str(whole.get("queue") or ""),
        )
        kept = await self._session_runs.history.add_run(run)
        self._session_runs.open.add(kept)
        return kept

    async def record_before_stop(self, namespace: str, name: str) -> str:
        """Record a job's last logged figures before its deletion; returns its next step's delay in words, or ""."""
        fleet = self._cluster.fleet
        jobset = fleet.jobsets.get((namespace, name))
        if jobset is None or not await self._session_runs.open.list(jobset.key, reads_anew=True):
            return ""
        try:
            async with asyncio.timeout(BEFORE_STOP_TIMEOUT):
                found, late, spans, phases = await read_last_figures(self._cluster, jobset, fleet)
        except TimeoutError:
            return ""
        for run in await self._session_runs.open.list(jobset.key):
            await self._session_runs.open.write(run, update_seen(replace(run, **found), jobset, fleet, spans, phases))
        return late

    async def record_stop(self, namespace: str, name: str, late_message: str = "") -> None:
        """Record that a job was stopped here; `late_message`: delay of its next step, in words."""
        for run in await self._session_runs.open.list((namespace, name), reads_anew=True):
            ended = replace(
                with_alarms(run, self._jobs),
                outcome=Outcome.STOPPED,
                why=run.why if run.end_of_kept_job is not None else "",
                ended=SERVER_CLOCK.now(),
            )
            await self._session_runs.open.write(run, finish_record(ended, late_message=late_message))

    async def update_periodically(self) -> None:
        """Complete the records of open runs at intervals, until cancelled."""
        while True:
            try:
                await self.update_open_runs()
            except ConsoleError:
                # The cluster or the file does not answer now; links and `note` say so, and it is tried again.
                await asyncio.sleep(RUNS_REFRESH_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def update_open_runs(self) -> None:
        """Complete open records from the current snapshot, as far as jobs are visible."""
        link, pods = (self._cluster.fleet.links.get(kind) for kind in ("jobsets", "pods"))
        if not link or link.state is not WatchState.LIVE or not pods or pods.state is WatchState.LISTING:
            return  # why a job failed stands in its pods
        async with self._update_lock:
            fleet = self._cluster.fleet
            for run in await self._session_runs.open.list():
                jobset = fleet.jobsets.get(run.key)
                if jobset is not None and is_run_of_job(run, jobset):
                    self._session_runs.open.mark_seen(run)
                    await self._record_state(run, jobset, fleet)
                elif self._cluster.is_watched("jobsets", run.namespace) and self._session_runs.open.is_gone(
                    run, link.since
                ):
                    ended = replace(
                        with_alarms(run, self._jobs), ended=SERVER_CLOCK.now(), **await self._outcome_of_gone(run)
                    )
                    await self._session_runs.open.write(run, finish_record(ended))

    async def _record_state(self, run: RunRecord, jobset: JobSet, fleet: Fleet) -> None:
        now = with_alarms(update_from_cluster(run, jobset, fleet), self._jobs)
        due = time.monotonic() > self._recorded_at.get(run.number, 0.0) + SECONDS_BETWEEN_LEDGER_NOTES or len(
            now.alarms
        ) > len(run.alarms)
        if due or not now.is_open:
            now = replace(now, **known_figures(run, self._jobs))
        spans, phases = self._jobs.list_spans(run.key), known_phases(run, self._jobs)
        if not now.is_open:
            found, _, last, phases = await read_last_figures(self._cluster, jobset, fleet)
            found["why"] = "; ".join(filter(None, (found.get("why"), now.why)))
            now, spans = replace(now, **found), merge_spans(spans, last)
            now = finish_record(now)
        if due or not now.is_open:
            self._recorded_at[run.number] = time.monotonic()
            now = update_seen(now, jobset, fleet, spans, phases)
        await self._session_runs.open.write(run, now)

    async def _outcome_of_gone(self, run: RunRecord) -> dict[str, Any]:
        if run.end_of_kept_job is not None:  # what it came to was seen
            return {"outcome": Outcome.STOPPED}
        if self._session_runs.open.was_seen(run):
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

    async def read_open_logs(self) -> None:
        """Record the time spans and failure reasons in the last lines of the logs of open runs whose jobs exist."""
        fleet, gate = self._cluster.fleet, asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def read(run: RunRecord, jobset: JobSet) -> None:
            async with gate:
                found, _, spans, phases = await read_last_figures(self._cluster, jobset, fleet)
            explained = replace(run, why=found.get("why", run.why))
            await self._session_runs.open.write(run, update_seen(explained, jobset, fleet, spans, phases))

        open_runs = [(run, fleet.jobsets.get(run.key)) for run in await self._session_runs.open.list(reads_anew=True)]
        jobs = [(run, jobset) for run, jobset in open_runs if jobset is not None and is_run_of_job(run, jobset)]
        await asyncio.gather(*(read(*each) for each in jobs if not each[1].suspended))

    async def close(self) -> None:
        """Complete open records once more."""
        self._recorded_at.clear()  # what was found since it was last noted, such as a slow rank
        with suppress(ConsoleError):  # nothing is lost: the next console sees it
            await self.update_open_runs()
