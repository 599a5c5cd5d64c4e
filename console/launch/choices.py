"""What the cluster offers for fields of a launch: lists of names, read when a form is open, never watched.

Of Secrets and ServiceAccounts only the metadata is asked for, so no secret ever reaches this machine.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from console.errors import ConsoleError, NotAllowed, NotFound, Unreadable
from console.kube.kinds import JOBSET, KUEUE, Kind
from console.kube.objects.meta import OURS, UNREADABLE, Meta, ObjectWire, Wire, labels_of, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.kube.client import Client
    from console.kube.discovery import ApiDiscovery


class ChoicesState(StrEnum):
    """Whether the list of choices is complete."""

    LISTED = "listed"
    NOT_ALLOWED = "not allowed"  # there may be some, and this account may not see them
    ABSENT = "absent"  # the cluster does not serve the kind
    UNASKED = "not asked"  # Google has the list, and is asked when somebody wants to choose
    FAILED = "failed"  # the list could not be had just now


@dataclass(frozen=True, slots=True)
class FieldChoices:
    """Values offered for a field; other text is allowed too."""

    kind: str  # as in `Field.choices_from`
    names: tuple[str, ...] = ()  # what is most likely wanted first
    about: Mapping[str, str] = field(default_factory=dict)
    """Name -> a few words, where there is something to say."""
    state: ChoicesState = ChoicesState.LISTED
    why: str = ""  # one sentence while nothing can be chosen
    fills: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Name -> texts of fields, by path, that belong together and are all filled by choosing it."""

    def joined(self, more: FieldChoices) -> FieldChoices:
        """This one, with the names that another has beyond it; its reason where there is still nothing."""
        names = tuple(dict.fromkeys((*self.names, *more.names)))
        return FieldChoices(
            self.kind,
            names,
            {**more.about, **self.about},
            ChoicesState.LISTED if names else more.state,
            "" if names else more.why or self.why,
            {**more.fills, **self.fills},
        )


ASKS = "⏎ asks Google for a list."
GOOGLE_KINDS = {
    "buckets": "its buckets",
    "lustre": "its Lustre instances",
    "filestore": "its Filestore instances",
    "images": "the images of its registries",
    "nodelabels": "its node pools",
}
"""What Google has more of than the cluster shows, in words that continue "Asking Google for"."""


def unasked() -> dict[str, FieldChoices]:
    """What stands for the lists that only Google has, until it is asked."""
    return {
        kind: FieldChoices(kind, state=ChoicesState.UNASKED, why=ASKS) for kind in ("buckets", "lustre", "filestore")
    }


_T = TypeVar("_T")
Named = list[tuple[str, str]]  # name and a few words about it


class ListMetaWire(Wire):
    continue_: str | None = msgspec.field(default=None, name="continue")


class ClaimSpecWire(Wire):
    """spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None


class ClaimStatusWire(Wire):
    """status of a PersistentVolumeClaim."""

    phase: str | None = None
    capacity: dict[str, str] | None = None


class ClaimWire(ObjectWire):
    """A PersistentVolumeClaim."""

    spec: ClaimSpecWire | None = None
    status: ClaimStatusWire | None = None


class ImageWire(Wire):
    image: str | None = None


class ImagesWire(Wire):
    containers: list[ImageWire] | None = None


class PodImagesWire(Wire):
    spec: ImagesWire | None = None


class JobImagesWire(Wire):
    template: PodImagesWire | None = None


class JobTemplateImagesWire(Wire):
    spec: JobImagesWire | None = None


class GroupImagesWire(Wire):
    template: JobTemplateImagesWire | None = None


class JobSetImagesSpecWire(Wire):
    """spec of a JobSet."""

    replicated_jobs: list[GroupImagesWire] | None = None


class JobSetImagesWire(ObjectWire):
    """A JobSet, for its images."""

    spec: JobSetImagesSpecWire | None = None


class PriorityWire(ObjectWire):
    """A WorkloadPriorityClass."""

    value: int | None = None


class _Claims(Wire):
    items: list[ClaimWire] | None = None
    metadata: ListMetaWire | None = None


class _Names(Wire):
    items: list[ObjectWire] | None = None
    metadata: ListMetaWire | None = None


class _JobSets(Wire):
    items: list[JobSetImagesWire] | None = None
    metadata: ListMetaWire | None = None


class _Priorities(Wire):
    items: list[PriorityWire] | None = None
    metadata: ListMetaWire | None = None


def claims(body: bytes) -> Named:
    """Claims by name; those that are going are left out."""
    found = _read(body, _Claims).items or []
    return sorted((_name(each.metadata), _about_claim(each)) for each in found if not each.metadata.deletion_timestamp)


def _about_claim(wire: ClaimWire) -> str:
    spec, status = wire.spec or ClaimSpecWire(), wire.status or ClaimStatusWire()
    words = [status.phase or "Pending", (status.capacity or {}).get("storage", ""), *(spec.access_modes or ())]
    return ", ".join(each for each in words if each)


def names(body: bytes) -> Named:
    """Names of any kind, what our own launches made left out."""
    found = _read(body, _Names).items or []
    kept = (each.metadata for each in found if not any(key.startswith(OURS) for key in labels_of(each.metadata)))
    return sorted((_name(each), "") for each in kept)


def images(body: bytes) -> Named:
    """Images of JobSets, the one that was used last first."""
    found = sorted(_read(body, _JobSets).items or [], key=lambda each: -parse_time(each.metadata.creation_timestamp))
    used: dict[str, str] = {}
    for each in found:
        for group in (each.spec.replicated_jobs if each.spec else None) or ():
            for image in _images_of(group):
                used.setdefault(image, f"last used by {_name(each.metadata)}")
    return list(used.items())


def _images_of(group: GroupImagesWire) -> list[str]:
    job = group.template.spec if group.template else None
    pod = job.template.spec if job and job.template else None
    return [each.image for each in (pod.containers if pod else None) or () if each.image]


def priorities(body: bytes) -> Named:
    """Priority classes, the highest first."""
    found = sorted(_read(body, _Priorities).items or [], key=lambda each: (-(each.value or 0), _name(each.metadata)))
    return [(_name(each.metadata), f"priority {each.value or 0}") for each in found]


def next_page(body: bytes) -> str:
    """The token of the next part of a list; empty if this was the last."""
    found = _read(body, _Names).metadata
    return (found.continue_ if found else None) or ""


def _read(body: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as error:
        raise Unreadable(f"The API server's list cannot be read: {error}.") from error


def _name(meta: Meta) -> str:
    return meta.name or ""


_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "500"
_MOST = 4  # pages of one list; nobody chooses from more
_OWN_SECRETS = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the choices for one kind of field come from."""

    noun: str
    kind: Kind
    read: Callable[[bytes], Named]
    metadata_only: bool = False
    selector: str = ""


def _core(plural: str) -> Kind:
    return Kind(plural, "", ("v1",), True)


_SOURCES: Mapping[str, _Source] = {
    "pvcs": _Source("PersistentVolumeClaims", _core("persistentvolumeclaims"), claims),
    "secrets": _Source("Secrets", _core("secrets"), names, True, _OWN_SECRETS),
    "serviceaccounts": _Source("ServiceAccounts", _core("serviceaccounts"), names, True),
    "priorityclasses": _Source(
        "WorkloadPriorityClasses",
        Kind("workloadpriorityclasses", KUEUE, ("v1beta2", "v1beta1"), False),
        priorities,
    ),
    "images": _Source("JobSets", Kind("jobsets", JOBSET, ("v1alpha2",), True), images),
}


async def list_choices(client: Client, catalogue: ApiDiscovery, namespace: str) -> dict[str, FieldChoices]:
    """What there is to choose from, by the name in `Field.choices_from`; what may not be seen says so."""
    found = await asyncio.gather(*(_offer(client, catalogue, namespace, name) for name in _SOURCES))
    return {offer.kind: offer for offer in found}


async def _offer(client: Client, catalogue: ApiDiscovery, namespace: str, name: str) -> FieldChoices:
    source = _SOURCES[name]
    try:
        version = await catalogue.version(source.kind)
        if not version:
            return FieldChoices(name, state=ChoicesState.ABSENT, why=f"This cluster has no {source.noun}.")
        found = await _listed(
            client, source, source.kind.path(version, quote(namespace, safe="") if source.kind.namespaced else "")
        )
    except NotAllowed:
        where = f" of {namespace}" if source.kind.namespaced else ""
        return FieldChoices(
            name, state=ChoicesState.NOT_ALLOWED, why=f"No permission to list the {source.noun}{where}."
        )
    except NotFound:
        return FieldChoices(name, state=ChoicesState.ABSENT, why=f"This cluster has no {source.noun}.")
    except ConsoleError as error:
        return FieldChoices(name, state=ChoicesState.FAILED, why=error.message)
    why = "" if found else f"{namespace} has no {source.noun} to choose from."
    return FieldChoices(
        name, tuple(each for each, _ in found), {each: words for each, words in found if words}, why=why
    )


async def _listed(client: Client, source: _Source, path: str) -> Named:
    """All pages, as far as anybody would read."""
    found: Named = []
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
        token = next_page(body)
        if not token:
            break
    return found
