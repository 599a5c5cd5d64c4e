"""Inputs like the recordings: bytes changed, cut, repeated and mixed; and, of JSON, values put where others stood."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 200_000
DICTIONARY = (
    b"\0", b"\xff", b"\xc3\x28", b"\x1b[31m", b"\r", b"\n", b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b"true",
    b'"', b"9" * 400, b"-9223372036854775809", b"0.1e-400", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800",
    "\u200d".encode(), "\u202e".encode(), "🙂".encode(), "٣".encode(), b"[" * 3000, b'{"a":' * 3000, b"2147483648",
    b"0x", b"%s", b"../", b" " * 300, b"0001-01-01T00:00:00Z", b"9999-12-31T23:59:60Z", b"=", b":", b"{{ .x }}",
    b"!!timestamp x", b"!!int x", b"!!bool x", b"!!binary x", b"!!float x", b"!!set x", b"&a [*a]", b"<<: ",
    b"2026-13-41",
)  # fmt: skip
_PLAIN: tuple[Any, ...] = (
    None, True, "", "\0", "\u001b]0;x\u0007", "\u200d🙂", "\ud800", 0, -1, 7, 1 << 31, 1 << 63, -(1 << 64), 10**400,
    0.5, 1e308, -0.0, [], {}, [None], [[]], {"": None}, "NaN", "1e999", "9" * 400, "-1", "10Gi", "1e9e9", "5m", "٣",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-11-21T07:00:00Z", "x" * 3000, "a=b,c", "../..",
    ["x"], [{}], {"a": {"b": []}}, "true", "[red]x[/]", "%s {0} {{x}}",
)  # fmt: skip
VALUES = tuple(json.dumps(value) for value in _PLAIN)
"""What is put in the place of a value, as JSON, so that each is a value of its own."""


def changed(
    source: random.Random,
    seeds: list[bytes],
    documents: list[str],
    grammar: Callable[[random.Random], bytes] | None = None,
) -> bytes:
    """An input like the seeds; half of those that are JSON stay JSON, with other values in it.

    Of those with a grammar two in three are made by it, and half of these are changed afterwards.
    """
    if grammar is not None and source.random() < 0.67:
        made = grammar(source)
        if source.random() < 0.5:
            return made
        seeds, documents = [made], documents_of([made])
    if documents and source.random() < 0.5:
        return _other_values(source, source.choice(documents))[:LONGEST]
    data = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        _change_bytes(source, data, seeds)
    return bytes(data[:LONGEST])


def _change_bytes(source: random.Random, data: bytearray, seeds: list[bytes]) -> None:
    at = source.randrange(len(data) + 1)
    to = min(len(data), at + source.choice((0, 1, 1, 2, 4, 16, 300)))
    match source.randrange(8):
        case 0:
            data[at:to] = source.randbytes(to - at)
        case 1:
            del data[at:to]
        case 2:
            data[at:at] = source.choice(DICTIONARY)
        case 3:
            data[at:to] = source.choice(DICTIONARY)
        case 4:
            data[at:at] = data[at:to] * source.choice((2, 8, 64))
        case 5:
            other = source.choice(seeds)
            begin = source.randrange(len(other) + 1)
            data[at:to] = other[begin : begin + 200]
        case 6:
            del data[at:]
        case _:
            if data:
                at = min(at, len(data) - 1)
                data[at] ^= 1 << source.randrange(8)


def documents_of(seeds: list[bytes]) -> list[str]:
    """The seeds that are JSON objects or lists."""
    found = []
    for seed in seeds:
        try:
            if isinstance(json.loads(seed), dict | list):
                found.append(seed.decode())
        except ValueError:
            continue
    return found


def _other_values(source: random.Random, document: str) -> bytes:
    whole = json.loads(document)
    for _ in range(source.choice((1, 1, 2, 4))):
        where = whole
        while True:
            keys: list[Any] = list(where) if isinstance(where, dict) else list(range(len(where)))
            if not keys:
                break
            key = source.choice(keys)
            inner = where[key]
            if isinstance(inner, dict | list) and inner and source.random() < 0.9:
                where = inner
                continue
            _change(source, where, key)
            break
    return json.dumps(whole).encode()


def _change(source: random.Random, where: Any, key: Any) -> None:
    match source.randrange(6):
        case 0:
            del where[key]
        case 1 if isinstance(where, list):
            where += [json.loads(json.dumps(where[key])) for _ in range(source.choice((1, 3, 40)))]
        case 1:
            where[source.choice(VALUES)] = where[key]
        case 2 if isinstance(where[key], str):
            text, at = where[key], source.randrange(len(where[key]) + 1)
            where[key] = f"{text[:at]}{source.choice(VALUES)}{text[at:]}"
        case _:
            where[key] = json.loads(source.choice(VALUES))
