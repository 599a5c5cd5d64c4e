"""Lines of programs nobody described: read by themselves and, once their layout is known, many at once."""

import math
import random

import pytest

from trainlog import parse_training
from trainlog.training.parser import TrainingParser
from trainlog.training.run_reader import RunReader
from trainlog.training.steps import Step


def read(lines: list[str], piece: int = 1 << 20, *, is_short: bool = False) -> RunReader:
    data = ("\n".join(lines) + "\n").encode()
    parser = TrainingParser(is_short=is_short)
    for at in range(0, len(data), piece):
        parser.feed(data[at : at + piece])
    parser.close()
    (run,) = parser.runs
    return run


FORMS = {
    "key value": "step {n} loss {loss:.4f} tok/s {speed} lr {lr:g}",
    "key=value": "[rank1]: step={n} loss={loss:.3f} dt={time:.1f}ms layer12_norm={loss:.1f}",
    "bars": "Epoch 0: {second:3}%|{bar:6}| {n}/9999999 [00:23<4:33:20, {time:.2f}s/it, loss={loss:.3f}]",
    "labels": "2026-11-21 06:40:{second:02},123 - INFO - step {n} of 900 | loss {loss:.3f} | {speed:,} tok/s | 12.5 ms",
    "padded": "iteration {n:6}/ 99999 loss_1 {loss:.2f} loss {loss:.3f} gnorm {loss:.2f} mem 1.{second}G",
    "rates": "Step {n}: loss {loss:.3f}, {time:.2f} it/s, tflops 3.{second}",
    "epochs": "epoch {epoch} step {within} loss {loss:.3f} acc {loss:.2f}",
    "Megatron": " [2026-05-01 10:00:{second:02}] iteration {n:8}/  999999 | consumed samples: {n:12} | elapsed time "
    "per iteration (ms): {time:.1f} | learning rate: {lr:.6E} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: "
    "{time:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "torchtitan": "[rank0]:[titan] 2026-01-01 00:00:{second:02},000 - root - INFO - \x1b[31mstep: {n:2}  \x1b[32mloss: "
    "{loss:8.5f}  grad_norm: {time:7.4f}  memory: 1.{second:02}GiB(1.86%)  tps: {speed:,}  tflops: {loss:,.2f}  "
    "mfu: N/A",
    "dictionaries": "{{'loss': {loss}, 'grad_norm': {time}, 'learning_rate': {lr}, 'epoch': {n}.5}}",
    "rounded epochs": "{{'loss': {loss:.1f}, 'grad_norm': {time}, 'epoch': {epoch}.5}}",
    "two numbers": "Ep 1 | iter {n} | step {within}: loss train: {loss:.3f} | iter time: {time:.2f} ms",
    "DeepSpeed": "[Rank 0] step={n}, skipped={epoch}, lr=[{lr:g}], mom=[(0.9, 0.95)]",
    "strings": "{{'loss': '{loss:.4g}', 'grad_norm': '{time:.4g}', 'learning_rate': '{lr:.4g}', 'epoch': '{n}'}}",
    "ms-swift": "{{'loss': {loss:.8f}, 'grad_norm': {time:.8f}, 'iteration': '{n}/9999', 'memory(GiB)': 12.{second}}}",
    "nanoGPT": "iter {n}: loss {loss:.4f}, time {time:.2f}ms, mfu {loss:.2f}%",
    "rows": "{n} | loss {loss:.4f} | lr {lr:.2e} | {time:.2f}ms | mfu {loss:.1f}%",
    "MaxText": "completed step: {n}, seconds: {time:.3f}, TFLOP/s/device: {loss:.3f}, Tokens/s/device: {speed}.0, "
    "total_weights: 8192, loss: {loss:.3f}",
    "NeMo": "Training epoch 0, iteration {n}/999999 | lr: {lr:.4g} | global_step: {n} | reduced_train_loss: {loss:.4g} "
    "| train_step_timing in s: {time:.4g}",
}
ODD = [
    "Saved checkpoint at step 500",
    "val loss 3.0 step 5",
    "",
    "\x1b[1mstep 3 loss 2.0\x1b[0m",
    "# nothing",
    "step 5 loss 3.2 " + "x" * 3000,
    "{'loss': 2.0, 'epoch': 1.0}",
]


@pytest.mark.slow(reason="extracts of all programs, cut in many ways", fast_rows=6)
@pytest.mark.parametrize(("seed", "beside"), [(1, 0.0), (2, 0.0), (3, 0.5)])
@pytest.mark.parametrize("form", FORMS)
def test_many_at_once_are_read_as_each_by_itself(form: str, seed: int, beside: float) -> None:
    """`beside`: how often a line is of another program."""
    chance, n, lines = random.Random(seed), 0, []
    other = chance.choice([*FORMS])
    for at in range(700):
        n = max(0, n + (1 if chance.random() < 0.99 else chance.choice([0, -3, 5])))
        loss = math.nan if chance.random() < 0.003 else chance.random() * 11
        lines.append(
            FORMS[other if chance.random() < beside else form].format(
                n=n,
                loss=loss,
                lr=10 ** chance.uniform(-6, -3),
                speed=chance.randint(900, 1100),
                time=chance.random() * 50,
                second=at % 60,
                epoch=at // 300,
                within=at % 300 + 1,
                bar=at % 6 * "█",
            )
        )
        if chance.random() < 0.004:
            lines.append(chance.choice(ODD))
    data = ("\n".join(lines) + "\n").encode()
    assert repr(parse_training(data)) == repr(parse_training(data, is_short=True))


@pytest.mark.parametrize("piece", [1 << 20, 777])
def test_every_value_of_many_lines_is_in_its_field(piece: int) -> None:
    run = read(
        [f"step {n}/5000 loss {3 - n / 2000} step_time 0.25s lr 3e-4 gpu7 {n % 4}.5" for n in range(1, 2001)], piece
    )
    assert run.steps == tuple(
        Step(n, 5000, 3 - n / 2000, None, 3e-4, 0.25, warm_up=n < 6, extra={"gpu7": n % 4 + 0.5})
        for n in range(1, 2001)
    )


@pytest.mark.parametrize(
    ("form", "beside"),
    [
        *((form, "") for form in FORMS if form not in {"key=value", "two numbers"}),
        ("MaxText", FORMS["torchtitan"]),
        ("MaxText", f"7: {FORMS['MaxText']}"),
        ("strings", "nothing of interest\n{{'eval_runtime': {n}}}"),
    ],
)
def test_most_lines_are_read_at_once(form: str, beside: str) -> None:
    """`beside`: what follows each line."""
    parser = TrainingParser()
    lines = [
        f"{FORMS[form]}\n{beside}".format(
            n=n, loss=2.5, lr=1.5e-5, speed=1234, time=12.25, second=n % 50, epoch=n // 5000, within=n, bar=n % 6 * "█"
        )
        for n in range(1, 5000)
    ]
    parser.feed(("\n".join(lines) + "\n").encode())
    assert parser._unlike < 0.2 * len(lines)


def test_a_nan_among_many_lines_is_an_alarm() -> None:
    lines = [f"step {n} loss {'nan' if n == 1500 else 2.5}" for n in range(2000)]
    assert [step.step for step in read(lines).steps if step.nan] == [1500]


def test_a_restart_among_many_lines_is_seen() -> None:
    numbers = [*range(1, 1500), *range(1000, 2500)]
    run = read([f"step {n} loss 2.5 lr 0.1" for n in numbers])
    assert [(back.last, back.first) for back in run.rewinds] == [(1499, 1000)]
    assert [step.step for step in run.steps] == list(range(1, 2500))


def test_a_word_with_other_digits_is_another_key() -> None:
    lines = [f"step {n} loss 2.5 expert{n // 1000} 0.25" for n in range(2000)]
    run = read(lines)
    assert (run.steps[999].extra, run.steps[1000].extra) == ({"expert0": 0.25}, {"expert1": 0.25})
    assert run == read(lines, is_short=True)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("step 7 loss 3.0 tok/s 1234", Step(7, loss=3.0, tokens_per_s=1234.0)),
        ("step 7 loss 3.0 1234 tok/s", Step(7, loss=3.0, tokens_per_s=1234.0)),
        ("step 7 loss 3.0 speed 1.5K tok/s", Step(7, loss=3.0, tokens_per_s=1500.0, extra={"speed": 1500.0})),
        ("step 7 of 10 loss 3.0", Step(7, 10, loss=3.0)),
        ("step 7 loss 3.0, 1.25 s/it", Step(7, loss=3.0, step_time_s=1.25)),
        ("step 7 loss 3.0 1.25s/it", Step(7, loss=3.0, step_time_s=1.25)),
        ("step 7 loss 3.0 s/it 1.25", Step(7, loss=3.0, step_time_s=1.25)),
        ("step 7 loss 3.0 4 it/s", Step(7, loss=3.0, step_time_s=0.25)),
        ("step 7 loss 3.0 it/s 4.0", Step(7, loss=3.0, step_time_s=0.25)),
        ("step 7 loss 3.0 1234 tok/s 0.5 s/it", Step(7, loss=3.0, tokens_per_s=1234.0, step_time_s=0.5)),
        ("step 7 loss 3.0 tok/s 1234 s/it 0.5", Step(7, loss=3.0, tokens_per_s=1234.0, step_time_s=0.5)),
        ("step 7 loss 3.0 1234 tok/s dt 0.5", Step(7, loss=3.0, tokens_per_s=1234.0, step_time_s=0.5)),
        ("step 7 of 10 | loss 3.0 | 1.5 s/it", Step(7, 10, loss=3.0, step_time_s=1.5)),
        ("step 7 loss 3.0 250ms/it", Step(7, loss=3.0, step_time_s=0.25)),
        ("step 7 loss 3.0 ms/step 250", Step(7, loss=3.0, step_time_s=0.25)),
        ("step 7 loss 3.0 eta 13:20", Step(7, loss=3.0)),
        ("step 7 loss 3.0 tok/s", Step(7, loss=3.0)),
        ("step 7 loss 3.0 s/it", Step(7, loss=3.0)),
        ("step 7 loss 3.0 acc 0.5 tok/s 1234", Step(7, loss=3.0, extra={"acc": 0.5})),
    ],
)
def test_units_behind_and_before_a_figure(line: str, wanted: Step) -> None:
    (step,) = read([line]).steps
    assert step == wanted._replace(warm_up=True)


@pytest.mark.parametrize(
    ("line", "number", "loss"),
    [
        ("10:00:00 | INFO | root | step 9 | epoch 0 | loss 0.6974 | lr 1.00e-05 | mem 24.90 GiB", 9, 0.6974),
        ("step 10 | lm loss 2.345 | aux loss 0.012", 10, 2.345),
        ("step 10 | balance loss: 1.02, z loss: 0.1, lm loss: 2.345", 10, 2.345),
        ("iteration 100/300000 | lm loss: 7.97 | mtp_1 loss: 8.1", 100, 7.97),
        ("step 825 | Critic Loss = 0.097 | Loss = -0.37 | Actor Steps = 1650", 825, -0.37),
        ("Step 10/20 (50.00%) | loss nan nan | lrm 1.0", 10, math.nan),
        ("step 100 | policy loss 0.25 | value loss 0.5 | entropy loss 0.1", 100, 0.25),
        ("step 100 | train_loss 2.50 | val_loss 2.60", 100, 2.5),
        ("step 100 - loss: 2.50 - accuracy: 0.5 - val_loss: 2.60 - val_accuracy: 0.4", 100, 2.5),
    ],
)
def test_which_loss_and_which_step(line: str, number: int, loss: float) -> None:
    (step,) = read([line]).steps
    assert repr((step.step, step.loss, step.nan)) == repr((number, loss, math.isnan(loss)))


@pytest.mark.parametrize(
    "line",
    [
        "rank {n} | loss 0.69",
        "gpu {n} | loss 0.69 | lr 0.1",
        "tokens {n} | loss 0.69",
        "samples: {n} | loss 0.69",
        "epoch 3 | {n} | loss 0.69",
        "Actor Steps = {n} | Learner Loss = 0.69",
        "step {n} aux loss 0.5",
        "step {n} content loss 0.5 style loss 0.25",
        "samples per iteration: {n} | loss 0.69",
        "step {n}: train loss 2.6, val loss 2.7",
        "step {n} val_loss 2.7",
        "eval step {n} loss 2.7",
        "step {n} loss 2.7 eval_acc 0.5",
    ],
)
def test_what_is_no_step_or_no_loss_is_not_taken_for_one(line: str) -> None:
    assert parse_training("".join(line.format(n=n) + "\n" for n in range(3, 9)).encode()) == ()


@pytest.mark.parametrize(
    "label", ["", "[rank0]: ", "  0: ", "node-7: ", "[1,0]<stdout>:", "> ", "2026-05-01 10:00:00 "]
)
def test_rows_behind_a_label_are_rows(label: str) -> None:
    (step,) = read([f"{label}12 | loss 0.6932 | lr 1.0e-04"]).steps
    assert (step.step, step.loss, step.lr) == (12, 0.6932, 1e-4)
