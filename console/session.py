"""One session with a cluster, from login to logout: the entry point for screens and commands.

Importing this module is cheap: the network's libraries and Google's are imported on first use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from console.connection_settings import Settings
from console.errors import BadKubeconfig, ConsoleError
from console.kube.snapshot import FLEET_FIELDS, Fleet
from console.kube.watched_cluster import Selectors, WatchedCluster
from console.session_jobs import SessionJobs

if TYPE_CHECKING:
    from console.attach.exec_many import ContainerExec
    from console.attach.files.container_copies import FileCopies
    from console.attach.ssh.ssh_setup import SshAccess
    from console.attach.tunnel.background import Tunnels
    from console.checkpoints.reader import CheckpointReader
    from console.google.services import GoogleServices
    from console.hang.inspector import JobInspector
    from console.hang.own_job_inspector import OwnJobInspector
    from console.kube.kubeconfig import Kubeconfig
    from console.launch.field_choices import FieldChoices
    from console.launch.install import ChartCatalog
    from console.launch.service import LaunchService
    from console.logs.log_service import LogService
    from console.metrics.alarm_service import AlarmService
    from console.metrics.diagnosis import Diagnoses
    from console.metrics.gpu_reader import GpuReader
    from console.metrics.measure_service import MeasureService
    from console.preflight.all_checks import Preflight
    from console.scheduling.start_forecast import StartForecast


class _ContextDependent(Protocol):
    def on_context_changed(self) -> None:
        """Called after a switch to another cluster."""


_PartT = TypeVar("_PartT", bound=_ContextDependent)


def load_catalog() -> ChartCatalog:
    """The recipes with their fields and values; needs no cluster."""
    from console.launch.install import ChartCatalog

    return ChartCatalog.from_chart()


def _load_kubeconfig(settings: Settings) -> Kubeconfig:
    """Load the kubeconfig, and import the network modules."""
    WatchedCluster.prepare()
    from console.kube.kubeconfig import load

    return load(settings.kubeconfig)


def _reset_on_context_change(watch: WatchedCluster, part: _PartT) -> _PartT:
    watch.on_left.append(part.on_context_changed)
    return part


class Session:
    """A watched cluster and the services that act on it, each created on first use."""

    def __init__(
        self,
        settings: Settings,
        kubeconfig: Kubeconfig,
        kinds: Collection[str],
        *,
        is_brief: bool = False,
        selectors: Selectors | None = None,
    ) -> None:
        self.watch = WatchedCluster(settings, kubeconfig, kinds, is_brief=is_brief, selectors=selectors)
        self.jobs = SessionJobs(lambda: self.measures)
        beside = self.watch.beside
        if not is_brief and len(kinds) > 1:
            beside["chart"] = lambda: self.launch.load()
        if not is_brief and {"jobsets", "pods"} <= set(kinds):
            beside["runs"] = lambda: self.launch.recorder.update_periodically()
        if not is_brief and "jobsets" in kinds:
            beside["diagnoses"] = lambda: self.diagnoses.refresh_periodically()
        if tuple(kinds) == tuple(FLEET_FIELDS):
            beside["hosts"] = lambda: self.attach.remove_ended_periodically()

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        kinds: Collection[str] | None = None,
        is_brief: bool = False,
        selectors: Selectors | None = None,
    ) -> Self:
        """Read the kubeconfig and start to watch these kinds (all by default), without waiting for the server.

        Raises BadKubeconfig; a context gke_PROJECT_LOCATION_NAME that is in no file is requested from Google.
        `is_brief`: for a command that reads once and ends; `selectors`: as of `WatchedCluster`.
        """
        kinds = tuple(FLEET_FIELDS) if kinds is None else kinds
        try:
            kubeconfig = await asyncio.to_thread(_load_kubeconfig, settings)
            kubeconfig.target(settings.context)
        except BadKubeconfig:
            if not settings.context.startswith("gke_") or settings.practice:
                raise
            from console.google.account import kubeconfig_from_google

            kubeconfig = await kubeconfig_from_google(settings.context)
        session = cls(settings, kubeconfig, kinds, is_brief=is_brief, selectors=selectors)
        await session.watch.connect(settings.context, settings.namespace)
        return session

    async def close(self) -> None:
        """Close every service in use, the watch last; an error in one does not stop the others."""
        async with AsyncExitStack() as ending:
            for name in ("watch", "launch", "logs", "google", "tunnels", "alarms"):
                if name in vars(self):
                    ending.push_async_callback(vars(self)[name].close)

    # the cluster, in short

    @property
    def fleet(self) -> Fleet:
        return self.watch.fleet

    @property
    def context(self) -> str:
        return self.watch.context

    @property
    def namespace(self) -> str:
        return self.watch.namespace

    async def wait_until_listed(self, *kinds: str) -> Fleet:
        """The snapshot once these kinds are listed; raises as `WatchedCluster.wait_until_listed` does."""
        return await self.watch.wait_until_listed(*kinds)

    # parts

    @cached_property
    def launch(self) -> LaunchService:
        from console.launch.service import LaunchService

        return LaunchService(self.watch, self.jobs)

    @cached_property
    def logs(self) -> LogService:
        """Logs of containers and jobs; a job's log is followed once for all readers and stored on disk."""
        from console.logs.log_service import LogService

        return _reset_on_context_change(self.watch, LogService(self.watch))

    @property
    def preflight(self) -> Preflight:
        """The checks before a launch."""
        from console.preflight.all_checks import Preflight
        from console.preflight.check import CheckedCluster

        return Preflight(CheckedCluster(self.watch, self.google), lambda plan: self.launch.catalogue.values(plan))

    @cached_property
    def google(self) -> GoogleServices:
        from console.google.services import GoogleServices

        return GoogleServices(self.watch, lambda: self.logs)

    async def read_choices(self) -> Mapping[str, FieldChoices]:
        """Form choices from the session's namespace and image builds, by `Field.choices_from`."""
        from console.launch.field_choices import list_choices, unasked_choices

        connection = self.watch.current_connection
        found = dict(await list_choices(connection.client, connection.discovery, self.namespace))
        if "images" in found:
            found["images"] = await self.google.images.image_choices(found["images"])
        return {**found, **unasked_choices()}

    async def priority_classes(self, names: Collection[str]) -> Mapping[str, int]:
        """Values of the cluster's priority classes by name; they are listed only if any are named."""
        from console.launch.field_choices import list_priority_classes

        connection = self.watch.current_connection
        return await list_priority_classes(connection.client, connection.discovery) if names else {}

    @property
    def attach(self) -> SshAccess:
        """SSH to ranks, editors, and diagnosis."""
        from console.attach.ssh.ssh_setup import SshAccess

        return SshAccess(self.watch)

    @property
    def copies(self) -> FileCopies:
        """Copies between this machine and pods."""
        from console.attach.files.container_copies import FileCopies

        return FileCopies(self.watch)

    @cached_property
    def checkpoints(self) -> CheckpointReader:
        from console.checkpoints.reader import CheckpointReader

        made = CheckpointReader(self.watch, lambda: self.measures, lambda: self.copies, lambda: self.google.storage)
        self.jobs.checkpoints = _reset_on_context_change(self.watch, made)
        return made

    @property
    def container_exec(self) -> ContainerExec:
        """Commands in many ranks, and facts about containers."""
        from console.attach.exec_many import ContainerExec

        return ContainerExec(self.watch)

    @property
    def gpus(self) -> GpuReader:
        from console.metrics.gpu_reader import GpuReader

        return GpuReader(self.watch)

    @cached_property
    def inspector(self) -> JobInspector:
        from console.hang.inspector import JobInspector

        self.jobs.inspector = _reset_on_context_change(
            self.watch, JobInspector(self.watch, store=self.diagnoses.record)
        )
        return self.jobs.inspector

    @cached_property
    def diagnoses(self) -> Diagnoses:
        """The last hang and slow-rank diagnosis of each job, made by this console or another."""
        from console.metrics.diagnosis import Diagnoses

        return Diagnoses(lambda: self.launch.runs.history)

    @cached_property
    def own_job_inspector(self) -> OwnJobInspector:
        from console.hang.own_job_inspector import OwnJobInspector

        return OwnJobInspector(self.watch, lambda: self.launch.runs, lambda: self.inspector, self.diagnoses)

    @cached_property
    def tunnels(self) -> Tunnels:
        from console.attach.tunnel.background import Tunnels

        return Tunnels(self.watch)

    @cached_property
    def measures(self) -> MeasureService:
        """NCCL tests and training steps of jobs, parsed from their logs."""
        from console.metrics.measure_service import MeasureService

        made = MeasureService(
            self.watch,
            lambda: self.logs,
            lambda: self.launch.runs,
            lambda key: self.jobs.find_measures(key, is_followed=True),
        )
        return _reset_on_context_change(self.watch, made)

    @cached_property
    def forecasts(self) -> StartForecast:
        """Forecasts of the starts of waiting jobs."""
        from console.scheduling.start_forecast import StartForecast

        return StartForecast(self.watch, lambda: self.measures.progress_reader, lambda: self.launch.runs.earlier_runs)

    @cached_property
    def alarms(self) -> AlarmService:
        from console.metrics.alarm_service import AlarmService
        from console.metrics.diagnosis import DiagnosisKind
        from console.metrics.job_monitor import MonitorSources

        sources = MonitorSources(
            self.watch,
            lambda: self.measures,
            lambda: self.gpus,
            lambda uid: self.diagnoses.find(uid, DiagnosisKind.HANG),
            self.own_job_inspector.inspect,
            self.own_job_inspector.find_late_rank,
            self.diagnoses.record_slowdown,
            self.own_job_inspector.find,
        )
        self.jobs.alarms = _reset_on_context_change(self.watch, AlarmService(sources))
        return self.jobs.alarms


async def read_priorities(session: Session) -> None:
    """Read the values of the cluster's priority classes for forecasts of launches, where the account may read them."""
    with suppress(ConsoleError):  # then a forecast that depends on one says that it is not known
        session.launch.priorities = await session.priority_classes(["every one"])
