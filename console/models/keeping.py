"""What of a launch's values may be written to a file that outlives it: everything but secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from console.models.confidential import is_confidential, looks_confidential

if TYPE_CHECKING:
    from console.models.launch import Field
    from console.models.values import Value

_ASSIGNED = re.compile(r"(?m)^\s*(?:export\s+)?([A-Za-z_]\w*)=[\"']?(?!\$)([^\s\"']+)")
"""A line of a script that gives a variable a value which is written there."""


def without_secrets(fields: Sequence[Field], values: Mapping[str, Value]) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The values that may be kept, and the paths of those that may not."""
    secret = {field.path for field in fields if field.secret}
    variables = {field.path for field in fields if field.path.rpartition(".")[2] == "env"}
    left_out: list[str] = []

    def kept(level: Mapping[str, Value], above: str) -> dict[str, Value]:
        safe: dict[str, Value] = {}
        for name, value in level.items():
            path = f"{above}.{name}" if above else name
            variable = name if above in variables else ""
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
