"""`kueue-rules simulate`: scenarios on a virtual clock, and what is said of one that is wrong."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kueue_rules import Scenario, ScenarioError, SimulationResult, read_scenario, simulate_scenario
from kueue_rules.__main__ import main
from kueue_rules.scenario import MAX_SHOWN, format_duration, parse_duration

SCENARIOS = Path(__file__).parents[1] / "examples"
HOUR = 3600


def run(name: str, seed: int = 0) -> SimulationResult:
    return simulate_scenario(read_scenario((SCENARIOS / f"{name}.yaml").read_text()), seed)


def happened(result: SimulationResult, what: str, job: str) -> list[float]:
    return [each.at / HOUR for each in result.events if (each.what, each.job) == (what, job)]


def test_two_teams_lend_and_take_back() -> None:
    result = run("two-teams")
    assert happened(result, "preempted", "pretrain") == [2], "product takes back what it lent"
    assert [each.by for each in result.events if each.what == "preempted"] == ["tune-1"]
    assert happened(result, "starts", "urgent") == [5]
    assert happened(result, "starts", "pretrain") == [0, 11.5], "all 128 are free when the last tune has ended"
    assert happened(result, "ends", "pretrain") == [21.5], "two of twelve hours were kept in checkpoints"
    research, product = result.queues
    assert research.wait_longest == 9.5 * HOUR, "from the preemption to the second start"
    assert (research.preempted, research.gpu_hours, research.lost_gpu_hours) == (1, 12 * 128 + 8, 0)
    assert (product.arrived, product.finished, product.wait_longest, product.gpu_hours) == (6, 6, 0, 6 * 64)


def test_a_job_that_has_to_lie_in_one_block_waits_for_the_block() -> None:
    result = run("blocks")
    assert happened(result, "starts", "wide") == [1], "quota is there before, a whole block is not"
    assert happened(result, "starts", "anywhere") == [0.5], "it passes those that wait"
    assert result.never == ("too-wide",)
    (queue,) = result.queues
    assert (queue.arrived, queue.started, queue.wait_median) == (5, 4, 0)
    assert (queue.wait_p90, queue.wait_longest, queue.waiting_longest) == (None, None, (3 - 1 / 3) * HOUR)
    assert result.span == 3 * HOUR
    assert queue.gpu_hours == 16 + 3 * 24 + 32 + 12


def test_a_random_day_is_the_same_for_the_same_seed() -> None:
    first, again, other = run("random-day", 3), run("random-day", 3), run("random-day", 4)
    assert first == again
    assert first.events != other.events
    assert {each.queue for each in first.queues} == {"train", "try"}
    assert any(each.preempted for each in run("random-day").queues)
    assert {each.flavor for each in first.events if each.queue == "try"} == {"a4-spot"}


@pytest.mark.parametrize("name", ["two-teams", "random-day", "blocks"])
def test_sums_agree_and_no_machine_is_used_twice(name: str) -> None:
    for seed in range(3):
        result = run(name, seed)
        hours = sum(each.gpu_hours for each in result.queues)
        assert result.utilization == pytest.approx(hours / (result.gpus * result.span / HOUR))
        assert sum(result.busy) / len(result.busy) == pytest.approx(result.utilization)
        used = most = 0
        for each in result.events:
            used += each.gpus if each.what == "starts" else -each.gpus
            most = max(most, used)
        assert 0 < most <= result.gpus


def test_a_job_that_waits_again_at_the_end_has_a_wait_that_is_not_known() -> None:
    text = (SCENARIOS / "two-teams.yaml").read_text().replace("until: 48h", "until: 4h")
    research, product = simulate_scenario(read_scenario(text)).queues
    assert (research.waiting, research.waiting_longest, research.wait_longest) == (1, 2 * HOUR, None)
    assert (product.waiting, product.waiting_longest) == (0, None)


def test_work_without_checkpoints_is_done_again() -> None:
    text = (SCENARIOS / "two-teams.yaml").read_text().replace("    checkpointEvery: 1h\n", "")
    result = simulate_scenario(read_scenario(text))
    assert happened(result, "ends", "pretrain") == [23.5]
    assert result.queues[0].lost_gpu_hours == 2 * 128


WRONG = """\
flavors:
  - name: a4
    nodes: none
queues:
  - name: a4
    quota: {a4: 64}
    queueingStrategy: FIFO
    colour: red
jobs:
  - name: job
    queue: a4
    gpus: 12
    runs: soon
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text)
    return str(caught.value).splitlines()


def test_every_wrong_line_is_named_with_what_is_allowed() -> None:
    found = problems(WRONG)
    assert found[0] == "Line 3: nodes has to be a whole number of machines of 8 GPUs, 1 to 20000, not none."
    assert found[1] == "Line 7: queueingStrategy has to be one of BestEffortFIFO, StrictFIFO, not FIFO."
    assert found[2].startswith("Line 8: an entry of queues has no colour; it has name, quota, cohort, ")
    assert found[3:] == [
        "Line 12: gpus has to be 1 to 8, or a multiple of 8, not 12.",
        "Line 13: runs has to be a duration as in 90s, 30m, 6h or 1d12h, not soon.",
    ]


GOOD = WRONG.replace("none", "8").replace("FIFO", "StrictFIFO").replace("    colour: red\n", "")
GOOD = GOOD.replace("12", "16").replace("soon", "1h")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("queue: a4", "queue: b", "Line 10: there is no queue b here; allowed: a4."),
        ("{a4: 64}", "{h100: 64}", "Line 6: there is no flavor h100 here; allowed: a4."),
        ("{a4: 64}", "{a4: -1}", "Line 6: quota of a4 has to be a whole number of GPUs, not below 0, not -1."),
        ("{a4: 64}", "64", "Line 6: quota has to be GPUs by flavor, as in {a4: 64}, not 64."),
        ("    runs: 1h\n", "", "Line 9: an entry of jobs needs runs: a duration as in 90s, 30m, 6h or 1d12h."),
        ("    runs: 1h", "    runs: 1h\n    count: 3", "Line 13: job needs every: a duration as in 90s, 30m, 6h or "
                                                       "1d12h, from one arrival to the next."),
        ("    gpus: 16", "    gpus: 16\n    gpus: 8", "Line 12: gpus stands there twice."),
        ("queues:\n", "queues: &x\n", "Line 13: references (&name, *name) are not allowed."),
        (GOOD, "- a\n", "Line 1: the scenario has to be a map; it has flavors, queues, jobs, cohorts, until, "
                        "fairSharing."),
        (GOOD, "", "The scenario is empty."),
        (GOOD, "a: [", None),
        (GOOD, f"a: {'[' * 50}", "Line 1: it is nested too deep."),
        (GOOD, "? [a]\n: b\n" + GOOD, "Line 1: the scenario has no (a list or map); it has flavors, queues, jobs, "
                                      "cohorts, until, fairSharing."),
        ("queue: a4", 'queue: "\\e[31m"', "Line 10: queue has to be the name of a queue, not \ufffd[31m."),
        ("queue: a4", f"queue: {'b' * 500}", f"Line 10: queue has to be the name of a queue, not {'b' * MAX_SHOWN}…."),
        ("runs: 1h", "runs: 1h # é\n\x01", "Line 13: the character U+0001 is not allowed."),
    ],
)  # fmt: skip
def test_a_scenario_that_is_wrong(old: str, new: str, words: str | None) -> None:
    text = GOOD.replace(old, new)
    if "&x" in new:
        text += "    topology: *x\n"
    found = problems(text)
    assert len(found) == 1
    assert words is None or found == [words]


def test_two_jobs_of_one_name_are_refused() -> None:
    more = "  - name: job\n    queue: a4\n    gpus: 8\n    runs: 1h\n"
    assert problems(GOOD + more) == ["Line 13: job is the name of two jobs; names have to differ."]
    numbered = more.replace("name: job", "name: job-2").replace("gpus: 8", "gpus: 8\n    at: 1h")
    many = GOOD + "    count: 2\n    every: 1h\n" + numbered
    assert problems(many) == ["Line 15: job-2 is the name of two jobs; names have to differ."]


def test_durations() -> None:
    assert [parse_duration(each) for each in ("90s", "1.5h", "1d12h")] == [90, 5400, 36 * HOUR]
    written = ["0s", "41s", "2m5s", "3h", "2h40m", "1d12h", "9d"]
    assert [format_duration(parse_duration(each)) for each in written] == written
    assert format_duration(90_061.9) == "1d1h", "two units"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([4, 8, 16, 40]), st.integers(0, 3), st.integers(1, 5)), max_size=12),
       st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]))  # fmt: skip
def test_whatever_arrives_ends_once_or_never_starts(jobs: list[tuple[int, int, int]], within: str) -> None:
    listed = "".join(
        f"  - {{name: j{at}, queue: q, gpus: {gpus}, priority: {priority}, at: {at}m, runs: {hours}h}}\n"
        for at, (gpus, priority, hours) in enumerate([*jobs, (8, 0, 1)])
    )
    text = f"flavors: [{{name: a, nodes: 4}}]\nqueues: [{{name: q, quota: {{a: 32}}, withinClusterQueue: {within}}}]\n"
    scenario: Scenario = read_scenario(f"{text}jobs:\n{listed}")
    result = simulate_scenario(scenario)
    (queue,) = result.queues
    too_large = [f"j{at}" for at, (gpus, _, _) in enumerate(jobs) if gpus == 40]
    assert list(result.never) == too_large
    assert queue.finished == queue.started == len(jobs) + 1 - len(too_large)


def test_the_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in (SCENARIOS.parent / "README.md").read_text().split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "CycleVerdict.HOPELESS couldn't assign flavors to pod set main: insufficient quota for gpu in "
    )
    assert last == "('ns', 'small') starts"


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", str(SCENARIOS / "blocks.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3h with 64 GPUs, 69% of them in use on average (a4 69%), seed 0"
    assert lines[-1] == "Not started by the end: too-wide."
    assert lines[4].split()[:8] == ["a4", "64", "5", "4", "4", "0s", "not", "known"]
    assert main(["simulate", str(SCENARIOS / "random-day.yaml"), "--json", "--seed", "5"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["seed"] == 5
    assert {each["what"] for each in said["events"]} == {"starts", "ends", "preempted"}
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(WRONG)
    assert main(["simulate", str(wrong)]) == 2
    assert "Line 3: nodes" in capsys.readouterr().err
    assert main(["simulate", str(tmp_path / "no.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err
