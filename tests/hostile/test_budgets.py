"""Small inputs of pods and buckets that took minutes, gigabytes or the console: each ends in words, in 2 s and 300 MiB.

Each runs in a process of its own, whose memory and time are those that the decoder takes.
"""

import asyncio
import json
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import pytest

from console.checkpoints.completeness import CheckpointState, read_needed_sizes, survey_checkpoints
from console.decoding import decode_apart
from console.errors import NotFound, Unreadable
from rankscope import UnreadableAnswer, find_slow_ranks, judge_dumps, parse_or_explain, parse_polls, probe, read_times
from tests.hostile.test_checkpoints import Lies, header

SECONDS, MEMORY = 2.0, 300 << 20


def polls(ranks: int, took: float = 0.001, count: int = 200) -> bytes:
    lines = [f'{{"version":"2.28.9","form":"json","ranks":{ranks}}}', '{"process":[0,"10.0.0.1",1,0,0,[0]]}']
    lines += [f"[{at / 10},{took!r},{at},[[0,2,[[0,1]]]]]" for at in range(count)]
    return "\n".join(lines).encode()


def nested_key(levels: int) -> bytes:
    """A dict whose key is a tuple of two of the same tuple, and so on: hashing it doubles with each level."""
    return b"\x80\x04}(K\x01" + b"2\x86" * levels + b"K\x01u."


def memoized_key(levels: int) -> bytes:
    made = b"K\x01\x94" + b"".join(b"h" + bytes([at]) + b"\x86\x94" for at in range(levels))
    return b"\x80\x04}(" + made + b"K\x01u."


def read_polls(output: bytes, most_ranks: int = 128) -> str:
    return find_slow_ranks(parse_polls(output, most_ranks)).words[0]


def recorder(ranks: int, operations: int) -> bytes:
    listed = [{"group": "0", "seq": at, "op": "nccl:all_reduce", "state": "scheduled"} for at in range(operations)]
    dump = {"rank": 0, "groups": {"0": {"ranks": list(range(ranks))}}, "operations": listed}
    return json.dumps({"processes": [], "recorder": [dump]}, separators=(",", ":")).encode()


def judge_recorder(output: bytes) -> str:
    answer = parse_or_explain(output)
    if isinstance(answer, str):
        return answer
    found = judge_dumps(answer.recorder)
    return "" if found is None else found.what


def read_dump(data: bytes) -> str:
    """What the script in a pod reads of a file that a rank wrote."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            return str(probe.read_dump(file.name)["groups"])
        except pickle.UnpicklingError as error:
            return str(error)


def shared(levels: int) -> bytes:
    """A dump whose names are lists of the same list twice, and so on: their text doubles with each level."""
    name: object = "x"
    for _ in range(levels):
        name = [name, name]
    return pickle.dumps({"version": name, "pg_config": {"0": {"desc": name, "ranks": "[0, 1]"}}, "entries": []}, 2)


def survey_of(files: dict[str, tuple[int, bytes]]) -> str:
    found = asyncio.run(Lies(files).survey())
    assert all(each.state is CheckpointState.INCOMPLETE and each.problems for each in found.checkpoints)
    assert sum(len(each.problems) for each in found.checkpoints) <= 1000 + len(found.checkpoints)
    return found.checkpoints[0].problems[0]


def flood_of_shards(folders: int) -> dict[str, tuple[int, bytes]]:
    return {f"checkpoint-{at}/model-00001-of-99999.safetensors": (10, header(b"{}")) for at in range(folders)}


TIMES = {"0": [[at, 1000 * at, 10] for at in range(20)]}
TWICE = {"rank": 0, "groups": {"0": {"ranks": [0, 0]}}, "times": TIMES}
INPUTS: dict[str, tuple[Callable[[], str], str]] = {
    "tuples within tuples as a key": (lambda: refused(read_needed_sizes, memoized_key(45)), "It names no files"),
    "the same by duplicates": (lambda: refused(read_needed_sizes, nested_key(45)), "It is damaged"),
    "300 million ranks": (lambda: refused(read_polls, polls(300_000_000)), "cannot be parsed"),
    "more ranks than the pods can have": (lambda: refused(read_polls, polls(9_000_000)), "more processes than the job"),
    "as many, of a job that nobody knows": (lambda: refused(read_polls, polls(9_000_000), 10_000_000), ""),
    "a time of 1e308 s": (lambda: refused(read_polls, polls(16, 1e308)), "cannot be parsed"),
    "a rank that is in its group twice": (
        lambda: read_times({0: json.dumps({"ranks": [TWICE]}).encode()}, {}).words, "cannot be parsed"
    ),
    "4,000 folders that lack 99,998 shards each": (lambda: survey_of(flood_of_shards(4000)), "is missing"),
    "300,000 ranks and 4,000 operations": (lambda: judge_recorder(recorder(300_000, 4000)), ""),
    "tuples within tuples as a key of a dump": (lambda: read_dump(nested_key(45)), "it has a key that is no text"),
    "8 MB of marks in a dump": (lambda: read_dump(pickle.PROTO + b"\x02" + pickle.MARK * (8 << 20)), "of one byte"),
    "empty sets in a dump": (lambda: read_dump(pickle.PROTO + b"\x02" + pickle.EMPTY_SET * (8 << 20)), "no dump has"),
    "lists within lists as names in a dump": (lambda: read_dump(shared(45)), "{'0': {'desc': '', 'ranks': [0, 1]}}"),
    "a path of 3 MB": (
        lambda: refused(lambda: survey_of({"a/" * 1_500_000 + "checkpoint-1/a.pt": (10, b"PK")})), "4,096 characters"
    ),
    "8 MB of empty lines as stacks": (
        lambda: str(parse_or_explain(b'{"processes":[{"pid":1,"dump":"' + b"\\n" * (4 << 20) + b'"}]}')),
        "have more than 300,000 lines",
    ),
    "a load of 1e308 %": (
        lambda: str(parse_or_explain(b'{"processes":[{"pid":1,"cpu":1e308}]}')), "cannot be parsed"
    ),
}  # fmt: skip


def refused(read: Callable[..., object], *given: object) -> str:
    """In which words it is refused, or what it is read as."""
    try:
        return str(read(*given))
    except (Unreadable, UnreadableAnswer) as error:
        return error.message


# Not by getrusage: its peak is that of the parent, which has loaded all tests.
MEASURE = """
import re, sys, time
from pathlib import Path
from tests.hostile.test_budgets import INPUTS
began = time.process_time()
print(INPUTS[sys.argv[1]][0]())
most = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(time.process_time() - began, int(most) * 1024)
"""


@pytest.mark.slow(reason="starts a process for each input, to measure its memory")
@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_asks_for_time_or_memory_ends_in_words(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.returncode, done.stderr[-1000:]
    *words, measured = done.stdout.splitlines()
    seconds, memory = map(float, measured.split())
    assert INPUTS[name][1] in "\n".join(words)
    assert seconds < SECONDS
    assert memory < MEMORY


def fail() -> None:
    raise ZeroDivisionError("a number of the pod")


async def test_whatever_a_decoder_fails_with_is_one_sentence_without_values() -> None:
    with pytest.raises(
        Unreadable, match=r"^What the pod tells cannot be read \(ZeroDivisionError in test_budgets.py:\d+"
    ):
        await decode_apart("What the pod tells", fail)
    with pytest.raises(NotFound, match="as it was"):
        await decode_apart("What the pod tells", lambda: (_ for _ in ()).throw(NotFound("as it was")))
    assert await decode_apart("What the pod tells", lambda: 7) == 7


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_decoder_without_end_is_given_up(cancelled: bool) -> None:
    running = threading.Event()
    ended = threading.Event()

    def loop() -> None:
        running.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    task = asyncio.create_task(decode_apart("What the pod tells", loop, 60.0 if cancelled else 0.1))
    assert await asyncio.to_thread(running.wait, 10)
    if cancelled:
        task.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else Unreadable):
        await task
    assert await asyncio.to_thread(ended.wait, 10)


async def test_of_each_incomplete_checkpoint_something_is_named_however_many_there_are() -> None:
    files = {f"checkpoint-0/rng_state_{at}.pth": (10, b"PK\3\4") for at in range(3000)}
    lies = Lies({**files, "checkpoint-0/model.safetensors": (10, header(b"{}"))})
    empty = [f"checkpoint-{at}" for at in range(1, 2000)]
    found = await survey_checkpoints(lies.files, lies, time.time(), "run", empty)
    assert len(found.checkpoints) == 2000
    assert sum(len(each.problems) for each in found.checkpoints) < 6000  # not millions
    assert all(each.problems for each in found.checkpoints if each.path != "checkpoint-0")
