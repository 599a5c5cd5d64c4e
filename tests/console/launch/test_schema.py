"""The schema alone makes the form."""

import copy
from typing import Any

import pytest

from console.errors import Unreadable
from console.launch.install import ChartCatalog
from console.launch.recipes import FieldKind
from console.launch.values_schema import parse_defaults, parse_fields, parse_recipes

SCHEMA = ChartCatalog.from_chart().schema


def schema() -> dict[str, Any]:
    """A copy to change."""
    return copy.deepcopy(dict(SCHEMA))


def test_a_value_added_to_the_schema_is_a_field() -> None:
    changed = schema()
    changed["properties"]["storage"]["properties"]["lustre"] = {
        "type": "string",
        "title": "Lustre",
        "description": "Where Managed Lustre is mounted.",
        "default": "/lustre",
        "pattern": "^/",
        "x-rule": "must be a path",
        "x-group": "Storage",
        "x-order": 5000,
        "x-unit": "path",
        "x-choices": "pvcs",
        "x-secret": True,
    }
    assert parse_defaults(changed)["storage"]["lustre"] == "/lustre"  # type: ignore[index,call-overload]
    (field,) = (field for field in parse_fields(changed, "interactive") if field.path == "storage.lustre")
    assert (field.title, field.kind, field.default, field.group) == ("Lustre", FieldKind.TEXT, "/lustre", "Storage")
    assert (field.rule, field.pattern, field.unit, field.choices_from) == ("must be a path", "^/", "path", "pvcs")
    assert (field.secret, field.advanced, field.required) == (True, False, False)


def test_a_recipe_sees_its_own_fields_only() -> None:
    nccl, ddp = ({field.path for field in parse_fields(SCHEMA, recipe)} for recipe in ("nccl-all-reduce", "ddp-smoke"))
    assert nccl - ddp == {f"recipe.nccl.{name}" for name in ("begin", "end", "factor", "iterations", "warmup")}
    assert not {"launchers", "recipe.id"} & (nccl | ddp)


def test_a_recipes_defaults_stand_in_its_fields() -> None:
    fields = {field.path: field for field in parse_fields(SCHEMA, "interactive")}
    assert fields["keepAlive"].default is True
    assert {field.path: field for field in parse_fields(SCHEMA, "ddp-smoke")}["keepAlive"].default is False


def test_sections_and_fields_keep_the_schemas_order() -> None:
    fields = parse_fields(SCHEMA, "nccl-all-reduce")
    groups = list(dict.fromkeys(field.group for field in fields))
    assert groups[:2] == ["Job", "NCCL test"]
    assert [field.group for field in fields] == sorted((field.group for field in fields), key=groups.index)
    assert [field.path for field in fields[:3]] == ["gpus", "queue", "image"]


def test_kinds_follow_the_types() -> None:
    kinds = {field.path: field.kind for field in parse_fields(SCHEMA, "nccl-all-reduce")}
    assert kinds["gpus"] is FieldKind.INTEGER
    assert kinds["topology.request"] is FieldKind.CHOICE
    assert kinds["env"] is FieldKind.MAP
    assert kinds["placement.avoidNodes"] is FieldKind.LIST
    assert kinds["placement.tolerations"] is FieldKind.ROWS
    assert kinds["keepAlive"] is FieldKind.BOOLEAN


def test_recipes_come_from_the_schema() -> None:
    recipes = parse_recipes(SCHEMA)
    assert [(recipe.id, recipe.code) for recipe in recipes[:3]] == [
        ("nccl-all-reduce", "W03"),
        ("ddp-smoke", "W05"),
        ("interactive", "W01"),
    ]
    # Building images (W23) is no launch.
    assert sorted(recipe.code for recipe in recipes) == [f"W{number:02d}" for number in range(1, 25) if number != 23]


def test_a_recipe_nobody_described_is_noticed() -> None:
    changed = schema()
    changed["properties"]["recipe"]["properties"]["id"]["enum"].append("mystery")
    with pytest.raises(Unreadable, match="describes other recipes than it allows"):
        parse_recipes(changed)


def test_a_type_without_an_input_is_noticed() -> None:
    changed = schema()
    changed["properties"]["gpus"]["type"] = "null"
    with pytest.raises(Unreadable, match="gpus has the type null"):
        parse_fields(changed, "ddp-smoke")
