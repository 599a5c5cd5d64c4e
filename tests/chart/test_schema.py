"""values.schema.json is complete: whoever reads only it can build the form, check the values and explain them."""

import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from console import assets
from console.kube.nested_values import merge_values
from console.launch.install import ChartCatalog
from console.launch.values_schema import iter_fields, parse_defaults

CATALOGUE = ChartCatalog.from_chart()
SCHEMA = CATALOGUE.schema
LEAVES = dict(iter_fields(SCHEMA))
ANNOTATIONS = {
    "x-group", "x-order", "x-advanced", "x-secret", "x-hidden",
    "x-unit", "x-rule", "x-choices", "x-recipes", "x-options", "x-multiline",
}  # fmt: skip
OFFERED = {
    "localqueues", "nodes", "pvcs", "secrets", "serviceaccounts", "images", "topologylevels", "accelerators",
    "priorityclasses", "buckets", "lustre", "filestore", "nodelabels",
}  # fmt: skip


def test_it_is_a_schema_of_draft_2020_12() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


def test_its_defaults_are_the_charts_values() -> None:
    values = yaml.safe_load((assets.chart_folder() / "values.yaml").read_text())
    assert values.pop("launchers") == {}
    assert parse_defaults(SCHEMA) == values


@pytest.mark.parametrize("path", LEAVES)
def test_every_value_explains_itself(path: str) -> None:
    part = LEAVES[path]
    assert {"type", "title", "description", "default"} <= set(part)
    assert len(part["description"]) > 20
    assert part["description"].endswith((".", ")"))
    assert {name for name in part if name.startswith("x-")} <= ANNOTATIONS
    if "x-choices" in part:
        assert part["x-choices"] in OFFERED
    if not part.get("x-hidden"):
        assert {"x-group", "x-order"} <= set(part)
    if "pattern" in part:
        assert part["x-rule"].startswith("must be "), "a pattern explains nothing: x-rule says what fits"
        re.compile(part["pattern"])
    if part["type"] in {"string", "integer"} and "enum" not in part:
        assert part["examples"]


def test_no_word_needs_another_text_to_be_understood() -> None:
    """Codes of recipes and names of documents mean nothing to whoever reads the form."""
    said: dict[str, tuple[str, ...]] = {}
    for path, part in LEAVES.items():
        said[path] = (part["title"], part["description"], part.get("x-rule", ""))
    for each in CATALOGUE.recipes():
        said[each.id] = (each.title, each.summary, each.needs, each.gives, each.duration)
    code = re.compile(r"\b[Dd]ocuments?\b|(?<![\d,])00\d\b|\bW\d\d\b")
    assert {path: found for path, words in said.items() for word in words for found in code.findall(word)} == {}


def test_what_tells_recipes_apart_comes_first_in_their_titles() -> None:
    """In a list of them the first words are read: what is done, and with which model."""
    titles = [each.title for each in CATALOGUE.recipes()]
    alike = [(one, other) for one in titles for other in titles if one < other and one[:24] == other[:24]]
    assert alike == []
    assert max(map(len, titles)) <= 40, "the list is so wide"
    assert not [title for title in titles if title.startswith("Qwen3")], "the family of most models tells none apart"


@pytest.mark.parametrize("path", LEAVES)
def test_examples_and_defaults_fit(path: str) -> None:
    part = LEAVES[path]
    checker = Draft202012Validator(part)
    for value in [part["default"], *part.get("examples", [])]:
        if not (path == "ssh.publicKey" and "..." in str(value)):
            checker.validate(value)


def test_queues_claims_and_nodes_are_offered_from_the_cluster() -> None:
    assert {path: part["x-choices"] for path, part in LEAVES.items() if "x-choices" in part} == {
        "queue": "localqueues",
        "image": "images",
        "secrets": "secrets",
        "imagePullSecrets": "secrets",
        "topology.level": "topologylevels",
        "placement.accelerator": "accelerators",
        "placement.targetNodes": "nodes",
        "placement.avoidNodes": "nodes",
        "network.gib.image": "images",
        "placement.nodeSelector": "nodelabels",
        "storage.pvc": "pvcs",
        "storage.gcs": "buckets",
        "storage.nfs.server": "filestore",
        "storage.nfs.instance": "filestore",
        "storage.lustre.server": "lustre",
        "storage.lustre.instance": "lustre",
        "storage.nfs.claim": "pvcs",
        "storage.lustre.claim": "pvcs",
        "serviceAccount": "serviceaccounts",
        "priorityClass": "priorityclasses",
    }


def test_the_27_arguments_are_in_the_form_and_explained() -> None:
    """Each says which argument of run_mcore_qwen3.sh it is; 2 and 24 belong to the model as well."""
    told = {
        int(number)
        for path, part in LEAVES.items()
        if path.startswith("recipe.train.") or path == "recipe.model.size"
        for number in re.findall(r"(?:[Aa]rgument|, 2) ?(\d+)", part["description"])
    }
    assert sorted(told) == list(range(1, 28))


def test_no_group_of_values_takes_what_it_does_not_know() -> None:
    def open_groups(schema: dict[str, Any], path: str) -> list[str]:
        found = [] if schema.get("additionalProperties") is False else [path]
        for name, part in schema["properties"].items():
            if "properties" in part:
                found += open_groups(part, f"{path}.{name}")
        return found

    assert open_groups(dict(SCHEMA), "") == []


def test_orders_are_unique() -> None:
    orders = [part["x-order"] for part in LEAVES.values() if "x-order" in part]
    assert len(orders) == len(set(orders))


@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
def test_a_recipes_defaults_fit_but_for_what_a_person_must_give(recipe: str) -> None:
    Draft202012Validator(SCHEMA).validate(merge_values(CATALOGUE.defaults(recipe), {}))


def test_names_the_chart_sets_are_those_that_env_refuses() -> None:
    """The list in the schema and the names in the templates are one list in two places; A4_ is the chart's own."""
    templates = assets.chart_folder() / "templates"
    texts = [
        (templates / "_env.tpl").read_text().partition('define "a4.fixedEnv"')[2],
        (templates / "_recipes.tpl").read_text().partition('define "a4.ncclPreset"')[0],
    ]
    written = {name for text in texts for name in re.findall(r"^([A-Z][A-Z0-9_]+):", text, re.MULTILINE)}
    written |= set(re.findall(r"^- name: ([A-Z][A-Z0-9_]+)$", (templates / "_env.tpl").read_text(), re.MULTILINE))
    for path in ("env", "secrets"):
        own, listed = LEAVES[path]["propertyNames"]["not"]["anyOf"]
        assert own == {"pattern": "^A4_"}
        assert set(listed["enum"]) == {name for name in written if not name.startswith("A4_")}
