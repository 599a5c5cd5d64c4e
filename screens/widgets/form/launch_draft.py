"""One recipe's launch as a person has typed it so far, and a launch that another screen asks for (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.kube.nested_values import Value, look, overlay, put
from console.launch.recipes import Field, FieldKind, FieldProblem, LaunchPlan, Recipe, changed, coerce, spell
from screens.widgets.form.model import FormModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from console.scheduling.queue_choice import QueueChoice


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What the launch screen's form is to hold when it opens."""

    recipe: str
    values: Mapping[str, Value] = dataclass_field(default_factory=dict)
    """As in LaunchPlan: nested, only what differs from the recipe's defaults."""
    name: str = ""  # release name to begin with; empty or taken: a free one is made
    against: Mapping[str, Value] | None = None
    """Values that the differences are shown against; None: the recipe's defaults."""
    against_name: str = ""  # what those values are called: "llama-3, launched 2 h ago"
    over: bool = False
    """Whether the values are laid over what is in the form, the rest of which stays; then `recipe` may be empty, for
    the one that is open."""
    said: str = ""  # what is said when the form opens; empty: a sentence of the screen's own


NAME = "name"  # path of the release's name, which is no value of the chart


class LaunchDraft:
    """A recipe, its form, and what cannot be told from the form's texts alone."""

    def __init__(self, recipe: Recipe, fields: Sequence[Field], name: str) -> None:
        self.recipe = recipe
        self.fields = tuple(fields)
        group = fields[0].group if fields else ""
        told = "Name of the Helm release and of its JobSet: small letters, digits and dashes."
        self.model = FormModel([Field(NAME, "Name", told, FieldKind.TEXT, name, group=group, required=True), *fields])
        self.against: Mapping[str, Value] | None = None
        """Values that differences are shown against; None: the recipe's defaults."""
        self.against_name = ""
        self.server_says: dict[str, str] = {}
        """What the API server refused at the last launch, by path, until something is typed."""
        self.yaml = ""  # the values as YAML, as they were written or typed last; its comments live on
        self._exact: dict[str, tuple[str, Value]] = {}
        """Values that their text does not say exactly, such as a list's entry with a comma, beside that text."""

    @property
    def queue_path(self) -> str:
        """The field that names the LocalQueue; empty if there is none."""
        return next((field.path for field in self.fields if field.choices_from == "localqueues"), "")

    @property
    def filled_queue(self) -> str:
        """The queue that stands there because the console chose it; empty if a person did, or there is none."""
        path = self.queue_path
        return self.model.defaults[path] if path and not self.model.is_changed(path) else ""

    def follow_queue(self, choice: QueueChoice) -> bool:
        """Puts the queue there that is chosen for it, unless somebody typed one; whether it is another one now."""
        path, texts = self.queue_path, self.model.texts
        if not path or self.model.is_changed(path) or self.model.defaults[path] == choice.queue:
            return False
        texts[path] = self.model.defaults[path] = choice.queue
        return True

    def rename(self, name: str) -> None:
        """Another name stands there from the start."""
        self.model.texts[NAME] = self.model.defaults[NAME] = name

    def plan(self, namespace: str) -> tuple[LaunchPlan, tuple[FieldProblem, ...]]:
        """What would be launched, and which texts cannot be read."""
        texts = self.model.texts
        exact = {path: value for path, (text, value) in self._exact.items() if texts[path] == text}
        values, unread = changed([field for field in self.fields if field.path not in exact], texts)
        for path, value in exact.items():
            put(values, path, value)
        return LaunchPlan(self.recipe.id, texts[NAME].strip(), namespace, values), unread

    def texts_for(self, values: Mapping[str, Value], name: str = "") -> dict[str, str]:
        """The texts of a form that holds these values; they are known exactly from now on."""
        texts = {NAME: name or self.model.texts[NAME]}
        for field in self.fields:
            given = look(values, field.path)
            if given is None:
                continue
            whole = _laid(field, given)
            text = texts[field.path] = spell(field, whole)
            try:
                same = coerce(field, text) == whole
            except BadInput:
                same = False
            if not same:
                self._exact[field.path] = (text, given)
        return texts

    def unknown_keys(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Paths of values that this recipe has no field for."""
        known = {field.path for field in self.fields}
        return tuple(path for path in _leaves(values, known) if path not in known)


def _laid(field: Field, given: Value) -> Value:
    """The whole value: of a map only the names that differ are given, None for those that go."""
    if field.kind is FieldKind.MAP and isinstance(given, dict) and isinstance(field.default, dict):
        return {name: item for name, item in overlay(field.default, given).items() if item is not None}
    return given


def _leaves(values: Mapping[str, Value], known: set[str], above: str = "") -> list[str]:
    found: list[str] = []
    for name, value in values.items():
        path = f"{above}{name}"
        inside = any(each.startswith(f"{path}.") for each in known)
        if path not in known and inside and isinstance(value, dict):
            found += _leaves(value, known, f"{path}.")
        else:
            found.append(path)
    return found
