"""What one console found of a job every console tells, until its processes start anew or make steps."""

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from console.kube.snapshot import Fleet
from console.launch.run_database import RunHistory
from console.launch.run_record import RunRecord
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.diagnosis import Diagnoses, Diagnosis, DiagnosisKind, diagnose_slow_ranks
from rankscope import ASK_RECORDERS, LateRank, SlowReport, format_share
from tests.fakes import fleet_of, present
from tests.screens.scene import jobset, rank

JOB = jobset("train", 2)
NOW = time.time()
HANG = Diagnosis(JOB.uid, DiagnosisKind.HANG, NOW, "Rank 9 is stopped", nodes=("n1",), advice=("Look at its node.",))
SLOW = Diagnosis(
    JOB.uid, DiagnosisKind.SLOW, NOW, "Rank 9: the others wait for it", "waits for rank 9", ("n1",), blames_program=True
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def fleet_started(at: float) -> Fleet:
    pods = [rank(JOB, each, "n0") for each in range(2)]
    begun = [
        structs.replace(pod, containers=(structs.replace(pod.containers[0], started=at - each),))
        for each, pod in enumerate(pods)
    ]
    return fleet_of(JOB, *begun)


async def test_what_one_console_found_another_tells(place: Path) -> None:
    one, other = RunHistory(place), RunHistory(place)
    first, second = Diagnoses(lambda: one), Diagnoses(lambda: other)
    await second.refresh()
    assert second.find(JOB.uid, DiagnosisKind.HANG) is None
    await first.record(HANG)
    await first.record(SLOW)
    await second.refresh()
    assert second.find(JOB.uid, DiagnosisKind.HANG) == HANG
    assert second.find(JOB.uid, DiagnosisKind.SLOW) == SLOW
    later = structs.replace(SLOW, at=NOW + 1, words="")
    await second.record(later)
    await first.record(structs.replace(SLOW, at=NOW - 5))
    await first.refresh()
    assert first.find(JOB.uid, DiagnosisKind.SLOW) == later, "an older one does not take the place of a later one"
    for each in (one, other):
        await each.close()


async def test_a_hang_is_reported_until_the_next_step_and_both_until_the_processes_start_anew() -> None:
    memory = RunHistory(None)
    diagnoses = Diagnoses(lambda: memory)
    await diagnoses.record(HANG)
    await diagnoses.record(SLOW)
    runs = fleet_started(NOW - 600)
    assert diagnoses.find_hang(JOB, runs, NOW - 60) == HANG
    assert diagnoses.find_hang(JOB, runs, NOW + 1) is None, "it has made a step since"
    assert diagnoses.find_slow_rank(JOB, runs) == SLOW
    again = fleet_started(NOW + 20)
    assert (diagnoses.find_hang(JOB, again, 0.0), diagnoses.find_slow_rank(JOB, again)) == (None, None)
    assert diagnoses.find_slow_rank(structs.replace(JOB, uid="another"), runs) is None
    await diagnoses.record(structs.replace(SLOW, at=NOW + 5, words=""))
    assert diagnoses.find_slow_rank(JOB, runs) is None, "none was slow when it was measured again"
    await memory.close()


async def test_the_file_keeps_no_secret_that_a_pod_printed(place: Path) -> None:
    words = "The loader raised: api_key=pumpernickel"
    history = RunHistory(place)
    await Diagnoses(lambda: history).record(structs.replace(HANG, words=words, short=words, advice=(words,)))
    run = await history.add_run(RunRecord("r", "n", "d", why=words, alarms=(Alarm(AlarmKind.FAILED, words, NOW),)))
    assert (await history.list_diagnoses())[0].advice == ("The loader raised: api_key=‹secret›",)
    assert run.number
    assert not [each.name for each in place.parent.iterdir() if b"pumpernickel" in each.read_bytes()]


async def test_only_what_a_month_may_need_is_kept(place: Path) -> None:
    history = RunHistory(place)
    await history.record_diagnosis(structs.replace(HANG, uid="old", at=NOW - 40 * 86400))
    await history.record_diagnosis(HANG)
    assert await history.list_diagnoses() == (HANG,)
    await history.close()


async def test_a_file_without_a_column_that_was_added_later_is_read(place: Path) -> None:
    history = RunHistory(place)
    await history.record_diagnosis(HANG)
    await history.close()
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("ALTER TABLE diagnoses DROP COLUMN short")
    again = RunHistory(place)
    assert await again.list_diagnoses() == (structs.replace(HANG, short=""),)
    await again.close()


async def test_a_kind_of_a_newer_version_is_passed_over(place: Path) -> None:
    history = RunHistory(place)
    await history.record_diagnosis(HANG)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(
            "INSERT INTO diagnoses SELECT uid, 'memory', at, words, short, nodes, 0, advice, 0 FROM diagnoses"
        )
    assert await history.list_diagnoses() == (HANG,)
    await history.close()


def late(cause: str, node: str, share: float) -> LateRank:
    return LateRank(9, "10.0.0.2", 1202, 1, share, share - 0.01, share + 0.01, slow=True, cause=cause, node=node)


def measured(*late: LateRank, **facts: Any) -> SlowReport:
    return replace(SlowReport("train", "2.28.9", "json", 16, 900, 10.0, 90, late, bound=0.01, at=NOW), **facts)


@pytest.mark.parametrize(
    ("slow", "nodes", "program"),
    [
        ((late("host", "n1", 0.08),), ("n1",), False),
        ((late("host", "n1", 0.08), late("data", "n2", 0.07)), ("n1",), False),
        ((late("data", "n2", 0.07),), ("n2",), True),
    ],
)
def test_a_slow_rank_names_its_node_unless_its_data_are_slow(
    slow: tuple[LateRank, ...], nodes: tuple[str, ...], program: bool
) -> None:
    (found,) = diagnose_slow_ranks(measured(*slow), JOB.uid)
    assert (found.kind, found.nodes, found.blames_program) == (DiagnosisKind.SLOW, nodes, program)
    assert found.words.startswith(
        f"Rank 9 (GPU 1) on {slow[0].node} costs at most about {format_share(slow[0].high)} of each step ("
    )
    assert found.words.endswith("; 1 more rank is slow") is (len(slow) == 2)
    assert found.short == f"rank 9 costs at most about {format_share(slow[0].high)} of each step ({slow[0].cause})"
    assert found.advice


@pytest.mark.parametrize("where", ["", "python collector"])
def test_who_only_launches_later_is_reported_where_py_spy_confirms_it_and_blames_no_node(where: str) -> None:
    suspect = replace(late("not known", "n1", 0.08), slow=False, suspect=True, where=where)
    (found,) = diagnose_slow_ranks(measured(suspect), JOB.uid)
    assert (found.kind, found.nodes) == (DiagnosisKind.LATE, ())
    assert found.words == (
        "Rank 9 (GPU 1) on n1 costs at most about 9 % of each step (host: python collector)" if where else ""
    )
    assert found.short == ("rank 9 costs at most about 9 % of each step (host: python collector)" if where else "")
    assert found.advice == ((ASK_RECORDERS.replace("JOB", "train"),) if where else ())


def test_what_rules_out_slow_ranks_and_what_late_ones_only() -> None:
    assert diagnose_slow_ranks(SlowReport("train", problem="No verdict: NCCL did not answer."), JOB.uid) == ()
    (found,) = diagnose_slow_ranks(measured(), JOB.uid)
    assert (found.kind, found.words) == (DiagnosisKind.LATE, "")
    kinds = [each.kind for each in diagnose_slow_ranks(measured(timed="All ranks told"), JOB.uid)]
    assert kinds == [DiagnosisKind.SLOW, DiagnosisKind.LATE], "the recorders tell of slow GPUs too"


async def test_a_late_rank_is_reported_unless_a_slow_one_was_measured() -> None:
    memory = RunHistory(None)
    diagnoses, runs = Diagnoses(lambda: memory), fleet_started(NOW - 600)
    suspicion = Diagnosis(JOB.uid, DiagnosisKind.LATE, NOW, "Rank 3 launches later")
    await diagnoses.record(suspicion)
    assert diagnoses.find_slow_rank(JOB, runs) == suspicion
    await diagnoses.record(structs.replace(SLOW, at=NOW - 60))
    found = present(diagnoses.find_slow_rank(JOB, runs))
    assert found.kind is DiagnosisKind.SLOW, "what NCCL alone tells rules it out no more"
    await diagnoses.record(structs.replace(SLOW, at=NOW - 50, words=""))
    assert diagnoses.find_slow_rank(JOB, runs) == suspicion, "which is of after that"
    await diagnoses.record(structs.replace(SLOW, at=NOW + 1, words=""))
    assert diagnoses.find_slow_rank(JOB, runs) is None
    await memory.close()
