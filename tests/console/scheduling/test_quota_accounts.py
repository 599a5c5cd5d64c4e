from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, Cohort, Quota, Usage
from console.scheduling.quota_accounts import flavor_account, ledger, queue_account
from console.scheduling.why_answer import QuotaAccount
from tests.fakes import fleet_of


def queue(
    name: str, nominal: int, used: int = 0, cohort: str = "", borrow: int | None = None, lend: int | None = None,
    flavor: str = "a4",
) -> ClusterQueue:  # fmt: skip
    return ClusterQueue(
        name, cohort=cohort, quotas=(Quota(flavor, GPU, nominal, borrow, lend),), reserved=(Usage(flavor, GPU, used),)
    )


def test_a_queue_by_itself() -> None:
    assert flavor_account(fleet_of(queue("a4", 64, 40)), "a4", "a4") == QuotaAccount(
        nominal=64, used=40, free=24, total=64
    )


def test_a_cohort_lends_what_nobody_uses() -> None:
    fleet = fleet_of(queue("a4", 64, 64, "lab"), queue("research", 32, 8, "lab"))
    assert flavor_account(fleet, "a4", "a4") == QuotaAccount(nominal=64, used=64, free=24, total=96, can_borrow=24)
    assert flavor_account(fleet, "research", "a4") == QuotaAccount(nominal=32, used=8, free=24, total=96)


def test_what_others_borrowed_is_lent_and_not_free() -> None:
    fleet = fleet_of(queue("a4", 64, 80, "lab"), queue("research", 32, 8, "lab"))
    assert flavor_account(fleet, "a4", "a4").borrowed == 16
    assert flavor_account(fleet, "research", "a4") == QuotaAccount(nominal=32, used=8, free=8, total=96, lent=16)


def test_limits_of_borrowing_and_lending() -> None:
    fleet = fleet_of(queue("a4", 64, 64, "lab", borrow=8), queue("research", 32, 0, "lab", lend=16))
    assert (flavor_account(fleet, "a4", "a4").free, flavor_account(fleet, "a4", "a4").total) == (8, 72)
    unlimited = fleet_of(queue("a4", 64, 64, "lab"), queue("research", 32, 0, "lab", lend=16))
    assert (flavor_account(unlimited, "a4", "a4").free, flavor_account(unlimited, "a4", "a4").total) == (16, 80)
    assert flavor_account(unlimited, "research", "a4").free == 32


def test_quota_of_a_cohort_and_of_the_one_above() -> None:
    fleet = fleet_of(
        Cohort("lab", parent="org", quotas=(Quota("a4", GPU, 8),)),
        Cohort("org", quotas=(Quota("a4", GPU, 16),)),
        queue("a4", 64, 0, "lab"),
        queue("far", 32, 0, "org"),
    )
    assert flavor_account(fleet, "a4", "a4").total == 64 + 8 + 16 + 32


def test_a_cohort_without_an_object_exists_all_the_same() -> None:
    fleet = fleet_of(queue("a4", 8, 0, "nowhere"), queue("b4", 8, 0, "nowhere"))
    assert flavor_account(fleet, "a4", "a4").total == 16


def test_cohorts_in_a_circle_end() -> None:
    fleet = fleet_of(Cohort("x", parent="y"), Cohort("y", parent="x"), queue("a4", 8, 0, "x"))
    assert flavor_account(fleet, "a4", "a4").nominal == 8


def test_a_cohort_may_be_named_like_its_queue() -> None:
    fleet = fleet_of(Cohort("a4"), queue("a4", 64, 32, "a4"))
    assert flavor_account(fleet, "a4", "a4") == QuotaAccount(nominal=64, used=32, free=32, total=64)


def test_more_used_than_there_is_leaves_nothing_free() -> None:
    assert flavor_account(fleet_of(queue("a4", 8, 16)), "a4", "a4") == QuotaAccount(
        nominal=8, used=16, total=8, borrowed=8
    )


def test_flavors_are_summed_up_for_a_queue() -> None:
    both = ClusterQueue(
        "a4",
        quotas=(Quota("a4", GPU, 64), Quota("spot", GPU, 16), Quota("a4", "cpu", 1000)),
        reserved=(Usage("a4", GPU, 8), Usage("spot", GPU, 4)),
    )
    assert queue_account(fleet_of(both), "a4") == QuotaAccount(nominal=80, used=12, free=68, total=80)


def test_a_queue_nobody_knows_has_nothing() -> None:
    assert queue_account(fleet_of(), "none") == QuotaAccount()


AMOUNT = st.integers(0, 64)
LIMIT = st.none() | AMOUNT


@given(st.lists(st.tuples(AMOUNT, AMOUNT, LIMIT, LIMIT), min_size=1, max_size=4))
def test_accounts_add_up(facts: list[tuple[int, int, int | None, int | None]]) -> None:
    queues = [
        queue(f"q{n}", nominal, used, "lab", borrow, lend) for n, (nominal, used, borrow, lend) in enumerate(facts)
    ]
    fleet = fleet_of(*queues)
    for each in queues:
        found = flavor_account(fleet, each.name, "a4")
        assert found.free >= 0
        assert found.total <= sum(nominal for nominal, _, _, _ in facts)
        assert found.lent + found.free - found.can_borrow <= max(0, found.nominal - found.used) or found.can_borrow == 0
        assert found.lent <= max(0, found.nominal - found.used)
        book = ledger(fleet, "a4")
        assert book.available(each.name, {each.name: found.used}) >= book.available(each.name)


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1, max_size=5))
def test_in_a_cohort_without_limits_everybody_sees_the_same_total(facts: list[tuple[int, int]]) -> None:
    fleet = fleet_of(*(queue(f"q{n}", nominal, used, "lab") for n, (nominal, used) in enumerate(facts)))
    left = sum(nominal for nominal, _ in facts) - sum(used for _, used in facts)
    assert {flavor_account(fleet, f"q{n}", "a4").free for n in range(len(facts))} == {max(0, left)}


def test_the_figures_of_an_account_add_up() -> None:
    for have, words in (
        (QuotaAccount(112, 96, 24, 120, 0, 8, 0), "112 own + 8 to borrow - 96 used = 24 free"),
        (QuotaAccount(48, 8, 56, 64, 0, 16, 0), "48 own + 16 to borrow - 8 used = 56 free"),
        (QuotaAccount(48, 60, 4, 64, 12, 4, 0), "48 own + 16 to borrow - 60 used = 4 free"),
        (QuotaAccount(32, 16, 8, 64, 0, 0, 8), "32 own - 16 used - 8 lent = 8 free"),
        (QuotaAccount(32, 0, 32, 32, 0, 0, 0), "32 free"),
        (QuotaAccount(0, 0, 0, 0, 0, 0, 0), "0 free"),
    ):
        assert have.sum_text == words
        assert have.nominal + have.borrowed + have.can_borrow - have.used - have.lent == have.free
