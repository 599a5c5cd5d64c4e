"""For whom others wait, by the launches of jobs that are worked out launch by launch and answer as NCCL RAS does."""

import json
import random
import socket
import subprocess
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rankscope import LateRank, describe_cost, poll_ras, slow_report_to_json
from rankscope.collective_times import TimesReport
from rankscope.errors import UnreadableAnswer
from rankscope.slow_rank_texts import ASK_RECORDERS, LOOK_LONGER, format_share
from rankscope.slow_ranks import MIN_POLLS, SlowReport, add_locations, add_times, find_slow_ranks, parse_polls

STEP = 0.0826
A_NODE = 8
AWK = Path(__file__).parents[3] / "practice" / "data" / "ncclras.awk"


@dataclass
class SimulatedJob:
    """A loop whose hosts launch `operations` collectives in a step, one of them late, and then wait for the GPUs."""

    world: int
    late: dict[int, float] = field(default_factory=dict)  # seconds by which a rank begins a step later
    operations: int = 4
    step: float = STEP
    groups: dict[str, Sequence[int]] = field(default_factory=dict)  # beside the communicator of all
    only_in: str = ""  # the late rank is late in this communicator alone
    runs_ahead: bool = False  # hosts launch evenly, each when its own queue has room
    skew: float = 0.0  # seconds by which each rank is asked after the one before it
    seed: int = 0

    def __post_init__(self) -> None:
        self.groups = {"all": range(self.world), **self.groups}
        self.launched: dict[tuple[str, int], list[float]] = {}
        chance, begin = random.Random(self.seed), 0.0
        for _ in range(1 + int(20 / self.step)):
            end = begin
            for rank in range(self.world):
                for name, members in self.groups.items():
                    if rank not in members:
                        continue
                    is_late = not self.only_in or name == self.only_in
                    at = begin + chance.uniform(0, 0.0002) + (self.late.get(rank, 0.0) if is_late else 0.0)
                    gap = self.step / self.operations if self.runs_ahead else 0.0001
                    times = [at + number * gap for number in range(self.operations)]
                    self.launched.setdefault((name, rank), []).extend(times)
                    end = max(end, times[-1])
            begin = begin + self.step if self.runs_ahead else end + self.step - max(self.late.values(), default=0.0)

    def count(self, name: str, rank: int, at: float) -> int:
        return bisect_right(self.launched[name, rank], at + rank * self.skew)

    def answer(self, at: float) -> str:
        """What `verbose status` in JSON tells at that moment."""
        comms = [
            {
                "hash": f"0x{name}", "secondary_hash": "0x1:0x2", "size": len(members), "ranks_count": len(members),
                "missing_ranks_count": 0, "missing_ranks": [],
                "ranks": [
                    {
                        "rank": number, "host": f"10.0.0.{rank // A_NODE}", "pid": 1201 + rank, "cuda_dev": 0,
                        "nvml_dev": rank % A_NODE,
                        "collective_counts": {"AllGather": 7, "AllReduce": self.count(name, rank, at)},
                    }
                    for number, rank in enumerate(members)
                ],
            }
            for name, members in self.groups.items()
        ]  # fmt: skip
        told = {"nccl_version": "2.28.9", "communicators_count": len(comms), "communicators": comms,
                "ras": {"collection_time_sec": self.skew * self.world, "timeouts_count": 0}}  # fmt: skip
        return f"OK\n{json.dumps(told, indent=2)}"

    def text(self, at: float) -> str:
        """The same in text, as client_support.cc prints it: one rank, or fewer than half, are listed."""
        counts = {rank: self.count("all", rank, at) for rank in range(self.world)}
        even = len(set(counts.values())) == 1
        lines = ["ERROR: Unknown command set format json", "NCCL version 2.27.5 compiled with CUDA 12.9",
                 f"    0         1         1         8 {self.world:9} {self.world:9}   RUNNING  "
                 f"{'OK' if even else 'MISMATCH'}"]  # fmt: skip
        if not even:
            lines += ["", "#0-0 (c454a3c31c8de38c) MISMATCH",
                      "  Communicator ranks have different AllReduce operation counts"]  # fmt: skip
            for value in sorted(set(counts.values()), key=lambda one: -list(counts.values()).count(one)):
                ranks = [rank for rank, count in counts.items() if count == value]
                where = "GPU {0} managed by process {1} on node 10.0.0.1"
                if len(ranks) > 1:
                    lines.append(f"  {len(ranks)} ranks have launched up to operation {value}")
                if len(ranks) == 1 or 2 * len(ranks) < self.world:
                    launched = f"has launched up to operation {value} " if len(ranks) == 1 else ""
                    lines += [f"  Rank {rank} {launched}-- {where.format(rank % 8, 1201 + rank)}" for rank in ranks]
        return "\n".join(lines) + "\n"


def polled(
    job: SimulatedJob, *, seconds: float = 7.0, every: float = 0.006,
    form: str = "json",
) -> SlowReport:  # fmt: skip
    """What the answers of so many seconds tell, through what the script prints."""
    teller, chance, at = poll_ras.PollPrinter(), random.Random(job.seed), 1.0
    while at < 1.0 + seconds:
        teller.print_answer(job.answer(at) if form == "json" else job.text(at), at, 0.001)
        at += every * chance.uniform(0.9, 1.2)
    teller.print_end("")
    return find_slow_ranks(parse_polls("\n".join(teller.lines).encode()))


@pytest.mark.slow(reason="judges thousands of recorded collectives")
def test_the_late_rank_is_a_suspect_with_the_share_that_the_others_wait_at_most() -> None:
    report = polled(SimulatedJob(16, {9: 0.07 * STEP}))
    (late,) = report.suspects
    assert (report.slow, report.has_verdict) == ((), False)
    assert (late.rank, late.host, late.gpu, late.cause) == (9, "10.0.0.1", 1, "not known")
    assert late.low < 0.07 < late.high
    assert late.high - late.low < 0.04
    (words,) = add_locations(report, lambda each: (1, "n1")).words
    assert words.startswith("Rank 9 (pod 1, GPU 1) on n1 launches later than the others for ")
    between = f"({late.low * 100:.2g} to {late.high * 100:.2g} % with 95 % confidence)"
    assert words.endswith(f" % {between} of each step: so long they wait for it at most, if at all.")
    assert report.advice == (ASK_RECORDERS,)


def test_all_of_a_step_is_no_power_of_ten() -> None:
    assert [format_share(share) for share in (1.0, 0.996, 0.068, 0.1234, 0.0)] == [
        "100 %",
        "100 %",
        "6.8 %",
        "12 %",
        "0 %",
    ]


@pytest.mark.slow(reason="judges thousands of recorded collectives", fast_rows=1)
@pytest.mark.parametrize("delay", [0.003, 0.010])
@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_ranks_a_delay_of_three_milliseconds_is_seen(delay: float, rank: int) -> None:
    for seed in range(5):
        report = polled(SimulatedJob(2, {rank: delay}, seed=seed))
        (late,) = report.suspects
        assert late.rank == rank
        assert late.low < delay / STEP < late.high


@pytest.mark.slow(reason="judges thousands of recorded collectives")
@pytest.mark.parametrize("world", [2, 8])
def test_in_healthy_runs_no_rank_is_slow(world: int) -> None:
    for seed in range(10):
        report = polled(SimulatedJob(world, seed=seed))
        assert report.has_verdict
        assert report.suspects == ()
        assert report.bound < 0.03
        assert report.words[0].startswith("No host costs more than ")


def test_no_rank_is_reported_as_slow_only_where_a_slow_rank_is_ruled_out() -> None:
    """Ten steps, seen a hundred times: of one that is late for a twentieth of a step nobody would know."""
    for seed in range(5):
        report = polled(SimulatedJob(8, step=1.0, seed=seed), seconds=10.0, every=0.09)
        assert (report.suspects, report.has_verdict) == ((), report.bound <= 0.05)
        late = polled(SimulatedJob(8, {3: 0.06}, step=1.0, seed=seed), seconds=10.0, every=0.09)
        assert not late.has_verdict
        if not late.suspects:
            assert late.words[0].endswith(
                f"for {format_share(late.bound)} of each step cannot be ruled out; look longer: --seconds 30."
            )


def test_hosts_that_run_ahead_tell_nothing() -> None:
    """The rank is late by half of the time between two operations, and nobody waits for it."""
    report = polled(SimulatedJob(4, {1: 0.012}, runs_ahead=True))
    assert report.suspects == ()
    assert not report.has_verdict
    assert "they run ahead of their GPUs" in report.words[0]
    assert "rank" not in report.words[0], "nobody is named without a verdict"


def test_a_lag_that_may_cost_nobody_anything_is_a_bound_only() -> None:
    """Operations are launched one by one all over the step: the others may or may not wait for these 3 ms."""
    report = polled(SimulatedJob(4, {1: 0.003}, runs_ahead=True))
    assert [each.rank for each in report.suspects] == [1]
    assert "so long they wait for it at most, if at all." in report.words[0]


def test_ranks_that_are_asked_one_after_the_other_are_not_late() -> None:
    report = polled(SimulatedJob(8, skew=0.001))
    assert max(each.share for each in report.late) > 0.015
    assert report.suspects == ()


@pytest.mark.slow(reason="judges thousands of recorded collectives")
def test_a_rank_that_is_late_in_one_communicator_alone_is_not_accused() -> None:
    groups: dict[str, Sequence[int]] = {"a": (0, 1), "b": (2, 3), "c": (0, 2), "d": (1, 3)}
    everywhere = polled(SimulatedJob(4, {2: 0.008}, groups=groups))
    one_pair = polled(SimulatedJob(4, {2: 0.008}, groups=groups, only_in="c"))
    assert [each.rank for each in everywhere.suspects] == [2]
    assert (one_pair.suspects, one_pair.has_verdict) == ((), True)
    assert "some launch later in some of them only, as stages of a pipeline do." in one_pair.words[0]


@pytest.mark.parametrize(("world", "rank"), [(2, 1), (8, 5)])
def test_answers_in_text_name_the_late_rank_too(world: int, rank: int) -> None:
    report = polled(SimulatedJob(world, {rank: 0.010}), form="text")
    (late,) = report.suspects
    assert (report.form, late.rank, late.cause) == ("text", rank, "not known")


def test_too_little_gives_no_verdict() -> None:
    late = {1: 0.010}
    few = polled(SimulatedJob(2, late), seconds=0.5)
    assert (few.suspects, few.has_verdict) == ((), False)
    assert few.words[0].endswith("times only, 100 are needed; look longer: --seconds 1.")
    slowly = polled(SimulatedJob(2, {1: 1.0}, step=3.0), every=0.05)
    assert "launched at 2 moments only in 7 s, 8 are needed; look longer: --seconds 42." in slowly.words[0]
    hung = polled(SimulatedJob(2, step=100.0))
    assert hung.words[0].startswith("No verdict: NCCL launched nothing in 7 s. The job stands still (a4 hang")
    assert not any(each.has_verdict for each in (few, slowly, hung))


def test_who_gives_no_status_is_quoted() -> None:
    read = parse_polls(b'{"over":"Connection refused"}\n')
    assert find_slow_ranks(read).words == ("NCCL's RAS service does not answer (Connection refused).",)


@pytest.mark.parametrize(
    "said",
    [
        b"{", b"\xff\xfe", b'[1,2,3]\n', b'[0.1,0.1,1,[[0,2,[[5,1]]]]]\n', b'["x",0.1,1,[]]\n', b"[" * 100_000,
        b'{"process":[0,"h",1,1,"x",null]}\n',
    ],
)  # fmt: skip
def test_junk_of_a_pod_is_named_as_such(said: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="What the pod tells of NCCL"):
        parse_polls(said)


def test_more_processes_than_any_job_has_are_refused() -> None:
    process = "".join(f'{{"process":[{number},"h",1,1,null,null]}}\n' for number in range(3000))
    with pytest.raises(UnreadableAnswer, match="more processes than the job has"):
        parse_polls((process + "[0.1,0.1,1,[]]\n" * 10).encode(), 2999)


@pytest.mark.slow(reason="judges thousands of recorded collectives")
def test_a_thousand_ranks_of_which_many_are_late_now_and_then_are_judged() -> None:
    chance, late = random.Random(3), 411
    lines = ['{"version":"2.28.9","form":"json","ranks":1024}']
    lines += [f'{{"process":[{number},"10.0.0.{number // 8}",7,{number % 8},{number},[0]]}}' for number in range(1024)]
    for at in range(1500):
        often = {late: 0.4} if at % 4 == 0 else {}  # after a launch of the others
        behind = [[each, 1] for each in range(1024) if chance.random() < often.get(each, 0.005)]
        lines.append(json.dumps([at * 0.02, 0.002, at // 4 * 24, [[0, 1024, behind]]]))
    report = find_slow_ranks(parse_polls("\n".join(lines).encode()))
    assert [each.rank for each in report.suspects] == [late]


def serve_once(answer: str) -> tuple[socket.socket, list[bytes]]:
    """A service that answers one question as NCCL does, and closes."""
    door, asked = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        caller, _ = door.accept()
        with caller:
            asked.append(caller.recv(4096))
            caller.sendall(answer.encode())

    threading.Thread(target=serve, daemon=True).start()
    return door, asked


def test_the_service_is_asked_for_json_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimulatedJob(2).answer(1.0)
    door, asked = serve_once(answer)
    with door:
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{door.getsockname()[1]}")
        assert poll_ras.query_service() == answer
        assert asked == [b"set format json\nverbose status\n"]


@pytest.mark.parametrize("answer", ["", "hello", "OK\n{", 'OK\n{"nccl_version": 3}'])
def test_a_service_that_is_none_ends_the_polls_with_a_reason(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    door, _ = serve_once(answer)
    with door:
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{door.getsockname()[1]}")
        poll_ras.poll_until(5.0)
    told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["over"]


@pytest.mark.parametrize(
    ("step", "seconds", "asked", "moments"),
    [
        pytest.param(15.0, 20.0, 120.0, 8, id="long steps are waited for"),
        pytest.param(40.0, 60.0, 300.0, 7, id="not for ever"),
        pytest.param(1000.0, 10.0, 10.0, 0, id="nor for those of a job that stands still"),
        pytest.param(0.5, 10.0, 10.0, 19, id="short ones are enough"),
    ],
)
def test_where_steps_are_long_nccl_is_asked_until_there_are_enough(
    step: float,
    seconds: float,
    asked: float,
    moments: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    monkeypatch.setattr("time.sleep", lambda seconds: at.__setitem__(0, at[0] + seconds))
    count = {"hash": "0x1", "size": 2, "ranks": [{"host": "h", "pid": 1, "nvml_dev": 0, "rank": 0}]}

    def answer() -> str:
        ranks = [{**count["ranks"][0], "collective_counts": {"AllReduce": int(at[0] / step)}}]  # type: ignore[index]
        told = {"nccl_version": "2.28.9", "communicators": [{**count, "ranks": ranks}],
                "ras": {"collection_time_sec": 0.001}}  # fmt: skip
        return json.dumps(told)

    poll_ras.poll_until(seconds, 300.0, 8, ask=answer)
    read = parse_polls(capsys.readouterr().out.encode())
    assert len(read.polls) < 20_000
    assert at[0] == pytest.approx(asked, abs=0.5)
    assert find_slow_ranks(read).steps == moments


@pytest.mark.parametrize(("step", "asked"), [(0.5, 10.0), (1000.0, 10.0)])
def test_where_answers_are_slow_nccl_is_asked_until_there_are_enough(
    step: float, asked: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    monkeypatch.setattr("time.sleep", lambda seconds: at.__setitem__(0, at[0] + seconds))

    def answer() -> str:
        at[0] += 0.1
        rank = {"host": "h", "pid": 1, "nvml_dev": 0, "rank": 0, "collective_counts": {"AllReduce": int(at[0] / step)}}
        told = {"nccl_version": "2.28.9", "communicators": [{"hash": "0x1", "size": 2, "ranks": [rank]}],
                "ras": {"collection_time_sec": 0.001}}  # fmt: skip
        return json.dumps(told)

    poll_ras.poll_until(10.0, 300.0, 8, MIN_POLLS, answer)
    read = parse_polls(capsys.readouterr().out.encode())
    assert asked <= at[0] < asked + (50.0 if step < 1 else 0.5)
    assert (len(read.polls) >= MIN_POLLS) is (step < 1), "of a job that stands still more answers tell nothing"


def test_the_practice_cluster_answers_as_nccl_does() -> None:
    """The stand-in of ncclras, asked at moments of its own: rank 41 is late for 7 % of each step."""
    told: dict[str, object] = {
        "nodes": 8, "gpus": 8, "each": 1, "first": 1201, "launches": 24, "period": 2.8, "late": 41, "stuck": "",
        "launched": ",".join(["0"] * 24), "launched_late": ",".join([f"{0.07 * 2.8}"] * 24), "stamp": "now",
    }  # fmt: skip
    teller, chance = poll_ras.PollPrinter(), random.Random(7)
    for number in range(160):
        told["now"] = 1_790_000_000 + number * 0.17 + chance.uniform(0, 0.05)
        argv = ["awk", *(part for name, value in told.items() for part in ("-v", f"{name}={value}")), "-f", str(AWK)]
        done = subprocess.run(argv, capture_output=True, check=True, text=True)
        teller.print_answer(done.stdout, number * 0.17, 0.001)
    report = find_slow_ranks(parse_polls("\n".join(teller.lines).encode()))
    (found,) = report.suspects
    assert (report.ranks, found.rank, found.host, found.pid, found.gpu) == (64, 41, "10.0.0.6", 1202, 1)
    assert found.cause == "not known"
    assert found.low < 0.07 < found.high


@pytest.mark.parametrize(
    ("highs", "left"), [({0: 0.0, 1: 0.02}, False), ({0: 0.0}, True)], ids=["nobody waits", "it gave no times"]
)
def test_a_suspect_is_cleared_where_collectives_tell_that_nobody_waits(highs: dict[int, float], left: bool) -> None:
    report = polled(SimulatedJob(2, {1: 0.010}))
    assert report.suspects
    times = TimesReport(words="2 of 2 ranks told", has_verdict=True, bound=0.02, highs=highs, busy=0.1)
    found = add_times(report, times, {})
    assert (found.slow, bool(found.suspects), found.has_verdict) == ((), left, not left)
    assert found.advice == ((LOOK_LONGER,) if left else ())


@pytest.mark.parametrize(
    ("facts", "words", "cost", "most"),
    [
        ({"estimate": 0.2, "least": 0.15, "most": 0.24}, "costs about 20 %", 0.2, 0.27),
        ({"estimate": 0.2, "least": 0.12, "most": 0.24}, "costs at most about 27 %", None, 0.27),
        ({"estimate": 0.2, "least": 0.15, "most": 0.24, "staged": True}, "costs at most about 27 %", None, 0.27),
        ({"estimate": 0.5, "least": 0.1, "most": 0.97}, "costs a share of each step that is not known", None, None),
        ({}, "costs at most about 36 %", None, 0.36),
    ],
)
def test_about_what_it_costs_is_reported_only_where_that_is_known_to_a_third(
    facts: dict[str, Any], words: str, cost: float | None, most: float | None
) -> None:
    late = LateRank(9, "h", 1, 1, 0.35, 0.34, 0.36, slow=True, cause="GPU", timed=True, **facts)
    assert describe_cost(late, is_short=True).startswith(f"rank 9 {words}")
    (rank,) = msgspec.json.decode(msgspec.json.encode(slow_report_to_json(SlowReport(late=(late,)))))["late"]
    assert rank["cost"] == cost
    assert rank["cost_at_most"] == (most and pytest.approx(most))
    assert not {"estimate", "least", "most"} & set(rank)
