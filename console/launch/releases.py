"""Releases of the chart: their values, how two renderings differ, and which changes the cluster allows.

Whoever may write a Secret can write down a release of one megabyte that unpacks to gigabytes, and Helm unpacks all of a
namespace to list them. So the Secrets are checked before Helm sees them.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from console.errors import BadInput, NotAllowed, NotFound, Refused, ReleaseFailed
from console.kube.actions import list_objects
from console.kube.nested_values import Value, get_path, minimal_override, overlay_values
from console.kube.objects.meta import ObjectWire, Wire
from console.launch.recipes import LaunchPlan, Manifest, Release

if TYPE_CHECKING:
    from console.kube.client import Client
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import Launcher


class ObjectFate(StrEnum):
    """What happens to an object when its release is changed."""

    SAME = "stays as it is"
    CHANGED = "changes"
    ADDED = "is made"
    REMOVED = "goes"
    KEPT = "is kept"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    kind: str
    name: str
    fate: ObjectFate
    lines: tuple[str, ...] = ()  # a unified diff of its YAML, without its head; values of Secrets are masked
    refused: str = ""  # why the cluster does not let it happen, in one sentence; empty: it does


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """How the change of a release affects each object, as the API server's dry run judged it."""

    namespace: str
    name: str
    objects: tuple[ObjectChange, ...]

    @property
    def refused(self) -> tuple[ObjectChange, ...]:
        return tuple(each for each in self.objects if each.refused)

    @property
    def is_empty(self) -> bool:
        return all(each.fate in {ObjectFate.SAME, ObjectFate.KEPT} for each in self.objects)


class Releases:
    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def list_all(self, namespace: str = "") -> tuple[Release, ...]:
        return await self._launcher().releases(namespace)

    async def read_history(self, namespace: str, name: str) -> tuple[Release, ...]:
        return await self._launcher().helm.read_history(name=name, namespace=namespace)

    async def plan_of_release(self, namespace: str, name: str) -> LaunchPlan:
        """The plan that would launch a release again: its recipe and the values that differ from the defaults."""
        launcher = self._launcher()
        values = await launcher.values(namespace, name)
        recipe = get_path(values, "recipe.id")
        if not isinstance(recipe, str):
            raise BadInput(f"{name} was not launched from a recipe.", "a4 releases lists those that were.")
        known = launcher.catalogue.find_recipe(recipe).id
        return LaunchPlan(known, name, namespace, minimal_override(launcher.catalogue.defaults(known), values))

    def plan_of_job(self, jobset: JobSet) -> LaunchPlan:
        """A plan like a job that no release made: its recipe, and the values that its JobSet shows."""
        catalogue = self._launcher().catalogue
        recipe = catalogue.find_recipe(jobset.recipe).id
        defaults = catalogue.defaults(recipe)
        told: dict[str, Value] = {"queue": jobset.queue, "priorityClass": jobset.priority_class}
        told |= {"restarts": jobset.max_restarts, "gpus": jobset.gpus or defaults["gpus"]}
        if jobset.ttl is not None:
            told["ttl"] = jobset.ttl
        return LaunchPlan(recipe, jobset.name, jobset.namespace, minimal_override(defaults, {**defaults, **told}))

    async def changed_plan(self, namespace: str, name: str, changes: Mapping[str, Value]) -> LaunchPlan:
        """The plan of a release with these changes merged over it."""
        plan = await self.plan_of_release(namespace, name)
        return LaunchPlan(plan.recipe, name, namespace, overlay_values(plan.values, changes))

    async def dry_run_upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        launcher = self._launcher()
        launcher.catalogue.require_valid(plan)
        where, values = {"name": plan.name, "namespace": plan.namespace}, await launcher.values_for_upgrade(plan)
        new = await launcher.helm.upgrade(launcher.catalogue.chart, values, **where, dry_run=True)
        return await self._dry_run_changes(plan.namespace, plan.name, new)

    async def upgrade(self, plan: LaunchPlan) -> ReleaseChange:
        """Upgrade a release if the cluster allows every change; else ReleaseFailed, and nothing changes."""
        self._cluster.connection_for_change(f"change {plan.name}")
        change = await self.dry_run_upgrade(plan)
        again = f"Stop it and launch it again: a4 launch {plan.recipe} --like {plan.name}"
        _require_allowed(change, again)
        if not change.is_empty:
            launcher = self._launcher()
            values = await launcher.values_for_upgrade(plan)
            await launcher.helm.upgrade(launcher.catalogue.chart, values, name=plan.name, namespace=plan.namespace)
        return change

    async def previous_revision(self, namespace: str, name: str) -> int:
        """The latest earlier revision that was deployed; BadInput if there is none."""
        known = await self.read_history(namespace, name)
        if not known:
            raise NotFound(f"There is no release {name} in namespace {namespace}.", status=404, reason="NotFound")
        earlier = [each.revision for each in known[:-1] if each.status in {"superseded", "deployed"}]
        if not earlier:
            raise BadInput(f"{name} has only one revision: there is nothing to roll back to.")
        return earlier[-1]

    async def dry_run_rollback(self, namespace: str, name: str, revision: int) -> ReleaseChange:
        known = [each.revision for each in await self.read_history(namespace, name)]
        if revision not in known:
            raise BadInput(f"{name} has no revision {revision}.", f"There are: {', '.join(map(str, known)) or 'none'}.")
        old = await self._launcher().helm.read_manifest(name=name, namespace=namespace, revision=revision)
        return await self._dry_run_changes(namespace, name, old)

    async def rollback(self, namespace: str, name: str, revision: int) -> ReleaseChange:
        """Roll back to a revision if the cluster allows every change; else ReleaseFailed, and nothing changes."""
        self._cluster.connection_for_change(f"roll {name} back")
        change = await self.dry_run_rollback(namespace, name, revision)
        _require_allowed(change, "Stop it, and launch it again with the values of that revision.")
        await self._launcher().helm.rollback(name=name, namespace=namespace, revision=revision)
        return change

    async def _dry_run_changes(self, namespace: str, name: str, new: Sequence[str]) -> ReleaseChange:
        from console.launch.helm import kind_and_name
        from console.launch.stop import replicated_jobs_of

        old = await self._launcher().helm.read_manifest(name=name, namespace=namespace)
        client = self._cluster.current_connection.client
        before = {kind_and_name(text): text for text in old}
        judged: list[ObjectChange] = []
        for change, text in compare_objects(old, new):
            refused = ""
            if change.fate in {ObjectFate.CHANGED, ObjectFate.ADDED}:
                refused = await dry_run_change(client, namespace, text)
            if refused == PODS_IMMUTABLE_NOTE and replicated_jobs_of(
                before.get((change.kind, change.name), text)
            ) == replicated_jobs_of(text):
                refused = _ADMITTED_MESSAGE
            judged.append(ObjectChange(change.kind, change.name, change.fate, change.lines, refused))
        return ReleaseChange(namespace, name, tuple(judged))


async def dry_run_change(client: Client, namespace: str, manifest: str) -> str:
    """Why the server refuses this object in a dry-run apply; empty if it accepts it."""
    from console.launch.helm import KINDS, load_manifest, object_path

    made = load_manifest(manifest)
    kind, name = str(made["kind"]), str(made["metadata"]["name"])
    if kind not in KINDS:
        return ""
    path = object_path(kind, namespace, name)
    try:
        await client.request(
            "PATCH",
            path,
            doing=f"change {kind} {name}",
            params={"dryRun": "All", "force": "true", "fieldManager": await _field_manager(client, path, kind, name)},
            body=msgspec.json.encode(made),
            content="application/apply-patch+yaml",
        )
    except Refused as error:
        # In a person's words where it is about what one meets most, else in the server's, shorter.
        usual = next((words for pattern, words in _IMMUTABLE_MESSAGE if re.search(pattern, error.message)), "")
        return usual or re.sub(r"Invalid value: [\[{].*[\]}]: ", "", re.sub(r"\s+", " ", error.message))[:400]
    return ""


PODS_IMMUTABLE_NOTE = "The pods of a JobSet cannot be changed once it has left its queue."
_IMMUTABLE_MESSAGE = (
    (r"spec\.replicatedJobs: .*immutable", PODS_IMMUTABLE_NOTE),
    (r"spec\.failurePolicy: .*immutable", "How often a JobSet may restart is fixed when it is made."),
    (r"kueue\.x-k8s\.io/queue-name\]: .*immutable", "A job that has left its queue cannot go to another."),
    (r"kueue\.x-k8s\.io/priority-class\]", "The priority of a job cannot be changed once it has left its queue."),
    (r"max-exec-time-seconds\]: .*immutable", "The time a job may run cannot be changed once it has left its queue."),
)


async def _field_manager(client: Client, path: str, kind: str, name: str) -> str:
    """The field manager that applied the object: only its own apply removes fields that are left out."""
    try:
        body = await client.request("GET", path, doing=f"read {kind} {name}")
        managed: list[dict[str, Any]] = msgspec.json.decode(body, type=dict[str, Any])["metadata"]["managedFields"]
    except (NotFound, KeyError):
        return "helm"
    return next((str(each["manager"]) for each in managed if each.get("operation") == "Apply"), "helm")


_ADMITTED_MESSAGE = (
    "Kueue has completed its pods when it left its queue (tolerations of its flavor); Helm would take that away again,"
    " which a JobSet does not allow."
)


def compare_objects(old: Sequence[str], new: Sequence[str]) -> list[tuple[ObjectChange, str]]:
    """What happens to each object between two manifests of a release, with its new YAML; JobSets first."""
    from console.launch.helm import is_kept, kind_and_name
    from console.launch.install import mask_secrets

    before = {kind_and_name(text): text for text in old}
    after = {kind_and_name(text): text for text in new}
    found: list[tuple[ObjectChange, str]] = []
    for key in sorted({*before, *after}, key=lambda each: (each[0] != "JobSet", each)):
        was, will = before.get(key, "").strip(), after.get(key, "").strip()
        if was == will:
            fate = ObjectFate.SAME
        elif will:
            fate = ObjectFate.CHANGED if was else ObjectFate.ADDED
        else:
            fate = ObjectFate.KEPT if is_kept(was) else ObjectFate.REMOVED
        lines: tuple[str, ...] = ()
        if fate not in {ObjectFate.SAME, ObjectFate.KEPT}:
            old_lines, new_lines = mask_secrets(was).splitlines(), mask_secrets(will).splitlines()
            lines = tuple(difflib.unified_diff(old_lines, new_lines, lineterm="", n=2))[2:]
        found.append((ObjectChange(*key, fate, lines), will))
    return found


def _require_allowed(change: ReleaseChange, hint: str) -> None:
    if change.refused:
        why = " ".join(f"{each.kind} {each.name}: {each.refused}" for each in change.refused)
        raise ReleaseFailed(f"{change.name} was not changed. {why}", hint)


_CONTEXT_LINES = 3  # lines shown before and after a change


class DiffKind(StrEnum):
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
    """An object in both renderings or in one of them."""

    kind: str
    name: str
    change: DiffKind
    lines: tuple[DiffLine, ...] = ()  # empty while nothing changed

    def count_lines(self, mark: str) -> int:
        return sum(line.mark == mark for line in self.lines)


def diff_manifests(before: Sequence[Manifest], after: Sequence[Manifest]) -> tuple[ObjectDiff, ...]:
    """The differences of all objects in the order of `after`; removed ones last."""
    old = {(each.kind, each.name): each.text for each in before}
    new = {(each.kind, each.name): each.text for each in after}
    found = []
    for key in dict.fromkeys((*new, *old)):
        was, will = old.get(key), new.get(key)
        if was == will:
            found.append(ObjectDiff(*key, DiffKind.SAME))
            continue
        change = DiffKind.ADDED if was is None else DiffKind.REMOVED if will is None else DiffKind.CHANGED
        found.append(ObjectDiff(*key, change, tuple(_diff_lines((was or "").splitlines(), (will or "").splitlines()))))
    return tuple(found)


def format_unified(diffs: Sequence[ObjectDiff]) -> str:
    """The differences as text in the format of `diff -u`; empty if there are none."""
    parts = []
    for diff in diffs:
        if diff.change is not DiffKind.SAME:
            parts += [f"--- {diff.kind} {diff.name}", f"+++ {diff.kind} {diff.name} ({diff.change})"]
            parts += [f"{line.mark}{line.text}" if line.mark != "@" else f"@@ {line.text} @@" for line in diff.lines]
    return "".join(f"{part}\n" for part in parts)


def _diff_lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] or group[0][3]:
            yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[old_start:old_end])
                continue
            yield from (DiffLine("-", line) for line in old[old_start:old_end])
            yield from (DiffLine("+", line) for line in new[new_start:new_end])


MAX_RELEASE_BYTES = (
    32 << 20
)  # bytes of one unpacked release; the chart's have 0.2 MB, and the largest charts there are some 10
PAGE = "40"  # secrets asked for at a time: each has a megabyte at most
_GZIP = 31


class _Data(Wire):
    release: str | None = None


class _Secret(ObjectWire):
    data: _Data | None = None


async def require_small(client: Client, namespace: str, name: str = "") -> None:
    """Raise ReleaseFailed if a release's Secret (all if no name is given) unpacks to more than LARGEST bytes."""
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    params = {"labelSelector": f"owner=helm,name={name}" if name else "owner=helm", "limit": PAGE}
    with suppress(NotAllowed):
        async for secret in list_objects(client, f"/api/v1{where}/secrets", _Secret, "releases", params=params):
            if secret.data and secret.data.release and not _is_small(secret.data.release):
                meta = secret.metadata
                raise ReleaseFailed(
                    f"The Secret {meta.name} in {meta.namespace} unpacks to more than {MAX_RELEASE_BYTES >> 20} MiB:"
                    " it is not a Helm release.",
                    f"If it is not in use, delete it: kubectl delete secret -n {meta.namespace} {meta.name}",
                )


def _is_small(release: str) -> bool:
    left = MAX_RELEASE_BYTES
    try:
        packed = base64.b64decode(base64.b64decode(release))
        while packed and left > 0:  # Helm unpacks all of several gzips in a row
            unpacking = zlib.decompressobj(_GZIP)
            left -= len(unpacking.decompress(packed, left))
            packed = unpacking.unconsumed_tail or unpacking.unused_data
            left = 0 if unpacking.unconsumed_tail else left
    except (binascii.Error, ValueError, zlib.error):
        return True  # Helm leaves out what it cannot read
    return not packed
