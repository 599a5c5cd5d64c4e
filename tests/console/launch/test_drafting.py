"""Launches as texts: values as YAML and back, in the person's own text; commands; what differs. No cluster."""

import copy
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from console.errors import BadInput, Conflict, NotFound, ReleaseFailed
from console.kube.nested_values import Value
from console.launch.helm import InvalidValues
from console.launch.install import ChartCatalog, NoSuchQueue
from console.launch.plan_as_text import PlanTexts
from console.launch.recipes import HIDDEN, FieldProblem, LaunchPlan, Manifest
from console.launch.releases import DiffKind, format_unified
from tests.chart.plans import CATALOGUE, PLANS, offline

DRAFTING = PlanTexts(CATALOGUE, offline().render)
RECIPES = [recipe.id for recipe in CATALOGUE.recipes()]
NCCL = "nccl-all-reduce"
TOKEN = "hf_" + "a" * 34


def plan(values: dict[str, Value], recipe: str = NCCL) -> LaunchPlan:
    return LaunchPlan(recipe, "anna", "team", values)


def changes(name: str) -> dict[str, Value]:
    """The values of a plan without those that are defaults anyway."""
    return DRAFTING.changed_values(PLANS[name].recipe, PLANS[name].values)


@pytest.mark.parametrize("name", PLANS)
def test_values_survive_yaml(name: str) -> None:
    text = DRAFTING.write_yaml(PLANS[name])
    draft = DRAFTING.read_yaml(PLANS[name].recipe, text)
    assert (draft.values, draft.problems) == (changes(name), ())
    # Helm reads YAML 1.1: what it gets is the same.
    assert yaml.safe_load(text) == PLANS[name].values


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_defaults_of_a_recipe_are_a_values_file_that_changes_nothing(recipe: str) -> None:
    text = CATALOGUE.values_file(recipe)
    draft = DRAFTING.read_yaml(recipe, text)
    assert (draft.values, draft.problems, draft.notes) == ({}, (), ())
    written = yaml.safe_load(text)
    assert written["recipe"].pop("id") == recipe, "whoever pastes it elsewhere is told whose values these are"
    assert written == {"recipe": {}, **draft.given}
    for field in CATALOGUE.fields(recipe):
        assert f"# {field.title}" in text


@pytest.mark.parametrize(
    "word",
    ["yes", "no", "on", "~", "null", "1e-5", "012", "0x1f", "1_000", "12:30:45", "2026-01-01", " a", "a ", "#a", "a: b",
     "- a", "", "{a}", "[a", "*a", "&a", "!a", "%a", "@a", "`a", "'", '"', "a\tb", "a\nb", "a\n", "\na", "a\n\n",
     " \n a", "a\\n", "é ☃ 🚀", "a\u2028b", "a\x7fb", "\ufeff", ".5", "=", "<<", "2M", "250Gi", "true", "1.0", "-1",
     "0o17"],
)  # fmt: skip
def test_any_text_survives_yaml(word: str) -> None:
    values: dict[str, Value] = {"recipe": {"script": {"text": word}}, "env": {"WORD": word}}
    text = DRAFTING.write_yaml(plan(values, "own-script"))
    assert DRAFTING.read_yaml("own-script", text).values == values
    assert yaml.safe_load(text) == values


MINE = """\
# bandwidth of the whole block
queue: a4   # the big one

env:
  # to see the rings
  NCCL_DEBUG_SUBSYS: INIT   # verbose

  B: 'two'
gpus: 16
placement:
  avoidNodes:
    - n1   # slow
    # broken since May
    - n2
  targetNodes: [n3, n4]  # reserved
recipe:
  nccl:
    end: 1G
# the end
"""


def changed(path: str, value: Value, *, gone: bool = False) -> str:
    values: dict[str, Any] = copy.deepcopy(DRAFTING.read_yaml(NCCL, MINE).values)
    *above, last = path.split("/")
    level = values
    for name in above:
        level = level.setdefault(name, {})
    if gone:
        del level[last]
    else:
        level[last] = value
    text = DRAFTING.write_yaml(plan(values), MINE)
    assert DRAFTING.read_yaml(NCCL, text).values == values
    return text


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("gpus", 32, "gpus: 16\n", "gpus: 32\n"),
        ("queue", "research", "queue: a4   #", "queue: research   #"),
        ("env/B", "three", "B: 'two'\n", "B: three\n"),
        ("env/B", "1", "B: 'two'\n", 'B: "1"\n'),
        ("env/C", "new", "  B: 'two'\n", "  B: 'two'\n  C: new\n"),
        ("placement/avoidNodes", ["n1", "n2", "n5"], "    - n2\n", "    - n2\n    - n5\n"),
        ("placement/avoidNodes", ["n1"], "    - n2\n", ""),
        (
            "placement/avoidNodes",
            ["n2", "n3"],
            "    - n1   # slow\n    # broken since May\n    - n2\n",
            "    # broken since May\n    - n2\n    - n3\n",
        ),
        ("placement/avoidNodes", ["n9", "n1", "n2"], "    - n1   #", "    - n9\n    - n1   #"),
        ("placement/targetNodes", ["n3"], " [n3, n4]  # reserved\n", "\n    - n3  # reserved\n"),
        ("recipe/nccl/begin", "1M", "    end: 1G\n", "    end: 1G\n    begin: 1M\n"),
        ("restarts", 3, "    end: 1G\n", "    end: 1G\nrestarts: 3\n"),
    ],
)
def test_a_value_changes_in_the_persons_text_and_nothing_else(path: str, value: Value, old: str, new: str) -> None:
    assert changed(path, value) == MINE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("queue", "queue: a4   # the big one\n"),
        ("env/B", "  B: 'two'\n"),
        ("gpus", ""),  # it is the default, which may stand there
    ],
)
def test_a_value_that_is_taken_back_leaves_the_text_alone_but_for_its_line(path: str, lines: str) -> None:
    text = MINE.replace("gpus: 16\n", "gpus: 24\n") if path == "gpus" else MINE
    values: dict[str, Any] = copy.deepcopy(DRAFTING.read_yaml(NCCL, text).values)
    *above, last = path.split("/")
    level = values
    for name in above:
        level = level[name]
    level.pop(last)
    expected = text.replace("gpus: 24\n", "") if path == "gpus" else MINE.replace(lines, "")
    assert DRAFTING.write_yaml(plan(values), text) == expected


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MAPS = st.dictionaries(st.from_regex(r"[A-Z_]{1,3}", fullmatch=True), WORDS, max_size=5)
LISTS = st.lists(st.from_regex(r"n[0-9]", fullmatch=True), max_size=5, unique=True)


@pytest.mark.slow(reason="many random examples")
@settings(max_examples=60, deadline=None)
@given(MAPS, LISTS, MAPS, LISTS)
def test_any_change_of_any_text_says_what_was_meant(
    old: dict[str, str], old_nodes: list[str], new: dict[str, str], new_nodes: list[str]
) -> None:
    def values(env: dict[str, str], nodes: list[str]) -> dict[str, Value]:
        made: dict[str, Value] = {"env": dict(env)} if env else {}
        return made | ({"placement": {"avoidNodes": list(nodes)}} if nodes else {})

    before = DRAFTING.write_yaml(plan(values(old, old_nodes)))
    commented = "".join(f"# about the next\n{line}" if line[:1].isalpha() else line for line in before.splitlines(True))
    text = DRAFTING.write_yaml(plan(values(new, new_nodes)), commented)
    assert DRAFTING.read_yaml(NCCL, text).values == values(new, new_nodes)
    assert text.count("# about the next") == commented.count("# about the next")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpus: 32", "gpus: 64\nenv:\n  NEW: q\n"),
        ("# c\r\nenv:\r\n  A: x # y\r\ngpus: 32\r\n", "# c\nenv:\n  A: x # y\n  NEW: q\ngpus: 64\n"),
        ("env:\n    B: |\n      one\n\n    # c\n    C: z\n",
         "env:\n    B: |\n      one\n\n    # c\n    C: z\n    NEW: q\ngpus: 64\n"),
        ("---\ngpus: 32 # many\n...\n", "---\ngpus: 64 # many\nenv:\n  NEW: q\n...\n"),
        ("gpus:\n  32\n'env':\n  A: x\n", "gpus: 64\n'env':\n  A: x\n  NEW: q\n"),
    ],
)  # fmt: skip
def test_all_ways_to_write_yaml_are_edited_in_place(before: str, after: str) -> None:
    values: dict[str, Any] = copy.deepcopy(DRAFTING.read_yaml(NCCL, before).values)
    values["gpus"] = 64
    values.setdefault("env", {})["NEW"] = "q"
    assert DRAFTING.write_yaml(plan(values), before) == after


def test_a_text_that_cannot_be_read_is_written_anew_with_its_comments() -> None:
    assert DRAFTING.write_yaml(plan({"gpus": 8}), "# mine\ngpus: [1,\n") == "# mine\ngpus: 8\n"
    assert DRAFTING.write_yaml(plan({"gpus": 8}), "{gpus: 16}\n") == "gpus: 8\n"
    assert DRAFTING.write_yaml(plan({}), "# nothing yet\n") == "# nothing yet\n"
    assert DRAFTING.write_yaml(plan({})) == ""


@pytest.mark.parametrize(
    ("text", "line", "path", "part"),
    [
        ("gpus: 12\n", 1, "gpus", "because a node has 8 GPUs; 12 was given."),
        ("gpus: ten\n", 1, "gpus", "GPUs must be a whole number; ten was given."),
        ("\nqueue: a4\ngpu: 8\n", 3, "gpu", "gpu is not a value of the chart; did you mean gpus?"),
        ("recipe:\n  nccl:\n    ends: 1G\n", 3, "recipe.nccl.ends", "did you mean recipe.nccl.end?"),
        ("recipe:\n  swift:\n    tp: 2\n", 3, "recipe.swift.tp", "it belongs to swift-dpo"),
        ("recipe:\n  id: swift-dpo\n", 2, "recipe", "These are values of swift-dpo, and this is nccl-all-reduce."),
        ("gpus: 8\nqueue: a4\ngpus: 16\n", 3, "gpus", "gpus is set twice, here and in line 1"),
        ("env:\n  A: x\n  A: y\n", 3, "A", "A is set twice"),
        ("env:\n\tA: x\n", 2, "", "indented with a tab"),
        ("a: &a [x]\nb: *a\n", 1, "", "references"),
        ("env: &a {A: x}\n", 1, "", "references"),
        ("gpus: !!python/object:os.system 8\n", 1, "", "tags"),
        ("env: [A, B]\n", 1, "env", "Environment must be a map"),
        ("gpus: [8]\n", 1, "gpus", "GPUs must be a whole number"),
        ("- gpus\n", 1, "", "must be a map of names and values"),
        ("gpus\n", 1, "", "must be a map of names and values"),
        ("gpus: 8\n---\ngpus: 16\n", 2, "", "second document"),
        ("? [a]\n: b\n", 1, "", "a name must be a single word"),
        ("env:\n  <<: {A: x}\n", 2, "", "merging maps"),
        ("queue: [a\ngpus: 8\n", 2, "", "it is not YAML"),
        ("storage: 3\n", 1, "storage", "storage must be a map"),
        ("queue: null\n", 1, "queue", "may not be null"),
        ("storage:\n  gcs:\n    gs://bucket: /gcs\n", 3, "storage.gcs", "without gs://"),
        (
            "placement:\n  tolerations:\n    - operator: Exists\n    - operator: Exists\n      effect: 7\n",
            5,
            "placement.tolerations",
            "Tolerations, entry 2, effect, must be one of",
        ),
        ("placement:\n  targetNodes:\n    - n1\n    - [n2]\n", 4, "placement.targetNodes", "must be text"),
        (f"env:\n  B: x\n  HF_TOKEN: {TOKEN}\n", 3, "env", "under Secrets"),
        ("gpus: " + "9" * 5000 + "\n", 1, "gpus", "GPUs must be a whole number"),
        ("a: " + "[" * 100 + "]" * 100, 1, "", "levels deep"),
        ("#" * 1_100_000, 0, "", "characters"),
        ("gpus: 8\x00\n", 1, "", "character"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_line(text: str, line: int, path: str, part: str) -> None:
    draft = DRAFTING.read_yaml(NCCL, text)
    first = draft.problems[0]
    assert (first.line, first.path) == (line, path), draft.problems
    assert part in first.message
    assert first.message.endswith((".", "?"))
    assert TOKEN not in str(draft.problems)


def test_a_bomb_is_refused_before_it_is_built() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    (problem,) = DRAFTING.read_yaml(NCCL, bomb).problems
    assert problem.message == "references (&name, *name) are not allowed."


def test_all_problems_are_reported_in_the_order_of_their_lines() -> None:
    draft = DRAFTING.read_yaml(NCCL, "gpus: 12\nque: a4\nrestarts: -1\nttl: soon\n")
    assert [(problem.line, problem.path) for problem in draft.problems] == [
        (1, "gpus"), (2, "que"), (3, "restarts"), (4, "ttl"),
    ]  # fmt: skip


def test_spelling_counts_where_a_field_is_text() -> None:
    text = "recipe:\n  train:\n    lr: 1e-5\n    minLr: 1.0e-6\nenv:\n  YES: yes\n  N: 012\n"
    draft = DRAFTING.read_yaml("qwen3-30b-pretrain", text)
    assert (draft.values, draft.problems) == (
        {"recipe": {"train": {"minLr": "1.0e-6"}}, "env": {"YES": "yes", "N": "012"}},
        (),
    )
    assert DRAFTING.read_yaml(NCCL, 'gpus: "32"\nkeepAlive: yes\n').values == {"gpus": 32, "keepAlive": True}


def test_a_name_of_a_map_is_taken_away_with_null() -> None:
    draft = DRAFTING.read_yaml(NCCL, "env:\n  GLOO_SOCKET_IFNAME: null\n")
    assert (draft.values, draft.problems) == ({"env": {"GLOO_SOCKET_IFNAME": None}}, ())
    assert DRAFTING.write_yaml(plan(draft.values)) == "env:\n  GLOO_SOCKET_IFNAME: null\n"


def test_values_of_a_release_come_without_what_the_console_brings() -> None:
    text = "recipe:\n  id: nccl-all-reduce\ngpus: 32\nlaunchers:\n  run.sh: echo\n"
    draft = DRAFTING.read_yaml(NCCL, text)
    assert (draft.values, draft.recipe, draft.problems) == ({"gpus": 32}, NCCL, ())
    assert [note.line for note in draft.notes] == [4]


def with_secret() -> PlanTexts:
    schema = copy.deepcopy(dict(CATALOGUE.schema))
    schema["properties"]["password"] = {
        "type": "string", "title": "Password", "description": "Of the registry.", "default": "", "x-secret": True,
        "x-group": "Access", "x-order": 9000,
    }  # fmt: skip
    launcher = offline()
    catalogue = ChartCatalog(CATALOGUE.chart, schema, CATALOGUE.launchers)
    return PlanTexts(catalogue, replace(launcher, chart_catalog=catalogue).render)


def test_a_secret_is_never_written_and_reads_back_as_it_was() -> None:
    drafting, mine = with_secret(), plan({"gpus": 32, "password": "hush"})
    text = drafting.write_yaml(mine)
    assert text == f'gpus: 32\npassword: "{HIDDEN}"\n'
    assert drafting.read_yaml(NCCL, text, hidden=mine.values).values == mine.values
    edited = drafting.write_yaml(plan({"gpus": 64, "password": "hush"}), f"# mine\n{text}")
    assert edited == f'# mine\ngpus: 64\npassword: "{HIDDEN}"\n'
    problem = drafting.read_yaml(NCCL, text).problems[0]
    assert (problem.line, problem.message) == (2, "password is (hidden), and there is no value before to keep.")
    command = drafting.helm_command(mine)
    assert "hush" not in str(command)
    assert command.needs == ("PASSWORD",)
    assert '--set-string password="$PASSWORD"' in command.with_file


@pytest.mark.parametrize("values", [{"env": {"HF_TOKEN": TOKEN}}, {"env": {"NOTE": TOKEN}}])
def test_a_secret_that_stands_in_the_environment_is_refused_and_shown_nowhere(values: dict[str, Value]) -> None:
    (problem,) = CATALOGUE.plan_problems(plan(values))
    assert problem.path == "env"
    assert "Secret" in problem.message
    assert TOKEN not in problem.message
    with pytest.raises(BadInput) as raised:
        DRAFTING.helm_command(plan(values))
    assert TOKEN not in str(raised.value)


# commands


@pytest.mark.parametrize("name", PLANS)
async def test_the_command_in_one_line_sets_the_same_values(name: str) -> None:
    draft = await DRAFTING.parse_pasted(NCCL, DRAFTING.helm_command(PLANS[name]).inline, variables={})
    assert (draft.values, draft.problems, draft.left_out) == (changes(name), (), ())
    assert (draft.recipe, draft.name, draft.namespace) == (PLANS[name].recipe, PLANS[name].name, PLANS[name].namespace)


def test_the_command_with_a_file() -> None:
    command = DRAFTING.helm_command(plan({"gpus": 32, "env": {"A": "it's, x"}}))
    words = shlex.split(command.with_file.replace("\\\n", " "))
    assert words[:4] == ["helm", "install", "anna", str(CATALOGUE.chart)]
    assert words[words.index("--values") + 1] == command.file_name == "anna.values.yaml"
    assert yaml.safe_load(command.file_text) == {"recipe": {"id": NCCL}, "gpus": 32, "env": {"A": "it's, x"}}
    assert f"launchers.run\\.sh={CATALOGUE.chart.parent}/launchers/run.sh" in words
    assert "'env.A=it'\"'\"'s\\, x'" in command.inline


# differences


async def test_what_differs_from_the_defaults_and_from_earlier_values() -> None:
    mine = plan({"gpus": 32, "queue": "a4", "storage": {"nfs": {"claim": "data", "server": "10.0.0.1"}}})
    found = {diff.kind: diff for diff in await DRAFTING.diff_with(mine)}
    assert found["JobSet"].change is DiffKind.CHANGED
    assert found["PersistentVolumeClaim"].change is DiffKind.ADDED
    assert found["Secret"].change is DiffKind.SAME
    texts = {(line.mark, line.text.strip()) for line in found["JobSet"].lines}
    assert {("-", "parallelism: 2"), ("+", "parallelism: 4")} <= texts
    assert sum((line.mark == "+") - (line.mark == "-") for line in found["JobSet"].lines) > 0
    assert all(diff.change is DiffKind.SAME for diff in await DRAFTING.diff_with(mine, mine.values))
    gone = {diff.kind: diff.change for diff in await DRAFTING.diff_with(plan({"gpus": 32, "queue": "a4"}), mine.values)}
    assert gone["PersistentVolume"] is DiffKind.REMOVED
    assert "+++ JobSet anna (changed)" in format_unified(tuple(found.values()))


async def test_what_is_compared_with_is_rendered_once() -> None:
    rendered: list[LaunchPlan] = []

    async def render(asked: LaunchPlan) -> tuple[Manifest, ...]:
        rendered.append(asked)
        return (Manifest("JobSet", asked.name, f"gpus: {asked.values.get('gpus')}\n"),)

    drafting = PlanTexts(CATALOGUE, render)
    for gpus in (8, 16, 32):
        await drafting.diff_with(plan({"gpus": gpus}))
    assert [each.values for each in rendered] == [{"gpus": 8}, {}, {"gpus": 16}, {"gpus": 32}]


# refusals


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (Conflict("A release named anna exists already in team (deployed).", status=409), "name"),
        (NotFound('Could not create JobSet anna: namespaces "team" not found.'), "namespace"),
        (NoSuchQueue("team has no LocalQueue a5."), "queue"),
        (InvalidValues("x", problems=(FieldProblem("gpus", "no"),)), "gpus"),
        (ReleaseFailed("anna: spec.template.spec.containers[0].image: Invalid value"), "image"),
        (ReleaseFailed("spec.template.spec.tolerations[0].effect: Unsupported value"), "placement.tolerations"),
        (ReleaseFailed('priority-class "x" not found'), "priorityClass"),
        (ReleaseFailed("GPUs must be 1 at least."), "gpus"),
        (ReleaseFailed("the cluster is on fire"), ""),
    ],
)  # fmt: skip
def test_a_refusal_goes_to_its_field(error: Exception, path: str) -> None:
    found = DRAFTING.locate_problems(plan({}), error)  # type: ignore[arg-type]
    assert [each.path for each in found] == ([path] if path else [])


def test_a_texts_defaults_win_over_what_lies_below() -> None:
    draft = DRAFTING.read_yaml(NCCL, "queue: ''\nenv:\n  A: x\n")
    assert draft.values == {"env": {"A": "x"}}
    assert DRAFTING.overlay_draft({"queue": "a4", "gpus": 8, "env": {"B": "y"}}, draft) == {
        "queue": "",
        "gpus": 8,
        "env": {"B": "y", "A": "x"},
    }
