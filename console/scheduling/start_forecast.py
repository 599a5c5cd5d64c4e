"""Renewed forecasts of the starts of waiting jobs; ends of running ones are foreseen in `metrics.progress_reader`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from console.folders import state_folder
from console.kube.snapshot import Fleet
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.forecast_record import RecordedWindow, correct_windows, read_recorded_windows, update_record
from console.scheduling.job_arrivals import expected_arrivals, read_seen_workloads, update_seen_workloads
from console.scheduling.run_times import PastRun, PastTimes, run_times
from console.scheduling.start_simulation import all_gpu_flavors, expected_starts, virtual_cluster_of
from console.scheduling.start_windows import StartWindows, start_windows, with_windows

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.scheduling.launch_forecast import LaunchDemand

    Key = tuple[str, str]
    Starts = Mapping[Key, ExpectedStart]

FORECAST_SECONDS = 5.0
REST_PER_FORECAST = 20.0  # how much longer than a forecast took it is before the next


class RunningJobs(Protocol):
    """The interface by which forecasts read the progress and expected ends of running jobs."""

    async def update(self, keys: Sequence[tuple[str, str]]) -> bool: ...
    def foresee_ends(self, fleet: Fleet) -> tuple[dict[str, float], dict[str, str]]: ...


class PastRuns(Protocol):
    async def list_past_runs(self) -> list[PastRun]: ...


def _simulate(
    fleet: Fleet, running: RunningJobs, past_runs: Iterable[PastRun], folder: Path, server: str
) -> tuple[Starts, StartWindows]:
    left, open_ends = running.foresee_ends(fleet)
    times, seen = PastTimes(fleet, past_runs), read_seen_workloads(folder / "workloads.json")
    arrivals = expected_arrivals(fleet, seen, server, times)
    cluster = virtual_cluster_of(fleet, all_gpu_flavors(fleet))
    restore = cluster.checkpoint()
    lengths = run_times(fleet, times)
    windows = start_windows(fleet, left, lengths, arrivals=arrivals, open_ends=open_ends, cluster=cluster)
    restore()  # but for what was found not to fit, which need not be tried again
    corrected = correct_windows(windows.by_key, read_recorded_windows(folder / "forecasts.json"), server, fleet.at)
    starts = expected_starts(fleet, left, open_ends, cluster)
    return with_windows(starts, structs.replace(windows, by_key=corrected)), windows


class StartForecast:
    def __init__(
        self,
        cluster: WatchedCluster,
        running: Callable[[], RunningJobs],
        past_runs: Callable[[], PastRuns],
        folder: Path | None = None,
    ) -> None:
        """`folder` replaces the folder of the forecasts' record, in tests."""
        self._cluster, self._running, self._past_runs, self._folder = cluster, running, past_runs, folder
        self.starts: Starts = {}  # the latest; empty before the first
        self.windows = StartWindows({}, 0)  # those that the starts were given
        self._of: object = None  # the snapshot that they are of
        self._retry_at = 0.0
        self._lock = asyncio.Lock()
        self._recorded_key: object = None  # the workloads that were noted last

    @property
    def _record_folder(self) -> Path:
        return self._folder or self._cluster.current_connection.target.cluster.practice_folder or state_folder()

    async def expected_starts(self) -> Starts:
        """The expected starts of waiting workloads by key; recomputed for a new snapshot at most every few seconds."""
        async with self._lock:
            fleet, now = self._cluster.fleet, asyncio.get_running_loop().time
            if fleet is not self._of and (began := now()) >= self._retry_at:
                self.starts, self.windows = await self._cached_forecast(fleet)
                self._of, self._retry_at = fleet, now() + max(FORECAST_SECONDS, REST_PER_FORECAST * (now() - began))
        return self.starts

    async def launch_start(self, demand: LaunchDemand) -> ExpectedStart | None:
        """The expected start of a launch that has to wait; None if too many wait before it, or it names nodes."""
        from console.scheduling.launch_forecast import priority_of, unknown_priority, with_waiting_launch

        if demand.target_nodes or demand.avoid_nodes:
            return None  # the forecast counts GPUs and places of all
        if priority_of(self._cluster.fleet, demand) is None:
            return ExpectedStart(unknown=unknown_priority(demand))
        await self._read_running()
        fleet, key = with_waiting_launch(self._cluster.fleet, demand)
        async with self._lock:
            starts, _ = await self._cached_forecast(fleet)
        return starts.get(key)

    async def _cached_forecast(self, fleet: Fleet) -> tuple[Starts, StartWindows]:
        server = self._cluster.server
        past = await self._past_runs().list_past_runs()
        return await asyncio.to_thread(_simulate, fleet, self._running(), past, self._record_folder, server)

    async def _read_running(self) -> None:
        await self._running().update([job.key for job in self._cluster.fleet.jobsets.values() if not job.finished])

    async def poll(self) -> bool:
        """Read the progress of running jobs if any job waits; returns whether expected starts changed."""
        before = self.starts
        with suppress(OSError):  # a4 forecast says why
            await self._note_workloads()
        if any(each.is_waiting for each in self._cluster.fleet.workloads.values()):
            await self._read_running()
            await self.expected_starts()
            with suppress(OSError):  # a4 forecast says why
                await self.record_windows()
        return self.starts != before

    async def record_windows(self) -> Sequence[RecordedWindow]:
        """Store the start windows that were shown, and the real starts of earlier ones. Raises OSError."""
        windows = {key: each for key, each in self.windows.by_key.items() if not each.latest}
        await self._note_workloads()
        record = self._record_folder / "forecasts.json"
        return await asyncio.to_thread(update_record, record, self._cluster.fleet, self._cluster.server, windows)

    async def _note_workloads(self) -> None:
        if (workloads := self._cluster.fleet.workloads) is not self._recorded_key:
            seen = self._record_folder / "workloads.json"
            await asyncio.to_thread(update_seen_workloads, seen, self._cluster.fleet, self._cluster.server)
            self._recorded_key = workloads
