from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.folders import atomic_write
from console.metrics.export_results import draw_curve_svg, format_rows_csv
from console.metrics.nccl_history import (
    MeasuredTest,
    NcclHistory,
    bandwidth_by_node,
    comparable_tests,
    compare_sizes,
    mean_speedup,
    usual_bandwidth,
)
from tests.screens.queue_scene import table
from trainlog import NcclResult, judge_test


def measured(job: str, *busbw: float, at: float = 1.0, finished: bool = True, **more: Any) -> MeasuredTest:
    test = table(*busbw, finished=finished)[0]
    return replace(
        MeasuredTest(test, job, "default", job, at=at, nodes=("n1", "n2"), accelerator="nvidia-b200"), **more
    )


def test_only_tests_of_the_same_kind_are_compared() -> None:
    shown = measured("now", 600.0, 620.0)
    other_gpu = measured("h200", 480.0, at=2.0, accelerator="nvidia-h200-141gb")
    fewer = measured("small", 400.0, at=2.0)
    fewer = replace(fewer, test=replace(fewer.test, ranks=8))
    unfinished = measured("half", 500.0, finished=False)
    earlier = [measured("a", 500.0, at=1.0), measured("b", 550.0, at=5.0)]
    found = comparable_tests([shown, other_gpu, fewer, unfinished, *earlier], shown)
    assert [each.job for each in found] == ["b", "a"]
    own = usual_bandwidth(found)
    assert own is not None
    assert own.usual_at(512 << 20) == 525.0
    assert usual_bandwidth(found[:1]) is None
    begun = measured("begun", finished=False)
    assert [each.job for each in comparable_tests(earlier, begun)] == ["b", "a"]
    half = tuple(structs.replace(each, type="half") for each in shown.test.rows)
    mixed = [*earlier, replace(shown, test=replace(shown.test, rows=half))]
    assert comparable_tests(mixed, begun) == [], "before its first row nobody knows which of them are like it"


def test_two_tests_size_by_size() -> None:
    before, after = table(500.0, 600.0)[0], table(550.0)[0]
    assert [each.share for each in compare_sizes(before, after)] == [pytest.approx(0.1), None]
    assert mean_speedup(before, after) == pytest.approx(0.1)
    assert mean_speedup(before, table()[0]) is None


def test_a_node_has_its_last_bandwidth_and_a_trend_of_the_same_kind_of_test() -> None:
    tests = [measured("a", 600.0, at=1.0), measured("b", 610.0, at=2.0), measured("c", 500.0, at=3.0)]
    small = measured("d", 300.0, at=2.5)
    small = replace(small, test=replace(small.test, ranks=8))
    node = bandwidth_by_node([*tests, small])["n1"]
    assert (node.last, node.arrow, node.job) == (499.5, "↘", "c") or (node.last, node.arrow) == (500.0, "↘")
    assert node.trend is not None
    assert node.trend < -0.1
    assert bandwidth_by_node(tests[:1])["n2"].trend is None


def test_the_verdict_is_honest() -> None:
    fast = table(600.0, 620.0, 640.0, finished=True)[0]
    assert judge_test(fast).passing is NcclResult.PASSED
    assert judge_test(fast, pass_line=700.0).passing is NcclResult.FAILED
    largest = replace(fast, rows=(structs.replace(fast.rows[-1], size=8 * 2**30),))
    assert judge_test(largest).why.startswith("8 GiB alone "), "an average of sizes that were not measured is none"
    assert judge_test(fast, accelerator="nvidia-h200-141gb").passing is NcclResult.UNJUDGED
    assert judge_test(replace(fast, ranks=8)).passing is NcclResult.UNJUDGED
    assert judge_test(replace(fast, program="alltoall_perf")).passing is NcclResult.UNJUDGED
    assert judge_test(replace(fast, finished=False)).passing is NcclResult.RUNNING
    wrong = judge_test(table(600.0, 620.0, 640.0, finished=True, wrong=1)[0])
    assert (wrong.passing, wrong.why) == (NcclResult.FAILED, "3 wrong values at 512 MiB and 2 more sizes")


async def test_tests_are_kept_once_and_read_by_another_console(tmp_path: Path) -> None:
    place = tmp_path / "a4" / "nccl-tests.jsonl"
    kept = NcclHistory(place)
    first = measured("a", 600.0)
    await kept.store([first, first])
    await kept.store([first])
    assert place.read_bytes().count(b"\n") == 1
    with place.open("ab") as out:
        out.write(b'{"test": torn')
    other = NcclHistory(place)
    assert await other.load() == (first,)
    assert set(other.nodes) == {"n1", "n2"}
    other.note = "The history of NCCL tests is kept only until the console ends."
    await other.load()
    assert other.note, "nothing new was read: that tests cannot be stored still holds"
    assert place.stat().st_mode & 0o077 == 0


async def test_of_a_loop_of_tests_the_newest_are_in_memory_beside_those_of_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.metrics.nccl_history.MAX_KNOWN_OF_JOB", 2)
    mine, other = NcclHistory(tmp_path / "tests.jsonl"), NcclHistory(tmp_path / "tests.jsonl")
    loop = [replace(measured("loop", 600.0), index=at, at=float(at)) for at in range(4)]
    await other.store([replace(measured("other", 500.0), at=1.0)])
    for at in range(4):
        await mine.load()
        await mine.store(loop[: at + 1])
    assert [(each.job, each.index) for each in mine.tests] == [("loop", 3), ("loop", 2), ("other", 0)]
    assert mine.file_path.read_bytes().count(b"\n") == 5, "each once, also those that are not in memory any more"
    assert await other.load() == mine.tests
    lines = mine.file_path.read_bytes().splitlines(keepends=True)
    atomic_write(mine.file_path, lines[0] + lines[-1])  # as whoever finds it too large
    await other.store([replace(loop[3], index=4, at=4.0)])
    assert [each.index for each in await mine.load()] == [4, 3, 0]


async def test_a_place_that_takes_nothing_is_reported_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = NcclHistory(tmp_path / "file" / "tests.jsonl")
    await kept.store([measured("a", 600.0)])
    assert "kept only until the console ends" in kept.note
    assert len(kept.tests) == 1


def test_exports() -> None:
    test = table(500.0, 600.0, finished=True)[0]
    assert format_rows_csv([test]).count("\n") == 3
    drawn = draw_curve_svg("job", test, [("old", table(400.0)[0])])
    assert "old out-of-place" in drawn
    assert "512M" in drawn
