"""Parts that API objects share: metadata, owners, conditions, launcher, times, label selectors."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct

from console.errors import Unreadable
from kueue_rules import Requirement, Toleration


class ClusterObject(Struct, frozen=True):
    name: str
    uid: str = ""
    created: float = 0.0


class NamespacedObject(Struct, frozen=True):
    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class Condition(Struct, frozen=True):
    type: str
    status: str  # "True", "False" or "Unknown"
    reason: str = ""
    message: str = ""
    since: float = 0.0

    @property
    def is_true(self) -> bool:
        return self.status == "True"


def condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((each for each in conditions if each.type == type_), None)


def is_condition_true(conditions: Iterable[Condition], type_: str) -> bool:
    found = condition(conditions, type_)
    return found is not None and found.is_true


OWNER_LABEL = "a4.console/owner"  # label with the short name of who launched it, and annotation with the whole one
_OWNER_WORDS = ("owner", "user", "username", "creator", "created-by", "submitted-by", "launched-by")
"""Last part of the label and annotation keys in which other tools record the person who launched an object."""
_TOOL_LABELS = frozenset({"app.kubernetes.io/created-by"})  # a key of that kind that names programs, not people
_MAX_LABEL_LENGTH = 63
_NOT_IN_LABEL_VALUES = re.compile(r"[^A-Za-z0-9._-]+")


def short_name(name: str) -> str:
    """The name shortened to a valid label value; an e-mail address is reduced to the part before the @."""
    return _NOT_IN_LABEL_VALUES.sub("-", name.partition("@")[0])[:_MAX_LABEL_LENGTH].strip("-._")


def launched_by(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The person who launched an object, as a short name, by its labels and annotations; empty if unknown."""
    if named := labels.get(OWNER_LABEL) or annotations.get(OWNER_LABEL):
        return short_name(named)
    found = {
        key.rpartition("/")[2]: value
        for marks in (annotations, labels)
        for key, value in marks.items()
        if key not in _TOOL_LABELS
    }
    return next((short for key in _OWNER_WORDS if (short := short_name(found.get(key, "")))), "")


@lru_cache(maxsize=1024)
def parse_time(text: str | None) -> float:
    """Seconds since the epoch (UTC), to microseconds; 0.0 for none or an empty text. Unreadable for other texts."""
    if not text:
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(f"{text!r} is not a timestamp.") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_time(moment: float) -> str:
    """Epoch seconds in RFC 3339 with microseconds, as the API server takes them."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


GPU = "nvidia.com/gpu"


JOBSET_PREFIX = "jobset.sigs.k8s.io/"  # prefix of the labels that JobSet puts on Jobs and pods
KUEUE_PREFIX = "kueue.x-k8s.io/"
A4_PREFIX = "a4.console/"


class ApiSchema(msgspec.Struct, rename="camel", gc=False):
    """An API object, or a part of one, with the fields that are used; fields that are missing or null are None."""


class OwnerSchema(ApiSchema):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


_NO_OWNER = OwnerSchema()


class Meta(ApiSchema):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerSchema] | None = None


class ConditionSchema(ApiSchema):
    """An entry of status.conditions; core kinds and CRDs use the same fields."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ObjectSchema(ApiSchema):
    """The schema that those of all kinds extend."""

    metadata: Meta = msgspec.field(default_factory=Meta)


def intern_text(text: str | None) -> str:
    """One shared copy of a text that many objects carry, to save memory; empty for None."""
    return intern(text) if text else ""


def identity_of(meta: Meta) -> dict[str, Any]:
    """The constructor arguments name, uid and created of a ClusterObject, from its metadata."""
    return {"name": intern_text(meta.name), "uid": meta.uid or "", "created": parse_time(meta.creation_timestamp)}


def namespaced_identity_of(meta: Meta) -> dict[str, Any]:
    """The constructor arguments of a NamespacedObject, from its metadata."""
    return {"namespace": intern_text(meta.namespace), **identity_of(meta)}


def labels_of(meta: Meta) -> Mapping[str, str]:
    return meta.labels or {}


def annotations_of(meta: Meta) -> Mapping[str, str]:
    return meta.annotations or {}


def controller_of(meta: Meta) -> OwnerSchema:
    """The owner that controls the object, else its first owner, else an empty one."""
    owners = meta.owner_references
    if not owners:
        return _NO_OWNER
    return owners[0] if owners[0].controller else next((each for each in owners if each.controller), owners[0])


def conditions_of(conditions: list[ConditionSchema] | None) -> tuple[Condition, ...]:
    """Build the conditions; entries without a type are dropped."""
    return tuple(
        Condition(
            type=intern_text(each.type),
            status=intern_text(each.status) or "Unknown",
            reason=intern_text(each.reason),
            message=each.message or "",
            since=parse_time(each.last_transition_time),
        )
        for each in conditions or ()
        if each.type
    )


def label_int(text: str | None, default: int) -> int:
    """The integer in a label or a message; the default if it is missing, no number, or has more than 18 digits."""
    return int(text) if text and text.isdecimal() and len(text) <= 18 else default


NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"  # the one label that every namespace has


DEFAULT_GPU_TOLERATIONS = tuple(
    Toleration(key, "Exists")
    for key in ("nvidia.com/gpu", "cloud.google.com/impending-node-termination", "cloud.google.com/gke-queued")
)
"""The tolerations of every pod of the chart."""


def selects_namespace(selector: Iterable[Requirement] | None, namespace: str) -> bool | None:
    """Whether a selector (None selects nothing) matches a namespace; None if that depends on labels not read here."""
    if selector is None:
        return False
    sure = True
    for each in selector:
        if each.key != NAMESPACE_NAME_LABEL:
            sure = False
        elif not each.matches({NAMESPACE_NAME_LABEL: namespace}):
            return False
    return True if sure else None


def format_selector(selector: Iterable[Requirement] | None) -> str:
    if selector is None:
        return "it has no namespaceSelector and accepts none"
    return f"it accepts namespaces with {', '.join(each.text for each in selector)}"
