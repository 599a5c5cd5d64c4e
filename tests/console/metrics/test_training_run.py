import csv
import math
import random
from itertools import accumulate

import pytest
from msgspec import structs

from console.alarm_thresholds import Thresholds
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.export_results import draw_training_svg, format_training_csv, training_json
from console.metrics.gpu_metrics import mfu, peak_tflops
from console.metrics.job_measures import JobMeasures
from console.metrics.job_monitor import sample_job
from console.metrics.training_run import RunEvent, RunEventKind, TrainingRun
from console.scheduling.pod_failure import PodFailure, rank_failures
from screens.widgets.charts.training_panel import marks_words
from screens.wording import clock_time
from tests.fakes import fleet_of, present
from tests.parsing import run_of
from tests.screens.scene import jobset, rank
from trainlog import STEPS_IN_BLOCK, MetricColumn, Step, StepRollback


def steps(number: int, *, total: int = 0, nan_from: int = 0, spike_at: int = 0, flat: bool = False) -> list[Step]:
    chance = random.Random(3)
    found = []
    for at in range(1, number + 1):
        loss = (2.0 if flat else 2 + 8 * math.exp(-at / 60)) + 0.02 * chance.random()
        loss += 4.0 if spike_at and spike_at <= at < spike_at + 5 else 0.0
        bad = bool(nan_from) and at >= nan_from
        found.append(
            Step(at, total or None, math.nan if bad else loss, 1.0, 1e-4, 7.0, 1125.0, nan=bad, warm_up=at < 6)
        )
    return found


def track(every: list[Step]) -> TrainingRun:
    made = TrainingRun("megatron")
    for at, step in enumerate(every):
        made.steps.append(step)
        made.sync(1000.0 + 7 * at)
    return made


def kinds(made: TrainingRun) -> list[RunEventKind]:
    return [mark.kind for mark in made.list_events()]


def test_extremes_and_means_are_those_of_the_values_however_many() -> None:
    chance = random.Random(1)
    values = [chance.choice([chance.random(), None, math.nan]) for _ in range(3 * STEPS_IN_BLOCK * STEPS_IN_BLOCK + 17)]
    column = MetricColumn()
    for value in values:
        column.append(value)
    for _ in range(60):
        start, stop = sorted(chance.sample(range(len(values)), 2))
        known = [value for value in values[start:stop] if value is not None and not math.isnan(value)]
        assert column.extremes_of(start, stop) == (min(known, default=math.inf), max(known, default=-math.inf))
        if known:
            assert column.mean_of(start, stop) == pytest.approx(sum(known) / len(known))
    column.truncate(1000)
    column.append(99.0)
    assert (len(column), column.extremes_of(0, 1001)[1], column.last_value()) == (1001, 99.0, 99.0)


@pytest.mark.slow(reason="very many steps")
def test_no_spike_is_lost_in_a_narrow_picture() -> None:
    run = run_of(Step(at, loss=9.0 if at == 77_777 else 1.0) for at in range(100_000))
    found = run.columns["loss"].column_ranges(run.column_edges(0, 99_999, 60, by_time=False))
    assert len(found) == 60
    assert [each.at for each in found if each.high == 9.0] in ([46], [45])
    assert sum(each.high == 9.0 for each in found) == 1


def test_speeds_of_the_first_steps_say_nothing() -> None:
    run = run_of([Step(1, step_time_s=90.0, loss=3.0, warm_up=True), Step(2, step_time_s=7.0, loss=2.9)])
    assert run.columns["step_time_s"].extremes_of(0, 2) == (7.0, 7.0)
    assert run.columns["loss"].known == 2


def test_a_spike_is_reported_once_with_its_peak_and_noise_is_none() -> None:
    assert kinds(track(steps(400))) == []
    made = track(steps(400, spike_at=200))
    assert kinds(made) == [RunEventKind.SPIKE]
    assert made.list_events()[0].step == 200
    assert "to 6." in made.list_events()[0].words


def test_nan_is_reported_where_it_begins_and_the_last_number_stays() -> None:
    made = track(steps(100, nan_from=90))
    assert [(mark.kind, mark.step) for mark in made.list_events()] == [(RunEventKind.NAN, 90.0)]
    assert made.nan
    assert made.latest_value("loss") == pytest.approx(steps(89)[-1].loss)


def test_a_loss_that_no_longer_falls_is_a_plateau_and_one_that_falls_is_none() -> None:
    assert RunEventKind.PLATEAU in kinds(track(steps(900, flat=True)))
    falling = [Step(at, loss=10 - at / 100) for at in range(900)]
    assert RunEventKind.PLATEAU not in kinds(track(falling))


def slower(since: int, number: int, *, printed: bool, tokens: int = 0) -> TrainingRun:
    """A run with a checkpoint every 50 steps, whose steps take a third longer from one on.

    With `tokens`, of one step, it prints tokens/s; negative: longer steps have as many more tokens.
    """
    chance, made, now = random.Random(5), TrainingRun("megatron"), 1000.0
    for at in range(1, number + 1):
        took = 2.8 * (1 + 0.01 * chance.random()) * (1.35 if at >= since else 1.0)
        now += took + (40.0 if at % 50 == 0 else 0.0)
        size = -tokens * (1.35 if at >= since else 1.0) if tokens < 0 else tokens
        speed = size / took if tokens else None
        made.steps.append(Step(at, None, 2.0, step_time_s=took if printed else None, tokens_per_s=speed))
        made.sync(now)
    return made


@pytest.mark.parametrize("printed", [True, False])
def test_steps_that_take_longer_than_before_are_reported_once_with_the_step_since_when(printed: bool) -> None:
    made = slower(300, 500, printed=printed)
    (mark,) = [mark for mark in made.list_events() if mark.kind is RunEventKind.SLOWER]
    assert (mark.step, mark.words) == (300.0, "steps take 35 % longer since 300 (2.81 to 3.8 s a step)")
    assert mark.words in "".join(each.text for each in marks_words(made.list_events())), (
        "the page says it in the same words"
    )
    assert made.finder.slowdown is not None
    assert made.finder.slowdown.words == mark.words
    assert RunEventKind.SLOWER not in kinds(slower(501, 500, printed=printed))


def test_a_run_is_judged_by_its_tokens_where_it_prints_them() -> None:
    (mark,) = [each for each in slower(300, 500, printed=True, tokens=8_192).list_events() if each.kind == "slower"]
    assert (mark.step, mark.words) == (300.0, "tokens take 35 % longer since 300 (2,912 to 2,155 tokens/s)")
    assert slower(300, 500, printed=True, tokens=-8_192).finder.slowdown is None, (
        "longer sequences take longer at the same speed"
    )


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (((300, 2.0), (2000, 3.0)), "steps take 50 % longer since 301 (2 to 3 s a step)"),
        (((300, 2.0), (2000, 3.0), (100, 2.0)), ""),
        (((300, 2.0), (500, 3.0), (500, 4.0)), "steps take 33 % longer since 801 (3 to 4 s a step)"),
        (((300, 2.0), (500, 3.0), (500, 4.0), (300, 3.0)), "steps take 50 % longer since 301 (2 to 3 s a step)"),
        (((300, 2.0), (500, 3.0), (500, 4.0), (300, 2.1)), ""),
    ],
)
def test_a_run_is_slow_until_it_is_as_fast_again(pieces: tuple[tuple[int, float], ...], words: str) -> None:
    took = [each for number, each in pieces for _ in range(number)]
    made = run_of(Step(at, None, 2.0, step_time_s=each) for at, each in enumerate(took, 1))
    assert (made.finder.slowdown.words if made.finder.slowdown is not None else "") == words
    assert made.finder.cost == pieces[-1][1]
    assert made.finder.slowdown is None or made.finder.cost > made.finder.slowdown.recovery_cost


def test_a_log_that_is_read_at_once_says_the_same_of_slower_steps() -> None:
    growing = slower(300, 500, printed=True)
    whole = run_of(growing.steps, growing.times[-1])
    assert [mark.words for mark in whole.list_events()] == [mark.words for mark in growing.list_events()]
    for first in (50, 77, 111, 160):
        end = run_of(growing.steps[first:], growing.times[-1])
        assert end.finder.slowdown is not None
        assert growing.finder.slowdown is not None
        assert end.finder.slowdown.words == growing.finder.slowdown.words, first


def test_restarts_checkpoints_and_evictions_are_on_one_axis() -> None:
    made = track(steps(100))
    made.add_checkpoint(50, 1000.0 + 7 * 50)
    made.add_checkpoint(50, 1000.0 + 7 * 51)
    made.rewinds += (StepRollback(80, 51),)
    made.sync(1000.0 + 7 * 80)
    made.add_failures([
        PodFailure(0, 1, reason="Evicted", cause="eviction", time=1000.0 + 7 * 60.5),
        PodFailure(0, 0, exit_code=1, time=1000.0 + 7 * 70),
    ])  # fmt: skip
    assert [(mark.kind, mark.step) for mark in made.list_events()] == [
        (RunEventKind.CHECKPOINT, 50.0), (RunEventKind.EVICTION, 61.0), (RunEventKind.RESTART, 51.0),
    ]  # fmt: skip
    for time, words in ((1000.0 + 7 * 60.5, ""), (940.0, ", before the first step of this log")):
        made.add_failures([PodFailure(0, 0, cause="deletion", time=time)])
        when = clock_time(time, SERVER_CLOCK.now())
        texts = [each.text.strip() for each in marks_words(made.list_events(), made.times[0])]
        assert f"failure: pod 0: its pod was deleted, {when}{words}" in texts


def test_time_left_and_mfu_are_shown_only_where_they_are_known() -> None:
    made = track(steps(100, total=400))
    assert made.eta() == pytest.approx(300 * 7.0)
    assert mfu(made.recent_mean("tflops_per_gpu"), "nvidia-b200") == pytest.approx(0.5)
    assert mfu(made.recent_mean("tflops_per_gpu"), "nvidia-l4") is None
    assert mfu(16_421.0, "nvidia-b200") is None
    assert peak_tflops("nvidia-h100-mega-80gb") == 989.0
    assert track(steps(100)).eta() is None
    silent = track([Step(at, total=100, loss=1.0) for at in range(50)])
    assert silent.eta() == pytest.approx(51 * 7.0)  # by the clock


@pytest.mark.parametrize(
    ("printed", "between", "pace"),
    [
        (0.0016, 4.0, 4.0),  # more than twice as slow as printed
        (7.0, 10.0, 10.0),
        (7.0, 4.0, 7.0),
        (7.0, 3.0, 3.0),  # more than twice as fast
        (7.0, 0.001, 7.0),  # all lines came at once
    ],
)
def test_the_end_is_foretold_by_the_clock_where_the_program_tells_another_time(
    printed: float, between: float, pace: float
) -> None:
    every = [Step(at, 400, 1.0, step_time_s=printed, warm_up=at < 6) for at in range(1, 61)]
    made = run_of(every, printed=[1000.0 + between * at for at in range(1, 61)])
    assert made.step_interval() == pytest.approx(pace)
    assert made.eta() == pytest.approx(340 * pace)
    assert made.pace() == printed


def paused_run(pauses: dict[int, float]) -> TrainingRun:
    """A run of 3.74 s a step, which waits so many seconds before these of its 4,372 steps."""
    printed = list(accumulate((3.74 + pauses.get(at, 0.0) for at in range(1, 4373)), initial=1000.0))[1:]
    return run_of((Step(at, 10_000, 1.0, step_time_s=3.74) for at in range(1, 4373)), printed=printed)


@pytest.mark.parametrize("last", [4354, 4360, 4372])
def test_a_pause_made_once_does_not_make_the_time_left_longer(last: int) -> None:
    """With its two minutes among the latest 20 steps the end was foretold as 15 hours away, not 6."""
    made = paused_run({last: 116.0})
    assert made.step_interval() == pytest.approx(3.74)
    assert made.eta() == pytest.approx(5628 * 3.74)


@pytest.mark.parametrize(
    "halts", [{4360: 20.0, 4361: 30.0}, {4362: 12.0, 4364: 20.0}, {4358: 9.0, 4359: 2.0, 4361: 18.0}]
)
def test_slow_steps_that_are_close_together_are_one_pause(halts: dict[int, float]) -> None:
    """As where ranks are halted by a dump and by py-spy: a quarter of an hour was told as two and a half hours."""
    made = paused_run(halts)
    assert made.step_interval() == pytest.approx(3.74)


def test_several_pauses_that_were_never_made_before_are_no_rhythm() -> None:
    """As after a4 slow --recorder: the mean of these steps came near the printed time, which then was taken."""
    made, time = TrainingRun("megatron"), 1000.0
    for at in range(1, 201):
        time += 0.28 + {185: 12.0, 195: 14.0}.get(at, 0.0)
        made.steps.append(Step(at, 3000, 1.0, step_time_s=2.82))
        made.sync(time)
    assert made.step_interval() == pytest.approx(0.28)
    regular = paused_run(dict.fromkeys(range(302, 4373, 10), 20.0))
    assert regular.step_interval() == pytest.approx(3.74 + 2, rel=0.1)


def test_an_end_that_is_hours_away_does_not_move_by_minutes_where_lines_come_late_by_a_second() -> None:
    dice, foreseen = random.Random(1), list[float]()
    for last in range(4200, 4400, 10):
        printed = [1000.0 + 3.74 * at + dice.random() for at in range(1, last + 1)]
        made = run_of((Step(at, 10_000, 1.0, step_time_s=3.74) for at in range(1, last + 1)), printed=printed)
        foreseen.append(printed[-1] + present(made.eta()))
    assert max(foreseen) - min(foreseen) < 60.0
    slower = run_of((Step(at, 10_000, 1.0) for at in range(1, 361)), printed=[
        1000.0 + 2.76 * min(at, 300) + 3.74 * max(0, at - 300) for at in range(1, 361)
    ])  # fmt: skip
    assert slower.step_interval() == pytest.approx(3.74), "not by the steps before they were slower"


@pytest.mark.parametrize("slow", range(2, 5))
def test_a_slow_step_among_the_first_does_not_make_the_time_left_longer(slow: int) -> None:
    printed = [1000.0 + 3.74 * at + (22.0 if at >= slow else 0.0) for at in range(1, 6)]
    made = run_of((Step(at, 400, 1.0, step_time_s=3.74) for at in range(1, 6)), printed=printed)
    assert made.step_interval() == pytest.approx(3.74)


def test_a_pause_that_is_made_again_and_again_counts_with_the_steps_between() -> None:
    made = paused_run(dict.fromkeys(range(360, 4373, 500), 120.0))
    assert made.step_interval() == pytest.approx(3.74 + 120 / 500)


def test_of_a_run_that_broke_off_nothing_is_left() -> None:
    every = steps(101, total=400)
    made = track(every[:100])
    made.add_failures([PodFailure(0, 1, exit_code=137, time=1000.0 + 7 * 99.5)])
    assert made.eta() is None
    made.steps.append(every[100])
    made.sync(1000.0 + 7 * 100)
    assert made.eta() == pytest.approx(299 * 7.0)


def test_exports_hold_every_step_and_say_what_is_no_number() -> None:
    made = track(steps(30, total=60, nan_from=30))
    texts = training_json(made, "nvidia-b200")
    assert len(texts["steps"]) == 30
    assert texts["steps"][-1]["loss"] == "nan"
    assert (texts["step"], texts["total"], texts["marks"][0]["kind"]) == (30, 60, "nan")
    assert format_training_csv([made]).count("\n") == 31
    *_, last = csv.DictReader(format_training_csv([made]).splitlines())
    assert (last["loss"], last["nan"]) == ("", "True")
    drawn = draw_training_svg("a <b>", made, [("old", track(steps(20)))])
    assert drawn.startswith("<svg")
    assert "a &lt;b&gt;" in drawn
    assert "old smoothed" in drawn
    assert "nan" in drawn


def test_a_pod_that_somebody_takes_away_is_known_before_it_is_gone() -> None:
    job = jobset("train", 2)
    taken = rank(job, 1, "node-1", disruption="EvictionByEvictionAPI", disruption_message="Eviction API: evicting",
                 disrupted_at=1234.0, deletion_asked_at=1264.0)  # fmt: skip
    (ending,) = rank_failures(job, fleet_of(job, rank(job, 0, "node-0"), taken))
    assert (ending.rank, ending.cause, ending.time, ending.exit_code) == (1, "eviction", 1234.0, None)
    assert (ending.exit_text, ending.message) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    preempted = structs.replace(taken, disruption="PreemptionByScheduler")
    assert rank_failures(job, fleet_of(job, preempted))[0].cause == "preemption"


def test_nobody_says_when_a_run_will_end_that_does_not_go_on() -> None:
    made = track(steps(40, total=100))
    last = made.times[-1]
    assert made.eta(last + 20) == pytest.approx(60 * 7.0 - 20)
    assert made.eta() == pytest.approx(60 * 7.0)
    assert made.eta(last + 3600) is None
    assert training_json(made, now=last + 3600)["eta_s"] is None
    made.goes_on = False
    assert made.eta(last + 1) is None


def test_a_run_of_one_step_that_is_silent_for_longer_than_its_time_left_has_none() -> None:
    made = track(steps(1, total=100))
    left, last = 99 * 7.0, made.times[-1]
    assert made.cadence() is None, "it cannot be late yet"
    assert made.eta(last + 2 * left + 60) == 0.0 or made.eta() is None


@pytest.mark.parametrize(
    ("apart", "late", "alarm"),
    [((2.0,), 30, 300), ((7.0,), 30, 300), ((3.0, 40.0, 3.0), 120, 1000), ((60.0, 60.0), 180, 1500)],
)
def test_the_next_of_a_few_steps_is_late_by_the_longest_of_them(
    apart: tuple[float, ...], late: float, alarm: float
) -> None:
    made, now, limits = TrainingRun("megatron"), 1000.0, Thresholds()
    for number, seconds in enumerate((0.0, *apart), 1):
        now += seconds
        made.steps.append(Step(number, 10, 2.0, warm_up=True))
        made.sync(now)
    rhythm = present(made.cadence())
    assert (rhythm.late_after(limits), rhythm.alarm_after(limits)) == (late, alarm)
    assert made.late_text(now + late) == ""
    assert made.late_text(now + late + 1).endswith(f"after step {len(apart) + 1}, usually one takes {max(apart):.3g} s")


def test_a_loss_stands_with_its_own_step() -> None:
    well, bad = track(steps(19)), track(steps(97, nan_from=20))
    assert (well.position().step, well.position().valid_loss_step, well.position().nan_words) == (19, 19, "")
    where = bad.position()
    assert (where.step, where.valid_loss_step, where.loss, where.nan_from) == (97, 19, well.position().loss, 20)
    assert where.nan_words == f"loss is NaN since step 20 (last good {where.loss:.4g} at 19)"
    assert bad.list_events()[-1].words == "loss is NaN at 20"


def test_of_a_log_whose_beginning_is_unknown_nobody_says_since_when() -> None:
    every = steps(97, nan_from=20)
    assert track(every[40:]).position().nan_words == "loss is NaN since step 41 or earlier"
    megatron = [step._replace(loss=None) if step.nan else step for step in every]
    assert track(megatron).position().nan_words == track(every).position().nan_words
    gradients = [step._replace(loss=2.0) if step.nan else step for step in every]
    assert track(gradients).position().nan_words.startswith("gradients are NaN since step 20 (last good ")


def test_a_regular_pause_is_not_late_and_a_single_long_one_is_no_rule() -> None:
    pauses = {20: 90.0, 40: 90.0, 50: 3_000.0}
    printed = list(accumulate((pauses.get(at, 7.0) for at in range(1, 61)), initial=1000.0))[1:]
    made, now = run_of(steps(60), printed=printed), printed[-1]
    rhythm = present(made.cadence())
    assert (rhythm.pace, rhythm.between, rhythm.pause) == (7.0, 7.0, 300.0)
    assert made.late_text(now + 370) == ""
    assert made.late_text(now + 380) == "no step for 6 min after step 60, usually one takes 7 s"
    assert made.eta(now + 380) is None


def test_a_step_usually_takes_the_time_to_the_next_where_its_program_prints_less() -> None:
    every = [step._replace(step_time_s=0.0017) for step in steps(30)]
    made = run_of(every, printed=[1000.0 + 4 * at for at in range(30)])
    assert made.late_text(1000.0 + 4 * 29 + 600).endswith("usually one takes 4 s")


def test_a_start_and_a_restart_are_no_pauses() -> None:
    made, now = TrainingRun("megatron"), 1000.0
    for step in steps(30):
        now += 200.0 if step.step in (2, 3) else 7.0
        made.steps.append(step)
        made.sync(now)
    made.steps.truncate(10)
    made.steps.append(steps(11)[10])
    now += 900.0
    made.sync(now)
    rhythm = present(made.cadence())
    assert rhythm.pause == 7.0


def test_lines_that_tell_of_every_tenth_step_come_when_they_are_due() -> None:
    numbers = range(10, 90, 10)
    made = run_of((Step(at, 1000, 2.0) for at in numbers), printed=[1000.0 + 4 * at for at in numbers])
    rhythm = present(made.cadence())
    assert (rhythm.pace, rhythm.between) == (4.0, 40.0)
    assert made.late_text(1320.0 + 79) == ""
    assert made.late_text(1320.0 + 81)


def test_a_checkpoint_after_the_loss_was_lost_is_none_to_go_back_to() -> None:
    made = track(steps(97, nan_from=20))
    measures = JobMeasures(("default", "train"))
    measures.tracks = (made,)
    made.add_checkpoint(97, 2000.0)
    assert sample_job(None, fleet_of(), measures, {}, (), 0.0).saved_words == ""
    made.checkpoints.insert(0, RunEvent(RunEventKind.CHECKPOINT, 10.0, 1070.0, "saved at 10"))
    assert sample_job(None, fleet_of(), measures, {}, (), 0.0).saved_words == "step 10"
