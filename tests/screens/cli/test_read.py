"""`a4 read`: files and pipes, text and JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from screens.__main__ import main
from screens.cli import output
from tests.screens.cli.commands import loaded
from trainlog import LogResults, ResultsPrinter, RunSteps, Step

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
LOGS = FIXTURES.parents[1] / "parts" / "trainlog" / "tests" / "data"
DATA = ROOT / "practice" / "data"
HALF = ["time_us", "algbw", "busbw", "wrong"]
LOG = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) validation: 1
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           8             2     float     sum      -1    34.65   30.26   52.96       0    34.35   30.52   53.41     N/A
{'loss': nan, 'grad_norm': inf, 'learning_rate': 1e-05, 'epoch': 0.5}
"""


def read_json(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["read", str(path), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("name", "average"),
    [("all_gather", 92.195), ("alltoall", 82.1457), ("reduce_scatter", 89.7046), ("sendrecv", 71.3989)],
)
def test_rows_and_average_are_those_of_the_file(name: str, average: float, capsys: pytest.CaptureFixture[str]) -> None:
    said = read_json(LOGS / f"nccl_{name}.txt", capsys)
    (test,) = said["nccl"]
    assert (test["program"], test["ranks"], test["avg_busbw"], len(test["rows"])) == (f"{name}_perf", 8, average, 15)
    assert (test["ok"], test["finished"], test["error"], test["out_of_bounds"]) == (True, True, None, 0)
    assert said["training"] == []


def test_a_training_run(capsys: pytest.CaptureFixture[str]) -> None:
    said = read_json(DATA / "train_ddp.txt", capsys)
    (run,) = said["training"]
    assert said["nccl"] == []
    assert [step["step"] for step in run["steps"]] == list(range(1, 41))
    assert run["steps"][-1] == {
        "step": 40, "total": 40, "loss": 0.000702, "grad_norm": None, "lr": None, "step_time_s": 0.0017,
        "tflops_per_gpu": None, "tokens_per_s": None, "skipped": None, "nan": False, "extra": {},
    }  # fmt: skip


def test_the_keys_and_what_is_unknown_or_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text(LOG)
    said = read_json(tmp_path / "log", capsys)
    assert list(said) == ["nccl", "training", "failures", "restarts", "ended", "scores", "stacks"]
    (test,), (run,) = said["nccl"], said["training"]
    assert list(test) == [
        "program", "version", "ranks", "rows", "avg_busbw", "out_of_bounds", "ok", "finished", "error",
    ]  # fmt: skip
    (row,) = test["rows"]
    assert list(row) == ["size", "count", "type", "redop", "root", "out_of_place", "in_place"]
    assert list(row["out_of_place"]) == list(row["in_place"]) == HALF
    assert (row["in_place"]["wrong"], test["avg_busbw"], test["ok"], test["version"]) == (None, None, None, None)
    (step,) = run["steps"]
    assert (step["step"], step["loss"], step["grad_norm"], step["nan"], step["tokens_per_s"]) == (
        None, "nan", "inf", True, None,
    )  # fmt: skip


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(LOGS / "nccl_sendrecv.txt")]) == 0
    said = capsys.readouterr().out
    assert "sendrecv_perf 2.19.6 8 ranks" in said
    assert "average bus bandwidth 71.3989 GB/s: OK" in said


def test_a_test_that_failed_before_its_first_row_has_no_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("node-14: Test NCCL failure common.cu:1204 'unhandled cuda error / '\n")
    assert main(["read", str(tmp_path / "log")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "nccl-tests",
        "no row was read: FAILED, not finished (Test NCCL failure common.cu:1204 'unhandled cuda error / ')",
    ]


def test_a_log_without_either_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_bytes(bytes(range(256)) * 100)
    assert main(["read", str(tmp_path / "log")]) == 0
    assert "Nothing was found" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_read_is_reported(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(tmp_path / name)]) == 2
    assert "a4: " in capsys.readouterr().err


def test_a_step_whose_bar_lags_is_reported_once_its_number_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """As the Trainer of transformers 5 wrote it on two H200: the bar is drawn again after each line of a step."""
    reading, told = LogResults(), ResultsPrinter(output.print_line)
    pieces = [
        b"\r  0%|          | 0/200 [00:00<?, ?it/s]\r  0%|          | 1/200 [00:01<03:27,  1.04s/it]\r     \r",
        b"{'loss': '6.139', 'grad_norm': '1.854', 'learning_rate': '4.9e-05', 'epoch': '0.0016'}\n",
        b"\r  2%|\xe2\x96\x8e         | 5/200 [00:01<03:23,  1.04s/it]",
        b"\r  3%|\xe2\x96\x8e         | 6/200 [00:01<00:29,  6.52it/s]\r     \r",
        b"{'loss': '5.817', 'grad_norm': '2.009', 'learning_rate': '4.78e-05', 'epoch': '0.0032'}\n",
    ]
    said = []
    for piece in pieces:
        reading.feed(piece)
        told.more(reading)
        said.append([line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()])
    assert said == [[], ["training:"], [], ["5/200"], []]
    reading.close()
    told.more(reading, has_ended=True)
    told.end(reading)
    assert capsys.readouterr().out.splitlines() == [
        "-  loss 5.817  grad norm 2.009  lr 4.78e-05",  # of step 10 by its epoch, and the bar after it never came
        "hf: 2 steps, 0 restarts, 0 with NaN",
    ]


def test_a_step_that_was_reported_is_not_reported_again(capsys: pytest.CaptureFixture[str]) -> None:
    told, steps = ResultsPrinter(output.print_line), [Step(number, 9, loss=float(number)) for number in range(1, 5)]
    for known, unsettled in ((0, True), (1, False), (2, True), (2, False), (3, False), (3, True), (4, False)):
        run = SimpleNamespace(format="hf", steps=RunSteps(steps[:known]), rewinds=(), is_number_uncertain=unsettled)
        told.more(cast("LogResults", SimpleNamespace(growing_tests=(), training=(run,))))
    assert capsys.readouterr().out.splitlines() == ["training: hf", *(f"{at}/9  loss {at}" for at in range(1, 5))]


def test_standard_input_that_is_closed_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python has it after `<&-`
    assert main(["read", "-"]) == 2
    assert capsys.readouterr().err.startswith("a4: Standard input is closed.")


def test_a_pipe_is_read_while_it_is_written() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "screens", "read", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2, 3):
            process.stdin.write(f"step {number}/3 loss {4 - number}.5\n".encode())
            process.stdin.flush()
            heard = process.stdout.readline()
            if number == 1:
                heard = process.stdout.readline()  # the first line is a title
            assert f"{number}/3  loss {4 - number}.5" in heard.decode()
        process.stdin.close()
        assert "3 steps" in process.stdout.read().decode()
        assert process.wait(30) == 0


def test_what_was_read_is_counted_in_plain_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"step {number}/1200 loss 2.5\n" for number in range(1, 1101)))
    assert main(["read", str(log)]) == 0
    assert capsys.readouterr().out.endswith(": 1,100 steps, 0 restarts, 0 with NaN, ended at step 1,100 of 1,200\n")
    log.write_text("hello\n")
    assert main(["read", str(log)]) == 0
    assert capsys.readouterr().out == (
        "Nothing was found: no table of nccl-tests, no steps of training, no scores, stacks or failures.\n"
    )


def test_a_file_is_read_without_an_event_loop_or_its_30_ms() -> None:
    assert "asyncio" not in loaded("read", str(FIXTURES.parent / "conftest.py"))
