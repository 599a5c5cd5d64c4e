"""What comes again and again: noted, counted, and expected while others wait."""

import time
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from console.kube.objects.meta import GPU
from console.kube.objects.queue import LocalQueue, ResourceFlavor
from console.kube.snapshot import Fleet
from console.scheduling import start_windows as module
from console.scheduling.job_arrivals import (
    DAY,
    HOUR,
    RECENT_SECONDS,
    SeenWorkload,
    add_seen_workloads,
    expected_arrivals,
    read_seen_workloads,
    update_seen_workloads,
)
from console.scheduling.run_times import PastRun, PastTimes, RunTime
from console.scheduling.start_windows import ExpectedArrivals, start_windows
from tests.console.scheduling.test_start_windows import LONG, key, scene, window
from tests.fakes import fleet_of
from tests.screens.queue_scene import claim, cluster_queue, job

PAST = [PastRun("nccl-all-reduce", "you", 16, seconds) for seconds in (900.0, 1000.0, 1100.0)]
LEFT = {"uid-a": 3600.0}


def seen_daily(
    fleet: Fleet, days: int, hours: tuple[int, ...], *, nodes: int = 2, priority: int = 0
) -> list[SeenWorkload]:
    """A job of two nodes at these hours of each of the last days."""
    midnight = fleet.at // DAY * DAY
    made = [midnight - day * DAY + hour * HOUR for day in range(days, 0, -1) for hour in hours]
    asked = structs.replace(claim(job("x", nodes), waits="waits"), priority=priority, conditions=())
    return [
        SeenWorkload("s", at, structs.replace(asked, uid=f"wl-{at}", created=at), "nccl-all-reduce", "you", 8 * nodes)
        for at in made
    ]


def test_each_workload_is_noted_once_as_it_asked_and_forgotten_after_two_weeks(tmp_path: Path) -> None:
    fleet, path = scene(("a", 6), waiting=(("b", 4),)), tmp_path / "workloads.json"
    update_seen_workloads(path, fleet, "s")
    first = read_seen_workloads(path)
    (running,) = (each for each in first if each.workload.owner_name == "a")
    assert (running.recipe, running.owner, running.gpus) == ("nccl-all-reduce", "you", 48)
    assert running.workload.pod_sets[0].flavors == ()
    assert running.workload.conditions == ()
    written = path.stat().st_mtime_ns
    update_seen_workloads(path, fleet, "s")
    assert path.stat().st_mtime_ns == written, "nothing is new"
    old = structs.replace(
        running, seen=fleet.at - RECENT_SECONDS - 1, workload=structs.replace(running.workload, uid="old")
    )
    assert old not in add_seen_workloads([old, *first], fleet, "s")
    assert old in add_seen_workloads([old, *first], fleet, "another"), "another cluster's clock says nothing"
    path.write_text("{")
    assert read_seen_workloads(path) == []


def test_kinds_come_as_often_as_they_did_and_more_at_their_hours() -> None:
    fleet = scene(("a", 8), waiting=(("b", 4),))
    seen = seen_daily(fleet, 10, (9, 10, 11))
    (kind,) = expected_arrivals(fleet, seen, "s", PastTimes(fleet, PAST)).kinds
    assert DAY / 3.2 < kind.interval_seconds < DAY / 2.8
    assert (kind.time.median, kind.sample.pod_sets[0].requests) == (1000.0, {GPU: 16})
    by_hour = expected_arrivals(fleet, seen, "s", PastTimes(fleet, PAST)).by_hour
    assert by_hour[10] > 4
    assert by_hour[22] == 0.0
    assert abs(sum(by_hour) - 24) < 0.01
    assert set(expected_arrivals(fleet, seen[-3:], "s", PastTimes(fleet, PAST)).by_hour) == {1.0}, "of a day or two"
    assert not expected_arrivals(fleet, seen, "another", PastTimes(fleet, PAST)).kinds
    assert not expected_arrivals(fleet, seen, "s", PastTimes(fleet, PAST[:2])).kinds, "how long they run is not known"
    closed = fleet_of(cluster_queue("a4", 0, stop_policy="Hold"), LocalQueue("default", "a4", cluster_queue="a4"),
                      ResourceFlavor("a4"))  # fmt: skip
    assert not expected_arrivals(closed, seen, "s", PastTimes(closed, PAST)).kinds


def test_what_comes_with_a_higher_priority_makes_those_that_wait_start_later() -> None:
    fleet = scene(("a", 8), waiting=(("b", 8),))
    alone = window(fleet, start_windows(fleet, LEFT, {}, budget=LONG), "b")
    seen = seen_daily(fleet, 10, tuple(range(24)), priority=5)
    arrivals = expected_arrivals(fleet, seen, "s", PastTimes(fleet, PAST))
    later = window(fleet, start_windows(fleet, LEFT, {}, budget=LONG, arrivals=arrivals), "b")
    behind = expected_arrivals(fleet, seen_daily(fleet, 10, tuple(range(24)), nodes=8, priority=-1), "s",
                               PastTimes(fleet, [structs.replace(each, gpus=64) for each in PAST]))  # fmt: skip
    assert behind.kinds
    same = window(fleet, start_windows(fleet, LEFT, {}, budget=LONG, arrivals=behind), "b")
    assert alone is not None
    assert later is not None
    assert same is not None
    assert later[1] > alone[1] + 5
    assert abs(same[1] - alone[1]) < 5


def test_rollouts_with_arrivals_that_begin_alike_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = scene(("a", 5), ("c", 3), waiting=(("b", 8), ("d", 4)))
    arrivals = expected_arrivals(fleet, seen_daily(fleet, 10, (3, 9, 15, 21), priority=5), "s", PastTimes(fleet, PAST))
    left, times = {"uid-a": 3600.0, "uid-c": 1800.0}, {f"uid-{name}": RunTime(4000.0, 0.3) for name in "abcd"}
    shared = start_windows(fleet, left, times, budget=LONG, arrivals=arrivals)
    assert key(fleet, "b") in shared.by_key
    monkeypatch.setattr(module, "MAX_KNOWN_SITUATIONS", 0)
    assert start_windows(fleet, left, times, budget=LONG, arrivals=arrivals) == shared


def test_rollouts_end_where_something_waits_for_ever_while_others_come() -> None:
    fleet = scene(("a", 8), waiting=(("b", 9), ("c", 4)))
    arrivals = expected_arrivals(fleet, seen_daily(fleet, 10, tuple(range(24))), "s", PastTimes(fleet, PAST))
    began = time.process_time()
    found = start_windows(fleet, LEFT, {"uid-c": RunTime(600.0, 0.2)}, budget=0.5, arrivals=arrivals)
    assert time.process_time() - began < 2.0
    assert key(fleet, "b") not in found.by_key
    assert key(fleet, "c") in found.by_key


def test_an_hour_in_which_nothing_comes_is_passed_over() -> None:
    fleet = scene(("a", 8), waiting=(("b", 4),))
    (kind,) = expected_arrivals(fleet, seen_daily(fleet, 10, (9, 10, 11)), "s", PastTimes(fleet, PAST)).kinds
    by_hour = tuple(24.0 if hour == 10 else 0.0 for hour in range(24))
    dice, at = Random(1), fleet.at
    times = [at := ExpectedArrivals((kind,), by_hour).next_after(at, kind, dice) for _ in range(50)]
    assert {int(each // HOUR) % 24 for each in times} == {10}
    assert 10 * DAY < times[-1] - fleet.at < 30 * DAY
