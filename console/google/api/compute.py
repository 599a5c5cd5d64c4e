"""Client of Compute Engine's REST API: Cloud NAT, firewall rules, reservations, managed instance groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from console.errors import TRY_AGAIN, ApiDisabled, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.google.api.calls import LOGIN_COMMAND, GoogleSession, quota_project_error, translate_errors
from console.google.clusters import CloudNat, FirewallRule, Reservation
from console.google.node_pools import InstanceGroup

GCE_TIMEOUT = 15.0
_COMPUTE_URL = "https://compute.googleapis.com"
_ERROR_CLASSES: dict[int, type[Refused]] = {401: NotLoggedIn, 403: NotAllowed, 404: NotFound}
_MAX_PAGES = 20  # pages of one list, 500 each; nobody has more routers or rules


async def list_nats(session: GoogleSession, project: str, region: str) -> tuple[CloudNat, ...]:
    path = f"/compute/v1/projects/{project}/regions/{region}/routers"
    with translate_errors(doing := f"list the Cloud NATs in {region}"):
        found = await asyncio.to_thread(_list_items, session, path, doing)
        return tuple(
            CloudNat(
                name=str(nat.get("name", "")),
                network=_last_segment(router.get("network")),
                subnets=tuple(_last_segment(each.get("name")) for each in nat.get("subnetworks", ())),
            )
            for router in found
            for nat in router.get("nats", ())
        )


async def list_firewalls(session: GoogleSession, project: str, network: str) -> tuple[FirewallRule, ...]:
    """Enabled ingress firewall rules of a network."""
    path = f"/compute/v1/projects/{project}/global/firewalls"
    with translate_errors(doing := f"list the firewall rules of {project}"):
        rules = (
            _parse_firewall(each)
            for each in await asyncio.to_thread(_list_items, session, path, doing)
            if _last_segment(each.get("network")) == network
            and each.get("direction") == "INGRESS"
            and not each.get("disabled")
        )
        return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.name)))


def _parse_firewall(response: dict[str, Any]) -> FirewallRule:
    rules = response.get("allowed") or response.get("denied") or ()
    return FirewallRule(
        name=str(response.get("name", "")),
        allows=bool(response.get("allowed")),
        priority=int(response.get("priority", 1000)),
        sources=tuple(response.get("sourceRanges", ())) + tuple(response.get("sourceTags", ())),
        ports=tuple(
            port
            for each in rules
            if each.get("IPProtocol") in {"tcp", "all"}
            for port in each.get("ports") or ("0-65535",)
        ),
    )


def _last_segment(link: Any) -> str:
    return str(link or "").rpartition("/")[2]


def _list_items(google: GoogleSession, path: str, action: str) -> list[dict[str, Any]]:
    """All items of a paged list; blocking."""
    items: list[dict[str, Any]] = []
    token = ""
    with authorized_session(google) as session:
        for _ in range(_MAX_PAGES):
            params = {"maxResults": "500", **({"pageToken": token} if token else {})}
            page = get_json(session, google, path, action, params)
            items += page.get("items", ())
            token = str(page.get("nextPageToken", ""))
            if not token:
                break
    return items


def authorized_session(session: GoogleSession) -> Any:
    """A blocking HTTP session for Compute Engine with the login's credentials; the caller closes it."""
    return AuthorizedSession(session.login())  # type: ignore[no-untyped-call]  # google-auth is untyped


def get_json(
    session: Any,
    google: GoogleSession,
    path: str,
    action: str,
    params: Mapping[str, str] | None = None,
    *,
    role: str = "Compute Network Viewer",
) -> dict[str, Any]:
    """GET a URL as JSON. Raises Refused and its subclasses (NotAllowed names `role`) and Unreachable. Blocking."""
    try:
        answer = session.get(urljoin(google.practice_http or _COMPUTE_URL, path), params=params, timeout=GCE_TIMEOUT)
    except (RequestException, TransportError) as error:
        raise Unreachable(f"Could not {action}: Google did not answer.", TRY_AGAIN) from error
    except GoogleAuthError as error:
        raise NotLoggedIn(f"Could not {action}: the Google login is not accepted.", LOGIN_COMMAND) from error
    if answer.ok:
        body: dict[str, Any] = answer.json()
        return body
    if answer.status_code == 403 and (refused := quota_project_error(answer.text, action)):
        raise refused
    if "SERVICE_DISABLED" in answer.text:
        service = "compute.googleapis.com"
        raise ApiDisabled(f"Could not {action}: {service} is not enabled in the project.", service=service)
    kind = _ERROR_CLASSES.get(answer.status_code, Refused)
    words = f"Could not {action}: Google answered {answer.status_code}."
    raise kind(words, f"Ask for the role {role}.", status=answer.status_code)


async def read_reservation(session: GoogleSession, project: str, zone: str, name: str) -> Reservation:
    """The reservation NAME or projects/P/reservations/NAME, maybe with a block after it. Raises NotFound."""
    owner, name = split_reservation(name)
    with translate_errors(doing := f"read reservation {name} in {zone}"):
        return await asyncio.to_thread(_read_reservation, session, owner or project, zone, name, doing)


def split_reservation(text: str) -> tuple[str, str]:
    """(project, name) of a reservation; the project is empty if not given."""
    parts = text.split("/")
    if parts[0] == "projects" and len(parts) > 3:
        return parts[1], parts[3]
    return "", parts[0]


def _read_reservation(google: GoogleSession, project: str, zone: str, name: str, action: str) -> Reservation:
    path = f"/compute/v1/projects/{project}/zones/{zone}/reservations/{name}"
    with authorized_session(google) as session:
        found: dict[str, Any] = get_json(session, google, path, action, role="Compute Viewer")
    specific = found.get("specificReservation", {})
    return Reservation(
        name=name,
        is_dense=found.get("deploymentType") == "DENSE",
        count=int(specific.get("count", 0)),
        used=int(specific.get("inUseCount", 0)),
        status=str(found.get("status", "")),
    )


_INSTANCE_GROUPS_URL = "https://www.googleapis.com"


async def read_instance_groups(session: GoogleSession, urls: Iterable[str]) -> InstanceGroup:
    """The sum of the managed instance groups of one node pool, as one group."""
    with translate_errors("count the instances of the node pool"):
        migs = await asyncio.gather(*(asyncio.to_thread(_read_group, session, url) for url in urls))
    return InstanceGroup(
        sum(mig.target_size for mig in migs), sum(mig.creating for mig in migs), sum(mig.repairing for mig in migs)
    )


def _read_group(google: GoogleSession, url: str) -> InstanceGroup:
    if not url.startswith(f"{_INSTANCE_GROUPS_URL}/"):  # the login goes where the address leads
        raise ValueError("an instance group of a host that is not Google's")
    address = url.removeprefix(_INSTANCE_GROUPS_URL) if google.practice_http else url
    with authorized_session(google) as session:
        answer = get_json(
            session, google, address, f"count the instances of {_last_segment(url)}", role="Compute Viewer"
        )
    doing = answer.get("currentActions", {})
    mended = ("recreating", "restarting", "refreshing", "verifying")
    return InstanceGroup(
        int(answer.get("targetSize", 0)),
        int(doing.get("creating", 0)) + int(doing.get("creatingWithoutRetries", 0)),
        sum(int(doing.get(each, 0)) for each in mended),
    )
