"""Windows of starts from rollouts, and the record of what came of them."""

import time
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from console.kube.objects.jobset import Job, JobSet
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.queue import ClusterQueue, LocalQueue, Preemption, Quota, ResourceFlavor
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling import start_windows as module
from console.scheduling.forecast_record import RecordedWindow, compare, read_recorded_windows, score, update_record
from console.scheduling.launch_forecast import LaunchDemand, with_waiting_launch
from console.scheduling.run_times import PastRun, PastTimes, RunTime, run_times
from console.scheduling.start_simulation import expected_starts, first_waiting
from console.scheduling.start_windows import StartWindow, StartWindows, start_windows, with_windows
from kueue_rules import Move, VirtualCluster
from screens.columns.jobs import start_words
from tests.fakes import fleet_of, present
from tests.screens.queue_scene import claim, cluster_queue, job

LONG = 60.0
"""A budget that all rollouts fit in."""


def scene(*running: tuple[str, int], waiting: tuple[tuple[str, int], ...]) -> Fleet:
    parts: list[JobSet | Workload] = []
    for name, nodes in running:
        made = job(name, nodes)
        parts += [made, claim(made)]
    for number, (name, nodes) in enumerate(waiting):
        made = job(name, nodes, suspended=True)
        parts += [made, structs.replace(claim(made, waits="insufficient unused quota"), created=float(number + 1))]
    used = 8 * sum(nodes for _, nodes in running)
    return fleet_of(cluster_queue("a4", used), LocalQueue("default", "a4", cluster_queue="a4"), ResourceFlavor("a4"),
                    *parts)  # fmt: skip


def key(fleet: Fleet, name: str) -> tuple[str, str]:
    workload = present(fleet.workload_of(fleet.jobsets["default", name]))
    return workload.key


def window(fleet: Fleet, found: StartWindows, name: str) -> tuple[float, float] | None:
    """Minutes from now."""
    at = found.by_key.get(key(fleet, name))
    return ((at.start - fleet.at) / 60, (at.end - fleet.at) / 60) if at else None


def test_a_window_lies_around_the_end_that_a_job_waits_for() -> None:
    fleet = scene(("a", 8), waiting=(("b", 4),))
    found = start_windows(fleet, {"uid-a": 6000.0}, {}, budget=LONG)
    bounds = present(window(fleet, found, "b"))
    assert 83 < bounds[0] < 92
    assert 108 < bounds[1] < 120
    assert (found.rollouts, found.by_key[key(fleet, "b")].latest) == (200, False)
    assert start_windows(fleet, {"uid-a": 6000.0}, {}, budget=LONG) == found, "the same for the same seed"
    merged = with_windows(expected_starts(fleet, {"uid-a": 6000.0}), found)[key(fleet, "b")]
    assert start_words(merged, fleet.at).startswith("between ")
    assert start_words(merged, fleet.at).endswith(", when a ends")


def test_a_launch_that_would_wait_has_a_window() -> None:
    fleet = scene(("a", 6), ("b", 2), waiting=())
    with_it, asked = with_waiting_launch(fleet, LaunchDemand("default", "a4", 48))
    found = start_windows(with_it, {"uid-a": 6000.0, "uid-b": 600.0}, {}, budget=LONG).by_key[asked]
    assert 83 < (found.start - fleet.at) / 60 < 92
    assert 108 < (found.end - fleet.at) / 60 < 120
    assert asked not in fleet.workloads


def test_earlier_runs_say_how_long_those_in_front_will_run() -> None:
    fleet = scene(("a", 8), waiting=(("b", 8), ("c", 8)))
    left = {"uid-a": 600.0}
    assert window(fleet, start_windows(fleet, left, {}, budget=LONG), "c") is None
    assert expected_starts(fleet, left)[key(fleet, "c")].unknown.startswith("others start before it (b)")
    known = start_windows(fleet, left, {"uid-b": RunTime(3600.0, 0.2)}, budget=LONG)
    bounds = present(window(fleet, known, "c"))
    assert 50 < bounds[0] < 70 < bounds[1] < 95
    merged = with_windows(expected_starts(fleet, left), known)[key(fleet, "c")]
    assert not merged.unknown
    assert start_words(merged, fleet.at).startswith("between ")


def test_a_job_of_which_nothing_is_known_makes_the_window_the_latest_moment() -> None:
    fleet = scene(("a", 4), ("b", 4), waiting=(("c", 4),))
    found = start_windows(fleet, {"uid-a": 6000.0}, {}, budget=LONG)
    assert found.by_key[key(fleet, "c")].latest
    merged = with_windows(expected_starts(fleet, {"uid-a": 6000.0}), found)[key(fleet, "c")]
    assert (merged.window, merged.latest) == (None, True)
    assert start_words(merged, fleet.at).startswith("at once if b ends; at the latest ")
    assert not start_windows(fleet, {}, {}, budget=LONG).by_key


def test_behind_one_that_starts_and_of_which_nothing_is_known_there_is_only_the_latest_moment() -> None:
    fleet = scene(("a", 4), ("b", 4), waiting=(("c", 4), ("d", 4)))
    left = {"uid-a": 600.0, "uid-b": 6000.0}
    starts = expected_starts(fleet, left)
    found = start_windows(fleet, left, {}, budget=LONG)
    assert [found.by_key[key(fleet, name)].latest for name in "cd"] == [False, True]
    merged = with_windows(starts, found)
    assert start_words(merged[key(fleet, "c")], fleet.at).startswith("between ")
    bounds = start_words(merged[key(fleet, "d")], fleet.at)
    assert bounds.startswith("not before ")
    assert bounds.endswith(", when b ends")
    known = start_windows(fleet, left, {"uid-c": RunTime(600.0, 0.1)}, budget=LONG)
    assert window(fleet, known, "d") is not None
    assert not with_windows(starts, known)[key(fleet, "d")].latest


def test_a_job_that_runs_for_longer_than_any_before_it_still_ends() -> None:
    fleet = scene(("a", 8), waiting=(("b", 8),))
    found = start_windows(fleet, {}, {"uid-a": RunTime(100.0, 0.1)}, budget=LONG)
    bounds = present(window(fleet, found, "b"))
    assert 0 < bounds[0] < bounds[1]


def test_what_could_start_now_has_no_window() -> None:
    fleet = scene(("a", 4), waiting=(("b", 4),))
    assert not start_windows(fleet, {"uid-a": 600.0}, {}, budget=LONG).by_key


def test_without_time_for_enough_rollouts_there_is_no_window() -> None:
    fleet = scene(("a", 8), waiting=(("b", 4),))
    found = start_windows(fleet, {"uid-a": 600.0}, {}, budget=0.0)
    assert (found.rollouts, found.by_key) == (0, {})


def test_windows_hold_four_of_five_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the noise that they are made for: other rollouts start within the window as often as it says."""
    fleet = scene(("a", 3), ("b", 3), ("c", 2), waiting=(("d", 4), ("e", 4), ("f", 6)))
    left = {"uid-a": 3000.0, "uid-b": 5000.0, "uid-c": 9000.0}
    times = {f"uid-{name}": RunTime(4000.0, 0.3) for name in "def"}
    windows = start_windows(fleet, left, times, seed=1, budget=LONG).by_key
    assert len(windows) == 3
    monkeypatch.setattr(module, "MIN_ROLLOUTS", 1)
    truths = [start_windows(fleet, left, times, seed=seed, budget=LONG, rollouts=1).by_key for seed in range(100, 500)]
    for name, bounds in windows.items():
        held = sum(bounds.start <= truth[name].middle <= bounds.end for truth in truths)
        assert 0.7 <= held / len(truths) <= 0.9


def test_a_thousand_that_wait_take_at_most_two_seconds_of_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.scheduling.start_simulation.MAX_FORECAST_WORKLOADS", 1000)
    fleet = scene(*((f"r{number}", 1) for number in range(8)),
                  waiting=tuple((f"w{number}", number % 8 + 1) for number in range(1000)))  # fmt: skip
    times = {job.uid: RunTime(600.0, 0.3) for job in fleet.jobsets.values()}
    left = {f"uid-r{number}": 100.0 * (number + 1) for number in range(8)}
    began = time.process_time()
    found = start_windows(fleet, left, times)
    assert time.process_time() - began < 2.0
    assert 20 <= found.rollouts <= 200, "200 on a core that nothing else slows down"
    assert found.by_key


def four_queues(*waiting: int) -> Fleet:
    """Queues of one node each, in which one runs and so many wait; the first has most of them."""
    parts: list[JobSet | Workload | LocalQueue | ClusterQueue] = []
    for number, many in enumerate(waiting):
        name = f"q{number}"
        runs = job(f"{name}-runs", 1, queue=name)
        one_node = structs.replace(cluster_queue(name, 8), quotas=(Quota("a4", GPU, 8),))
        parts += [one_node, LocalQueue("default", name, cluster_queue=name), runs]
        parts.append(structs.replace(claim(runs, queue=name), cluster_queue=name))
        for at in range(many):
            made = job(f"{name}-w{at}", 1, suspended=True, queue=name)
            held = claim(made, waits="insufficient unused quota", queue=name)
            parts += [made, structs.replace(held, created=float(at + 1))]
    return fleet_of(ResourceFlavor("a4"), *parts)


@pytest.mark.parametrize(
    ("waiting", "tried"),
    [
        ((250, 250, 250, 250), (50, 50, 50, 50)),
        ((997, 1, 1, 1), (197, 1, 1, 1)),
        ((10, 300, 40, 650), (10, 75, 40, 75)),
        ((1, 2, 3, 0), (1, 2, 3, 0)),
    ],
)
def test_each_queue_has_a_fair_share_of_what_is_forecast(waiting: tuple[int, ...], tried: tuple[int, ...]) -> None:
    fleet = four_queues(*waiting)
    assert [len(first_waiting(fleet)[f"q{number}"]) for number in range(4)] == list(tried)
    starts = expected_starts(fleet, {f"uid-q{number}-runs": 600.0 for number in range(4)})
    for number, many in enumerate(waiting):
        if many:
            assert starts[key(fleet, f"q{number}-w0")].after_job == f"q{number}-runs", "its head is forecast"
        if many > tried[number]:
            words = f"only the first {tried[number]} that wait in queue q{number} are forecast"
            assert starts[key(fleet, f"q{number}-w{many - 1}")].unknown == words


@pytest.mark.slow(reason="hundreds of rollouts of a queue")
def test_a_thousand_that_wait_in_four_queues_have_windows_in_each() -> None:
    fleet = four_queues(400, 200, 200, 200)
    times = {job.uid: RunTime(600.0, 0.3) for job in fleet.jobsets.values()}
    found = start_windows(fleet, {f"uid-q{number}-runs": 600.0 for number in range(4)}, times)
    for number in range(4):
        assert all(window(fleet, found, f"q{number}-w{at}") is not None for at in range(5))


def mixed_scene(seed: int) -> tuple[Fleet, dict[str, float], dict[str, RunTime]]:
    """Jobs of several priorities that run and wait: the fleet, the seconds left of most of them, all run times."""
    dice, used = Random(seed), 0
    parts: list[JobSet | Workload] = []
    for number in range(dice.randint(1, 4)):
        made = job(f"r{number}", dice.randint(1, 2))
        parts += [made, structs.replace(claim(made), priority=dice.randint(0, 2))]
        used += made.gpus
    for number in range(dice.randint(1, 6)):
        made = job(f"w{number}", dice.randint(1, 8), suspended=True)
        waiting = claim(made, waits="insufficient unused quota")
        parts += [made, structs.replace(waiting, created=float(number + 1), priority=dice.randint(0, 3))]
    preemption = Preemption(within_queue=dice.choice(("Never", "LowerPriority")))
    fleet = fleet_of(cluster_queue("a4", used, preemption=preemption), LocalQueue("default", "a4", cluster_queue="a4"),
                     ResourceFlavor("a4"), *parts)  # fmt: skip
    left = {f"uid-r{number}": dice.uniform(100, 9000) for number in range(4) if dice.random() < 0.8}
    return fleet, left, {uid: RunTime(dice.uniform(100, 5000), 0.3) for uid in fleet.jobset_by_uid}


@pytest.mark.slow(reason="hundreds of rollouts of a queue")
def test_rollouts_that_begin_alike_share_what_kueue_does_and_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    admissions: list[list[Move]] = []
    admit = VirtualCluster.admit

    def counted(self: VirtualCluster, now: float = 0.0) -> list[Move]:
        admissions.append(admit(self, now))
        return admissions[-1]

    monkeypatch.setattr(VirtualCluster, "admit", counted)
    scenes = [mixed_scene(seed) for seed in range(10)]
    shared, of_shared = [start_windows(*each, budget=LONG) for each in scenes], len(admissions)
    assert any(move.preempted_by for moves in admissions for move in moves)
    admissions.clear()
    monkeypatch.setattr(module, "MAX_KNOWN_SITUATIONS", 0)
    assert [start_windows(*each, budget=LONG) for each in scenes] == shared
    assert sum(len(each.by_key) for each in shared) > 10
    assert of_shared < len(admissions) / 2


def test_run_times_come_from_runs_that_are_alike() -> None:
    fleet = scene(("a", 2), waiting=())
    mine = [PastRun("nccl-all-reduce", "you", 16, seconds) for seconds in (100.0, 200.0, 300.0)]
    others = [PastRun("nccl-all-reduce", "mira", 16, 1000.0)] * 5
    assert run_times(fleet, PastTimes(fleet, mine[:2])) == {}, "two runs say nothing"
    assert run_times(fleet, PastTimes(fleet, [*mine, *others]))["uid-a"].median == 200
    assert run_times(fleet, PastTimes(fleet, [*mine[:2], *others]))["uid-a"].median == 1000
    assert run_times(fleet, PastTimes(fleet, [PastRun("nccl-all-reduce", "you", 8, 5.0)] * 9)) == {}


def plain(name: str, nodes: int, *, kind: str = "Job", waits: str = "", ran: float | None = None) -> Workload:
    """The Workload of a job that is no JobSet; `ran`: it has finished after so long."""
    made = claim(job(name, nodes), waits=waits)
    made = structs.replace(made, owner_kind=kind, owner_name=name if kind else "", name=name, uid=f"wl-{name}",
                           owner_uid=f"uid-{name}" if kind else "")  # fmt: skip
    if ran is None:
        return made
    since = made.conditions[0].since + ran
    return structs.replace(made, conditions=(*made.conditions, Condition("Finished", "True", "Succeeded", since=since)))


def plain_scene(*parts: Workload | Job) -> Fleet:
    used = sum(each.total(GPU) for each in parts if isinstance(each, Workload) and each.cluster_queue)
    return fleet_of(cluster_queue("a4", used), LocalQueue("default", "a4", cluster_queue="a4"), ResourceFlavor("a4"),
                    *parts)  # fmt: skip


@pytest.mark.parametrize("kind", ["Job", "Pod", ""])
def test_finished_jobs_of_the_same_name_tell_how_long_one_that_is_no_jobset_runs(kind: str) -> None:
    done = [plain(f"eval-{number}", 4, kind=kind, ran=4000.0 + number) for number in range(3)]
    done = [structs.replace(each, cluster_queue="") for each in done]
    parts = (plain("eval-3", 4, kind=kind), plain("eval-4", 4, kind=kind), plain("wide", 8, kind=kind, waits="no room"))
    fleet = plain_scene(*done, *parts)
    times = run_times(fleet, PastTimes(fleet, []))
    assert set(times) == {each.job_uid for each in (*done, *parts[:2])}
    assert times[parts[0].job_uid].median == 4001.0
    found = start_windows(fleet, {}, times, budget=LONG).by_key[parts[2].key]
    assert not found.latest
    assert fleet.at + 1500 < found.start < found.end < fleet.at + 4500
    fewer = plain_scene(*done[:2], *parts)
    assert not start_windows(fewer, {}, run_times(fewer, PastTimes(fewer, []))).by_key


@pytest.mark.parametrize("limit", ["job", "pod", "kueue"])
def test_a_time_limit_gives_the_latest_start_of_those_behind(limit: str) -> None:
    first, behind = plain("first", 8, kind="Pod" if limit == "pod" else "Job"), plain("behind", 8, waits="no room")
    extra: tuple[Job, ...] = ()
    if limit == "job":
        extra = (Job("default", "first", "uid-first", limit_seconds=4000.0),)
    elif limit == "pod":
        first = structs.replace(first, pod_sets=(structs.replace(first.pod_sets[0], time_limit=4000.0),))
    else:
        first = structs.replace(first, time_limit=5000.0, ran_before=1000.0)
    fleet = plain_scene(first, behind, *extra)
    latest = first.conditions[0].since + 4000.0
    starts = expected_starts(fleet, {})
    assert (starts[behind.key].at, starts[behind.key].latest) == (latest, True)
    assert (starts[behind.key].earliest, starts[behind.key].sooner) == (0.0, ("first",)), "it may end before"
    found = start_windows(fleet, {}, {}, budget=LONG)
    assert (found.by_key[behind.key].end, found.by_key[behind.key].latest) == (latest, True)
    without = plain_scene(plain("first", 8), behind)
    assert expected_starts(without, {})[behind.key].unknown == "how long first still runs is not known"


def test_jobs_that_were_evicted_go_on_where_they_stopped_if_earlier_ones_did() -> None:
    fleet = scene(("a", 8), waiting=(("b", 8),))
    (held,) = (each for each in fleet.workloads.values() if each.owner_uid == "uid-a")
    reserved = (Condition("QuotaReserved", "True", since=fleet.at), Condition("Admitted", "True", since=fleet.at))
    parts = [each for each in fleet.workloads.values() if each is not held]
    resumed = structs.replace(held, conditions=reserved, ran_before=3000.0)
    fleet = fleet_of(*fleet.cluster_queues.values(), *fleet.local_queues.values(), *fleet.flavors.values(),
                     *fleet.jobsets.values(), *parts, resumed)  # fmt: skip
    whole = [PastRun("nccl-all-reduce", "you", 64, seconds) for seconds in (3900.0, 4000.0, 4100.0)]
    resumes, anew = (
        run_times(fleet, PastTimes(fleet, [*whole, PastRun("nccl-all-reduce", "you", 64, in_all, before=1500.0)]))[
            "uid-a"
        ]
        for in_all in (4050.0, 5600.0)
    )
    assert (resumes.median, resumes.resumes, anew.median, anew.resumes) == (4000.0, True, 4000.0, False)
    bounds = [window(fleet, start_windows(fleet, {}, {"uid-a": each}, budget=LONG), "b") for each in (resumes, anew)]
    assert bounds[0] is not None
    assert bounds[1] is not None
    assert 0 < bounds[0][0] < 1000 / 60 < bounds[0][1] < bounds[1][0] < 4000 / 60 < bounds[1][1]


def started(fleet: Fleet, name: str, at: float) -> Fleet:
    workload = present(fleet.workload_of(fleet.jobsets["default", name]))
    running = structs.replace(workload, conditions=(Condition("QuotaReserved", "True", since=at),))
    rest = [each for each in fleet.workloads.values() if each.uid != workload.uid]
    return fleet_of(*fleet.jobsets.values(), *rest, running)


def test_promises_are_compared_with_what_came_true(tmp_path: Path) -> None:
    path, fleet = tmp_path / "a4" / "forecasts.json", scene(("a", 8), waiting=(("b", 4), ("c", 4)))
    now = fleet.at
    windows = {key(fleet, name): StartWindow(now + 100, now + 200, now + 300) for name in "bc"}
    first = update_record(path, fleet, "s", windows)
    assert [each.job for each in first] == ["b", "c"]
    later = {each: StartWindow(0, 1, 2) for each in windows}
    assert update_record(path, fleet, "s", later) == first, "the first window that was told counts"
    assert read_recorded_windows(path) == first
    held = compare(first, started(fleet, "b", now + 150), "s", {})
    assert [(each.job, each.judged, each.held) for each in held] == [("b", True, True), ("c", False, False)]
    early = compare(held, started(fleet, "c", now + 50), "s", {})
    total = score(early)
    assert (total.held, total.judged, total.open, total.median_error) == (1, 2, 0, 100.0)
    assert compare(first, started(fleet, "b", now + 150), "another", {}) == first, "of another cluster nothing is known"
    path.write_bytes(b"{")
    assert read_recorded_windows(path) == []


def test_who_still_waits_when_the_window_is_over_is_late_and_who_is_gone_is_forgotten() -> None:
    fleet = scene(("a", 8), waiting=(("b", 4),))
    now, uid = fleet.at, fleet.workloads[key(fleet, "b")].uid
    over = RecordedWindow("s", uid, "default", "b", now - 500, now - 400, now - 300, now - 200)
    (late,) = compare([over], fleet, "s", {})
    assert (late.judged, late.held) == (True, False)
    (then,) = compare([late], started(fleet, "b", now - 10), "s", {})
    assert (then.started, then.judged, then.held) == (now - 10, True, False)
    gone = structs.replace(over, uid="gone", end=now - 8 * 86_400)
    assert compare([gone], fleet, "s", {}) == []
    assert compare([structs.replace(gone, end=now)], fleet, "s", {}) != []
