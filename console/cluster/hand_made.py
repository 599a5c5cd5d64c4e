"""Trainings that were made by hand, of Pods and headless Services without a controller: what of them is in the cluster.

The guide for SWIFT makes a Pod training-master, Pods training-worker-N and a headless Service for each of these two, or
a StatefulSet and a Service called megatron. None of them has an owner that would take it away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import NotAllowed, Unreadable
from console.models.release import Leftover
from console.parsers.meta import UNREADABLE, ObjectWire, Wire, labels_of

if TYPE_CHECKING:
    from console.cluster.client import Client

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


class _List(Wire):
    items: list[_Item] | None = None


async def hand_made(client: Client, namespace: str) -> tuple[tuple[Leftover, ...], tuple[str, ...]]:
    """These Pods and Services in a namespace (empty: in all), and the kinds that may not be listed."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    lists: dict[str, list[_Item]] = {}
    hidden = []
    for kind in ("Pod", "Service"):
        try:
            body = await client.request("GET", f"/api/v1{place}/{kind.lower()}s", doing=f"list {kind}s")
            lists[kind] = msgspec.json.decode(body, type=_List).items or []
        except NotAllowed:
            hidden.append(kind)
        except UNREADABLE as error:
            raise Unreadable(f"The list of {kind}s cannot be read: {error}.") from error
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
        return _leftover("Service", item, "Made by hand; its Pods may not be listed.", runs=True)
    if behind:
        return _leftover("Service", item, f"Made by hand for {', '.join(behind)}, which has not ended.", runs=True)
    return _leftover("Service", item, "Made by hand: no Pod of it is left that has not ended.", runs=False)


def _leftover(kind: str, item: _Item, why: str, *, runs: bool) -> Leftover:
    return Leftover(kind, item.metadata.namespace or "", item.metadata.name or "", "", why, runs=runs)


def _gpus(container: _Container) -> int:
    wanted = {**(container.resources.limits or {}), **(container.resources.requests or {})}.get(_GPU, 0)
    return int(wanted) if str(wanted).isdecimal() else 0
