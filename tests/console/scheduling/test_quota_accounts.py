from typing import Any

import pytest
from hypothesis import given, strategies as st

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, Cohort, Quota, Usage
from console.scheduling.quota_ledger import flavor_account, queue_account, quota_ledger
from console.scheduling.why import QuotaAccount
from tests.fakes import fleet_of


def queue(
    name: str, nominal: int, used: int = 0, cohort: str = "", borrow: int | None = None, lend: int | None = None,
    flavor: str = "a4",
) -> ClusterQueue:  # fmt: skip
    return ClusterQueue(
        name, cohort=cohort, quotas=(Quota(flavor, GPU, nominal, borrow, lend),), reserved=(Usage(flavor, GPU, used),)
    )


LAB = queue("a4", 64, 64, "lab"), queue("research", 32, 8, "lab")
LENDS = queue("a4", 64, 64, "lab"), queue("research", 32, 0, "lab", lend=16)
ORG = Cohort("lab", parent="org", quotas=(Quota("a4", GPU, 8),)), Cohort("org", quotas=(Quota("a4", GPU, 16),))
ACCOUNTS: dict[str, tuple[tuple[Any, ...], str, dict[str, int]]] = {
    "a queue by itself": ((queue("a4", 64, 40),), "a4", {"nominal": 64, "used": 40, "free": 24, "total": 64}),
    "who borrows": (LAB, "a4", {"nominal": 64, "used": 64, "free": 24, "total": 96, "can_borrow": 24}),
    "who lends": (LAB, "research", {"nominal": 32, "used": 8, "free": 24, "total": 96}),
    "who has borrowed": ((queue("a4", 64, 80, "lab"), LAB[1]), "a4", {"borrowed": 16}),
    "what others borrowed is lent and not free": (
        (queue("a4", 64, 80, "lab"), LAB[1]),
        "research",
        {"nominal": 32, "used": 8, "free": 8, "total": 96, "lent": 16},
    ),
    "a limit of borrowing": ((queue("a4", 64, 64, "lab", borrow=8), LENDS[1]), "a4", {"free": 8, "total": 72}),
    "a limit of lending": (LENDS, "a4", {"free": 16, "total": 80}),
    "who limits its lending": (LENDS, "research", {"free": 32}),
    "cohorts with quota, above each other": (
        (*ORG, queue("a4", 64, 0, "lab"), queue("far", 32, 0, "org")), "a4", {"total": 64 + 8 + 16 + 32},
    ),
    "a cohort without an object": ((queue("a4", 8, 0, "no"), queue("b4", 8, 0, "no")), "a4", {"total": 16}),
    "cohorts in a circle": (
        (Cohort("x", parent="y"), Cohort("y", parent="x"), queue("a4", 8, 0, "x")), "a4", {"nominal": 8},
    ),
    "a cohort named like its queue": (
        (Cohort("a4"), queue("a4", 64, 32, "a4")), "a4", {"nominal": 64, "used": 32, "free": 32, "total": 64},
    ),
    "more used than there is": ((queue("a4", 8, 16),), "a4", {"nominal": 8, "used": 16, "total": 8, "borrowed": 8}),
}  # fmt: skip


@pytest.mark.parametrize("what", ACCOUNTS)
def test_the_account_of_a_queue(what: str) -> None:
    """Facts that are not named are 0, where all of an account is told."""
    objects, name, facts = ACCOUNTS[what]
    found = flavor_account(fleet_of(*objects), name, "a4")
    assert {each: getattr(found, each) for each in facts} == facts
    assert "used" not in facts or found == QuotaAccount(**facts)


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
        book = quota_ledger(fleet, "a4")
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
