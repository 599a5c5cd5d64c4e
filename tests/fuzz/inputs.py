"""Inputs like the recordings: bytes changed, cut, repeated and mixed; of JSON, values put where others stood; of
pickles, codes left out, repeated and put in.
"""

import json
import pickletools
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONGEST = 200_000
"""Bytes of most inputs."""
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
    ["x"], [{}], {"a": {"b": []}}, "true", "[red]x[/]", "%s {0} {{x}}", float("nan"), float("-inf"), 300_000_000, 1e308,
    9_999_999, list(range(64)), [[0, 0]] * 9,
)  # fmt: skip
VALUES = (*map(json.dumps, _PLAIN), "[" * 200 + "]" * 200, '{"a":' * 200 + "0" + "}" * 200)
"""What is put in the place of a value, as JSON, so that each is a value of its own."""
CODES = (
    b"0", b"1", b"2", b"(", b"N", b"]", b"}", b")", b"\x85", b"\x86", b"\x87", b"t", b"l", b"d", b"a", b"e", b"s", b"u",
    b"b", b"\x81", b"\x92", b"R", b"\x90", b"\x91", b"\x94", b"h\0", b"h\1", b"j\xff\xff\xff\x7f", b"r\xff\xff\xff\x7f",
    b"q\xff", b"\x8d" + b"\xff" * 7 + b"\x7f", b"X\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 8, b"\x8a\xff" + b"\xff" * 255,
    b"\x8b\xff\xff\xff\x7f", b"G\x7f\xf8\0\0\0\0\0\0", b"G\x7f\xef" + b"\xff" * 6, b"cos\nsystem\n", b"\x93",
    b"K\1" + b"2\x86" * 60, b"K\1\x94" + b"h\0h\0\x86\x94" * 60, b"]\x94h\0a", b"}\x94h\0h\0s",
)  # fmt: skip
"""Codes of pickles that are put in: nested keys, cycles, places and lengths that none has."""


class Twin(str):
    """A key that may stand twice in an object of JSON."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def changed(
    source: random.Random,
    seeds: list[bytes],
    documents: list[str],
    grammar: Callable[[random.Random], bytes] | None = None,
    longest: int = LONGEST,
) -> bytes:
    """An input like the seeds; half of those that are JSON, or lines of JSON, stay that, with other values in it.

    Of those with a grammar two in three are made by it, and half of these are changed afterwards. One in a hundred is
    up to `longest` bytes long.
    """
    most = longest if source.random() < 0.01 else min(LONGEST, longest)
    if grammar is not None and source.random() < 0.67:
        made = grammar(source)
        if source.random() < 0.5:
            return made
        seeds, documents = [made], documents_of([made])
    if documents and source.random() < 0.5:
        return _other_values(source, source.choice(documents), most)[:most]
    data = bytearray(source.choice(seeds))
    if data[:1] == b"\x80" and source.random() < 0.7:
        data = _other_codes(source, bytes(data), most)
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        _change_bytes(source, data, seeds, most)
    return bytes(data[:most])


def _other_codes(source: random.Random, data: bytes, most: int) -> bytearray:
    """A pickle with some of its codes left out, repeated or exchanged, or with others before them."""
    try:
        places = [at for _, _, at in pickletools.genops(data) if at is not None]
    except Exception:  # noqa: BLE001  # what was changed before may be no pickle any more
        return bytearray(data)
    codes = [data[begin:end] for begin, end in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(source.choice((1, 1, 2, 4))):
        at = source.randrange(len(codes))
        few = codes[at : at + source.choice((1, 1, 2, 8))]
        match source.randrange(5):
            case 0:
                del codes[at : at + len(few)]
            case 1:
                codes[at:at] = few * source.choice((1, 7, most // (20 * sum(map(len, few)) + 20)))
            case 2:
                other = source.randrange(len(codes))
                codes[at], codes[other] = codes[other], codes[at]
            case _:
                codes[at:at] = [source.choice(CODES)] * source.choice((1, 1, 2, 30))
    return bytearray(b"".join(codes))


def _change_bytes(source: random.Random, data: bytearray, seeds: list[bytes], most: int) -> None:
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
            longer = (most - len(data)) // max(1, to - at) if most > LONGEST else 64
            data[at:at] = data[at:to] * source.choice((2, 8, max(0, longer)))
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
    """The seeds that are JSON objects or lists, or such in each line."""
    found = []
    for seed in seeds:
        with suppress(ValueError):
            text = seed.decode()
            if isinstance(next(iter(_load(text)), None), dict | list):
                found.append(text)
    return found


def _load(text: str) -> list[Any]:
    """The JSON in a text, as a list of one; or that of each of its lines."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _other_values(source: random.Random, document: str, most: int) -> bytes:
    whole = _load(document)
    for _ in range(source.choice((1, 1, 2, 4))):
        where: Any = whole
        while True:
            keys: list[Any] = list(where) if isinstance(where, dict) else list(range(len(where)))
            if not keys:
                break
            key = source.choice(keys)
            inner = where[key]
            if isinstance(inner, dict | list) and inner and source.random() < 0.9:
                where = inner
                continue
            if most > LONGEST:
                _enlarge(where, key, int(most * source.random()))
                return _dump(whole)  # what is the same in many places must not grow in all
            _change(source, where, key)
            break
    return _dump(whole)


def _dump(whole: list[Any]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in whole)


def _change(source: random.Random, where: Any, key: Any) -> None:
    match source.randrange(7):
        case 0:
            del where[key]
        case 1 if isinstance(where, list):
            where += [json.loads(json.dumps(where[key])) for _ in range(source.choice((1, 3, 40)))]
        case 1:
            where[source.choice(VALUES)] = where[key]
        case 2 if isinstance(where[key], str):
            text, at = where[key], source.randrange(len(where[key]) + 1)
            where[key] = f"{text[:at]}{source.choice(VALUES)}{text[at:]}"
        case 3 if isinstance(where, dict):
            where[Twin(key)] = json.loads(source.choice(VALUES)) if source.random() < 0.5 else where[key]
        case _:
            where[key] = json.loads(source.choice(VALUES))


def _enlarge(where: Any, key: Any, size: int) -> None:
    """Repeat a value, or its elements, up to so many bytes; numbers go on counting."""
    value = where[key]
    times = size // (len(json.dumps(value)) + 2)
    if isinstance(value, str):
        where[key] = (value or "x") * times
    elif isinstance(where, list):
        where += range(value, value + size // 9) if type(value) is int else [value] * times
    else:
        where |= {f"{key}{number}": value for number in range(size // (len(json.dumps(value)) + len(key) + 12))}
