"""Secrets among the values of a launch: refused as plain values, hidden in what is shown and kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from console.launch.draft import HIDDEN
from console.launch.recipes import FieldProblem
from console.logs.redact import is_confidential, looks_confidential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.kube.nested_values import Value
    from console.launch.recipes import Field

_ASSIGNED = re.compile(r"(?m)^\s*(?:export\s+)?([A-Za-z_]\w*)=[\"']?(?!\$)([^\s\"']+)")
"""A line of a script that gives a variable a value which is written there."""


def confidential_problems(values: Mapping[str, Value]) -> tuple[FieldProblem, ...]:
    """Secrets given as plain values: they would stand in the release, in the pods and in every history."""
    found: dict[str, FieldProblem] = {}
    env = values.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if value is not None and (is_confidential(name, value) or looks_confidential(str(value))):
            message = (
                f"{name} looks like a secret and is not allowed in Environment, which every user can read; put it in "
                f"a Secret and name that under Secrets: secrets.{name}=SECRET/KEY."
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


def without_secrets(fields: Sequence[Field], values: Mapping[str, Value]) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The values that may be kept, and the paths of those that may not."""
    secret = {field.path for field in fields if field.secret}
    known = {field.path for field in fields}
    references = {field.path for field in fields if field.choices_from == "secrets"}
    left_out: list[str] = []

    def kept(level: Mapping[str, Value], above: str) -> dict[str, Value]:
        safe: dict[str, Value] = {}
        for name, value in level.items():
            path = f"{above}.{name}" if above else name
            variable = "" if path in known or above in references else name
            if path in secret or _is_secret(variable, value):
                left_out.append(path)
            else:
                safe[name] = kept(value, path) if isinstance(value, Mapping) else value
        return safe

    return kept(values, ""), tuple(left_out)


def _is_secret(variable: str, value: Value) -> bool:
    if isinstance(value, str):
        return is_confidential(variable, value) or looks_confidential(value) or _sets_secret(value)
    if isinstance(value, Sequence):
        return any(_is_secret("", each) for each in value)
    if isinstance(value, Mapping):
        return False  # looked into name by name
    return value is not None and not isinstance(value, bool) and is_confidential(variable, str(value))


def _sets_secret(text: str) -> bool:
    """Whether a script writes a secret into a variable."""
    return any(is_confidential(name, value) for name, value in _ASSIGNED.findall(text))
