"""Scripted runs whose ledger is known: their log is read as any other, and the boxes are compared."""

import random
from dataclasses import dataclass, field

import pytest

from console.alarm_thresholds import Thresholds
from console.logs.log_line import PodLine
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.gpu_time_ledger import Ledger, LedgerBox, RunMoments, compute_ledger, format_gpu_time, sum_ledgers
from console.metrics.job_measures import JobMeasures, LogReader
from console.metrics.time_spans import (
    RecordedSpans,
    SpanKind,
    TimeSpan,
    decode_recorded_spans,
    find_phase,
    list_seen,
    merge_spans,
)

BEGIN = 1_790_000_000.0
LOSES = (LedgerBox.COMPILE, LedgerBox.PRODUCTIVE, LedgerBox.CHECKPOINT, LedgerBox.EVALUATION)


@dataclass
class Script:
    """A run as it is acted, and what its time went into."""

    usual: float
    gpus: int
    now: float = BEGIN
    lines: list[tuple[float, str]] = field(default_factory=list)
    truth: dict[LedgerBox, float] = field(default_factory=lambda: dict.fromkeys(LedgerBox, 0.0))
    unsaved: dict[LedgerBox, float] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)
    moments: list[TimeSpan] = field(default_factory=list)
    step: int = 0
    saved: int = 0
    unseen: list[tuple[int, int]] = field(default_factory=list)  # lines that were printed while no console ran
    admitted: float = 0.0
    ready: float = 0.0

    def spend(self, box: LedgerBox, seconds: float) -> None:
        self.now += seconds
        self.truth[box] += seconds
        if box in LOSES:
            self.unsaved[box] = self.unsaved.get(box, 0.0) + seconds

    def say(self, text: str) -> None:
        self.lines.append((self.now, text))

    def start(self, queued: float, pull: float, init: float, compiling: float) -> None:
        self.spend(LedgerBox.QUEUED, queued)
        self.admitted = self.now
        self.spend(LedgerBox.PULL, pull)
        self.ready = self.now
        self.spend(LedgerBox.INIT, 2.0)
        self.say("building GPT model ...")
        self.spend(LedgerBox.INIT, init)
        self.spend(LedgerBox.COMPILE, compiling)
        self.make_step(compiling)

    def make_step(self, more: float = 0.0, slow: float = 0.0) -> None:
        self.spend(LedgerBox.PRODUCTIVE, self.usual)
        self.spend(LedgerBox.SLOW, slow)
        self.step += 1
        took = 1000 * (self.usual + more + slow)
        self.say(
            f" [2026-05-01 10:00:00.123456] iteration {self.step:8}/  100000 | consumed samples: {self.step * 8:12} | "
            f"elapsed time per iteration (ms): {took:.1f} | throughput per GPU (TFLOP/s/GPU): 612.0 | "
            "learning rate: 1.0E-04 | global batch size:     8 | lm loss: 2.5E+00 | loss scale: 1.0 | grad norm: 1.0 | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
        )

    def train(self, steps: int, slow: float = 0.0) -> None:
        for _ in range(steps):
            self.make_step(slow=slow)

    def save(self, seconds: float) -> None:
        self.say(f"saving checkpoint at iteration {self.step:7d} to /out in torch_dist format")
        self.spend(LedgerBox.CHECKPOINT, seconds)
        self.say(f"  successfully saved checkpoint from iteration {self.step:7d} to /out [ t 1/1, p 1/1 ]")
        self.saved, self.unsaved = self.step, {}

    def evaluate(self, seconds: float) -> None:
        self.say("Evaluating on 256 samples")
        self.spend(LedgerBox.EVALUATION, seconds)
        self.say(f" validation loss at iteration {self.step} | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 |")

    def be_slow(self, steps: int, more: float) -> None:
        self.train(steps, more)
        self.moments.append(TimeSpan(self.now, self.now, SpanKind.NAMED, last=5))

    def hang(self, seconds: float) -> None:
        since = self.now
        self.spend(LedgerBox.HANG, seconds)
        self.alarms.append(Alarm(AlarmKind.STALL, "no step", since + 60, began=since, over=self.now))

    def lose(self) -> None:
        """What was done since the last checkpoint is lost."""
        for box, seconds in self.unsaved.items():
            self.truth[box] -= seconds
            self.truth[LedgerBox.LOST] += seconds
        self.unsaved, self.step = {}, self.saved

    def fail(self, into: float, restart: float) -> None:
        self.spend(LedgerBox.LOST, into)
        self.moments.append(TimeSpan(self.now, self.now, SpanKind.FAILED))
        self.lose()
        self.spend(LedgerBox.RESTART, restart)

    def preempt(self, into: float, queued: float, restart: float) -> None:
        """Kueue takes its GPUs for another job; later it begins anew from its last checkpoint."""
        self.spend(LedgerBox.LOST, into)
        self.lose()
        since = self.now
        self.spend(LedgerBox.QUEUED, queued)
        self.moments.append(TimeSpan(since, self.now, SpanKind.QUEUED))
        self.spend(LedgerBox.RESTART, restart / 2)
        self.say("building GPT model ...")
        self.spend(LedgerBox.RESTART, restart / 2)

    def train_unseen(self, steps: int) -> None:
        """Train while no console runs; the next one reads the log from here on."""
        begin, first = self.now, len(self.lines)
        self.train(steps)
        self.unseen.append((first, len(self.lines)))
        self.truth[LedgerBox.PRODUCTIVE] -= self.now - begin
        self.truth[LedgerBox.UNSEEN] += self.now - begin

    def read_all(self) -> list[TimeSpan]:
        """What the consoles saw that ran one after the other."""
        found: list[TimeSpan] = []
        first = 0
        for last, after in self.unseen:
            found, first = merge_spans(found, self.read(first, last)), after
        return merge_spans(found, self.read(first))

    def read(self, first: int = 0, last: int | None = None) -> list[TimeSpan]:
        """What a console that reads these lines sees."""
        measures = JobMeasures(("default", "train"))
        reader = LogReader(measures, 1)
        reader.feed_lines([PodLine(0, time, text, 0, "train-0", "main") for time, text in self.lines[first:last]])
        reader.close()
        return list_seen([run.time_recorder for run in measures.tracks], 0.0 if last else self.now)

    def end_training(self) -> None:
        self.lines = [(time, text.replace("/  100000", f"/{self.step:8}")) for time, text in self.lines]

    def ledger(self, spans: list[TimeSpan], *, wasted: bool = False) -> Ledger:
        seen = RecordedSpans(BEGIN, self.ready, ("n0",), 0, tuple(merge_spans(spans, self.moments)))
        assert decode_recorded_spans(seen.encode()) == seen
        run = RunMoments(self.gpus, BEGIN, self.admitted, self.now, True, wasted)
        return compute_ledger(run, seen, self.alarms)

    def check(self, found: Ledger) -> None:
        whole = round(1000 * (self.now - BEGIN)) * self.gpus
        assert sum(found.boxes.values()) == whole
        assert all(took >= 0 for took in found.boxes.values())
        held = 1000 * self.gpus * (self.now - BEGIN - self.truth[LedgerBox.QUEUED])
        assert found.allocated == pytest.approx(held, abs=10 * self.gpus)  # of each time in the queue whole ms
        off = {box: (found.boxes[box] / 1000 / self.gpus, told) for box, told in self.truth.items()
               if abs(found.boxes[box] - 1000 * self.gpus * told) > 0.03 * held}  # fmt: skip
        assert off == {}


def trained(queued: float, pull: float, steps: int) -> Script:
    run = Script(2.0, 8)
    run.start(queued, pull, 30, 10)
    run.train(steps)
    return run


def scripted(seed: int) -> tuple[Script, bool]:
    """A run of that number, and whether its end lost what was not saved."""
    chance = random.Random(seed)
    run = Script(chance.choice([0.8, 2.0, 7.5]), chance.choice([8, 16, 128]))
    run.start(chance.uniform(0, 900), chance.uniform(20, 400), chance.uniform(5, 300), chance.uniform(0, 120))
    run.train(20)
    for _ in range(chance.randint(3, 7)):
        run.train(chance.randint(30, 120))
        match chance.choice(["save", "save", "evaluate", "slow", "hang", "fail", "hang and fail"]):
            case "save":
                run.save(chance.uniform(10, 90))
            case "evaluate":
                run.evaluate(chance.uniform(10, 120))
            case "slow":
                run.be_slow(chance.randint(40, 80), chance.uniform(0.2, 0.6) * run.usual)
            case "hang":
                run.hang(chance.uniform(300, 900))
            case what:
                if what == "hang and fail":
                    run.hang(chance.uniform(300, 900))
                run.fail(0.0 if "hang" in what else chance.uniform(0, run.usual), chance.uniform(60, 600))
    run.train(30)
    wasted = chance.random() < 0.3
    if wasted:
        run.spend(LedgerBox.LOST, chance.uniform(0, run.usual))
        run.lose()
    else:
        run.end_training()
        if chance.random() < 0.5:
            run.save(chance.uniform(10, 90))
        run.spend(LedgerBox.IDLE, chance.uniform(0, 600))
    return run, wasted


@pytest.mark.parametrize("seed", range(30))
def test_each_box_is_within_3_percent_of_the_allocation_and_the_sum_is_exact(seed: int) -> None:
    run, wasted = scripted(seed)
    run.check(run.ledger(run.read(), wasted=wasted))


def interrupted(seed: int) -> tuple[Script, bool]:
    """A run that is preempted or fails, of which no console saw a part."""
    chance = random.Random(seed)
    run = Script(chance.choice([0.8, 2.0, 7.5]), chance.choice([8, 64, 1024]))
    run.start(chance.uniform(0, 900), chance.uniform(20, 900), chance.uniform(5, 300), chance.uniform(0, 120))
    for what in chance.choices(["preempt", "preempt", "fail", "unseen", "save", "hang", "evaluate", "slow"], k=8):
        run.train(chance.randint(40, 90))
        if what == "preempt":
            run.preempt(chance.uniform(0, run.usual), chance.uniform(60, 3000), chance.uniform(60, 600))
        elif what == "fail":
            run.fail(chance.uniform(0, run.usual), chance.uniform(60, 600))
        elif what == "unseen":
            run.train_unseen(chance.randint(60, 400))
            run.train(40)
            run.save(chance.uniform(10, 90))
        elif what == "save":
            run.save(chance.uniform(10, 90))
        elif what == "hang":
            run.hang(chance.uniform(300, 900))
        elif what == "evaluate":
            run.evaluate(chance.uniform(10, 120))
        else:
            run.be_slow(chance.randint(40, 80), chance.uniform(0.2, 0.6) * run.usual)
    run.train(30)
    run.end_training()
    run.spend(LedgerBox.IDLE, chance.uniform(0, 300))
    return run, False


@pytest.mark.parametrize("seed", range(100, 130))
def test_runs_that_are_preempted_or_not_seen_for_a_while_have_their_boxes(seed: int) -> None:
    run, wasted = interrupted(seed)
    run.check(run.ledger(run.read_all(), wasted=wasted))


def test_the_scripts_spend_time_in_every_box() -> None:
    spent = {box for seed in range(30) for box, took in scripted(seed)[0].truth.items() if took > 0}
    spent |= {box for seed in range(100, 130) for box, took in interrupted(seed)[0].truth.items() if took > 0}
    assert spent == set(LedgerBox)


@pytest.mark.parametrize("seed", range(5))
def test_two_consoles_that_saw_overlapping_parts_know_the_whole(seed: int) -> None:
    run, wasted = scripted(seed)
    third = len(run.lines) // 3
    run.check(run.ledger(merge_spans(run.read(0, 2 * third), run.read(third)), wasted=wasted))
    run.check(run.ledger(merge_spans(run.read(), run.read(third)), wasted=wasted))


def test_what_no_console_saw_is_not_seen() -> None:
    run = trained(100, 50, 300)
    first = len(run.lines)
    seen_from = run.now
    run.train(300)
    run.end_training()
    found = run.ledger(run.read(first))
    assert found.boxes[LedgerBox.UNSEEN] == pytest.approx(8000 * (seen_from - run.ready), rel=0.01)
    assert found.boxes[LedgerBox.PRODUCTIVE] == pytest.approx(8000 * 600, rel=0.01)
    nothing = run.ledger([])
    assert nothing.boxes[LedgerBox.UNSEEN] == round(8000 * (run.now - run.ready))
    assert sum(nothing.boxes.values()) == sum(found.boxes.values())


@pytest.mark.parametrize("ended", [False, True])
def test_of_a_run_without_a_checkpoint_nothing_was_kept_unless_it_made_all_its_steps(ended: bool) -> None:
    run = trained(100, 50, 300)
    if ended:
        run.end_training()
        run.spend(LedgerBox.IDLE, 60)
    else:
        run.lose()
        assert run.truth[LedgerBox.LOST] == 301 * 2.0 + 10
    found = run.ledger(run.read(), wasted=True)
    run.check(found)
    assert (found.boxes[LedgerBox.LOST] > 0, found.boxes[LedgerBox.PRODUCTIVE] > 0) == (not ended, ended)


def test_a_rank_that_is_slow_from_the_first_step_takes_its_share_of_the_steps_around_the_finding() -> None:
    run = trained(0, 50, 1000)
    at = run.now - 300
    run.moments += [TimeSpan(at, at, SpanKind.NAMED, 250, 900), TimeSpan(at, at, SpanKind.NAMED, 100, 7)]
    slow = 0.25 * (600 + 300)  # ten minutes before it was found, and until the end
    run.truth[LedgerBox.PRODUCTIVE] -= slow
    run.truth[LedgerBox.SLOW] += slow
    found = run.ledger(run.read())
    run.check(found)
    assert found.boxes[LedgerBox.SLOW] == pytest.approx(8000 * slow, abs=80)


@pytest.mark.parametrize("ready", [100.2, 104.0, 300.0])
def test_a_first_step_that_began_before_the_second_in_which_its_pods_ran_counts_once(ready: float) -> None:
    spans = (TimeSpan(99.5, 100.6, SpanKind.BEFORE), TimeSpan(100.6, 103.0, SpanKind.FIRST, 0, 1),
             TimeSpan(103.0, 123.0, SpanKind.STEPS, 1, 11))  # fmt: skip
    found = compute_ledger(RunMoments(16, 99.0, 99.0, 123.0), RecordedSpans(99.0, ready, (), 0, spans))
    ran = min(ready, 100.6)
    told = {LedgerBox.PULL: ran - 99, LedgerBox.INIT: 100.6 - ran, LedgerBox.COMPILE: 0.4, LedgerBox.PRODUCTIVE: 22.0}
    assert {box: took / 16 for box, took in found.boxes.items()} == pytest.approx(
        {box: 1000 * told.get(box, 0.0) for box in LedgerBox}
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_box_is_negative_whatever_the_clocks_say(seed: int) -> None:
    chance = random.Random(seed)
    for odd in (False, True) * 10:
        spans = []
        for _ in range(chance.randint(0, 8)):
            start, first = chance.uniform(0, 200), chance.randint(0, 50)
            end, last = start + chance.uniform(0, 90), first + chance.randint(0, 9)
            spans.append(TimeSpan(start, end, chance.choice(list(SpanKind)), first, last))
        began, over = chance.uniform(0, 150), chance.choice([0.0, 130.0])
        alarm = Alarm(AlarmKind.STALL, "no step", 120.0, began=began, over=over)
        admitted, ready = (chance.choice([0.0, chance.uniform(0, 200)]) for _ in range(2))
        run = RunMoments(16, chance.uniform(1, 90), admitted, chance.uniform(0, 250), is_wasted=odd)
        seen = RecordedSpans(run.created_at, ready, (), 0, tuple(merge_spans([], spans)))
        found = compute_ledger(run, seen, [alarm][: chance.randint(0, 1)])
        assert min(found.boxes.values()) >= 0
        assert sum(found.boxes.values()) == 16 * max(0, round(1000 * run.end_at) - round(1000 * run.created_at))


HEADER = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 2097152 maxBytes 17179869184 step: 2(factor) warmup iters: 10 iters: 20 agg iters: 1
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"""
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 146.26\n# Collective test concluded: all_reduce_perf"


def table(rows: int, *, ends: bool) -> list[tuple[float, str]]:
    """A log that begins 10 s after the launch, with a header after 20 s and a row every 2 s from then on."""
    row = "{:12} {:12} float sum -1 124.42 16.86 29.50 0 125.00 16.78 29.36 0"
    lines = [(BEGIN + 10, "step 1 libraries: run"), *((BEGIN + 20, text) for text in HEADER.splitlines())]
    lines += [(BEGIN + 22 + 2 * at, row.format(1 << 21 + at, 1 << 19 + at)) for at in range(rows)]
    return lines + [(lines[-1][0], text) for text in FOOTER.splitlines() if ends]


def boxes_of(
    lines: list[tuple[float, str]], end: float, *, over: bool = False, wasted: bool = False, alarm: bool = False
) -> dict[LedgerBox, float]:
    """The seconds in each box of a run that began at BEGIN, by a reading of its log `end` seconds later."""
    measures = JobMeasures(("default", "train"))
    reader = LogReader(measures, 1)
    reader.feed_lines([PodLine(0, time, text, 0, "train-0", "main") for time, text in lines])
    reader.close()
    seen = RecordedSpans(BEGIN, BEGIN + 5, (), 0, tuple(measures.list_spans(BEGIN + end, Thresholds())))
    assert decode_recorded_spans(seen.encode()) == seen
    alarms = [Alarm(AlarmKind.STALL, "no step", BEGIN + end - 1, began=lines[-1][0])] if alarm else []
    found = compute_ledger(RunMoments(1, BEGIN, BEGIN, BEGIN + end, over, wasted), seen, alarms)
    assert sum(found.boxes.values()) == 1000 * end
    return {box: took / 1000 for box, took in found.boxes.items() if took}


def test_the_rows_of_an_nccl_test_are_productive_from_its_header_to_the_last() -> None:
    assert boxes_of(table(14, ends=True), 60, over=True) == {
        LedgerBox.PULL: 5, LedgerBox.INIT: 15, LedgerBox.PRODUCTIVE: 28, LedgerBox.IDLE: 12,
    }  # fmt: skip
    again = [(time + 100, text) for time, text in table(14, ends=True)]
    assert boxes_of(table(14, ends=True) + again, 160, over=True) == {
        LedgerBox.PULL: 5, LedgerBox.INIT: 87, LedgerBox.PRODUCTIVE: 56, LedgerBox.IDLE: 12,
    }  # fmt: skip
    header = [line for line in table(0, ends=False) if "#" in line[1]]
    assert boxes_of([(BEGIN + 10, "x"), *header], 60) == {
        LedgerBox.PULL: 5,
        LedgerBox.INIT: 15,
        LedgerBox.PRODUCTIVE: 40,
    }


@pytest.mark.parametrize("wasted", [False, True])
def test_after_its_last_row_an_nccl_test_hangs_once_the_next_is_late(wasted: bool) -> None:
    begins = {LedgerBox.PULL: 5, LedgerBox.INIT: 15}
    assert boxes_of(table(5, ends=False), 45) == {**begins, LedgerBox.PRODUCTIVE: 25}
    assert boxes_of(table(5, ends=False), 75, over=wasted, wasted=wasted) == {
        **begins, LedgerBox.PRODUCTIVE: 10, LedgerBox.HANG: 45,
    }  # fmt: skip
    assert boxes_of(table(5, ends=False), 45, alarm=True) == {**begins, LedgerBox.PRODUCTIVE: 10, LedgerBox.HANG: 15}


def test_a_failure_that_nccl_prints_is_no_test() -> None:
    run = trained(0, 5, 30)
    before = boxes_of(run.lines, run.now - BEGIN, over=True)
    run.lines.append((run.now, "train-0: Test NCCL failure common.cu:958 'unhandled system error' "))
    assert boxes_of(run.lines, run.now - BEGIN, over=True) == before


def test_a_step_that_is_late_is_no_longer_productive() -> None:
    run = trained(0, 5, 30)
    so_far = run.now - BEGIN
    assert LedgerBox.HANG not in boxes_of(run.lines, so_far + 15)
    late, stalled = (boxes_of(run.lines, so_far + 37, alarm=alarm) for alarm in (False, True))
    assert late == stalled
    assert late[LedgerBox.HANG] == pytest.approx(35), "one step is under way"
    assert boxes_of(run.lines, so_far + 37, over=True, wasted=True)[LedgerBox.HANG] == pytest.approx(35)
    run.evaluate(37)
    assert LedgerBox.HANG not in boxes_of(run.lines[:-1], so_far + 37), "an evaluation has more time"


def test_a_run_is_starting_until_a_first_step_that_a_second_reading_puts_a_little_later() -> None:
    first, second = (
        [
            TimeSpan(at, at, SpanKind.BEFORE),
            TimeSpan(at, 110.0, SpanKind.FIRST, 0, 1),
            TimeSpan(110.0, 130.0, SpanKind.STEPS, 1, 11),
        ]
        for at in (103.0, 103.1)
    )
    seen = RecordedSpans(99.0, 101.0, (), 0, tuple(merge_spans(merge_spans(first, second), second)))
    found = compute_ledger(RunMoments(16, 99.0, 99.0, 130.0), seen)
    assert (found.boxes[LedgerBox.INIT], found.boxes[LedgerBox.UNSEEN]) == (16 * 2000, 0)


def test_what_a_slow_rank_took_is_the_same_after_a_stop_that_loses_the_steps_since_the_last_checkpoint() -> None:
    run = trained(0, 50, 100)
    run.save(0)
    run.train(50)
    run.moments.append(TimeSpan(run.now - 20, run.now - 20, SpanKind.NAMED, 250, 9))
    before, after = (run.ledger(run.read(), wasted=wasted).boxes for wasted in (False, True))
    assert before[LedgerBox.SLOW] == after[LedgerBox.SLOW] == pytest.approx(0.25 * 8000 * 300, rel=0.01)
    assert after[LedgerBox.LOST] == pytest.approx(0.75 * 8000 * 100, rel=0.02)


def test_steps_that_are_slow_for_a_reason_nobody_found_are_productive() -> None:
    run = trained(0, 50, 100)
    run.train(100, slow=1.0)
    found = run.ledger(run.read())
    assert found.boxes[LedgerBox.SLOW] == 0
    assert found.boxes[LedgerBox.PRODUCTIVE] == pytest.approx(8000 * (201 * 2.0 + 100), rel=0.01)


def test_a_run_that_never_left_its_queue_held_nothing() -> None:
    found = compute_ledger(RunMoments(8, BEGIN, 0.0, BEGIN + 60), RecordedSpans())
    assert (found.boxes[LedgerBox.QUEUED], found.allocated) == (480_000, 0)
    assert sum_ledgers([found, found]).boxes[LedgerBox.QUEUED] == 960_000


@pytest.mark.parametrize(
    ("line", "phase"),
    [("saving checkpoint at iteration 20 to /out", SpanKind.CHECKPOINT), ("Evaluating on 256 samples",
     SpanKind.EVALUATION), ("loading checkpoint from /out", SpanKind.CHECKPOINT), ("the interval is 10", None)],
)  # fmt: skip
def test_lines_that_tell_of_a_phase(line: str, phase: SpanKind | None) -> None:
    assert find_phase(line) is phase


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0 GPU-seconds"), (4 * 8, "32 GPU-seconds"), (4 * 16, "1.1 GPU-minutes"), (3599, "60.0 GPU-minutes"),
     (3600, "1.0 GPU-hours"), (36_000_000, "10,000.0 GPU-hours")],
)  # fmt: skip
def test_gpu_time_is_reported_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert format_gpu_time(seconds) == words


def test_the_words_of_a_box_begin_with_the_title_of_its_column() -> None:
    assert [box.words.split()[0] for box in LedgerBox] == [str(box).split()[0] for box in LedgerBox]
