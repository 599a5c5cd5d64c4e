"""What logs have told is kept for the next command, which reads them again where they may tell something else."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from msgspec import msgpack, structs

from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import Condition
from console.kube.objects.pod import Container
from console.kube.snapshot import Fleet
from console.logs.log_line import LogLine
from console.metrics.job_measures import known_layouts, read_lines
from console.metrics.job_progress import JobProgress
from console.metrics.log_result_cache import LogResultCache
from console.metrics.progress_reader import NAN_SEARCH_LINES, TABLE_TAIL_LINES, JobProgressReader
from tests.fakes import fleet_of, present
from tests.screens.scene import jobset, rank

MEGATRON = (
    " iteration {:8}/ {:8} | elapsed time per iteration (ms): 4810.2 | learning rate: 1.8E-04 | lm loss: {:.6E} |"
)


def steps(first: int, last: int, ago: float, *, nan_from: int = 10**9) -> list[LogLine]:
    """One a second up to so many seconds ago."""
    end = time.time() - ago
    return [
        LogLine(end + at - last, f"step {at}/970 loss {'nan' if at >= nan_from else f'{11 - at / 50:.3f}'} lr 1e-4")
        for at in range(first, last + 1)
    ]


def scene(state: str = "") -> tuple[JobSet, Fleet]:
    job = jobset("train", 1)
    pod = rank(job, 0, "n0")
    if state:
        done = Container("main", "terminated", "Completed", exit_code=0, finished_at=time.time() - 5000)
        pod = structs.replace(pod, phase="Succeeded", ready=False, containers=(done,))
        job = structs.replace(job, conditions=(Condition(state, "True", since=1.0, message=""),))
    return job, fleet_of(job, pod)


class Command:
    """One command after another, which share nothing but a file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.lines: list[LogLine] = []
        self.read: list[int] = []

    async def look(self, job: JobSet, fleet: Fleet, pass_line: float = 250.0) -> JobProgress:
        learned = LogResultCache(self.place)
        service = SimpleNamespace(
            test_history=SimpleNamespace(tests=(), stored_rows={}, store=AsyncMock()),
            pass_line=pass_line, find_followed=lambda _: None,
            earlier_phases=AsyncMock(return_value={}), earlier_speeds=AsyncMock(return_value=()),
        )  # fmt: skip
        cluster = SimpleNamespace(fleet=fleet)
        reader = JobProgressReader(cast("Any", cluster), cast("Any", service), self.tail, lambda: learned)
        self.read.clear()
        await reader.update([job.key])
        return structs.replace(present(reader.progress_of(job.uid)), at=0.0)

    async def tail(self, _: object, number: int) -> list[LogLine]:
        self.read.append(number)
        return self.lines[-number:]


async def test_the_log_of_a_job_that_is_over_is_read_by_one_command_only(tmp_path: Path) -> None:
    command, (job, fleet) = Command(tmp_path / "learned"), scene("Completed")
    command.lines = steps(1, 60, 5000)
    first = await command.look(job, fleet)
    assert (first.step, bool(command.read)) == (60, True)
    assert await command.look(job, fleet) == first
    assert command.read == []
    (pod,) = fleet.pods.values()
    replaced = fleet_of(job, structs.replace(pod, uid="another"))
    for changed, by in ((fleet, 300.0), (replaced, 250.0)):  # what else it depends on, and other pods
        assert await command.look(job, changed, by) == first
        assert command.read


@pytest.mark.parametrize(("state", "ago"), [("", 5000.0), ("Completed", 60.0)])
async def test_a_log_that_may_go_on_is_read_by_each_command(tmp_path: Path, state: str, ago: float) -> None:
    """Of a job that runs, and where the last line is so new that the end may be missing."""
    command, (job, fleet) = Command(tmp_path / "learned"), scene(state)
    for last in (60, 70):
        command.lines = steps(1, last, ago)
        assert (await command.look(job, fleet)).step == last


async def test_a_log_is_read_once_for_steps_and_for_an_end_where_the_next_step_is_late(tmp_path: Path) -> None:
    command, (job, fleet) = Command(tmp_path / "learned"), scene()
    command.lines = steps(1, 60, 900)
    assert (await command.look(job, fleet)).step == 60
    assert command.read == [TABLE_TAIL_LINES]


async def test_where_a_loss_became_nan_is_searched_once_while_it_stays_so(tmp_path: Path) -> None:
    command, (job, fleet) = Command(tmp_path / "learned"), scene()
    for last, searched in ((700, True), (900, False), (1200, False), (1700, False)):
        command.lines = steps(1, last, 1, nan_from=20)
        found = await command.look(job, fleet)
        assert (found.where.nan_from, found.step) == (20, last)
        assert (NAN_SEARCH_LINES in command.read) is searched
    good = [*steps(1, 2300, 1401, nan_from=20), *steps(2301, 2400, 1301), *steps(2401, 3700, 1, nan_from=2401)]
    command.lines = good  # it was a number again while no command looked
    assert (await command.look(job, fleet)).where.nan_from == 2401
    assert NAN_SEARCH_LINES in command.read


def test_what_lines_look_like_is_learned_once_from_all_logs(tmp_path: Path) -> None:
    lines = [LogLine(float(at), MEGATRON.format(at, 900, 9 - at / 200)) for at in range(1, 400)]
    known_layouts(()).clear()
    first = read_lines(lines)[1][0].position()
    (layout,) = known_layouts(())
    learned = LogResultCache(tmp_path / "learned")
    learned.load()
    learned.store()
    known_layouts(()).clear()
    written = (tmp_path / "learned").stat().st_mtime_ns
    again = LogResultCache(tmp_path / "learned")
    again.load()
    again.store()
    assert (tmp_path / "learned").stat().st_mtime_ns == written  # there was nothing new
    (kept,) = known_layouts(())
    assert kept is not layout
    assert structs.asdict(kept) == structs.asdict(layout)
    assert read_lines(lines)[1][0].position() == first
    assert known_layouts(()) == [kept]


LIES: dict[str, dict[str, object]] = {
    "matches without end": {"pattern": rb"^((?:.*.*)*)(x)\n"},
    "numbers side by side": {"pattern": b"^" + b"([0-9]{1,12})" * 24 + rb"\n"},
    "padding side by side": {"pattern": b"^" + b" {1,16}" * 24 + rb"([0-9]{1,12})\n"},
    "takes 700 MiB": {"pattern": b"a|" * 1_500_000},
    "takes a tebibyte": {"pattern": 1 << 40},
    "is nested": {"pattern": b"(" * 5000 + b")" * 5000},
    "fewer numbers than its pattern": {"slots": []},
    "an unknown rule": {"slots": {"rule": "nonsense"}},
    "a count with decimals": {"slots": {"name": "step", "rule": "plain"}},
    "texts as figures": {"like": {"skipped": "\x1b[31m"}},
    "a figure that no column holds": {"like": {"skipped": 1 << 63}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_layout_that_no_line_has_is_not_used(tmp_path: Path, lie: str) -> None:
    lines = [LogLine(float(at), MEGATRON.format(at, 900, 9 - at / 200)) for at in range(1, 400)]
    known_layouts(()).clear()
    first = read_lines(lines)[1][0].position()
    learned = LogResultCache(tmp_path / "learned")
    learned.load()
    learned.store()
    of, (layout,), *others = msgpack.decode((tmp_path / "learned").read_bytes())
    changed = LIES[lie]
    if isinstance(slot := changed.get("slots"), dict):
        changed = {"slots": [each | slot for each in layout["slots"]]}
    for wrong in ([layout | changed], [layout] * 17):
        (tmp_path / "learned").write_bytes(msgpack.encode([of, wrong, *others]))
        known_layouts(()).clear()
        LogResultCache(tmp_path / "learned").load()
        assert known_layouts(()) == []
        assert read_lines(lines)[1][0].position() == first


async def test_a_file_that_cannot_be_used_costs_only_time(tmp_path: Path) -> None:
    command, (job, fleet) = Command(tmp_path / "learned"), scene("Completed")
    command.lines = steps(1, 60, 5000)
    first = await command.look(job, fleet)
    whole = command.place.read_bytes()
    assert command.place.stat().st_mode & 0o777 == 0o600
    other = whole.replace(str(Path(__file__).parents[3]).encode(), b"x" * len(str(Path(__file__).parents[3])), 1)
    assert other != whole
    for broken in (b"", whole[: len(whole) // 2], b"\xc1" * 40, other):  # the last is of another a4
        command.place.write_bytes(broken)
        assert await command.look(job, fleet) == first
        assert command.read
    command.place.unlink()
    command.place.mkdir()
    assert await command.look(job, fleet) == first
