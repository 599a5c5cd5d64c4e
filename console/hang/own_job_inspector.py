"""Inspects jobs in their pods without being asked, only jobs that are proven to be the person's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.connection_settings import OWN_NAME
from console.errors import NotAllowed
from console.launch.ownership import Proof
from console.settings_file import current_config

if TYPE_CHECKING:
    from console.hang.inspector import JobInspector
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.session_runs import SessionRuns
    from console.metrics.diagnosis import Diagnoses

    Key = tuple[str, str]

MAX_CONCURRENT_JOBS = 2  # jobs that are inspected at the same time, and as many that are asked who is late


class OwnJobInspector:
    def __init__(
        self,
        cluster: WatchedCluster,
        session_runs: Callable[[], SessionRuns],
        inspector: Callable[[], JobInspector],
        diagnoses: Diagnoses,
    ) -> None:
        self._cluster, self._runs, self._inspector, self._diagnoses = cluster, session_runs, inspector, diagnoses
        self._inspections = asyncio.Semaphore(MAX_CONCURRENT_JOBS)
        # Apart, as this takes up to five minutes, for which a hang does not wait.
        self._measurements = asyncio.Semaphore(MAX_CONCURRENT_JOBS)

    def proof_of(self, jobset: JobSet) -> Proof:
        """The proof that a job is the person's own, from the launch history and stored answers as last read."""
        if self._runs().find_launch(jobset) is not None:
            return Proof.LAUNCHED
        if self._cluster.format_owner(jobset.owner) != OWN_NAME:
            return Proof.NONE
        if jobset.owner_labelled and self._cluster.context in current_config().config.actions.trusts:
            return Proof.PROTECTED
        return Proof.AGREED if self._diagnoses.find_consent(jobset.uid) else Proof.LABEL

    async def read_proof(self, jobset: JobSet) -> Proof:
        """The proof that a job is the person's own, with the launch history read anew."""
        await self._cluster.me()
        await self._runs().has_open_runs()
        await self._diagnoses.refresh()
        return self.proof_of(jobset)

    async def find(self, key: Key) -> JobSet | None:
        """The job, None if it is gone. Raises NotAllowed if nothing proves that it is the person's own."""
        jobset = self._cluster.fleet.jobsets.get(key)
        if jobset is not None and not (proof := await self.read_proof(jobset)).may_look:
            raise NotAllowed(proof.why_not(jobset.owner))
        return jobset

    async def inspect(self, key: Key) -> None:
        """Inspect the person's own job for a hang, and write a bundle if a cause is found. Raises NotAllowed."""
        async with self._inspections:
            if await self.find(key) is None:
                return
            report = await self._inspector().inspect_job(*key)
        if report.alarming:
            from console.hang.bundle import write_automatic_bundle

            report = await self._inspector().add_torch_analysis(*key, report)
            bundled = await write_automatic_bundle(self._cluster, key[0], report)
            if self._inspector().reports.get(key) is report:
                self._inspector().reports[key] = bundled

    async def find_late_rank(self, key: Key, step_time: float | None) -> None:
        """Ask NCCL in a pod of the person's own job which rank is late; `step_time`: seconds. Raises NotAllowed."""
        from rankscope import seconds_to_ask

        async with self._measurements:
            if await self.find(key) is not None:
                await self._inspector().find_slow_ranks(*key, seconds_to_ask(step_time), only_nccl=True)
