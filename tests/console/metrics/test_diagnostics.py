"""Stacks, GPUs, faults, launcher stages, messages of libnccl and evaluation tables."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from console.metrics.gpu_metrics import Gpu, NvidiaSmiParser, parse_nvidia_smi
from tests.parsing import LauncherStep, StepState, parse_launcher_step
from trainlog import (
    EvalScore,
    Frame,
    GpuFault,
    LmEvalParser,
    LogResults,
    NcclMessage,
    ProcessStacks,
    PySpyParser,
    ThreadStack,
    parse_gpu_fault,
    parse_lm_eval,
    parse_nccl_message,
    parse_pyspy,
)

DATA = Path(__file__).parents[3] / "practice" / "data"
H200 = Path(__file__).parents[2] / "fixtures" / "h200"
STACKS = """\
Process 41: python3 -u train.py --lr 1e-4
Python v3.12.3 (/usr/bin/python3.12)

Thread 0x7F1A2B3C (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2991)
        Arguments:
            tensor: <Tensor at 0x7f>
            group (not: 5)
        Locals:
            work: None
    <listcomp> (train.py:40)
    main (train.py:88)
    0x55f0 (python3.12)
Thread 57 (idle): "pin memory"
    wait (threading.py:355)
Thread 58 (idle)
Process 42: python3 -u train.py
Error: Failed to find python version from target process
"""
TABLE = """\
hf (pretrained=/mnt/ckpt,trust_remote_code=True), gen_kwargs: (None), limit: None, num_fewshot: None, batch_size: 16
|        Tasks        |Version|Filter|n-shot| Metric |   |Value |   |Stderr|
|---------------------|------:|------|-----:|--------|---|-----:|---|-----:|
|ceval-valid          |      2|none  |      |acc     |↑  |0.6850|±  |0.0123|
|                     |       |none  |      |acc_norm|↑  |0.6900|±  |0.0124|
| - ceval-valid_law   |      2|none  |     0|acc     |↑  |0.5000|±  |0.1043|
|wikitext             |      2|none  |     5|word_perplexity|↓|10.5|±|N/A|

|Groups|Version|Filter|n-shot|Metric|   |Value|   |Stderr|
|------|------:|------|------|------|---|----:|---|-----:|
|cmmlu |      1|none  |      |acc   |↑  |nan  |±  |0.0035|
and | after | it
|other |      1|none  |      |acc   |↑  |0.7  |±  |0.0035|
"""


def test_stacks_of_processes() -> None:
    first, second = parse_pyspy(STACKS.encode())
    main, pin, bare = first.threads
    assert (first.pid, first.command, first.python) == (41, "python3 -u train.py --lr 1e-4", "3.12.3")
    assert main == ThreadStack(
        "0x7F1A2B3C", "MainThread", ("active", "gil"),
        (
            Frame("all_reduce", "torch/distributed/distributed_c10d.py", 2991), Frame("<listcomp>", "train.py", 40),
            Frame("main", "train.py", 88), Frame("0x55f0", "python3.12"),
        ),
    )  # fmt: skip
    assert (pin.name, pin.state, pin.frames) == ("pin memory", ("idle",), (Frame("wait", "threading.py", 355),))
    assert (bare.id, bare.name, bare.frames) == ("58", "", ())
    assert second == ProcessStacks(42, "python3 -u train.py", error="Failed to find python version from target process")


def test_a_dump_is_over_after_a_thousand_lines_that_are_none_of_it() -> None:
    """Eight million empty lines behind one would each be looked through with all of its patterns, for seconds."""
    parser = PySpyParser()
    parser.feed(STACKS.encode() + b"\n" * 999)
    assert parser.open
    parser.feed(b"\n" * 100)
    assert not parser.open


def json_dump(*, indent: int | None) -> bytes:
    """Two processes as `py-spy dump --json` of version 0.4.1 prints them, the one with --locals."""
    frame = {
        "name": "Trainer.step", "filename": "/workspace/train.py", "module": None, "short_filename": "train.py",
        "line": 31, "locals": [{"name": "x", "addr": 1, "arg": True, "repr": "3"}], "is_entry": False,
        "is_shim_entry": False,
    }  # fmt: skip
    native = {"name": "ncclKernel", "filename": "libnccl.so", "module": "libnccl.so", "short_filename": None, "line": 0}
    thread = {
        "pid": 41, "thread_id": 139672265362304, "thread_name": "MainThread", "os_thread_id": 410, "active": True,
        "owns_gil": True, "frames": [native, frame], "process_info": None,
    }  # fmt: skip
    waits: dict[str, object] = {
        "thread_name": None,
        "os_thread_id": None,
        "active": False,
        "owns_gil": False,
        "frames": [],
    }
    info = {"pid": 42, "command_line": "python3 -u train.py", "parent": None}
    other = {**thread, **waits, "pid": 42, "process_info": info}
    return json.dumps([thread, {**thread, **waits}, other], indent=indent).encode() + b"\n"


@pytest.mark.parametrize("indent", [2, None])
def test_stacks_in_json(indent: int | None) -> None:
    first, second = parse_pyspy(b"a banner of the shell\n" + json_dump(indent=indent))
    main, idle = first.threads
    assert (first.pid, first.command, second.pid, second.command) == (41, "", 42, "python3 -u train.py")
    frames = (Frame("ncclKernel", "libnccl.so"), Frame("Trainer.step", "train.py", 31))
    assert main == ThreadStack("410", "MainThread", ("active", "gil"), frames)
    assert idle == ThreadStack("0x7F07FBC30B80", "", ("idle",))


def test_what_is_no_dump_in_json_hides_none_behind_it() -> None:
    (process,) = parse_pyspy(b"[\n  {\n]\n[rank0]: hello\n[\n]\n[\n   {\nProcess 7: python\nThread 7 (idle)\n")
    assert (process.pid, len(process.threads)) == (7, 1)


def test_an_error_without_a_process() -> None:
    (failed,) = parse_pyspy(b"Error: Permission Denied: Try running again with elevated permissions\n")
    assert (failed.pid, failed.threads) == (None, ())
    assert failed.error.startswith("Permission Denied")


def test_gpus_of_the_table() -> None:
    gpus = parse_nvidia_smi((H200 / "nvidia_smi.txt").read_bytes())
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert gpus[0] == Gpu(
        0, "NVIDIA H200", utilization=0.0, memory_used=0.0, memory_total=143771.0, temperature=39.0, power=124.0,
        power_limit=700.0, ecc_uncorrected=0, bus="00000000:00:06.0",
    )  # fmt: skip


def test_gpus_of_the_csv() -> None:
    gpus = parse_nvidia_smi((H200 / "nvidia_smi_csv.txt").read_bytes())
    assert [gpu.power for gpu in gpus] == [127.06, 80.69, 79.25, 77.34, 79.32, 79.63, 76.46, 78.06]
    assert (gpus[3].name, gpus[3].temperature, gpus[3].memory_total) == ("NVIDIA H200", 37.0, 143771.0)


def test_the_last_of_repeated_readings_counts() -> None:
    text = b"index, utilization.gpu [%], clocks.sm [MHz], ecc.errors.uncorrected.volatile.total\n"
    parser = NvidiaSmiParser()
    first = parser.feed(text + b"0, 10 %, 1980 MHz, 0\n1, [N/A], [N/A], N/A\n0, 99 %, 1")
    assert [(gpu.index, gpu.utilization, gpu.clock) for gpu in first] == [(0, 10.0, 1980.0), (1, None, None)]
    assert [gpu.utilization for gpu in parser.feed(b"965 MHz, 2\n")] == [99.0]
    assert [(gpu.utilization, gpu.clock, gpu.ecc_uncorrected) for gpu in parser.gpus] == [
        (99.0, 1965.0, 2), (None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[ 123.4] NVRM: Xid (PCI:0000:04:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            GpuFault(79, "0000:04:00", text="GPU has fallen off the bus."),
        ),
        (
            "kernel: NVRM: Xid (PCI:0000:3b:00.0): 31, pid=1234, name=python3, Ch 00000010, MMU Fault",
            GpuFault(31, "0000:3b:00.0", text="Ch 00000010, MMU Fault"),
        ),
        ("NVRM: Xid (0000:03:00): 8, Channel 00000001", GpuFault(8, "0000:03:00", text="Channel 00000001")),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:84:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            GpuFault(20034, "0000:84:00.0", switch=True, text="Fatal, Link 30 LTSSM Fault Up"),
        ),
        ("NVRM: GPU at PCI:0000:04:00: GPU-8f2b", None),
        ("what does Xid 79 mean?", None),
    ],
)
def test_faults(line: str, expected: GpuFault | None) -> None:
    assert parse_gpu_fault(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 3 discovery: run", LauncherStep(3, "discovery", StepState.RUNNING)),
        ("[pod/train-0/main] step 3 discovery: done in 12 s", LauncherStep(3, "discovery", StepState.DONE, seconds=12)),
        ("step 4 data: skip: it is there: /data", LauncherStep(4, "data", StepState.SKIPPED, why="it is there: /data")),
        ("step 5 run: failed with exit code 137", LauncherStep(5, "run", StepState.FAILED, exit_code=137)),
        ("step 5/40 loss 2.3", None),
        ("last step 5 was: run away", None),
    ],
)
def test_steps_of_launchers(line: str, expected: LauncherStep | None) -> None:
    assert parse_launcher_step(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("node-7:21:98 [3] NCCL INFO Connected all rings", NcclMessage("INFO", "Connected all rings", "node-7", 3)),
        (
            "[2026-01-01 00:00:00] node-7:21:98 [3] transport/net_ib.cc:94 NCCL WARN Got async event: port error",
            NcclMessage("WARN", "Got async event: port error", "node-7", 3),
        ),
        ("node-7:21:98 NCCL INFO Bootstrap", NcclMessage("INFO", "Bootstrap", "node-7")),
        ("NCCL version 2.29.2+cuda13.0", None),
        ("set NCCL INFORMATION", None),
    ],
)
def test_messages_of_libnccl(line: str, expected: NcclMessage | None) -> None:
    assert parse_nccl_message(line) == expected


def test_scores() -> None:
    scores = parse_lm_eval(TABLE.encode())
    assert scores[0] == EvalScore("ceval-valid", "acc", 0.685, 0.0123, filter="none", version="2", better="higher")
    assert [(each.task, each.metric, each.depth, each.group) for each in scores] == [
        ("ceval-valid", "acc", 0, False), ("ceval-valid", "acc_norm", 0, False), ("ceval-valid_law", "acc", 1, False),
        ("wikitext", "word_perplexity", 0, False), ("cmmlu", "acc", 0, True),
    ]  # fmt: skip
    assert (scores[3].shots, scores[3].error, scores[3].better) == (5, None, "lower")


def test_groups_of_groups() -> None:
    table = """\
2026-11-21:07:00:00,000 INFO     [eval.py:85] |     Tasks      |Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|----------------|------:|------|-----:|------|---|-----:|---|-----:|
|mmlu            |      2|none  |      |acc   |↑  |0.5000|±  |0.0040|
| - humanities   |      2|none  |      |acc   |↑  |0.4000|±  |0.0070|
|  - formal_logic|      1|none  |     0|acc   |↑  |0.3000|±  |0.0400|
|   - deep       |      1|none  |     0|acc   |↑  |0.2000|±  |0.0400|
| - other        |      2|none  |      |acc   |↑  |0.6000|±  |0.0080|
"""
    assert [(each.task, each.depth) for each in parse_lm_eval(table.encode())] == [
        ("mmlu", 0), ("humanities", 1), ("formal_logic", 2), ("deep", 3), ("other", 1),
    ]  # fmt: skip


def test_dumps_that_do_not_name_their_process_are_distinguished() -> None:
    dump = 'Stack dump for {}\nThread 0x7F1A (active): "MainThread"\n    step (train.py:{})\n\n'
    text = dump.format("rank 0", 4) + dump.format("rank 1", 5) + dump.format("PID 77", 6)
    found = parse_pyspy(text.encode())
    assert [(each.pid, each.threads[0].frames[0].line) for each in found] == [(None, 4), (None, 5), (77, 6)]


def test_scores_of_the_first_versions() -> None:
    text = "|  Task   |Version| Metric |Value |   |Stderr|\n|---------|------:|--------|-----:|---|-----:|\n|hellaswag|      0|acc     |0.4330|±  |0.0049|\n"  # noqa: E501
    (score,) = parse_lm_eval(text.encode())
    assert (score.task, score.metric, score.value, score.error, score.shots) == (
        "hellaswag",
        "acc",
        0.433,
        0.0049,
        None,
    )


def _pieces(data: bytes, cuts: list[int], feed: Callable[[bytes], object]) -> None:
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        feed(data[at:cut])
        at = cut


CUTS = st.lists(st.integers(0, 1500), max_size=12)


@settings(deadline=None)
@given(CUTS)
def test_how_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    stacks, scores, gpus = PySpyParser(), LmEvalParser(), NvidiaSmiParser()
    smi = (H200 / "nvidia_smi.txt").read_bytes()
    _pieces(STACKS.encode(), cuts, stacks.feed)
    _pieces(TABLE.encode(), cuts, scores.feed)
    _pieces(smi, cuts, gpus.feed)
    stacks.close()
    scores.close()
    gpus.close()
    assert stacks.processes == parse_pyspy(STACKS.encode())
    assert repr(scores.scores) == repr(list(parse_lm_eval(TABLE.encode())))
    assert gpus.gpus == parse_nvidia_smi(smi)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([STACKS, TABLE]))
def test_no_bytes_break_them(data: bytes, before: str) -> None:
    whole = before.encode() + data
    assert parse_pyspy(whole) is not None
    assert parse_pyspy(b"[\n" + data + b"\n]") is not None
    assert parse_lm_eval(whole) is not None
    assert parse_nvidia_smi(b"index, power.draw [W]\n" + data) is not None


@settings(deadline=None)
@given(st.text(alphabet="|0123456789NA/%WMiB:.- OnOffXidS(PC),stepruNCCLINFO[]'=\n", max_size=200))
def test_no_text_breaks_them(text: str) -> None:
    parse_nvidia_smi(text.encode())
    for line in text.splitlines():
        parse_gpu_fault("NVRM: Xid (PCI:0000:04:00): " + line)
        parse_launcher_step("step 3 " + line)
        parse_nccl_message(line + " NCCL INFO " + line)


DUMP = 'Process {0}: python\nPython v3.11.9 (/p)\n\nThread {0} (active+gil): "MainThread"\n    run (train.py:4)\n'


@pytest.mark.parametrize("label", ["", "[pod/train-w-0-0-abcde/main] ", "3: "])
def test_dumps_behind_labels_and_errors_between_them(label: str) -> None:
    log = f"== pid 1 ==\n{DUMP.format(1)}== pid 2 ==\nError: Permission Denied\n== pid 3 ==\n{DUMP.format(3)}"
    results = LogResults()
    results.feed("".join(f"{label}{line}\n" for line in log.splitlines()).encode())
    results.close()
    found = [(each.pid, [thread.state for thread in each.threads], each.error) for each in results.stacks]
    assert found == [(1, [("active", "gil")], ""), (2, [], "Permission Denied"), (3, [("active", "gil")], "")]
