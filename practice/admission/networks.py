"""Converts a pod's network annotation to node resources, as GKE's webhook does.

A node has one card for each Network of type Device, so that one pod at a time uses the card and a second one waits.
"""

from __future__ import annotations

import msgspec

from practice.controllers.objects import annotations_of
from practice.objects.api_error import ApiError, Object
from practice.objects.resources import NETWORKS
from practice.objects.storage import Storage

INTERFACES, DEFAULT = "networking.gke.io/interfaces", "networking.gke.io/default-interface"
PREFIX = "networking.gke.io.networks/"
POD_NETWORK = "default"  # the Network of every pod's own first interface, of which there is no lack
_HOOK = "mutating-webhook.multi-network.gke.io"


class _NetworkInterface(msgspec.Struct, rename="camel"):
    interface_name: str
    network: str


def resources_of(network: str) -> tuple[str, str]:
    """Return a network's two resources on a node: (card, address)."""
    return f"{PREFIX}{network}", f"{PREFIX}{network}.IP"


def add_network_resources(pod: Object, storage: Storage) -> None:
    """Add the networks' resources to the first container. Raises ApiError 403 for an unknown Network."""
    notes, spec = annotations_of(pod), pod["spec"]
    text = notes.get(INTERFACES)
    if text is None or spec.get("hostNetwork"):
        return
    try:
        asked = msgspec.json.decode(text, type=list[_NetworkInterface])
    except msgspec.MsgspecError as error:
        raise _denial_error(f"annotation {INTERFACES} cannot be read: {error}") from error
    names = [each.interface_name for each in asked]
    first = notes.get(DEFAULT)
    if first is not None and first not in names:
        raise _denial_error(f'default interface "{first}" is none of the interfaces of the pod')
    if len(set(names)) < len(names):
        raise _denial_error(f"annotation {INTERFACES} names an interface twice")
    for each in asked:
        if storage.find(NETWORKS, "", each.network) is None:
            raise _denial_error(f'networks.networking.gke.io "{each.network}" not found')
    wanted = [name for each in asked if each.network != POD_NETWORK for name in resources_of(each.network)]
    resources = spec["containers"][0].setdefault("resources", {})
    for side in ("limits", "requests") if wanted else ():
        resources[side] = {**(resources.get(side) or {}), **dict.fromkeys(wanted, "1")}


def _denial_error(why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'admission webhook "{_HOOK}" denied the request: {why}')
