"""Text of a form to values and back."""

import pytest
from hypothesis import given, strategies as st

from console.errors import BadInput
from console.kube.nested_values import Value, get_path, merge_values, overlay_values, set_path
from console.launch.field_values import format_value, parse_changes, parse_value
from console.launch.recipes import Field, FieldKind, FieldProblem


def field(kind: FieldKind, path: str = "thing", default: Value = None, **more: bool | tuple[str, ...]) -> Field:
    return Field(path, "Thing", "What it is.", kind, default, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (FieldKind.TEXT, "  a b ", "a b"),
        (FieldKind.TEXT, "", ""),
        (FieldKind.INTEGER, "16", 16),
        (FieldKind.INTEGER, " -3 ", -3),
        (FieldKind.INTEGER, "1,000_000", 1000000),
        (FieldKind.NUMBER, "1e-5", 1e-5),
        (FieldKind.BOOLEAN, "Yes", True),
        (FieldKind.BOOLEAN, "off", False),
        (FieldKind.LIST, "a, b\nc\n", ["a", "b", "c"]),
        (FieldKind.LIST, " ", []),
        (FieldKind.MAP, "A=1\n\nB=x=y\nC=", {"A": "1", "B": "x=y", "C": ""}),
        (FieldKind.MAP, "", {}),
        (FieldKind.ROWS, "- key: a\n  operator: Exists", [{"key": "a", "operator": "Exists"}]),
        (FieldKind.ROWS, "[{key: a}]", [{"key": "a"}]),
        (FieldKind.ROWS, "", []),
    ],
)
def test_text_becomes_a_value(kind: FieldKind, text: str, value: Value) -> None:
    assert parse_value(field(kind), text) == value


def test_a_choice_is_one_of_its_words() -> None:
    choice = field(FieldKind.CHOICE, choices=("preferred", "none"))
    assert parse_value(choice, "none ") == "none"
    with pytest.raises(BadInput, match=r"^Thing must be one of preferred, none; both was given\.$"):
        parse_value(choice, "both")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (FieldKind.INTEGER, "hf_secret", "Thing must be a whole number; hf_secret was given."),
        (FieldKind.INTEGER, "1.5", "Thing must be a whole number; 1.5 was given."),
        (FieldKind.INTEGER, "", "Thing must be a whole number; it is empty."),
        (FieldKind.NUMBER, "a lot", "Thing must be a number; a lot was given."),
        (FieldKind.BOOLEAN, "maybe", "Thing must be true or false; maybe was given."),
        (FieldKind.MAP, "A", "Thing takes NAME=text, one a line; A was given."),
        (FieldKind.MAP, "=1", "Thing takes NAME=text, one a line; =1 was given."),
        (FieldKind.ROWS, "a: 1", "Thing must be a list: one entry a line, each beginning with '- '."),
        (FieldKind.ROWS, "- [", "Thing cannot be read as YAML: "),
        (FieldKind.ROWS, "- &a [x]\n- *a", "Thing cannot be read as YAML: references (&name, *name) are not allowed."),
        (FieldKind.ROWS, "[" * 5000, "Thing cannot be read as YAML: "),
    ],
)
def test_text_of_another_kind_is_refused_in_a_sentence(kind: FieldKind, text: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse_value(field(kind), text)
    assert raised.value.message.startswith(message)


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(BadInput, match=r"^Thing must be a whole number\.$"):
        parse_value(field(FieldKind.INTEGER, secret=True), "hf_token")


def test_long_text_is_repeated_in_part() -> None:
    with pytest.raises(BadInput) as raised:
        parse_value(field(FieldKind.INTEGER), "9x" * 500)
    assert len(raised.value.message) < 120


words = st.text(alphabet="abcXYZ019-_./:", min_size=1, max_size=12)
names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)


@given(
    st.one_of(
        st.tuples(st.just(FieldKind.TEXT), words),
        st.tuples(st.just(FieldKind.INTEGER), st.integers()),
        st.tuples(st.just(FieldKind.NUMBER), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(FieldKind.BOOLEAN), st.booleans()),
        st.tuples(st.just(FieldKind.LIST), st.lists(words)),
        st.tuples(st.just(FieldKind.MAP), st.dictionaries(names, st.one_of(words, st.just("a=b,c")))),
        st.tuples(
            st.just(FieldKind.ROWS), st.lists(st.dictionaries(words, st.one_of(words, st.booleans()), min_size=1))
        ),
    )
)
def test_what_is_spelled_is_read_back(case: tuple[FieldKind, Value]) -> None:
    kind, value = case
    assert parse_value(field(kind), format_value(field(kind), value)) == value


FIELDS = (
    field(FieldKind.INTEGER, "gpus", 16),
    field(FieldKind.TEXT, "recipe.nccl.end", "16G"),
    field(FieldKind.MAP, "env", {"A": "1", "B": "2"}),
    field(FieldKind.LIST, "placement.avoidNodes", []),
)


def test_a_form_gives_only_what_differs() -> None:
    texts = {"gpus": "16", "recipe.nccl.end": "8G", "env": "A=1\nC=3", "placement.avoidNodes": "n1"}
    assert parse_changes(FIELDS, texts) == (
        {
            "recipe": {"nccl": {"end": "8G"}},
            "env": {"C": "3", "B": None},
            "placement": {"avoidNodes": ["n1"]},
        },
        (),
    )


def test_an_untouched_form_changes_nothing() -> None:
    assert parse_changes(FIELDS, {one.path: format_value(one, one.default) for one in FIELDS}) == ({}, ())


def test_what_cannot_be_read_is_reported_at_its_field() -> None:
    values, problems = parse_changes(FIELDS, {"gpus": "many", "recipe.nccl.end": "1G"})
    assert values == {"recipe": {"nccl": {"end": "1G"}}}
    assert problems == (FieldProblem("gpus", "Thing must be a whole number; many was given."),)


def test_values_lie_over_each_other_as_in_helm() -> None:
    below: dict[str, Value] = {"a": 1, "b": {"c": 2, "d": 3, "n": None}, "e": [1, 2]}
    above: dict[str, Value] = {"b": {"c": None, "x": 4, "new": None}, "e": [3]}
    assert merge_values(below, above) == {"a": 1, "b": {"d": 3, "x": 4, "new": None}, "e": [3]}
    assert overlay_values(below, above) == {"a": 1, "b": {"c": None, "d": 3, "n": None, "x": 4, "new": None}, "e": [3]}
    assert below == {"a": 1, "b": {"c": 2, "d": 3, "n": None}, "e": [1, 2]}


def test_paths_lead_into_levels() -> None:
    values: dict[str, Value] = {}
    set_path(values, "a.b.c", 1)
    set_path(values, "a.d", 2)
    assert values == {"a": {"b": {"c": 1}, "d": 2}}
    assert (get_path(values, "a.b.c"), get_path(values, "a.x"), get_path(values, "a.d.e")) == (1, None, None)
    with pytest.raises(BadInput, match="d is a single value"):
        set_path(values, "a.d.e", 3)
