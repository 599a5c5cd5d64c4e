"""Jobs of the opening scene, inspected through the practice cluster: a healthy one, a slow one, and one read-only."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import console.kube.exec
from console.connection_settings import Settings
from console.errors import NotAllowed, NotFound
from console.session import Session
from practice.child import PracticeProcess
from rankscope import Activity

HUNG = ("team-b", "rag-eval")


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    practice = PracticeProcess.start(speed=20.0, seed=0)
    try:
        yield practice.kubeconfig()
    finally:
        practice.stop()


@pytest.fixture
async def session(kubeconfig: Path) -> AsyncIterator[Session]:
    opened = await Session.open(Settings(kubeconfig=kubeconfig, practice=True), kinds=("jobsets", "jobs", "pods"))
    await opened.wait_until_listed()
    yield opened
    await opened.close()


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_a_training_that_goes_on_has_nobody_who_stands_out(session: Session) -> None:
    report = await session.inspector.inspect_job("default", "llama-70b")
    assert [each.rank for each in report.processes] == list(range(64))
    assert not report.suspects
    assert report.ras.is_healthy
    with pytest.raises(NotFound, match="No pod of sft-a3b runs"):
        await session.inspector.inspect_job("default", "sft-a3b")


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_of_a_training_whose_steps_are_slow_the_rank_is_named(session: Session) -> None:
    report = await session.inspector.find_slow_ranks("default", "llama-70b", 30.0, reads_recorder=True)
    assert [each.rank for each in report.slow] == [41], report.words


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_many_pods_are_asked_through_one_of_them(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    streams: list[str] = []
    executing = console.kube.exec.run

    async def run(client: Any, namespace: str, pod: str, *arguments: Any, **options: Any) -> int:
        streams.append(pod)
        return await executing(client, namespace, pod, *arguments, **options)

    monkeypatch.setattr("console.kube.exec.run", run)
    monkeypatch.setattr("console.kube.exec.START_TIMEOUT", 60.0)  # a busy machine is no pod that does not answer
    report = await session.inspector.inspect_job("default", "llama-70b")
    assert [each.rank for each in report.processes] == list(range(64))
    assert {each.where.doing for each in report.processes} == {Activity.COMPUTE}
    assert report.asked == "8 of 8 answered, 8 of them through pod 0 (ssh)"
    assert len(streams) <= 4
    assert len(set(streams)) == 1


async def test_read_only_runs_nothing_in_pods(kubeconfig: Path) -> None:
    opened = await Session.open(Settings(kubeconfig=kubeconfig, read_only=True), kinds=("jobsets", "jobs", "pods"))
    try:
        await opened.wait_until_listed()
        with pytest.raises(NotAllowed):
            await opened.inspector.inspect_job(*HUNG)
        by_exporter = await opened.gpus.read_once(*HUNG)
        (rank,) = by_exporter.ranks
        assert (rank.source, len(rank.gpus)) == ("dcgm", 8)
        assert [gpu.utilization for gpu in rank.gpus] == [100.0, 0.0, *[100.0] * 6]
    finally:
        await opened.close()


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_logs_of_a_practice_cluster_go_with_it(session: Session) -> None:
    """The next one gives its jobs the same uids, and must not find what this one printed."""
    folder = session.watch.current_connection.target.cluster.practice_folder
    assert folder is not None
    assert folder in session.logs.folder.parents
