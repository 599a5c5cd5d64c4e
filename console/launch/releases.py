"""Releases of the chart: what they were launched with, how two renderings differ, and what can still be changed.

Whoever may write a Secret can write down a release of one megabyte that unpacks to gigabytes, and Helm unpacks all of a
namespace to list them. So the Secrets are checked before Helm sees them.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import zlib
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import BadInput, NotAllowed, NotFound, ReleaseFailed
from console.kube.actions import list_objects
from console.kube.nested_values import get_path, minimal_override, overlay_values
from console.kube.objects.meta import ObjectWire, Wire
from console.launch.recipes import LaunchPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from console.kube.client import Client
    from console.kube.nested_values import Value
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import Launcher
    from console.launch.recipes import Manifest, Release


@dataclass(frozen=True, slots=True)
class StopPlan:
    """What stopping a job would remove, and what it would leave."""

    namespace: str
    name: str
    release: str = ""  # Helm release that would be uninstalled; empty: the JobSet alone would be deleted
    goes: tuple[str, ...] = ()  # objects, as "Kind name"
    stays: tuple[str, ...] = ()
    """Objects that are kept, and the places where data is: "PersistentVolumeClaim data", "bucket gs://runs (/gcs)"."""
    pods: int = 0
    gpus: int = 0  # GPUs that would be free
    owner: str = ""  # who launched the job, as a short name; empty: not known


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of the chart whose release is gone, a release whose job is, or a Pod or Service made by hand."""

    kind: str  # "Release", or the kind of the object
    namespace: str  # empty for what belongs to none
    name: str
    release: str  # empty for what was made by hand
    why: str  # one sentence
    holds_data: bool = False
    """A volume or a claim: it was kept on purpose, and removing it may remove what somebody wrote there."""
    runs: bool = False  # made by hand and not ended: somebody may be using it
    goes: tuple[str, ...] | None = None  # of a release: the objects that were named as going with it


class ObjectFate(StrEnum):
    """What happens to an object when its release is changed."""

    SAME = "stays as it is"
    CHANGED = "changes"
    ADDED = "is made"
    REMOVED = "goes"
    KEPT = "is kept"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What a change of a release means for one of its objects."""

    kind: str
    name: str
    fate: ObjectFate
    lines: tuple[str, ...] = ()  # a unified diff of its YAML, without its head; values of Secrets are masked
    refused: str = ""  # why the cluster does not let it happen, in one sentence; empty: it does


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """What a change of a release would do, object by object, as the API server judged it."""

    namespace: str
    name: str
    objects: tuple[ObjectChange, ...]

    @property
    def refused(self) -> tuple[ObjectChange, ...]:
        """Objects that stand in its way."""
        return tuple(each for each in self.objects if each.refused)

    @property
    def idle(self) -> bool:
        return all(each.fate in {ObjectFate.SAME, ObjectFate.KEPT} for each in self.objects)


class Releases:
    """Releases of the chart on one cluster."""

    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def all(self, namespace: str = "") -> tuple[Release, ...]:
        return await self._launcher().releases(namespace)

    async def history(self, namespace: str, name: str) -> tuple[Release, ...]:
        """Every revision of a release, oldest first."""
        return await self._launcher().helm.history(name=name, namespace=namespace)

    async def plan(self, namespace: str, name: str) -> LaunchPlan:
        """What would launch a release again: its recipe, and the values that differ from that recipe's defaults."""
        launcher = self._launcher()
        values = await launcher.values(namespace, name)
        recipe = get_path(values, "recipe.id")
        if not isinstance(recipe, str):
            raise BadInput(f"{name} was not launched from a recipe.", "a4 releases lists those that were.")
        known = launcher.catalogue.recipe(recipe).id
        return LaunchPlan(known, name, namespace, minimal_override(launcher.catalogue.defaults(known), values))

    async def changed_plan(self, namespace: str, name: str, changes: Mapping[str, Value]) -> LaunchPlan:
        """The same with these values laid over it."""
        plan = await self.plan(namespace, name)
        return LaunchPlan(plan.recipe, name, namespace, overlay_values(plan.values, changes))

    # upgrade

    async def try_upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        """What giving a release these values would do, object by object; nothing is changed."""
        launcher = self._launcher()
        launcher.catalogue.require_sound(plan)
        where, values = {"name": plan.name, "namespace": plan.namespace}, await launcher.values_kept(plan)
        new = await launcher.helm.upgrade(launcher.catalogue.chart, values, **where, dry_run=True)
        return await self._judged(plan.namespace, plan.name, new)

    async def upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        """Give a release these values where the cluster lets all of it change, else ReleaseFailed and all stays."""
        self._cluster.connection_for_change(f"change {plan.name}")
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
        self._cluster.connection_for_change(f"roll {name} back")
        change = await self.try_rollback(namespace, name, revision)
        _require_allowed(change, "Stop it, and launch it again with the values of that revision.")
        await self._launcher().helm.rollback(name=name, namespace=namespace, revision=revision)
        return change

    async def _judged(self, namespace: str, name: str, new: Sequence[str]) -> ReleaseChange:
        from console.launch.chart_objects import PODS_FIXED, dry_run_change, pods_of
        from console.launch.helm import kind_and_name

        old = await self._launcher().helm.manifest(name=name, namespace=namespace)
        client = self._cluster.current_connection.client
        before = {kind_and_name(text): text for text in old}
        judged: list[ObjectChange] = []
        for change, text in compared(old, new):
            refused = (
                await dry_run_change(client, namespace, text)
                if change.fate in {ObjectFate.CHANGED, ObjectFate.ADDED}
                else ""
            )
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
    from console.launch.helm import is_kept, kind_and_name
    from console.launch.install import masked

    before = {kind_and_name(text): text for text in old}
    after = {kind_and_name(text): text for text in new}
    found: list[tuple[ObjectChange, str]] = []
    for key in sorted({*before, *after}, key=lambda each: (each[0] != "JobSet", each)):
        was, will = before.get(key, ""), after.get(key, "")
        if not will:
            fate = ObjectFate.KEPT if is_kept(was) else ObjectFate.REMOVED
        else:
            fate = (
                ObjectFate.ADDED if not was else ObjectFate.SAME if was.strip() == will.strip() else ObjectFate.CHANGED
            )
        lines = () if fate in {ObjectFate.SAME, ObjectFate.KEPT} else tuple(_diff(masked(was), masked(will)))
        found.append((ObjectChange(*key, fate, lines), will))
    return found


def _diff(was: str, will: str) -> list[str]:
    lines = difflib.unified_diff(was.strip().splitlines(), will.strip().splitlines(), lineterm="", n=2)
    return list(lines)[2:]


def _require_allowed(change: ReleaseChange, hint: str) -> None:
    if change.refused:
        why = " ".join(f"{each.kind} {each.name}: {each.refused}" for each in change.refused)
        raise ReleaseFailed(f"{change.name} was not changed. {why}", hint)


_AROUND = 3  # lines shown before and after a change


class DiffKind(StrEnum):
    """Whether an object is added, changed or removed."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class DiffLine:
    mark: str  # " " as before, "+" new, "-" gone, "@" where lines are left out
    text: str


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """One object of both renderings, or of one of them."""

    kind: str
    name: str
    change: DiffKind
    lines: tuple[DiffLine, ...] = ()  # empty while nothing changed

    @property
    def added(self) -> int:
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.mark == "-" for line in self.lines)


def diff_manifests(before: Sequence[Manifest], after: Sequence[Manifest]) -> tuple[ObjectDiff, ...]:
    """Every object of either, in the order of `after`; those that are gone last."""
    old = {(each.kind, each.name): each.text for each in before}
    new = {(each.kind, each.name): each.text for each in after}
    return tuple(_object(key, old.get(key), new.get(key)) for key in dict.fromkeys((*new, *old)))


def unified(diffs: Sequence[ObjectDiff]) -> str:
    """The differences as text, in the form of `diff -u`; empty if there are none."""
    parts = []
    for diff in diffs:
        if diff.change is not DiffKind.SAME:
            parts += [f"--- {diff.kind} {diff.name}", f"+++ {diff.kind} {diff.name} ({diff.change})"]
            parts += [f"{line.mark}{line.text}" if line.mark != "@" else f"@@ {line.text} @@" for line in diff.lines]
    return "".join(f"{part}\n" for part in parts)


def _object(key: tuple[str, str], old: str | None, new: str | None) -> ObjectDiff:
    if old == new:
        return ObjectDiff(*key, DiffKind.SAME)
    change = DiffKind.ADDED if old is None else DiffKind.REMOVED if new is None else DiffKind.CHANGED
    return ObjectDiff(*key, change, tuple(_lines((old or "").splitlines(), (new or "").splitlines())))


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        if group[0][1] or group[0][3]:
            yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[old_start:old_end])
                continue
            yield from (DiffLine("-", line) for line in old[old_start:old_end])
            yield from (DiffLine("+", line) for line in new[new_start:new_end])


LARGEST = 32 << 20
"""Bytes of one unpacked release; the chart's have 0.2 MB, and the largest charts there are some 10."""
PAGE = "40"  # secrets asked for at a time: each has a megabyte at most
_GZIP = 31


class _Data(Wire):
    release: str | None = None


class _Secret(ObjectWire):
    data: _Data | None = None


async def require_small(client: Client, namespace: str, name: str = "") -> None:
    """ReleaseFailed if a release of that name (empty: any) in that namespace (empty: all) is too large to be unpacked.

    An account that may not list Secrets is left to Helm, which then may not either.
    """
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    params = {"labelSelector": f"owner=helm,name={name}" if name else "owner=helm", "limit": PAGE}
    with suppress(NotAllowed):
        async for secret in list_objects(client, f"/api/v1{where}/secrets", _Secret, "releases", params=params):
            if secret.data and secret.data.release and not _is_small(secret.data.release):
                meta = secret.metadata
                raise ReleaseFailed(
                    f"The Secret {meta.name} in {meta.namespace} unpacks to more than {LARGEST >> 20} MiB:"
                    " it is not a Helm release.",
                    f"If it is not in use, delete it: kubectl delete secret -n {meta.namespace} {meta.name}",
                )


def _is_small(release: str) -> bool:
    try:
        packed = base64.b64decode(base64.b64decode(release))
        unpacking = zlib.decompressobj(_GZIP)
        unpacking.decompress(packed, LARGEST)
    except (binascii.Error, ValueError, zlib.error):
        return True  # Helm leaves out what it cannot read, and unpacks nothing of it
    return not unpacking.unconsumed_tail
