"""A run of many steps: what is kept of it, what that costs, and that what is drawn of it stays true."""

import gc
import math
import random
import tracemalloc
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

import pytest

from console.logs.log_line import PodLine
from console.metrics.job_measures import JobMeasures, LogReader
from console.metrics.training_run import MAX_STORED_STEPS, TrainingRun
from trainlog import Step, StepRollback

POINTS = 2000
LINE = (
    " [2026-11-20 10:00:00] iteration {:8d}/ 1000000 | consumed samples: {:12d} | elapsed time per iteration (ms):"
    " {:.1f} | throughput per GPU (TFLOP/s/GPU): {:.1f} | learning rate: {:.6E} | global batch size:  1024 |"
    " lm loss: {:.6E} | loss scale: 1.0 | grad norm: {:.3f} | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |"
)


def step(number: int, chance: random.Random) -> Step:
    loss = chance.choice([chance.random(), chance.random(), math.nan, None])
    extra = {"samples": float(number)}
    return Step(number, 10**6, loss, 1.0, step_time_s=chance.random(), nan=loss is None, extra=extra)


def test_steps_that_are_packed_or_repeated_count_once() -> None:
    made = TrainingRun("megatron")
    growing = made.steps
    for number in range(1, 3 * 1024):
        growing.append(Step(step=number, loss=11.5 - 0.001 * number, grad_norm=math.nan))
        assert made.sync(float(number)) == number - 1
        growing[-1] = Step(step=number, loss=11.5 - 0.001 * number, grad_norm=math.nan)
        assert made.sync(float(number)) == number
    growing[5] = growing[5]._replace(lr=0.5)  # long packed
    assert (made.sync(1000.0), made.columns["lr"].values[5], made.times[5]) == (5, 0.5, 6.0)
    growing.truncate(200)
    growing.append(Step(step=201, loss=2.0))
    assert (made.sync(2000.0), len(made), made.times[-1], len(made.columns["lr"])) == (200, 201, 2000.0, 201)


def check(run: TrainingRun, every: list[Step], chance: random.Random) -> None:
    """What a chart asks of the run is what all of its steps say."""
    numbers = list(range(1, len(every) + 1))
    assert run.steps[0].step == run.numbers[0] == numbers[0]
    assert repr(run.steps[-POINTS // 2 :]) == repr(every[-POINTS // 2 :])
    assert len(run) == len(run.steps) == len(run.times) <= POINTS
    assert [each.step for each in run.steps] == list(run.numbers)
    places = [bisect_right(numbers, number) for number in run.numbers]  # the last step of each point, behind it
    for name, column in run.columns.items():
        assert len(column) == len(run)
        for _ in range(20):
            start, stop = sorted(chance.sample(range(1, len(run) + 1), 2))
            values = [getattr(each, name) for each in every[places[start - 1] : places[stop - 1]]]
            known = [value for value in values if value is not None and math.isfinite(value)]
            assert column.extremes_of(start, stop) == (min(known, default=math.inf), max(known, default=-math.inf))
            if known:
                assert column.mean_of(start, stop) == pytest.approx(sum(known) / len(known))
        for at in chance.sample(range(len(run)), 20):
            value = getattr(every[places[at] - 1], name)
            assert column.values[at] == value or (value is None or math.isnan(value)) == math.isnan(column.values[at])


@pytest.mark.slow(reason="very many steps")
@pytest.mark.parametrize("seed", range(3))
def test_what_is_drawn_of_a_long_run_is_true_of_all_its_steps(seed: int) -> None:
    chance, run, every = random.Random(seed), TrainingRun("megatron", max_points=POINTS), list[Step]()
    growing = run.steps
    while len(every) < 9 * POINTS:
        if len(every) > 300 and chance.random() < 0.03:
            gone = chance.randrange(1, 300)
            del every[-gone:]
            growing.truncate(len(growing) - gone)
            run.rewinds += (StepRollback(len(every) + gone, len(every) + 1),)
        elif chance.random() < 0.1 and every:
            at = chance.randrange(1, min(len(every), 400) + 1)
            every[-at] = growing[-at] = every[-at]._replace(lr=chance.random())
        for _ in range(chance.choice((1, 50, 400))):
            every.append(step(len(every) + 1, chance))
            growing.append(every[-1])
        run.sync(float(len(every)))
    check(run, every, chance)


def test_where_the_loss_was_lost_is_known_however_long_ago_that_was() -> None:
    run = TrainingRun("megatron", max_points=POINTS)
    for number in range(1, 10 * POINTS + 1):
        run.steps.append(Step(number, None, 2.0 if number < 1000 else math.nan, nan=number >= 1000))
        if number % 1000 == 0:
            run.sync(float(number), [float(number - 999 + at) for at in range(1000)])
    found = run.position()
    assert (found.nan_from, found.valid_loss_step, found.nan_at) == (1000, 999, 1000.0)


def megatron(number: int) -> str:
    return LINE.format(number, number * 1024, 2800 + number % 7, 1180.0, 1e-4, 2 + 1 / number, 1.0)


def followed(number: int) -> tuple[JobMeasures, int]:
    """Measures of a job whose log had so many steps, and the bytes that they take."""
    measures = JobMeasures(("default", "train"))
    reader = LogReader(measures, 1)
    gc.collect()
    tracemalloc.start()
    try:
        for first in range(1, number + 1, 100):
            reader.feed_lines([PodLine(0, 1e9 + 3 * at, megatron(at), 0, "p", "c") for at in range(first, first + 100)])
        gc.collect()
        return measures, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.slow(reason="very many steps")
def test_a_step_takes_less_than_a_third_of_a_kilobyte() -> None:
    _, few = followed(500)
    measures, many = followed(1_500)
    assert measures.track is not None
    assert measures.track.steps[10].extra["global batch size"] == 1024.0
    assert (many - few) / 1_000 < 300


@pytest.mark.slow(reason="a million steps")
def test_a_million_steps_take_as_much_as_twenty_thousand() -> None:
    run = TrainingRun("megatron")

    def follow(first: int, last: int) -> int:
        """Take these steps; returns the bytes that the process has."""
        for number in range(first, last + 1):
            loss = 9.0 if number == 77_777 else 1 + 1 / number
            samples = {"consumed samples": 1024.0 * number}
            run.steps.append(Step(number, 10**6, loss, 1.0, step_time_s=2.8, extra=samples))
            if number % 500 == 0:
                run.sync(3.0 * number)
        return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

    before, after = follow(1, 20_000), follow(20_001, 1_000_000)
    assert after - before < 8 << 20
    assert len(run) == len(run.steps) == len(run.columns["loss"]) <= MAX_STORED_STEPS
    assert (run.numbers[0], run.numbers[-1]) == (1.0, 1e6)
    edges = run.column_edges(1.0, 1e6, 100, by_time=False)
    assert [each.at for each in run.columns["loss"].column_ranges(edges) if each.high == 9.0] == [7]
    assert min(after - before for before, after in pairwise(edges)) > 30, "a chart has its shape from the beginning on"
    assert run.columns["loss"].mean_of(0, len(run)) == pytest.approx(1.0000224, abs=1e-6)
