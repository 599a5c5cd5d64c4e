"""The history of runs in an SQLite file that several consoles share, or in memory if there is no file.

A fault of the file never stops a launch: a damaged file is moved aside, `note` has a sentence about the fault, and this
console stores runs in memory until it ends.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import asdict, replace

from console.errors import TRY_AGAIN, Unreadable
from console.folders import file_lock, state_folder
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import OPEN_OUTCOMES, Outcome, RunRecord, merge_alarms
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.metrics.time_spans import decode_recorded_spans
from trainlog import redact_text, redact_tree

LOCK_TIMEOUT = 5.0  # seconds to wait while another console writes


class _DamagedFileError(sqlite3.DatabaseError):
    """Raised when the file is not a valid run database."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


T = TypeVar("T")

_UNWRITTEN = "The history of runs cannot be written to"

SCHEMA_VERSION = 7  # of the tables below; one more for each table or column that is added
_NUMBER_COLUMN = "number INTEGER PRIMARY KEY AUTOINCREMENT"
_SQL_TYPES = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL", "float | None": "REAL", "int | None": "INTEGER"}
_STORED = [name for name in RunRecord.__struct_fields__ if name not in {"number", "now", "looked"}]
_COLUMNS = {name: _SQL_TYPES.get(RunRecord.__annotations__[name], "TEXT") for name in _STORED}
_DIAGNOSIS_COLUMNS = {each: _SQL_TYPES.get(str(kind), "TEXT") for each, kind in Diagnosis.__annotations__.items()}
_RUN_BYTES = 1 << 16  # that a run takes at most in the usual case
_DIAGNOSIS_SECONDS = 30 * 86400.0  # seconds for which a diagnosis is kept: jobs run for weeks at most
_TABLES = (
    "CREATE TABLE runs (" + ", ".join([_NUMBER_COLUMN, *(f'"{name}" {kind}' for name, kind in _COLUMNS.items())]) + ")",
    "CREATE INDEX runs_by_place ON runs (server, namespace, name)",
)
_DIAGNOSES_TABLE = "CREATE TABLE IF NOT EXISTS diagnoses (uid TEXT, kind TEXT, PRIMARY KEY (uid, kind))"
_FINAL_OUTCOMES = tuple(str(each) for each in Outcome if each not in OPEN_OUTCOMES and each is not Outcome.UNKNOWN)


def default_path() -> Path:
    return state_folder() / "history.db"


class RunHistory:
    """The runs stored in one database file; every access runs in a thread, one at a time."""

    def __init__(self, path: Path | None) -> None:
        """`path` is the file; None keeps the runs in memory only."""
        self._path = path
        self.note = ""  # what is wrong with the file, in one sentence; empty: nothing
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        self._writable = True

    async def list_runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        return await self._query_runs("WHERE recipe = ?", recipe) if recipe else await self._query_runs("")

    async def open_runs(self, server: str) -> tuple[RunRecord, ...]:
        """The runs on a cluster that have not ended."""
        asked = f"WHERE server = ? AND outcome IN ({', '.join('?' * len(OPEN_OUTCOMES))})"
        return await self._query_runs(asked, server, *(str(each) for each in OPEN_OUTCOMES))

    async def _query_runs(self, asked: str, *search_text: str) -> tuple[RunRecord, ...]:
        def work(connection: sqlite3.Connection) -> tuple[RunRecord, ...]:
            rows = connection.execute(f"SELECT * FROM runs {asked} ORDER BY launched DESC, number DESC", search_text)
            return tuple(_row_to_run(dict(row)) for row in rows)

        return await self._run_in_thread(work, ())

    async def add_run(self, run: RunRecord) -> RunRecord:
        """Store a launch; returns the record with its number, 0 if the file cannot be written."""
        row = _run_to_row(run)

        def work(connection: sqlite3.Connection) -> int:
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            made = connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", tuple(row.values()))
            return made.lastrowid or 0

        return replace(run, number=await self._run_in_thread(work, 0, writes=True))

    async def check_writes(self) -> str:
        """The reason why a run would not be recorded, found by writing a trial record; empty if it would."""

        def work(connection: sqlite3.Connection) -> None:
            row = ("", "trial", 0.0, " " * _RUN_BYTES)
            connection.execute("INSERT OR REPLACE INTO diagnoses (uid, kind, at, words) VALUES (?, ?, ?, ?)", row)

        def undo(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM diagnoses WHERE kind = 'trial'")

        await self._run_in_thread(work, None, writes=True)
        if not self.note:
            await self._run_in_thread(undo, None, writes=True)
        return self.note

    async def update_run(self, old_run: RunRecord, new_run: RunRecord) -> None:
        """Write the changed columns, but not over an outcome or alarms that another console wrote meanwhile."""
        old = _run_to_row(old_run)
        row = {name: value for name, value in _run_to_row(new_run).items() if value != old[name]}
        if not row:
            return
        ends = {name: row.pop(name) for name in ("outcome", "why", "ended") if name in row}

        def work(connection: sqlite3.Connection) -> None:
            if "alarms" in row:
                asked = connection.execute("SELECT alarms FROM runs WHERE number = ?", (old_run.number,)).fetchone()
                row["alarms"] = _encode_alarms(
                    merge_alarms(_decode_alarms(asked["alarms"]) if asked else (), new_run.alarms)
                )
            if "seen" in row:
                asked = connection.execute("SELECT seen FROM runs WHERE number = ?", (old_run.number,)).fetchone()
                known = decode_recorded_spans(asked["seen"] if asked else "")
                row["seen"] = known.merge(decode_recorded_spans(new_run.seen)).encode()
            for part, only in ((row, ""), (ends, f" AND outcome NOT IN ({', '.join('?' * len(_FINAL_OUTCOMES))})")):
                if part:
                    settings = ", ".join(f'"{name}" = ?' for name in part)
                    given = (*part.values(), old_run.number, *(_FINAL_OUTCOMES if only else ()))
                    connection.execute(f"UPDATE runs SET {settings} WHERE number = ?{only}", given)

        await self._run_in_thread(work, None, writes=True)

    async def delete_runs(self, numbers: Iterable[int]) -> int:
        wanted = tuple(numbers)

        def work(connection: sqlite3.Connection) -> int:
            marks = ", ".join("?" * len(wanted))
            return connection.execute(f"DELETE FROM runs WHERE number IN ({marks})", wanted).rowcount

        return await self._run_in_thread(work, 0, writes=True)

    async def record_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Store the diagnosis unless a later one of its kind is stored for the job; delete old diagnoses."""
        row = _diagnosis_to_row(diagnosis)

        def work(connection: sqlite3.Connection) -> None:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            changes = ", ".join(f"{name} = excluded.{name}" for name in row)
            connection.execute(
                f"INSERT INTO diagnoses ({names}) VALUES ({marks}) "
                f"ON CONFLICT (uid, kind) DO UPDATE SET {changes} WHERE excluded.at > at",
                tuple(row.values()),
            )
            connection.execute("DELETE FROM diagnoses WHERE at < ?", (SERVER_CLOCK.now() - _DIAGNOSIS_SECONDS,))

        await self._run_in_thread(work, None, writes=True)

    async def list_diagnoses(self) -> tuple[Diagnosis, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Diagnosis, ...]:
            found = map(_row_to_diagnosis, connection.execute("SELECT * FROM diagnoses"))
            return tuple(each for each in found if each is not None)

        return await self._run_in_thread(work, ())

    async def close(self) -> None:
        """Close the file for good; later reads return nothing, and later writes are dropped."""
        await asyncio.to_thread(self._close_database, True)

    async def _run_in_thread(self, call: Callable[[sqlite3.Connection], T], default: T, *, writes: bool = False) -> T:
        """The result of `call`; `default` if the file does not exist, or cannot be written and `writes` is set."""
        return await asyncio.to_thread(self._run_locked, call, default, writes)

    def _run_locked(self, call: Callable[[sqlite3.Connection], T], default: T, writes: bool) -> T:
        with self._lock:
            if self._is_closed:  # whoever asked began before the end and comes after it
                return default
            if self._connection is None and not writes and self._path is not None and not self._path.exists():
                folder = next(each for each in self._path.parents if each.exists())
                writable = folder.is_dir() and os.access(folder, os.W_OK)
                self.note = "" if writable else f"No run is kept: {folder} cannot be written."
                return default
            try:
                try:
                    found = self._run_unlocked(call, default, writes)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._close_database()  # found while it was in use: opening moves it aside
                    found = self._run_unlocked(call, default, writes)
                self.note = "" if writes and self.note.startswith(_UNWRITTEN) else self.note
                return found
            except sqlite3.Error as error:
                if writes:
                    self.note = f"{_UNWRITTEN} {self._path} ({error})."
                    return default
                where = self._path or "in memory"
                raise Unreadable(f"The history of runs ({where}) cannot be read: {error}.", TRY_AGAIN) from error

    def _run_unlocked(self, call: Callable[[sqlite3.Connection], T], default: T, writes: bool) -> T:
        if (connection := self._connection) is None:
            connection = self._open_database()
            weakref.finalize(self, connection.close)  # also of a history in a reference cycle
        if writes and not self._writable:
            return default
        with _transaction(connection, writes):
            return call(connection)

    def _open_database(self) -> sqlite3.Connection:
        self._writable = True
        if self._path is None:
            self._connection = self._migrate(_connect(":memory:"))
            return self._connection
        try:
            with file_lock(self._path):  # two consoles that find it damaged must not both move it
                self._path.parent.chmod(0o700)
                self._connection = self._open_file(self._path)
        except (OSError, sqlite3.Error) as error:
            why = f"{self._path} cannot be used ({error})"
            self.note = f"The history of runs is kept only until the console ends: {why}."
            self._connection = self._migrate(_connect(":memory:"))
        return self._connection

    def _open_file(self, path: Path) -> sqlite3.Connection:
        """Open the file; a damaged one is moved aside first, one of a newer version is read-only."""
        try:
            return self._require_undamaged(path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            aside = _move_aside(path)
            self.note = f"The history of runs was damaged; it was moved to {aside}, and a new one was created."
        return self._require_undamaged(path)

    def _require_undamaged(self, path: Path) -> sqlite3.Connection:
        path.touch(mode=0o600)
        path.chmod(0o600)
        connection = _connect(str(path))
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise _DamagedFileError
            if version > SCHEMA_VERSION:
                connection.close()
                self._writable = False
                self.note = f"The history of runs was written by a newer a4: it is shown read-only ({path})."
                return _connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            return self._migrate(connection)
        except sqlite3.DatabaseError:
            connection.close()
            raise

    def _migrate(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Create the tables, and use WAL mode where possible, so that readers do not wait."""
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        with _transaction(connection, True):
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise _DamagedFileError  # a database, but of something else
                for statement in _TABLES:
                    connection.execute(statement)
            connection.execute(_DIAGNOSES_TABLE)
            _add_columns(connection, "runs", _COLUMNS)
            _add_columns(connection, "diagnoses", _DIAGNOSIS_COLUMNS)
            if 0 < version < 3:  # what is stalled has not ended since then
                connection.execute("UPDATE runs SET outcome = 'stopped' WHERE outcome = 'stalled'")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        return connection

    def _close_database(self, for_good: bool = False) -> None:
        with self._lock:  # a thread that still works on the file is waited for
            self._is_closed = self._is_closed or for_good
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def _connect(database: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(database, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=uri)
    connection.row_factory = sqlite3.Row
    return connection


def _add_columns(connection: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> None:
    there = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}
    for name, kind in columns.items():
        if name not in there:
            connection.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {kind}')


@contextmanager
def _transaction(connection: sqlite3.Connection, writes: bool) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # the first failure is the one that counts
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _move_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    number = 1
    while aside.exists():
        aside, number = aside.with_name(f"{aside.name}-{number}"), number + 1
    path.rename(aside)
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
    return aside


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _run_to_row(run: RunRecord) -> dict[str, Any]:
    row = {name: getattr(run, name) for name in _COLUMNS}
    return row | {
        "why": redact_text(run.why),
        "values": _encode_json(run.values),
        "left_out": _encode_json(run.left_out),
        "outcome": str(run.outcome),
        "nan": int(run.nan),
        "alarms": _encode_alarms(run.alarms),
    }


def _row_to_run(row: dict[str, Any]) -> RunRecord:
    """Build a record from a row; columns of newer versions are ignored, invalid values are skipped."""
    known = {name: value for name, value in row.items() if name in _COLUMNS or name == "number"}
    known = {name: value for name, value in known.items() if value is not None}
    outcome = known.get("outcome", "")
    known["outcome"] = Outcome(outcome) if outcome in set(Outcome) else Outcome.UNKNOWN
    known["values"] = _decode_json(known.get("values"), dict)
    known["left_out"] = tuple(_decode_json(known.get("left_out"), list))
    known["nan"] = bool(known.get("nan"))
    known["alarms"] = _decode_alarms(known.get("alarms"))
    return RunRecord(**{"recipe": "", "name": "", "namespace": "", **known})


def _diagnosis_to_row(diagnosis: Diagnosis) -> dict[str, Any]:
    row: dict[str, Any] = redact_tree(msgspec.to_builtins(diagnosis))
    return row | {name: _encode_json(row[name]) for name in ("nodes", "advice")}


def _row_to_diagnosis(row: sqlite3.Row) -> Diagnosis | None:
    """The diagnosis of a row; None if it is of a kind that only newer versions know."""
    if row["kind"] not in set(DiagnosisKind):
        return None
    known = {name: row[name] for name in Diagnosis.__struct_fields__ if row[name] is not None}
    lists = {name: tuple(map(str, _decode_json(row[name], list))) for name in ("nodes", "advice")}
    kind, blames = DiagnosisKind(row["kind"]), bool(row["blames_program"])
    return Diagnosis(**{"at": 0.0, **known, **lists, "kind": kind, "blames_program": blames})


def _encode_alarms(alarms: Iterable[Alarm]) -> str:
    return _encode_json(redact_tree([asdict(each) for each in alarms]))


def _decode_alarms(text: Any) -> tuple[Alarm, ...]:
    found = []
    for each in _decode_json(text, list):
        with suppress(TypeError, ValueError):
            nodes = tuple(each.get("nodes") or ())
            found.append(Alarm(**{**each, "kind": AlarmKind(each["kind"]), "nodes": nodes}))
    return tuple(found)


def _encode_json(value: Any) -> str:
    import json  # 1 ms, for which no command waits that reads no run

    return json.dumps(value, ensure_ascii=False)


def _decode_json(text: Any, kind: type[T]) -> T:
    import json

    try:
        found = json.loads(text or "null")
    except (TypeError, ValueError):
        found = None
    return found if isinstance(found, kind) else kind()
