"""Recipes, form fields, launch plans and drafts as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from enum import StrEnum

from console.kube.nested_values import Value


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
