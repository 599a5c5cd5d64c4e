"""Stopping jobs: what would go and what would stay, the deletion, and what is left of releases that are gone.

Trainings made by hand are found too: the guide for SWIFT makes a Pod training-master, Pods training-worker-N and a
headless Service for each of these two, or a StatefulSet and a Service called megatron. None of them has an owner that
would take it away.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import ConsoleError, NotAllowed, NotFound
from console.kube.actions import list_objects
from console.kube.objects.meta import ObjectWire, Wire, labels_of
from console.kube.snapshot import StopReport
from console.launch.releases import Leftover, StopPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from console.kube.client import Client
    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.install import Launcher


def plan_from_snapshot(jobset: JobSet, fleet: Fleet) -> StopPlan:
    """What stopping a job usually removes and leaves: Helm's record of its release is not asked."""
    goes = (f"JobSet {jobset.name}", *(("its Service", "its ConfigMap", "its Secret") if jobset.release else ()))
    stays = ("what it wrote to buckets and volumes", "volume claims")
    return StopPlan(jobset.namespace, jobset.name, jobset.release, goes, stays, *_held(jobset, fleet))


def _held(jobset: JobSet | None, fleet: Fleet) -> tuple[int, int, str]:
    """Pods of a JobSet, the GPUs they hold, and who launched it."""
    if jobset is None:
        return 0, 0, ""
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    return len(pods), 0 if jobset.finished else sum(pod.holds_gpus for pod in pods), jobset.owner


class Stopping:
    """What can be stopped on one cluster, and removed after it."""

    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def plan(self, namespace: str, name: str) -> StopPlan:
        """What stopping a job would remove and leave, from Helm's record of its release; NotFound if there is none.

        Raises as `stop` does where the release names objects of others: nobody is asked about those.
        """
        from console.kube import actions
        from console.launch.chart_objects import data_of

        jobset, release = await self._found(namespace, name)
        held = _held(jobset, self._cluster.fleet)
        if not release:
            connection = self._cluster.current_connection
            text = await actions.read_manifest(connection.client, connection.catalogue, "JobSet", namespace, name)
            return StopPlan(namespace, name, "", (f"JobSet {name}",), data_of((text,)), *held)
        removal = await self._launcher().removal(namespace, release)
        mine = tuple(f"{each} " for each in removal.stays)
        data = tuple(each for each in data_of(removal.manifests) if not each.startswith(mine))
        return StopPlan(namespace, name, release, removal.goes, (*removal.stays, *data), *held)

    async def stop(self, namespace: str, name: str, only: Collection[str] | None = None) -> StopReport:
        """Remove the release that made a job, or the JobSet alone if none of ours did; NotFound if there is neither.

        `only` is what was named when somebody was asked: Conflict if by now more would go.
        """
        from console.kube import actions

        connection = self._cluster.connection_for_change(f"stop {name}")
        jobset, release = await self._found(namespace, name)
        if release:
            gone = await self._launcher().stop(namespace, release, only)
            return StopReport(namespace, name, release, gone)
        assert jobset is not None  # _found
        await actions.delete_jobset(connection.client, connection.catalogue, namespace, name)
        return StopReport(namespace, name, deleted=(f"JobSet {name}",))

    async def _found(self, namespace: str, name: str) -> tuple[JobSet | None, str]:
        """The JobSet, and the release of ours to which it or its name belongs; a job may be gone before its release."""
        from console.kube import actions

        connection = self._cluster.current_connection
        jobset: JobSet | None = None
        missing: NotFound | None = None
        try:
            jobset = await actions.read_jobset(connection.client, connection.catalogue, namespace, name)
        except NotFound as error:
            missing = error
        wanted = jobset.release if jobset else name
        if wanted and any(each.name == wanted for each in await self._launcher().releases(namespace)):
            return jobset, wanted
        if missing is not None:
            raise missing
        return jobset, ""

    # what is left of others

    async def leftovers(self, namespace: str = "") -> tuple[tuple[Leftover, ...], tuple[str, ...]]:
        """What releases and people left behind (empty: in all namespaces), and the kinds that may not be listed."""
        from console.launch.chart_objects import list_chart_objects

        found, hidden = await list_chart_objects(self._cluster.current_connection.client, namespace)
        releases = {(each.namespace, each.name): each for each in await self._launcher().releases(namespace)}
        left = [
            Leftover(
                each.kind,
                each.namespace,
                each.name,
                each.release,
                f"Its release {each.release} is gone" + (", it was kept for its data." if each.kept else "."),
                each.kept,
            )
            for each in found
            if each.release and (each.release_namespace, each.release) not in releases
        ]
        running = {(each.release_namespace, each.release) for each in found if each.kind == "JobSet"}
        if "JobSet" not in hidden:
            for key, release in releases.items():
                if key not in running:
                    why, goes = await self._of_release(*key, release.status)
                    left.append(Leftover("Release", *key, key[1], why, goes=goes))
        made, unseen = await hand_made(self._cluster.current_connection.client, namespace)
        return (*left, *made), tuple(dict.fromkeys((*hidden, *unseen)))

    async def _of_release(self, namespace: str, name: str, status: str) -> tuple[str, tuple[str, ...] | None]:
        """What is left of a release whose job is gone, object by object: in words, and as a list where it is known."""
        try:
            removal = await self._launcher().removal(namespace, name)
        except ConsoleError as error:
            return f"Its job is gone. {error.message}", None
        goes = ", ".join(removal.goes) or "nothing else"
        return f"Its job is gone; Helm calls it {status}. With it goes: {goes}.", removal.goes

    async def remove(self, leftover: Leftover) -> None:
        from console.launch import chart_objects

        client = self._cluster.connection_for_change(f"remove {leftover.kind} {leftover.name}").client
        if leftover.kind == "Release":
            with suppress(NotFound):  # somebody else was faster
                await self._launcher().stop(leftover.namespace, leftover.name, leftover.goes)
            return
        await chart_objects.remove(client, leftover.kind, leftover.namespace, leftover.name)


_ROLES = re.compile(r"training-(?:master|worker)(?:-\d+)?")
_STATEFUL = "megatron"
_ENDED = frozenset({"Succeeded", "Failed"})
_GPU = "nvidia.com/gpu"


class _Resources(Wire):
    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class _Container(Wire):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(Wire, rename={"cluster_ip": "clusterIP"}):
    cluster_ip: str | None = None
    selector: dict[str, str] | None = None
    containers: list[_Container] | None = None


class _Status(Wire):
    phase: str | None = None


class _Item(ObjectWire):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


async def hand_made(client: Client, namespace: str) -> tuple[tuple[Leftover, ...], tuple[str, ...]]:
    """These Pods and Services in a namespace (empty: in all), and the kinds that may not be listed."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    lists: dict[str, list[_Item]] = {}
    hidden = []
    for kind in ("Pod", "Service"):
        try:
            listed = list_objects(client, f"/api/v1{place}/{kind.lower()}s", _Item, f"{kind}s")
            lists[kind] = [each async for each in listed]
        except NotAllowed:
            hidden.append(kind)
    pods = lists.get("Pod", [])
    found = [_pod(each) for each in pods if _is_pod(each)]
    found += [_service(each, pods, seen="Pod" not in hidden) for each in lists.get("Service", ()) if _is_service(each)]
    return tuple(found), tuple(hidden)


def _is_pod(item: _Item) -> bool:
    meta = item.metadata
    role = labels_of(meta).get("role", "")
    return bool(
        not meta.owner_references
        and role in {"master", "worker"}
        and _ROLES.fullmatch(meta.name or "")
        and (meta.name or "").startswith(f"training-{role}")
    )


def _is_service(item: _Item) -> bool:
    meta, selector = item.metadata, item.spec.selector or {}
    if meta.owner_references or item.spec.cluster_ip != "None":
        return False
    role = f"training-{selector.get('role', '')}"
    return (bool(_ROLES.fullmatch(role)) and meta.name == role) or (
        meta.name == _STATEFUL and selector == {"app": _STATEFUL}
    )


def _pod(item: _Item) -> Leftover:
    phase = item.status.phase or "Pending"
    runs = phase not in _ENDED
    gpus = sum(_gpus(each) for each in item.spec.containers or ()) if runs else 0
    held = f" and holds {gpus} GPUs" if gpus else ""
    why = f"Made by hand: it is {phase}{held}." if runs else f"Made by hand: it has ended ({phase})."
    return _leftover("Pod", item, why, runs=runs)


def _service(item: _Item, pods: list[_Item], *, seen: bool) -> Leftover:
    """`seen` says whether Pods may be listed: without that nobody knows whether one still answers."""
    selector = (item.spec.selector or {}).items()
    behind = sorted(
        pod.metadata.name or ""
        for pod in pods
        if pod.metadata.namespace == item.metadata.namespace
        and selector <= labels_of(pod.metadata).items()
        and pod.status.phase not in _ENDED
    )
    if not seen:
        return _leftover("Service", item, "Made by hand; no permission to list its Pods.", runs=True)
    if behind:
        return _leftover("Service", item, f"Made by hand for {', '.join(behind)}, which has not ended.", runs=True)
    return _leftover("Service", item, "Made by hand: no Pod of it is left that has not ended.", runs=False)


def _leftover(kind: str, item: _Item, why: str, *, runs: bool) -> Leftover:
    return Leftover(kind, item.metadata.namespace or "", item.metadata.name or "", "", why, runs=runs)


def _gpus(container: _Container) -> int:
    wanted = {**(container.resources.limits or {}), **(container.resources.requests or {})}.get(_GPU, 0)
    return int(wanted) if str(wanted).isdecimal() else 0
