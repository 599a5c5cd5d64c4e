"""Releases of the chart: their values, and differences between two renderings.

Whoever may write a Secret can store a release of one megabyte that unpacks to gigabytes, and Helm unpacks all releases
of a namespace to list them. Therefore the Secrets are checked before Helm reads them.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import BadInput, NotAllowed, ReleaseFailed
from console.kube.actions import list_objects
from console.kube.nested_values import Value, get_path, minimal_override
from console.kube.objects.meta import ApiSchema, ObjectSchema
from console.launch.recipes import LaunchPlan, Manifest

if TYPE_CHECKING:
    from console.kube.client import Client
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import Launcher


class Releases:
    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def plan_of_release(self, namespace: str, name: str) -> LaunchPlan:
        """The plan that would launch a release again. Raises NotFound, or BadInput if it is of no recipe."""
        launcher = self._launcher()
        values = await launcher.values(namespace, name)
        recipe = get_path(values, "recipe.id")
        if not isinstance(recipe, str):
            raise BadInput(f"{name} was not launched from a recipe.", "a4 releases lists those that were.")
        known = launcher.chart_catalog.find_recipe(recipe).id
        return LaunchPlan(known, name, namespace, minimal_override(launcher.chart_catalog.defaults(known), values))

    def plan_of_job(self, jobset: JobSet) -> LaunchPlan:
        """A plan that resembles a job without a Helm release: its recipe, and the values that its JobSet shows."""
        catalogue = self._launcher().chart_catalog
        recipe = catalogue.find_recipe(jobset.recipe).id
        defaults = catalogue.defaults(recipe)
        known: dict[str, Value] = {"queue": jobset.queue, "priorityClass": jobset.priority_class}
        known |= {"restarts": jobset.max_restarts, "gpus": jobset.gpus or defaults["gpus"]}
        if jobset.ttl is not None:
            known["ttl"] = jobset.ttl
        return LaunchPlan(recipe, jobset.name, jobset.namespace, minimal_override(defaults, {**defaults, **known}))


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
    """The difference between two renderings of an object, which may be missing in one of them."""

    kind: str
    name: str
    change: DiffKind
    lines: tuple[DiffLine, ...] = ()  # empty while nothing changed


def diff_manifests(old_manifests: Sequence[Manifest], new_manifests: Sequence[Manifest]) -> tuple[ObjectDiff, ...]:
    """The differences of all objects in the order of `new_manifests`; removed ones last."""
    old = {(each.kind, each.name): each.text for each in old_manifests}
    new = {(each.kind, each.name): each.text for each in new_manifests}
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


def _diff_lines(old_lines: list[str], new_lines: list[str]) -> Iterator[DiffLine]:
    for group in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] or group[0][3]:
            yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old_lines[old_start:old_end])
                continue
            yield from (DiffLine("-", line) for line in old_lines[old_start:old_end])
            yield from (DiffLine("+", line) for line in new_lines[new_start:new_end])


MAX_RELEASE_BYTES = 32 << 20  # of one unpacked release; the chart's have 0.2 MB, and the largest charts some 10
PAGE_SECRETS = "40"  # secrets asked for at a time: each has a megabyte at most
_GZIP_WINDOW_BITS = 31


class _SecretData(ApiSchema):
    release: str | None = None


class _ReleaseSecret(ObjectSchema):
    data: _SecretData | None = None


async def require_small(client: Client, namespace: str, name: str = "") -> None:
    """Raise ReleaseFailed if a release's Secret (all if no name is given) unpacks to more than MAX_RELEASE_BYTES."""
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    params = {"labelSelector": f"owner=helm,name={name}" if name else "owner=helm", "limit": PAGE_SECRETS}
    with suppress(NotAllowed):
        async for secret in list_objects(client, f"/api/v1{where}/secrets", _ReleaseSecret, "releases", params=params):
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
            unpacking = zlib.decompressobj(_GZIP_WINDOW_BITS)
            left -= len(unpacking.decompress(packed, left))
            packed = unpacking.unconsumed_tail or unpacking.unused_data
            left = 0 if unpacking.unconsumed_tail else left
    except (binascii.Error, ValueError, zlib.error):
        return True  # Helm leaves out what it cannot read
    return not packed
