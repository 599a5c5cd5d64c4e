"""Pods whose RAS, flight recorder or py-spy answers with what takes memory or time, or is no answer: named as such."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.attach.fan_out import MAX_POD_BYTES, run_in_pods
from console.errors import Unreadable
from console.kube.objects.pod import Pod
from console.scheduling.pod_slots import PodSlot
from rankscope import (
    HangReport,
    PodAnswer,
    RankDump,
    UnreadableAnswer,
    find_slow_ranks,
    judge_dumps,
    list_dumps,
    list_processes,
    parse_or_explain,
    parse_polls,
    parse_ras,
    read_samples,
    read_times,
    refuse_foreign_ranks,
)
from tests.console.attach.test_many_pods import ARGV, INPUT, Pods
from trainlog import parse_pyspy

MIB = 1 << 20
MOST = 160 * MIB
"""Bytes of memory that reading an answer of 8 MiB may take."""


@pytest.fixture(autouse=True)
def _flat() -> Iterator[None]:
    """Neither memory nor time is taken beyond a bound."""
    tracemalloc.start()
    try:
        before, begun = tracemalloc.get_traced_memory()[0], time.process_time()
        yield
        assert tracemalloc.get_traced_memory()[1] - before < MOST
        assert time.process_time() - begun < 40
    finally:
        tracemalloc.stop()


def filled(before: bytes, piece: bytes, after: bytes, size: int = MAX_POD_BYTES) -> bytes:
    """An answer of as many bytes as a pod may print, of that piece over and over."""
    return before + piece * ((size - len(before) - len(after)) // len(piece)) + after


PROCESS = b'{"processes":['
DUMP = b'{"processes":[],"recorder":[{"rank":0,"groups":{"g":{"ranks":['
ANSWERS = {
    "junk": b"\xff\xfe\x00" * 1000,
    "escape codes": b"\x1b]0;x\x07\x1b[2J" * 1000,
    "a pickle": b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00trueR.",
    "nested lists": filled(PROCESS, b"[", b""),
    "nested objects": filled(b"", b'{"processes":', b""),
    "processes": filled(PROCESS, b'{"pid":1},', b'{"pid":1}]}'),
    "some more processes than a pod has": PROCESS + b'{"pid":1},' * 64 + b'{"pid":1}]}',
    "launchers": filled(b'{"processes":[],"launchers":[', b'{"program":"a","pid":1},', b'{"program":"a","pid":1}]}'),
    "recorders": filled(b'{"processes":[],"recorder":[', b'{"rank":1},', b'{"rank":1}]}'),
    "ranks of a group": filled(DUMP, b"7,", b"7]}}}]}"),
    "operations": filled(b'{"processes":[],"recorder":[{"rank":0,"operations":[', b'{"group":"","seq":1,"op":""},',
                         b'{"group":"","seq":1,"op":""}]}]}'),
    "history": filled(b'{"processes":[],"recorder":[{"rank":0,"history":{"g":[', b"0,", b"0]}}]}"),
    "kinds": filled(b'{"processes":[],"recorder":[{"rank":0,"kinds":[', b'[""],', b'[""]]}]}'),
    "groups": filled(b'{"processes":[],"recorder":[{"rank":0,"groups":{', b'"g":{},', b'"g":{}}}]}'),
    "a long line of code": json.dumps({"processes": [], "recorder": [{"rank": 0, "operations": [
        {"group": "g", "seq": 1, "op": "x", "frame": "x" * MIB}]}]}).encode(),
    "a huge number": b'{"processes":[{"pid":' + b"9" * 5000 + b"}]}",
    "half a character": b'{"processes":[{"pid":1,"dump":"\\ud800"}]}',
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none_is_named(kind: str) -> None:
    said = parse_or_explain(ANSWERS[kind])
    assert isinstance(said, str)
    assert said.startswith("The answer of the pod ")
    assert len(said) < 200


PLAIN = "Process 1: x\nPython v3.12\nThread 1 (active)\n"
DUMPS = {
    "threads": "Thread 1\n" * (MIB // 18),
    "calls": PLAIN + "  a (b)\n" * (MIB // 16),
    "processes": "Process 1: \n" * 25_000,
    "one line": "x" * 7 * MIB,
    "json": "[\n" + " {\n" * 250_000,
    "nested json": "[" * 4_000_000 + "\n",
}


@pytest.mark.slow(reason="very long answers, whose time is measured")
@pytest.mark.parametrize("kind", DUMPS)
def test_stacks_without_end_are_cut(kind: str) -> None:
    for found in parse_pyspy(DUMPS[kind].encode()):
        assert len(found.threads) <= 4096
        assert all(len(thread.frames) <= 1024 for thread in found.threads)
    assert tracemalloc.get_traced_memory()[1] < MOST / 4, "of half a MiB, but for those of one line"


RAS = {
    "ranges": "Ranks 0" + ", 0-99999" * 40 + " have launched up to operation 5\n",
    "a number of 5,000 digits": "".join(
        f"{words}\n".replace("#", "9" * 5000)
        for words in ("1 2 3 # 5", "# # # # # # RUNNING OK", "Rank 1 has launched up to operation #",
                      "# ranks have launched up to operation #", "  Rank # -- GPU # managed by process # on node x",
                      "  Process # on node x managing GPU #", "Rank # has status DEAD -- GPU 1 managed by process 1 on "
                      "node x", "Ranks #-# have not launched any operations")
    ),
    "ranks": "  Rank 3 -- GPU 0 managed by process 3 on node x\n",
    "blanks": " " * 5000 + "\n",
    "groups": "  0  1  1  1  1  1  RUNNING  OK\n",
    "commas": "Ranks 1" + "," * 399 + " have launched up to operation 5\n",
}  # fmt: skip


@pytest.mark.slow(reason="very long answers, whose time is measured", fast_rows=2)
@pytest.mark.parametrize("kind", RAS)
def test_a_report_of_ras_that_has_no_end_takes_no_more_than_its_size(kind: str) -> None:
    text = RAS[kind] * (MIB // 2 // len(RAS[kind]))
    found = parse_ras("NCCL version 2.28.9\n" + text)
    assert len(found.odd) <= 12_500
    assert tracemalloc.get_traced_memory()[1] < MOST / 4
    assert len(found.words) < 2000


@pytest.mark.slow(reason="very long answers, whose time is measured")
@pytest.mark.parametrize(
    "said",
    [
        filled(b'{"version":"2"}\n', b"[0,0,0,[]]\n", b""),
        filled(b'{"version":"2"}\n[0,0,0,[[0,1,[', b"[1,1],", b"[1,1]]]]]\n"),
        filled(b"", b'{"process":[1,"",1,1,1]}\n', b""),
        filled(b"", b"[", b""),
        filled(b"", b"\n", b"\xff"),
        b'[0,0,0,[[0,1,[[' + b"9" * 6000 + b",1]]]]]\n",
    ],
    ids=["answers", "late", "processes", "nested", "lines", "number"],
)  # fmt: skip
def test_polls_of_nccl_without_end_are_named(said: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="the pod tells of NCCL"):
        find_slow_ranks(parse_polls(said))


@pytest.mark.parametrize(
    "said",
    [
        filled(b'{"ranks":[{"rank":0,"times":{"g":[', b"[0,0,0],", b"[0,0,0]]}}]}"),
        filled(b'{"ranks":[', b'{"rank":0},', b'{"rank":0}]}'),
        filled(b'{"ranks":[],"links":[', b'["",0,0],', b'["",0,0]]}'),
        filled(b'{"ranks":', b"[", b""),
        b'{"ranks":[{"rank":' + b"9" * 6000 + b"}]}",
        b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00trueR.",
    ],
    ids=["times", "ranks", "links", "nested", "number", "pickle"],
)
def test_times_and_samples_without_end_are_named(said: bytes) -> None:
    report = read_times({0: said}, {})
    assert "1 pods could not be asked: What the pod tells of times" in report.words
    samples, why = read_samples({0: said.replace(b'"times"', b'"stacks"').replace(b"[0,0,0]", b'[1,"a"]')})
    assert samples == []
    assert "What py-spy told in the pod" in why


def frames(number: int, data: bytes) -> bytes:
    pieces = [data[at : at + 32768] for at in range(0, len(data), 32768)]
    return b"".join(b"%d 1 %d\n%s" % (number, len(piece), piece) for piece in pieces) + b"%d 0 2\n0 " % number


async def answers_through(tmp_path: Path, output: Callable[[], Iterator[bytes]]) -> Any:
    """What six pods answer where the first, the gateway, prints that; the others say why not by themselves."""
    pods = Pods(tmp_path, 6)

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        take(2, b"\n")
        if b"a4-gateway" not in stdin:
            raise Unreadable("not asked")
        for piece in output():
            take(1, piece)
        return 0

    return await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)


async def test_a_gateway_answers_for_others_no_more_than_they_could_themselves(tmp_path: Path) -> None:
    def output() -> Iterator[bytes]:
        yield b"a4-gateway\n" + frames(1, b"fine")
        while True:
            yield b"2 1 32768\n" + bytes(32768)

    answers = await answers_through(tmp_path, output)
    assert answers.by_pod[1] == b"fine"
    assert [str(answers.by_pod[number]).partition(".")[0] for number in (0, 2, 3, 4, 5)] == ["not asked"] * 5
    assert "cannot be parsed" in answers.gateway_error


@pytest.mark.parametrize("kind", ["processes", "ranks of a group", "nested lists", "a pickle", "a huge number"])
async def test_what_a_gateway_says_of_others_is_read_as_their_own(kind: str, tmp_path: Path) -> None:
    data = ANSWERS[kind][: 7 * MIB]

    def output() -> Iterator[bytes]:
        yield b"a4-gateway\n"
        for number in range(6):
            yield frames(number, b'{"processes":[]}' if number == 4 else data)

    pods = Pods(tmp_path / "ranks", 6)
    answers = await answers_through(tmp_path / "pods", output)
    told = [(rank, parse_or_explain(answers.by_pod[rank.number])) for rank in pods.ranks]
    traces, processes = list_processes(told)
    assert [bool(each.failure) for each in traces] == [True] * 4 + [False, True]
    assert processes == []
    assert judge_dumps(list_dumps(told)) is None


def answers_of(*told: Sequence[int], gpus: int = 8) -> list[tuple[PodSlot, PodAnswer | str]]:
    """Pods whose recorders tell of these ranks."""
    return [
        (PodSlot(number, "workload", 0, number, gpus), PodAnswer([], recorder=[RankDump(each) for each in ranks]))
        for number, ranks in enumerate(told)
    ]


HOME = [range(8 * number, 8 * number + 8) for number in range(8)]


@pytest.mark.parametrize(
    ("told", "refused"),
    [
        ([*HOME[:3], [*HOME[3], 41], *HOME[4:]], {3: "pod 3 answered for rank 41, which is not its own"}),
        ([*HOME[:3], HOME[5], *HOME[4:]], {3: "pod 3 answered for ranks 40-47, which are not its own"}),
        ([HOME[0], [*HOME[1], 3]], {1: "pod 1 answered for rank 3, which is not its own"}),
        ([[*HOME[0], 41]], {0: "pod 0 answered for rank 41, which is not its own"}),
        ([HOME[0], [], [41]], {2: "pod 2 answered for rank 41, which is not its own"}),
        ([HOME[0], HOME[1][:7], HOME[2]], {}),  # one has lost a rank
        ([[0, 1], [2, 3], [4, 5], [6, 7, 0]], {3: "pod 3 answered for rank 0, which is not its own"}),
        ([HOME[2], HOME[0], HOME[1]], {}),  # numbered as they have met
        ([HOME[2], HOME[0], HOME[1], HOME[1]], {2: "pod 2 answered for ranks 8-15, which are not its own",
                                                3: "pod 3 answered for ranks 8-15, which are not its own"}),
        ([range(number, 32, 4) for number in range(4)], {}),  # as mpirun numbers them with --map-by node
    ],
)  # fmt: skip
def test_a_pod_that_answers_for_the_ranks_of_others_is_named_and_not_believed(
    told: list[Sequence[int]], refused: dict[int, str]
) -> None:
    answers = refuse_foreign_ranks(answers_of(*told))
    assert {rank.number: answer for rank, answer in answers if isinstance(answer, str)} == refused
    dumps = {each.rank for each in list_dumps(answers)}
    assert dumps == {each for number, ranks in enumerate(told) if number not in refused for each in ranks}
    traces, processes = list_processes(answers)
    said = " ".join(HangReport("job", tuple(traces), tuple(processes)).verdict)
    assert ("cannot be believed" in said, "could not be asked" in said) == (bool(refused), False)


async def test_a_group_of_many_ranks_is_judged_in_time_that_grows_with_its_size() -> None:
    ranks = ",".join(map(str, range(20_000)))
    operations = ",".join(f'{{"group":"g","seq":{at},"op":"nccl:x"}}' for at in range(3000))
    group = f'"groups":{{"g":{{"ranks":[{ranks}]}}}}'
    said = f'{{"processes":[],"recorder":[{{"rank":0,{group},"operations":[{operations}]}}]}}'
    answer = parse_or_explain(said.encode())
    assert not isinstance(answer, str)
    begun = time.process_time()
    assert judge_dumps(answer.recorder) is not None
    assert time.process_time() - begun < 4, "half a second or one; ranks times operations are many"
