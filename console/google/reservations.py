"""Reservations of machines, asked of Compute Engine's REST API, in threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from console.google.networks import answered, authorized
from console.models.google_networks import Reservation

if TYPE_CHECKING:
    from console.google.reach import Reach


async def reservation(reach: Reach, project: str, zone: str, name: str) -> Reservation:
    """One of them; NotFound.

    `name` is what a node pool calls it: NAME or projects/P/reservations/NAME, with or without a block of it behind.
    """
    owner, name = named(name)
    return await asyncio.to_thread(_one, reach, owner or project, zone, name)


def named(text: str) -> tuple[str, str]:
    """Project ("" if it is not told) and name of a reservation."""
    parts = text.split("/")
    if parts[0] == "projects" and len(parts) > 3:
        return parts[1], parts[3]
    return "", parts[0]


def _one(reach: Reach, project: str, zone: str, name: str) -> Reservation:
    path = f"/compute/v1/projects/{project}/zones/{zone}/reservations/{name}"
    with authorized(reach) as session:
        doing = f"look at reservation {name} in {zone}"
        found: dict[str, Any] = answered(session, reach, path, doing, role="Compute Viewer")
    specific = found.get("specificReservation", {})
    return Reservation(
        name=name,
        dense=found.get("deploymentType") == "DENSE",
        count=int(specific.get("count", 0)),
        used=int(specific.get("inUseCount", 0)),
        status=str(found.get("status", "")),
    )
