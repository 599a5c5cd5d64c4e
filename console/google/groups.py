"""Managed instance groups: how many machines a pool should have, and what is done to them.

GKE's own API does not say. Asked of Compute Engine's REST API with Google's authorized HTTP session, in threads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from google.auth.exceptions import GoogleAuthError, TransportError
from requests import RequestException

from console.errors import TRY_AGAIN, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.google.failures import quota_project
from console.google.networks import authorized
from console.google.reach import LOG_IN
from console.models.node_pools import Group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.google.reach import Reach

PATIENCE = 15.0
_REAL = "https://www.googleapis.com"
_KINDS: dict[int, type[Refused]] = {401: NotLoggedIn, 403: NotAllowed, 404: NotFound}


async def group(reach: Reach, urls: Iterable[str]) -> Group:
    """The groups of one pool, added up."""
    found = await asyncio.gather(*(asyncio.to_thread(_read, reach, url) for url in urls))
    return Group(
        sum(each.target for each in found),
        sum(each.creating for each in found),
        sum(each.repairing for each in found),
        sum(each.deleting for each in found),
    )


def _read(reach: Reach, url: str) -> Group:
    """One group; blocking."""
    address = url.replace(_REAL, reach.practice_http, 1) if reach.practice_http else url
    name = url.rpartition("/")[2]
    try:
        with authorized(reach) as session:
            answer = session.get(address, timeout=PATIENCE)
    except (RequestException, TransportError) as error:
        raise Unreachable(f"Could not count the machines of {name}: Google did not answer.", TRY_AGAIN) from error
    except GoogleAuthError as error:
        raise NotLoggedIn(f"Could not count the machines of {name}: the login is not accepted.", LOG_IN) from error
    if not answer.ok:
        doing = f"count the machines of {name}"
        if answer.status_code == 403 and (refused := quota_project(answer.text, doing)):
            raise refused
        kind = _KINDS.get(answer.status_code, Refused)
        hint = "Ask for compute.instanceGroupManagers.get."
        words = f"Could not count the machines of {name}: Google answered {answer.status_code}."
        raise kind(words, hint, status=answer.status_code)
    told = answer.json()
    doing = told.get("currentActions", {})
    mended = ("recreating", "restarting", "refreshing", "verifying")
    return Group(
        int(told.get("targetSize", 0)),
        int(doing.get("creating", 0)) + int(doing.get("creatingWithoutRetries", 0)),
        sum(int(doing.get(each, 0)) for each in mended),
        int(doing.get("deleting", 0)),
    )
