"""The history of launched runs, as a session reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from console.kube.nested_values import Value
from console.kube.objects.jobset import JobSet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.earlier_runs import EarlierRuns
from console.launch.open_runs import OpenRuns
from console.launch.run_database import RunHistory, default_path
from console.launch.run_figures import bandwidth_figures, known_figures, known_phases, training_figures, with_alarms
from console.launch.run_record import RunRecord, is_run_of_job, require_run, update_seen
from console.metrics.time_spans import TimeSpan, decode_recorded_spans
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.kubeconfig import Target
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.jobs_interface import KnownJobs
    from trainlog import NcclTest


class SessionRuns:
    """The run history as one session sees it: one file for real clusters, another for each practice cluster."""

    def __init__(self, cluster: WatchedCluster, jobs: KnownJobs) -> None:
        self._cluster, self._jobs = cluster, jobs
        self._histories: dict[Path, RunHistory] = {}
        self._context_runs: tuple[OpenRuns, EarlierRuns] | None = None

    @property
    def _connection_target(self) -> Target:
        return self._cluster.current_connection.target

    @property
    def history(self) -> RunHistory:
        folder = self._connection_target.cluster.practice_folder
        place = folder / "history.db" if folder else default_path()
        return self._histories.setdefault(place, RunHistory(place))

    @property
    def note(self) -> str:
        """A sentence about a fault of the history file; empty if there is none."""
        return next((each.note for each in self._histories.values() if each.note), "")

    def on_context_changed(self) -> None:
        self._context_runs = None

    def _in_context(self) -> tuple[OpenRuns, EarlierRuns]:
        if self._context_runs is None:
            place = self.history, self._connection_target.cluster.server
            self._context_runs = OpenRuns(*place), EarlierRuns(*place)
        return self._context_runs

    @property
    def open(self) -> OpenRuns:
        return self._in_context()[0]

    @property
    def earlier_runs(self) -> EarlierRuns:
        return self._in_context()[1]

    async def list_runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        """All recorded runs of all clusters (of a recipe if one is given), newest first, as this session knows them."""
        return tuple(map(self._with_present, await self.history.list_runs(recipe)))

    def _with_present(self, run: RunRecord) -> RunRecord:
        """An open run with this session's latest figures; its stored record is older."""
        if not run.is_open or run.server != self._connection_target.cluster.server:
            return run
        fleet, now = self._cluster.fleet, SERVER_CLOCK.now()
        jobset = fleet.jobsets.get(run.key)
        if jobset is None or not is_run_of_job(run, jobset):
            return run
        known = replace(with_alarms(run, self._jobs), looked=now, **known_figures(run, self._jobs))
        return update_seen(known, jobset, fleet, self._jobs.list_spans(run.key), known_phases(run, self._jobs))

    async def find_run(self, name: str) -> RunRecord:
        return require_run(await self.list_runs(), name)

    async def last_launch_values(self, recipe: str) -> tuple[str, Mapping[str, Value]] | None:
        return next(((run.name, run.values) for run in await self.list_runs(recipe)), None)

    async def delete_runs(self, numbers: Iterable[int]) -> int:
        wanted = set(numbers)
        self.open.forget(wanted)
        return await self.history.delete_runs(wanted)

    async def read_spans(self, namespace: str, name: str) -> Sequence[TimeSpan]:
        """The use of a running job's time as spans, as recorded by all consoles."""
        found = await self.open.list((namespace, name))
        return decode_recorded_spans(found[0].seen).spans if found else ()

    def find_launch(self, jobset: JobSet) -> RunRecord | None:
        """The recorded launch of this JobSet by this account, as last read; None if there is none."""
        return self._context_runs[0].find_launch(jobset) if self._context_runs is not None else None

    async def has_open_runs(self) -> bool:
        """Whether a run on this cluster has not ended."""
        return bool(await self.open.list())

    async def record_training(self, namespace: str, name: str, where: RunPosition, speeds: Mapping[str, float]) -> None:
        """Record the progress of a training that was launched by this account."""
        await self._record_figures(namespace, name, training_figures(where, speeds))

    async def record_tests(self, namespace: str, name: str, tests: tuple[NcclTest, ...]) -> None:
        """Record the results of a job's NCCL tests so far: the best bus bandwidth and the last average."""
        await self._record_figures(namespace, name, bandwidth_figures(tests))

    async def _record_figures(self, namespace: str, name: str, known: dict[str, Any]) -> None:
        for run in await self.open.list((namespace, name)):
            await self.open.write(run, replace(run, **known))

    async def close(self) -> None:
        for history in self._histories.values():
            await history.close()
