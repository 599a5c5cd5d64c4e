"""Real logs of other people, kept beside the checkout and not in it: each is compared with what their index says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.models.training import Step
from console.parsers.training import TrainingParser, parse_training
from console.parsers.training_values import number

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
_ROW = re.compile(r"\| (\d\d)-(\S+\.txt) \| (.*) \| (.*) \|$")
_LOSSES = re.compile(r"loss (\S+) -> ([^\s\];]+)")

# number of the file: format and steps of each run
EXPECTED: dict[str, list[tuple[str, int]]] = {
    "35": [("ms-swift", 1)], "36": [("hf", 3)], "37": [("trl", 3)], "38": [("hf", 3)], "39": [("hf", 2)],
    "40": [("hf", 2)], "41": [("hf", 2)], "42": [("llama-factory", 1)], "43": [("llama-factory", 1)],
    "44": [("trl", 1)], "45": [("trl", 1)], "46": [("megatron", 10)], "47": [("megatron", 3)],
    "48": [("megatron", 1)], "49": [("megatron", 1)], "50": [("megatron-bridge", 1)], "51": [("torchtitan", 18)],
    "52": [("torchtitan", 10)], "53": [("torchtitan", 3)], "54": [("torchtitan", 4)], "55": [("torchtitan", 2)],
    "56": [("nemo", 8)], "57": [("nemo", 3)], "58": [("deepspeed", 2)], "59": [("minibatches", 3), ("deepspeed", 1)],
    "60": [("modded-nanogpt", 1)], "61": [("nanogpt", 7)], "62": [("loss-rows", 6)], "63": [("verl", 1)],
    "64": [("verl", 1)], "65": [("megatron", 4)], "66": [], "67": [("ms-swift", 3)], "68": [("hf", 5)],
    "69": [("megatron", 2)], "70": [("hf", 2)],
}  # fmt: skip
NAN = {"39": [0, 1], "40": [0, 1], "41": [0, 1], "53": [2], "65": [2, 3], "68": [4]}
"""Places of the steps that are alarms; there are no others."""


@dataclass(frozen=True)
class Entry:
    """One row of the index."""

    path: Path
    losses: tuple[float, float] | None
    """First and last, as an independent reader found them."""


def _index() -> dict[str, Entry]:
    if not (CORPUS / "INDEX.md").is_file():
        return {}
    text = (CORPUS / "INDEX.md").read_text().partition("## Training")[2]
    entries = {}
    for found in filter(None, map(_ROW.match, text.splitlines())):
        losses = _LOSSES.findall(found.group(4))
        first_last = tuple(number(each) for each in losses[-1]) if losses else None
        entries[found.group(1)] = Entry(CORPUS / "train" / f"{found.group(1)}-{found.group(2)}", first_last)  # type: ignore[arg-type]
    return entries


@pytest.fixture(scope="module")
def index() -> dict[str, Entry]:
    entries = _index()
    if not entries:
        pytest.skip(
            f"the logs of other people are not beside this checkout ({CORPUS.name} not found in ../shared/corpus)"
        )
    return entries


def steps(entry: Entry) -> list[Step]:
    return [step for run in parse_training(entry.path.read_bytes()) for step in run.steps]


def test_every_row_of_the_index_has_its_file_and_its_expectation(index: dict[str, Entry]) -> None:
    assert sorted(index) == sorted(EXPECTED)
    assert sorted(entry.path.name for entry in index.values()) == sorted(
        path.name for path in (CORPUS / "train").glob("*.txt")
    )


@pytest.mark.parametrize("row", EXPECTED)
def test_what_a_log_holds(row: str, index: dict[str, Entry]) -> None:
    runs = parse_training(index[row].path.read_bytes())
    assert [(run.format, len(run.steps)) for run in runs] == EXPECTED[row]
    losses = [repr(step.loss) for run in runs for step in run.steps if step.loss is not None]
    expected = index[row].losses
    assert losses[:1] + losses[-1:] == [repr(each) for each in expected or ()]
    assert [at for at, step in enumerate(steps(index[row])) if step.nan] == NAN.get(row, [])


@pytest.mark.parametrize("row", EXPECTED)
def test_it_does_not_matter_how_the_bytes_arrive(row: str, index: dict[str, Entry]) -> None:
    data = index[row].path.read_bytes()
    whole = parse_training(data)
    for size in (1, 7, 64, 1000):
        parser = TrainingParser()
        for at in range(0, len(data), size):
            parser.feed(data[at : at + size])
        parser.close()
        assert repr(parser.runs) == repr(whole)


def test_every_field_of_an_iteration(index: dict[str, Entry]) -> None:
    (step, *_) = steps(index["47"])
    assert step == Step(
        step=40, total=40000, loss=10.93495, grad_norm=2.197, lr=2.4e-05, step_time_s=0.6287, tflops_per_gpu=30.9,
        skipped=0, warm_up=True,
        extra={"consumed samples": 2560.0, "global batch size": 64.0, "load_balancing_loss": 1.315762,
               "loss scale": 1.0, "num zeros": 642142552.0, "params norm": 1104.93},
    )  # fmt: skip


def test_speed_is_turned_into_seconds_whichever_way_round_it_is(index: dict[str, Entry]) -> None:
    assert steps(index["35"])[0].step_time_s == 99.010097
    assert steps(index["67"])[0].step_time_s == pytest.approx(1 / 0.128088)


def test_what_is_not_known_is_not_zero(index: dict[str, Entry]) -> None:
    assert {step.tflops_per_gpu for step in steps(index["55"])} == {None}
    assert [step.extra.get("mfu") for step in steps(index["61"])] == [None] * 5 + [1.48, 1.81]
    assert {step.total for step in steps(index["56"])} == {None}


def test_thousands_and_shorter_totals(index: dict[str, Entry]) -> None:
    assert [step.tokens_per_s for step in steps(index["55"])] == [1541366.0, 1567390.0]
    assert {step.total for step in steps(index["57"])} == {100}


def test_two_lines_of_one_step(index: dict[str, Entry]) -> None:
    (step,) = steps(index["50"])
    assert (step.step, step.tflops_per_gpu, step.step_time_s) == (50, 663.5, 9.089)
    (step,) = steps(index["42"])
    assert (step.step, step.total, step.lr, step.tokens_per_s) == (5, 300, 4.997807075247146e-05, 1828.21)


def test_skipped_steps_are_counted_since_the_last_line(index: dict[str, Entry]) -> None:
    assert [step.skipped for step in steps(index["58"])] == [4, 0]
    assert [step.skipped for step in steps(index["65"])] == [0, 0, 1, 2]


def test_nothing_in_tables_of_nccl_is_training(index: dict[str, Entry]) -> None:
    logs = sorted((CORPUS / "nccl").glob("*.txt"))
    assert logs
    assert [path.name for path in logs if parse_training(path.read_bytes())] == []
