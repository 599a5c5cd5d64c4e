"""Converts launch plans to text and back: YAML, pasted commands, helm commands, differences."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console import assets
from console.connection_settings import login_name
from console.errors import BadInput, Conflict, ConsoleError, NotFound
from console.kube.nested_values import Value, get_path, overlay_values, set_path
from console.launch.gpu_recipes_import import (
    RECIPE_KEYS,
    RECIPE_OF_SCRIPT,
    TranslatedValues,
    merge_sources,
    pop_at,
    translate_values,
)
from console.launch.helm import RECIPE_LABEL, InvalidValues
from console.launch.helm_command import HelmCommand, HelmLine, helm_command, looks_like_helm, parse_helm_line
from console.launch.helm_set_parser import FileValue, coerce_value, iter_field_values
from console.launch.install import NoSuchQueue, find_field_of_message
from console.launch.recipes import HIDDEN, Draft, Field, FieldProblem, LaunchPlan, Manifest, Remark
from console.launch.releases import ObjectDiff, diff_manifests
from console.launch.values_schema import Schema, iter_fields, iter_leaf_values, suggest_path
from console.launch.yaml_read import (
    MAX_TEXT_CHARACTERS,
    ParsedValues,
    YamlNode,
    YamlSyntaxError,
    find_schema,
    parse_plain,
    parse_text,
    read_values,
)
from console.launch.yaml_write import edit_text, write_values
from trainlog import is_confidential, looks_confidential

if TYPE_CHECKING:
    from console.launch.install import ChartCatalog

    Render = Callable[[LaunchPlan], Awaitable[tuple[Manifest, ...]]]


class PlanTexts:
    """Launch plans as text and back: YAML, helm commands, differences; needs no cluster."""

    def __init__(self, chart_catalog: ChartCatalog, render: Render) -> None:
        self._chart_catalog, self._schema = chart_catalog, chart_catalog.schema
        self._render = render
        self._last_rendering: tuple[LaunchPlan, tuple[Manifest, ...]] | None = None  # the last difference's base
        self._known = [path for path, part in iter_fields(chart_catalog.schema) if not part.get("x-hidden")]

    def write_yaml(self, plan: LaunchPlan, old_text: str = "") -> str:
        """The plan's changed values as YAML; comments and order of the person's text `old_text` are kept."""
        values = self._order_values(self._hidden_values(plan.values))
        old_text = old_text.replace("\r\n", "\n")
        if old_text.strip():
            edited = self._edit_text(plan, values, old_text)
            if edited is not None:
                return edited
            comments = [line for line in old_text.splitlines() if line.lstrip().startswith("#")]
            return "".join(f"{line.strip()}\n" for line in comments) + write_values(values)
        return write_values(values)

    def _edit_text(self, plan: LaunchPlan, values: dict[str, Value], old_text: str) -> str | None:
        """The text edited to contain these values; None if the result would not parse to exactly them."""
        defaults = self._chart_catalog.defaults(plan.recipe)

        def has_value(keys: tuple[str, ...], node: YamlNode, value: Value) -> bool:
            part = find_schema(self._schema, keys)
            read = parse_plain(node, part if part is not None else {})
            return type(read) is type(value) and read == value

        def can_stay(keys: tuple[str, ...], node: YamlNode) -> bool:
            part = find_schema(self._schema, keys)
            if part is None or keys in {("recipe", "id"), ("launchers",)}:
                return True
            default = _get_if_set(defaults, keys)[1]
            return default is not None and parse_plain(node, part) == default

        edited = edit_text(old_text, values, has_value, can_stay)
        if edited is None:
            return None
        draft = self.read_yaml(plan.recipe, edited, hidden=plan.values)
        return edited if draft.values == dict(plan.values) else None

    def read_yaml(self, recipe: str, text: str, *, hidden: Mapping[str, Value] | None = None) -> Draft:
        """Parse a text into changes of a recipe's defaults; `hidden` has the values behind `(hidden)`."""
        try:
            root, repeated = parse_text(text)
        except YamlSyntaxError as error:
            return Draft(problems=(error.remark,))
        read = read_values(root, self._schema, hidden or {})
        known = self._chart_catalog.find_recipe(recipe).id
        problems = [*repeated, *read.problems, *self._remarks_on_recipe(known, read)]
        changes = self.changed_values(known, read.values)
        problems += [
            Remark(each.path, each.message, read.line_of((*each.path.split("."), *each.keys)))
            for each in self._chart_catalog.value_problems(known, changes)
        ]
        problems.sort(key=lambda each: each.line)
        return Draft(changes, read.values, read.recipe, problems=tuple(problems), notes=tuple(read.notes))

    async def read_file(self, recipe: str, text: str, *, variables: Mapping[str, str] | None = None) -> Draft:
        """Parse a values file; another chart's values, or a helm command in the file, are parsed like pasted text."""
        try:
            root, _ = parse_text(text)
            foreign = root is not None and _is_of_gpu_recipes(parse_plain(root, {}))
        except YamlSyntaxError:
            foreign = looks_like_helm(text)
        if not foreign:
            return self.read_yaml(recipe, text)
        draft = await self.parse_pasted(recipe, text, variables=variables)
        if draft.recipe and draft.recipe != recipe and not draft.problems:
            words = f"These are values of {draft.recipe}, and this is {recipe}."
            return replace(draft, problems=(Remark("recipe", words),))
        return draft

    async def detect_recipe(self, text: str, *, variables: Mapping[str, str] | None = None) -> str:
        """The recipe that a values file or pasted helm command names, not checked to exist; empty if it names none."""
        try:
            root, _ = parse_text(text)
        except YamlSyntaxError:
            if not looks_like_helm(text):
                return ""
            return (await self.parse_pasted(self._chart_catalog.recipes()[0].id, text, variables=variables)).recipe
        tree = parse_plain(root, {}) if root else {}
        found = get_path(tree, "recipe.id") if isinstance(tree, Mapping) else None
        return found if isinstance(found, str) else ""

    def overlay_draft(self, lower_values: Mapping[str, Value], draft: Draft) -> dict[str, Value]:
        """Merge a draft's values over others; a value that the draft sets to its default wins too."""
        laid = overlay_values(lower_values, draft.values)
        for path, _, value in self._iter_changed_values(draft.given):
            there, under = _get_if_set(lower_values, path.split("."))
            if isinstance(value, Mapping) and isinstance(under, Mapping):
                set_path(laid, path, {**under, **value})
            elif there:
                set_path(laid, path, value)
        return laid

    def _remarks_on_recipe(self, recipe: str, parsed: ParsedValues) -> list[Remark]:
        """Remarks on values that this recipe does not have, and on the name of another recipe."""
        found = []
        if parsed.recipe and parsed.recipe != recipe:
            words = f"These are values of {parsed.recipe}, and this is {recipe}."
            return [
                Remark("recipe", words, parsed.line_of(("recipe", "id")))
            ]  # each of its values would be named as well
        for path, part in iter_fields(self._schema):
            if recipe in part.get("x-recipes", [recipe]) or get_path(parsed.values, path) is None:
                continue
            words = f"{path} is not a value of {recipe}; it belongs to {', '.join(part['x-recipes'][:3])}."
            found.append(Remark(path, words, parsed.line_of(tuple(path.split(".")))))
        return found

    async def parse_pasted(self, recipe: str, text: str, *, variables: Mapping[str, str] | None = None) -> Draft:
        """Parse a values file or helm command; $NAME is taken from the environment, then from `variables`."""
        known = {"USER": login_name(), **(variables or {})}
        for name, value in os.environ.items():
            # What is pasted may come from anybody.
            if not is_confidential(name, value) and not looks_confidential(value):
                known[name] = value
        # Terminals end the lines of what they paste with a carriage return.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        try:
            if looks_like_helm(text):
                return await self._parse_command(recipe, parse_helm_line(text, known))
            root, repeated = parse_text(text)
            return Draft(problems=repeated) if repeated else self._parse_values_file(recipe, root)
        except YamlSyntaxError as error:
            return Draft(problems=(error.remark,))
        except BadInput as error:
            return Draft(problems=(Remark("", str(error)),))

    def changed_values(self, recipe: str, values: Mapping[str, Value]) -> dict[str, Value]:
        """The given values as changes of a recipe's defaults; values of other recipes are dropped."""
        defaults = self._chart_catalog.defaults(recipe)
        changes: dict[str, Value] = {}
        for path, part, value in self._iter_changed_values(values):
            default = get_path(defaults, path)
            if recipe not in part.get("x-recipes", [recipe]) or (value == default and type(value) is type(default)):
                continue
            change = value
            if isinstance(default, Mapping) and isinstance(value, Mapping):
                # Of a map the names that differ; null for one that the default has goes on to remove it.
                change = {name: item for name, item in value.items() if name not in default or default[name] != item}
            if not isinstance(change, Mapping) or change or not isinstance(default, Mapping):
                set_path(changes, path, change)
        return changes

    def _iter_changed_values(self, values: Mapping[str, Value]) -> Iterator[tuple[str, Schema, Value]]:
        """Yield (path, schema, value) of everything the values set, null included, in the schema's order."""
        for path, part in iter_fields(self._schema):
            given, value = _get_if_set(values, path.split("."))
            if given:
                yield path, part, value

    def _order_values(self, values: Mapping[str, Value], without: Sequence[str] = ()) -> dict[str, Value]:
        ordered: dict[str, Value] = {}
        for path, _, value in self._iter_changed_values(values):
            if path not in without:
                set_path(ordered, path, value)
        return ordered

    def _hidden_values(self, values: Mapping[str, Value]) -> dict[str, Value]:
        hidden = dict(overlay_values({}, values))
        for path, part, value in self._iter_changed_values(values):
            if part.get("x-secret") and value:
                set_path(hidden, path, HIDDEN)
            elif isinstance(value, Mapping) and path != "secrets":
                items = {name: HIDDEN if is_confidential(name, item) else item for name, item in value.items()}
                set_path(hidden, path, items)
        return hidden

    def helm_command(self, plan: LaunchPlan) -> HelmCommand:
        """The helm command that creates the same release. Raises BadInput if the plan has problems."""
        self._chart_catalog.require_valid(plan)
        recipe = self._chart_catalog.find_recipe(plan.recipe).id
        passed = self._chart_catalog.chart_values(plan)
        launchers = passed.pop("launchers")
        assert isinstance(launchers, Mapping)
        secret = [path for path, part in iter_fields(self._schema) if part.get("x-secret") and get_path(passed, path)]
        shown = overlay_values({"recipe": {"id": recipe}}, self._order_values(passed, without=secret))
        return helm_command(
            plan.name,
            str(self._chart_catalog.chart),
            [("--namespace", plan.namespace), ("--labels", f"{RECIPE_LABEL}={recipe}")],
            shown,
            write_values(shown),
            files={f"launchers.{name}": str(assets.launchers_folder() / name) for name in launchers},
            secrets={path: re.sub(r"\W", "_", path).upper() for path in secret},
        )

    async def diff_with(self, plan: LaunchPlan, against: Mapping[str, Value] | None = None) -> tuple[ObjectDiff, ...]:
        """The differences of the plan's objects from those of the recipe's defaults, or of the values `against`."""
        base = LaunchPlan(plan.recipe, plan.name, plan.namespace, dict(against or {}))
        after = await self._render(plan)
        if self._last_rendering is None or self._last_rendering[0] != base:
            self._last_rendering = base, await self._render(base)
        return diff_manifests(self._last_rendering[1], after)

    def _parse_values_file(self, recipe: str, root: YamlNode | None) -> Draft:
        tree = parse_plain(root, {}) if root else {}
        assert isinstance(tree, Mapping)
        if _is_of_gpu_recipes(tree):
            return self._translate_gpu_recipe(recipe, dict(tree), {}, TranslatedValues())
        read = read_values(root, self._chart_catalog.schema, {})
        known, left = self._recipe_or_default(read.recipe, recipe)
        mine = {field.path for field in self._chart_catalog.fields(known)}
        remarks = [
            Remark(path, f"{path} was not imported: it has no effect in {known}.", read.line_of(tuple(path.split("."))))
            for path in self._known
            if path not in mine and get_path(read.values, path) is not None
        ]
        return Draft(
            self.changed_values(known, read.values),
            read.values,
            known if read.recipe else "",
            left_out=(*left, *read.problems, *remarks),
            notes=tuple(read.notes),
        )

    def _recipe_or_default(self, name: str, default: str) -> tuple[str, list[Remark]]:
        try:
            return self._chart_catalog.find_recipe(name or default).id, []
        except BadInput as error:
            return self._chart_catalog.find_recipe(default).id, [Remark("recipe", error.message)]

    async def _parse_command(self, recipe: str, line: HelmLine) -> Draft:
        texts = await asyncio.to_thread(_read_files, line.files)
        out = TranslatedValues()
        trees = [tree for path in line.files if (tree := self._values_file(path, texts, out)) is not None]
        root = merge_sources(trees, line.settings, out)
        given: Any = [each for _, each in iter_leaf_values(root, ())]
        texts |= await asyncio.to_thread(_read_files, [str(each) for each in given if isinstance(each, FileValue)])
        label = f"{RECIPE_LABEL}="
        named = next((each.removeprefix(label) for each in line.labels.split(",") if each.startswith(label)), "")
        own = get_path(root, "recipe.id")
        draft = self._translate_gpu_recipe(str(own) if isinstance(own, str) else named or recipe, root, texts, out)
        notes = list(draft.notes)
        if line.other_commands:
            notes.append(Remark("", f"Only the first of {line.other_commands + 1} helm commands was imported."))
        left = [*draft.left_out]
        if line.unknown_variables:
            words = f"The release's name was not imported: {', '.join(line.unknown_variables)} is not known here."
            left.append(Remark("name", words))
        recipe_id = draft.recipe or (self._recipe_or_default(named, recipe)[0] if named else str(own or ""))
        return Draft(draft.values, draft.given, recipe_id, line.name, line.namespace, (), tuple(left), tuple(notes))

    def _values_file(self, path: str, texts: Mapping[str, str], out: TranslatedValues) -> Mapping[str, Any] | None:
        if path not in texts:
            words = "cannot be read from here, so its values were not imported; paste its text if it was changed."
            out.add_note("", f"{path} {words}")
            return None
        try:
            root, repeated = parse_text(texts[path])
        except YamlSyntaxError as error:
            out.leave_out(path, error.message.rstrip("."))
            return None
        out.notes += repeated
        tree = parse_plain(root, {}) if root else {}
        return tree if isinstance(tree, Mapping) else None

    def _translate_gpu_recipe(
        self, recipe: str, root: dict[str, Any], texts: Mapping[str, str], out: TranslatedValues
    ) -> Draft:
        schema = self._chart_catalog.schema
        translate_values(root, set(schema["properties"]), texts, out)
        known, left = self._recipe_or_default(out.recipe, self._recipe_or_default(recipe, recipe)[0])
        fields = {field.path: field for field in self._chart_catalog.fields(known)}
        values: dict[str, Value] = {}
        # What is left in the tree by the names of this chart follows; unknown names are reported.
        own = [(path, given) for path in self._known if (given := pop_at(root, tuple(path.split(".")))) is not None]
        pop_at(root, ("recipe", "id"))
        for path in (path for path, given in iter_field_values(root, ()) if given not in (None, {})):
            out.left_out.append(Remark(path, f"{path} is not a value of the chart{suggest_path(path, self._known)}"))
        for path, given in (*out.values, *own):
            self._set_imported(values, fields, known, path, given, out)
        left_out = (*left, *out.left_out)
        words = known if out.recipe else ""
        return Draft(self.changed_values(known, values), values, words, left_out=left_out, notes=tuple(out.notes))

    @staticmethod
    def _set_imported(
        values: dict[str, Value], fields: Mapping[str, Field], recipe: str, path: str, given: Any, out: TranslatedValues
    ) -> None:
        name = ""
        field = fields.get(path)
        if field is None:
            above, _, name = path.partition(".")
            field = fields.get(above) if above == "env" else None
        if field is None:
            if given not in ("", "false", False, None):
                out.leave_out(path, f"it has no effect in {recipe}")
            return
        try:
            value = coerce_value(field, {name: given} if name else given)
        except BadInput as error:
            out.leave_out(path, error.message.rstrip("."))
            return
        before = get_path(values, field.path)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            value = {**before, **value}
        set_path(values, field.path, value)

    def locate_problems(self, plan: LaunchPlan, error: ConsoleError) -> tuple[FieldProblem, ...]:
        """The problems of an error by field; empty if the error is about no field."""
        if isinstance(error, (InvalidValues, NoSuchQueue)) and error.problems:
            return error.problems
        message = error.message
        if isinstance(error, Conflict) and plan.name in message:
            return (FieldProblem("name", message),)
        if isinstance(error, NotFound) and re.search(rf'amespaces? "?{re.escape(plan.namespace)}\b', message):
            return (FieldProblem("namespace", message),)
        found = find_field_of_message(message, self._chart_catalog.fields(plan.recipe))
        return (FieldProblem(found, message),) if found else ()


def _is_of_gpu_recipes(tree: Value) -> bool:
    """Whether values are meant for Google's gpu-recipes charts, by names that only those have."""
    network = get_path(tree, "network") if isinstance(tree, Mapping) else None
    named = isinstance(tree, Mapping) and bool(RECIPE_KEYS & {*tree})
    return named or (isinstance(network, Mapping) and bool({"gibVersion", "ncclSettings"} & {*network}))


def _get_if_set(values: Mapping[str, Value], names: Sequence[str]) -> tuple[bool, Value]:
    """(whether a value is set at a path, null included; the value)."""
    first, *rest = names
    if first not in values:
        return False, None
    value = values[first]
    if not rest:
        return True, value
    return _get_if_set(value, rest) if isinstance(value, Mapping) else (False, None)


def _read_files(paths: list[str]) -> dict[str, str]:
    """By path the texts of those files that exist here; a pasted command may be from another machine."""
    found: dict[str, str] = {}
    for path in paths:
        file = Path(path).expanduser()
        if Path(path).name in RECIPE_OF_SCRIPT:
            continue
        try:
            if file.is_file() and file.stat().st_size <= MAX_TEXT_CHARACTERS:
                found[path] = file.read_text()
        except (OSError, UnicodeDecodeError, ValueError):
            continue
    return found
