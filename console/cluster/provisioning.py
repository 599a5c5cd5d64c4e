"""ProvisioningRequests of DWS: what is asked for and how far it is; read when somebody looks, not watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from console.errors import NotFound, Unreadable
from console.models.node_pools import ProvisioningRequest
from console.parsers.meta import UNREADABLE
from console.parsers.timestamp import parse_time

if TYPE_CHECKING:
    from console.cluster.client import Client

_PATH = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_STATES = (
    ("Failed", "failed"),
    ("CapacityRevoked", "revoked"),
    ("BookingExpired", "expired"),
    ("Provisioned", "provisioned"),
    ("Accepted", "accepted"),
)
"""Conditions, the one that tells most first."""
_MOST = "500"


async def requests(client: Client) -> tuple[ProvisioningRequest, ...]:
    """Those of all namespaces, latest first; none where the cluster does not have DWS."""
    try:
        body = await client.request("GET", _PATH, params={"limit": _MOST}, doing="list ProvisioningRequests")
    except NotFound:
        return ()
    try:
        items = msgspec.json.decode(body).get("items") or []
        found = [_read(each) for each in items]
    except (*UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise Unreadable(f"The ProvisioningRequests cannot be read: {error}.") from error
    return tuple(sorted(found, key=lambda each: -each.created))


def _read(item: dict[str, Any]) -> ProvisioningRequest:
    meta, spec = item["metadata"], item.get("spec") or {}
    conditions = {each["type"]: each for each in (item.get("status") or {}).get("conditions") or ()}
    state, about = next(
        ((word, conditions[kind]) for kind, word in _STATES if conditions.get(kind, {}).get("status") == "True"),
        ("pending", conditions.get("Provisioned") or conditions.get("Accepted") or {}),
    )
    waiting = conditions.get("Provisioned") or {}
    told = waiting if state == "accepted" and waiting.get("message") else about
    owners = meta.get("ownerReferences") or ()
    parameters = spec.get("parameters") or {}
    seconds = str(parameters.get("maxRunDurationSeconds", ""))
    return ProvisioningRequest(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state=state,
        why=told.get("message", ""),
        pods=sum(int(each.get("count") or 0) for each in spec.get("podSets") or ()),
        kind=spec.get("provisioningClassName", ""),
        created=parse_time(meta.get("creationTimestamp", "")),
        seconds=float(seconds) if seconds.isdecimal() else None,
        owner=next((each["name"] for each in owners if each.get("kind") == "Workload"), ""),
    )
