"""What happens by itself to one's own jobs that hang, where config.toml says so: announced, and cancelled by a key.

Nothing does by default. Only a stall counts whose cause an inspection has named, and only while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.config import Actions, HangAction
from console.errors import BadInput
from console.kube.nested_values import get_path, overlay_values
from console.metrics.alarm import INSPECTED, Alarm, AlarmKind
from console.metrics.step_cadence import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from console.kube.nested_values import Value
    from console.launch.launcher import LaunchService
    from console.launch.recipes import LaunchPlan

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """An action that was announced."""

    key: Key
    action: HangAction
    due: float
    alarm: Alarm

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.alarm.nodes

    def words(self, now: float) -> str:
        what = "stopped" if self.action == "stop" else f"stopped and launched again without {', '.join(self.nodes)}"
        return f"{self.key[1]} is {what} in {format_duration(max(0.0, self.due - now))} unless it goes on"


@dataclass(frozen=True, slots=True)
class Changes:
    """What came of a look at the alarms."""

    announced: tuple[PlannedAction, ...] = ()
    due: tuple[PlannedAction, ...] = ()
    dropped: tuple[PlannedAction, ...] = ()  # whose cause is gone, or which the settings allow no more


class AutomaticActions:
    def __init__(self) -> None:
        self.pending: dict[Key, PlannedAction] = {}
        self._settled: set[tuple[Key, float]] = set()  # alarms for which something was done, or cancelled

    def update(self, now: float, settings: Actions, alarms: Iterable[Alarm], is_own: Callable[[Key], bool]) -> Changes:
        """Announce actions for new hangs, drop those without cause, and hand over those whose time has come."""
        hangs = {
            (each.namespace, each.job): each
            for each in alarms
            if settings.on_hang != "nothing" and _may_act(each, settings.on_hang)
        }
        hangs = {key: alarm for key, alarm in hangs.items() if is_own(key)}
        dropped = [plan for key, plan in self.pending.items() if key not in hangs or plan.action != settings.on_hang]
        for plan in dropped:
            del self.pending[plan.key]
        announced = []
        for key, alarm in hangs.items():
            if key in self.pending:
                self.pending[key] = replace(self.pending[key], alarm=alarm)
            elif (key, alarm.time) not in self._settled:
                self.pending[key] = plan = PlannedAction(key, settings.on_hang, now + settings.delay, alarm)
                announced.append(plan)
        due = [plan for plan in self.pending.values() if plan.due <= now]
        for plan in due:
            self._settle(plan)
        return Changes(tuple(announced), tuple(due), tuple(dropped))

    def cancel(self, key: Key) -> bool:
        """Let the job be for as long as this hang lasts; whether something had been announced."""
        plan = self.pending.get(key)
        if plan is not None:
            self._settle(plan)
        return plan is not None

    def _settle(self, plan: PlannedAction) -> None:
        del self.pending[plan.key]
        self._settled.add((plan.key, plan.alarm.time))


def _may_act(alarm: Alarm, action: HangAction) -> bool:
    """Whether an alarm is a hang whose cause was named; one without a node is no reason to avoid any."""
    hangs = alarm.kind is AlarmKind.STALL and alarm.is_active and alarm.more.startswith(INSPECTED)
    return hangs and (action == "stop" or bool(alarm.nodes))


async def stop_and_relaunch(
    launch: LaunchService, plan: LaunchPlan, name: str, nodes: Sequence[str], begin: Mapping[str, Value]
) -> LaunchPlan:
    """Stop a job and launch it again under another name, without these nodes; the plan that was launched.

    It is not stopped if the API server would not accept the new one.
    """
    new = replace(plan, name=name, values=overlay_values(avoid_nodes(plan.values, nodes), begin))
    if problems := launch.problems(new):
        raise BadInput(f"It was not stopped: {problems[0].message}")
    await launch.check(new)
    going = await launch.job_stopper.plan_stop(plan.namespace, plan.name)
    await launch.stop(plan.namespace, plan.name, going.goes)
    await launch.install(new)
    return new


def avoid_nodes(values: Mapping[str, Value], nodes: Sequence[str]) -> dict[str, Value]:
    """Values of a plan that stays away from these nodes too."""
    known = get_path(values, "placement.avoidNodes")
    every = list(dict.fromkeys([*(known if isinstance(known, list) else []), *nodes]))
    return overlay_values(values, {"placement": {"avoidNodes": every}})
