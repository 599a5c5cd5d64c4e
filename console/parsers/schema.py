"""The chart's values.schema.json in, recipes and form fields out.

Nothing else in the console knows a field by name: a property added to the schema is a field of the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console.errors import Unreadable
from console.models.launch import Field, FieldKind, Recipe, Value
from console.models.values import look, merge

Schema = Mapping[str, Any]
"""A parsed JSON schema, or a part of one."""


def parse_recipes(schema: Schema) -> tuple[Recipe, ...]:
    """The recipes, in the order of the schema's own list."""
    known = _recipe_options(schema)
    return tuple(
        Recipe(
            id=name,
            title=str(option["title"]),
            code=str(option["code"]),
            summary=str(option["summary"]),
            needs=str(option["needs"]),
            gives=str(option["gives"]),
            duration=str(option["duration"]),
            suffix=str(option["suffix"]),
        )
        for name, option in known.items()
    )


def parse_defaults(schema: Schema) -> dict[str, Value]:
    """Every value's default in the chart, nested; without what the console passes by itself (launchers)."""
    return {
        name: parse_defaults(part) if "properties" in part else part["default"]
        for name, part in schema["properties"].items()
        if not (part.get("x-hidden") and part["type"] == "object")
    }


def recipe_changes(schema: Schema, recipe: str) -> dict[str, Value]:
    """What a recipe changes of the chart's defaults, its own name among them."""
    options = _recipe_options(schema)
    return merge(options[recipe].get("defaults", {}), {"recipe": {"id": recipe}})


def recipe_launchers(schema: Schema, recipe: str) -> tuple[str, ...]:
    """The scripts that a recipe's own launcher needs beside it."""
    return tuple(_recipe_options(schema)[recipe].get("launchers", ()))


def parse_fields(schema: Schema, recipe: str) -> tuple[Field, ...]:
    """The fields a recipe's form has, section by section; a section stands where its first field stands."""
    defaults = merge(parse_defaults(schema), recipe_changes(schema, recipe))
    fields = [
        _field(path, part, look(defaults, path))
        for path, part in leaves(schema)
        if not part.get("x-hidden") and recipe in part.get("x-recipes", [recipe])
    ]
    section: dict[str, int] = {}
    for field in fields:
        section[field.group] = min(field.order, section.get(field.group, field.order))
    return tuple(sorted(fields, key=lambda field: (section[field.group], field.order)))


def leaves(schema: Schema, above: str = "") -> Iterator[tuple[str, Schema]]:
    """Dotted path and schema of every property that is one value, however that value is built."""
    for name, part in schema["properties"].items():
        path = f"{above}.{name}" if above else name
        if "properties" in part:
            yield from leaves(part, path)
        else:
            yield path, part


def _recipe_options(schema: Schema) -> Mapping[str, Schema]:
    options: Schema = schema["properties"]["recipe"]["properties"]["id"]
    if set(options["x-options"]) != set(options["enum"]):
        raise Unreadable("values.schema.json describes other recipes than it allows.")
    described: Mapping[str, Schema] = options["x-options"]
    return described


def _field(path: str, part: Schema, default: Value) -> Field:
    return Field(
        path=path,
        title=str(part["title"]),
        description=str(part["description"]),
        kind=_kind(path, part),
        default=default,
        choices=tuple(str(word) for word in part.get("enum", ())),
        choices_from=str(part.get("x-choices", "")),
        unit=str(part.get("x-unit", "")),
        pattern=str(part.get("pattern", "")),
        rule=str(part.get("x-rule", "")),
        minimum=part.get("minimum"),
        maximum=part.get("maximum"),
        multiple_of=part.get("multipleOf"),
        examples=tuple(_example(example) for example in part.get("examples", ())),
        group=str(part.get("x-group", "")),
        order=int(part.get("x-order", 0)),
        advanced=bool(part.get("x-advanced")),
        secret=bool(part.get("x-secret")),
        required=part.get("minLength", 0) > 0,
    )


def _kind(path: str, part: Schema) -> FieldKind:
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


def _example(example: object) -> str:
    if isinstance(example, Mapping):
        return " ".join(f"{name}={value}" for name, value in example.items())
    if isinstance(example, Sequence) and not isinstance(example, str):
        return ", ".join(_example(item) for item in example)
    return str(example)
