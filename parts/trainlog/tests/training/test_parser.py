"""Training logs of all programs: fields, repetitions, restarts, alarms, and whatever bytes there are."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from trainlog import parse_training
from trainlog.training.parser import MAX_LINE_BYTES, STEP_SEARCH, TrainingParser
from trainlog.training.run_reader import RunReader
from trainlog.training.steps import Step, StepRollback, find_run_position

DATA = Path(__file__).parents[4] / "practice" / "data"


def one(text: str) -> RunReader:
    (run,) = parse_training(text.encode())
    return run


def step(text: str) -> Step:
    (found,) = one(text).steps
    return found


def numbers(text: str) -> list[int | None]:
    return [each.step for each in one(text).steps]


def iteration(at: int, loss: str = "lm loss: 2.5E+00 |", more: str = "") -> str:
    return (
        f" [2026-05-01 10:00:00.123456] iteration {at:8}/     100 | consumed samples: {at * 8:12} | "
        f"elapsed time per iteration (ms): 1500.5 | throughput per GPU (TFLOP/s/GPU): 612.0 | "
        f"learning rate: 1.000000E-04 | global batch size:     8 | {loss} loss scale: 1.0 | grad norm: 0.5 | "
        f"number of skipped iterations:   {more or 0} | number of nan iterations:   0 |\n"
    )


def test_a_missing_loss_is_an_alarm_unless_the_iteration_was_skipped() -> None:
    run = one(iteration(1) + iteration(2, "") + iteration(3, "", "1") + iteration(4))
    assert [(each.loss, each.nan, each.skipped) for each in run.steps] == [
        (2.5, False, 0), (None, True, 0), (None, False, 1), (2.5, False, 0),
    ]  # fmt: skip
    assert not find_run_position(run.steps).nan
    assert find_run_position(one(iteration(1) + iteration(2, "")).steps).nan_from == 2


@pytest.mark.parametrize(("again", "steps"), [
    ("{'loss': 2.0839959, 'grad_norm': 1.03125, 'epoch': 0.01}\n", 1),  # of another callback, which rounds less
    ("{'loss': 2.084, 'grad_norm': 1.2119, 'epoch': 0.01}\n", 2),  # another step, whose loss is about the same
    ("{'loss': 2.0851, 'grad_norm': 1.0312, 'epoch': 0.01}\n", 2),
])  # fmt: skip
def test_a_step_of_hugging_face_is_printed_again_if_all_its_figures_agree(again: str, steps: int) -> None:
    assert len(one("{'loss': 2.084, 'grad_norm': 1.0312, 'epoch': 0.01}\n" + again).steps) == steps


STEPS: dict[str, tuple[str, Step]] = {
    "an iteration of Megatron": (
        iteration(7),
        Step(
            step=7, total=100, loss=2.5, grad_norm=0.5, lr=1e-4, step_time_s=1.5005, tflops_per_gpu=612.0, skipped=0,
            warm_up=True, extra={"consumed samples": 56.0, "global batch size": 8.0, "loss scale": 1.0},
        ),
    ),
    "TorchTitan in colours": (
        "[rank0]:[titan] 2026-01-01 00:00:00,000 - root - INFO - \x1b[31mstep:  5  \x1b[32mloss:  7.37200  "
        "\x1b[38;2;180;60;0mgrad_norm: 496.6781  \x1b[36mmemory: 103.01GiB(73.72%)  \x1b[34mtps: 1,541,366  "
        "\x1b[35mtflops: 1,021.50  \x1b[33mmfu: N/A\x1b[39m\n",
        Step(
            step=5, loss=7.372, grad_norm=496.6781, tflops_per_gpu=1021.5, tokens_per_s=1541366.0, warm_up=True,
            extra={"memory_gib": 103.01, "memory_percent": 73.72},
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", STEPS)
def test_every_figure_of_a_step(what: str) -> None:
    text, expected = STEPS[what]
    assert step(text) == expected


FIGURES: dict[str, tuple[str, dict[str, object]]] = {
    "infinity": (iteration(1, "lm loss: INF |"), {"loss": math.inf, "nan": True}),
    "losses beside the loss": (
        iteration(1, "load_balancing_loss: 1.0E+00 | z_loss: 3.0E+00 | mtp_1 loss: 2.0E+00 |"),
        {"loss": None, "nan": True},
    ),
    "swift with its own fields": (
        " [2025-10-01 10:00:00] iteration        5/     100 | consumed samples:           80 | elapsed time per "
        "iteration (ms): 5000.0 | memory(GiB): 61.33 | elapsed time: 1m 3s | remaining time: 1h 44m 10s | "
        "learning rate: 1.0E-05 | global batch size: 16 | loss: -3.5E-01 | loss scale: 1.0 | grad norm: 1.0 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |\n",
        {"loss": -0.35, "nan": False},
    ),
    "figures beside their averages": (
        " iteration 5/ 50 | consumed samples: 640 | elapsed time per iteration (ms): 4000.5/4100.2 |"
        " throughput per GPU (TFLOP/s/GPU): 550.1/540.2 | tokens per GPU (tokens/s/GPU): 8000.1/7900.2 |"
        " lm loss: 1.1E+01 |\n",
        {"step_time_s": 4.0005, "tflops_per_gpu": 550.1, "tokens_per_s": 8000.1},
    ),
    "seconds instead of milliseconds": (
        " iteration        1/   95367 | consumed samples: 16 | consumed tokens: 32768 |"
        " elapsed time per iteration (s): 54.39 | lm loss: 1.2E+01 | grad norm: 50.3 |"
        " samples per second: 0.294 | TFLOPs: 2.26 |\n",
        {"step_time_s": 54.39, "tflops_per_gpu": 2.26, "samples per second": 0.294},
    ),
    "MaxText": (
        "completed step: 0, seconds: 10.518, TFLOP/s/device: 400.251, Tokens/s/device: 1947.100, total_weights: 8192, "
        "loss: 12.038, main_model_loss: 11.9, moe_lb_loss: 0.01\n",
        {"step": 0, "loss": 12.038, "step_time_s": 10.518, "tflops_per_gpu": 400.251, "tokens_per_s": 1947.1,
         "main_model_loss": 11.9},
    ),
    "DLLogger": (
        'DLLL {"type": "LOG", "step": "PARAMETER", "data": {"lr": 1}}\n:::DLLL {"type": "LOG", "step": 12, "data": '
        '{"reduced_train_loss": 2.5, "lr": 0.1, "grad_norm": 1.0, "train_step_timing in s": 0.5, "global_step": 12}}\n',
        {"step": 12, "loss": 2.5, "lr": 0.1, "step_time_s": 0.5},
    ),
    "Picotron, letters for thousands": (
        "[rank 2] Step: 1 | Loss: 10.9062 | Global batch size:  64 | Tokens/s: 10.61K | MFU: 0.43% |\n",
        {"step": 1, "loss": 10.9062, "tokens_per_s": 10610.0},
    ),
    "verl on one line": (
        "(TaskRunner pid=1) step:12 - actor/pg_loss:np.float64(-0.25) - actor/grad_norm:1.5 - actor/lr:1e-06"
        " - timing_s/step:30.5 - perf/throughput:1200.5\n",
        {"step": 12, "loss": -0.25, "grad_norm": 1.5, "lr": 1e-06, "step_time_s": 30.5, "tokens_per_s": 1200.5},
    ),
    "the sample of FSDP": (
        "Batch 90 Loss: 7.24, Speed: 9.41 samples/sec, lr: 0.0003\n",
        {"step": 90, "loss": 7.24, "lr": 0.0003, "extra": {"samples_per_s": 9.41}},
    ),
    "a copy in JSON": (
        '{"loss": 1.5, "grad_norm": 0.5, "learning_rate": 1e-05, "global_step/max_steps": "5/94"}\n',
        {"step": 5, "total": 94, "loss": 1.5},
    ),
    "a dictionary that is not closed": ("{'loss': 1.5, 'grad_norm': 0.5,\n 'learning_rate': 1e-05,\n", {"lr": 1e-05}),
    "a step time beside the average since the start": (
        "{'loss': 1.5, 'iteration': '5/100', 'train_speed(s/it)': 35.9, 'step_time': 1.578}\n", {"step_time_s": 1.578},
    ),
    "the average seconds since the start": (
        "{'loss': 1.5, 'global_step/max_steps': '5/100', 'train_speed(s/it)': 35.9}\n",
        {"step_time_s": None, "extra": {"train_speed(s/it)": 35.9}},
    ),
    "the average speed since the start": (
        "{'loss': 1.5, 'global_step/max_steps': '5/100', 'train_speed(iter/s)': 0.128}\n",
        {"step_time_s": None, "extra": {"train_speed(iter/s)": 0.128}},
    ),
    "bars of other things": (
        "Map: 100%|####| 500/500 [00:01<00:00, 80.0it/s]\rLoading shards:  50%|##  | 1/2 [00:01<00:01, 1.0it/s]\n"
        "{'loss': 2.0, 'grad_norm': 1.0}\n",
        {"step": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FIGURES)
def test_figures_of_a_step(what: str) -> None:
    text, expected = FIGURES[what]
    found = step(text)
    assert {name: getattr(found, name, found.extra.get(name)) for name in expected} == expected


NO_TRAINING = {
    "validation of Megatron": " validation loss at iteration 100 | lm loss value: 2.4E+00 | lm loss PPL: 1.1E+01 | \n",
    "validation of verl": "step:0 - val-core/math/acc:0.5 - val-aux/num_turns/mean:2.0 - val/loss:1\n",
    "evaluation of MaxText": "Completed eval after train step 9, loss=2.1\n" * 2,
    "evaluation of Hugging Face": "{'eval_loss': 2.0, 'eval_runtime': 3.0, 'epoch': 1.0}\n",
    "deep JSON": 'DLLL {"loss": ' + "[" * 15000 + "\n",
    "prose": "step 5: train loss 2.6395, val loss 2.2629\nvalidate step:  5  loss:  7.3\nthe loss at step 5 was high\n"
    * 3,
}


@pytest.mark.parametrize("what", NO_TRAINING)
def test_what_is_no_training(what: str) -> None:
    assert parse_training(NO_TRAINING[what].encode()) == ()


EPOCH, SAMPLES = "Epoch {0} | Iter {1} | Loss 2.5\n", "Train Epoch: {0} [{1}/60000 (1%)]\tLoss: 2.123456\n"
NEMO = "Epoch {0}:   3%|3         | {1}/1000 [5:28:58<171:22:21,  2.00it/s, loss=2.52, v_num=, reduced_train_loss=2.510, global_step=3.1e+4]\r"  # noqa: E501
LATER = "Training epoch {0}, iteration {1}/9 | lr: 0.0001 | global_step: {2} | reduced_train_loss: 0.5 | train_step_timing in s: 4.0\n"  # noqa: E501
TITAN = "[rank{0}]:[titan] 2026-01-01 00:00:00,000 - root - INFO - step:  {1}  loss:  7.3  grad_norm:  1.0\n"
BAR = "Epoch 0:  {0:2}%|#   | {0}/18 [00:08<02:29,  8.77s/it, loss={1}, v_num=19]\r"
DEEPSPEED = "[2025-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={0}, skipped=1, lr=[1], mom=[0]\n"
NAN = math.nan
SERIES: dict[str, tuple[str, str, list[tuple[object, ...]]]] = {
    "two iterations in one line": (iteration(1).rstrip("\n") + iteration(2), "step", [(1,), (2,)]),
    "the first version of Megatron": (
        " iteration      100/  320000 | elapsed time per iteration (ms): 250.8 | learning rate 1.5E-06 |"
        " lm loss 9.1E+00 | loss scale 131072.0 |\n"
        " iteration      200/  320000 | elapsed time per iteration (ms): 250.8 | learning rate: 1.5E-06 |"
        " lm loss: 9.1E+00 | loss scale: 131072.0 |\n",
        "step loss", [(100, None), (200, 9.1)],
    ),
    "Bridge on the first rank only": (
        "Step Time : 14.18s GPU utilization: 1265.0MODEL_TFLOP/s/GPU\n" * 2, "step step_time_s tflops_per_gpu",
        [(None, 14.18, 1265.0)] * 2,
    ),
    "DeepSpeed and Megatron of one step": (
        DEEPSPEED.replace("{0}", "1") + iteration(1) + DEEPSPEED.replace("{0}", "2") + iteration(2),
        "step loss skipped", [(1, 2.5, 1), (2, 2.5, 0)],
    ),
    "every rank of TorchTitan": (
        "".join(TITAN.format(*at) for at in ((0, 1), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4))),
        "step", [(1,), (2,), (3,), (4,)],
    ),
    "every rank of any program": (
        "".join(f"step {at} loss 2.5\n" for at in (1, 1, 1, 2, 2, 3, 2, 3, 3)), "step", [(1,), (2,), (3,)],
    ),
    "a bar of NeMo": (NEMO.format(0, 999) + NEMO.format(1, 1), "step loss step_time_s",
                      [(999, 2.51, 0.5), (1001, 2.51, 0.5)]),
    "steps of NeMo over epochs": (LATER.format(0, 9, 9) + LATER.format(1, 0, 10), "step total", [(9, 10), (10, None)]),
    "epochs in brackets": (
        "[1,  2000] loss: 2.2\n[1,  4000] loss: 2.1\n[2,  2000] loss: 1.9\n", "step", [(2000,), (4000,), (6000,)],
    ),
    "a label in brackets": ("[pod/a/b] [2,  2400] loss: 2.2\n", "step", [(2400,)]),
    "iterations of an epoch": (
        EPOCH.format(0, 10) + EPOCH.format(0, 20) + EPOCH.format(1, 10), "step", [(10,), (20,), (30,)],
    ),
    "samples of an epoch": (SAMPLES.format(1, 640) + SAMPLES.format(2, 640), "step", [(640,), (60640,)]),
    "a total before a bar": ("iteration 5/ 10 | loss 3\niteration 6/  10 | loss 3\n", "step", [(5,), (6,)]),
    "a bar redrawn after a dictionary": (
        "  2%|#         | 1/60 [00:00<00:22,  2.60it/s]\r{'loss': '6.567', 'epoch': '0.1'}\n"
        "  8%|#         | 5/60 [00:00<00:21,  2.60it/s]\r 17%|##        | 10/60 [00:05<00:01, 25.75it/s]\r"
        "{'loss': '5.2', 'epoch': '0.2'}\n 25%|##        | 15/60 [00:09<00:01, 25.75it/s]\r",
        "step total", [(5, 60), (None, None)],  # 25 steps a second: late
    ),
    "bars out of phase with the reports": (
        "".join(f" {at}%|#  | {bar}/900 [10:00<10:00,  2.00s/it]\n{{'loss': 2.5, 'epoch': {at * 0.1:.4f}}}\n"
                for at, bar in enumerate((100, 140, 180, 600, 800), 1)),
        "step loss", [(None, 2.5)] * 5,
    ),
    "a bar of fast steps": (
        "100%|##| 13792/13792 [05:12<00:00, 44.14it/s]\n{'loss': 2.0, 'epoch': 1.74}\n{'loss': 1.0, 'epoch': 3.47}\n",
        "step", [(None,), (None,)],
    ),
    "a bar drawn twice for a step, first with the loss of the step before": (
        "".join(BAR.format(at, loss) for at, loss in ((1, 10.5), (2, 10.5), (2, 10.25), (3, 10.25), (3, 10.1))),
        "step loss", [(1, 10.5), (2, 10.25), (3, 10.1)],
    ),
    "several iterations of a step": (
        "".join(f"step {at // 3} iter {at} loss {loss}\n" for at, loss in enumerate((3.0, 2.9, 2.8, 2.5, NAN, 2.4))),
        "step loss", [(0, 2.8), (1, NAN)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SERIES)
def test_steps_that_follow_each_other(what: str) -> None:
    text, names, expected = SERIES[what]
    run = one(text)
    assert repr([tuple(getattr(each, name) for name in names.split()) for each in run.steps]) == repr(expected)
    assert run.rewinds == []


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (FIGURES["swift with its own fields"][0], "ms-swift"),
        (SERIES["Bridge on the first rank only"][0], "megatron-bridge"),
        (SERIES["DeepSpeed and Megatron of one step"][0], "megatron"),
        ((DATA / "train_ddp.txt").read_text(), "key-value"),
    ],
)
def test_the_program_that_printed_it(text: str, format_: str) -> None:
    assert one(text).format == format_


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 5/40 loss 2.33 step_time 0.6474s", (5, 40, 2.33, 0.6474)),
        ("step: 5, loss: 2.33, step_time: 647.4ms", (5, None, 2.33, 0.6474)),
        ("[2026-01-01 00:00:00][INFO] step=5 loss=2.33 lr=1e-4", (5, None, 2.33, None)),
        ("2026-01-01 00:00:00 INFO Iteration 5 | train loss 2.33 | time 0.5 s", (5, None, 2.33, 0.5)),
        (
            "step    5/19560 | loss 2.33 | norm 15.3 | lr 1.2e-06 | dt: 1033.8 ms | 507115 tok/s",
            (5, 19560, 2.33, 1.0338),
        ),
        ("12/20/2026 10:00:00 - INFO - __main__ - step: 5, loss: 2.33", (5, None, 2.33, None)),
        ("INFO:train:Step 5: loss=2.33, lr=0.001", (5, None, 2.33, None)),
        ("step 5/9 | loss 2.33 (+nanz)| norm 1.5 (+nanz)| lr 1e-06 | 1033.8 ms | 51.0% MFU", (5, 9, 2.33, 1.0338)),
        ("Epoch: [0][   5/5005]\tTime  0.5 ( 1.2)\tLoss 2.33e+00 (7.0e+00)", (5, None, 2.33, None)),
        ("1|5|Loss: 2.33:   0%|          | 5/26000 [00:30<20:00:00,  2.77s/it]", (5, None, 2.33, None)),
        ("steps: 5 loss: 2.33 iter time (s): 0.123 samples/sec: 123.4", (5, None, 2.33, 0.123)),
        ("step=5 time (ms): 123 loss=2.33", (5, None, 2.33, 0.123)),
        ("Steps:   5%|5     | 5/1000 [01:00<19:00,  1.20s/it, lr=1e-5, step_loss=2.33]", (5, 1000, 2.33, 1.2)),
        ("Epoch 0:   5%|5     | 5/1000 [01:00<19:00,  2.00it/s, v_num=0, train_loss=2.33]", (5, 1000, 2.33, 0.5)),
        ("Step 1,205 Loss: nan", (1205, None, math.nan, None)),
    ],
)
def test_unknown_programs(line: str, expected: tuple[int, int | None, float, float | None]) -> None:
    found = step(line + "\n")
    assert repr((found.step, found.total, found.loss, found.step_time_s)) == repr(expected)


def test_an_unknown_line_is_learned_when_it_comes_again() -> None:
    text = "progress of worker: at step {0} the loss={1} after all\n"
    assert parse_training(text.format(1, 2.5).encode()) == ()
    run = one(text.format(1, 2.5) + text.format(2, 2.25) + text.format(3, 2.0))
    assert [(each.step, each.loss) for each in run.steps] == [(1, 2.5), (2, 2.25), (3, 2.0)]


def test_numbers_in_brackets_and_speeds_before_their_number() -> None:
    text = "Epoch [{0}/3], Step [{1}/600], Loss: 2.5\n"
    every = one(text.format(1, 100) + text.format(1, 600) + text.format(2, 100)).steps
    assert [(each.step, each.total) for each in every] == [(100, 600), (600, 600), (700, None)]
    for line in ("[step {0}] loss=3.0 tok/s=1234\n", "step {0} | loss 3.0 | 1234 tok/s\n"):
        assert [each.tokens_per_s for each in one(line.format(5) + line.format(6)).steps] == [1234, 1234]


def test_the_end_of_a_run_and_the_next() -> None:
    text = "{'loss': 2.0, 'epoch': 0.5}\n{'train_runtime': 10.0, 'train_loss': 2.0}\n{'loss': 3.0, 'epoch': 0.5}\n"
    first, second = parse_training(text.encode())
    assert [(each.finished, len(each.steps)) for each in (first, second)] == [(True, 1), (False, 1)]


def test_a_restart_from_a_checkpoint_does_steps_again() -> None:
    text = "".join(iteration(at) for at in range(1, 16)) + "".join(
        iteration(at, "lm loss: 2.0E+00 |") for at in range(11, 20)
    )
    run = one(text)
    assert [each.step for each in run.steps] == list(range(1, 20))
    assert [each.loss for each in run.steps] == [2.5] * 10 + [2.0] * 9
    assert run.rewinds == [StepRollback(15, 11)]
    assert [each.step for each in run.steps if each.warm_up] == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_a_start_from_the_beginning_is_another_run() -> None:
    runs = parse_training("".join(iteration(at) for at in (1, 2, 3, 1, 2)).encode())
    assert [[each.step for each in run.steps] for run in runs] == [[1, 2, 3], [1, 2]]


LINES = [
    iteration(3), iteration(4, ""), "{'loss': 2.0, 'grad_norm': nan,\n", " 'epoch': 0.5}\n", "step:1\n",
    " - actor/pg_loss:1\n", "completed step: 3, seconds: 1.0, loss: 2\n", "iter 7: loss 2, time 3ms\n",
    " 10%|# | 1/9 [00:01<00:02, 2.0it/s]\r", "step 5/9 loss 2 time 3ms\n", "\x1b[31mstep: 6  loss: 7.2\n", "\r\n", "\n",
    "Step Time : 1.5s GPU utilization: 10.0MODEL_TFLOP/s/GPU\n", "plain words\n",
    "[Rank 0] step=3, skipped=1, lr=[0.1], mom=[0]\n", "{'train_runtime': 1, 'train_loss': 2}\n",
]  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=25), st.lists(st.integers(0, 3000), max_size=25))
def test_how_the_bytes_are_cut_does_not_matter(lines: list[str], cuts: list[int]) -> None:
    data, parser, at = "".join(lines).encode(), TrainingParser(), 0
    for cut in [*sorted(cuts), len(data)]:
        parser.feed(data[at:cut])
        at = cut
    parser.close()
    assert repr(parser.runs) == repr(parse_training(data))


@pytest.mark.slow(reason="many random examples")
@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), max_size=25))
def test_lines_that_are_passed_over_say_nothing(lines: list[str]) -> None:
    """Reading every line gives the same as reading those that hold one of the words."""
    data = "".join(lines).encode()
    eager = TrainingParser()
    for line in data.replace(b"\r", b"\n").split(b"\n"):
        eager._parse_raw_line(line[:MAX_LINE_BYTES])
    eager.close()
    assert repr(eager.runs) == repr(parse_training(data))


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_break_it(data: bytes) -> None:
    runs = parse_training(data + b"\n" + iteration(7).encode())
    assert any(each.step == 7 and each.loss == 2.5 for run in runs for each in run.steps)


@settings(deadline=None)
@given(st.text(alphabet="0123456789 .-+e:=,/|%[]{}'\"lostepLSinaf\n\r\x1b", max_size=400))
def test_no_text_like_a_log_breaks_it(text: str) -> None:
    for run in parse_training(text.encode()):
        assert run.format


@pytest.mark.parametrize("word", STEP_SEARCH.words)
def test_a_line_of_50_megabytes_takes_no_memory_and_no_time(word: bytes) -> None:
    parser = TrainingParser()
    for _ in range(50):
        parser.feed(word * (1_000_000 // len(word)))
    parser.feed(b"\n" + iteration(7).encode())
    assert [each.step for run in parser.runs for each in run.steps] == [7]


def test_text_lines_are_separated_by_their_process() -> None:
    """Two ranks print the same steps, one behind the other: none goes back to a checkpoint."""
    parser, line = TrainingParser(), "step {} loss 2.{} lr 3e-4"
    for number in range(1, 30):
        for rank, step in ((0, number), (1, number - 5)):
            assert step < 1 or parser.read_line(line.format(step, step), number, rank)
    (run,) = parser.runs
    assert (len(run.steps), run.rewinds) == (29, [])
    assert not parser.read_line("step 3 of the launcher: loss of \x1b[1mpatience", 30, 0)
    assert not parser.read_line("iteration 31/ 99 | lm loss: what? | grad norm: 1.0 |", 31, 0)
    assert parser.unreadable is not None
    assert (parser.unreadable.first, parser.unreadable.lines) == (31, 1)
    parser.read_line("step 40 loss 2.5\r\x1b[Kstep 41 loss 2.25", 32, 1)
    assert [step.loss for step in run.steps[-2:]] == [2.5, 2.25]


def test_a_step_that_is_repeated_in_another_form_belongs_to_its_run() -> None:
    log = "".join(f"iter {10 * at}: loss 6.{at}, time 20.5ms, mfu -100.00%\n" for at in range(5)).encode()
    log += b"iter 40: loss 6\n" * 40
    parser = TrainingParser()
    for start in range(0, len(log), 64):
        parser.feed(log[start : start + 64])
    (run,) = parser.runs
    assert (run.format, [each.step for each in run.steps]) == ("nanogpt", [0, 10, 20, 30, 40])
