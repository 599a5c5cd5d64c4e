"""Every list at every width: a verdict is there, and no number, unit, name or mark is cut inside."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace
from rich.style import Style

from console.google.builds import Build
from console.kube.objects.meta import Condition
from console.kube.snapshot import Fleet
from console.launch.run_record import Outcome, RunRecord
from console.metrics.job_progress import JobProgress
from console.scheduling.expected_start import ExpectedStart
from screens.columns.google import BUILDS
from screens.columns.jobs import JOBS, JobLine
from screens.columns.nodes import NODES, POOLS
from screens.columns.pods import PODS
from screens.columns.queues import QUEUES, WORKLOADS
from screens.columns.runs import RUNS
from screens.widgets.styled_text import cut_sentence, phrase_ends
from screens.widgets.table.row_painter import MARGIN, RowPainter
from screens.wording import Span, short_node, spans_of
from tests.fakes import fleet_of
from tests.screens.queue_scene import claim, cluster_queue, job, queue_scene
from tests.screens.scene import NOW, scene
from tests.screens.test_one_verdict import CASES, SLOW_RANK, printed, read_tail, scene as job_scene
from trainlog import NcclResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from screens.columns.column import Column

WIDTHS = range(60, 251)
VERDICT = 22  # columns of a verdict that has room beside name and state on the narrowest terminal
QUOTA = "couldn't assign flavors to pod set workload: insufficient unused quota"


def broken(text: str, shown: str) -> bool:
    """Whether that part of a text ends inside of a name, or between a number and its unit."""
    text, kept = text.strip(), shown.rstrip(" …")
    if shown.strip() in {text, short_node(text)}:
        return False
    after = text[len(kept) :]
    if re.match(r",? \d\d:\d\d", after) or re.search(r"\b(?:by|before|about|avg)$", kept):
        return True  # a day without its hour, or what is to be told without its figure
    phrase = after.startswith((";", ",", ": ", " (", "  ", " ·"))
    return not text.startswith(kept) or not (phrase or (after[:1] == " " and not re.search(r"\d$|[(]\S*$", kept)))


def faults_at(rows: Sequence[Any], width: int, painter: RowPainter[Any]) -> list[str]:
    style = Style()
    widget = SimpleNamespace(
        size=SimpleNamespace(width=width),
        has_focus=False,
        style_of=lambda _: style,
        ground=lambda _: style,
        rich_style=style,
    )
    painter._widget = cast("Any", widget)
    painter.lay_out()
    found: list[str] = []
    for number, row in enumerate(rows):
        line, left = painter.row((str(number),), row, here=False, marked=False).text, MARGIN
        for column, wide in painter.columns_now():
            text = "".join(run.text for run in spans_of(column.draw_cell(row, wide)))
            shown = line[left : left + wide]
            first = next(iter(phrase_ends(f"{text}  ")), 0)
            lost = column.fill and first <= VERDICT and not shown.startswith(text[:first])
            if not column.ages and (lost or broken(text, shown)):
                found.append(f"{width} {column.title}: {text!r} as {shown!r}")
            left += wide + 2
    return found


async def job_rows() -> list[JobLine]:
    rows: list[JobLine] = []
    for case in CASES:
        lines, end = printed(case)
        one, fleet = job_scene(end, lines[-1].time, case.pod)
        slow = SLOW_RANK if case.fault.startswith("slowrank") else None
        rows.append(JobLine(one, fleet, await read_tail(one, fleet, lines), slow_rank=slow, owner="you"))
    return rows


def waiting_rows() -> list[Any]:
    """Workloads that wait for quota: of others, more than there is, after an eviction; and when they would start."""
    llama = job("llama-70b", 6, owner="mira")
    jobs = [job(f"sweep-{pods}", pods, suspended=True) for pods in (4, 7, 40)]
    claims = [claim(each, waits=QUOTA) for each in jobs]
    lost = Condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload", NOW - 60)
    claims[1] = replace(claims[1], conditions=(*claims[1].conditions, lost))
    fleet = fleet_of(cluster_queue("a4", 48, admitted=1, pending=3), llama, claim(llama), *jobs, *claims)
    lines = [*WORKLOADS.make_rows(fleet, None, str)]
    return [*lines, *(dataclasses.replace(line, start=start) for line in lines for start in STARTS)]


STARTS = (
    ExpectedStart(NOW + 7200, window=(NOW + 7200, NOW + 9000)),
    ExpectedStart(NOW + 7200, window=(NOW + 7200, NOW + 9e4)),
    ExpectedStart(NOW + 9e4, "llama-70b", latest=True),
    ExpectedStart(NOW + 9e5, "llama-70b"),
    ExpectedStart(unknown="it never ends", earliest=NOW + 7200),
    ExpectedStart(unknown="it never ends", earliest=NOW + 9e4),
    ExpectedStart(NOW + 60, checks=("machines",)),
)
REPEATED = JobProgress(
    size=2**32, busbw=657.0, average=418.0, passing=NcclResult.PASSED, repeats=True, at=NOW, printed=NOW
)


def foreseen_rows(fleet: Fleet) -> list[JobLine]:
    """Jobs that wait with each of these starts, and a test that is made again and again."""
    waiting = JobLine(fleet.jobsets["default", "dpo-b"], fleet)
    test = JobLine(fleet.jobsets["default", "llama"], fleet, REPEATED)
    return [test, *(replace(waiting, expected_start=start) for start in STARTS)]


def build_rows() -> list[Build]:
    name = "us-docker.pkg.dev/practice/unified/testbed:25.12"
    why = "manifest for nvcr.io/nvidia/pytorch:25.12-missing not found: manifest unknown"
    times = {"time_out": 3600.0, "created": NOW - 9000, "started": NOW - 8900, "ended": NOW - 8000}
    names = {"log_bucket": "", "log_entries": False, "link": "", "substitutions": {}}
    return [Build("b1", "practice", "global", "FAILURE", why, (name,), (), machine="", **times, **names)]  # type: ignore[arg-type]


def run_rows() -> list[RunRecord]:
    run = RunRecord(
        "qwen3-30b-pretrain-pai", "root-qwen3-training", "default", gpus=16, launched=NOW - 9000, who="root"
    )
    return [
        run,
        replace(run, outcome=Outcome.FAILED, why="pod 0 ended first with exit code 137 on a4-pool/0010, killed"),
        replace(run, outcome=Outcome.DIVERGED, nan=True, nan_from=20, loss=10.58, loss_step=19, step=97),
        replace(run, outcome=Outcome.SUCCEEDED, peak_busbw=697.4, average_busbw=423.1, started=NOW - 8000, ended=NOW),
    ]


@pytest.mark.slow(reason="a few thousand rows, each at the widths of terminals from 60 to 250 columns")
async def test_no_list_cuts_a_number_a_unit_or_a_name_and_the_verdict_is_there_at_every_width() -> None:
    fleet, queues, jobs = scene(), queue_scene(), await job_rows()
    lists: dict[str, tuple[Sequence[Column[Any]], Sequence[Any]]] = {
        "jobs": (JOBS.columns, [*jobs, *foreseen_rows(queues), *JOBS.make_rows(queues, None, str)]),
        "workloads": (WORKLOADS.columns, [*WORKLOADS.make_rows(queues, None, str), *waiting_rows()]),
        "queues": (QUEUES.columns, [*QUEUES.make_rows(queues, None, str)]),
        "pools": (POOLS.columns, [*POOLS.make_rows(fleet, None, str)]),
        "nodes": (NODES.columns, [*NODES.make_rows(fleet, None, str)]),
        "pods": (PODS.columns, [pod for pod in PODS.make_rows(fleet, None, str) if pod.name.isascii()]),
        "runs": (RUNS, run_rows()),
        "builds": (BUILDS, build_rows()),
    }
    found = []
    for name, (columns, rows) in lists.items():
        painter: RowPainter[Any] = RowPainter(cast("Any", SimpleNamespace(size=SimpleNamespace(width=60))))
        painter.set_columns([column for column in columns if column.only in {"", "page"}])
        painter.measure(rows)
        found += [f"{name} {fault}" for width in WIDTHS for fault in faults_at(rows, width, painter)]
    assert not found, "\n".join(found[:40])


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("loss is NaN since step 118 (last good 10.58 at 117)", 34, "loss is NaN since step 118 …"),
        ("loss is NaN since step 118 (last good 10.58 at 117)", 26, "loss is NaN since step 118"),
        ("loss is NaN since step 118 (last good 10.58 at 117)", 25, "loss is NaN …"),
        ("8 GPUs short · llama-70b + dpo-a3b", 20, "8 GPUs short …"),
        ("pod 1: OOMKilled (137)", 18, "pod 1: OOMKilled …"),
        ("was evicted by node 12 of the pool a4-pool/0012", 24, "was evicted …"),
        ("needs 32 GPUs of flavor a4", 10, "needs …"),
        ("1024", 3, "…"),
        ("OOMKilled", 6, "OOMKi…"),
    ],
)
def test_a_text_that_has_no_room_ends_with_a_whole_phrase_or_word(text: str, width: int, shown: str) -> None:
    cut = cut_sentence([Span(text[:5], "bad"), Span(text[5:], "waits")], width)
    assert "".join(run.text for run in cut) == shown
