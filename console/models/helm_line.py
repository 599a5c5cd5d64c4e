"""The `helm` command that makes a launch, for those who want to run or keep it themselves."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.models.values import Value

_IN_VALUES = re.compile(r"[\\,]")
_IN_NAMES = re.compile(r"[\\.,=\[\]]")
"""What Helm takes for grammar unless a backslash stands before it."""


@dataclass(frozen=True, slots=True)
class HelmCommand:
    """One launch as a command line, in two forms that make the same release."""

    with_file: str
    """With the values in a file beside it; one option a line."""
    file_name: str
    file_text: str
    """What that file holds."""
    inline: str
    """With every value in the line."""
    needs: tuple[str, ...] = ()
    """Variables of the environment that hold secrets and have to be set first."""


@dataclass(frozen=True, slots=True)
class HelmParts:
    """What a command is made of."""

    name: str
    namespace: str
    chart: str
    label: str
    values: Mapping[str, Value]
    files: Mapping[str, str]
    """Path of a value -> file whose text it is."""
    secrets: Mapping[str, str]
    """Path of a value -> variable of the environment that holds it."""


def helm_command(parts: HelmParts, file_text: str) -> HelmCommand:
    """The command of a launch; `file_text` is its values as YAML."""
    file_name = f"{parts.name}.values.yaml"
    head = ["helm", "install", parts.name, parts.chart]
    common = [("--namespace", parts.namespace), ("--labels", parts.label)]
    tail = [("--set-file", f"{escaped(path)}={file}") for path, file in parts.files.items()]
    hidden = [f'--set-string {shlex.quote(escaped(path))}="${name}"' for path, name in parts.secrets.items()]
    return HelmCommand(
        with_file=_line(head, [*common, ("--values", file_name), *tail], hidden),
        file_name=file_name,
        file_text=file_text,
        inline=_line(head, [*common, *settings(parts.values), *tail], hidden),
        needs=tuple(parts.secrets.values()),
    )


def settings(values: Mapping[str, Value], above: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Options that set nested values: text that stays text, numbers as they are, lists as JSON."""
    for name, value in values.items():
        way = (*above, name)
        path = ".".join(_key(each) for each in way)
        if isinstance(value, Mapping) and value:
            yield from settings(value, way)
        elif isinstance(value, str) and not value.startswith("{"):
            yield "--set-string", f"{path}={_escape(value, _IN_VALUES)}"
        elif value is None or isinstance(value, int):
            yield "--set", f"{path}={json.dumps(value)}"
        else:
            yield "--set-json", f"{path}={json.dumps(value, ensure_ascii=False)}"


def escaped(path: str) -> str:
    """A path whose last name may hold dots (launchers.run.sh), as Helm takes it."""
    first, _, rest = path.partition(".")
    return f"{_key(first)}.{_key(rest)}" if first == "launchers" else path


def _key(name: str) -> str:
    return _escape(name, _IN_NAMES)


def _escape(text: str, special: re.Pattern[str]) -> str:
    return special.sub(r"\\\g<0>", text)


def _line(head: Sequence[str], options: Sequence[tuple[str, str]], hidden: Sequence[str]) -> str:
    lines = [shlex.join(head), *(f"{option} {shlex.quote(value)}" for option, value in options), *hidden]
    return " \\\n  ".join(lines)
