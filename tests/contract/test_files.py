"""Files in and out of pods, one command in many of them, and what they say of themselves."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from console.attach.exec_many import FactState, group_outputs, worst_exit_code
from console.attach.files.copy_progress import CopyMethod, CopyProgress, EntryKind
from console.errors import BadInput, ConsoleError, CopyFailed, NotFound
from console.kube.objects.pod import Pod
from console.scheduling.pod_slots import PodSlot
from console.session import Session
from tests.contract.space import Space

LARGE = 40 << 20


async def running(session: Session, space: Space, name: str) -> Pod:
    """A pod as the session sees it."""
    await space.pod(name)
    async with asyncio.timeout(60):
        async for fleet in session.watch.snapshots():
            pod = fleet.pods.get((space.name, name))
            if pod is not None and pod.phase == "Running":
                return pod
    raise AssertionError("the pictures have ended")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_folder_there_and_back(session: Session, space: Space, tmp_path: Path) -> None:
    await running(session, space, "a")
    files = session.copies.for_container(space.name, "a", method=CopyMethod.EXEC)
    source = tmp_path / "src"
    (source / "sub dir").mkdir(parents=True)
    for number, name in enumerate(("plain", "-dash", "with space", "new\nline", "sub dir/ünï", "sub dir/empty")):
        (source / name).write_bytes(os.urandom(1000 * number))
    (source / "sub dir/empty").write_bytes(b"")
    (source / "plain").chmod(0o755)
    (source / "link").symlink_to("sub dir/ünï")
    there = f"{space.name}-files/"
    sent = await files.send(str(source), there)
    assert (sent.files, sent.problems, sent.proof) == (6, (), "sha256")
    back = await files.fetch(f"{there}src", f"{tmp_path}/back/")
    assert (back.files, back.bytes, back.problems) == (6, sent.bytes, ())
    for path in source.rglob("*"):
        copied = tmp_path / "back/src" / path.relative_to(source)
        assert copied.is_symlink() == path.is_symlink()
        assert copied.stat().st_mode == path.stat().st_mode
        if path.is_file():
            assert copied.read_bytes() == path.read_bytes()
    again = await files.fetch(f"{there}src", f"{tmp_path}/back/")
    assert again.resumed == back.bytes


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize("upload", [True, False])
async def test_a_copy_that_was_stopped_goes_on(session: Session, space: Space, tmp_path: Path, upload: bool) -> None:
    await running(session, space, "a")
    files = session.copies.for_container(space.name, "a", method=CopyMethod.EXEC)
    content = os.urandom(LARGE)
    (tmp_path / "large").write_bytes(content)
    there = f"{space.name}-files/"
    if not upload:
        await files.send(str(tmp_path / "large"), there)
    begun = asyncio.Event()

    def listen(far: CopyProgress) -> None:
        if far.done > LARGE // 4:
            begun.set()

    def copy() -> asyncio.Task[object]:
        if upload:
            made = files.send(str(tmp_path / "large"), there, progress=listen)
        else:
            made = files.fetch(f"{there}large", f"{tmp_path}/back/", progress=listen)
        return asyncio.create_task(made)

    first = copy()
    await begun.wait()
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    if upload:
        with pytest.raises(NotFound):
            await files.fetch(f"{there}large", str(tmp_path / "half"))
    else:
        assert not (tmp_path / "back/large").exists()
    await copy()
    await files.fetch(f"{there}large", str(tmp_path / "whole"))
    assert (tmp_path / "whole").read_bytes() == content


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_pod_that_goes_in_the_middle_ends_the_copy_in_words(
    session: Session, space: Space, tmp_path: Path
) -> None:
    await running(session, space, "a")
    files = session.copies.for_container(space.name, "a", method=CopyMethod.EXEC)
    (tmp_path / "large").write_bytes(bytes(LARGE))
    deleting: list[asyncio.Task[object]] = []

    def listen(far: CopyProgress) -> None:
        if far.done and not deleting:
            path = f"/api/v1/namespaces/{space.name}/pods/a"
            deleting.append(asyncio.create_task(space.api.delete(path, gracePeriodSeconds=0)))

    async def copy() -> None:
        while True:  # what is quicker than the deletion is begun again, under another name
            target = f"{space.name}-files/{len(told)}/"
            told.append(target)
            await files.send(str(tmp_path / "large"), target, progress=listen)

    told: list[str] = []
    with pytest.raises(ConsoleError) as failure:
        await copy()
    await deleting[0]
    assert failure.value.message.endswith(".")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_bad_places_are_reported_by_name(session: Session, space: Space, tmp_path: Path) -> None:
    await running(session, space, "a")
    (tmp_path / "file").write_text("x")
    files = session.copies.for_container(space.name, "a")
    with pytest.raises(NotFound, match=r"There is no nowhere/at-all in pod 3 of train\."):
        await session.copies.for_container(space.name, "a", label="pod 3 of train").fetch(
            "nowhere/at-all", str(tmp_path)
        )
    with pytest.raises(CopyFailed, match="device, pipe or socket"):
        await files.fetch("/dev/null", str(tmp_path))
    with pytest.raises(NotFound, match="There is no folder nowhere"):
        await files.send(str(tmp_path / "file"), "nowhere/at-all")
    with pytest.raises(BadInput, match="on this machine"):
        await files.send(str(tmp_path / "nope"), "x")
    with pytest.raises(NotFound, match="not found"):
        await session.copies.for_container(space.name, "no-such-pod").fetch("/etc/hostname", str(tmp_path))


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_one_command_in_many_ranks(session: Session, space: Space) -> None:
    pods = [await running(session, space, name) for name in ("a", "b", "c")]
    ranks = [PodSlot(number, "workers", 0, number, 0, pod) for number, pod in enumerate(pods)]
    outputs = await session.container_exec.run_in_ranks(
        [*ranks, PodSlot(3, "workers", 0, 3)], ("sh", "-c", "echo same; exit 3")
    )
    assert [(each.rank, each.output, each.code) for each in outputs[:3]] == [(n, "same\n", 3) for n in range(3)]
    assert "no running pod" in outputs[3].failure
    assert worst_exit_code(outputs) == 3
    assert [group.ranks for group in group_outputs(outputs)] == [(0, 1, 2), (3,)]
    (slow,) = await session.container_exec.run_in_ranks(ranks[:1], ("sleep", "20"), limit=0.3)
    assert (slow.code, slow.failure.startswith("It did not end within")) == (124, True)
    (absent,) = await session.container_exec.run_in_ranks(ranks[:1], ("no-such-program",))
    assert absent.code in (126, 127, 1)
    assert absent.comparable_text


async def test_a_container_says_what_it_has(session: Session, space: Space) -> None:
    pod = await running(session, space, "a")
    facts = await session.container_exec.read_facts(pod)
    by_name = {each.name: each for each in facts.facts}
    assert len(by_name) == 7
    assert all(each.state in (FactState.KNOWN, FactState.ABSENT, FactState.FAILED) for each in facts.facts)
    assert all(each.text or each.words for each in facts.facts)
    assert by_name["disks"].state is by_name["mounts"].state is FactState.KNOWN
    assert "/" in by_name["disks"].text


async def test_a_folder_is_listed_and_what_is_in_it_deleted(session: Session, space: Space) -> None:
    pod = await running(session, space, "a")
    files = session.copies.for_container(space.name, "a")
    made = "mkdir -p there/sub && printf 12345 > there/file && ln -s sub there/link && printf x > there/sub/x && pwd -P"
    rank = PodSlot(0, "workers", 0, 0, 0, pod)
    (told,) = await session.container_exec.run_in_ranks([rank], ("sh", "-c", made))
    top = f"{told.output.strip().rstrip('/')}/there"
    listed = await files.list_folder(top)
    assert (listed.path, listed.complaints) == (top, ())
    assert [(each.path, each.kind, each.size, each.target) for each in listed.entries] == [
        ("sub", EntryKind.FOLDER, 0, ""),
        ("file", EntryKind.FILE, 5, ""),
        ("link", EntryKind.LINK, 0, "sub"),
    ]
    assert listed.total is not None
    assert listed.free is not None
    assert listed.total > listed.free > 0
    await files.delete(f"{top}/link")
    assert [each.path for each in (await files.list_folder(f"{top}/sub")).entries] == ["x"], "a link goes alone"
    await files.delete(f"{top}/sub/")
    assert [each.path for each in (await files.list_folder(top)).entries] == ["file"]
    with pytest.raises(NotFound):
        await files.delete(f"{top}/sub")
    with pytest.raises(NotFound):
        await files.list_folder(f"{top}/sub")
    for path in ("/", "/tmp", "there/file", "", "/tmp/../usr"):
        with pytest.raises(BadInput):
            await files.delete(path)
