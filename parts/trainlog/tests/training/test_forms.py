"""Forms in which programs write numbers, durations and several reports."""

import math
import random

import pytest

from trainlog import LineLayout, parse_training
from trainlog.training.formats.known_programs import LineFormat
from trainlog.training.parser import TrainingParser
from trainlog.training.values import unwrap_numbers

BAR = "| 2/10 [00:02<00:08,  1.00s/it"
SB3 = (
    "| time/            |       |\n|    iterations    | {at}     |\n| train/           |       |\n"
    "|    entropy_loss  | -13.9 |\n|    loss          | {loss}  |\n--------\n"
)
BAR_OF_40 = "[==============================] - 5s 6ms/step"
KERAS = "Epoch {}\n40/40 {} - accuracy: 0.5 - loss: 1.5\n"


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        ("step:4 - actor/pg_loss:-0.1 - x/y:1\nstep:5 - actor/pg_loss:-0.2 - x/y:1\n", [(4, -0.1), (5, -0.2)]),
        ("step:4 - actor/pg_loss:-0.1 - train/glo\nbal_step:4 - timing_s/step:2.0 - x/y:1\n", [(4, -0.1)]),
        (KERAS.format("1/2", "- 2s - 6ms/step") + KERAS.format("2/2", "- 3s"), [(40, 1.5), (80, 1.5)]),
        (f"{KERAS.format('1/1', BAR_OF_40)}40/40 {BAR_OF_40} - loss: 9.5\n1/7 {BAR_OF_40} - loss: 9.5\n", [(40, 1.5)]),
        (
            "Epoch: [0]  [  0/40]  loss: 1.5 (7.6)\nEpoch: [0]  [ 39/40]  loss: 1.4 (7.6)\n"
            "Epoch: [1]  [  0/40]  loss: 1.3 (7.6)\n",
            [(0, 1.5), (39, 1.4), (40, 1.3)],
        ),
        (
            "[2026-01-01 09:05:16 swin] (main.py 226): INFO Train: [3/9][7/9]\teta 0:10 loss 1.5 (6.3)\tmem 14MB\n"
            "[2026-01-01 09:05:16 swin] (main.py 226): INFO Train: [3/9][8/9]\teta 0:10 loss 1.4 (6.3)\tmem 14MB\n"
            "[2026-01-01 09:05:16 swin] (main.py 282): INFO Test: [0/49]\tTime 2.3 (2.3)\tLoss 0.9 (0.9)\n",
            [(7, 1.5), (8, 1.4)],
        ),
        (
            "I1002 21:38:13.4 139 logging_writer.py:35] [400] steps_per_second=1.5, train_loss=3.25\n"
            "I1002 21:39:13.4 139 logging_writer.py:35] [500] steps_per_second=1.5, train_loss=3.0\n"
            "I1002 21:39:13.4 139 logging_writer.py:35] [500] eval_accuracy=0.5, eval_loss=3.5\n",
            [(400, 3.25), (500, 3.0)],
        ),
        ('json_stats: {"eta": "0:21:51", "iter": 80, "loss": 1.5, "time": 0.25}\n', [(80, 1.5)]),
        ("{'loss': 1.5, 'step': 1} {'loss': 1.4, 'step': 2}{'loss': 1.3, 'step': 3}\n", [(1, 1.5), (2, 1.4), (3, 1.3)]),
        ("{'loss': 1.5, 'step': 1} {'eval_loss': 9.0, 'step': 1}\n", [(1, 1.5)]),
        ("{'loss': tensor(nan, device='cuda:0'), 'step': 7}\n", [(7, math.nan)]),
        ("{'train_runtime': 9.0, 'train_loss': 1.2, 'step': 7}\n", []),
        ('{"iteration": 7, "iter_time": 2.5, "total_loss": 1.2}\n', [(7, 1.2)]),
        ("step: 7, loss: tensor(2.5, device='cuda:0', grad_fn=<DivBackward0>)\n", [(7, 2.5)]),
        ("step: 7, loss: np.float32(2.5)\n", [(7, 2.5)]),
        (f"Training:  20%|##        {BAR}, loss: 2.5, lr: 1.0e-04]\n", [(2, 2.5)]),
        (f"Epoch 0:  20%|##        {BAR}, aeloss_step=2.5, discloss_step=0.0]\n", [(2, 2.5)]),
        (f"Epoch 0:  20%|##        {BAR}, aloss_step=2.5, bloss_step=0.0]\n", []),
        ("Epoch [1][50/99]\tlr: 1.0, loss: 2.5\nEpoch [1][60/99]\tlr: 1.0, loss: 2.4\n", [(50, 2.5), (60, 2.4)]),
        (
            "Epoch: [0/9]  [10/99]  eta: 0:03:44  loss: 2.5 (7.6)\n"
            "Epoch: [0/9]  [20/99]  eta: 0:03:38  loss: inf (inf)\n",
            [(10, 2.5), (20, math.inf)],
        ),
        ("[20] Loss : 2.5\n[20] Loss : 2.4\n[30] Loss : 2.3\n", [(20, 2.5), (30, 2.3)]),
        (SB3.format(at=8, loss=18.4) + SB3.format(at=9, loss=17.9), [(8, 18.4), (9, 17.9)]),
        (
            f"(h, pid=7)  20%|#   | 1/10 [00:01<00:08,  1.00s/it]  20%|#   {BAR}]\n(h, pid=7) {{'loss': 2.5}}\n",
            [(2, 2.5)],
        ),
    ],
)
def test_every_report_of_a_log_is_a_step(log: str, steps: list[tuple[int, float]]) -> None:
    found = [(step.step, step.loss) for run in parse_training(log.encode()) for step in run.steps]
    assert repr(found) == repr(steps)  # so that nan is nan


@pytest.mark.parametrize(
    ("line", "field", "figure"),
    [
        ("step 1,000 / 20,000 | loss 3.2", "total", 20000),
        ("step 5 / 100, loss 3.2", "total", 100),
        ("step 5 loss 3.2 step time 1m 05s", "step_time_s", 65.0),
        ("step 5 loss 3.2 time: 02m 05s 112ms", "step_time_s", 125.112),
        ("step 5 loss 3.2 ups: 0.80, time: 02m 05s 112ms", "step_time_s", 1.25),
        ("step 5 loss 3.2 time: 2s", "step_time_s", 2.0),
        ("step 5 loss 3.2 Grad. Norm: 0.5", "grad_norm", 0.5),
        ("step: 5, loss: 3.2, Iteration time: 80.240s", "step_time_s", 80.24),
        (
            "level=info t=2026-01-01 step=5 loss=3.2 (a.py 7)\nlevel=info t=2026-01-01 step=6 loss=3 (a.py 7)",
            "extra",
            {},
        ),
        ("I0 1 logging_writer.py:5] [4] train_loss=3, steps_per_second=0.5\n" * 2, "step_time_s", 2.0),
        ("step:5 - train/loss:1.25 - train/lr(1e-3):0.01 - train/time(s):0.5\n", "lr", 1e-5),
        ("step:5 - train/loss:1.25 - train/lr(1e-3):0.01 - train/time(s):0.5\n", "step_time_s", 0.5),
        (
            "Train: 0 [   0/33 (  0%)]  Loss: 8.8 (8.8)  Time: 1.5s,    9.62/s  LR: 5.0e-04  Data: 0.4",
            "step_time_s",
            1.5,
        ),
        (
            "Training epoch 0, iteration 5/9 | reduced_train_loss: 3.2 | global_step: 5 | TFLOPS_per_GPU: 1.021e+03",
            "tflops_per_gpu",
            1021.0,
        ),
    ],
)
def test_figures_in_other_forms(line: str, field: str, figure: object) -> None:
    assert getattr(parse_training(line.encode())[0].steps[-1], field) == figure


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1h 12m 31s", "4351s"), ("2m 3ms", "120.003s"), ("0h 12m 31s left", "751s left"), ("5 m 3", "5 m 3"),
        ("12m", "12m"), ("x1m 2s", "x1m 2s"), ("array(2.5, dtype=float32)", "2.5"), ("tensor([2.5])", "2.5"),
        ("max(2.5, 3)", "max(2.5, 3)"), ("tensor([2.5, 3.5])", "tensor([2.5, 3.5])"), ("10 ms 5", "10 ms 5"),
    ],
)  # fmt: skip
def test_wrappers_and_durations(text: str, read: str) -> None:
    assert unwrap_numbers(text) == read


def test_a_format_that_would_lose_its_figures_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a: .*losss"):
        LineFormat.of_pattern("a", "x", r"step (?P<at>\d) (?P<losss>\d)")


BARS = "  1%|#  | {n}/90 [00:{n:02}<31:00,  1.01it/s]\n{{'loss': {x}, 'grad_norm': 0.5, 'epoch': {e}}}\n"
HOSTS = "".join(f"completed step: {{n}}, seconds: 1.3{host}{{r}}, loss: {{x}}\n" for host in ("", 4, 25, 3))
OTHER_LOSS = "completed step: {n}, seconds: 1.34, loss: {x}\ncompleted step: {n}, seconds: 1.3, loss: 9.{r}\n"


@pytest.mark.parametrize("lines", [BARS, HOSTS, OTHER_LOSS, "lr\n" + BARS, BARS + "epoch\n"])
def test_lines_that_change_each_other_mean_the_same_many_at_once_and_by_themselves(lines: str) -> None:
    chance = random.Random(lines)
    numbers = sorted({*range(1, 60)} - {*chance.sample(range(10, 60), 9)})
    figures = [(n, n % 8, chance.choice(["2.5", f"{chance.random():.9g}", f"{chance.random():.3f}"])) for n in numbers]
    data = "".join(lines.format(n=n, r=r, x=x, e=n // 20) for n, r, x in figures).encode()
    assert repr(parse_training(data)) == repr(parse_training(data, is_short=True))


ITERATION = (
    " [2026-11-29 16:00:00.{n:03}] iteration {n:8}/ 1200 | consumed samples: {n:9} | elapsed time per iteration (ms): "
    "2000.{n} |{loss} loss scale: 1.0 | grad norm: {norm} | number of skipped iterations:   0 | "
    "number of nan iterations:   {bad} |\n"
)


def test_steps_without_a_loss_are_read_many_at_once_and_one_of_them_that_has_it_is_none() -> None:
    known: list[LineLayout] = []
    losses = [" lm loss: 2.5E+00 |" if n in {90, 91} or n < 20 else "" for n in range(1, 160)]
    bad = [int(n in {7, 60, 90}) for n in range(1, 160)]
    norms = ["nan" if n > 100 else f"1.{n}" for n in range(1, 160)]
    lines = enumerate(zip(losses, bad, norms, strict=True), start=1)
    data = "".join(ITERATION.format(n=n, loss=loss, bad=nan, norm=norm) for n, (loss, nan, norm) in lines).encode()
    parser = TrainingParser(layouts=known)
    parser.feed(data)
    assert repr(parser.runs) == repr(parse_training(data, is_short=True))
    assert {(bool(each.like.get("nan")), each.like["grad_norm"] == each.like["grad_norm"]) for each in known} == {
        (False, True), (True, True), (True, False)
    }  # fmt: skip
    assert [step.step for step in parser.runs[0].steps if not step.nan] == [*range(1, 7), *range(8, 20), 91]


def test_a_closing_record_without_a_loss_is_no_unreadable_step() -> None:
    parser = TrainingParser()
    parser.feed(b'{"current_steps": 10, "loss": 4.3}\n{"current_steps": 11, "loss": null}\n')
    assert parser.unreadable is None
