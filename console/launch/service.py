"""Everything about launches for screens and commands: recipes, plans, installing, the history of runs, stopping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import structs

from console.connection_settings import login_name
from console.errors import ConsoleError
from console.kube.nested_values import get_path, overlay_values
from console.kube.objects.unwatched_kinds import AdmissionCheckSchema, read_object
from console.kube.stream_completeness import SERVER_CLOCK
from console.kube.watched_kinds import KUEUE_GROUP, kind_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from console.kube.nested_values import Value
    from console.kube.objects.event import Event
    from console.kube.snapshot import StopReport
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import ChartCatalog, Launcher
    from console.launch.jobs_interface import KnownJobs
    from console.launch.lost_work_of_jobs import UnsavedWork
    from console.launch.plan_as_text import PlanTexts
    from console.launch.profiles import Profiles
    from console.launch.recipes import LaunchPlan
    from console.launch.releases import Releases
    from console.launch.run_recorder import RunRecorder
    from console.launch.session_runs import SessionRuns
    from console.launch.stop import JobStopper
    from console.launch.value_checks import MeasuredSaves
    from console.scheduling.launch_forecast import LaunchDemand
    from console.scheduling.why import Why


PROVISIONING_CONTROLLER = "kueue.x-k8s.io/provisioning-request"  # of AdmissionChecks that ask for machines
REFUSAL_WAIT_SECONDS = 3.0  # seconds after a launch in which the first refusal of its pods is waited for


class LaunchService:
    """Launches on one cluster; the chart is read when it is first needed."""

    def __init__(self, cluster: WatchedCluster, jobs: KnownJobs) -> None:
        self._cluster, self._jobs = cluster, jobs
        self._saves: dict[str, Sequence[MeasuredSaves]] = {}
        self._events_before: dict[tuple[str, str], Event] = {}  # events that there were before the last launch
        self.priorities: Mapping[str, int] = {}  # values of the cluster's priority classes, once they were read

    async def load(self) -> None:
        """Load the chart ahead of the launch screen, once the server has answered."""
        await self._cluster.server_answered.wait()
        await asyncio.to_thread(lambda: self.catalogue)

    async def close(self) -> None:
        """Save the final state of the runs."""
        if "runs" in vars(self):
            await self.recorder.close()
            await self.runs.close()

    @cached_property
    def catalogue(self) -> ChartCatalog:
        from console.launch.install import ChartCatalog

        return ChartCatalog.from_chart()

    def launcher(self) -> Launcher:
        """A launcher for the current connection, which renders, checks and installs plans."""
        from console.launch.helm import Helm
        from console.launch.install import Launcher
        from console.launch.releases import require_small

        client = self._cluster.current_connection.client
        return Launcher(self.catalogue, Helm(client.login, partial(require_small, client)), client, self._cluster.me)

    @cached_property
    def plan_texts(self) -> PlanTexts:
        """The converter of plans to text and back: YAML, pasted commands, commands to run by hand, differences."""
        from console.launch.plan_as_text import PlanTexts

        return PlanTexts(self.catalogue, lambda plan: self.launcher().render(plan))

    @cached_property
    def runs(self) -> SessionRuns:
        from console.launch.session_runs import SessionRuns

        made = SessionRuns(self._cluster, self._jobs)
        self._cluster.on_left.append(made.on_context_changed)
        return made

    @cached_property
    def recorder(self) -> RunRecorder:
        from console.launch.run_recorder import RunRecorder

        return RunRecorder(self._cluster, self._jobs, self.runs, lambda: self.catalogue, self.launcher)

    @cached_property
    def profiles(self) -> Profiles:
        from console.launch.profiles import Profiles

        return Profiles(lambda: self.catalogue)

    @cached_property
    def job_stopper(self) -> JobStopper:
        from console.launch.stop import JobStopper

        return JobStopper(self._cluster, self.launcher, self.unsaved.find_unsaved)

    @cached_property
    def unsaved(self) -> UnsavedWork:
        from console.launch.lost_work_of_jobs import UnsavedWork

        return UnsavedWork(self._cluster, self.runs, self._jobs)

    @cached_property
    def releases(self) -> Releases:
        from console.launch.releases import Releases

        return Releases(self._cluster, self.launcher)

    def notes(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Sentences on the consequences of a plan's values, such as its iterations; empty for a plan with problems."""
        practice = self._cluster.practice or self._cluster.current_connection.target.cluster.practice_folder is not None
        return self.catalogue.plan_notes(plan, for_practice=practice, earlier_saves=self._saves.get(plan.recipe, ()))

    async def read_saves(self, recipe: str) -> None:
        """Read from the history how long a recipe's runs took to save checkpoints, for its notes."""
        from console.launch.value_checks import measure_saves

        self._saves[recipe] = measure_saves(await self.runs.list_runs(recipe))

    def demand(self, plan: LaunchPlan) -> LaunchDemand:
        """The GPUs, queue and topology that the plan requests, for a forecast."""
        from console.scheduling.launch_forecast import demand_of

        ask = demand_of(self.catalogue.values(plan), plan.namespace)
        return replace(ask, priority=self.priorities.get(ask.priority_class))

    def suggest_name(self, recipe: str) -> str:
        return self.catalogue.suggest_name(recipe, login_name())

    def set_values(self, recipe: str, settings: Sequence[str], lower_values: Mapping[str, Value]) -> dict[str, Value]:
        from console.launch.helm_set_parser import convert_values, parse_settings

        return convert_values(self.catalogue.fields(recipe), parse_settings(settings, lower_values), lower_values)

    async def with_flex_start(self, plan: LaunchPlan) -> LaunchPlan:
        """The plan with flex-start machines if its queue provisions nodes by ProvisioningRequests; else unchanged.

        A plan that sets placement.flexStart is unchanged, and so is one whose queue may not be read: Kueue's flavor may
        select these machines too.
        """
        values = self.catalogue.values(plan)
        if not get_path(values, "queue") or get_path(plan.values, "placement.flexStart") is not None:
            return plan
        with suppress(ConsoleError):
            fleet = await self._cluster.wait_until_listed("localqueues", "clusterqueues", timeout=5.0, silent=3.0)
            door = fleet.local_queues.get((plan.namespace, str(get_path(values, "queue"))))
            queue = fleet.cluster_queues.get(("", door.cluster_queue)) if door else None
            for check in queue.checks if queue else ():
                if await _controller_of_check(self._cluster, check) == PROVISIONING_CONTROLLER:
                    return replace(plan, values=overlay_values(plan.values, {"placement": {"flexStart": True}}))
        return plan

    async def install(self, plan: LaunchPlan) -> str:
        """Launch a plan, add it to the history and return the JobSet's name; a failed launch leaves nothing behind."""
        self._cluster.connection_for_change(f"launch {plan.name}")
        self._events_before = dict(self._cluster.fleet.events)
        job = await self.launcher().launch(plan)
        await self.recorder.record_launch(plan)
        return job

    async def wait_for_refusal(self, namespace: str, name: str) -> Why | None:
        """The reason why the new job's pods are refused, by events of a few seconds; None if they are accepted."""
        from console.scheduling.why_job import is_passing_denial, latest_refusal, why_refused

        until = time.monotonic() + REFUSAL_WAIT_SECONDS
        while time.monotonic() < until:
            fresh = [
                event
                for key, event in self._cluster.fleet.events.items()
                if event.namespace == namespace and self._events_before.get(key) != event
            ]
            pods_of = f"{name}-workload-"
            ours = [each for each in fresh if each.object_name == name or each.object_name.startswith(pods_of)]
            refused, now = latest_refusal(ours), SERVER_CLOCK.now()
            if refused is not None and not is_passing_denial(refused, now):
                return why_refused(refused, now)
            if any(each.reason == "SuccessfulCreate" and each.kind == "Job" for each in ours):
                return None
            if any(
                each.kind == "Workload" and each.reason == "Pending" and f"-{name}-" in each.object_name
                for each in fresh
            ):
                return None
            await asyncio.sleep(0.1)
        return None

    async def stop(self, namespace: str, name: str, only_objects: Collection[str] | None = None) -> StopReport:
        """Remove a job's release, else its JobSet alone. NotFound; Conflict for objects beyond `only_objects`."""
        with suppress(ConsoleError):  # what it came to is read now or never; the stop does not hang on it
            await self.recorder.update_open_runs()
        late = await self.recorder.record_before_stop(namespace, name)
        report = await self.job_stopper.stop_job(namespace, name, only_objects)
        await self.recorder.record_stop(namespace, name, late)
        return structs.replace(report, note=self.runs.note)


async def _controller_of_check(cluster: WatchedCluster, check: str) -> str:
    connection = cluster.current_connection
    version = await connection.discovery.version(kind_named("clusterqueues"))
    path = f"/apis/{KUEUE_GROUP}/{version}/admissionchecks/{quote(check, safe='')}"
    body = await connection.client.request("GET", path, action=f"read AdmissionCheck {check}")
    found = read_object(body, AdmissionCheckSchema)
    return (found.spec.controller_name if found.spec else None) or ""


def avoid_nodes(values: Mapping[str, Value], nodes: Sequence[str]) -> dict[str, Value]:
    """The values with these nodes added to those that the launch avoids."""
    known = get_path(values, "placement.avoidNodes")
    every = list(dict.fromkeys([*(known if isinstance(known, list) else []), *nodes]))
    return overlay_values(values, {"placement": {"avoidNodes": every}})
