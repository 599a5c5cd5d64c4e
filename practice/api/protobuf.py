"""Protobuf bodies, which Go clients send for built-in kinds: bytes in, the same object as JSON data out."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from practice.api.api_fields import read_types, type_name
from practice.objects.api_error import ApiError, Object, bad_request

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def decode_protobuf(body: bytes) -> Object:
    """Return the object of a protobuf body. Raises ApiError 415 for an unknown kind, 400 if it cannot be decoded."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_iter_fields(body[len(_MAGIC) :]))
        head = {number: _decode_text(value) for number, value in _iter_fields(envelope.get(1, b""))}
        version, kind = head.get(1, ""), head.get(2, "")
        root = type_name(version, kind)
        if root not in read_types():
            text = f"the body of the request was in an unknown format - {kind} is read as application/json only"
            raise ApiError(415, "UnsupportedMediaType", text)
        return {"apiVersion": version, "kind": kind, **_decode_message(root, envelope.get(2, b""))}
    except (IndexError, ValueError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from error


def _iter_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _read_varint(data, at)
            yield number, value
        elif wire_type == 2:
            size, at = _read_varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected end")
            yield number, data[at : at + size]
            at += size
        elif wire_type in (1, 5):
            at += 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type}")


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset


def _decode_text(value: bytes) -> str:
    return value.decode()


def _decode_message(kind: str, data: bytes) -> Object:
    found: Object = {}
    numbers = read_types()[kind].numbers
    for number, raw in _iter_fields(data):
        known = numbers.get(number)
        if known is None:
            continue
        value = _decode_value(known.type, raw)
        if not known.name:
            found.update(value)
        elif known.type.startswith("[]"):
            found.setdefault(known.name, []).append(value)
        elif known.type.startswith("{}"):
            found.setdefault(known.name, {}).update(value)
        elif known.optional or value or isinstance(value, dict):
            # Go writes the zero of a field that is not optional, and leaves it out of JSON.
            found[known.name] = value
    return found


def _decode_value(kind: str, raw: Any) -> Any:
    if kind.startswith("[]"):
        return _decode_value(kind[2:], raw)
    if kind.startswith("{}"):
        pair = dict(_iter_fields(raw))
        return {_decode_text(pair.get(1, b"")): _decode_value(kind[2:], pair.get(2, b""))}
    if kind in _SCALARS:
        return _SCALARS[kind](raw)
    return _decode_message(kind, raw)


def _decode_signed(raw: Any) -> int:
    return int(raw - (1 << 64) if raw >= 1 << 63 else raw)


def _decode_quantity(content: bytes) -> str:
    return _decode_text(dict(_iter_fields(content)).get(1, b""))


def _decode_int_or_string(content: bytes) -> int | str:
    parts = dict(_iter_fields(content))
    return _decode_text(parts.get(3, b"")) if parts.get(1) else _decode_signed(parts.get(2, 0))


def _decode_embedded_json(content: bytes) -> Any:
    return msgspec.json.decode(dict(_iter_fields(content)).get(1, b"null"))


def _decode_time(content: bytes) -> str | None:
    seconds = _decode_signed(dict(_iter_fields(content)).get(1, 0))
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds > 0 else None


def _decode_micro_time(content: bytes) -> str | None:
    whole = _decode_time(content)
    nanoseconds = dict(_iter_fields(content)).get(2, 0)
    return f"{whole[:-1]}.{nanoseconds // 1000:06d}Z" if whole else None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _decode_text,
    "int32": _decode_signed,
    "int64": _decode_signed,
    "bool": bool,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "quantity": _decode_quantity,
    "int-or-string": _decode_int_or_string,
    "time": _decode_time,
    "microtime": _decode_micro_time,
    "any": _decode_embedded_json,
}
