"""What all API objects share: metadata, owners, conditions."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

import msgspec

from console.models.condition import Condition
from console.parsers.timestamp import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

JOBSET = "jobset.sigs.k8s.io/"
"""Prefix of the labels that JobSet puts on Jobs and pods."""
KUEUE = "kueue.x-k8s.io/"
OURS = "a4.console/"


UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading JSON raises that is none, has another form, is no UTF-8, or is nested without end."""


class Wire(msgspec.Struct, rename="camel", gc=False):
    """An API object, or a part of one, with the fields that are used; fields that are missing or null are None."""


class OwnerWire(Wire):
    """An entry of ownerReferences."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Meta(Wire):
    """ObjectMeta."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None


class ConditionWire(Wire):
    """An entry of status.conditions; core kinds and CRDs spell it alike."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ObjectWire(Wire):
    """The base of every kind's wire type."""

    metadata: Meta = msgspec.field(default_factory=Meta)


def shared(text: str | None) -> str:
    """The same text, kept once however many objects carry it: for values that repeat, such as node names."""
    return intern(text) if text else ""


def labels_of(meta: Meta) -> Mapping[str, str]:
    """Labels, empty if there are none."""
    return meta.labels or {}


def annotations_of(meta: Meta) -> Mapping[str, str]:
    """Annotations, empty if there are none."""
    return meta.annotations or {}


def owner_of(meta: Meta) -> OwnerWire:
    """The controlling owner, else the first, else an empty one."""
    owners = meta.owner_references or []
    return next((each for each in owners if each.controller), owners[0] if owners else OwnerWire())


def conditions_of(wires: list[ConditionWire] | None) -> tuple[Condition, ...]:
    """Conditions that have a type."""
    return tuple(
        Condition(
            type=shared(each.type),
            status=shared(each.status) or "Unknown",
            reason=shared(each.reason),
            message=each.message or "",
            since=parse_time(each.last_transition_time),
        )
        for each in wires or ()
        if each.type
    )


def number(labels: Mapping[str, str], name: str, default: int) -> int:
    """A label that holds a count; the default if it is missing or no number."""
    text = labels.get(name, "")
    return int(text) if text.isdecimal() else default
