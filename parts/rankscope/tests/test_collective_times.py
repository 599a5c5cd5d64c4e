"""Slow GPUs, hosts and links: recorded on H100 and H200 (tests/bench/ranks), and jobs with groups, worked out."""

import json
import math
import random
import re
import statistics
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rankscope.collective_times import (
    PodTimes,
    RankTimes,
    RdmaDevice,
    TimesReport,
    find_late_on_gpu,
    find_step,
    read_times,
)
from rankscope.flight_recorder import GroupRanks
from rankscope.slow_rank_texts import SLOW_ADVICE
from rankscope.slow_ranks import SlowReport, add_times, find_slow_ranks, parse_polls

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"


def read_trials(path: Path) -> dict[str, dict[str, Any]]:
    with tarfile.open(path) as archive:
        found = {}
        for name in archive.getnames():
            member = archive.extractfile(name)
            assert member is not None
            found[name] = json.load(member)
    return found


TRIALS = read_trials(FIXTURES / "h100" / "slow.tar.gz")  # 4 ranks of one GPU, without the clock of launches
TRIALS_OF_FOUR = read_trials(FIXTURES / "h200" / "slow_four.tar.gz")  # of two GPUs
TRIALS_OF_TWO = read_trials(FIXTURES / "h200" / "slow.tar.gz")  # a rank on each of two GPUs, steps of 8 and of 30 ms


def verdict(trial: dict[str, Any]) -> SlowReport:
    kept = trial["kept"]
    addresses = {address: at for at, address in enumerate(kept["addresses"])}
    answers = [json.loads(each) for each in kept["times"]]
    for each in (rank for answer in answers for rank in answer["ranks"]):
        each["direct"] = list(each.get("times", ()))  # this loop calls all_reduce itself, which was not told then
    times = read_times({at: json.dumps(each).encode() for at, each in enumerate(answers)}, addresses)
    return add_times(find_slow_ranks(parse_polls(kept["polls"].encode())), times, {2: "node-2"})


@pytest.mark.parametrize(
    ("trial", "ranks"),
    [pytest.param(trial, ranks, id=f"{ranks} ranks, {name}")
     for ranks, trials in ((4, TRIALS), (2, TRIALS_OF_TWO), (4, TRIALS_OF_FOUR)) for name, trial in trials.items()],
)  # fmt: skip
def test_rank_and_cause_of_real_runs_are_reported_and_no_healthy_one_is_accused(
    trial: dict[str, Any], ranks: int
) -> None:
    report = verdict(trial)
    cause = {"gpu": "GPU", "link": "network"}.get(trial["kind"], trial["kind"])
    slight = trial is TRIALS["trial-041.json"]  # its GPU has 5 % more to do: 4 % of a step
    wanted = [] if trial["kind"] == "none" or slight else [(trial["rank"], cause)]
    # That a host is late the collectives alone tell: py-spy has not looked.
    assert [(late.rank, late.cause) for late in report.slow] == (wanted if cause != "host" else [])
    assert [(late.rank, late.cause) for late in report.suspects] == (wanted if cause == "host" else [])
    assert report.has_verdict is (cause != "host")
    assert report.no_gpu_slow is (not wanted)
    assert report.timed == f"{ranks} of {ranks} ranks told how long collectives took"


@pytest.mark.parametrize("name", [name for name, each in TRIALS.items() if each["kind"] == "none"])
def test_launches_alone_make_no_healthy_rank_of_these_a_suspect(name: str) -> None:
    assert find_slow_ranks(parse_polls(TRIALS[name]["kept"]["polls"].encode())).suspects == ()


def test_the_recorded_trials_are_of_every_kind() -> None:
    assert {each["kind"] for each in TRIALS.values()} == {"none", "host", "gpu", "link"}
    assert [each["reads"] for each in TRIALS.values() if each["kind"] == "gpu"] == [False, True]


def test_a_slow_link_is_reported_by_its_round_trips() -> None:
    (trial,) = [each for each in TRIALS.values() if each["kind"] == "link" and "1500mbit" in each["amount"]]
    report = verdict(trial)
    (said,) = report.words
    assert re.fullmatch(
        r"Rank 1 \(pod 1, GPU 0\): the others wait for it, at most for [\d.]+ % of each step, "
        r"because of the network of its pod: its packets take .*",
        said,
    )
    assert report.advice == (SLOW_ADVICE["network"],)


WORLD, TP = 16, 2


def job(late: dict[int, int], *, stages: int = 1, slow_stage: int = 0) -> dict[int, PodTimes]:
    """Of 16 ranks in pods of 4, with tensor groups of two: 40 steps, each with a collective in each group.

    `late`: by how many microseconds a rank is late in its step; `slow_stage`: by how many the first stage is.
    """
    chance, found = random.Random(3), {rank: RankTimes(rank) for rank in range(WORLD)}
    a_stage = WORLD // stages
    groups = [("0", list(range(WORLD)))]
    groups += [(f"t{at}", [at, at + 1]) for at in range(0, WORLD, TP)]
    groups += [(f"d{stage}-{at}", list(range(stage * a_stage + at, (stage + 1) * a_stage, TP)))
               for stage in range(stages) for at in range(TP)]  # fmt: skip
    order = sorted(groups, key=lambda each: (each[0] == "0", each[0][0] == "d"))
    for step in range(40):
        at = {rank: 50_000 * step + late.get(rank, 0) + (slow_stage if rank < a_stage else 0) for rank in found}
        for name, ranks in order:
            end = max(at[rank] for rank in ranks) + 300
            for rank in ranks:
                found[rank].groups[name] = GroupRanks("", ranks)
                found[rank].times.setdefault(name, []).append((step, at[rank], end - at[rank] + chance.randrange(40)))
                at[rank] = end
    return {pod: PodTimes([found[rank] for rank in range(pod * 4, pod * 4 + 4)]) for pod in range(WORLD // 4)}


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("rank", [0, 7, 10])
def test_of_those_who_are_late_together_the_one_is_named_who_waits_for_nobody(rank: int, stages: int) -> None:
    report = find_late_on_gpu(job({rank: 3000}, stages=stages), {})
    assert [(each.rank, each.pod, each.gpu) for each in report.late] == [(rank, rank // 4, rank % 4)]
    assert report.late[0].share == pytest.approx(3000 / 50_000, abs=0.005)


def test_a_healthy_job_and_a_slow_stage_have_no_slow_rank() -> None:
    assert find_late_on_gpu(job({}), {}).late == ()
    report = find_late_on_gpu(job({}, stages=2, slow_stage=4000), {})
    assert (report.has_verdict, report.late) == (True, ())


def test_two_slow_ranks_are_both_named() -> None:
    assert {each.rank for each in find_late_on_gpu(job({3: 4000, 12: 4000}), {}).late} == {3, 12}


def test_a_nic_that_is_slower_than_those_of_other_pods_is_named() -> None:
    pods = job({})
    for pod in pods.values():
        for each in pod.ranks:  # much of the time all are in collectives
            each.times = {
                name: [(at, when, took + 5000) for at, when, took in rows] for name, rows in each.times.items()
            }
        pod.rdma = [RdmaDevice("mlx5_0", "ACTIVE", "400 Gb/sec"), RdmaDevice("mlx5_1", "ACTIVE", "400 Gb/sec")]
    pods[2].rdma[1].rate = "100 Gb/sec"
    link = find_late_on_gpu(pods, {}).link
    assert link is not None
    assert (link.pod, link.rank) == (2, 8)
    assert link.what == "its mlx5_1 has 100 Gb/sec (ACTIVE), unlike those of the other pods"


HUGE = b"1" * 400
JUNK = [
    b"", b"\x1b]0;PWNT\x07", b'{"ranks": 7}', b'{"ranks": [{"rank": "x"}]}', b"\xff" * 99,
    b'{"ranks": [{"rank": 1, "times": {"0": [[1, 2, ' + HUGE + b"]]}}]}",
    b'{"ranks": [{"rank": 1, "queued": {"0": [' + HUGE + b"]}}]}",
    b'{"ranks": [{"rank": 1, "since": ' + HUGE + b"}]}",
    b'{"ranks": [], "links": [["10.0.0.1", ' + HUGE + b", 1]]}",
]  # fmt: skip


@pytest.mark.parametrize("said", JUNK)
def test_pods_that_answer_junk_are_counted_and_the_others_judged(said: bytes) -> None:
    answers: dict[int, Any] = {number: msgspec.json.encode(pod) for number, pod in job({7: 3000}).items()}
    answers[3] = said
    answers[2] = "Pod 2 was not reached."
    report = read_times(answers, {})
    assert [each.rank for each in report.late] == [7]
    assert report.words.startswith("8 of 8 ranks told how long collectives took; 2 pods could not be asked: ")


def test_ranks_without_times_give_no_verdict() -> None:
    pods = {0: PodTimes([RankTimes(0, groups={"0": GroupRanks("", [0, 1])}), RankTimes(1, "it has no pipe")])}
    report = find_late_on_gpu(pods, {})
    assert (report.has_verdict, report.late) == (False, ())
    assert report.words == "0 of 2 ranks told how long collectives took (it has no pipe)"
    before = SlowReport(problem="No verdict: NCCL answered 3 times only, 100 are needed.")
    after = add_times(before, report, {})
    assert (after.problem, after.has_verdict, after.timed) == (before.problem, False, report.words)


STEPS, BUCKETS = 40, 14
FOUR_GAPS = [400, 900, 600, 20_000]  # of the steps of a job; in every tenth its loss is read


def overlapped(late: list[int], *, in_time: bool = False, jitter: int = 300) -> dict[int, PodTimes]:
    """Two ranks as with DDP: of a step of 20 ms the buckets follow each other while the gradients are worked out.

    `late`: by how many microseconds rank 1 is late in each step, over and over; the others wait in all buckets that
    follow, each time until it has worked out the next one. `in_time`: its host launches in time.
    """
    chance, found = random.Random(5), {rank: RankTimes(rank, since=0, direct=[]) for rank in (0, 1)}
    for step in range(STEPS):
        behind = {0: chance.randrange(jitter), 1: chance.randrange(jitter) + late[step % len(late)]}
        for bucket in range(BUCKETS):
            number = step * BUCKETS + bucket
            ready = {rank: 20_000 * step + 10_000 + 700 * bucket + each for rank, each in behind.items()}
            over = max(ready.values()) + 200
            for rank, own in found.items():
                own.groups["0"] = GroupRanks("default_pg", [0, 1])
                begins = ready[rank] if bucket == 0 else max(ready[rank], over - 900)
                launched = ready[0] - 50 if in_time else ready[rank] - 50
                own.times.setdefault("0", []).append((number, launched, over - begins))
    return {rank: PodTimes([each], clock="a") for rank, each in found.items()}


@pytest.mark.parametrize(
    ("late", "in_time", "wanted"),
    [
        pytest.param([3000], True, [(1, False)], id="its GPU in each step"),
        pytest.param([3000], False, [(1, True)], id="its host in each step"),
        pytest.param([12_000, 0, 0, 0], False, [(1, True)], id="its host in every fourth step"),
        pytest.param([600], True, [], id="by 3 %, as GPUs of a fleet differ"),
        pytest.param([50_000, *[0] * 19], False, [], id="in one of 20 steps, as one that saves"),
        pytest.param([*[3000] * 19, -200_000], True, [(1, False)], id="its GPU, where the other one saves at times"),
        pytest.param([0], False, [], id="not at all"),
    ],
)
def test_where_collectives_overlap_the_computation_the_longest_wait_of_a_step_counts(
    late: list[int], in_time: bool, wanted: list[tuple[int, bool]]
) -> None:
    report = find_late_on_gpu(overlapped(late, in_time=in_time), {})
    assert [(each.rank, each.by_host) for each in report.late] == wanted
    cost = statistics.fmean(max(0, each) for each in late) / 20_000
    if wanted:
        assert report.late[0].share == pytest.approx(cost, rel=0.15)
    elif len(late) == 1:
        assert cost < report.bound < 0.05


def test_where_each_gather_of_a_step_waits_a_part_these_count_by_the_half() -> None:
    chance, found = random.Random(5), {rank: RankTimes(rank, since=0, gathers=["0"]) for rank in range(4)}
    for rank, own in found.items():
        own.groups["0"] = GroupRanks("default_pg", [*found])
        own.times["0"] = [
            (number, 20_000 * (number // 4) + 3000 * (number % 4), 1000 + chance.randrange(100) - 800 * (rank == 1))
            for number in range(4 * STEPS)
        ]
    late = find_late_on_gpu({rank: PodTimes([each], clock="a") for rank, each in found.items()}, {}).late
    assert [(each.rank, round(each.share, 2), round(each.high, 2)) for each in late] == [(1, 0.04, 0.16)]


def staged(*, slow: int) -> dict[int, PodTimes]:
    """Two stages of a pipeline, tensors over two ranks in each, four batches in a step of 100 ms.

    In the first stage the gradients follow the batches; in the second each batch looks like the others. The host of a
    rank is 200 ms late in 8 of 40 steps. At the end of each the second stage waits for the first.
    """
    late_steps = random.Random(5).sample(range(STEPS), 8)
    found = {rank: RankTimes(rank, since=0, direct=[f"{rank // 2}", "all"]) for rank in range(4)}
    for rank, own in found.items():
        number, at, stage = 0, 0, rank // 2
        own.groups[f"{stage}"] = GroupRanks("TENSOR_MODEL_PARALLEL_GROUP", [2 * stage, 2 * stage + 1])
        own.groups["all"] = GroupRanks("default_pg", [0, 1, 2, 3])
        for step in range(STEPS):
            late = 200_000 if step in late_steps else 0
            for gap in [1000, 3000, 21_000] * 4 if stage else [5000] * 15 + [25_000]:
                waits = late if rank != slow and stage == slow // 2 else 0
                own.times.setdefault(f"{stage}", []).append((number, at + (late if rank == slow else 0), 50 + waits))
                number, at, late = number + 1, at + gap + late, 0
            own.times.setdefault("all", []).append((step, at, 50 + 40_000 * stage))
    return {rank: PodTimes([each], clock="a") for rank, each in found.items()}


@pytest.mark.parametrize("slow", range(4))
def test_a_step_of_several_batches_is_as_long_in_all_groups(slow: int) -> None:
    report = find_late_on_gpu(staged(slow=slow), {})
    assert [(each.rank, each.by_host) for each in report.late] == [(slow, True)]
    assert report.late[0].share == pytest.approx(1600 / 5600, rel=0.02)


def test_times_that_rule_nothing_out_are_no_verdict() -> None:
    report = add_times(SlowReport(polls=200, seconds=4.0), TimesReport(has_verdict=True, bound=1.5), {})
    assert (report.has_verdict, report.bound) == (False, 1.0)
    assert report.words == (
        "No verdict: the times of collectives scatter so much that nothing can be ruled out; look longer: "
        "--seconds 30.",
    )


@pytest.mark.parametrize(
    ("gaps", "size"),
    [([700] * 5 + [9000], 6), ([700], 1), (FOUR_GAPS, 4), (FOUR_GAPS * 9 + [20_000] * 4, 4)],
)
def test_the_collectives_of_a_step_are_found_by_when_they_repeat_themselves(gaps: list[int], size: int) -> None:
    chance, at, launched = random.Random(2), 0, dict[int, int]()
    for number in range(400):
        launched[number] = at
        at += int(gaps[number % len(gaps)] * chance.uniform(0.9, 1.1))
    assert find_step(launched, sorted(launched)) == size
    noise = {number: int(math.exp(chance.uniform(5, 10))) + number * 10**6 for number in range(400)}
    assert (
        find_step(dict(zip(noise, sorted(chance.randrange(10**9) for _ in noise), strict=True)), sorted(noise)) is None
    )
