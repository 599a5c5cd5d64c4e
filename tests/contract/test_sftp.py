"""Files in and out of ranks over SFTP, with the keys that a4 sets up."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from console.attach.files.copy_progress import CopyMethod, CopyProgress, CopyReport
from console.errors import ConsoleError
from console.scheduling.pod_slots import pod_slots
from console.session import Session
from tests.contract.space import Space
from tests.openssh import alone

pytestmark = pytest.mark.programs("ssh", "ssh-keygen")
JOB = "named"
LARGE = 34 << 20
"""Bytes from which SFTP is worth a connection."""


@pytest.fixture
async def pod(session: Session, space: Space, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Rank 0 of a running job; nobody's keys but the test's own."""
    alone(monkeypatch, tmp_path / "dot ssh")
    queue = await space.queue("a", 16)
    await space.jobset(JOB, queue, 1)
    await space.pods(JOB, 1)
    async with asyncio.timeout(60):
        async for fleet in session.watch.snapshots():
            job = fleet.jobsets.get((space.name, JOB))
            first = pod_slots(job, fleet)[0] if job else None
            if first is not None and first.phase == "Running":
                return first.name
    raise AssertionError("the pictures have ended")


async def test_without_a_key_it_goes_by_exec_and_that_is_reported(
    session: Session, space: Space, pod: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(os.urandom(LARGE))
    report = await session.copies.for_container(space.name, pod).send(str(tmp_path / "a"), f"{space.name}-sftp/")
    assert report.way is CopyMethod.EXEC
    assert report.note.startswith("Copied through exec, because SFTP could not be used: ")
    with pytest.raises(ConsoleError, match="key"):
        await session.copies.for_container(space.name, pod, method=CopyMethod.SFTP).send(
            str(tmp_path / "a"), f"{space.name}-sftp/"
        )


async def test_large_files_go_by_sftp_and_go_on_where_they_ended(
    session: Session, space: Space, pod: str, tmp_path: Path
) -> None:
    await session.attach.set_up(await session.attach.plan_setup(space.name, JOB, 0))
    files = session.copies.for_container(space.name, pod, method=CopyMethod.SFTP)
    content = os.urandom(LARGE)
    (tmp_path / "a").write_bytes(content)
    there = f"{space.name}-sftp/"

    async def stopped(first: bool) -> CopyReport:
        begun = asyncio.Event()

        def listen(far: CopyProgress) -> None:
            if far.done > LARGE // 4:
                begun.set()

        async def run() -> CopyReport:
            if first:
                return await files.send(str(tmp_path / "a"), there, progress=listen)
            return await files.fetch(f"{there}a", str(tmp_path / "b"), progress=listen)

        half = asyncio.create_task(run())
        await begun.wait()
        half.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await half
        return await run()

    sent, fetched = await stopped(True), await stopped(False)
    assert (sent.way, fetched.way) == (CopyMethod.SFTP, CopyMethod.SFTP)
    assert sent.resumed > 0
    assert fetched.resumed > 0
    assert (tmp_path / "b").read_bytes() == content
    small = await files.fetch("/etc/hostname", f"{tmp_path}/")
    assert small.way is CopyMethod.SFTP
