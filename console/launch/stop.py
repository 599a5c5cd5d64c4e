"""Stops jobs: previews what is removed and kept, deletes it, and finds orphaned resources.

These include trainings made by hand, which no owner would remove: the guide for SWIFT creates Pods training-master and
training-worker-N with a headless Service for each of the two, or a StatefulSet and a Service called megatron.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from console.errors import ConsoleError, NotAllowed, NotFound, Unreadable
from console.kube.actions import delete_jobset, list_objects, read_jobset, read_manifest
from console.kube.objects.meta import ApiSchema, ObjectSchema, labels_of
from console.kube.objects.pod import PodSpecSchema, gpus_of
from console.kube.snapshot import Fleet, StopReport
from console.launch.chart_objects import list_chart_objects
from console.launch.helm import load_manifest, object_path

if TYPE_CHECKING:
    from console.kube.client import Client
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import Launcher


@dataclass(frozen=True, slots=True)
class StopPlan:
    """The consequences of stopping a job: objects removed and kept, GPUs freed, and work lost."""

    namespace: str
    name: str
    release: str = ""  # Helm release that would be uninstalled; empty: the JobSet alone would be deleted
    goes: tuple[str, ...] = ()  # objects, as "Kind name"
    stays: tuple[str, ...] = ()  # objects and places of data that are kept: "bucket gs://runs (/gcs)"
    pods: int = 0
    gpus: int = 0  # GPUs that would be free
    owner: str = ""  # who launched the job, as a short name; empty: not known
    lost: str = ""  # what its end would lose of its work, in words; empty: nothing


@dataclass(frozen=True, slots=True)
class OrphanedResource:
    """A leftover: a chart object without its release, a release without its job, or an object made by hand."""

    kind: str  # "Release", or the kind of the object
    namespace: str  # empty for what belongs to none
    name: str
    release: str  # empty for what was made by hand
    why: str  # one sentence
    holds_data: bool = False  # a volume or claim, kept on purpose: removing it may remove data
    runs: bool = False  # made by hand and not ended: somebody may be using it
    goes: tuple[str, ...] | None = None  # of a release: the objects that were named as going with it


def plan_from_snapshot(jobset: JobSet, fleet: Fleet) -> StopPlan:
    """A StopPlan from the snapshot alone, which shows what is usually removed; Helm is not asked."""
    goes = (f"JobSet {jobset.name}", *(("its Service", "its ConfigMap", "its Secret") if jobset.release else ()))
    stays = ("what it wrote to buckets and volumes", "volume claims")
    return StopPlan(jobset.namespace, jobset.name, jobset.release, goes, stays, *_count_held_gpus(jobset, fleet))


def _count_held_gpus(jobset: JobSet | None, fleet: Fleet) -> tuple[int, int, str]:
    """(number of pods of a JobSet, GPUs they hold, its owner); 0, 0 and "" without a JobSet."""
    if jobset is None:
        return 0, 0, ""
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    return len(pods), 0 if jobset.finished else sum(pod.holds_gpus for pod in pods), jobset.owner


class JobStopper:
    def __init__(
        self, cluster: WatchedCluster, launcher: Callable[[], Launcher], unsaved: Callable[[str, str], Awaitable[str]]
    ) -> None:
        """`unsaved` returns, for (namespace, name), a sentence on the work that the job's end would lose."""
        self._cluster, self._launcher, self._find_unsaved = cluster, launcher, unsaved

    async def plan_stop(self, namespace: str, name: str) -> StopPlan:
        """The objects that stopping a job would remove and keep, and the work that it would lose."""
        plan = await self._plan_removal(namespace, name)
        return replace(plan, lost=await self._find_unsaved(namespace, name))

    async def _plan_removal(self, namespace: str, name: str) -> StopPlan:
        """A StopPlan by Helm's record of the release, else by the JobSet. Raises NotFound, ReleaseFailed if forged."""
        jobset, release = await self._find_job(namespace, name)
        held = _count_held_gpus(jobset, self._cluster.fleet)
        if not release:
            connection = self._cluster.current_connection
            text = await read_manifest(connection.client, connection.discovery, "JobSet", namespace, name)
            return StopPlan(namespace, name, "", (f"JobSet {name}",), persistent_data_of((text,)), *held)
        removal = await self._launcher().removal(namespace, release)
        mine = tuple(f"{each} " for each in removal.kept)
        data = tuple(each for each in persistent_data_of(removal.manifests) if not each.startswith(mine))
        return StopPlan(namespace, name, release, removal.removed, (*removal.kept, *data), *held)

    async def stop_job(self, namespace: str, name: str, only_objects: Collection[str] | None = None) -> StopReport:
        """Remove a job's release, else its JobSet alone. NotFound; Conflict for objects beyond `only_objects`."""
        connection = self._cluster.connection_for_change(f"stop {name}")
        jobset, release = await self._find_job(namespace, name)
        if release:
            gone = await self._launcher().stop(namespace, release, only_objects)
            return StopReport(namespace, name, release, gone)
        assert jobset is not None  # _find_job
        await delete_jobset(connection.client, connection.discovery, namespace, name)
        return StopReport(namespace, name, deleted=(f"JobSet {name}",))

    async def _find_job(self, namespace: str, name: str) -> tuple[JobSet | None, str]:
        """The JobSet (None if it is gone) and the name of its release; empty if this chart made none."""
        connection = self._cluster.current_connection
        try:
            jobset = await read_jobset(connection.client, connection.discovery, namespace, name)
        except NotFound:
            if await self._has_release(namespace, name):
                return None, name
            raise
        return jobset, jobset.release if await self._has_release(namespace, jobset.release) else ""

    async def _has_release(self, namespace: str, name: str) -> bool:
        return bool(name) and any(each.name == name for each in await self._launcher().releases(namespace))

    async def list_orphaned(self, namespace: str = "") -> tuple[tuple[OrphanedResource, ...], tuple[str, ...]]:
        """Orphaned resources (an empty namespace means all), and the kinds that may not be listed."""
        found, hidden = await list_chart_objects(self._cluster.current_connection.client, namespace)
        releases = {(each.namespace, each.name): each for each in await self._launcher().releases(namespace)}
        left = []
        for each in found:
            if each.release and (each.release_namespace, each.release) not in releases:
                why = f"Its release {each.release} is gone" + (", it was kept for its data." if each.is_kept else ".")
                left.append(OrphanedResource(each.kind, each.namespace, each.name, each.release, why, each.is_kept))
        running = {(each.release_namespace, each.release) for each in found if each.kind == "JobSet"}
        if "JobSet" not in hidden:
            for key, release in releases.items():
                if key not in running:
                    left.append(await self._orphaned_release(*key, release.status))
        made, unseen = await list_hand_made(self._cluster.current_connection.client, namespace)
        return (*left, *made), tuple(dict.fromkeys((*hidden, *unseen)))

    async def _orphaned_release(self, namespace: str, name: str, status: str) -> OrphanedResource:
        """The OrphanedResource for a release whose job is gone, with its remaining objects if known."""
        try:
            goes = (await self._launcher().removal(namespace, name)).removed
        except ConsoleError as error:
            return OrphanedResource("Release", namespace, name, name, f"Its job is gone. {error.message}")
        why = f"Its job is gone; Helm calls it {status}. With it goes: {', '.join(goes) or 'nothing else'}."
        return OrphanedResource("Release", namespace, name, name, why, goes=goes)

    async def remove_orphaned(self, resource: OrphanedResource) -> None:
        client = self._cluster.connection_for_change(f"remove {resource.kind} {resource.name}").client
        if resource.kind == "Release":
            with suppress(NotFound):  # somebody else was faster
                await self._launcher().stop(resource.namespace, resource.name, resource.goes)
            return
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        options["propagationPolicy"] = "Foreground" if resource.kind == "JobSet" else "Background"
        path = object_path(resource.kind, resource.namespace, resource.name)
        doing = f"remove {resource.kind} {resource.name}"
        with suppress(NotFound):  # it is gone already
            await client.request("DELETE", path, action=doing, body=msgspec.json.encode(options))


@contextmanager
def _refuse_forged() -> Iterator[None]:
    """Raise Unreadable for objects that this chart never creates, since releases can be forged."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = "Look at it: helm get manifest NAME. If it is not in use, delete the Secrets of the release."
        raise Unreadable("The release holds a JobSet that is not as this chart makes them.", hint) from error


@_refuse_forged()
def persistent_data_of(manifests: Iterable[str]) -> tuple[str, ...]:
    """The places where the pods of these objects write persistent data: buckets, shares, claims, host folders."""
    found: dict[str, None] = {}
    for manifest in manifests:
        made = load_manifest(manifest)
        if made.get("kind") != "JobSet":
            continue
        for group in made["spec"]["replicatedJobs"]:
            pod = group["template"]["spec"]["template"]["spec"]
            mounted = [each for container in pod["containers"] for each in container.get("volumeMounts") or ()]
            mounts = {each["name"]: each["mountPath"] for each in mounted}
            for volume in pod.get("volumes") or ():
                if words := _format_volume(volume):
                    found[f"{words}, mounted at {mounts[volume['name']]}" if volume["name"] in mounts else words] = None
    return tuple(found)


def _format_volume(volume: dict[str, Any]) -> str:
    if "persistentVolumeClaim" in volume:
        return f"PersistentVolumeClaim {volume['persistentVolumeClaim']['claimName']} and its data"
    if "nfs" in volume:
        return f"NFS share {volume['nfs']['server']}:{volume['nfs']['path']}"
    if "hostPath" in volume:
        return f"folder {volume['hostPath']['path']} of its nodes"
    bucket = ((volume.get("csi") or {}).get("volumeAttributes") or {}).get("bucketName")
    return f"bucket gs://{bucket}" if bucket else ""


_SWIFT_POD_NAME = re.compile(r"training-(?:master|worker)(?:-\d+)?")
_MEGATRON_STATEFUL_SET = "megatron"
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


class _HandMadeSpec(PodSpecSchema):
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    selector: dict[str, str] | None = None


class _PhaseSchema(ApiSchema):
    phase: str | None = None


class _HandMadeSchema(ObjectSchema):
    spec: _HandMadeSpec = msgspec.field(default_factory=_HandMadeSpec)
    status: _PhaseSchema = msgspec.field(default_factory=_PhaseSchema)


async def list_hand_made(client: Client, namespace: str) -> tuple[tuple[OrphanedResource, ...], tuple[str, ...]]:
    """Pods and Services made by hand (an empty namespace means all), and the kinds that may not be listed."""
    lists: dict[str, list[_HandMadeSchema]] = {}
    hidden = []
    for kind in ("Pod", "Service"):
        try:
            listed = list_objects(client, object_path(kind, namespace), _HandMadeSchema, f"{kind}s")
            lists[kind] = [each async for each in listed]
        except NotAllowed:
            hidden.append(kind)
    pods = lists.get("Pod", [])
    found = [_orphaned_pod(each) for each in pods if _is_pod(each)]
    found += [
        _orphaned_service(each, pods, was_seen="Pod" not in hidden)
        for each in lists.get("Service", ())
        if _is_service(each)
    ]
    return tuple(found), tuple(hidden)


def _is_pod(obj: _HandMadeSchema) -> bool:
    name, role = obj.metadata.name or "", labels_of(obj.metadata).get("role", "")
    right = role in {"master", "worker"} and name.startswith(f"training-{role}") and _SWIFT_POD_NAME.fullmatch(name)
    return bool(right) and not obj.metadata.owner_references


def _is_service(obj: _HandMadeSchema) -> bool:
    meta, selector = obj.metadata, obj.spec.selector or {}
    if meta.owner_references or obj.spec.cluster_ip != "None":
        return False
    role = f"training-{selector.get('role', '')}"
    if meta.name == _MEGATRON_STATEFUL_SET:
        return selector == {"app": _MEGATRON_STATEFUL_SET}
    return meta.name == role and bool(_SWIFT_POD_NAME.fullmatch(role))


def _orphaned_pod(obj: _HandMadeSchema) -> OrphanedResource:
    phase = obj.status.phase or "Pending"
    if phase in _ENDED_PHASES:
        return _make_orphaned("Pod", obj, f"Made by hand: it has ended ({phase}).", is_running=False)
    gpus = gpus_of(obj.spec)
    held = f" and holds {gpus} GPUs" if gpus else ""
    return _make_orphaned("Pod", obj, f"Made by hand: it is {phase}{held}.", is_running=True)


def _orphaned_service(obj: _HandMadeSchema, pods: list[_HandMadeSchema], *, was_seen: bool) -> OrphanedResource:
    """The OrphanedResource for a Service; unless Pods may be listed (`was_seen`), its use is unknown."""
    if not was_seen:
        return _make_orphaned("Service", obj, "Made by hand; no permission to list its Pods.", is_running=True)
    selector = (obj.spec.selector or {}).items()
    behind = sorted(
        pod.metadata.name or ""
        for pod in pods
        if pod.metadata.namespace == obj.metadata.namespace
        and selector <= labels_of(pod.metadata).items()
        and pod.status.phase not in _ENDED_PHASES
    )
    if behind:
        return _make_orphaned(
            "Service", obj, f"Made by hand for {', '.join(behind)}, which has not ended.", is_running=True
        )
    return _make_orphaned("Service", obj, "Made by hand: no Pod of it is left that has not ended.", is_running=False)


def _make_orphaned(kind: str, obj: _HandMadeSchema, why: str, *, is_running: bool) -> OrphanedResource:
    return OrphanedResource(kind, obj.metadata.namespace or "", obj.metadata.name or "", "", why, runs=is_running)
