"""Rows of the listing commands: every declared key is there, and no other."""

import asyncio
import json
import time
from collections.abc import Iterable
from types import SimpleNamespace

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from console.alarm_thresholds import Thresholds
from console.connection_settings import OWN_NAME
from console.errors import NotFound
from console.kube.gpu_pods import gpu_pod_selectors
from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet, JobState, ReplicatedJob
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.node import Node
from console.kube.objects.pod import Container, Pod
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, Usage
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import Fleet
from console.metrics.alarm import Alarm, AlarmKind, AlarmReport
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.metrics.health import HealthLevel
from console.metrics.job_measures import JobMeasures
from console.metrics.job_progress import JobProgress
from console.metrics.step_cadence import StepCadence
from console.scheduling.expected_start import ExpectedStart
from screens.cli import lists
from screens.cli.launch import wait_for_end
from screens.cli.lists import LISTS, MAX_SELECTED_JOBS, SELECTORS_OF_LIST, layout_of, list_pods_of, print_rows
from screens.cli.why import _next_steps
from screens.columns.column import as_json, text_table
from screens.columns.job_header import explanation
from screens.columns.jobs import JOBS, JobLine, reason_cell, start_words
from screens.columns.live_jobs import alarm_by_log, with_diagnoses
from screens.wording import BAD, OK, Span, bar, plain_text
from tests.fakes import FakeSession, fleet_of, monitor, present
from tests.screens import scene
from tests.screens.cli.commands import given, parse, perform
from tests.screens.queue_scene import queue_scene


async def test_a_job_that_makes_no_steps_is_listed_with_what_a_console_found() -> None:
    session = FakeSession()
    await session.diagnoses.record(Diagnosis("u1", DiagnosisKind.HANG, 1_300.0, "Rank 9 has no process"))
    progress = JobProgress(step=9, total=90, pace=1.0, rhythm=StepCadence(1.0), stepped=1_200.0, at=1_320.0)
    running = JobSet("default", "one", uid="u1", groups=(ReplicatedJob("w", pods_per_job=1, ready=1),))
    line = JobLine(running, fleet_of(running), progress, owner=OWN_NAME)
    assert line.health.state == "stalled"
    stands = with_diagnoses(session, line)  # type: ignore[arg-type]
    assert as_json(JOBS.columns, [stands])[0]["verdict"] == "Rank 9 has no process"
    alarm = present(alarm_by_log(stands))
    assert alarm.verdict == "Rank 9 has no process", "a4 alarms says the same"
    lines = list(_next_steps(session, "one", None, stands, AlarmReport()))  # type: ignore[arg-type]
    assert lines == ["Rank 9 has no process.", "a4 hang one --bundle FILE keeps the evidence."], "and a4 why"
    failed = AlarmReport((Alarm(AlarmKind.FAILED, "pod 0: Error (1)", 1_400.0, "default", "one"),))
    lines = list(_next_steps(session, "one", None, line, failed))  # type: ignore[arg-type]
    assert lines == ["a4 logs one shows how it ended."], "a4 why does not name itself"
    moved = replace(line, job_progress=structs.replace(progress, stepped=1_310.0, at=1_400.0))
    moved = with_diagnoses(session, moved)  # type: ignore[arg-type]
    assert moved.hang_verdict == "", "it has made steps since"
    assert list(_next_steps(session, "one", None, moved, AlarmReport())) == [  # type: ignore[arg-type]
        "a4 hang one shows which rank the others wait for."
    ]


async def test_a_job_with_a_slow_rank_that_a_console_found_is_listed_with_it() -> None:
    session = FakeSession()
    words, advice = "Rank 9 on n1: the others wait for it for 7 % of each step", ("Host: look at its CPUs.",)
    now = time.time()
    running = scene.jobset("one", 1)
    await session.diagnoses.record(
        Diagnosis(running.uid, DiagnosisKind.SLOW, now - 60, words, short="waits for rank 9", advice=advice)
    )  # fmt: skip
    fleet = replace(fleet_of(running, scene.rank(running, 0, "n1")), at=now)
    line = with_diagnoses(session, JobLine(running, fleet, JobProgress(step=9, stepped=now)))  # type: ignore[arg-type]
    (row,) = as_json(JOBS.columns, [line])
    assert (row["state"], row["health"]["level"]) == ("running", "late")
    assert row["why"] == "the others wait for one rank in each step"
    assert row["verdict"].startswith(f"{words} (measured at ")
    assert plain_text(reason_cell(line)) == "waits for rank 9", "a column has no room for more"
    lines = list(_next_steps(session, "one", None, line, AlarmReport()))  # type: ignore[arg-type]
    assert lines == [f"{line.health.verdict}.", *advice]
    slower = replace(line, job_progress=JobProgress(step=9, stepped=now, slower="step time up from 2 s to 3 s"))
    assert slower.health.words == "step time up from 2 s to 3 s"
    assert slower.health.verdict == line.health.verdict, "the slow rank is why"


async def test_a_rank_that_only_launches_later_is_reported_and_is_no_trouble() -> None:
    session, running, now = FakeSession(), scene.jobset("one", 1), time.time()
    words, advice = "Rank 9 launches later than the others for 7 % of each step", ("Not certain: ask the recorders.",)
    await session.diagnoses.record(Diagnosis(running.uid, DiagnosisKind.LATE, now - 60, words, advice=advice))
    fleet = replace(fleet_of(running, scene.rank(running, 0, "n1")), at=now)
    line = with_diagnoses(session, JobLine(running, fleet, JobProgress(step=9, stepped=now)))  # type: ignore[arg-type]
    assert (line.health.level, line.has_trouble) == (HealthLevel.GOOD, False), "whether the others wait is not known"
    said = "".join(run.text for run in explanation(line, is_gone=False))
    assert said == f"{line.health.verdict}. M in the Hang tab measures whether they wait. "
    slower = replace(line, job_progress=JobProgress(step=9, stepped=now, slower="step time up from 2 s to 3 s"))
    assert slower.health.verdict.startswith(f"{words} (measured at ")
    assert not slower.has_trouble, "who is at fault is not known"
    said = "".join(run.text for run in explanation(slower, is_gone=False))
    assert said.endswith("). M in the Hang tab measures whether they wait. ")
    assert list(_next_steps(session, "one", None, slower, AlarmReport())) == [  # type: ignore[arg-type]
        f"{slower.health.verdict}.", *advice,
    ]  # fmt: skip


@pytest.fixture
def fleet() -> Fleet:
    """Two A4 hosts, one taken; a queue of 16 GPUs with one job running and one waiting for 16."""
    group = ReplicatedJob("workload", pods_per_job=1, gpus_per_pod=8, ready=1)
    wide = ReplicatedJob("workload", pods_per_job=2, gpus_per_pod=8)
    reserved = (Condition("QuotaReserved", "True"), Condition("Admitted", "True"))
    return fleet_of(
        Node("n1", pool="a4", gpus=8, gpu_capacity=8, ready=True, block="b", subblock="s"),
        Node("n2", pool="a4", gpus=8, gpu_capacity=8, ready=True, block="b", subblock="s"),
        Pod("default", "one-0", node="n1", jobset="one", jobset_uid="u1", replicated_job="workload", job_index=0,
            completion_index=0, containers=(Container("workload", "running"),), phase="Running", gpus=8),
        Pod("team-b", "other", phase="Pending"),
        JobSet("default", "one", uid="u1", queue="a4", groups=(group,)),
        JobSet("default", "two", uid="u2", queue="a4", suspended=True, groups=(wide,)),
        ClusterQueue("a4", quotas=(Quota("a4", GPU, 16),), reserved=(Usage("a4", GPU, 8),), pending=1, admitted=1),
        LocalQueue("default", "a4", cluster_queue="a4", pending=1),
        Workload("default", "w1", queue="a4", cluster_queue="a4", owner_name="one", owner_uid="u1",
                 pod_sets=(PodSet("workload", 1, ((GPU, 8),)),), conditions=reserved),
        Workload("default", "w2", queue="a4", owner_name="two", owner_uid="u2",
                 pod_sets=(PodSet("workload", 2, ((GPU, 8),)),)),
    )  # fmt: skip


KEYS = {
    "jobs": (
        "category created expected_start finished gpus health max_restarts mine name namespace next owner phase pods "
        "progress queue ranks recipe removed restarts seconds_left state trend verdict why"
    ),
    "nodes": (
        "block cordon_reason cordoned created fault_reports faults free gpus host jobs last_busbw machine_type "
        "maintenance_at name not_ready pool provisioning ready reservation starting subblock used version zone"
    ),
    "pods": (
        "attempt completion_index created gpus ip job_index jobset message name namespace node phase ready "
        "replicated_job restarts status"
    ),
    "pools": (
        "accelerator cordoned faulty free free_slots gpus machine_type maintenance name "
        "nodes out provisioning ready reservation used zones"
    ),
    "queues": (
        "admitted borrowed borrows can_borrow cohort flavors free lent local_queues maximum name nominal pending "
        "stopped strategy sum used waiting"
    ),
    "workloads": (
        "ahead category cluster_queue evictions expected_start gpus holders job kueue_says name namespace owner "
        "position priority priority_class queue queued_since short_by state unblocks why"
    ),
}
"""What programs read of each list: a key that goes breaks them."""


@pytest.mark.parametrize("name", LISTS)
def test_rows_have_the_keys_that_programs_know(name: str, fleet: Fleet) -> None:
    rows = layout_of(name).rows(fleet)
    assert rows
    assert {tuple(sorted(row)) for row in rows} == {tuple(KEYS[name].split())}


@pytest.mark.parametrize("name", LISTS)
def test_rows_become_json_and_a_table(name: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    layout = layout_of(name)
    rows = list(layout.make_rows(fleet, None, str))
    assert len(json.loads(msgspec.json.encode(layout.rows(fleet)))) == len(rows)
    print_rows(layout, rows, name)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(rows)
    titles = [column.title for column in layout.columns if column.only in {"", "command"}]
    assert all(title in lines[0] for title in titles)


def test_a_pool_counts_its_gpus(fleet: Fleet) -> None:
    (pool,) = layout_of("pools").rows(fleet)
    assert (pool["nodes"], pool["gpus"], pool["used"], pool["free"], pool["free_slots"]) == (2, 16, 8, 8, 1)


def test_a_waiting_workload_says_why_with_numbers(fleet: Fleet) -> None:
    waiting, running = sorted(layout_of("workloads").rows(fleet), key=lambda row: row["position"] is None)
    assert (running["job"], running["position"], running["why"]) == ("one", None, "")
    assert (waiting["job"], waiting["position"], waiting["short_by"]) == ("two", 1, 8)
    assert "needs 16 GPUs of flavor a4; 16 own - 8 used = 8 free, 8 more needed" in waiting["why"]


def test_only_what_is_in_a_queue_has_a_place_and_a_wait(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.time() - 3 * 3600
    evicted = (Condition("Evicted", "True", "Preempted", since=began + 3600),)
    workloads = {
        key: structs.replace(each, created=began, priority=1000, priority_class="high",
                     conditions=each.conditions or evicted)
        for key, each in fleet.workloads.items()
    }  # fmt: skip
    layout, shown = layout_of("workloads"), replace(fleet, workloads=workloads)
    found = {row["job"]: (row["position"], row["queued_since"], row["state"]) for row in layout.rows(shown)}
    assert found == {"one": (None, None, "admitted"), "two": (1, began + 3600, "pending")}
    print_rows(layout, list(layout.make_rows(shown, None, str)), "workloads")
    titles, two, one = capsys.readouterr().out.splitlines()
    assert two[titles.index("SINCE") :].startswith("2h00m")
    assert one[titles.index("SINCE") :].split() == ["running"], "when it got its quota is not said"
    assert one[titles.index("PRIORITY") :].split()[0] == "high"


def test_a_namespace_leaves_out_the_others(fleet: Fleet) -> None:
    assert [row["name"] for row in layout_of("pods").rows(fleet, "default")] == ["one-0"]
    assert len(layout_of("pods").rows(fleet)) == 2


def test_no_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(layout_of("jobs"), [], "jobs")
    assert capsys.readouterr().out == "No jobs.\n"


def test_jobs_read_all_that_the_reasons_of_workloads_stand_on() -> None:
    """A reason made from fewer kinds would differ from the one in the other list."""
    jobs, workloads = layout_of("jobs"), layout_of("workloads")
    assert {workloads.main_kind, *workloads.uses} - {"topologies"} <= {jobs.main_kind, *jobs.uses}


async def test_a_wait_for_the_end_says_why_it_waits(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession(fleet)
    waiting = next(job for job in fleet.jobsets.values() if job.state is JobState.PENDING)
    end = asyncio.create_task(wait_for_end(session, *waiting.key, as_json=False))  # type: ignore[arg-type]
    said = ""
    async with asyncio.timeout(60):
        while "more needed" not in said:
            await asyncio.sleep(0)
            said += capsys.readouterr().err
    session.show(jobsets={})
    with pytest.raises(NotFound, match="was deleted before it ended"):
        await end
    assert f"{waiting.name}: pending\n" in said


@pytest.mark.slow(reason="waits for the end of a job")
async def test_a_wait_for_the_end_tells_each_alarm_once(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession(fleet)
    runs = next(job for job in fleet.jobsets.values() if job.state is JobState.RUNNING)
    watch = AlarmWatch(runs.key, Thresholds(), time.time())
    watch.alarms.append(
        Alarm(AlarmKind.NAN, "loss is NaN since step 20 (last good 10.58 at 19)", time.time(), *runs.key)
    )
    watched = session.alarms.watched[runs.key] = monitor(runs.key, watch)
    end = asyncio.create_task(wait_for_end(session, *runs.key, as_json=False))  # type: ignore[arg-type]
    said = ""
    async with asyncio.timeout(60):
        while "NaN" not in said:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().err
    watch.alarms.append(Alarm(AlarmKind.GPU, "Xid 79", time.time(), *runs.key))
    watched.measures = JobMeasures(runs.key)
    watched.is_complete = True
    done = structs.replace(runs, conditions=(Condition("Completed", "True", since=time.time()),))
    session.show(jobsets={runs.key: done})
    assert await end == 5
    said += capsys.readouterr().err
    assert said.count(f"{runs.name}: ▲ NaN: loss is NaN since step 20 (last good 10.58 at 19). a4 training") == 1
    assert said.count(f"{runs.name}: ▲ gpu: Xid 79.") == 1


def test_what_the_screen_shows_of_progress_and_start_is_in_the_json_of_jobs(fleet: Fleet) -> None:
    runs = next(each for each in fleet.jobsets.values() if each.state is JobState.RUNNING)
    waits = next(each for each in fleet.jobsets.values() if each.state is JobState.PENDING)
    start = ExpectedStart(fleet.at + 600, "llama-70b", latest=True)
    job_progress = JobProgress(step=40, total=100, loss=0.25, step_time=3.0, pace=3.0)
    rows = [
        JobLine(runs, fleet, job_progress, expected_start=start),
        JobLine(waits, fleet, None, expected_start=start),
        JobLine(runs, fleet),
    ]
    keys = "progress", "seconds_left", "expected_start"
    explanation = [{key: row[key] for key in keys} for row in as_json(JOBS.columns, rows)]
    assert explanation == [
        {"progress": {"step": 40, "total": 100, "loss": 0.25, "size": None, "busbw": None}, "seconds_left": 180.0,
         "expected_start": None},
        {"progress": None, "seconds_left": None, "expected_start": {
            "at": fleet.at + 600, "after": "llama-70b", "latest": True, "window": None, "not_before": None,
            "not_after": fleet.at + 600, "at_once_if_ends": (), "quota_at": None, "checks": (), "unknown": "",
            "words": start_words(start, fleet.at)}},
        {"progress": None, "seconds_left": None, "expected_start": None},
    ]  # fmt: skip


def test_sentences_come_last_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = "Kubelet stopped posting node status for longer than anybody waits, and nobody knows why or since when"

    layout = layout_of("nodes")
    print_rows(layout, list(layout.make_rows(fleet_of(Node("n1", gpus=8, not_ready_reason=long)), None, str)), "nodes")
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.split()[-1] == "STATE"
    assert row.endswith(long)


async def test_faulty_nodes_alone_are_listed_and_are_an_alarm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for nodes, code, names in (
        ((Node("n1", gpus=8, not_ready_reason="KubeletNotReady"), Node("n2", gpus=8, ready=True)), 5, ["n1"]),
        ((Node("n2", gpus=8, ready=True),), 0, []),
    ):
        monkeypatch.setattr(lists, "open_session", given(FakeSession(fleet_of(*nodes))))
        assert await perform(parse(["nodes", "--faulty", "--json"])) == code
        assert [each["name"] for each in json.loads(capsys.readouterr().out)["items"]] == names
        assert await perform(parse(["nodes", "--faulty"])) == code
        out = capsys.readouterr().out
        assert [line.split()[0] for line in out.splitlines()[1:]] == names
        assert names or out == "No faulty nodes.\n"
        assert await perform(parse(["nodes"])) == 0
        capsys.readouterr()


def test_what_is_well_has_no_mark_in_a_command() -> None:
    assert plain_text([OK, Span(" Running")]) == "Running"
    assert plain_text([BAD, Span(" Error", "bad")]) == "✗ Error"
    assert plain_text([*bar(1, 2, 4), Span(" 50 %")]) == "50 %"
    assert plain_text([*bar(2, 2, 4), Span(" 100 %")]) == "100 %"
    assert plain_text(Span("▁▃█▅▂", "accent")) == "▁▃█▅▂", "the peak of a trend is not a bar"
    assert plain_text([Span("● ", "ok"), Span("active", "dim")]) == "active"


def test_lists_say_of_the_pods_that_they_ask_for_what_they_would_of_all() -> None:
    fleet = scene.scene()
    daemon = Pod("kube-system", "daemon", uid="d", phase="Running", node=next(iter(fleet.nodes))[1])
    every = replace(fleet, pods={**fleet.pods, ("kube-system", "daemon"): daemon})
    holding = replace(fleet, pods={key: pod for key, pod in fleet.pods.items() if pod.holds_gpus})
    assert len(holding.pods) < len(fleet.pods)
    for name in SELECTORS_OF_LIST.keys() - {"jobs"}:
        layout = layout_of(name)
        for few in (fleet, *([holding] if name in {"nodes", "pools"} else ())):
            shown = [text_table(layout.columns, layout.make_rows(each, None, str)) for each in (few, every)]
            assert shown[0] == shown[1]
    fleet = queue_scene()
    fleet = replace(fleet, jobsets={key: job for key, job in fleet.jobsets.items() if job.name in {"llama", "sweep"}})
    stranger = Pod("default", "stranger", uid="s", phase="Running", node=next(iter(fleet.nodes))[1], gpus=8)
    more = replace(fleet, pods={**fleet.pods, ("default", "stranger"): stranger})
    of_node = Event("default", "sweep-0.1", kind="Node", object_name="sweep-0", object_uid="sweep-0", reason="Rebooted")
    told = replace(fleet, events={**fleet.events, ("default", "sweep-0.1"): replace(of_node, last=fleet.at)})
    shown = [text_table(JOBS.columns, JOBS.make_rows(each, None, str)) for each in (fleet, more, told)]
    assert shown[0] == shown[1] == shown[2]
    assert SELECTORS_OF_LIST["jobs"]["events"] == {"fieldSelector": "involvedObject.kind!=Node"}


@pytest.mark.parametrize(
    ("names", "state", "query"),
    [
        (("b", "a"), JobState.RUNNING, {"labelSelector": "jobset.sigs.k8s.io/jobset-name in (a,b)"}),
        (map(str, range(MAX_SELECTED_JOBS + 1)), JobState.RUNNING, {"labelSelector": "jobset.sigs.k8s.io/jobset-name"}),
        (("a",), JobState.PENDING, gpu_pod_selectors),
        ((), JobState.RUNNING, None),
    ],
    ids=["that run", "many", "one that waits for what others have", "none"],
)
async def test_of_pods_those_are_listed_that_tell_how_jobs_are(
    names: Iterable[str], state: JobState, query: object
) -> None:
    group = ReplicatedJob("w", pods_per_job=1, ready=1)
    jobs = [JobSet("default", name, groups=(group,), suspended=state is JobState.PENDING) for name in names]
    assert {each.state for each in jobs} <= {state}
    asked: list[object] = []

    async def select(kind: str, query: object) -> None:
        asked.append(query)

    await list_pods_of(SimpleNamespace(watch=SimpleNamespace(set_selector=select)), jobs)  # type: ignore[arg-type]
    assert asked == ([] if query is None else [query])


async def test_pods_are_asked_for_while_other_lists_are_under_way() -> None:
    pods_asked_for = asyncio.Event()

    async def wait_until_listed(*kinds: str, **_: float) -> None:
        if kinds != ("jobsets",):
            await pods_asked_for.wait()

    async def list_pods() -> None:
        pods_asked_for.set()

    watch = SimpleNamespace(wait_until_listed=wait_until_listed, started_kinds=("jobsets", "nodes"))
    session = SimpleNamespace(watch=watch, wait_until_listed=wait_until_listed)
    async with asyncio.timeout(10):
        await lists.wait_with_pods(session, list_pods)  # type: ignore[arg-type]
