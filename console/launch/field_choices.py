"""Names that the cluster offers for the fields of an open form; of Secrets only the metadata is requested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import ConsoleError, NotAllowed, NotFound
from console.kube.actions import list_objects
from console.kube.objects.meta import A4_PREFIX, ApiSchema, ObjectSchema, labels_of, parse_time
from console.kube.watched_kinds import JOBSET_GROUP, KUEUE_GROUP, Kind

if TYPE_CHECKING:
    from console.kube.client import ApiDiscovery, Client


class ChoicesState(StrEnum):
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
    details: Mapping[str, str] = field(default_factory=dict)  # name -> a few words, where there is something to say
    state: ChoicesState = ChoicesState.LISTED
    why: str = ""  # one sentence while nothing can be chosen
    fills: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # name -> texts of other fields, by path

    def merge(self, other_choices: FieldChoices) -> FieldChoices:
        """These choices and the names of `other_choices`; without any name, the state and reason of `other_choices`."""
        names = tuple(dict.fromkeys((*self.names, *other_choices.names)))
        return FieldChoices(
            self.kind,
            names,
            {**other_choices.details, **self.details},
            ChoicesState.LISTED if names else other_choices.state,
            "" if names else other_choices.why or self.why,
            {**other_choices.fills, **self.fills},
        )


NOT_ASKED_YET = "⏎ asks Google for a list."
GOOGLE_KINDS = {  # what Google has more of than the cluster shows, in words that continue "Asking Google for"
    "buckets": "its buckets",
    "lustre": "its Lustre instances",
    "filestore": "its Filestore instances",
    "images": "the images of its registries",
    "nodelabels": "its node pools",
}


def unasked_choices() -> dict[str, FieldChoices]:
    """Placeholders for the choices that only Google can list, until they are requested."""
    kinds = ("buckets", "lustre", "filestore")
    return {kind: FieldChoices(kind, state=ChoicesState.UNASKED, why=NOT_ASKED_YET) for kind in kinds}


class _ListedFields(ApiSchema):
    """The fields read of any listed object, such as a claim's size or a JobSet's images."""

    access_modes: list[str] | None = None
    phase: str | None = None
    capacity: dict[str, str] | None = None
    replicated_jobs: list[_ListedFields] | None = None
    template: _ListedFields | None = None
    spec: _ListedFields | None = None
    containers: list[_ListedFields] | None = None
    image: str | None = None


class _ListedObject(ObjectSchema):
    spec: _ListedFields = msgspec.field(default_factory=_ListedFields)
    status: _ListedFields = msgspec.field(default_factory=_ListedFields)
    value: int | None = None  # of a WorkloadPriorityClass

    @property
    def name(self) -> str:
        return self.metadata.name or ""


NamedItems = list[tuple[str, str]]  # name and a few words about it


def _describe_claims(items: Sequence[_ListedObject]) -> NamedItems:
    """Names of PersistentVolumeClaims with their size; those that are being deleted are left out."""
    found = []
    for each in items:
        size = (each.status.capacity or {}).get("storage", "")
        words = [each.status.phase or "Pending", size, *(each.spec.access_modes or ())]
        if not each.metadata.deletion_timestamp:
            found.append((each.name, ", ".join(filter(None, words))))
    return sorted(found)


def _describe_names(items: Sequence[_ListedObject]) -> NamedItems:
    """Names of the objects; those that launches of this program created are left out."""
    others = (each for each in items if not any(key.startswith(A4_PREFIX) for key in labels_of(each.metadata)))
    return sorted((each.name, "") for each in others)


def _describe_images(items: Sequence[_ListedObject]) -> NamedItems:
    """Container images of JobSets, the most recently used first."""
    used: dict[str, str] = {}
    for each in sorted(items, key=lambda each: -parse_time(each.metadata.creation_timestamp)):
        for part in each.spec.replicated_jobs or ():
            for level in ("template", "spec", "template", "spec"):
                part = getattr(part, level) or _ListedFields()
            for container in part.containers or ():
                used.setdefault(container.image or "", f"last used by {each.name}")
    used.pop("", None)
    return list(used.items())


def _describe_priorities(items: Sequence[_ListedObject]) -> NamedItems:
    found = sorted(items, key=lambda each: (-(each.value or 0), each.name))
    return [(each.name, f"priority {each.value or 0}") for each in found]


_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MAX_ITEMS = 2000  # objects of one list; nobody chooses from more
_OWN_SECRETS = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"


@dataclass(frozen=True, slots=True)
class _ChoiceSource:
    noun: str
    kind: Kind
    describe: Callable[[Sequence[_ListedObject]], NamedItems]
    accept: str = "application/json"
    selector: str = ""


_CHOICE_SOURCES: Mapping[str, _ChoiceSource] = {
    "pvcs": _ChoiceSource(
        "PersistentVolumeClaims", Kind("persistentvolumeclaims", "", ("v1",), True), _describe_claims
    ),
    "secrets": _ChoiceSource(
        "Secrets", Kind("secrets", "", ("v1",), True), _describe_names, _METADATA_ONLY, _OWN_SECRETS
    ),
    "serviceaccounts": _ChoiceSource(
        "ServiceAccounts", Kind("serviceaccounts", "", ("v1",), True), _describe_names, _METADATA_ONLY
    ),
    "priorityclasses": _ChoiceSource(
        "WorkloadPriorityClasses",
        Kind("workloadpriorityclasses", KUEUE_GROUP, ("v1beta2", "v1beta1"), False),
        _describe_priorities,
    ),
    "images": _ChoiceSource("JobSets", Kind("jobsets", JOBSET_GROUP, ("v1alpha2",), True), _describe_images),
}


async def list_choices(client: Client, discovery: ApiDiscovery, namespace: str) -> dict[str, FieldChoices]:
    """The choices by the names in `Field.choices_from`; for a list that may not be read the reason."""
    found = await asyncio.gather(*(_read_choices(client, discovery, namespace, name) for name in _CHOICE_SOURCES))
    return {offer.kind: offer for offer in found}


async def list_priority_classes(client: Client, discovery: ApiDiscovery) -> dict[str, int]:
    """The values of the cluster's WorkloadPriorityClasses, the highest first."""
    source = _CHOICE_SOURCES["priorityclasses"]
    if not (version := await discovery.version(source.kind)):
        return {}
    found = [each async for each in list_objects(client, source.kind.path(version, ""), _ListedObject, source.noun)]
    return {each.name: each.value or 0 for each in sorted(found, key=lambda each: (-(each.value or 0), each.name))}


async def _read_choices(client: Client, discovery: ApiDiscovery, namespace: str, name: str) -> FieldChoices:
    source = _CHOICE_SOURCES[name]
    absent = FieldChoices(name, state=ChoicesState.ABSENT, why=f"This cluster has no {source.noun}.")
    try:
        version = await discovery.version(source.kind)
        if not version:
            return absent
        path = source.kind.path(version, quote(namespace, safe="") if source.kind.namespaced else "")
        params = {"limit": "500"} | ({"fieldSelector": source.selector} if source.selector else {})
        items: list[_ListedObject] = []
        async for each in list_objects(client, path, _ListedObject, source.noun, params=params, accept=source.accept):
            items.append(each)
            if len(items) == _MAX_ITEMS:
                break
    except NotAllowed:
        where = f" of {namespace}" if source.kind.namespaced else ""
        why = f"No permission to list the {source.noun}{where}."
        return FieldChoices(name, state=ChoicesState.NOT_ALLOWED, why=why)
    except NotFound:
        return absent
    except ConsoleError as error:
        return FieldChoices(name, state=ChoicesState.FAILED, why=error.message)
    found = source.describe(items)
    why = "" if found else f"{namespace} has no {source.noun} to choose from."
    about = {each: words for each, words in found if words}
    return FieldChoices(name, tuple(each for each, _ in found), about, why=why)
