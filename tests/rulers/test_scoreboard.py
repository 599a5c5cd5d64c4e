"""The page of other people's tests is the one that their last run wrote, and every case that differs has its reason."""

import pytest

from tests.rulers import helm, kubeconfig
from tests.rulers.scoreboard import PAGE, page
from tests.rulers.suites import RESULTS, Result, read, reason


def test_the_page_is_that_of_the_last_run() -> None:
    assert PAGE.read_text() == page(read(RESULTS.read_text()))


def test_every_case_that_differs_has_its_reason_and_is_counted() -> None:
    for each in read(RESULTS.read_text()):
        assert not [name for name, why in each.different.items() if why.startswith("NOT EXPLAINED")]
        assert each.cases - each.same >= len(each.different)
        assert each.same_default <= each.default <= each.cases or each.unavailable


@pytest.mark.parametrize(
    ("suite", "name", "gates", "expected"),
    [
        ("TestAssignFlavors", "workload slice preemption x", {}, "elastic jobs by workload slices are not modelled"),
        ("TestSchedule", "other", {"X": True}, "gate X on, which is not its default"),
        ("TestSchedule", "other", {}, ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_difference(suite: str, name: str, gates: dict[str, bool], expected: str) -> None:
    assert reason(suite, name, gates) == expected


def test_what_differs_and_what_cannot_be_had_stand_on_the_page() -> None:
    text = page(
        [Result("P", "1", "s", 4, 3, 3, 2, {"a `b`\nc": "why"}), Result("Q", "2", "all", 0, 0, 0, 0, {}, "gone")]
    )
    assert "| P | 1 | `s` | 4 | 3 | 3 | 2 (66.7 %) |" in text
    assert "\n- `` a `b` c ``: why\n" in text
    assert "\n- Q 2: gone\n" in text


@pytest.mark.parametrize(
    ("text", "expect", "err", "fault"),
    [
        ("a=1", {"a": 1}, False, ""),
        ("a=1", {"a": 2}, False, "{'a': 2} wanted, {'a': 1} here"),
        ("a=1", {}, True, "{'a': 1} here, Helm refuses it"),
        ("a", {}, True, ""),
    ],
)
def test_a_case_of_helm(text: str, expect: dict[str, int], err: bool, fault: str) -> None:
    assert helm.difference({"suite": "TestParseSet", "case": {"str": text, "expect": expect, "err": err}}) == fault


@pytest.mark.parametrize(
    ("want", "text", "failed", "fault"),
    [
        ({"currentContext": "a"}, "current-context: a", False, ""),
        ({"currentContext": "b"}, "current-context: a", False, "current context: b wanted, a here"),
        ({}, "clusters: 3", True, ""),
        ({}, "current-context: a", True, "taken here, client-go refuses it"),
        ({"authInfos": {"u": {"clientKey": "/there/k"}}}, "users: [{name: u, user: {client-key: k}}]", False, ""),
    ],
)
def test_a_case_of_client_go(want: dict[str, object], text: str, failed: bool, fault: str) -> None:
    empty = {"currentContext": "", "contexts": None, "clusters": None, "authInfos": None}
    files = [{"path": "/there/config", "text": text, "there": True}]
    case = {"files": files, "rules": {"explicitPath": ""}}
    answer = [empty | want, "no" if failed else None]
    assert kubeconfig.difference({"suite": "Load", "case": case, "answer": answer}) == fault
