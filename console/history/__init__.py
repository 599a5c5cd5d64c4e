"""The memory of runs: one SQLite file that any number of consoles may use at once, or none at all for practice.

Nothing of this ever stops a launch: what is wrong with the file is a sentence in `note`, and this console then
remembers until it ends.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from console.history.database import Database
from console.models.alarm import Alarm, AlarmKind
from console.models.run import OPEN, Outcome, RunRecord, merged

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

T = TypeVar("T")

VERSION = 2
"""Of the tables below."""
_MIGRATIONS = {
    1: (
        'ALTER TABLE runs ADD COLUMN "loss_step" INTEGER',
        'ALTER TABLE runs ADD COLUMN "nan" INTEGER',
        'ALTER TABLE runs ADD COLUMN "nan_from" INTEGER',
        'ALTER TABLE runs ADD COLUMN "alarms" TEXT',
    ),
}
"""Statements that make of a version the next one."""
_NUMBER = "number INTEGER PRIMARY KEY AUTOINCREMENT"
_TYPES = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL", "float | None": "REAL", "int | None": "INTEGER"}
_COLUMNS = {each.name: _TYPES.get(str(each.type), "TEXT") for each in fields(RunRecord) if each.name != "number"}
_TABLES = (
    "CREATE TABLE runs (" + ", ".join([_NUMBER, *(f'"{name}" {kind}' for name, kind in _COLUMNS.items())]) + ")",
    "CREATE INDEX runs_by_place ON runs (server, namespace, name)",
)
_ENDED = tuple(str(each) for each in Outcome if each not in OPEN and each is not Outcome.UNKNOWN)


def usual_place() -> Path:
    """Where runs are remembered: in the folder for state of the XDG rules."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return home / "a4" / "history.db"


class History:
    """Runs, newest first."""

    def __init__(self, place: Path | None) -> None:
        """`place` is the file; None: nothing is kept beyond this object."""
        self._database = Database(place, _TABLES, VERSION, _MIGRATIONS)

    @property
    def note(self) -> str:
        """What is wrong with the file, in one sentence; empty: nothing."""
        return self._database.note

    async def runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        """All runs, or those of a recipe."""

        def work(connection: sqlite3.Connection) -> tuple[RunRecord, ...]:
            where, wanted = (" WHERE recipe = ?", (recipe,)) if recipe else ("", ())
            rows = connection.execute(f"SELECT * FROM runs{where} ORDER BY launched DESC, number DESC", wanted)
            return tuple(_record(dict(row)) for row in rows)

        return await self._database.do(work, ())

    async def open_runs(self, server: str) -> tuple[RunRecord, ...]:
        """Runs on that cluster of which something may still become."""
        every = ", ".join("?" * len(OPEN))

        def work(connection: sqlite3.Connection) -> tuple[RunRecord, ...]:
            asked = f"SELECT * FROM runs WHERE server = ? AND outcome IN ({every})"
            rows = connection.execute(asked, (server, *(str(each) for each in OPEN)))
            return tuple(_record(dict(row)) for row in rows)

        return await self._database.do(work, ())

    async def add(self, run: RunRecord) -> RunRecord:
        """Remember a launch; the record with its number, 0 when the file takes none."""
        row = _row(run)

        def work(connection: sqlite3.Connection) -> int:
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            made = connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", tuple(row.values()))
            return made.lastrowid or 0

        return replace(run, number=await self._database.do(work, 0, writes=True))

    async def change(self, before: RunRecord, after: RunRecord) -> None:
        """Write what differs; an end that another console has written meanwhile stays as it is, and its alarms too."""
        old = _row(before)
        row = {name: value for name, value in _row(after).items() if value != old[name]}
        if not row:
            return
        ends = {name: row.pop(name) for name in ("outcome", "why", "ended") if name in row}

        def work(connection: sqlite3.Connection) -> None:
            if "alarms" in row:
                asked = connection.execute("SELECT alarms FROM runs WHERE number = ?", (before.number,)).fetchone()
                row["alarms"] = _alarms_text(merged(_alarms(asked["alarms"]) if asked else (), after.alarms))
            for part, only in ((row, ""), (ends, f" AND outcome NOT IN ({', '.join('?' * len(_ENDED))})")):
                if part:
                    settings = ", ".join(f'"{name}" = ?' for name in part)
                    given = (*part.values(), before.number, *(_ENDED if only else ()))
                    connection.execute(f"UPDATE runs SET {settings} WHERE number = ?{only}", given)

        await self._database.do(work, None, writes=True)

    async def forget(self, numbers: Iterable[int]) -> int:
        """Drop these runs; how many went."""
        wanted = tuple(numbers)

        def work(connection: sqlite3.Connection) -> int:
            marks = ", ".join("?" * len(wanted))
            return connection.execute(f"DELETE FROM runs WHERE number IN ({marks})", wanted).rowcount

        return await self._database.do(work, 0, writes=True)

    async def close(self) -> None:
        """Let go of the file, for good: what is asked for later is not there, and nothing more is written."""
        await self._database.close()


def _row(run: RunRecord) -> dict[str, Any]:
    row = {name: getattr(run, name) for name in _COLUMNS}
    return row | {
        "values": json.dumps(run.values, ensure_ascii=False),
        "left_out": json.dumps(run.left_out, ensure_ascii=False),
        "outcome": str(run.outcome),
        "nan": int(run.nan),
        "alarms": _alarms_text(run.alarms),
    }


def _record(row: dict[str, Any]) -> RunRecord:
    """A row; columns of a newer a4 are not looked at, and what is odd in one row does not hide the others."""
    known = {name: value for name, value in row.items() if name in _COLUMNS or name == "number"}
    known = {name: value for name, value in known.items() if value is not None}
    outcome = known.get("outcome", "")
    known["outcome"] = Outcome(outcome) if outcome in set(Outcome) else Outcome.UNKNOWN
    known["values"] = _json(known.get("values"), dict)
    known["left_out"] = tuple(_json(known.get("left_out"), list))
    known["nan"] = bool(known.get("nan"))
    known["alarms"] = _alarms(known.get("alarms"))
    return RunRecord(**{"recipe": "", "name": "", "namespace": "", **known})


def _alarms_text(alarms: Iterable[Alarm]) -> str:
    return json.dumps([asdict(each) for each in alarms], ensure_ascii=False)


def _alarms(text: Any) -> tuple[Alarm, ...]:
    """Alarms of a row; those of a kind that a newer a4 knows are left out."""
    found = []
    for each in _json(text, list):
        with suppress(TypeError, ValueError):
            found.append(Alarm(**{**each, "kind": AlarmKind(each["kind"])}))
    return tuple(found)


def _json(text: Any, kind: type[T]) -> T:
    try:
        found = json.loads(text or "null")
    except (TypeError, ValueError):
        found = None
    return found if isinstance(found, kind) else kind()
