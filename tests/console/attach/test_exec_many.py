from __future__ import annotations

import pytest

from console.attach.exec_many import OutputGroup, RankOutput, group_outputs, parse_ranks, worst_exit_code
from console.errors import BadInput
from console.scheduling.ranks import format_ranges


def said(rank: int, text: str, code: int | None = 0, failure: str = "") -> RankOutput:
    return RankOutput(rank, f"pod-{rank}", "node", code, text, "", failure)


def test_equal_outputs_stand_together_and_the_few_are_odd() -> None:
    outputs = [*(said(rank, "580\n") for rank in range(6)), said(6, "570\n"), said(7, "", 1, "It broke off.")]
    assert group_outputs(reversed(outputs)) == (
        OutputGroup((0, 1, 2, 3, 4, 5), 0, "580"),
        OutputGroup((6,), 0, "570", differs=True),
        OutputGroup((7,), 1, "It broke off.", differs=True),
    )
    assert [group.description for group in group_outputs(outputs)] == ["pods 0-5", "pod 6", "pod 7"]
    assert worst_exit_code(outputs) == 1


def test_without_a_majority_nobody_is_odd() -> None:
    assert not any(group.differs for group in group_outputs([said(rank, f"host-{rank}") for rank in range(8)]))
    assert not any(group.differs for group in group_outputs([said(rank, str(rank % 2)) for rank in range(4)]))
    assert group_outputs([]) == ()


def test_the_same_words_with_another_code_are_another_answer() -> None:
    groups = group_outputs([said(0, "x"), said(1, "x", 3), said(2, "still at work", None)])
    assert [(group.ranks, group.differs) for group in groups] == [((0,), False), ((1,), True)]
    assert worst_exit_code([]) == 0


def test_ranks_are_ranges_in_both_directions() -> None:
    assert parse_ranks("0-2, 7,9-10", range(11)) == (0, 1, 2, 7, 9, 10)
    assert parse_ranks(format_ranges(range(8)), range(8)) == tuple(range(8))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a list"),
        ("a", "not a list"),
        ("1-", "not a list"),
        ("3-1", "not an ascending range"),
        ("0-8", "no pod 8"),
        ("-1", "not a list"),
    ],
)
def test_ranks_that_cannot_be_meant_are_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_ranks(text, range(8))
