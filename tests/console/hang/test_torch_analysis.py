"""What PyTorch's own analyser says of a hang.

Hangs of 16 processes with gloo, and what PyTorch 2.15 said of them, were recorded by tests/bench/ranks. No test needs
PyTorch: a package stands in its place where the script in the pod is run.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from console.hang import inspector
from console.hang.inspector import ask_torch_analyser
from rankscope import (
    Call,
    GroupRanks,
    HangReport,
    Operation,
    ProcessGroup,
    RankDump,
    TorchAnalysis,
    build_question,
    describe_analysis,
    format_report,
    read_answer,
    report_to_json,
    run_torch_analyser,
)
from tests.bench.ranks.judge import ANALYSER, Gathered, inspect
from tests.fakes import present

RECORDED = Path(__file__).parents[2] / "fixtures" / "gloo" / "torch-analyser.tar.gz"
TENSORS = '[[[512]],[[512]],["Float"],["Float"]]'
GROUPS = [(ProcessGroup("1", (0, 1)), "TENSOR_PARALLEL")]


def read_member(name: str) -> bytes:
    with tarfile.open(RECORDED) as archive:
        member = present(archive.extractfile(name))
        return member.read()


async def analysed(hang: str, monkeypatch: pytest.MonkeyPatch) -> HangReport:
    monkeypatch.setattr(inspector, "RAS_PAUSE", 0.0)
    gathered = msgspec.json.decode(read_member(f"{hang}-0.json"), type=Gathered)
    return await inspect(gathered, analyse=lambda *_: read_member(f"analyser/{hang}-0.json"))


@pytest.mark.parametrize(
    ("hang", "said"),
    [
        ("data", "rank 3 misses all_reduce #4 of the tensor group, and others in 4 more groups. It names rank 3 too."),
        ("skip", "rank 3 misses all_reduce #7 of the data group, and others in 1 more group. It names rank 3 too."),
        ("order", "rank 3 differs in all_reduce #7 of the data group, and others in 1 more group. "
                  "It names rank 3 too."),
        ("epoch", "rank 3 misses all_reduce #7 of the data group, and others in 4 more groups. "
                  "It names ranks 2-3, 10-11 too."),
        ("dead", "rank 7 has all_reduce #7 of the data group in another state, and others in 3 more groups. "
                 "It knows nothing of rank 3, without a dump."),
    ],
)  # fmt: skip
async def test_it_is_reported_beside_the_verdict(hang: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = await analysed(hang, monkeypatch)
    words = f"PyTorch's own analyser (2.15.0+cu132): {said}"
    assert describe_analysis(report) == words
    lines = format_report(report)
    assert "   ✗ rank" in lines[lines.index(f"── {words}") + 1]
    assert cast("dict[str, Any]", report_to_json(report)["torch_analyser"])["words"] == words
    assert report.analysis is not None
    assert "group 0 default_pg of ranks [0, 1, 2" in report.analysis.log


async def test_its_own_words_are_in_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    report = await analysed("order", monkeypatch)
    assert report.analysis is not None
    assert "Culprit rank 3; Error type: COLLECTIVE_TYPE_MISMATCH" in report.analysis.log
    assert "log" not in cast("dict[str, Any]", report_to_json(report)["torch_analyser"])


def dump(rank: int, calls: int, *, first: int = 1, kinds: Sequence[Call] = (), **more: Any) -> RankDump:
    """Of a rank that has called so many collectives of the tensor group of ranks 0 and 1."""
    several = [*kinds] or [Call("nccl:all_reduce", "512, Float", "train.py:4", TENSORS)]
    places = [at % len(several) for at in range(calls)]
    whole = {"history": {"1": [first, *places]}, **more}
    groups = {"1": GroupRanks("TENSOR_PARALLEL", [0, 1])}
    return RankDump(rank, version="2.10", groups=groups, kinds=several, **whole)


def ask(*dumps: RankDump) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(build_question(dumps)[0]))


def test_it_is_asked_from_the_first_collective_that_all_ranks_know() -> None:
    asked = ask(dump(0, 8), dump(1, 4, first=3))
    assert asked["version"] == "2.10"
    assert asked["kinds"] == [["nccl:all_reduce", json.loads(TENSORS)]]
    (group,) = asked["groups"]
    assert (group["name"], group["desc"], group["ranks"]) == ("1", "TENSOR_PARALLEL", [0, 1])
    assert group["entries"] == {
        "0": {"first": 3, "calls": [0] * 6, "states": {}}, "1": {"first": 3, "calls": [0] * 4, "states": {}},
    }  # fmt: skip


def test_a_collective_that_has_not_ended_is_reported_as_such_with_those_behind_it() -> None:
    told = [Operation("1", 6, "nccl:all_reduce", "started"), Operation("1", 8, "nccl:all_reduce", "scheduled")]
    (group,) = ask(dump(0, 8, operations=told), dump(1, 5))["groups"]
    assert group["entries"]["0"]["states"] == {"6": "started", "7": "started", "8": "scheduled"}


@pytest.mark.parametrize("tensors", ["", "[", '[[["x"]],[],[],[]]', '{"a":1}]}', '[[[1]],[[1]],["F"],["F"],1]'])
def test_what_a_pod_tells_of_tensors_is_passed_on_only_if_it_is_that(tensors: str) -> None:
    kinds = [Call("nccl:all_reduce", tensors=tensors), Call("nccl:broadcast", tensors=TENSORS)]
    asked = ask(dump(0, 8, kinds=kinds), dump(1, 8))
    assert asked["kinds"] == [["nccl:broadcast", json.loads(TENSORS)], ["nccl:all_reduce", json.loads(TENSORS)]]
    assert asked["groups"][0]["entries"]["0"] == {"first": 8, "calls": [0], "states": {}}
    assert asked["groups"][0]["entries"]["1"]["first"] == 8
    assert not build_question([dump(0, 7, kinds=kinds[:1]), dump(1, 7)])[1]


def test_numbers_that_cannot_be_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    far = [Operation("1", -(1 << 60), "nccl:all_reduce", "started")]
    asked = ask(dump(0, 3, first=1 << 60, operations=far), dump(1, 3, first=-(1 << 60)))
    assert asked["groups"][0]["entries"]["1"] == {"first": 1 << 60, "calls": [], "states": {}}
    monkeypatch.setattr("rankscope.torch_analysis.MAX_COLLECTIVES", 40)
    (group,) = ask(dump(0, 500), dump(1, 500))["groups"]
    assert group["entries"]["0"]["first"] == 481, "of many collectives the last ones"


def test_ranks_that_are_not_in_the_group_are_no_finding() -> None:
    found = [{"group": 0, "seq": 4, "op": "nccl:all_reduce", "missing": [7]}, {"group": 9, "seq": 1, "op": "x"},
             {"group": 0, "seq": 5, "op": "nccl:all_reduce", "culprits": {"1": "why", "8": "why"}}]  # fmt: skip
    told = read_answer(json.dumps({"torch": "2.11", "found": found}).encode(), GROUPS)
    assert [(each.seq, each.ranks) for each in told.found] == [(5, (1,))]


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"[]", b'{"found":[{"group":"x"}]}', b'{"torch":"' + b"x" * 5000 + b'"}', b'{"found":[' + b"[" * 9999],
)
async def test_junk_is_named_as_such(said: bytes) -> None:
    async def run(_pod: object, _argv: object, _stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        take(1, said)
        return 0

    pod = cast("Any", type("Pod", (), {"name": "pod-0"})())
    told = present(await ask_torch_analyser(run, pod, [dump(0, 8), dump(1, 7)]))
    assert told.why == "What the pod tells of PyTorch's analyser cannot be parsed"
    assert told.compare([1]) == f"PyTorch's own analyser was not asked: {told.why}."


def test_groups_for_which_it_fails_are_reported() -> None:
    told = TorchAnalysis("2.11.0", asked=3, failed=("x is not a supported operation",))
    assert told.compare(()) == (
        "PyTorch's own analyser (2.11.0) finds no collective that ranks miss or call otherwise. "
        "It failed for 1 of 3 groups: x is not a supported operation."
    )
    told = TorchAnalysis("2.11.0", asked=1, failed=("x is not a supported operation",))
    assert told.compare((3,)) == "PyTorch's own analyser (2.11.0) failed: x is not a supported operation."


# the script in the pod

BUILDER = """
class Collective:
    def __init__(self, seq, missing):
        self.collective_seq_id, self.collective_name, self.missing_ranks = seq, "nccl:all_reduce", missing
        self.mismatch_collectives = None

class Database:
    collectives = []

def build_db(details, args, version):
    assert args.allow_incomplete_ranks and version == "2.10"
    import logging
    last = {dump["rank"]: dump["entries"][-1]["collective_seq_id"] for dump in details.values()}
    logging.getLogger("Flight Recorder").info("last %s", last)
    assert max(last.values()) < 100, "too far"
    told = Database()
    told.collectives = [Collective(max(last.values()), {rank for rank in last if last[rank] < max(last.values())})]
    return told
"""
OPTIONS = """
from argparse import ArgumentParser

class JobConfig:
    def __init__(self):
        self.parser = ArgumentParser()
        self.parser.add_argument("trace_dir", nargs="?")
"""
TYPES = """
from typing import NamedTuple, Optional, Set

class Collective(NamedTuple):
    id: int
    missing_ranks: Optional[Set[int]] = None
"""


def answer_of(folder: Path, files: dict[str, str], asked: bytes) -> dict[str, Any]:
    """What the script prints in a pod whose training's Python has these files as PyTorch, or its sources."""
    for name, text in files.items():
        path = folder / ("sources" if name.startswith("tools/") else "site") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "bin").mkdir()
    python = folder / "bin" / "python3"
    # In the place of "-I": a Python in which that package is installed.
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={folder}/site exec {sys.executable} -c "$@"\n')
    python.chmod(0o755)
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "7" / "cmdline").write_bytes(b"python3\0train.py\0")
    (folder / "proc" / "7" / "environ").write_bytes(f"LOCAL_RANK=0\0PATH={folder}/bin\0".encode())
    env = {"PATH": "/nowhere", "A4_PROC": str(folder / "proc"), "HOME": os.environ.get("HOME", "/"),
           "A4_TORCH_SOURCES": str(folder / "sources")}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-IS", run_torch_analyser.__file__, str(len(ANALYSER)), str(len(ANALYSER + asked))],
        input=ANALYSER + asked + b"the API server leaves it open", env=env, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    return cast("dict[str, Any]", json.loads(done.stdout))


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize("package", ["torch/distributed/flight_recorder", "tools/flight_recorder"])
def test_the_analyser_of_the_trainings_python_is_asked_about_each_group(package: str, tmp_path: Path) -> None:
    files = {"torch/__init__.py": "__version__ = '2.11.0'", f"{package}/components/builder.py": BUILDER,
             f"{package}/components/config_manager.py": OPTIONS, f"{package}/components/types.py": TYPES}  # fmt: skip
    far = [other_group(rank, "2") for rank in (2, 3)]
    asked, groups = build_question([dump(0, 8), dump(1, 7), *far])
    assert len(groups) == 2
    told = answer_of(tmp_path, files, asked)
    assert told["torch"] == "2.11.0"
    assert told["found"] == [{"group": 0, "seq": 8, "op": "nccl:all_reduce", "missing": [1], "culprits": {}}]
    assert told["failed"] == {"1": "too far"}
    assert "last {0: 8, 1: 7}" in told["log"]


def other_group(rank: int, name: str) -> RankDump:
    """Of a rank of another group that is far on."""
    made = dump(rank, 3, first=200)
    return msgspec.structs.replace(
        made, groups={name: GroupRanks("DATA_PARALLEL", [2, 3])}, history={name: made.history["1"]}
    )


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no Python in the pod has PyTorch"),
        ({"torch/__init__.py": ""}, "PyTorch of this image has no flight recorder analyser that tells its findings"),
        (
            {
                "torch/__init__.py": "",
                "tools/flight_recorder/components/builder.py": BUILDER,
                "tools/flight_recorder/components/types.py": TYPES.replace("missing_ranks", "ranks"),
            },
            "PyTorch of this image has no flight recorder analyser that tells its findings",
        ),
        ({"torch/__init__.py": "raise RuntimeError('it is broken')"}, "RuntimeError: it is broken"),
    ],
)
def test_why_it_cannot_be_asked(files: dict[str, str], why: str, tmp_path: Path) -> None:
    assert answer_of(tmp_path, files, build_question([dump(0, 8), dump(1, 7)])[0]) == {"why": why}
