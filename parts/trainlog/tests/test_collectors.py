"""Logs as collectors keep them: what stands in them is what the program printed, for each kind of content."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from trainlog.collector_formats import CollectorUnwrapper
from trainlog.log_results import LogResults

FIXTURES = Path(__file__).parent / "data"
TABLE = (FIXTURES / "nccl_all_gather.txt").read_text()
DICTIONARIES = "".join(
    f"{{'loss': 2.{number}5, 'grad_norm': 0.91, 'learning_rate': 0.0002, 'epoch': 0.{number}}}\n"
    for number in range(1, 9)
)
LEARNED = "".join(
    f"step {number}/40 | loss 2.{number:02} | lr 3.0e-04 | tok/s 1{number}34\n" for number in range(1, 31)
)
MEGATRON = "".join(
    f" [2026-11-21 07:00:0{number}] iteration {number:8}/     200 | consumed samples: {number * 256:12} | elapsed time "
    f"per iteration (ms): 1182.0 | learning rate: 3.0E-05 | global batch size: 256 | lm loss: 2.6{number}E+00 | loss "
    "scale: 1.0 | grad norm: 7.737 | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    for number in range(1, 9)
)
FAILED = (
    'starting "train.py"\tnow\n[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, '
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n"
    "NVRM: Xid (PCI:0000:dc:00): 79, GPU has fallen off the bus.\n"
)
CONTENTS = {"table": TABLE, "dictionaries": DICTIONARIES, "learned": LEARNED, "megatron": MEGATRON, "failed": FAILED}


def stamp(number: int) -> str:
    return f"2026-11-21T07:{number // 60:02}:{number % 60:02}.000000001Z"


def docker(lines: list[str]) -> str:
    said = ({"log": f"{line}\n", "stream": "stdout", "time": stamp(at)} for at, line in enumerate(lines))
    return "".join(f"{json.dumps(each)}\n" for each in said)


def entries(lines: list[str]) -> list[dict[str, object]]:
    resource = {"type": "k8s_container", "labels": {"pod_name": "train-0-0-x7k2p", "container_name": "main"}}
    return [
        {"insertId": f"{at}", "resource": resource, "severity": "INFO", "textPayload": line, "timestamp": stamp(at)}
        for at, line in enumerate(lines)
    ]


def gcloud(lines: list[str]) -> str:
    return json.dumps(entries(lines)[::-1], indent=2) + "\n"


def structured(lines: list[str]) -> str:
    said = ({"jsonPayload": {"message": line}, "receiveTimestamp": stamp(at)} for at, line in enumerate(lines))
    return "".join(f"{json.dumps(each)}\n" for each in said)


def table(lines: list[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["insertId", "resource.labels.pod_name", "textPayload", "timestamp"])
    writer.writerows([f"{at}", "train-0-0-x7k2p", line, stamp(at)] for at, line in list(enumerate(lines))[::-1])
    return out.getvalue()


def ansible(lines: list[str]) -> str:
    said = json.dumps({"changed": True, "stdout": "\n".join(lines), "stdout_lines": lines}, indent=4)
    return f"PLAY [all] ****\n\nTASK [debug] ****\nok: [node-7] => {said}\n\nPLAY RECAP ****\nnode-7 : ok=2\n"


WRAPPED: dict[str, Callable[[list[str]], str]] = {
    "docker": docker,
    "gcloud": gcloud,
    "gcloud lines": lambda lines: "".join(f"{json.dumps(each)}\n" for each in entries(lines)[::-1]),
    "structured": structured,
    "csv": table,
    "journald": lambda lines: "".join(f"{json.dumps({'MESSAGE': line, '_PID': '7'})}\n" for line in lines),
    "ansible": ansible,
    "ansible on one line": lambda lines: f"ok: [node-7] => {json.dumps({'changed': True, 'stdout_lines': lines})}\n",
    "ansible text": lambda lines: 'ok: [node-7] => {\n    "msg": ' + json.dumps("\n".join(lines)) + "\n}\n",
    "list": lambda lines: json.dumps(lines, indent=4),
    "grep -n": lambda lines: "".join(f"{at}:{line}\n" for at, line in enumerate(lines, 4)),
    "grep -nC1": lambda lines: "--\n".join(f"{at}{':' if at % 2 else '-'}{line}\n" for at, line in enumerate(lines, 4)),
    "grep in a file": lambda lines: "".join(f"logs/worker-0.log:{line}\n" for line in lines),
    "grep -Hn": lambda lines: "".join(f"worker-0.log:{at}:{line}\n" for at, line in enumerate(lines, 4)),
    "stern": lambda lines: "".join(f"train-workers-0-0-x7k2p main {line}\n" for line in lines),
    "a mark": lambda lines: "\ufeff" + "".join(f"{line}\n" for line in lines),
}


def read(data: bytes, piece: int = 1 << 20) -> LogResults:
    reading = LogResults()
    for at in range(0, len(data), piece):
        reading.feed(data[at : at + piece])
    reading.close()
    return reading


def content_of(reading: LogResults) -> object:
    return (
        reading.nccl,
        [(run.format, [step._replace(warm_up=False) for step in run.steps]) for run in reading.training],
        [(each.kind, each.rank, each.text) for each in reading.failures],
        set(reading.unreadable),
    )


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("wrapped", WRAPPED)
def test_what_stands_in_it_is_what_the_program_printed(wrapped: str, content: str) -> None:
    text = CONTENTS[content]
    bare = content_of(read(text.encode()))
    data = WRAPPED[wrapped](text.splitlines()).encode()
    assert content_of(read(data)) == bare
    assert content_of(read(data, 999)) == bare


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_with_and_without_its_mark(encoding: str, content: str) -> None:
    bare = content_of(read(CONTENTS[content].encode()))
    data = CONTENTS[content].encode(encoding)
    for piece in (1 << 20, 333):
        assert content_of(read(data, piece)) == bare


def test_files_and_pods_are_distinguished() -> None:
    lines = TABLE.splitlines()
    both = [f"{name}.log:{line}" for line in lines for name in ("a", "b")]
    first, second = read("\n".join(both).encode()).nccl
    assert len(first.rows) == len(second.rows) == 15
    stern = [f"train-{name}-x7k2{name} main {line}" for line in lines for name in ("0", "1")]
    assert [len(test.rows) for test in read("\n".join(stern).encode()).nccl] == [15, 15]


def test_hosts_of_failures_are_those_of_the_records() -> None:
    (_, fault) = read(gcloud(FAILED.splitlines()).encode()).failures
    assert fault.host == "train-0-0-x7k2p"


PLAIN = [
    TABLE, DICTIONARIES, LEARNED, MEGATRON, FAILED,
    "".join(f"{task}: step {number} loss 2.{number}\n" for number in range(9) for task in range(4)),
    "".join(f"12:00:{number:02} step {number} loss 2.{number}\n" for number in range(9)),
    "".join(f"rank-0 step {number} loss 2.{number}\n" for number in range(9)),
    "[rank0]:[titan] step: 1  loss: 2.5\n" * 9, "[\n", "{\n",
    '{"epoch": 1, "loss": 2.5}\n' * 9, "a,b\n1,2\n", "x" * 70_000,
    "/usr/lib/python3/torch/cuda/__init__.py:61: FutureWarning: pynvml is deprecated\n" * 9, "7:one\n", "",
    "\r 1%|#| 1/9 [00:01<00:09, 1.0s/it]\r\r 2%|#| 2/9, x", 'a "b, c\n', "a,\x00b\n",
]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("piece", [3, 1 << 20])
def test_a_plain_log_stays_as_it_is(text: str, piece: int) -> None:
    data, collected = text.encode(), CollectorUnwrapper()
    said = b"".join(collected.feed(data[at : at + piece]) for at in range(0, len(data), piece))
    assert said + collected.close() == data


def test_a_plain_line_is_there_as_soon_as_it_has_come() -> None:
    collected = CollectorUnwrapper()
    assert collected.feed(b"step 1 loss 2.5\n") == b"step 1 loss 2.5\n"
    assert collected.feed(b"step 2 loss") + collected.feed(b" 2.4\n") == b"step 2 loss 2.4\n"


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(sorted(WRAPPED)), st.integers(1, 500))
def test_no_bytes_break_it(data: bytes, wrapped: str, piece: int) -> None:
    whole = WRAPPED[wrapped](TABLE.splitlines()[:6]).encode()[:-20] + data
    read(whole, piece)
