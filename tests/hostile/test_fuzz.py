"""The fuzzer itself: it finds faults, writes them down and can repeat itself; and each target is run for a moment."""

import json
import random
import time
from pathlib import Path

import pytest

from console.errors import ProgramFailed, Unreadable
from console.kube.exec import exit_code
from console.kube.objects.meta import Condition, label_int
from console.kube.objects.workload import Workload
from console.scheduling.kueue_messages import read_message
from kueue_rules import Requirement
from tests.fuzz.__main__ import fuzz
from tests.fuzz.inputs import changed, documents_of
from tests.fuzz.targets import TARGETS, Target, run


@pytest.mark.parametrize("name", TARGETS)
def test_recordings_and_some_inputs_like_them_end_in_an_answer(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        run(target, seed)
    source, documents = random.Random(name), documents_of(target.seeds)
    for _ in range(40):
        run(target, changed(source, target.seeds, documents, target.grammar))


@pytest.mark.parametrize("joint", [",", "."])
def test_numbers_that_are_joined_by_what_stands_in_a_number_are_read_at_once(joint: str) -> None:
    """One such line of a pod stopped every console that read it for seconds, or for ever."""
    joined = "".join(f"{joint}647" for _ in range(60))
    line = f"iter 10: loss 6.2647{joined}, time 20.16ms, mfu -100.00%\n"
    began = time.process_time()
    run(TARGETS["logs"], (line * 4 + line.replace("time", "!")).encode())
    assert time.process_time() - began < 2


def test_what_is_no_integer_of_64_bits_is_no_number() -> None:
    """Python raises ValueError where it has more than 4,300 digits."""
    long = "9" * 5000
    assert label_int(long, -1) == -1
    assert not any(Requirement("key", operator, ("1",)).matches({"key": long}) for operator in ("Gt", "Lt"))
    texts = (f"quota for nvidia.com/gpu in flavor a4, {long} more needed", f"allows to fit only {long} out of 9 pods")
    for text in (f"insufficient unused {texts[0]}", texts[1]):
        waiting = Workload("default", "job", conditions=(Condition("QuotaReserved", "False", message=text),))
        assert (read_message(waiting).more_gpus, read_message(waiting).fits) == (0, -1)
    for cause in ({"reason": "ExitCode", "message": long}, {"reason": "Other", "message": f"exit code {long}"}):
        with pytest.raises(ProgramFailed):
            exit_code(json.dumps({"status": "Failure", "details": {"causes": [cause]}}).encode(), "run it")


def test_a_seed_gives_the_same_inputs_again() -> None:
    seeds = [b'{"a": [1, {"b": "c"}]}', b"plain"]
    first, second = (
        [changed(source, seeds, documents_of(seeds)) for _ in range(200)]
        for source in (random.Random(7), random.Random(7))
    )
    assert first == second
    assert len(set(first)) > 100


def test_what_fails_is_written_down_and_our_own_errors_are_answers(tmp_path: Path) -> None:
    def read(data: bytes) -> None:
        if data.count(b"a") > 2:
            raise IndexError
        raise Unreadable("as every input is")

    runs, good = fuzz("aaa", Target(read, [b"aa"]), 60, 1, tmp_path)
    assert not good
    assert runs > 0
    (place,) = tmp_path.iterdir()
    assert place.read_bytes().count(b"a") > 2
