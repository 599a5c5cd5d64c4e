"""Pools without a machine on the Fleet screen: a key asks Google, or another screen has asked already."""

from dataclasses import replace

from console.errors import NotLoggedIn
from console.google.node_pools import GooglePool, PoolsSnapshot, merge_google_pools
from console.kube.objects.node import Provisioning
from console.scheduling.topology import build_pools
from screens.pages.nodepools import PoolScreen
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import console, press, screen_text, toasts, until, until_shown
from tests.screens.test_pool import FLEX, POOL, facts, node, picture

ZERO = replace(POOL, name="a4-zero", reservation="", least=0, most=4)
BROKEN = replace(POOL, name="a4-broken", status="ERROR", message="No capacity in the zone.", reservation="")
MADE = replace(POOL, name="a4-new", status="PROVISIONING", autoscaling=False)


def google_pools() -> PoolsSnapshot:
    none = {"nodes": 0, "ready": 0}
    return picture(
        facts(),
        replace(facts(FLEX, target=0, operations=()), **none),  # type: ignore[arg-type]
        replace(facts(ZERO, target=0, operations=()), **none),  # type: ignore[arg-type]
        replace(facts(BROKEN, target=2, operations=()), **none),  # type: ignore[arg-type]
        replace(facts(MADE, target=None, operations=()), **none),  # type: ignore[arg-type]
    )


def session() -> FakeSession:
    made = FakeSession(fleet_of(node(0), node(1), node(2)))
    made.answers["pools"] = google_pools()
    return made


async def test_a_key_shows_pools_without_machines_and_why_they_have_none() -> None:
    async with console(session(), size=(150, 30)) as (app, pilot, fake):
        await until_shown(pilot, "a All pools")
        assert "a4-flex" not in screen_text(app)
        assert "pools" not in [name for name, *_ in fake.calls]
        await press(pilot, "a", then=lambda: "a4-flex" in screen_text(app))
        words = ("no machine yet: 1 request to DWS waits", "no machine: up to 4 come when a job asks",
                 "No capacity in the zone", "is being created", "0/2")  # fmt: skip
        await until(pilot, lambda: all(each in screen_text(app) for each in words))
        await until(pilot, lambda: "All pools" not in screen_text(app).splitlines()[-1])
        await press(pilot, "end", "enter", then=lambda: isinstance(app.screen, PoolScreen))


async def test_what_another_screen_has_asked_is_shown_at_once() -> None:
    made = session()
    made.google.node_pools.last_snapshot = google_pools()
    async with console(made, size=(150, 30)) as (_, pilot, _):
        await until_shown(pilot, "a4-zero")


async def test_without_a_login_the_next_step_is_shown_and_the_key_stays() -> None:
    made = session()
    made.answers["pools"] = NotLoggedIn("There are no Google credentials.", "Log in with `gcloud auth`.")
    async with console(made, size=(150, 30)) as (app, pilot, _):
        await until_shown(pilot, "a All pools")
        await press(pilot, "a", then=lambda: "Log in with `gcloud auth`." in toasts(app))
        await until_shown(pilot, "a All pools", "a4-pool")


async def test_nodes_of_no_pool_have_nothing_to_ask_google() -> None:
    async with console(FakeSession(fleet_of(node(0, pool="")))) as (app, pilot, _):
        await pilot.pause()
        assert "without machines" not in screen_text(app)


def test_the_lists_become_one() -> None:
    found = merge_google_pools(build_pools(fleet_of(node(0), node(3, pool="", machine_type="e2"))), google_pools())
    assert [each.name for each in found] == ["a4-pool", "e2", "a4-broken", "a4-flex", "a4-new", "a4-zero"]
    assert [each.nodes_total for each in found] == [3, 1, 2, 0, 0, 0]
    assert found[3].provisioning is Provisioning.QUEUED
    assert not isinstance(found[1], GooglePool)
    assert merge_google_pools(found, None) == found
