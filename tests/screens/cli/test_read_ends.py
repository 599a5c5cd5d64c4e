"""`a4 read`: failures, verdicts for a check, and what never ends or never begins."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from screens.__main__ import main
from screens.cli import output
from trainlog import LogResults, NcclParser, PackedSteps, ResultsPrinter, RunSteps, Step

ROOT = Path(__file__).parents[3]
HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    "     time   algbw   busbw  #wrong\n"
)
ROW = "  1048576  262144  float  sum  -1  34.65   30.26   52.96       0    34.35   30.52   53.41       0\n"
GOOD = HEAD + ROW + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.86 \n"
WATCHDOG = (
    "[rank13]:[E1121 ProcessGroupNCCL.cpp:616] [Rank 13] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=8817, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600042 milliseconds "
    "before timing out.\n"
)
RESTARTED = "".join(f"step {number} loss 2.5\n" for number in [*range(1, 9), *range(6, 12)])
NOTICED = "mpirun noticed that process rank 1 with PID 7 on node node-7 exited on signal 9 (Killed).\n"

MEASURED = """
import re, sys
from pathlib import Path
from screens.__main__ import main
code = main(["read", *sys.argv[1:]])
print(code, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
"""
"""Tells exit code and highest memory in KiB: of this program alone, which the parent's is part of by getrusage."""


def written(text: str | bytes, folder: Path) -> str:
    path = folder / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_failures_restarts_and_the_end_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", written(RESTARTED + WATCHDOG + NOTICED, tmp_path), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    first, second = said["failures"]
    assert {key: first[key] for key in ("kind", "rank", "host", "line", "text", "times")} == {
        "kind": "nccl-timeout", "rank": 13, "host": None, "line": 15, "times": 1,
        "text": "NCCL timeout: ALLREDUCE (SeqNum 8817) ran for 600 s, the limit is 600 s",
    }  # fmt: skip
    assert first["hint"]
    assert (second["kind"], second["rank"], second["host"], second["line"]) == ("mpirun", 1, "node-7", 16)
    assert said["restarts"] == [{"run": 0, "last": 8, "first": 6}]
    assert said["ended"] == "mpirun: rank 1 was ended by SIGKILL."
    assert [step["step"] for step in said["training"][0]["steps"]] == list(range(1, 12))


SCORES = """\
|     Tasks      |Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|----------------|------:|------|-----:|------|---|-----:|---|-----:|
|mmlu            |      2|none  |      |acc   |↑  |0.5000|±  |0.0040|
| - humanities   |      2|none  |     5|acc   |↑  |0.4000|±  |0.0070|
"""
STACKS = """\
Process 41: python3 -u train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 0x7F1A2B3C (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2991)
    main (train.py:88)
"""


@pytest.mark.parametrize("piece", [11, 1 << 20])
def test_scores_and_stacks_among_other_lines(
    piece: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noise = "Metric | of nothing\n[launch.py:347:main] Process 77 exits\nError: no matter\nstep 1 loss 2.5\n"
    data = f"{noise}{SCORES}{noise}{STACKS}{noise}".encode()
    monkeypatch.setattr("trainlog.log_file._READ_BYTES", piece)
    (tmp_path / "log").write_bytes(data)
    assert main(["read", str(tmp_path / "log"), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [(each["task"], each["value"], each["shots"], each["depth"]) for each in said["scores"]] == [
        ("mmlu", 0.5, None, 0), ("humanities", 0.4, 5, 1),
    ]  # fmt: skip
    (process,) = said["stacks"]
    assert (process["pid"], process["command"], process["python"]) == (41, "python3 -u train.py", "3.12.3")
    (thread,) = process["threads"]
    assert (thread["name"], [each["line"] for each in thread["frames"]]) == ("MainThread", [2991, 88])
    assert main(["read", str(tmp_path / "log")]) == 0
    said_in_words = capsys.readouterr().out
    assert "  humanities  acc 0.4 ± 0.007  (5 shots, none)\n" in said_in_words
    assert "process 41: python3 -u train.py\n  MainThread (active, gil)\n    all_reduce (torch" in said_in_words


def test_stacks_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = {"name": "main", "filename": "train.py", "short_filename": "train.py", "line": 88}
    thread = {"pid": 41, "thread_id": 7, "thread_name": "MainThread", "active": True, "frames": [frame]}
    assert main(["read", written(json.dumps([thread], indent=2), tmp_path), "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["stacks"]
    assert (process["pid"], process["threads"][0]["frames"][0]["line"]) == (41, 88)


def test_a_log_that_is_nothing_but_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", written("something\n" + WATCHDOG, tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("failure: line 2: rank 13: NCCL timeout: ALLREDUCE (SeqNum 8817) ran for 600 s")
    assert "Neither" not in said


def test_of_many_failures_the_first_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, GPU has fallen off the bus.\n" for bus in range(30))
    assert main(["read", written(lines, tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 21
    assert said[-1] == "failure: 10 more; --json has all"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("step 1 loss 2.5\n", 0), ("", 0), (GOOD, 0), (GOOD.replace("0 OK", "2 FAILED"), 1), (WATCHDOG, 1),
        (GOOD + WATCHDOG, 1), (HEAD + ROW, 0), (NOTICED, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_check_fails_where_a_test_or_the_job_failed(
    text: str, code: int, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(text, tmp_path)
    assert main(["read", path, *more]) == 0
    assert main(["read", path, "--check", *more]) == code
    assert not capsys.readouterr().err


def test_a_line_without_an_end_is_ended_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainlog.log_file.MAX_LINE_BYTES", 3 << 20)
    path = written(b"step 1 loss 2.5\n" + b"x" * (5 << 20), tmp_path)
    assert main(["read", path]) == 2
    said = capsys.readouterr()
    assert "key-value: 1 step," in said.out
    assert said.err == f"a4: {path} is not a log: 3 MiB without a line break. What was read before that is shown.\n"


@pytest.mark.slow(reason="reads many lines and measures the memory")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_long_run_is_reported_in_little_memory(options: list[str], tmp_path: Path) -> None:
    lines = (f"iter {number}: loss 2.{number % 9973:04}, time 16.{number % 8}2ms, mfu 31.{number % 7}4%\n"
             for number in range(1, 200_001))  # fmt: skip
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, written("".join(lines), tmp_path), *options],
            cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, timeout=100, check=True,
        )  # fmt: skip
    exit_code, peak = map(int, done.stderr.split())
    assert exit_code == 0
    assert peak < 110 << 10  # 55 MiB where this was written; 290 (1,100 as JSON) when all steps were kept as objects
    said = (tmp_path / "out").read_text()
    if options:
        assert [step["step"] for step in json.loads(said)["training"][0]["steps"]] == list(range(1, 200_001))
    else:
        assert said.count("\n") == 200_002


def test_what_is_new_is_reported_without_a_copy_of_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a log that comes in small pieces costs the square of its length."""
    reading, told = LogResults(), ResultsPrinter(output.print_line)
    monkeypatch.setattr(NcclParser, "tests", None)
    steps: list[int] = []
    pieces = RunSteps.chunks

    def counted(self: RunSteps, start: int, stop: int) -> Iterator[PackedSteps | list[Step]]:
        for piece in pieces(self, start, stop):
            steps.append(len(piece))
            yield piece

    monkeypatch.setattr(RunSteps, "chunks", counted)
    for number in range(1, 3001):
        reading.feed(f"step {number} loss 2.5\n".encode())
        told.more(reading)
    assert sum(steps) == 3000


@pytest.mark.slow(reason="reads many lines and measures the memory")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_many_rows_of_nccl_tests_take_little_memory(options: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(ROW.replace("1048576", f"{1 << at}") for at in range(30))
    table = HEAD + rows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.86 \n"
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, written(table * 7000, tmp_path), *options],
            cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, timeout=100, check=True,
        )  # fmt: skip
    exit_code, peak = map(int, done.stderr.split())
    assert exit_code == 0
    assert peak < 90 << 10  # 57 MiB where this was written; 135 when all rows were kept as objects
    assert (tmp_path / "out").read_text().count("53.41") == 210_000


def test_steps_that_are_done_again_are_reported_again(capsys: pytest.CaptureFixture[str]) -> None:
    again = "".join(f"step {number} loss 1.5\n" for number in [*range(1, 9), *range(3, 7), *range(5, 10)])
    reading, told = LogResults(), ResultsPrinter(output.print_line)
    reading.feed("".join(f"step {number} loss 2.5\n" for number in range(1, 8)).encode())
    told.more(reading)
    reading.feed(again.partition("step 2 ")[2].partition("\n")[2].encode())
    told.more(reading)
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert said == [*"1234567", "restarted:", *"3456789"]


def test_a_device_without_lines_is_ended_in_words_and_in_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "/dev/zero"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    exit_code, peak = map(int, done.stderr.splitlines()[-1].split())
    assert exit_code == 2
    assert done.stderr.startswith("a4: /dev/zero is not a log: 64 MiB without a line break.")
    assert peak < 200 << 10


def test_a_pipe_that_nobody_writes_into_is_ended_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainlog.log_file.PIPE_TIMEOUT", 0.05)
    os.mkfifo(tmp_path / "pipe")
    assert main(["read", str(tmp_path / "pipe")]) == 2
    assert capsys.readouterr().err.startswith(f"a4: No data was written to {tmp_path / 'pipe'} for 0.05 s.")


def test_a_pipe_whose_writer_takes_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainlog.log_file.PIPE_TIMEOUT", 0.05)
    os.mkfifo(tmp_path / "pipe")
    keep = os.open(tmp_path / "pipe", os.O_RDWR)
    done = threading.Event()

    def write() -> None:
        done.wait(10)
        os.write(keep, b"step 1 loss 2.5\n")
        os.close(keep)

    writer = threading.Thread(target=write)
    writer.start()

    class Told(io.StringIO):
        def write(self, text: str) -> int:
            if "No data from" in text:
                done.set()
            return super().write(text)

    monkeypatch.setattr("sys.stderr", told := Told())
    assert main(["read", str(tmp_path / "pipe")]) == 0
    writer.join(10)
    said = capsys.readouterr()
    assert "No data from" in told.getvalue()
    assert "key-value: 1 step," in said.out


def test_ctrl_c_while_the_command_line_is_read_ends_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    class Interrupted(list[str]):
        def __getitem__(self, _: Any) -> Any:
            raise KeyboardInterrupt

    assert main(Interrupted(["read", "x"])) == 130
    assert capfd.readouterr().err == ""


def test_ctrl_c_ends_the_reading_of_a_named_pipe_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    argv = [sys.executable, "-m", "screens", "read", str(pipe)]
    # What a shell starts in the background ignores the signal, and so does what it starts: here it does not.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(argv, stderr=subprocess.PIPE, preexec_fn=heeding) as reading:
        with pipe.open("wb") as writer:  # opened once the command reads
            writer.write(b"step 1 loss 2.5\n")
            writer.flush()
            # A signal that comes just before the next read waits for the end of that read: pressed again.
            for _ in range(10):
                reading.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    reading.wait(1)
                    break
            assert reading.returncode == 130
        assert reading.stderr is not None
        assert reading.stderr.read() == b""
