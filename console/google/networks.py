"""Networks of a project: ways out by Cloud NAT, and firewall rules; asked of Compute Engine's REST API, in threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from console.errors import TRY_AGAIN, ApiDisabled, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.google.failures import quota_project
from console.google.reach import LOG_IN
from console.models.google_networks import Firewall, Nat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from console.google.reach import Reach

PATIENCE = 15.0
_REAL = "https://compute.googleapis.com"
_KINDS: dict[int, type[Refused]] = {401: NotLoggedIn, 403: NotAllowed, 404: NotFound}
_PAGES = 20
"""Pages of one list, 500 each; nobody has more routers or rules."""


async def nats(reach: Reach, project: str, region: str) -> tuple[Nat, ...]:
    """Cloud NAT gateways of a region."""
    path = f"/compute/v1/projects/{project}/regions/{region}/routers"
    found = await asyncio.to_thread(_listed, reach, path, f"list the Cloud NATs in {region}")
    return tuple(
        Nat(
            name=str(nat.get("name", "")),
            network=_last(router.get("network")),
            subnets=tuple(_last(each.get("name")) for each in nat.get("subnetworks", ())),
        )
        for router in found
        for nat in router.get("nats", ())
    )


async def firewalls(reach: Reach, project: str, network: str) -> tuple[Firewall, ...]:
    """Rules of a network for what comes in, those that are switched off left out."""
    path = f"/compute/v1/projects/{project}/global/firewalls"
    found = await asyncio.to_thread(_listed, reach, path, f"list the firewall rules of {project}")
    rules = (
        _firewall(each)
        for each in found
        if _last(each.get("network")) == network and each.get("direction") == "INGRESS" and not each.get("disabled")
    )
    return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.name)))


def _firewall(found: dict[str, Any]) -> Firewall:
    rules = found.get("allowed") or found.get("denied") or ()
    return Firewall(
        name=str(found.get("name", "")),
        allows=bool(found.get("allowed")),
        priority=int(found.get("priority", 1000)),
        sources=tuple(found.get("sourceRanges", ())) + tuple(found.get("sourceTags", ())),
        ports=tuple(port for each in rules if each.get("IPProtocol") in {"tcp", "all"} for port in _ports(each)),
    )


def _ports(rule: dict[str, Any]) -> Iterable[str]:
    return rule.get("ports") or ("0-65535",)


def _last(link: Any) -> str:
    return str(link or "").rpartition("/")[2]


def _listed(reach: Reach, path: str, doing: str) -> list[dict[str, Any]]:
    """All pages of a list; blocking."""
    items: list[dict[str, Any]] = []
    token = ""
    with authorized(reach) as session:
        for _ in range(_PAGES):
            params = {"maxResults": "500", **({"pageToken": token} if token else {})}
            told = answered(session, reach, path, doing, params)
            items += told.get("items", ())
            token = str(told.get("nextPageToken", ""))
            if not token:
                break
    return items


def authorized(reach: Reach) -> Any:
    """A session of Compute Engine's REST API, to be closed; blocking, as are all calls with it."""
    return AuthorizedSession(reach.login())  # type: ignore[no-untyped-call]  # google-auth is untyped


def answered(
    session: Any, reach: Reach, path: str, doing: str, params: Mapping[str, str] | None = None, *,
    role: str = "Compute Network Viewer",
) -> dict[str, Any]:  # fmt: skip
    """What a GET gives; ApiDisabled, NotAllowed (with the `role` that allows it), NotFound, Unreachable."""
    try:
        answer = session.get((reach.practice_http or _REAL) + path, params=params, timeout=PATIENCE)
    except (RequestException, TransportError) as error:
        raise Unreachable(f"Could not {doing}: Google did not answer.", TRY_AGAIN) from error
    except GoogleAuthError as error:
        raise NotLoggedIn(f"Could not {doing}: the Google login is not accepted.", LOG_IN) from error
    if answer.ok:
        told: dict[str, Any] = answer.json()
        return told
    if answer.status_code == 403 and (refused := quota_project(answer.text, doing)):
        raise refused
    if "SERVICE_DISABLED" in answer.text:
        service = "compute.googleapis.com"
        raise ApiDisabled(f"Could not {doing}: {service} is not enabled in the project.", service=service)
    kind = _KINDS.get(answer.status_code, Refused)
    words = f"Could not {doing}: Google answered {answer.status_code}."
    raise kind(words, f"Ask for the role {role}.", status=answer.status_code)
