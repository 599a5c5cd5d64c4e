"""Protobuf bodies, which Go clients send for the small built-in kinds: bytes in, the same object as JSON data out.

Only what kubectl, Helm and client-go write that way is known here; any other kind is refused with 415, in which case
the field tables below are the place to add it. Numbers are those of the published API definitions.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.practice.refusal import ApiError, Object, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

_META = (
    "1 name, 2 generateName, 3 namespace, 5 uid, 6 resourceVersion, 7 generation int, 8 creationTimestamp Time, "
    "9 deletionTimestamp Time, 10 deletionGracePeriodSeconds int, 11 labels map, 12 annotations map, "
    "13 ownerReferences []OwnerReference, 14 finalizers []"
)
_REFERENCE = "1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath"
_TABLES = {
    "ObjectMeta": _META,
    "OwnerReference": "1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller bool, 7 blockOwnerDeletion bool",
    "ObjectReference": _REFERENCE,
    "LocalObjectReference": "1 name",
    "EventSource": "1 component, 2 host",
    "Preconditions": "1 uid, 2 resourceVersion",
    "DeleteOptions": (
        "1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool, "
        "4 propagationPolicy, 5 dryRun []"
    ),
    "ConfigMap": "1 metadata ObjectMeta, 2 data map, 3 binaryData bytesmap, 4 immutable bool",
    "Secret": "1 metadata ObjectMeta, 2 data bytesmap, 3 type, 4 stringData map, 5 immutable bool",
    "Namespace": "1 metadata ObjectMeta, 2 spec NamespaceSpec",
    "NamespaceSpec": "1 finalizers []",
    "ServiceAccount": (
        "1 metadata ObjectMeta, 2 secrets []ObjectReference, 3 imagePullSecrets []LocalObjectReference, "
        "4 automountServiceAccountToken bool"
    ),
    "Event": (
        "1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason, 4 message, 5 source EventSource, "
        "6 firstTimestamp Time, 7 lastTimestamp Time, 8 count int, 9 type, 10 eventTime MicroTime, 12 action, "
        "14 reportingComponent, 15 reportingInstance"
    ),
    "Binding": "1 metadata ObjectMeta, 2 target ObjectReference",
    "Eviction": "1 metadata ObjectMeta, 2 deleteOptions DeleteOptions",
    "Lease": "1 metadata ObjectMeta, 2 spec LeaseSpec",
    "LeaseSpec": (
        "1 holderIdentity, 2 leaseDurationSeconds int, 3 acquireTime MicroTime, 4 renewTime MicroTime, "
        "5 leaseTransitions int"
    ),
    "SelfSubjectReview": "1 metadata ObjectMeta",
    "SelfSubjectAccessReview": "1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec",
    "SelfSubjectAccessReviewSpec": (
        "1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes"
    ),
    "ResourceAttributes": "1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name",
    "NonResourceAttributes": "1 path, 2 verb",
    "SelfSubjectRulesReview": "1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec",
    "SelfSubjectRulesReviewSpec": "1 namespace",
}


def _table(text: str) -> dict[int, tuple[str, str]]:
    fields = {}
    for line in text.split(", "):
        number, name, *kind = line.split()
        fields[int(number)] = (name, kind[0] if kind else "")
    return fields


_FIELDS = {name: _table(text) for name, text in _TABLES.items()}


def decode_protobuf(body: bytes) -> Object:
    """Return the object of a protobuf body; ApiError 415 for a kind that is not known, 400 when it cannot be read."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = {number: _text(value) for number, value in _fields(envelope.get(1, b""))}
        kind = head.get(2, "")
        if kind not in _FIELDS:
            text = f"the body of the request was in an unknown format - {kind} is read as application/json only"
            raise ApiError(415, "UnsupportedMediaType", text)
        return {"apiVersion": head.get(1, ""), "kind": kind, **_message(kind, envelope.get(2, b""))}
    except (IndexError, ValueError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected end")
            yield number, data[at : at + size]
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _text(value: bytes) -> str:
    return value.decode()


def _message(kind: str, data: bytes) -> Object:
    found: Object = {}
    for number, value in _fields(data):
        name, form = _FIELDS[kind].get(number, ("", ""))
        if not name:
            continue
        if form in ("map", "bytesmap"):
            pair = dict(_fields(value))
            inner = pair.get(2, b"")
            text = inner.decode() if form == "map" else base64.b64encode(inner).decode()
            found.setdefault(name, {})[_text(pair.get(1, b""))] = text
        elif form.startswith("[]"):
            found.setdefault(name, []).append(_value(form[2:], value))
        else:
            read = _value(form, value)
            if read not in ("", None, {}) or form not in ("", "Time", "MicroTime"):
                found[name] = read
    return found


def _value(form: str, value: Any) -> Any:
    if form == "":
        return _text(value)
    if form == "int":
        return value - (1 << 64) if value >= 1 << 63 else value
    if form == "bool":
        return bool(value)
    if form in ("Time", "MicroTime"):
        return _time(value, micro=form == "MicroTime")
    return _message(form, value)


def _time(value: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(value))
    seconds = _value("int", parts.get(1, 0))
    if seconds <= 0:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    if not micro:
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.strftime(f"%Y-%m-%dT%H:%M:%S.{parts.get(2, 0) // 1000:06d}Z")
