"""Recipes and form fields from the chart's values.schema.json, the one place that names them, and checks by it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from console.errors import Unreadable
from console.kube.nested_values import Value, get_path, merge_values
from console.launch.field_values import quote_value
from console.launch.recipes import Field, FieldKind, FieldProblem, Recipe
from trainlog import is_confidential, looks_confidential, redact_text

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


Schema = Mapping[str, Any]  # a parsed JSON schema, or a part of one


def parse_recipes(schema: Schema) -> tuple[Recipe, ...]:
    words = ("title", "code", "summary", "needs", "gives", "duration", "suffix")
    return tuple(Recipe(id, *(str(option[word]) for word in words)) for id, option in _recipe_options(schema).items())


def parse_defaults(schema: Schema) -> dict[str, Value]:
    """The chart's default values, nested, without those that this program passes itself (launchers)."""
    return {
        name: parse_defaults(part) if "properties" in part else part["default"]
        for name, part in schema["properties"].items()
        if not (part.get("x-hidden") and part["type"] == "object")
    }


def values_of_recipe(schema: Schema, recipe: str) -> dict[str, Value]:
    """The recipe's changes of the chart's defaults, including its own name."""
    options = _recipe_options(schema)
    return merge_values(options[recipe].get("defaults", {}), {"recipe": {"id": recipe}})


def recipe_launchers(schema: Schema, recipe: str) -> tuple[str, ...]:
    return tuple(_recipe_options(schema)[recipe].get("launchers", ()))


def parse_fields(schema: Schema, recipe: str) -> tuple[Field, ...]:
    """The form fields of a recipe by section; sections are in the order of their first fields."""
    defaults = merge_values(parse_defaults(schema), values_of_recipe(schema, recipe))
    fields = [
        _parse_field(path, part, get_path(defaults, path))
        for path, part in iter_fields(schema)
        if not part.get("x-hidden") and recipe in part.get("x-recipes", [recipe])
    ]
    section: dict[str, int] = {}
    for field in fields:
        section[field.group] = min(field.order, section.get(field.group, field.order))
    return tuple(sorted(fields, key=lambda field: (section[field.group], field.order)))


def iter_fields(schema: Schema, parent_path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield (path, schema) of every property, below `parent_path` if given, that is one field; a map or list is one."""
    for name, part in schema["properties"].items():
        path = f"{parent_path}.{name}" if parent_path else name
        if "properties" in part:
            yield from iter_fields(part, path)
        else:
            yield path, part


def _recipe_options(schema: Schema) -> Mapping[str, Schema]:
    options: Schema = schema["properties"]["recipe"]["properties"]["id"]
    if set(options["x-options"]) != set(options["enum"]):
        raise Unreadable("values.schema.json describes other recipes than it allows.")
    described: Mapping[str, Schema] = options["x-options"]
    return described


def _parse_field(path: str, part: Schema, default: Value) -> Field:
    return Field(
        path=path,
        title=str(part["title"]),
        description=str(part["description"]),
        kind=_field_kind(path, part),
        default=default,
        choices=tuple(str(word) for word in part.get("enum", ())),
        choices_from=str(part.get("x-choices", "")),
        unit=str(part.get("x-unit", "")),
        pattern=str(part.get("pattern", "")),
        rule=str(part.get("x-rule", "")),
        examples=tuple(_parse_example(example) for example in part.get("examples", ())),
        group=str(part.get("x-group", "")),
        order=int(part.get("x-order", 0)),
        advanced=bool(part.get("x-advanced")),
        secret=bool(part.get("x-secret")),
        required=part.get("minLength", 0) > 0,
    )


def _field_kind(path: str, part: Schema) -> FieldKind:
    if "enum" in part:
        return FieldKind.CHOICE
    if part["type"] == "array":
        return FieldKind.ROWS if part["items"].get("type") == "object" else FieldKind.LIST
    if part.get("x-multiline"):
        return FieldKind.BLOCK
    kinds = {
        "string": FieldKind.TEXT,
        "integer": FieldKind.INTEGER,
        "number": FieldKind.NUMBER,
        "boolean": FieldKind.BOOLEAN,
        "object": FieldKind.MAP,
    }
    if part["type"] not in kinds:
        raise Unreadable(f"values.schema.json: {path} has the type {part['type']}, for which there is no input.")
    return kinds[part["type"]]


def _parse_example(example: object) -> str:
    if isinstance(example, Mapping):
        return " ".join(f"{name}={value}" for name, value in example.items())
    if isinstance(example, Sequence) and not isinstance(example, str):
        return ", ".join(_parse_example(item) for item in example)
    return str(example)


_FIELD_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map of names and values",
}


class ValuesChecker:
    """A compiled schema, to check values at every keystroke."""

    def __init__(self, schema: Schema) -> None:
        from jsonschema import Draft202012Validator  # only launching pays for it

        self._schema = schema
        self._validator = Draft202012Validator(schema)
        self._field_schemas = dict(iter_fields(schema))
        self._places = {path: place for place, path in enumerate(self._field_schemas)}

    def problems(self, values: Mapping[str, Value]) -> tuple[FieldProblem, ...]:
        """The problems of complete values: at most one sentence per field, in the schema's order."""
        found: dict[str, FieldProblem] = {}
        for error in self._validator.iter_errors(values):
            for problem in _problems_of_error(error, self._schema, self._field_schemas):
                found.setdefault(problem.path, problem)
        return tuple(sorted(found.values(), key=lambda problem: self._places.get(problem.path, -1)))

    def null_problems(self, changes: Mapping[str, Value]) -> tuple[FieldProblem, ...]:
        """Problems with null values, which are allowed in maps only, where they remove a name."""
        return tuple(
            FieldProblem(path, f"{part['title']} may not be null; leave it out to have its default.")
            for path, part in self._field_schemas.items()
            if _holds_null(changes, path.split("."))
        )


def _holds_null(level: Mapping[str, Value], names: Sequence[str]) -> bool:
    first, *rest = names
    if first not in level:
        return False
    value = level[first]
    if rest and isinstance(value, Mapping):
        return _holds_null(value, rest)
    return value is None


def _problems_of_error(error: ValidationError, schema: Schema, schemas: Mapping[str, Schema]) -> list[FieldProblem]:
    path, rest = _field_of_path(error.absolute_path, schemas)
    if error.validator == "additionalProperties" and path not in schemas:
        return _unknown_name_problems(error, schema, path)
    part = schemas.get(path)
    if part is None:
        kind = _FIELD_KINDS.get(str(error.validator_value), "something else")
        return [FieldProblem(path, f"{path or 'The values'} must be {kind}{quote_value(error.instance)}.")]
    # A name that a map may not have is reported on the map.
    keys = [*rest, str(error.instance)] if "propertyNames" in error.absolute_schema_path else rest
    return [FieldProblem(path, _format_problem(part, error, rest), tuple(keys))]


def _field_of_path(keys: Iterable[str | int], schemas: Mapping[str, Schema]) -> tuple[str, list[str | int]]:
    """(dotted path of the field, rest of the path inside its value) for the path of a schema error."""
    path = ""
    way = list(keys)
    while way and path not in schemas:
        name = way.pop(0)
        path = f"{path}.{name}" if path else str(name)
    return path, way


def _unknown_name_problems(error: ValidationError, schema: Schema, parent_path: str) -> list[FieldProblem]:
    known = [path for path, _ in iter_fields(schema)]
    allowed = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    given: Any = error.instance
    names = [name for name in given if name not in allowed]
    paths = [f"{parent_path}.{name}" if parent_path else str(name) for name in names]
    return [FieldProblem(path, f"{path} is not a value of the chart{suggest_path(path, known)}") for path in paths]


def _format_problem(part: Schema, error: ValidationError, rest: Sequence[str | int]) -> str:
    inside = [f" entry {key + 1}" if isinstance(key, int) else f" {key}" for key in rest]
    title = str(part["title"]) + (f",{','.join(inside)}," if inside else "")
    value: Any = error.instance
    expected: Any = error.validator_value
    # Where a reference to a Secret belongs, its value may have been pasted: neither is repeated.
    named = part.get("x-secret") or part.get("x-choices") == "secrets"
    given = "" if named or any(is_confidential(str(key)) for key in rest) else quote_value(value)
    if error.validator == "not" and "propertyNames" in error.absolute_schema_path:
        # jsonschema reports a name that a map may not have on the map's name rules.
        return f"{part['title']}: {value} is set by the chart itself and cannot be given."
    if error.validator == "required":
        missing = [name for name in expected if name not in value]
        return f"{title} must have {', '.join(missing)}{given}."
    if error.validator == "type":
        return f"{title} must be {_FIELD_KINDS.get(str(expected), expected)}{given}."
    if error.validator == "enum":
        return f"{title} must be one of {', '.join(map(str, expected))}{given}."
    rule = str(part.get("x-rule", ""))
    if error.validator == "minimum" and not rule:
        return f"{title} must be at least {expected:,}{given}."
    if error.validator == "maximum":
        return f"{title} must be at most {expected:,}{given}."
    if error.validator == "maxLength":
        return f"{title} may have {expected} characters at most{given}."
    return f"{title} {rule or 'does not fit'}{given}."


_OTHER_NAMES = (("nodes", "gpus"), ("pods", "gpus"))  # what else values are looked for by


def suggest_path(path: str, known_names: Sequence[str]) -> str:
    """The end of a sentence about an unknown path: the closest known path, else the names on that level."""
    group, _, name = path.rpartition(".")
    names = [one.rpartition(".")[2] for one in known_names if one.rpartition(".")[0] == group]
    above = f"{group}." if group else ""
    near = [one for one in known_names if one.rpartition(".")[2] == name]
    near = near or [f"{above}{one}" for one in difflib.get_close_matches(name, names, n=1)]
    if not near and group and names:
        return f"; {group} has {', '.join(names)}."
    others = {other: one for other, one in _OTHER_NAMES if one in known_names}
    leaves = {one.rpartition(".")[2]: one for one in known_names} | others
    near = near or [leaves[one] for one in difflib.get_close_matches(name, leaves, n=1, cutoff=0.75) if len(name) > 2]
    return f"; did you mean {near[0]}?" if near else "."


_SHELL_ASSIGNMENT = re.compile(r"(?m)^\s*(?:export\s+)?([A-Za-z_]\w*)=[\"']?(?!\$)([^\s\"']+)")


def confidential_problems(values: Mapping[str, Value]) -> tuple[FieldProblem, ...]:
    """Problems with secrets given as plain values: they would be visible in the release, pods and histories."""
    found: dict[str, FieldProblem] = {}
    env = values.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if value is not None and (is_confidential(name, value) or looks_confidential(str(value))):
            message = (
                f"{name} looks like a secret and is not allowed in Environment, which every user can read; put it in "
                f"a Secret and name that under Secrets: secrets.{name}=SECRET/KEY."
            )
            found.setdefault("env", FieldProblem("env", message, (name,)))
    for keys, text in iter_leaf_values(values, ()):
        path = ".".join(map(str, keys))
        if path.partition(".")[0] != "env" and isinstance(text, str) and looks_confidential(text):
            message = f"{path} holds a token or private key; keep it in a Secret, and name that under Secrets."
            found.setdefault(path, FieldProblem(path, message))
    return tuple(found.values())


def iter_leaf_values(value: Value, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Value]]:
    """Yield every scalar value with its path; nulls are left out."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from iter_leaf_values(item, (*keys, str(name)))
    elif isinstance(value, Sequence) and value and not isinstance(value, str):
        for place, item in enumerate(value):
            yield from iter_leaf_values(item, (*keys, place))
    elif value is not None:
        yield keys, value


def without_secrets(fields: Sequence[Field], values: Mapping[str, Value]) -> tuple[dict[str, Value], tuple[str, ...]]:
    known = {field.path: field for field in fields}
    references = {field.path for field in fields if field.choices_from == "secrets"}
    left_out: list[str] = []

    def keep_plain(level: Mapping[str, Value], parent_path: str) -> dict[str, Value]:
        safe: dict[str, Value] = {}
        for name, value in level.items():
            path = f"{parent_path}.{name}" if parent_path else name
            variable = "" if path in known or parent_path in references else name
            if (path in known and known[path].secret) or _is_secret(variable, value) or looks_confidential(name):
                left_out.append(redact_text(path))
            else:
                safe[name] = keep_plain(value, path) if isinstance(value, Mapping) else value
        return safe

    return keep_plain(values, ""), tuple(left_out)


def _is_secret(variable: str, value: Value) -> bool:
    if isinstance(value, str):
        assigned = any(is_confidential(name, each) for name, each in _SHELL_ASSIGNMENT.findall(value))
        return is_confidential(variable, value) or looks_confidential(value) or assigned
    if isinstance(value, Sequence):
        return any(_is_secret(str(keys[-1]), leaf) for keys, leaf in iter_leaf_values(value, ()) if leaf)
    if isinstance(value, Mapping):
        return False  # looked into name by name
    return value is not None and not isinstance(value, bool) and is_confidential(variable, str(value))
