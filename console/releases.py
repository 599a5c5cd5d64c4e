"""Releases: what they were launched with, and changing them as far as the cluster lets a JobSet change."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from console.errors import BadInput, NotFound, ReleaseFailed
from console.models.launch import LaunchPlan
from console.models.release import Fate, ObjectChange, ReleaseChange
from console.models.values import look, overlay, reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from console.launch import Launcher
    from console.models.launch import Release
    from console.models.values import Value
    from console.watched import WatchedCluster


class Releases:
    """Releases of the chart on one cluster."""

    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def all(self, namespace: str = "") -> tuple[Release, ...]:
        """Releases of a namespace, or of all."""
        return await self._launcher().releases(namespace)

    async def history(self, namespace: str, name: str) -> tuple[Release, ...]:
        """Every revision of a release, oldest first."""
        return await self._launcher().helm.history(name=name, namespace=namespace)

    async def plan(self, namespace: str, name: str) -> LaunchPlan:
        """What would launch a release again: its recipe, and the values that differ from that recipe's defaults."""
        launcher = self._launcher()
        values = await launcher.values(namespace, name)
        recipe = look(values, "recipe.id")
        if not isinstance(recipe, str):
            raise BadInput(f"{name} was not launched from a recipe.", "a4 releases lists those that were.")
        known = launcher.catalogue.recipe(recipe).id
        return LaunchPlan(known, name, namespace, reduced(launcher.catalogue.defaults(known), values))

    async def changed_plan(self, namespace: str, name: str, changes: Mapping[str, Value]) -> LaunchPlan:
        """The same with these values laid over it."""
        plan = await self.plan(namespace, name)
        return LaunchPlan(plan.recipe, name, namespace, overlay(plan.values, changes))

    # upgrade

    async def try_upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        """What giving a release these values would do, object by object; nothing is changed."""
        launcher = self._launcher()
        launcher.catalogue.require_sound(plan)
        new = await launcher.helm.upgraded(
            launcher.catalogue.chart, await launcher.values_kept(plan), name=plan.name, namespace=plan.namespace
        )
        return await self._judged(plan.namespace, plan.name, new)

    async def upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        """Give a release these values where the cluster lets all of it change, else ReleaseFailed and all stays."""
        self._cluster.changing(f"change {plan.name}")
        change = await self.try_upgrade(plan)
        again = f"Stop it and launch it again: a4 launch {plan.recipe} --like {plan.name}"
        _require_allowed(change, again)
        if not change.idle:
            launcher = self._launcher()
            values = await launcher.values_kept(plan)
            await launcher.helm.upgrade(launcher.catalogue.chart, values, name=plan.name, namespace=plan.namespace)
        return change

    # rollback

    async def revision_before(self, namespace: str, name: str) -> int:
        """The latest revision before the present one that was in force; BadInput if there is none."""
        known = await self.history(namespace, name)
        if not known:
            raise NotFound(f"There is no release {name} in namespace {namespace}.", status=404, reason="NotFound")
        earlier = [each.revision for each in known[:-1] if each.status in {"superseded", "deployed"}]
        if not earlier:
            raise BadInput(f"{name} has only one revision: there is nothing to roll back to.")
        return earlier[-1]

    async def try_rollback(self, namespace: str, name: str, revision: int) -> ReleaseChange:
        """What going back to an earlier revision would do, object by object; nothing is changed."""
        known = [each.revision for each in await self.history(namespace, name)]
        if revision not in known:
            there = ", ".join(map(str, known)) or "none"
            raise BadInput(f"{name} has no revision {revision}.", f"There are: {there}.")
        old = await self._launcher().helm.manifest(name=name, namespace=namespace, revision=revision)
        return await self._judged(namespace, name, old)

    async def rollback(self, namespace: str, name: str, revision: int) -> ReleaseChange:
        """Go back to an earlier revision where the cluster lets all of it change, else ReleaseFailed and all stays."""
        self._cluster.changing(f"roll {name} back")
        change = await self.try_rollback(namespace, name, revision)
        _require_allowed(change, "Stop it, and launch it again with the values of that revision.")
        await self._launcher().helm.rollback(name=name, namespace=namespace, revision=revision)
        return change

    async def _judged(self, namespace: str, name: str, new: Sequence[str]) -> ReleaseChange:
        from console.cluster.ours import PODS_FIXED, pods_of, try_change
        from console.helm import kind_and_name

        old = await self._launcher().helm.manifest(name=name, namespace=namespace)
        client = self._cluster.connected.client
        before = {kind_and_name(text): text for text in old}
        judged: list[ObjectChange] = []
        for change, text in compared(old, new):
            refused = await try_change(client, namespace, text) if change.fate in {Fate.CHANGED, Fate.ADDED} else ""
            if refused == PODS_FIXED and pods_of(before.get((change.kind, change.name), text)) == pods_of(text):
                refused = _ADMITTED
            judged.append(ObjectChange(change.kind, change.name, change.fate, change.lines, refused))
        return ReleaseChange(namespace, name, tuple(judged))


_ADMITTED = (
    "Kueue has completed its pods when it left its queue (tolerations of its flavor); Helm would take that away again,"
    " which a JobSet does not allow."
)


def compared(old: Sequence[str], new: Sequence[str]) -> list[tuple[ObjectChange, str]]:
    """The fate of every object of two manifests of one release, and its new YAML; JobSets first."""
    from console.helm import is_kept, kind_and_name
    from console.launch import masked

    before = {kind_and_name(text): text for text in old}
    after = {kind_and_name(text): text for text in new}
    found: list[tuple[ObjectChange, str]] = []
    for key in sorted({*before, *after}, key=lambda each: (each[0] != "JobSet", each)):
        was, will = before.get(key, ""), after.get(key, "")
        if not will:
            fate = Fate.KEPT if is_kept(was) else Fate.REMOVED
        else:
            fate = Fate.ADDED if not was else Fate.SAME if was.strip() == will.strip() else Fate.CHANGED
        lines = () if fate in {Fate.SAME, Fate.KEPT} else tuple(_diff(masked(was), masked(will)))
        found.append((ObjectChange(*key, fate, lines), will))
    return found


def _diff(was: str, will: str) -> list[str]:
    lines = difflib.unified_diff(was.strip().splitlines(), will.strip().splitlines(), lineterm="", n=2)
    return list(lines)[2:]


def _require_allowed(change: ReleaseChange, hint: str) -> None:
    if change.refused:
        why = " ".join(f"{each.kind} {each.name}: {each.refused}" for each in change.refused)
        raise ReleaseFailed(f"{change.name} was not changed. {why}", hint)
