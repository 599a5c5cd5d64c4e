"""Secrets among the values of a launch: refused as plain values, hidden in what is shown and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from console.models.draft import HIDDEN
from console.models.launch import FieldProblem
from console.models.secrecy import is_confidential as is_confidential
from console.models.secrecy import looks_confidential as looks_confidential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.models.values import Value


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
