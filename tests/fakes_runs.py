"""What a FakeSession remembers, stops and changes: kept in lists, calls noted with the session's own."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import structs

from console.kube.snapshot import StopReport
from console.launch.recipes import LaunchPlan
from console.launch.run_record import find_run
from console.launch.stop import StopPlan, plan_from_snapshot
from console.metrics.seen_time import decode_seen_time
from console.metrics.start_phase import longest_phases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from console.kube.nested_values import Value
    from console.kube.objects.jobset import JobSet
    from console.launch.run_record import RunRecord
    from console.scheduling.start_windows import PastRun
    from console.scheduling.what_if import WhatIf
    from tests.fakes import FakeSession
    from trainlog import RunPosition


class FakeRuns:
    """`console.launch.runs.Runs` over a list, newest first."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.runs: list[RunRecord] = []
        self.note = ""
        self.history = self

    async def check_writes(self) -> str:
        return self.note

    async def past(self, server: str) -> list[PastRun]:
        return []

    async def list_runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        return tuple(run for run in self.runs if not recipe or run.recipe == recipe)

    async def find_run(self, word: str) -> RunRecord | None:
        return find_run(self.runs, word)

    async def last_launch_values(self, recipe: str) -> tuple[str, Mapping[str, Value]] | None:
        return next(((run.name, run.values) for run in self.runs if run.recipe == recipe), None)

    async def has_open_runs(self) -> bool:
        return any(run.open for run in self.runs)

    def find_launch(self, jobset: JobSet) -> RunRecord | None:
        return next((run for run in self.runs if run.uid == jobset.uid), None)

    async def delete_runs(self, numbers: Iterable[int]) -> int:
        wanted = set(numbers)
        self._session._did("forget", tuple(sorted(wanted)))
        before = len(self.runs)
        self.runs = [run for run in self.runs if run.number not in wanted]
        return before - len(self.runs)

    async def record_training(self, namespace: str, name: str, where: RunPosition, speeds: Mapping[str, float]) -> None:
        self._session._did("note_training", namespace, name, where)

    async def earlier_speeds(self, recipe: str, gpus: int, metric: str) -> tuple[float, ...]:
        assert metric == "tflops_per_gpu"
        found = (run.tflops for run in self.runs if (run.recipe, run.gpus, run.open) == (recipe, gpus, False))
        return tuple(each for each in found if each is not None)

    async def earlier_phases(self, job: JobSet) -> Mapping[str, float]:
        others = (run for run in self.runs if (run.recipe, run.gpus) == (job.recipe, job.gpus) and run.uid != job.uid)
        return longest_phases(decode_seen_time(run.seen).phases for run in others)

    async def record_tests(self, namespace: str, name: str, tests: Any) -> None:
        self._session._did("note_tests", namespace, name, tests)


class FakeStopping:
    """`console.launch.stop.Stopping`: `answers["stop_plan"]` is what is said of every job."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    async def plan_stop(self, namespace: str, name: str) -> StopPlan:
        plan = plan_from_snapshot(self._session.fleet.jobsets[namespace, name], self._session.fleet)
        answer = self._session._did("stop_plan", namespace, name, default=plan)
        assert isinstance(answer, StopPlan)
        return answer


class FakeReleases:
    """`console.launch.releases.Releases`: `answers["release_plan"]` is what every release was launched with."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    async def plan_of_release(self, namespace: str, name: str) -> LaunchPlan:
        plan = LaunchPlan("nccl-all-reduce", name, namespace, {})
        answer = self._session._did("release_plan", namespace, name, default=plan)
        assert isinstance(answer, LaunchPlan)
        return answer

    def plan_of_job(self, jobset: JobSet) -> LaunchPlan:
        plan = LaunchPlan(jobset.recipe, jobset.name, jobset.namespace, {})
        answer = self._session._did("plan_of_job", jobset.name, default=plan)
        assert isinstance(answer, LaunchPlan)
        return answer


class FakeProfiles:
    """`console.launch.profiles.Profiles` over a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Value]] = {}
        self.chosen = ""

    async def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.kept))

    async def values(self, name: str, recipe: str) -> dict[str, Value]:
        return self.kept[name]

    async def place_variables(self) -> dict[str, str]:
        return {}

    async def default_name(self) -> str:
        return self.chosen


class FakeLaunching:
    """`console.launch.service.Launching`: what it takes and gives is its; set `answers` to its own shapes."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.runs = FakeRuns(session)
        self.job_stopper = FakeStopping(session)
        self.releases = FakeReleases(session)
        self.profiles = FakeProfiles()

    def recipes(self) -> Any:
        return self._session.answers.get("recipes", ())

    def fields(self, recipe: str) -> Any:
        answer = self._session.answers.get("fields", ())
        return answer(recipe) if callable(answer) else answer

    def problems(self, plan: Any) -> Any:
        answer = self._session.answers.get("problems", ())
        return answer(plan) if callable(answer) else answer

    def notes(self, plan: Any) -> Any:
        answer = self._session.answers.get("notes", ())
        return answer(plan) if callable(answer) else answer

    async def read_saves(self, recipe: str) -> None:
        self._session._did("saves", recipe)

    def suggest_name(self, recipe: str) -> str:
        return str(self._session.answers.get("suggest_name", f"me-{recipe}"))

    def set_values(self, recipe: str, settings: Sequence[str], below: Mapping[str, Any]) -> Any:
        return self._session._did("set_values", recipe, tuple(settings), default=dict(below))

    async def with_flex_start(self, plan: LaunchPlan) -> LaunchPlan:
        return plan

    @cached_property
    def plan_texts(self) -> Any:
        """Texts of the real chart's recipes; what is rendered is what `answers` say."""
        from console.launch.install import ChartCatalog
        from console.launch.plan_texts import PlanTexts

        return PlanTexts(ChartCatalog.from_chart(), self.render)

    async def render(self, plan: Any) -> Any:
        return self._session._did("render", plan, default=())

    async def find_unsaved(self, namespace: str, name: str) -> str:
        return str(self._session.answers.get("unsaved", ""))

    async def list_unsaved(self, node: str) -> list[str]:
        return list(self._session.answers.get("unsaved_of_node", []))

    async def add_losses(self, found: WhatIf) -> WhatIf:
        unsaved = str(self._session.answers.get("unsaved", ""))
        told = (structs.replace(each, lost=unsaved if each.ends_work else "") for each in found.consequences)
        return structs.replace(found, consequences=tuple(told))

    async def check(self, plan: Any) -> Any:
        return self._session._did("check", plan)

    async def install(self, plan: Any) -> str:
        return str(self._session._did("launch", plan, default="job"))

    async def wait_for_refusal(self, namespace: str, name: str) -> Any:
        return self._session._did("refused_at_start", namespace, name)

    async def stop(self, namespace: str, name: str, only: Collection[str] | None = None) -> StopReport:
        report = StopReport(namespace, name, deleted=(f"JobSet {name}",))
        answer = self._session._did("stop_job", namespace, name, default=report)
        assert isinstance(answer, StopReport)
        return answer
