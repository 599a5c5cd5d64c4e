"""Whether a slow rank waits for its data: by samples of py-spy, those of a real process too."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from rankscope import probe
from rankscope.data_waits import (
    RankSamples,
    add_samples,
    choose_sampled,
    parse_samples,
    read_samples,
    seconds_to_sample,
)
from rankscope.errors import UnreadableAnswer
from rankscope.slow_rank_texts import SLOW_ADVICE, LateRank
from rankscope.slow_ranks import SlowReport

LOADS = (
    "<module> (train.py:9);main (train.py:4);next_batch (corpus.py:88);_next_data (torch/utils/data/dataloader.py:1)"
)
COMPUTES = "<module> (train.py:9);main (train.py:5);backward (torch/_tensor.py:648)"


def slow(cause: str = "host", share: float = 0.07) -> SlowReport:
    late = LateRank(9, "10.0.0.2", 1202, 1, share, 0.06, 0.08, slow=True, cause=cause, pod_index=1, node="n1")
    return SlowReport("train", "2.28.9", "json", 16, 900, 10.0, 90, (late,))


def samples(rank: int, loading: int, every: int = 200) -> RankSamples:
    return RankSamples(rank, stacks=[(loading, LOADS), (every - loading, COMPUTES)])


@pytest.mark.parametrize("cause", ["host", "GPU", "not known"])
def test_a_slow_rank_that_is_in_its_data_loader_has_that_cause(cause: str) -> None:
    report = add_samples(slow(cause), [samples(9, 16), samples(1, 2)])
    assert report.late[0].cause == "data"
    assert report.words == (
        "Rank 9 (pod 1, GPU 1) on n1: the others wait for it for 7 % (6 to 8 % with 95 % confidence) of each step, "
        "because of its data: it is in "
        "its data loader (corpus.py:88) for 8 % of the time, rank 1 for 1 %.",
    )
    assert report.advice == (SLOW_ADVICE["data"],)
    assert report.sampled == "py-spy looked at ranks 1, 9"


@pytest.mark.parametrize(
    ("loading", "usual"),
    [pytest.param(16, 16, id="as all do"), pytest.param(4, 0, id="too short to explain it")],
)
def test_a_data_loader_that_explains_nothing_is_not_the_cause(loading: int, usual: int) -> None:
    report = add_samples(slow(), [samples(9, loading), samples(1, usual)])
    assert (report.late[0].cause, report.late[0].evidence) == ("host", "")


SLEEPS = "<module> (train.py:9);main (train.py:7);throttle (train.py:88)"
LOGS = "<module> (train.py:9);main (train.py:7);log_metrics (train.py:90)"
COLLECTS = "<module> (train.py:9);main (train.py:7);run_gc (hooks.py:5)"


@pytest.mark.parametrize(
    ("calls", "at", "usual", "rank", "where"),
    [
        pytest.param(SLEEPS, 30, 0, 9, "train.py:88", id="at a line of its own"),
        pytest.param(COLLECTS, 30, 0, 9, "python collector", id="in the collector"),
        pytest.param(SLEEPS, 30, 20, 9, "", id="where the others are too"),
        pytest.param(SLEEPS, 5, 0, 9, "", id="too few samples to tell it from chance"),
        pytest.param(LOGS, 30, 0, 9, "train.py:90", id="one that logs"),
        pytest.param(LOGS, 30, 0, 0, "", id="the first rank, whose duty that is"),
    ],
)
def test_a_late_host_is_named_where_py_spy_finds_it_at_a_line_of_its_own(
    calls: str, at: int, usual: int, rank: int, where: str
) -> None:
    suspect = replace(slow().late[0], rank=rank, slow=False, suspect=True, timed=True)
    answer = [
        RankSamples(each, stacks=[(count, calls), (200 - count, COMPUTES)]) for each, count in ((rank, at), (1, usual))
    ]
    (found,) = add_samples(replace(slow(), late=(suspect,), timed="16 of 16"), answer).late
    assert (found.slow, found.suspect, found.where) == (bool(where), not where, where)
    (by_launches,) = add_samples(replace(slow(), late=(suspect,)), answer).late
    assert (by_launches.slow, by_launches.where) == (False, where), "how long the others wait is not known"


@pytest.mark.parametrize(
    ("share", "asked", "seconds"), [(0.3, 10.0, 5.0), (0.1, 10.0, 7.5), (0.01, 10.0, 15.0), (0.1, 60.0, 30.0)]
)
def test_who_costs_little_is_looked_at_for_longer(share: float, asked: float, seconds: float) -> None:
    assert seconds_to_sample(slow(share=share), asked) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("sampled", "why"),
    [
        ([RankSamples(9, "there is no py-spy in its pod"), samples(1, 0)], "there is no py-spy in its pod"),
        ([samples(9, 3, 20), samples(1, 0)], "too few samples"),
        ([samples(9, 16)], "too few samples"),
        ([RankSamples(9, stacks=[(200, "\x1b[2J;;((("), (-5, LOADS)]), samples(1, 0)], "too few samples"),
    ],
)
def test_without_samples_the_cause_stays_and_the_reason_is_shown(sampled: list[RankSamples], why: str) -> None:
    report = add_samples(slow(), sampled)
    assert report.late == slow().late
    assert report.sampled == f"What slow ranks do meanwhile is not known ({why})"


def test_a_pod_that_answers_junk_is_named() -> None:
    with pytest.raises(UnreadableAnswer):
        parse_samples(b'{"ranks": 7}')
    found, why = read_samples({0: b"junk", 1: "gone", 2: b'{"ranks":[{"rank":3}]}'})
    assert ([each.rank for each in found], why) == ([3], "What py-spy told in the pod cannot be parsed")


class Pod:
    def __init__(self, number: int) -> None:
        self.number, self.gpus = number, 8


def test_a_suspect_that_is_in_its_data_loader_is_slow_and_another_stays_one() -> None:
    suspect = replace(slow(), late=(replace(slow().late[0], slow=False, suspect=True),))
    assert choose_sampled(suspect, cast("Any", [Pod(0), Pod(1)])) == [9, 1]
    report = add_samples(suspect, [samples(9, 16), samples(1, 2)])
    assert [(each.rank, each.slow, each.suspect, each.cause) for each in report.late] == [(9, True, False, "data")]
    assert add_samples(suspect, [samples(9, 2), samples(1, 2)]).late == suspect.late


def test_the_rank_beside_the_slow_ones_has_the_same_place_in_another_pod() -> None:
    pods = cast("Any", [Pod(0), Pod(1)])
    assert choose_sampled(slow(), pods) == [9, 1]
    assert choose_sampled(slow("network"), pods) == choose_sampled(slow("GPU"), pods) == []
    assert choose_sampled(SlowReport(), pods) == []


PROGRAM = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
from torch.utils.data.dataloader import next_data
print("begins", flush=True)
next_data()
"""


@pytest.mark.slow(reason="starts programs of its own")
def test_real_samples_are_those_of_the_main_thread(tmp_path: Path) -> None:
    package = tmp_path / "torch" / "utils" / "data"
    package.mkdir(parents=True)
    for folder in (package, *list(package.parents)[:2]):
        (folder / "__init__.py").touch()
    (package / "dataloader.py").write_text("import sys\ndef next_data():\n    sys.stdin.read()\n")
    tool = probe.find_py_spy([])
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            answer = probe.sample_main_thread(tool, {"rank": 9, "pid": process.pid}, 1.0)
        finally:
            process.kill()
    (decoded,) = parse_samples(json.dumps({"ranks": [answer]}).encode())
    assert decoded.why == ""
    assert decoded.stacks[0][0] >= 5
    assert {calls.rpartition(";")[2] for _, calls in decoded.stacks} == {"next_data (torch/utils/data/dataloader.py:3)"}


@pytest.mark.slow(reason="starts programs of its own")
def test_why_py_spy_fails_is_reported() -> None:
    answer = probe.sample_main_thread(probe.find_py_spy([]), {"rank": 9, "pid": 2**22 + 1}, 1.0)
    assert answer["why"].startswith("Error: "), answer
