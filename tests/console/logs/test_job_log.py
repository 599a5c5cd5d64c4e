"""The log of a job whose ranks come, go, fail and are taken up again."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from console.errors import NotAllowed, Refused
from console.kube.objects.pod import Container
from console.logs.log_line import PodLine
from tests.apiserver import eventually
from tests.fakes import FakeLogs, FakeSession, fleet_of
from tests.screens.queue_scene import queue_scene, replaced

PODS = [f"llama-workload-0-{rank}-x7k{rank}" for rank in range(6)]


def session_of(tmp_path: Path) -> FakeSession:
    session = FakeSession(queue_scene())
    session.logs = FakeLogs(session, tmp_path)
    return session


@asynccontextmanager
async def reading(session: FakeSession, wanted: Collection[int] | None = None) -> AsyncIterator[list[PodLine]]:
    """The lines of llama, as they come."""
    lines: list[PodLine] = []

    async def read() -> None:
        async with session.logs.open_job_log("default", "llama") as log, aclosing(log.iter_lines(wanted)) as batches:
            async for batch in batches:
                lines.extend(batch)

    task = asyncio.create_task(read())
    try:
        yield lines
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def texts(lines: list[PodLine]) -> list[str]:
    return [line.text for line in lines]


def kept(folder: Path, pattern: str = "*.log") -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob(pattern))


async def test_all_ranks_are_followed_by_one_stream_each_however_many_read(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    for rank, pod in enumerate(PODS):
        session.say(pod, f"hello {rank}", at=100.0 + rank)
    async with reading(session) as every, reading(session, {3}) as third:
        await eventually(lambda: texts(every) == [f"hello {rank}" for rank in range(6)])
        await eventually(lambda: texts(third) == ["hello 3"])
        session.say(PODS[3], "more")
        await eventually(lambda: "more" in texts(every) and "more" in texts(third))
        assert sorted(call[1] for call in session.called("follow_log")) == PODS
        assert (third[0].rank, third[0].pod, third[0].container) == (3, PODS[3], "main")


async def test_a_new_pod_goes_on_and_the_old_lines_stay(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(PODS[0], "first life")
    async with reading(session, {0}) as lines:
        await eventually(lambda: texts(lines) == ["first life"])
        fleet = session.fleet
        again = structs.replace(replaced(fleet.pods["default", PODS[0]]), attempt=1)
        session.end(PODS[0])
        session.say(again.name, "second life")
        session.show(pods={**{key: each for key, each in fleet.pods.items() if key[1] != PODS[0]}, again.key: again})
        await eventually(lambda: texts(lines) == ["first life", "second life"])
        assert [line.attempt for line in lines] == [0, 1]


async def test_a_container_that_restarts_in_its_pod_is_taken_up_again_without_repeating(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(PODS[0], "one", "two")
    async with reading(session, {0}) as lines:
        await eventually(lambda: texts(lines) == ["one", "two"])
        session.end(PODS[0])
        await eventually(lambda: len(session.called("follow_log")) == 6)
        session.say(PODS[0], "three")
        pod = session.fleet.pods["default", PODS[0]]
        main = structs.replace(pod.containers[0] if pod.containers else Container("main"), state="running", restarts=1)
        session.show(pods={**session.fleet.pods, pod.key: structs.replace(pod, containers=(main,))})
        await eventually(lambda: texts(lines) == ["one", "two", "three"])


async def test_what_prepares_a_pod_is_read_too_but_not_what_runs_beside_it(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    pod = session.fleet.pods["default", PODS[0]]
    containers = (
        Container("prepare", "terminated", exit_code=0, init=True),
        Container("sidecar", "running", init=True),
        Container("main", "running"),
    )
    session.show(pods={**session.fleet.pods, pod.key: structs.replace(pod, containers=containers)})
    async with reading(session):
        await eventually(lambda: len(session.called("follow_log")) == 7)
        asked = {call[2] for call in session.called("follow_log") if call[1] == PODS[0]}
        assert asked == {"prepare", "main"}


async def test_a_deleted_job_is_read_from_the_disk_without_secrets(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(
        PODS[1],
        "token hf_abcdefghijklmnop",
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIabc",
        "-----END RSA PRIVATE KEY-----",
        "after",
    )
    async with reading(session) as lines:
        await eventually(lambda: "after" in texts(lines))
        assert not any("hf_abc" in text or "MII" in text for text in texts(lines))
    data = kept(tmp_path)
    assert b"after" in data
    assert b"hf_abc" not in data
    assert b"MIIabc" not in data
    session.show(jobsets={}, pods={})
    async with session.logs.open_job_log("default", "llama") as log:
        await log.ready.wait()
        assert log.gone
        found = [line async for batch in log.iter_lines() for line in batch]
        assert [line.text for line in found][-1] == "after"
        assert log.coverage.sentence == "6 of 6 ended, 0 lines lost"


async def test_what_is_kept_is_not_fetched_or_shown_again(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(PODS[0], "one", "two", at=1000.0)
    async with reading(session, {0}) as lines:
        await eventually(lambda: texts(lines) == ["one", "two"])
    session.say(PODS[0], "three", at=1001.0)
    async with reading(session, {0}) as lines:
        await eventually(lambda: texts(lines) == ["one", "two", "three"])
    assert kept(tmp_path, "0000.*").count(b"\n") == 3


async def test_two_consoles_on_one_job_see_everything_and_keep_it_once(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    other = FakeSession(session.fleet)
    other.logs = FakeLogs(other, tmp_path)
    other.printed, other.running = session.printed, session.running
    session.say(PODS[0], "one")
    async with reading(session, {0}) as first, reading(other, {0}) as second:
        await eventually(lambda: texts(first) == ["one"] and texts(second) == ["one"])
        session.say(PODS[0], "two")
        other._wake()
        await eventually(lambda: texts(first) == ["one", "two"] and texts(second) == ["one", "two"])
    assert kept(tmp_path, "0000.*").count(b"\n") == 2


async def test_a_refusal_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.answers["follow_log"] = NotAllowed("You may not read logs.", "Ask for pods/log.")
    async with session.logs.open_job_log("default", "llama") as log:
        await log.ready.wait()
        await eventually(lambda: log.coverage.refused == 6)
        assert "Ask for pods/log" in log.coverage.why
        assert "6 refused" in log.coverage.sentence


async def test_a_log_that_is_not_there_yet_is_asked_for_again_though_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.logs.job_log.REFUSED_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("console.logs.job_log.MAX_REFUSED_RETRY_SECONDS", 0.02)
    session = session_of(tmp_path)
    for pod in PODS:
        session.say(pod, "one")
    session.answers["follow_log"] = Refused('no logs found for container "main"', status=500)
    async with reading(session, {0}) as lines, session.logs.open_job_log("default", "llama") as log:
        await eventually(lambda: log.coverage.refused == 6)
        del session.answers["follow_log"]
        await eventually(lambda: texts(lines) == ["one"])
        await eventually(lambda: log.coverage.sentence == "6 of 6 live, 0 lines lost")


async def test_lines_that_nobody_could_read_stay_reported_once_another_pod_goes_on(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(PODS[0], "first life", at=1000.0)
    async with reading(session, {0}) as lines, session.logs.open_job_log("default", "llama") as log:
        await eventually(lambda: texts(lines) == ["first life"])
        fleet = session.fleet
        again = structs.replace(replaced(fleet.pods["default", PODS[0]]), attempt=1)
        session.cut(PODS[0], since=1000.0, until=1020.0)
        session.say(again.name, "second life")
        session.show(pods={**{key: each for key, each in fleet.pods.items() if key[1] != PODS[0]}, again.key: again})
        await eventually(lambda: texts(lines) == ["first life", "second life"])
        # The second pod's lines may come before the connection to the first one has ended.
        await eventually(lambda: "1 gap with lines that may be lost" in log.coverage.sentence)
        assert log.coverage.gaps[0].sentence.endswith(
            "may be lost (its pod was deleted before the end of its log was read)"
        )


async def test_a_full_disk_is_reported_and_following_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    session = session_of(tmp_path)
    session.say(PODS[0], "one")
    async with reading(session, {0}) as lines, session.logs.open_job_log("default", "llama") as log:
        await eventually(lambda: texts(lines) == ["one"])
        monkeypatch.setattr("console.logs.log_segment.os.write", full)
        session.say(PODS[0], "two")
        await eventually(lambda: "no space left on device" in log.coverage.sentence)
        await eventually(lambda: texts(lines) == ["one", "two"])
        assert "following continues" in log.coverage.sentence


async def test_once_reads_what_there_is_and_ends(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    for rank, pod in enumerate(PODS):
        session.say(pod, f"b {rank}", at=200.0 - rank)
    async with session.logs.open_job_log("default", "llama", once=True) as log:
        found = [line.text async for batch in log.iter_lines() for line in batch]
    assert found == [f"b {rank}" for rank in reversed(range(6))]


async def test_lines_that_a_tail_left_out_are_reported_and_fetched_when_all_are_wanted(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    for at in range(6):
        session.say(PODS[0], f"line {at}", at=100.0 + at / 8)
    async with session.logs.open_job_log("default", "llama", tail=2) as log:
        await eventually(lambda: sum(map(len, log.parts)) == 2)
        await eventually(lambda: "of 1 pod only the last 2 lines were read" in log.coverage.sentence)
    session.logs = FakeLogs(session, tmp_path)
    async with session.logs.open_job_log("default", "llama", tail=2) as log:
        await log.ready.wait()
        assert "only the last 2 lines were read" in log.coverage.sentence
    async with reading(session, {0}) as lines:
        await eventually(lambda: texts(lines) == [f"line {at}" for at in range(6)])
    async with session.logs.open_job_log("default", "llama") as log:
        await log.ready.wait()
        assert "opened with" not in log.coverage.sentence


async def test_a_cluster_that_took_over_a_contexts_name_shows_nothing_of_the_other(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.say(PODS[0], "secret of the first cluster")
    async with reading(session) as lines:
        await eventually(lambda: texts(lines) == ["secret of the first cluster"])
    other = FakeSession(fleet_of())
    other.logs = FakeLogs(other, tmp_path)
    assert other.context == session.context
    for server, expected in (("https://another", []), (session.watch.server, ["secret of the first cluster"])):
        other.watch.server = server
        async with other.logs.open_job_log("default", "llama") as log:
            await asyncio.wait_for(log.ready.wait(), 10)
            assert [part.read_texts(0, 9) for part in log.parts if len(part)] == [[each.encode()] for each in expected]
