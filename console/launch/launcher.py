"""Everything about launches for screens and commands: recipes, plans, installing, the history of runs, stopping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.metrics.ledger import format_unsaved
from console.settings import login_name

if TYPE_CHECKING:
    from console.kube.nested_values import Value
    from console.kube.objects.event import Event
    from console.kube.snapshot import StopReport
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import ChartCatalog, Launcher
    from console.launch.plan_texts import PlanTexts
    from console.launch.profiles import Profiles
    from console.launch.recipes import Field, FieldProblem, LaunchPlan, Manifest, Recipe
    from console.launch.releases import Releases
    from console.launch.runs import Runs
    from console.launch.save_interval import MeasuredSaves
    from console.launch.stop import JobStopper
    from console.metrics.alarm import Alarm
    from console.metrics.seen_time import Span
    from console.scheduling.why_answer import Why

REFUSAL_WAIT_SECONDS = 3.0  # seconds after a launch in which the first refusal of its pods is waited for


class LaunchService:
    """Launches on one cluster; the chart is read on first use."""

    def __init__(
        self,
        cluster: WatchedCluster,
        alarms: Callable[[str, str, float], tuple[Alarm, ...]],
        spans: Callable[[str, str], Sequence[Span]],
    ) -> None:
        """`alarms`: a job's alarms in this session since a given time; `spans`: what its log told of its time."""
        self._cluster, self._alarms, self._spans = cluster, alarms, spans
        self._loaded: ChartCatalog | None = None
        self._saves: dict[str, Sequence[MeasuredSaves]] = {}
        self._before_launch: dict[tuple[str, str], Event] = {}  # events that there were before the last launch

    async def load(self) -> None:
        """Load the chart ahead of the launch screen, once the server has answered."""
        await self._cluster.answered.wait()
        await asyncio.to_thread(self._catalogue)

    async def close(self) -> None:
        """Save the final state of the runs."""
        if "runs" in vars(self):
            await self.runs.close()

    def _catalogue(self) -> ChartCatalog:
        if self._loaded is None:
            from console.launch.install import ChartCatalog

            self._loaded = ChartCatalog.from_chart()
        return self._loaded

    def _launcher(self) -> Launcher:
        from console.launch.helm import Helm
        from console.launch.install import Launcher
        from console.launch.releases import require_small

        client = self._cluster.current_connection.client
        return Launcher(self._catalogue(), Helm(client.login, partial(require_small, client)), client, self._cluster.me)

    @cached_property
    def plan_texts(self) -> PlanTexts:
        """Converts plans to text and back: YAML, pasted commands, commands to run by hand, differences."""
        from console.launch.plan_texts import PlanTexts

        return PlanTexts(self._catalogue(), self.render)

    @cached_property
    def runs(self) -> Runs:
        from console.launch.runs import Runs

        made = Runs(self._cluster, self._catalogue, self._launcher, self._alarms, self._spans)
        self._cluster.when_left.append(made.on_context_changed)
        return made

    @cached_property
    def profiles(self) -> Profiles:
        from console.launch.profiles import Profiles

        return Profiles(self._catalogue)

    @cached_property
    def job_stopper(self) -> JobStopper:
        from console.launch.stop import JobStopper

        return JobStopper(self._cluster, self._launcher, self.find_unsaved)

    async def find_unsaved(self, namespace: str, name: str, gpus: int) -> str:
        """What of a job's work is not in a checkpoint, by what was read of its log now or before; empty: not known."""
        spans = self._spans(namespace, name) or await self.runs.read_spans(namespace, name)
        return format_unsaved(spans, time.time(), gpus)

    async def list_unsaved(self, node: str) -> list[str]:
        """Of each job with pods on a node what of its work is in no checkpoint: "NAME: the work since step 40 …"."""
        fleet, found = self._cluster.fleet, []
        on_it = (pod for pod in fleet.pods_by_node.get(node, ()) if pod.jobset and not pod.finished)
        for uid in dict.fromkeys(pod.jobset_uid for pod in on_it):
            pods = fleet.pods_by_jobset[uid]
            gpus = sum(pod.holds_gpus for pod in pods)
            if unsaved := await self.find_unsaved(pods[0].namespace, pods[0].jobset, gpus):
                found.append(f"{pods[0].jobset}: {unsaved}")
        return found

    @cached_property
    def releases(self) -> Releases:
        from console.launch.releases import Releases

        return Releases(self._cluster, self._launcher)

    def recipes(self) -> tuple[Recipe, ...]:
        return self._catalogue().recipes()

    def fields(self, recipe: str) -> tuple[Field, ...]:
        return self._catalogue().fields(recipe)

    def problems(self, plan: LaunchPlan) -> tuple[FieldProblem, ...]:
        return self._catalogue().plan_problems(plan)

    def notes(self, plan: LaunchPlan) -> tuple[str, ...]:
        """What the values of a valid plan result in, such as its iterations; empty for a plan with problems."""
        practice = self._cluster.practice or self._cluster.current_connection.target.cluster.practice_folder is not None
        return self._catalogue().plan_notes(plan, practice=practice, saves=self._saves.get(plan.recipe, ()))

    async def read_saves(self, recipe: str) -> None:
        """Find out from the history how long runs of a recipe took to save, for its notes."""
        from console.launch.save_interval import measure_saves

        self._saves[recipe] = measure_saves(await self.runs.list_runs(recipe))

    def suggest_name(self, recipe: str) -> str:
        return self._catalogue().suggest_name(recipe, login_name())

    def set_values(self, recipe: str, settings: Sequence[str]) -> dict[str, Value]:
        return self._catalogue().parse_settings(recipe, settings)

    async def render(self, plan: LaunchPlan) -> tuple[Manifest, ...]:
        """The objects that a plan would create; the cluster is only asked for the account's name."""
        return await self._launcher().render(plan)

    async def check(self, plan: LaunchPlan) -> None:
        await self._launcher().dry_run(plan)

    async def install(self, plan: LaunchPlan) -> str:
        """Launch a plan, add it to the history and return the JobSet's name; a failed launch leaves nothing behind."""
        self._cluster.connection_for_change(f"launch {plan.name}")
        self._before_launch = dict(self._cluster.fleet.events)
        job = await self._launcher().launch(plan)
        await self.runs.record_launch(plan)
        return job

    async def wait_for_refusal(self, namespace: str, name: str) -> Why | None:
        """Why the API server refuses the new job's pods, by events within a few seconds; else None."""
        from console.scheduling.why_job import latest_refusal, why_refused

        until = time.monotonic() + REFUSAL_WAIT_SECONDS
        while time.monotonic() < until:
            fresh = [
                event
                for key, event in self._cluster.fleet.events.items()
                if event.namespace == namespace and self._before_launch.get(key) != event
            ]
            pods_of = f"{name}-workload-"
            ours = [each for each in fresh if each.object_name == name or each.object_name.startswith(pods_of)]
            if (refused := latest_refusal(ours)) is not None:
                return why_refused(refused)
            if any(each.reason == "SuccessfulCreate" and each.kind == "Job" for each in ours):
                return None
            if any(each.kind == "Workload" and each.reason == "Pending" and f"-{name}-" in each.object_name
                   for each in fresh):  # fmt: skip
                return None
            await asyncio.sleep(0.1)
        return None

    async def stop(self, namespace: str, name: str, only: Collection[str] | None = None) -> StopReport:
        """Remove a job's release, else just the JobSet; NotFound, and Conflict if more than `only` would go."""
        with suppress(ConsoleError):  # what it came to is read now or never; the stop does not hang on it
            await self.runs.update_open_runs()
        late = await self.runs.record_before_stop(namespace, name)
        report = await self.job_stopper.stop_job(namespace, name, only)
        await self.runs.record_stop(namespace, name, late)
        return report
