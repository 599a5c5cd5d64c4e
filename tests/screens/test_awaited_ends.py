"""A job that waits behind another one: every place names the same running job, whose end lets it start."""

import re

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.meta import GPU
from console.kube.objects.queue import LocalQueue, Quota, ResourceFlavor, Usage
from console.kube.snapshot import Fleet
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.launch_forecast import LaunchDemand, forecast, with_waiting_launch
from console.scheduling.start_simulation import expected_starts
from console.scheduling.why import format_ends
from console.scheduling.why_workload import why_workload
from screens.columns.column import as_json
from screens.columns.job_header import explanation
from screens.columns.jobs import JOBS, JobLine, reason_cell, start_words
from screens.columns.queues import WORKLOADS, workload_lines
from screens.widgets.form.launch_texts import fit_words
from screens.widgets.job_pane import job_lines
from screens.wording import plain_text
from tests.fakes import fleet_of, present
from tests.screens.queue_scene import claim, cluster_queue, job
from tests.screens.scene import a4

FRONT, BEHIND = "dpo", "llama"  # whose end lets the first start, and the one behind it


def scene(*names: str, strategy: str = "BestEffortFIFO") -> Fleet:
    """24 of 104 GPUs are free: what ends with `dpo` is enough for the first that waits for 32, and for no second."""
    runs = [job("llama", 8), job("dpo", 2)]
    waits = [job(name, 4, suspended=True, created=at) for at, name in enumerate(names, start=1)]
    wait = "insufficient unused quota"
    claims = [structs.replace(claim(each, waits=wait), created=each.created) for each in waits]
    queue = structs.replace(
        cluster_queue("a4", 80, strategy=strategy), quotas=(Quota("a4", GPU, 104),), reserved=(Usage("a4", GPU, 80),)
    )
    door = LocalQueue("default", "a4", cluster_queue="a4")
    return fleet_of(*map(a4, range(13)), queue, door, ResourceFlavor("a4"), *runs, *map(claim, runs), *waits, *claims)


def starts(fleet: Fleet, **left: float) -> dict[str, ExpectedStart]:
    """By name of the job."""
    found = expected_starts(fleet, {fleet.jobsets["default", name].uid: seconds for name, seconds in left.items()})
    return {fleet.workloads[key].owner_name: start for key, start in found.items()}


def named(words: str) -> set[str]:
    """Jobs whose end is awaited by these words; a column only has their names."""
    ends = re.findall(r"(\w+) (?:or|ends|end)\b", words) + re.split(r" or | and |$", words.partition("short · ")[2])
    return {FRONT, BEHIND} & {*ends}


def places(fleet: Fleet, name: str, start: ExpectedStart | None) -> dict[str, str]:
    """What each place tells of why the job waits."""
    line = JobLine(fleet.jobsets["default", name], fleet, expected_start=start)
    workload = present(fleet.workload_of(line.jobset))
    known = {workload.key: start} if start is not None else None
    (row,) = (each for each in workload_lines(fleet, None, str, known) if each.workload is workload)
    (column,) = (each for each in WORKLOADS.columns if each.title == "WHY")
    return {
        "list": plain_text(reason_cell(line)),
        "pane": " ".join(plain_text(each) for each in job_lines(line, None, 300, 60, fleet.at)),
        "page": plain_text(explanation(line, is_gone=False)),
        "jobs": as_json(JOBS.columns, [line])[0]["why"],
        "why": why_workload(workload, fleet, start).sentence,
        "queue": plain_text(column.cell(row)),
        "workloads": as_json(WORKLOADS.columns, [row])[0]["why"],
    }


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize(("name", "culprit"), [("first", FRONT), ("second", BEHIND)])
def test_the_quota_of_those_in_front_is_theirs(name: str, culprit: str, strategy: str) -> None:
    fleet = scene("first", "second", strategy=strategy)
    found = places(fleet, name, None)
    assert {place: words for place, words in found.items() if culprit not in named(words)} == {}
    other = BEHIND if culprit == FRONT else FRONT
    assert {place: words for place, words in found.items() if other in named(words)} == {}


@pytest.mark.parametrize("left", [{"llama": 900.0}, {"dpo": 60.0, "llama": 900.0}, {"dpo": 60.0}, {}])
def test_reason_and_expected_start_name_the_same_job(left: dict[str, float]) -> None:
    fleet = scene("first", "second")
    for name, start in starts(fleet, **left).items():
        for place, words in places(fleet, name, start).items():
            foreseen = named(start_words(start, fleet.at))
            assert named(words) <= foreseen or not foreseen, (name, place, words, start_words(start, fleet.at))
            assert named(words), (name, place, words)


def test_a_narrow_page_tells_the_start_where_kueues_earlier_words_have_no_room() -> None:
    fleet, wait = scene("first"), "insufficient unused quota for nvidia.com/gpu in flavor a4, 24 more needed"
    earlier = claim(fleet.jobsets["default", "first"], waits=f"couldn't assign flavors to pod set workload: {wait}")
    start = starts(fleet, dpo=600.0)["first"]
    page = places(structs.replace(fleet, workloads={**fleet.workloads, earlier.key: earlier}), "first", start)["page"]
    assert page.index("when dpo ends") < 3 * 70 < page.index("24 more needed")


def test_the_launch_form_names_the_job_that_its_start_waits_for() -> None:
    fleet, ask = scene("first"), LaunchDemand("default", "a4", 32)
    assert forecast(fleet, ask).sentence.endswith("1 ahead in the queue; quota free when llama ends")
    waiting, key = with_waiting_launch(fleet, ask)
    start = expected_starts(waiting, {fleet.jobsets["default", "llama"].uid: 900.0})[key]
    assert plain_text(fit_words(fleet, ask, start)).endswith("quota free when llama ends.")
    sooner = structs.replace(start, sooner=("dpo", "llama"))
    assert plain_text(fit_words(fleet, ask, sooner)).endswith("quota free when dpo or llama ends.")


def test_behind_many_it_is_not_known_whose_end_would_do() -> None:
    fleet = scene(*(f"w{number:02}" for number in range(60)))
    last = why_workload(present(fleet.workload_of(fleet.jobsets["default", "w59"])), fleet)
    assert (last.position, last.unblocks, "free when" in last.sentence) == (60, (), False)


def test_what_is_in_front_and_does_not_fit_takes_nothing() -> None:
    fleet = scene("first")
    wide = job("wide", 16, suspended=True, created=0.5)
    more = structs.replace(claim(wide, waits="insufficient unused quota"), created=0.5)
    both = replace(fleet, jobsets={**fleet.jobsets, wide.key: wide}, workloads={**fleet.workloads, more.key: more})
    assert "free when dpo ends" in places(both, "first", None)["why"]


@pytest.mark.parametrize(
    ("names", "any_of", "words"),
    [
        ((), False, ""),
        (("a",), True, "a ends"),
        (("a", "b"), False, "a and b end"),
        (("a", "b", "c"), True, "a, b or c ends"),
        (("a", "b", "c", "d", "e"), False, "a, b, c and 2 more end"),
    ],
)
def test_ends_in_words(names: tuple[str, ...], any_of: bool, words: str) -> None:
    assert format_ends(names, any_of=any_of) == words
