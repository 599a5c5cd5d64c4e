"""Values that must not be seen: told by the name of a variable, or by the look of the value itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from console.models.draft import HIDDEN
from console.models.launch import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.models.values import Value

_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
_TAMED = {"PUBLIC"}
"""A public key is no secret."""
_HARMLESS = re.compile(r"\d{0,6}|true|false|/.*", re.IGNORECASE)
"""A switch, a number or the path of a file, whatever its variable is called."""
_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bglpat-[\w-]{20,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    r"|\bxox[abp]-[\w-]{20,}|\bya29\.[\w-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""Tokens that say what they are: Hugging Face, GitHub, GitLab, AWS, Google, Slack, private keys."""


def is_confidential(name: str, value: object = None) -> bool:
    """Whether a variable of that name holds a secret, so that its value is neither shown nor kept."""
    words = name.upper().split("_")
    if _TAMED.intersection(words) or not any(word.endswith(_WORDS) for word in words):
        return False
    return not (isinstance(value, str) and _HARMLESS.fullmatch(value))


def looks_confidential(text: str) -> bool:
    """Whether a text holds a token or key by its shape."""
    return _SHAPES.search(text) is not None


def confidential_problems(values: Mapping[str, Value]) -> tuple[FieldProblem, ...]:
    """Secrets given as plain values: they would stand in the release, in the pods and in every history."""
    found: dict[str, FieldProblem] = {}
    env = values.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if value is not None and (is_confidential(name, value) or looks_confidential(str(value))):
            message = (
                f"{name} looks like a secret and may not stand in Environment, where everybody can read it; put it in a"
                f" Secret and name that under Secrets: secrets.{name}=SECRET/KEY."
            )
            found.setdefault("env", FieldProblem("env", message, (name,)))
    for keys, text in _texts(values, ()):
        path = ".".join(map(str, keys))
        if keys[0] != "env" and looks_confidential(text):
            message = f"{path} holds a token or private key; keep it in a Secret, and name that under Secrets."
            found.setdefault(path, FieldProblem(path, message))
    return tuple(found.values())


def masked(values: Mapping[str, Value]) -> dict[str, Value]:
    """The same values with every secret among them hidden: for texts, histories and logs."""
    return {name: _masked(name, value) for name, value in values.items()}


def _masked(name: str, value: Value) -> Value:
    if isinstance(value, Mapping):
        return {
            each: HIDDEN if name == "env" and is_confidential(each, item) else _masked(each, item)
            for each, item in value.items()
        }
    if isinstance(value, str):
        return HIDDEN if looks_confidential(value) else value
    if isinstance(value, Sequence):
        return [_masked("", item) for item in value]
    return value


def _texts(value: Value, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, (*keys, name))
    elif isinstance(value, Sequence):
        for place, item in enumerate(value):
            yield from _texts(item, (*keys, place))
