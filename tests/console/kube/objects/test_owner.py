"""Who launched something, by its labels and annotations."""

import re

import pytest
from hypothesis import given, strategies as st

from console.kube.objects.meta import launched_by, short_name


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("anna@example.com", "anna"), ("anna", "anna"), ("", ""), ("Anna Lang", "Anna-Lang"), ("@", ""),
        ("-anna.l_b-", "anna.l_b"), ("x" * 80, "x" * 63), ("günther", "g-nther"),
    ],
)  # fmt: skip
def test_the_short_name_is_what_stands_before_the_at(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text())
def test_it_is_always_the_value_of_a_label(name: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", short_name(name))


@pytest.mark.parametrize(
    ("labels", "annotations", "owner"),
    [
        ({"a4.console/owner": "anna"}, {"a4.console/owner": "anna@example.com", "user": "bob"}, "anna"),
        ({}, {"a4.console/owner": "anna@example.com"}, "anna"),
        ({"team.example/owner": "bob"}, {}, "bob"),
        ({}, {"example.com/created-by": "carl@example.com"}, "carl"),
        ({"user": "dora", "created-by": "x"}, {"owner": "ed"}, "ed"),
        ({"app.kubernetes.io/created-by": "controller-manager"}, {}, ""),
        ({"app": "owner"}, {}, ""),
        ({"owner": "--"}, {"user": "fay"}, "fay"),
    ],
)  # fmt: skip
def test_others_are_known_by_what_their_tools_write(
    labels: dict[str, str], annotations: dict[str, str], owner: str
) -> None:
    assert launched_by(labels, annotations) == owner
