"""The records of runs that have not ended, of one cluster."""

from __future__ import annotations

import time
from collections.abc import Collection
from math import inf

from console.kube.objects.jobset import JobSet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_database import RunHistory
from console.launch.run_record import RunRecord

RUNS_REFRESH_SECONDS = 5.0  # seconds after which the file is asked again what other consoles launched
STOP_GRACE_SECONDS = 3.0  # seconds in which whoever stopped a job that is gone will have recorded it
LISTING_DELAY_SECONDS = 30.0  # seconds in which the watch will have listed a job that was just launched


class OpenRuns:
    def __init__(self, history: RunHistory, server: str) -> None:
        self._history, self._server = history, server
        self._runs_by_number: dict[int, RunRecord] = {}
        self._read_at = -inf
        self._seen_numbers: set[int] = set()  # runs whose job this session has seen alive
        self._missing_since: dict[int, float] = {}  # since when it has not been seen any more

    async def list(self, key: tuple[str, str] | None = None, *, reads_anew: bool = False) -> tuple[RunRecord, ...]:
        """All open runs, or those of `key`; launches from other consoles come late, unless `reads_anew`."""
        if reads_anew or time.monotonic() - self._read_at > RUNS_REFRESH_SECONDS:
            self._read_at = time.monotonic()
            self._runs_by_number = {run.number: run for run in await self._history.open_runs(self._server)}
        return tuple(run for run in self._runs_by_number.values() if key in {None, run.key})

    def find_launch(self, jobset: JobSet) -> RunRecord | None:
        """The recorded launch of this JobSet by this account, as last read; None if there is none."""
        object_ = jobset.uid, jobset.key
        return next((run for run in self._runs_by_number.values() if (run.uid, run.key) == object_), None)

    def add(self, run: RunRecord) -> None:
        if run.number:
            self._runs_by_number[run.number] = run

    def forget(self, numbers: Collection[int]) -> None:
        self._runs_by_number = {number: run for number, run in self._runs_by_number.items() if number not in numbers}

    async def write(self, old_run: RunRecord, new_run: RunRecord) -> None:
        if new_run == old_run:
            return
        await self._history.update_run(old_run, new_run)
        self.add(new_run) if new_run.is_open else self.forget({new_run.number})

    def mark_seen(self, run: RunRecord) -> None:
        """Record that the run's job was seen in the snapshot."""
        self._seen_numbers.add(run.number)
        self._missing_since.pop(run.number, None)

    def was_seen(self, run: RunRecord) -> bool:
        return run.number in self._seen_numbers

    def is_gone(self, run: RunRecord, listed_at: float) -> bool:
        """Whether a job that is missing in the snapshot was deleted, rather than too new to be listed."""
        if not self.was_seen(run):
            return run.launched < listed_at and SERVER_CLOCK.now() > run.launched + LISTING_DELAY_SECONDS
        missed = self._missing_since.setdefault(run.number, time.monotonic())
        if time.monotonic() < missed + STOP_GRACE_SECONDS:
            self._read_at = -inf  # what another console has written meanwhile counts
            return False
        return True
