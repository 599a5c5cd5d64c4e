"""`a4 logs --all` and `a4 why`, through the command line."""

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.errors import BadInput, ConsoleError, NotAllowed, NotFound, NotLoggedIn, Unreachable
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import Outcome, RunRecord
from console.logs.job_log import JobLog, LogCoverage
from console.logs.log_line import LogLine, PodLine
from console.metrics.alarm import AlarmKind
from console.scheduling.why_job import why_job
from screens.cli import logs, logs as log_printers, logs as log_tail, why
from screens.cli.logs import parse_moment, tail_then_follow
from tests.fakes import FakeSession
from tests.screens.cli.commands import given, parse
from tests.screens.queue_scene import queue_scene

PODS = [f"llama-workload-0-{rank}-x7k{rank}" for rank in range(6)]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> FakeSession:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    made = FakeSession(queue_scene())
    now = time.time()
    for rank, pod in enumerate(PODS):
        texts = ["ready", f"warning: mine is {'abcdef'[rank]}", *(["RuntimeError: x"] if rank == 4 else [])]
        made.printed["default", pod] = [LogLine(now + at, text) for at, text in enumerate(texts)]
    return made


async def say(
    session: FakeSession, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0
) -> tuple[list[str], str]:
    options = parse(list(words))
    ended = (
        why.why(options, given(session)) if words[0] == "why" else logs.logs(options, given(session), session.read_text)
    )
    assert await ended == code
    out, err = capsys.readouterr()
    return out.splitlines(), err


async def test_all_ranks_by_time_and_how_much_of_them(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = await say(session, capsys, "logs", "llama", "--all")
    assert out[:6] == [f"[{rank}] ready" for rank in range(6)]
    assert out[-1] == "[4] RuntimeError: x"
    assert "6 of 6 read, 0 lines lost" in err


async def test_a_log_of_no_pod_that_was_named_names_its_pod(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, named in (("llama",), True), (("llama", "0"), False), (("llama", "--all"), False):
        _, err = await say(session, capsys, "logs", *words)
        assert ("pod 0 of 6; another: a4 logs llama POD, all of them: --all" in err) == named, words


async def test_the_last_lines_are_so_many_whatever_is_kept(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    everything, _ = await say(session, capsys, "logs", "llama", "--all")
    assert len(everything) == 13
    out, _ = await say(session, capsys, "logs", "llama", "--all", "--tail", "1")
    assert sorted(out) == sorted([f"[{rank}] warning: mine is {'abcdef'[rank]}" for rank in (0, 1, 2, 3, 5)] + out[-1:])
    assert out[-1] == "[4] RuntimeError: x"


async def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(
    session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    bars = [LogLine(1.0, f"{at}%|{'#' * at}", open=at < 30) for at in (10, 20, 30)]
    session.printed["default", PODS[0]] = [*bars, LogLine(2.0, "over")]
    out, _ = await say(session, capsys, "logs", "llama", "0", "-f")
    assert out == [bars[-1].text, "over"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert await logs.logs(parse(["logs", "llama", "0", "-f"]), given(session), session.read_text) == 0
    drawn = [f"\x1b[K10%|{'#' * 10}\r", f"\x1b[K20%|{'#' * 15}\r", f"\x1b[K{bars[-1].text}\n"]
    assert capsys.readouterr().out == "".join([*drawn, "over\n"])


async def test_following_begins_with_so_many_last_lines_of_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    now, more = time.time(), asyncio.Event()

    async def printed() -> AsyncGenerator[list[PodLine], None]:
        for at in range(50):  # kept, and printed since
            yield [PodLine(rank, now - 100 + at, f"{rank} line {at}") for rank in (0, 1)]
        yield [PodLine(0, now + 100, "0 new")]
        await more.wait()
        yield [PodLine(1, now + 101, "1 later"), PodLine(0, now - 1, "0 late")]

    log = cast("JobLog", SimpleNamespace(coverage=LogCoverage(total=2, live=2)))
    monkeypatch.setattr(log_tail, "_PAUSE_SECONDS", 0.001)
    async with aclosing(printed()) as lines, aclosing(tail_then_follow(lines, log, 2, follow=True)) as tail:
        first = await anext(tail)
        assert [line.text for line in first] == ["0 line 48", "1 line 48", "0 line 49", "1 line 49", "0 new"]
        more.set()
        assert [line.text for line in await anext(tail)] == ["1 later", "0 late"]
        assert await anext(tail, None) is None


async def test_following_shows_what_is_there_though_ranks_wait_for_their_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail, "CATCH_UP_SECONDS", 0.2)

    async def printed() -> AsyncGenerator[list[PodLine], None]:
        yield [PodLine(0, 1.0, "one"), PodLine(0, 2.0, "two")]
        await asyncio.Event().wait()

    log = cast("JobLog", SimpleNamespace(coverage=LogCoverage(total=2, live=1, waiting=1)))
    async with aclosing(printed()) as lines, aclosing(tail_then_follow(lines, log, 1, follow=True)) as tail:
        assert [line.text for line in await anext(tail)] == ["two"]


async def test_a_job_without_pods_is_named_and_not_one_of_its_ranks(session: FakeSession) -> None:
    with pytest.raises(NotFound, match=r"^dpo-b has no pods: the job is"):
        await logs.logs(parse(["logs", "dpo-b", "--all"]), given(session), session.read_text)
    with pytest.raises(NotFound, match=r"^Pod 1 of dpo-b is not there"):
        await logs.logs(parse(["logs", "dpo-b", "1"]), given(session), session.read_text)


async def test_consensus_levels_patterns_and_json(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await say(session, capsys, "logs", "llama", "--all", "--consensus")
    assert out[0] == "[6/6] ready"
    assert out[-1] == "[pod 4] RuntimeError: x"
    out, _ = await say(session, capsys, "logs", "llama", "--all", "--level", "error")
    assert out == ["[4] RuntimeError: x"]
    out, _ = await say(session, capsys, "logs", "llama", "2", "--grep", "mine")
    assert out == ["warning: mine is c"]
    out, _ = await say(session, capsys, "logs", "llama", "--all", "--grep", "ready", "--json")
    read = [json.loads(line) for line in out]
    assert [line["rank"] for line in read[:-1]] == list(range(6))
    assert read[-1]["coverage"]["words"] == "6 of 6 read, 0 lines lost"
    out, _ = await say(session, capsys, "logs", "llama", "--all", "--since", "1d", "--consensus", "--json")
    assert json.loads(out[0])["ranks"] == list(range(6))


@pytest.mark.parametrize("words", [(), ("-f",), ("--json",), ("-f", "--grep", "x")])
async def test_a_rank_whose_pod_is_gone_and_of_which_nothing_was_kept_is_named(
    session: FakeSession, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    session.show(
        pods={key: pod for key, pod in session.fleet.pods.items() if not key[1].startswith("sweep-workload-0-0")}
    )
    with pytest.raises(NotFound, match=r"^Pod 0 of sweep is gone, and nothing .* was kept: the job is"):
        await logs.logs(parse(["logs", "sweep", "0", *words]), given(session), session.read_text)
    assert capsys.readouterr().out == ""
    session.printed["default", "sweep-workload-0-1-x7k1"] = []
    assert await say(session, capsys, "logs", "sweep", "1", "--grep", "x") == (
        [],
        "",
    )  # its pod is there, and printed nothing


@pytest.mark.parametrize("words", [(), ("--tail", "5"), ("--json",)])
async def test_unless_a_pod_is_named_one_is_shown_of_which_there_is_a_log(
    session: FakeSession, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    session.show(
        pods={key: pod for key, pod in session.fleet.pods.items() if not key[1].startswith("sweep-workload-0-0")}
    )
    session.printed["default", "sweep-workload-0-1-x7k1"] = [LogLine(time.time(), "out of memory")]
    out, err = await say(session, capsys, "logs", "sweep", *words)
    assert "out of memory" in out[0]
    assert "Pod 0 of sweep is gone, and nothing of its log was kept: this is the log of pod 1, which " in err


async def test_of_a_deleted_job_a_rank_is_named_of_which_nothing_was_kept(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    del session.printed["default", PODS[3]]
    await say(session, capsys, "logs", "llama", "--all")
    session.show(jobsets={}, pods={})
    with pytest.raises(NotFound, match=r"^llama is gone, and nothing of the log of its pod 3 was kept") as raised:
        await logs.logs(parse(["logs", "llama", "3"]), given(session), session.read_text)
    assert "a4 logs llama --all" in raised.value.hint
    with pytest.raises(BadInput, match=r"^llama has no pod 6"):
        await logs.logs(parse(["logs", "llama", "6"]), given(session), session.read_text)


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("llama", {"jobsets": {"fieldSelector": "metadata.name=llama"},
                   "pods": {"labelSelector": "jobset.sigs.k8s.io/jobset-name=llama"}}),
        (f"pod/{PODS[2]}", {"pods": {"fieldSelector": f"metadata.name={PODS[2]}"}}),
        ("llama,x", None),
    ],
)  # fmt: skip
async def test_for_the_log_of_a_pod_its_job_alone_is_listed(
    session: FakeSession, name: str, only: dict[str, dict[str, str]] | None
) -> None:
    asked = []

    def connect(_: object, kinds: tuple[str, ...], **how: object) -> Any:
        asked.append((kinds, how))
        return nullcontext(session)

    with suppress(NotFound):
        await logs.logs(parse(["logs", name, "-f"]), connect, session.read_text)
    every = (("jobsets", "jobs", "pods"), {"is_brief": False})
    assert asked == [every if only is None else (tuple(only), {"is_brief": True, "selectors": only})]


async def test_one_rank_and_all_of_them_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^Both pod 0 and all pods were named"):
        await logs.logs(parse(["logs", "llama", "0", "--all"]))


class Clock:
    """Each look at it is a tenth of a second after the one before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.a_second = asyncio.Event()

    def monotonic(self) -> float:
        self.now += 0.1
        if self.now >= 1:
            self.a_second.set()
        return self.now

    def time(self) -> float:
        return 1000.0 + self.now


async def followed_by_consensus(
    monkeypatch: pytest.MonkeyPatch, batches: list[list[PodLine]], last: str, *, waiting: int = 0
) -> tuple[list[str], float]:
    """What is printed until the line with those words is, after which nothing more comes, and when that was."""
    clock, printed, seen = Clock(), list[str](), asyncio.Event()
    monkeypatch.setattr(log_printers, "time", clock)
    monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)
    monkeypatch.setattr(time, "time", clock.time)
    monkeypatch.setattr(log_tail, "_PAUSE_SECONDS", 0.0005)

    def write(text: str) -> None:
        printed.append(text)
        if last in text:
            seen.set()

    async def lines() -> AsyncGenerator[list[PodLine], None]:
        await clock.a_second.wait()  # the server is slow to answer: some pauses before the first line
        for batch in batches:
            yield batch
        await asyncio.Event().wait()

    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=write, flush=lambda: None))
    log = SimpleNamespace(
        folder=SimpleNamespace(problem="Not saved to disk: no space left on device; following continues"),
        gaps=(),
        iter_lines=lambda _: lines(),
        ranks=2,
        coverage=LogCoverage(total=2, live=2 - waiting, waiting=waiting),
    )
    options = parse(["logs", "llama", "--all", "-f", "--consensus"])
    task = asyncio.create_task(logs.print_all(cast("JobLog", log), options, logs.LineSelection(options)))
    try:
        await asyncio.wait_for(seen.wait(), 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return printed, clock.now


async def test_a_last_line_of_one_rank_is_printed_though_nothing_else_comes_nor_the_disk_takes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [
        [PodLine(0, 1000.0, "step 1"), PodLine(1, 1000.0, "step 1")],
        [PodLine(1, 1001.0, "CUDA error")],
    ]
    printed, at = await followed_by_consensus(monkeypatch, batches, "CUDA error")
    assert printed == ["[2/2] step 1\n", "[pod 1] CUDA error\n"]
    assert at >= log_printers.AGREEMENT_SECONDS
    assert capsys.readouterr().err == "a4: Not saved to disk: no space left on device; following continues.\n"


@pytest.mark.parametrize("waiting", [0, 1])
async def test_what_was_there_when_following_began_is_printed_at_once(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    batches = [
        [PodLine(0, 100.0, "ready"), PodLine(0, 300.0, "mine")],
        [PodLine(1, 101.0, "ready"), PodLine(1, 200.0, "RuntimeError")],
    ]
    printed, at = await followed_by_consensus(monkeypatch, batches, "mine", waiting=waiting)
    assert printed == ["[2/2] ready\n", "[pod 1] RuntimeError\n", "[pod 0] mine\n"]
    assert at < log_printers.AGREEMENT_SECONDS - 1


def started_again(session: FakeSession) -> None:
    """All pods of llama are new ones, and the container of rank 2 was started a second time in its."""
    pods = dict(session.fleet.pods)
    for rank, name in enumerate(PODS):
        pod = pods.pop(("default", name))
        main = structs.replace(pod.containers[-1], restarts=int(rank == 2))
        fresh = structs.replace(pod, name=f"{name}-new", uid=f"new-{rank}", attempt=1, containers=(main,))
        pods["default", fresh.name] = fresh
        session.printed["default", fresh.name] = [LogLine(time.time() + 60, f"pod {rank} runs again")]
    session.show(pods=pods)
    session.previous_logs["default", f"{PODS[2]}-new"] = [
        LogLine(time.time() + 30 + at, f"before {at}") for at in (0, 1)
    ]


async def test_the_previous_runs_of_all_ranks_come_from_their_containers_and_from_what_was_kept(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    del session.printed["default", PODS[5]]
    await say(session, capsys, "logs", "llama", "--all")
    started_again(session)
    out, err = await say(session, capsys, "logs", "llama", "--all", "--previous")
    assert out == [
        *(f"[{rank}] ready" for rank in (0, 1, 3, 4)),
        *(f"[{rank}] warning: mine is {'abcdef'[rank]}" for rank in (0, 1, 3, 4)),
        "[4] RuntimeError: x", "[2] before 0", "[2] before 1",
    ]  # fmt: skip
    assert "previous run: 5 of 6 read, 0 lines lost" in err
    assert "pod 5: its earlier pod is gone, and no log of an earlier run was kept" in err
    out, _ = await say(session, capsys, "logs", "llama", "--all", "-p", "--tail", "1", "--grep", "before|mine")
    assert [line[:3] for line in out] == ["[0]", "[1]", "[3]", "[2]"]
    out, _ = await say(session, capsys, "logs", "llama", "--all", "-p", "--consensus", "--json")
    assert json.loads(out[0])["ranks"] == [0, 1, 3, 4]
    assert json.loads(out[-1])["coverage"]["words"].startswith("previous run: 5 of 6 read")


async def test_the_previous_run_of_one_rank(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound, match=r"^No pod of llama has a previous run: not started again"):
        await say(session, capsys, "logs", "llama", "--all", "--previous")
    await say(session, capsys, "logs", "llama", "--all")
    started_again(session)
    assert (await say(session, capsys, "logs", "llama", "2", "-p"))[0] == ["before 0", "before 1"]
    assert (await say(session, capsys, "logs", "llama", "4", "-p"))[0][-1] == "RuntimeError: x"
    session.previous_logs.clear()  # the kubelet has removed it, and what was kept is of the run before that one
    assert (await say(session, capsys, "logs", "llama", "2", "-p"))[0] == ["ready", "warning: mine is c"]
    await say(session, capsys, "logs", "llama", "--all")
    session.show(jobsets={}, pods={})
    out, err = await say(session, capsys, "logs", "llama", "--all", "-p")
    assert out[-1] == "[4] RuntimeError: x"
    assert not any("runs again" in line for line in out)
    assert "is not in the cluster any more" in err
    with pytest.raises(BadInput, match="llama has no pod 6"):
        await say(session, capsys, "logs", "llama", "6", "-p")
    with pytest.raises(NotFound, match="There is no job never"):
        await say(session, capsys, "logs", "never", "-p")


async def test_a_job_that_was_started_again_counts_as_started_again(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    jobset = session.fleet.jobsets["default", "llama"]
    with pytest.raises(NotFound, match=r"run: not started again, and no log of an earlier run was kept\."):
        await say(session, capsys, "logs", "llama", "-p")
    session.show(jobsets={("default", "llama"): structs.replace(jobset, restarts=2)})
    gone = r"run: its earlier pod is gone, and no log of an earlier run was kept\."
    with pytest.raises(NotFound, match=gone):
        await say(session, capsys, "logs", "llama", "-p")
    await say(session, capsys, "logs", "llama", "--all")
    over = structs.replace(jobset, terminal_state="Failed")
    session.show(jobsets={("default", "llama"): structs.replace(over, restarts=2)}, pods={})
    assert len((await say(session, capsys, "logs", "llama", "-p"))[0]) == 2  # what was kept is of the first attempt
    session.show(jobsets={("default", "llama"): over})  # and here of the only one
    with pytest.raises(NotFound, match="run: it has no pod, and no log of an earlier run was kept"):
        await say(session, capsys, "logs", "llama", "-p")


@pytest.mark.parametrize(("error", "code"), [(NotAllowed("no"), 3), (NotLoggedIn("who"), 3), (Unreachable("gone"), 4)])
async def test_what_the_cluster_refuses_is_no_missing_run(
    error: ConsoleError, code: int, session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    started_again(session)
    session.previous_logs.clear()
    with pytest.raises(NotFound, match="started again, but its log of before cannot be read"):
        await say(session, capsys, "logs", "llama", "2", "-p")
    session.unread["default", f"{PODS[2]}-new"] = error
    for words in (("llama", "2"), ("llama", "--all")):
        with pytest.raises(type(error)) as raised:
            await say(session, capsys, "logs", *words, "-p")
        assert raised.value.exit_code == code


async def test_a_previous_run_is_not_followed(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="cannot be followed") as raised:
        await say(session, capsys, "logs", "llama", "-p", "-f")
    assert (raised.value.exit_code, session.calls) == (2, [])


async def test_a_deleted_job_is_read_from_what_was_kept(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    await say(session, capsys, "logs", "llama", "--all")
    session.show(jobsets={}, pods={})
    out, err = await say(session, capsys, "logs", "llama", "4")
    assert out[-1] == "RuntimeError: x"
    assert "is not in the cluster any more" in err
    with pytest.raises(NotFound, match="There is no job never"):
        await say(session, capsys, "logs", "never", "--all")


async def test_why_a_job_failed_waits_or_runs(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.printed["default", "sweep-workload-0-1-x7k1"] = [
        LogLine(time.time(), "NVRM: Xid (PCI:0000:0f:00): 79, off")
    ]
    out, _ = await say(session, capsys, "why", "sweep", code=1)
    assert out[0].startswith(
        "sweep failed: Xid 79 on 0000:0f:00: off; pod 1 ended first with exit code 137 (OOMKilled)"
    )
    assert out[1].startswith("Pod 1 failed first: exit code 137 (SIGKILL), OOMKilled on gke-train-a4-pool-0009")
    assert any(line.startswith("Xid 79 on 0000:0f:00: ") for line in out)
    out, _ = await say(session, capsys, "why", "dpo-b")
    assert "needs 32 GPUs" in out[0]
    out, _ = await say(session, capsys, "why", "llama", "--json")
    assert json.loads("\n".join(out))["card"] is None
    with pytest.raises(NotFound):
        await say(session, capsys, "why", "never")


@pytest.mark.parametrize(
    ("outcome", "reason", "how"),
    [
        (Outcome.STOPPED, "stopped by a person, stalled since step 12", "stopped by a person, stalled since step 12"),
        (Outcome.STOPPED, "", "stopped"),
        (Outcome.FAILED, "exit code 1", "failed: exit code 1"),
        (Outcome.RUNNING, "", "how it ended is not known"),
    ],
)
async def test_why_tells_how_a_job_ended_that_is_in_the_cluster_no_longer(
    session: FakeSession, capsys: pytest.CaptureFixture[str], outcome: Outcome, reason: str, how: str
) -> None:
    run = RunRecord("ddp-smoke", "h1", "default", number=3, server=session.watch.server, outcome=outcome, why=reason)
    elsewhere = replace(run, number=4, launched=9.0, server="https://other")
    session.launch.runs.runs = [elsewhere, run]
    with pytest.raises(NotFound) as raised:
        await say(session, capsys, "why", "h1")
    assert raised.value.message == f"h1 is no longer in the cluster (run 3): {how}."
    assert raised.value.hint == "a4 history 3 has more, and a4 logs h1 what was kept of its log."
    assert raised.value.exit_code == 1
    session.launch.runs.runs = [elsewhere]
    with pytest.raises(NotFound, match="There is no job h1"):
        await say(session, capsys, "why", "h1")


async def test_why_never_says_that_all_is_well(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    jobset = session.fleet.jobsets["default", "llama"]
    session.show(workloads={})
    assert (jobset.state, why_job(jobset, session.fleet).sentence) == ("running", "")
    out, _ = await say(session, capsys, "why", "llama")
    assert out == ["llama runs, and no alarm in 3 s (a4 alarms watches longer)."]
    assert json.loads("\n".join((await say(session, capsys, "why", "llama", "--json"))[0]))["alarms"] == []
    session.alarms.refused = "Could not read its log: no."
    out, _ = await say(session, capsys, "why", "llama")
    assert out == ["llama runs; its log cannot be read: Could not read its log: no."]
    session.alarms.refused, session.alarms.unread = "", "its log comes faster than it is read"
    out, _ = await say(session, capsys, "why", "llama")
    assert out == [
        "llama runs; its log comes faster than it is read, so whether it makes steps is not known (a4 alarms watches "
        "longer)."
    ]
    printed = (f"step {at}/970 loss {'nan' if at > 20 else '2.0'} lr 1e-4" for at in range(1, 60))
    session.printed["default", "llama-workload-0-0-x7k0"] = [LogLine(time.time() - 60, each) for each in printed]
    session.measures.progress_reader.reset()
    out, _ = await say(session, capsys, "why", "llama", code=5)  # what the end of its log tells is told all the same
    assert out[0].startswith("llama diverged: loss is NaN since step 21")
    session.printed.clear()
    session.measures.progress_reader.reset()
    session.alarms.sound("default", "llama", AlarmKind.NAN, "no loss printed at 118")
    out, _ = await say(session, capsys, "why", "llama", code=5)
    assert out == ["llama diverged: no loss printed at 118.", "a4 training llama shows its steps."]
    told = json.loads("\n".join((await say(session, capsys, "why", "llama", "--json", code=5))[0]))
    assert (told["why"], told["health"]["state"]) == ("no loss printed at 118", "diverged")
    assert [each["kind"] for each in told["alarms"]] == ["nan"]


def test_times_and_patterns_that_are_none() -> None:
    assert parse_moment("1970-01-01T00:00:10+00:00") == 10
    assert time.time() - parse_moment("2h") == pytest.approx(7200, abs=60)
    with pytest.raises(BadInput):
        parse_moment("yesterday")
    with pytest.raises(BadInput):
        logs.LineSelection(parse(["logs", "x", "--grep", "("]))


async def test_nobody_reads_on_and_the_log_is_closed_at_once(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    session.running.add(("default", PODS[0]))  # its log has no end
    monkeypatch.setattr("sys.stdout", Gone())
    with pytest.raises(BrokenPipeError):
        await logs.logs(parse(["logs", "llama"]), given(session), session.read_text)
    assert session.called("follow_log")
    assert not session._woken, "nobody waits for more of it"
