"""Recipes, form fields and launch plans: `parse_value` reads a field's text to JSON data, `format_value` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import StrEnum

from console.errors import BadInput
from console.kube.nested_values import Value, set_path
from console.kube.safe_yaml import NotPlainError, load_without_references
from trainlog import looks_confidential


class FieldKind(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    LIST = "list"  # words, one a line or separated by commas
    MAP = "map"  # NAME=text, one a line
    ROWS = "rows"  # a list of small maps, written as YAML
    BLOCK = "block"  # text of several lines, as it is


@dataclass(frozen=True, slots=True)
class Recipe:
    id: str  # also the name of its script: "nccl-all-reduce"
    title: str
    code: str  # short for the id in scripts: "W03"; screens do not show it
    summary: str
    needs: str
    gives: str
    duration: str
    suffix: str  # the end of the release name that is offered: "nccl-test"


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a recipe as the form shows it."""

    path: str  # Dotted: "recipe.nccl.begin"
    title: str
    description: str
    kind: FieldKind
    default: Value  # the recipe's own default, where it has one; else the chart's
    choices: tuple[str, ...] = ()  # all words allowed, for CHOICE
    choices_from: str = ""  # kind of objects to offer, such as localqueues or images; other text is allowed too
    unit: str = ""
    pattern: str = ""
    rule: str = ""  # what a value must be, continuing "GPUs ...": "must be 1 to 8, or a multiple of 8"
    examples: tuple[str, ...] = ()
    group: str = ""  # title of the section
    order: int = 0
    advanced: bool = False
    secret: bool = False
    required: bool = False  # may not be empty


@dataclass(frozen=True, slots=True)
class FieldProblem:
    path: str  # a field's path, "name" or "namespace"; empty: the values as a whole
    message: str  # one sentence
    keys: tuple[str | int, ...] = dataclass_field(default=(), compare=False)  # from the field's value on to the fault


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch: a recipe, a release name, and the values that differ from the recipe's defaults."""

    recipe: str
    name: str
    namespace: str
    values: Mapping[str, Value]  # nested: {"gpus": 16, "recipe": {"nccl": {"end": "8G"}}}


@dataclass(frozen=True, slots=True)
class Manifest:
    kind: str
    name: str
    text: str  # YAML; the data of a Secret is masked


def join_manifests(manifests: Sequence[Manifest]) -> str:
    return "\n".join(f"---\n{manifest.text.strip()}" for manifest in manifests) + "\n"


@dataclass(frozen=True, slots=True)
class Release:
    namespace: str
    name: str
    recipe: str  # empty for a release that was not launched from here
    revision: int
    status: str  # Helm's word: deployed, failed, pending-install, uninstalling ...
    updated: str  # RFC 3339
    chart: str  # name and version: "a4-0.1.0"


_TRUE_WORDS = {"true", "yes", "on", "1"}
_FALSE_WORDS = {"false", "no", "off", "0"}


def parse_value(field: Field, text: str) -> Value:
    """Parse typed text to the field's value; BadInput with a sentence if it has the wrong type."""
    match field.kind:
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _parse_number(field, text)
        case FieldKind.BOOLEAN:
            return _parse_boolean(field, text)
        case FieldKind.CHOICE:
            return _parse_choice(field, text)
        case FieldKind.LIST:
            return [word.strip() for line in text.splitlines() for word in line.split(",") if word.strip()]
        case FieldKind.MAP:
            return _parse_pairs(field, text)
        case FieldKind.ROWS:
            return _parse_rows(field, text)
        case FieldKind.TEXT:
            return text.strip()
        case FieldKind.BLOCK:
            return text


def format_value(field: Field, value: Value) -> str:
    """The text of a value as `parse_value` would parse it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.kind is FieldKind.ROWS:
        import yaml  # only forms with such a field pay for it

        return "" if value == [] else str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).strip()
    if isinstance(value, Mapping):
        return "\n".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(str(item) for item in value)
    return str(value)


def parse_changes(
    fields: Sequence[Field], texts: Mapping[str, str]
) -> tuple[dict[str, Value], tuple[FieldProblem, ...]]:
    """Parse a form's texts to nested changes of the defaults (None removes a map's name), and problems."""
    values: dict[str, Value] = {}
    problems: list[FieldProblem] = []
    for field in fields:
        if field.path not in texts:
            continue
        try:
            value = parse_value(field, texts[field.path])
        except BadInput as error:
            problems.append(FieldProblem(field.path, error.message))
            continue
        if value != field.default:
            set_path(values, field.path, changed_part(field.default, value))
    return values, tuple(problems)


def changed_part(default: Value, value: Value) -> Value:
    """How a value changes a default: for a map only the changed names, in the form that Helm merges."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    different: dict[str, Value] = {name: item for name, item in value.items() if default.get(name) != item}
    return different | dict.fromkeys(name for name in default if name not in value)


def _parse_number(field: Field, text: str) -> int | float:
    plain = text.strip().replace("_", "").replace(",", "")
    try:
        return int(plain) if field.kind is FieldKind.INTEGER else float(plain)
    except ValueError:
        what = "a whole number" if field.kind is FieldKind.INTEGER else "a number"
        raise BadInput(f"{field.title} must be {what}{_quote_given(field, text)}.") from None


def _parse_boolean(field: Field, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise BadInput(f"{field.title} must be true or false{_quote_given(field, text)}.")
    return word in _TRUE_WORDS


def _parse_choice(field: Field, text: str) -> str:
    word = text.strip()
    if word not in field.choices:
        raise BadInput(f"{field.title} must be one of {', '.join(field.choices)}{_quote_given(field, text)}.")
    return word


def _parse_pairs(field: Field, text: str) -> dict[str, Value]:
    pairs: dict[str, Value] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise BadInput(f"{field.title} takes NAME=text, one a line{_quote_given(field, line)}.")
        pairs[name.strip()] = value.strip()
    return pairs


def _parse_rows(field: Field, text: str) -> list[Value]:
    try:
        rows = load_without_references(text)
    except NotPlainError as error:
        raise BadInput(f"{field.title} cannot be read as YAML: {error.why}.") from error
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise BadInput(f"{field.title} must be a list: one entry a line, each beginning with '- '.")
    return rows


def _quote_given(field: Field, text: str) -> str:
    return "" if field.secret or field.choices_from == "secrets" else quote_value(text)


def quote_value(value: object) -> str:
    """The end of a sentence about a value that was given, which is not repeated if it looks like a secret."""
    text = re.sub(r"\s+", " ", value if isinstance(value, str) else repr(value)).strip()
    if looks_confidential(text):
        return ""
    if not text:
        return "; it is empty"
    return f"; {text if len(text) <= 60 else text[:57] + '...'} was given"


HIDDEN = "(hidden)"  # stands in every text where a secret value would be; read back, it means the value that was there


@dataclass(frozen=True, slots=True)
class Remark:
    path: str  # a field's path, "name", "namespace", "recipe" or a key that no field has; empty: the text as a whole
    message: str  # one sentence
    line: int = 0  # counted from 1; 0: it has none

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True)
class Draft:
    values: dict[str, Value] = dataclass_field(default_factory=dict)  # nested, only differences, as in `LaunchPlan`
    given: dict[str, Value] = dataclass_field(default_factory=dict)  # nested, everything that the text names
    recipe: str = ""  # id of the recipe it is about; empty: it does not say
    name: str = ""
    namespace: str = ""
    problems: tuple[Remark, ...] = ()  # what has to be mended before the values can be used
    left_out: tuple[Remark, ...] = ()  # keys that were not taken, each with what to use instead
    notes: tuple[Remark, ...] = ()  # worth knowing of what was taken

    @property
    def is_valid(self) -> bool:
        return not self.problems
