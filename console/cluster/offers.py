"""Choices for the fields of a launch: listed when a form is open, never watched.

Of Secrets and ServiceAccounts only the metadata is asked for, so no secret ever reaches this machine.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import ConsoleError, NotAllowed, NotFound
from console.models.offer import Offer, OfferState
from console.parsers import offers as reading
from console.parsers.kinds import JOBSET, KINDS, KUEUE, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.cluster.client import Client
    from console.cluster.discovery import Catalogue

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "500"
_MOST = 4
"""Pages of one list; nobody chooses from more."""
_OWN_SECRETS = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the choices for one kind of field come from."""

    noun: str
    kind: Kind
    read: Callable[[bytes], reading.Named]
    metadata_only: bool = False
    selector: str = ""


def _core(plural: str) -> Kind:
    return Kind(plural, "", ("v1",), True, KINDS[0].reader)


_SOURCES: Mapping[str, _Source] = {
    "pvcs": _Source("PersistentVolumeClaims", _core("persistentvolumeclaims"), reading.claims),
    "secrets": _Source("Secrets", _core("secrets"), reading.names, True, _OWN_SECRETS),
    "serviceaccounts": _Source("ServiceAccounts", _core("serviceaccounts"), reading.names, True),
    "priorityclasses": _Source(
        "WorkloadPriorityClasses",
        Kind("workloadpriorityclasses", KUEUE, ("v1beta2", "v1beta1"), False, KINDS[0].reader),
        reading.priorities,
    ),
    "images": _Source("JobSets", Kind("jobsets", JOBSET, ("v1alpha2",), True, KINDS[0].reader), reading.images),
}


async def offers(client: Client, catalogue: Catalogue, namespace: str) -> dict[str, Offer]:
    """What there is to choose from, by the name in `Field.choices_from`; what may not be seen says so."""
    found = await asyncio.gather(*(_offer(client, catalogue, namespace, name) for name in _SOURCES))
    return {offer.kind: offer for offer in found}


async def _offer(client: Client, catalogue: Catalogue, namespace: str, name: str) -> Offer:
    source = _SOURCES[name]
    try:
        version = await catalogue.version(source.kind)
        if not version:
            return Offer(name, state=OfferState.ABSENT, why=f"This cluster has no {source.noun}.")
        found = await _listed(
            client, source, source.kind.path(version, quote(namespace, safe="") if source.kind.namespaced else "")
        )
    except NotAllowed:
        where = f" of {namespace}" if source.kind.namespaced else ""
        return Offer(name, state=OfferState.NOT_ALLOWED, why=f"This account may not list the {source.noun}{where}.")
    except NotFound:
        return Offer(name, state=OfferState.ABSENT, why=f"This cluster has no {source.noun}.")
    except ConsoleError as error:
        return Offer(name, state=OfferState.FAILED, why=error.message)
    why = "" if found else f"{namespace} has no {source.noun} to choose from."
    return Offer(name, tuple(each for each, _ in found), {each: words for each, words in found if words}, why=why)


async def _listed(client: Client, source: _Source, path: str) -> reading.Named:
    """All pages, as far as anybody would read."""
    found: reading.Named = []
    token = ""
    for _ in range(_MOST):
        params = {"limit": _PAGE, **({"continue": token} if token else {})}
        if source.selector:
            params["fieldSelector"] = source.selector
        body = await client.request(
            "GET",
            path,
            doing=f"list {source.noun}",
            params=params,
            accept=f"{_METADATA},application/json" if source.metadata_only else "application/json",
        )
        found += source.read(body)
        token = reading.next_page(body)
        if not token:
            break
    return found
