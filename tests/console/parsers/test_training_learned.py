"""Lines of programs nobody described: read by themselves and, once their layout is known, many at once."""

from __future__ import annotations

import math
import random

import pytest

from console.models.training import Step, TrainingRun
from console.parsers.training import TrainingParser, parse_training


def read(lines: list[str], piece: int = 1 << 20) -> TrainingRun:
    data = ("\n".join(lines) + "\n").encode()
    parser = TrainingParser()
    for at in range(0, len(data), piece):
        parser.feed(data[at : at + piece])
    parser.close()
    (run,) = parser.runs
    return run


def by_themselves(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> TrainingRun:
    """As read without any layout."""
    with monkeypatch.context() as patch:
        patch.setattr("console.parsers.training.rows", lambda *_: (0, None))
        return read(lines)


FORMS = {
    "key value": "step {n} loss {loss:.4f} tok/s {speed} lr {lr:g}",
    "key=value": "[rank1]: step={n} loss={loss:.3f} dt={time:.1f}ms layer12_norm={loss:.1f}",
    "labels": "2026-11-21 06:40:{second:02},123 - INFO - step {n} of 900 | loss {loss:.3f} | {speed:,} tok/s | 12.5 ms",
    "padded": "iteration {n:6}/ 99999 loss_1 {loss:.2f} loss {loss:.3f} gnorm {loss:.2f} mem 1.{second}G",
    "rates": "Step {n}: loss {loss:.3f}, {time:.2f} it/s, tflops 3.{second}",
    "epochs": "epoch {epoch} step {within} loss {loss:.3f} acc {loss:.2f}",
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


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_many_at_once_are_read_as_each_by_itself(form: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, n, lines = random.Random(seed), 0, []
    for at in range(700):
        n = max(0, n + (1 if chance.random() < 0.99 else chance.choice([0, -3, 5])))
        loss = math.nan if chance.random() < 0.003 else chance.random() * 11
        lines.append(
            FORMS[form].format(
                n=n,
                loss=loss,
                lr=10 ** chance.uniform(-6, -3),
                speed=chance.randint(900, 1100),
                time=chance.random() * 50,
                second=at % 60,
                epoch=at // 300,
                within=at % 300 + 1,
            )
        )
        if chance.random() < 0.004:
            lines.append(chance.choice(ODD))
    data = ("\n".join(lines) + "\n").encode()
    together = parse_training(data)
    with monkeypatch.context() as patch:
        patch.setattr("console.parsers.training.rows", lambda *_: (0, None))
        assert repr(together) == repr(parse_training(data))


@pytest.mark.parametrize("piece", [1 << 20, 777])
def test_every_value_of_many_lines_is_in_its_field(piece: int) -> None:
    run = read(
        [f"step {n}/5000 loss {3 - n / 2000} step_time 0.25s lr 3e-4 gpu7 {n % 4}.5" for n in range(1, 2001)], piece
    )
    assert run.steps == tuple(
        Step(n, 5000, 3 - n / 2000, None, 3e-4, 0.25, warm_up=n < 6, extra={"gpu7": n % 4 + 0.5})
        for n in range(1, 2001)
    )


def test_most_lines_are_read_at_once() -> None:
    parser, taken = TrainingParser(), 0
    rows = parser._rows

    def counted(piece: bytes) -> int:
        nonlocal taken
        taken += (size := rows(piece))
        return size

    parser._rows = counted  # type: ignore[method-assign]  # to see what it takes
    data = "".join(f"step {n} loss 2.5 tok/s 1234\n" for n in range(5000)).encode()
    parser.feed(data)
    assert taken > 0.9 * len(data)


def test_a_nan_among_many_lines_is_an_alarm() -> None:
    lines = [f"step {n} loss {'nan' if n == 1500 else 2.5}" for n in range(2000)]
    assert [step.step for step in read(lines).steps if step.nan] == [1500]


def test_a_restart_among_many_lines_is_seen() -> None:
    numbers = [*range(1, 1500), *range(1000, 2500)]
    run = read([f"step {n} loss 2.5 lr 0.1" for n in numbers])
    assert [(back.last, back.first) for back in run.rewinds] == [(1499, 1000)]
    assert [step.step for step in run.steps] == list(range(1, 2500))


def test_a_word_with_other_digits_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"step {n} loss 2.5 expert{n // 1000} 0.25" for n in range(2000)]
    run = read(lines)
    assert (run.steps[999].extra, run.steps[1000].extra) == ({"expert0": 0.25}, {"expert1": 0.25})
    assert run == by_themselves(lines, monkeypatch)


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
