"""What can be launched, and whether a plan is sound. No cluster."""

import pytest

from console.errors import BadInput, Unreadable
from console.kube.nested_values import Value
from console.launch.field_values import format_value, parse_value
from console.launch.install import MAX_NAME_LENGTH, ChartCatalog, name_problem, namespace_problem
from console.launch.recipes import FieldProblem, LaunchPlan
from tests.chart.plans import OF_EVERY_POD

CATALOGUE = ChartCatalog.from_chart()
RECIPES = [recipe.id for recipe in CATALOGUE.recipes()]


def plan(
    name: str = "anna", namespace: str = "team", recipe: str = "nccl-all-reduce", /, **values: Value
) -> LaunchPlan:
    return LaunchPlan(recipe, name, namespace, values)


@pytest.mark.parametrize("word", ["nccl-all-reduce", "NCCL-all-reduce", "W03", "w03"])
def test_a_recipe_has_two_names(word: str) -> None:
    assert CATALOGUE.find_recipe(word).id == "nccl-all-reduce"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("nccl", "; did you mean nccl-all-reduce or nccl-one-pod?"),
        ("nccl-al-reduce", "; did you mean nccl-all-reduce?"),
        ("W99", "."),
        ("", "."),
    ],
)
def test_an_unknown_recipe_is_answered_with_the_likely_and_the_known_ones(word: str, meant: str) -> None:
    with pytest.raises(BadInput) as raised:
        CATALOGUE.find_recipe(word)
    known = "There are: nccl-all-reduce, ddp-smoke, interactive, "
    assert str(raised.value).startswith(f"There is no recipe {word}{meant} {known}")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_says_what_it_is_and_has_its_launcher(recipe: str) -> None:
    known = CATALOGUE.find_recipe(recipe)
    assert all((known.title, known.summary, known.needs, known.gives, known.duration, known.suffix))
    assert f"{recipe}.sh" in CATALOGUE.launchers


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_default_survives_the_form(recipe: str) -> None:
    for field in CATALOGUE.fields(recipe):
        assert parse_value(field, format_value(field, field.default)) == field.default, field.path


@pytest.mark.parametrize("recipe", RECIPES)
def test_defaults_may_be_launched(recipe: str) -> None:
    assert CATALOGUE.plan_problems(plan("anna", "team", recipe)) == ()


def test_names_and_values_are_judged_together() -> None:
    assert [problem.path for problem in CATALOGUE.plan_problems(plan("Anna", "Team!", gpus=12, queue=None))] == [
        "name",
        "namespace",
        "queue",
        "gpus",
    ]
    with pytest.raises(BadInput, match=r"^Name must .* GPUs must "):
        CATALOGUE.require_valid(plan("Anna", gpus=12))


def test_a_whole_group_of_the_wrong_kind_is_one_problem() -> None:
    assert CATALOGUE.plan_problems(plan(placement=3)) == (
        FieldProblem("placement", "placement must be a map of names and values; 3 was given."),
    )


@pytest.mark.parametrize("name", ["a", "anna-nccl-test", "a1", "a" * MAX_NAME_LENGTH])
def test_good_names(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "empty"),
        ("a" * (MAX_NAME_LENGTH + 1), "43 characters at most"),
        ("Anna", "begin with a letter"),
        ("1a", "begin with a letter"),
        ("a-", "end with a letter"),
        ("a_b", "a-z"),
        ("a.b", "a-z"),
        ("[bold]", "a-z"),
        ("a\n", "a-z"),
        ("anna\N{ROCKET}", "a-z"),
    ],
)
def test_bad_names_are_refused_in_a_sentence(name: str, part: str) -> None:
    assert part in name_problem(name)
    assert name_problem(name).endswith(".")


def test_namespaces() -> None:
    assert namespace_problem("team-1") == ""
    assert all(namespace_problem(bad) for bad in ("", "Team", "a b", "-a", "a" * 64))


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("anna", "anna-nccl-test"),
        ("Anna.Smith@example.com", "anna-smith-example-com-nccl-test"),
        ("007", "a4-007-nccl-test"),
        ("", "a4-nccl-test"),
        ("\N{SNOWMAN}", "a4-nccl-test"),
        ("a" * 80, f"{'a' * 33}-nccl-test"),
    ],
)
def test_names_are_suggested_that_are_good(user: str, name: str) -> None:
    assert CATALOGUE.suggest_name("nccl-all-reduce", user) == name
    assert name_problem(name) == ""


def test_the_chart_is_given_what_differs_and_the_launchers() -> None:
    values = CATALOGUE.chart_values(plan("anna", "team", "interactive", gpus=16, env={"GLOO_SOCKET_IFNAME": None}))
    launchers = values.pop("launchers")
    assert values == {
        "recipe": {"id": "interactive"},
        "keepAlive": True,
        "restarts": 10,
        "gpus": 16,
        "env": {"GLOO_SOCKET_IFNAME": None},
    }
    assert isinstance(launchers, dict)
    assert set(launchers) == OF_EVERY_POD | {"interactive.sh"}


def test_a_plan_wins_over_its_recipe() -> None:
    assert CATALOGUE.chart_values(plan("anna", "team", "interactive", keepAlive=False))["keepAlive"] is False


def test_a_launcher_that_is_missing_is_reported() -> None:
    poor = ChartCatalog(
        CATALOGUE.chart, CATALOGUE.schema, {"run.sh": "", "pods.sh": "", "prepare.sh": "", "steps.sh": ""}
    )
    with pytest.raises(Unreadable, match="launcher of interactive is missing"):
        poor.chart_values(plan("anna", "team", "interactive"))
