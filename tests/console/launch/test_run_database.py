"""The memory of runs: kept over consoles, shared by several, and never lost to a damaged file. No cluster."""

import asyncio
import gc
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from console.launch.run_database import SCHEMA_VERSION, RunHistory, default_path
from console.launch.run_record import Outcome, RunRecord
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.time_spans import RecordedSpans, SpanKind, TimeSpan, decode_recorded_spans

RUN = RunRecord(
    "nccl-all-reduce", "anna-nccl", "team", {"gpus": 16, "env": {"NCCL_DEBUG": "INFO", "GONE": None}},
    ("env.HF_TOKEN",), context="prod", server="https://10.0.0.1", chart="0.1.0", launched=1000.0, who="anna",
    uid="u-1", gpus=16, queue="a4",
)  # fmt: skip


def write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True)
    place.write_bytes(content)


def read(place: Path) -> bytes:
    return place.read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "state" / "a4" / "history.db"


@pytest.fixture
async def history(place: Path) -> AsyncIterator[RunHistory]:
    opened = RunHistory(place)
    yield opened
    await opened.close()


async def test_a_run_is_remembered_whole(place: Path) -> None:
    history = RunHistory(place)
    kept = await history.add_run(RUN)
    assert kept == replace(RUN, number=1)
    ended = replace(
        kept, outcome=Outcome.FAILED, why="pod 3 was killed", ended=2000.0, peak_busbw=594.5, loss=2.1, step=9
    )
    await history.update_run(kept, ended)
    await history.close()
    assert await RunHistory(place).list_runs() == (ended,)


ALARM = Alarm(AlarmKind.NAN, "loss is NaN since step 20", 1500.0, "team", "anna-nccl", more="frees 16 GPUs")


async def test_alarms_stay_with_the_run_whichever_console_raised_them(place: Path) -> None:
    first, second = RunHistory(place), RunHistory(place)
    kept = await first.add_run(RUN)
    spike = replace(ALARM, kind=AlarmKind.SPIKE, time=1400.0)
    await first.update_run(
        kept, replace(kept, alarms=(ALARM,), nan=True, nan_from=20, loss=10.582, loss_step=19, step=97)
    )
    await second.update_run(kept, replace(kept, alarms=(spike,)))
    await second.close()
    (run,) = await first.list_runs()
    assert run.alarms == (spike, ALARM)
    assert (run.nan, run.nan_from, run.loss, run.loss_step, run.step) == (True, 20, 10.582, 19, 97)
    await first.close()


async def test_a_memory_of_an_older_version_is_brought_up_to_date(place: Path) -> None:
    """Of a loss that it has nobody knows whether it is of the last step."""
    place.parent.mkdir(parents=True)
    old = sqlite3.connect(place)
    old.execute(
        "CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, recipe TEXT, name TEXT, namespace TEXT,"
        ' "values" TEXT, left_out TEXT, context TEXT, server TEXT, chart TEXT, launched REAL, who TEXT, uid TEXT,'
        " gpus INTEGER, queue TEXT, outcome TEXT, why TEXT, started REAL, ended REAL, peak_busbw REAL,"
        " average_busbw REAL, loss REAL, step INTEGER)"
    )
    old.execute(
        "INSERT INTO runs (recipe, name, namespace, outcome, loss, step) VALUES ('r', 'n', 't', 'succeeded', 2, 9)"
    )
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    history = RunHistory(place)
    (run,) = await history.list_runs()
    assert (run.loss, run.step, run.loss_step, run.nan, run.alarms) == (2.0, 9, None, False, ())
    await history.update_run(run, replace(run, alarms=(ALARM,)))
    await history.close()
    (again,) = await RunHistory(place).list_runs()
    assert again.alarms == (ALARM,)


async def test_what_two_consoles_saw_of_the_time_of_a_run_is_kept_together(place: Path) -> None:
    first, second = RunHistory(place), RunHistory(place)
    kept = await first.add_run(RUN)
    early = RecordedSpans(1000.0, 1010.0, ("n0",), 0, (TimeSpan(1020.0, 1100.0, SpanKind.STEPS, 0, 40),))
    late = RecordedSpans(1000.0, 0.0, (), 1, (TimeSpan(1080.0, 1200.0, SpanKind.STEPS, 30, 90),))
    await first.update_run(kept, replace(kept, seen=early.encode()))
    await second.update_run(kept, replace(kept, seen=late.encode()))
    await second.close()
    (run,) = await first.list_runs()
    assert decode_recorded_spans(run.seen) == RecordedSpans(
        1000.0, 1010.0, ("n0",), 1,
        (TimeSpan(1020.0, 1080.0, SpanKind.STEPS, 0, 30), TimeSpan(1080.0, 1200.0, SpanKind.STEPS, 30, 90)),
    )  # fmt: skip
    await first.close()
    assert decode_recorded_spans("of a newer console") == RecordedSpans()


async def test_a_run_that_an_older_version_called_stalled_was_stopped(place: Path) -> None:
    """By the record of version 2, which knew no first step that was read."""
    history = RunHistory(place)
    kept = await history.add_run(replace(RUN, outcome=Outcome.STOPPED))
    await history.close()
    with closing(sqlite3.connect(place)) as old, old:
        old.execute("UPDATE runs SET outcome = 'stalled'")
        old.execute("ALTER TABLE runs DROP COLUMN nan_by")
        old.execute("ALTER TABLE runs DROP COLUMN seen")
        old.execute("PRAGMA user_version = 2")
    history = RunHistory(place)
    (run,) = await history.list_runs()
    assert (run.outcome, run.nan_by) == (Outcome.STOPPED, None)
    await history.update_run(kept, replace(kept, nan=True, nan_by=230))
    await history.close()
    (again,) = await RunHistory(place).list_runs()
    assert again.nan_words == "NaN since step 230 or earlier"


async def test_the_newest_run_is_first_and_recipes_can_be_asked_for(history: RunHistory) -> None:
    for number, recipe in enumerate(("a", "b", "a")):
        await history.add_run(replace(RUN, recipe=recipe, launched=float(number)))
    assert [run.number for run in await history.list_runs()] == [3, 2, 1]
    assert [run.number for run in await history.list_runs("a")] == [3, 1]


async def test_nobody_else_may_read_it(history: RunHistory, place: Path) -> None:
    await history.add_run(RUN)
    files = [place.parent, *place.parent.iterdir()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o700, 0o600}


async def test_reading_makes_no_file(place: Path) -> None:
    assert await RunHistory(place).list_runs() == ()
    assert await RunHistory(place).open_runs("anywhere") == ()
    assert not place.parent.exists()


async def test_practice_leaves_no_file() -> None:
    history = RunHistory(None)
    await history.add_run(RUN)
    assert len(await history.list_runs()) == 1
    await history.close()


async def test_only_runs_that_may_go_on_are_followed(history: RunHistory) -> None:
    for outcome in Outcome:
        await history.add_run(replace(RUN, outcome=outcome))
    await history.add_run(replace(RUN, server="https://elsewhere"))
    assert {run.outcome for run in await history.open_runs(RUN.server)} == {Outcome.WAITING, Outcome.RUNNING}


async def test_the_first_end_that_is_written_stays(place: Path) -> None:
    one, other = RunHistory(place), RunHistory(place)
    run = await one.add_run(RUN)
    (seen,) = await other.open_runs(RUN.server)
    await one.update_run(run, replace(run, outcome=Outcome.STOPPED, ended=5.0))
    await other.update_run(seen, replace(seen, outcome=Outcome.UNKNOWN, why="it is gone", peak_busbw=1.0))
    (kept,) = await one.list_runs()
    assert (kept.outcome, kept.why, kept.ended, kept.peak_busbw) == (Outcome.STOPPED, "", 5.0, 1.0)
    await one.close()
    await other.close()


async def test_what_was_unknown_may_become_known(history: RunHistory) -> None:
    lost = await history.add_run(replace(RUN, outcome=Outcome.UNKNOWN, why="it is gone"))
    await history.update_run(lost, replace(lost, outcome=Outcome.SUCCEEDED, why=""))
    assert [(run.outcome, run.why) for run in await history.list_runs()] == [(Outcome.SUCCEEDED, "")]


async def test_several_consoles_write_at_once(place: Path) -> None:
    consoles = [RunHistory(place) for _ in range(4)]
    await asyncio.gather(*(console.add_run(RUN) for console in consoles for _ in range(10)))
    assert sorted(run.number for run in await consoles[0].list_runs()) == list(range(1, 41))
    await asyncio.gather(*(console.close() for console in consoles))


@pytest.mark.slow(reason="starts programs of its own")
def test_several_processes_begin_one_file(place: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from console.launch.run_database import RunHistory; "
        "from console.launch.run_record import RunRecord; h = RunHistory(Path(sys.argv[1])); "
        "asyncio.run(h.add_run(RunRecord('r', 'n', 's'))); sys.exit(bool(h.note))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(place)]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(asyncio.run(RunHistory(place).list_runs())) == 3


async def test_runs_are_forgotten(history: RunHistory) -> None:
    for _ in range(3):
        await history.add_run(RUN)
    assert await history.delete_runs([1, 3, 9]) == 2
    assert [run.number for run in await history.list_runs()] == [2]
    assert (await history.add_run(RUN)).number == 4  # numbers are not used again


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
async def test_a_damaged_file_is_moved_aside(place: Path, content: bytes) -> None:
    write(place, content)
    history = RunHistory(place)
    assert await history.list_runs() == ()
    await history.add_run(RUN)
    assert len(await history.list_runs()) == 1
    (aside,) = place.parent.glob("history.db.damaged-*")
    assert read(aside) == content
    assert history.note == f"The history of runs was damaged; it was moved to {aside}, and a new one was created."
    await history.close()


async def test_a_memory_that_is_closed_stays_closed(place: Path) -> None:
    history = RunHistory(place)
    await history.add_run(RUN)
    await history.close()
    assert await history.list_runs() == ()
    await history.add_run(RUN)
    history = RunHistory(place)
    assert len(await history.list_runs()) == 1
    await history.close()


async def test_a_file_damaged_in_the_middle_is_moved_aside(place: Path) -> None:
    history = RunHistory(place)
    await history.add_run(RUN)
    await history.close()
    with place.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    history = RunHistory(place)
    assert await history.list_runs() == ()
    assert "damaged" in history.note
    await history.close()


async def test_somebody_elses_database_is_moved_aside(place: Path) -> None:
    place.parent.mkdir(parents=True)
    with closing(sqlite3.connect(place)) as other, other:
        other.execute("CREATE TABLE shopping (item TEXT)")
    history = RunHistory(place)
    await history.add_run(RUN)
    assert "damaged" in history.note
    assert len(await history.list_runs()) == 1
    await history.close()


async def test_a_newer_file_is_shown_and_not_touched(place: Path) -> None:
    older = RunHistory(place)
    await older.add_run(RUN)
    await older.close()
    connection = sqlite3.connect(place)
    connection.execute("ALTER TABLE runs ADD COLUMN cost REAL")
    connection.execute("UPDATE runs SET outcome = 'teleported'")
    connection.commit()
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    history = RunHistory(place)
    (run,) = await history.list_runs()
    assert (run.name, run.outcome) == ("anna-nccl", Outcome.UNKNOWN)
    assert (await history.add_run(RUN)).number == 0
    assert await history.delete_runs([1]) == 0
    assert len(await history.list_runs()) == 1
    assert history.note.startswith("The history of runs was written by a newer a4: it is shown read-only")
    await history.close()


async def test_where_no_file_can_be_made_this_console_remembers(tmp_path: Path) -> None:
    (tmp_path / "a4").write_text("a file where the folder should be")
    history = RunHistory(tmp_path / "a4" / "history.db")
    await history.add_run(RUN)
    assert len(await history.list_runs()) == 1
    assert history.note.startswith("The history of runs is kept only until the console ends: ")
    await history.close()


async def test_a_full_disk_is_known_before_a_run_is_to_be_kept_and_forgotten_once_there_is_room(
    history: RunHistory, place: Path
) -> None:
    assert await history.check_writes() == ""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, before[1]))  # bytes that a file may have
    try:
        message = await history.check_writes()
        assert message.startswith(f"The history of runs cannot be written to {place} (")
        assert (await history.add_run(replace(RUN, values={"image": "x" * (1 << 16)}))).number == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert await history.check_writes() == ""
    assert (await history.list_runs(), await history.list_diagnoses()) == ((), ())


async def test_a_folder_that_can_hold_nothing_is_named_where_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "a4").touch()
    history = RunHistory(tmp_path / "a4" / "history.db")
    assert await history.list_runs() == ()
    assert history.note == f"No run is kept: {tmp_path / 'a4'} cannot be written."
    assert (await history.check_writes()).startswith("The history of runs is kept only until the console ends: ")
    await history.close()


def test_the_usual_place_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "a4" / "history.db"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unset in ("", "not/absolute"):
        monkeypatch.setenv("XDG_STATE_HOME", unset)
        assert default_path() == tmp_path / "home" / ".local" / "state" / "a4" / "history.db"


async def test_the_file_of_a_history_in_a_circle_is_closed(tmp_path: Path) -> None:
    """Python 3.13 warns of a connection that it closes itself, which fails any test."""
    for number in range(20):
        history = RunHistory(tmp_path / f"{number}.db")
        vars(history)["circle"] = history
        await history.add_run(RUN)
        del history
    gc.collect()
