import asyncio
import random
import time
from collections import Counter
from contextlib import aclosing
from email.utils import formatdate

import pytest

from console.errors import ConsoleError
from console.kube.objects.event import Event
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.snapshot import FLEET_FIELDS, SNAPSHOT_SECONDS, Fleet, Store, WatchState, WatchStatus, complete_until
from console.kube.stream_completeness import ReceiveTimes, ServerClock
from tests.apiserver import eventually, first, gathered


def pod(name: str, phase: str = "Running") -> Pod:
    return Pod("n", name, phase=phase)


class NotCompared(Pod, frozen=True, gc=False):
    def __eq__(self, other: object) -> bool:
        pytest.fail("in a job of 10,000 pods, comparing each changed one with others takes seconds")


def test_what_a_snapshot_has_worked_out_is_as_if_worked_out_anew() -> None:
    chance, store, names = (
        random.Random(5),
        Store(),
        [f"{kind}-{number}" for number in range(20) for kind in ("p", "dcgm-exporter")],
    )
    grouped = ("pods_by_node", "pods_by_jobset", "exporters_by_node")
    for _ in range(300):
        for name in chance.sample(names, chance.randrange(4)):
            if chance.random() < 0.3:
                store.remove("pods", ("n", name))
                continue
            node, uid = chance.choice(["", "a", "b"]), chance.choice(["", "u", "v"])
            store.set_object("pods", ("n", name), NotCompared("n", name, node=node, jobset_uid=uid, gpus=8))
        if chance.random() < 0.05:
            store.replace("pods", {("n", name): Pod("n", name, node="a") for name in chance.sample(names, 9)}, {})
        if chance.random() < 0.3:
            store.mark_alive("nodes")
        fleet, anew = store.fleet, Fleet(pods=store.fleet.pods)
        assert fleet.gpus_used == anew.gpus_used
        for groups in grouped:
            known, fresh = getattr(fleet, groups), getattr(anew, groups)
            assert {name: Counter(map(id, each)) for name, each in known.items()} == {
                name: Counter(map(id, each)) for name, each in fresh.items()
            }


def test_every_kind_has_a_field_of_the_fleet() -> None:
    assert set(FLEET_FIELDS.values()) <= set(Fleet.__struct_fields__)
    store = Store()
    assert set(store.fleet.links) == set(FLEET_FIELDS)
    assert all(link.state is WatchState.LISTING for link in store.fleet.links.values())


def test_a_picture_does_not_change_and_stays_the_same_until_something_does() -> None:
    store = Store()
    store.replace("pods", {("n", "a"): pod("a")}, {})
    store.replace("nodes", {("", "x"): Node("x")}, {})
    before = store.fleet
    assert store.fleet is before
    store.set_object("pods", ("n", "b"), pod("b"))
    store.remove("pods", ("n", "a"))
    assert list(before.pods) == [("n", "a")]
    assert list(store.fleet.pods) == [("n", "b")]
    assert store.fleet.nodes is before.nodes


def test_of_events_without_end_the_latest_are_kept_and_the_watch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.snapshot.MAX_EVENTS", 100)
    store = Store()
    store.replace("events", {("n", str(each)): Event("n", str(each), last=1000.0 + each) for each in range(90)}, {})
    assert store.link("events").why == ""
    store.set_object("events", ("n", "0"), Event("n", "0", last=5000.0, count=2))
    for each in range(90, 1000):
        store.set_object("events", ("n", str(each)), Event("n", str(each), last=1000.0 + each))
        assert len(store.fleet.events) <= 100
    assert {("n", str(each)) for each in (0, *range(920, 1000))} <= store.fleet.events.keys()
    assert store.link("events").why == "only the latest 100 of more events are kept"


def test_pages_fill_a_list_that_is_not_live_yet() -> None:
    store = Store()
    store.add("pods", {("n", "a"): pod("a")})
    assert (list(store.fleet.pods), store.link("pods").state) == ([("n", "a")], WatchState.LISTING)
    store.replace("pods", {("n", "b"): pod("b")}, {})
    assert (list(store.fleet.pods), store.link("pods").state) == ([("n", "b")], WatchState.LIVE)


def test_a_long_list_under_way_is_shown_each_time_that_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("console.kube.snapshot.time.monotonic", lambda: now[0])
    store = Store()

    def shown(count: int) -> int:
        store.add("pods", {("n", str(each)): pod(str(each)) for each in range(count)})
        return len(store.fleet.pods)

    assert [shown(each) for each in (100, 110, 119, 125, 140)] == [100, 100, 100, 125, 125]
    now[0] += 1.5
    assert shown(141) == 141
    assert shown(142) == 141
    store.set_object("nodes", ("", "x"), Node("x"))
    assert len(store.fleet.pods) == 142  # with whatever else changes
    store.replace("pods", {("n", str(each)): pod(str(each)) for each in range(143)}, {})
    assert len(store.fleet.pods) == 143


def test_a_lost_link_keeps_its_rows_and_recovers() -> None:
    now = [100.0]
    store = Store(clock=lambda: now[0])
    store.replace("pods", {("n", "a"): pod("a")}, {})
    now[0] = 130.0
    store.mark_lost("pods", WatchState.STALE, ConsoleError("the connection was reset", "wait"))
    now[0] = 140.0
    store.mark_lost("pods", WatchState.STALE, ConsoleError("connection refused", "wait"))
    link = store.fleet.links["pods"]
    assert (link.state, link.since, link.last_seen, link.why) == (WatchState.STALE, 130.0, 100.0, "connection refused")
    assert list(store.fleet.pods) == [("n", "a")]
    store.mark_alive("pods")
    link = store.fleet.links["pods"]
    assert (link.state, link.since, link.why, link.hint) == (WatchState.LIVE, 140.0, "", "")


@pytest.mark.parametrize("state", [WatchState.FORBIDDEN, WatchState.ABSENT])
def test_what_may_not_be_seen_is_not_shown(state: WatchState) -> None:
    store = Store()
    store.replace("pods", {("n", "a"): pod("a")}, {})
    store.mark_lost("pods", state, ConsoleError("no", "ask"))
    assert (dict(store.fleet.pods), store.fleet.links["pods"].hint) == ({}, "ask")


def test_objects_that_cannot_be_read_are_counted_and_keep_their_last_form() -> None:
    store = Store()
    store.set_version("pods", "v1", "only namespace n")
    store.replace("pods", {("n", "a"): pod("a"), ("n", "b"): pod("b")}, {("n", "z"): "Expected `str`"})
    assert store.link("pods").why == "only namespace n; 1 of them cannot be read, the first n/z: Expected `str`"
    store.mark_unparsable("pods", ("n", "a"), "nonsense")
    assert set(store.fleet.pods) == {("n", "a"), ("n", "b")}
    store.replace("pods", {("n", "b"): pod("b")}, {("n", "a"): "nonsense"})
    assert set(store.fleet.pods) == {("n", "a"), ("n", "b")}
    store.set_object("pods", ("n", "a"), pod("a", "Failed"))
    assert (store.fleet.pods["n", "a"].phase, store.link("pods").why) == ("Failed", "only namespace n")
    store.mark_unparsable("pods", ("n", "a"), "nonsense")
    store.remove("pods", ("n", "a"))
    assert (set(store.fleet.pods), store.link("pods").why) == ({("n", "b")}, "only namespace n")


@pytest.mark.parametrize(
    ("state", "seen", "since", "pause", "missing"),
    [
        pytest.param(WatchState.LIVE, 500.0, 900.0, (0.0, 0.0), 5.0, id="quiet, and the server answers others"),
        pytest.param(WatchState.LIVE, 500.0, 900.0, (300.0, 100.0), 300.0, id="nothing of it since a pause"),
        pytest.param(WatchState.LIVE, 50.0, 900.0, (300.0, 100.0), 5.0, id="something of it since a pause"),
        pytest.param(WatchState.STALE, 500.0, 40.0, (0.0, 0.0), 40.0, id="lost, and the server answers others"),
        pytest.param(WatchState.STALE, 500.0, 40.0, (300.0, 100.0), 300.0, id="lost in a pause"),
        pytest.param(WatchState.ABSENT, 0.0, 0.0, (0.0, 0.0), 0.0, id="not served"),
    ],
)
def test_what_of_a_watch_may_be_missing(
    state: WatchState, seen: float, since: float, pause: tuple[float, float], missing: float
) -> None:
    wall, clock, arrivals = time.time(), time.monotonic(), ReceiveTimes()
    arrivals.last_at, arrivals.pause = clock - 5.0, (clock - pause[0], clock - pause[1]) if any(pause) else (0.0, 0.0)
    link = WatchStatus("pods", state, since=wall - since, received_at=clock - seen)
    assert time.time() - complete_until([link], arrivals) == pytest.approx(missing, abs=0.5)


@pytest.mark.parametrize(
    ("dates", "jump", "off"),
    [
        pytest.param([], 3600.0, 3600.0, id="no date: nothing is known"),
        pytest.param(["nonsense"], 3600.0, 3600.0, id="no date that can be read"),
        pytest.param([0.0], 3.0, 3.0, id="as good as the server's"),
        pytest.param([0.0], 3600.0, 0.0, id="an hour ahead"),
        pytest.param([0.0], -3600.0, 0.0, id="an hour behind"),
        pytest.param([0.0], 3.2e8, 0.0, id="ten years ahead"),
        pytest.param([-7200.0, 0.0], 3600.0, 0.0, id="the latest answer counts"),
    ],
)
def test_a_clock_that_is_wrong_or_jumps_is_not_believed_over_the_server(
    dates: list[float | str], jump: float, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, clock = time.time(), ServerClock()
    for date in dates:
        clock.set_from_header(date if isinstance(date, str) else formatdate(now + date, usegmt=True))
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert clock.now() == pytest.approx(now + off, abs=1.5)


async def test_bursts_fold_and_the_last_change_is_never_lost() -> None:
    store = Store()
    async with gathered(store.snapshots()) as pictures:
        started = asyncio.get_running_loop().time()
        for each in range(2000):
            store.set_object("pods", ("n", "a"), pod("a", str(each)))
            if each % 100 == 0:
                await asyncio.sleep(0)
        await eventually(lambda: pictures and pictures[-1].pods["n", "a"].phase == "1999")
        took = asyncio.get_running_loop().time() - started
        assert len(pictures) <= 2 + took / SNAPSHOT_SECONDS


async def test_the_picture_comes_at_once_and_then_only_when_something_changes() -> None:
    store = Store()
    async with aclosing(store.snapshots()) as pictures:
        await first(1, pictures)
        waiting = asyncio.ensure_future(anext(pictures))
        done, _ = await asyncio.wait([waiting], timeout=SNAPSHOT_SECONDS * 2)
        assert not done
        store.mark_alive("pods")
        fleet = await asyncio.wait_for(waiting, 60)
        assert fleet.links["pods"].state is WatchState.LIVE


async def test_everybody_who_looks_sees() -> None:
    store = Store()
    async with gathered(store.snapshots()) as one, gathered(store.snapshots()) as two:
        store.set_object("pods", ("n", "a"), pod("a"))
        await eventually(lambda: one and two and one[-1].pods and two[-1].pods)
        assert one[-1] is two[-1]


async def test_a_watch_that_died_of_a_mistake_is_not_silent() -> None:
    store = Store()
    store.fail(ZeroDivisionError("oops"))
    with pytest.raises(ZeroDivisionError):
        await first(1, store.snapshots())


async def test_the_end() -> None:
    store = Store()
    store.end()
    assert await first(1, store.snapshots()) == []


def test_another_cluster_begins_empty() -> None:
    store = Store(["pods"])
    store.replace("pods", {("n", "a"): pod("a")}, {("n", "b"): "odd"})
    store.reset(["pods", "nodes"])
    assert (dict(store.fleet.pods), store.link("pods").state, set(store.fleet.links)) == (
        {},
        WatchState.LISTING,
        {"pods", "nodes"},
    )
    store.mark_alive("pods")
    assert store.link("pods").why == ""
