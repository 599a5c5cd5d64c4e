"""Whose host is late: by launches that are worked out, and by what two H200 told (see test_collective_times)."""

import pytest

from rankscope.host_or_gpu import RankLaunches, is_late_by_host, share_beyond_hosts

STEP = 40_000
SHORT, LONG = 1500, 8000
"""Microseconds that the others wait in each step."""


def group(
    *, launched_later: int, waited: int, clocks: str = "aaaa", offset: int = 0, queued: tuple[int, ...] = ()
) -> dict[int, RankLaunches]:
    """Four ranks and 20 collectives, to which rank 2 comes last; `offset`: of its clock."""
    found = {}
    for rank in range(4):
        own = rank == 2
        at = {number: STEP * number + rank * 20 + (launched_later + offset if own else 0) for number in range(20)}
        took = dict.fromkeys(range(20), 40 + (0 if own else waited))
        found[rank] = RankLaunches(at, took, clocks[rank].strip(), queued if own else ())
    return found


@pytest.mark.parametrize("waited", [SHORT, LONG])
def test_a_host_that_launches_as_late_as_the_others_wait_is_the_cause(waited: int) -> None:
    assert is_late_by_host(2, group(launched_later=waited, waited=waited), frozenset({2}), range(20)) is True
    assert is_late_by_host(2, group(launched_later=waited // 2, waited=waited), frozenset({2}), range(20)) is None
    assert is_late_by_host(2, group(launched_later=0, waited=waited), frozenset({2}), range(20)) is False


def test_a_host_that_runs_ahead_of_its_gpu_is_not_the_cause() -> None:
    steady = tuple(80_000 + number % 5 * 500 for number in range(30))
    assert (
        is_late_by_host(2, group(launched_later=LONG, waited=SHORT, queued=steady), frozenset({2}), range(20)) is False
    )
    by_turns = tuple(number * 1000 for number in range(30))  # it waits for the loss in every step
    assert (
        is_late_by_host(2, group(launched_later=LONG, waited=SHORT, queued=by_turns), frozenset({2}), range(20)) is True
    )
    few = steady[:4]
    assert is_late_by_host(2, group(launched_later=LONG, waited=SHORT, queued=few), frozenset({2}), range(20)) is True


@pytest.mark.parametrize(
    ("waits", "tenth", "lost"), [(0, 0, 0.0), (0, 10 * STEP, 0.5), (9000, 9000, 0.0)], ids=["never", "tenth", "each"]
)
def test_what_hosts_lose_is_by_the_steps_in_which_they_do_not_wait(waits: int, tenth: int, lost: float) -> None:
    at, launched = 0, {}
    for number in range(400):  # two collectives a step, and after each tenth step the loss is read
        launched[number] = at + number % 2 * 1000
        at += STEP + (tenth if number % 20 == 19 else waits) if number % 2 else 0
    others = [RankLaunches(launched, {}, "", ())] * 3
    assert share_beyond_hosts(others, 2) == pytest.approx(lost, abs=0.02)
    assert share_beyond_hosts([], 2) == 0.0


@pytest.mark.parametrize("offset", [-1000, 1000])
def test_clocks_of_several_machines_tell_long_waits_only(offset: int) -> None:
    for launched_later, host in ((LONG, True), (0, False)):
        several = group(launched_later=launched_later, waited=LONG, clocks="aabb", offset=offset)
        assert is_late_by_host(2, several, frozenset({2}), range(20)) is host, "rank 3 is on the same machine"
        several = group(launched_later=launched_later, waited=LONG, clocks="aaba", offset=offset)
        assert is_late_by_host(2, several, frozenset({2}), range(20)) is host
    several = group(launched_later=SHORT, waited=SHORT, clocks="aaba", offset=offset)
    assert is_late_by_host(2, several, frozenset({2}), range(20)) is None


def test_who_is_late_too_is_nobody_to_compare_with() -> None:
    several = group(launched_later=LONG, waited=LONG, clocks="aabb")
    late_too = RankLaunches(several[2].launched, several[2].on_gpu, "b", ())
    assert is_late_by_host(2, {**several, 3: late_too}, frozenset({2, 3}), range(20)) is True


def test_what_is_not_reported_is_not_known() -> None:
    assert is_late_by_host(2, group(launched_later=0, waited=LONG, clocks="aa a"), frozenset({2}), range(20)) is None
    assert is_late_by_host(2, group(launched_later=0, waited=0), frozenset({2}), range(20)) is None
    assert is_late_by_host(2, group(launched_later=0, waited=LONG), frozenset(range(4)), range(20)) is None
