import asyncio
import os
import shutil
from pathlib import Path

import pytest

from console.attach.files import local, single_copy, single_copy as send
from console.attach.files.copy_progress import MAX_FRUITLESS_ATTEMPTS, CopyVerification
from console.errors import BadInput, CopyFailed, NotFound
from tests.console.attach.files.pod import Pod

BYTES = bytes(range(256)) * 4096
NAMES = ("plain", "with space", "-dash", "new\nline", "back\\slash", "ünï", "sub dir/inner", "sub dir/-r", "deep/er/x")

USUAL = (
    "sh", "stat", "head", "tail", "wc", "mkdir", "mv", "chmod", "touch", "rm", "dirname", "basename", "readlink", "df",
    "awk", "cat", "grep",
)  # fmt: skip


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path / "pod")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def plant(top: Path) -> Path:
    """A folder with everything that may stand in one."""
    for number, name in enumerate(NAMES):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BYTES[: 1000 * number])
    (top / "plain").chmod(0o750)
    (top / "link").symlink_to("sub dir/inner")
    (top / "out").symlink_to(top.parent)
    (top / "empty folder").mkdir()
    os.utime(top / "deep/er/x", (1_700_000_000, 1_700_000_000))
    return top


def tree(top: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder, as far as a copy keeps it."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            stat = path.stat()
            found[name] = ("file", path.read_bytes(), stat.st_mode & 0o777, int(stat.st_mtime))
    return found


def parts(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if local.is_partial_file(path.name)]


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder


async def test_a_folder_there_and_back_is_the_same(pod: Pod, here: Path) -> None:
    source = plant(here / "src")
    sent = await pod.send(source, "")
    assert (sent.files, sent.proof, sent.problems) == (len(NAMES), CopyVerification.SHA256, ())
    assert tree(pod.folder / "src") == tree(source)
    back = await pod.fetch("src", f"{here}/back/")
    assert tree(here / "back/src") == tree(source)
    assert back.bytes == sent.bytes == sum(1000 * number for number in range(len(NAMES)))
    assert not parts(here)
    assert not parts(pod.folder)
    last = pod.seen[-1]
    assert (last.done, last.done_files) == (last.total, last.all_files)


async def test_what_is_there_already_is_only_compared(pod: Pod, here: Path) -> None:
    plant(pod.folder / "src")
    first = await pod.fetch("src", here)
    pod.commands.clear()
    second = await pod.fetch("src", here)
    assert (first.resumed, second.resumed) == (0, first.bytes)
    assert not [each for each in pod.commands if each.startswith(("read", "pack"))]
    (here / "src/deep/er/x").write_bytes(b"x" * 8000)  # another content of the same size and time
    os.utime(here / "src/deep/er/x", (1_700_000_000, 1_700_000_000))
    await pod.fetch("src", here)
    assert tree(here / "src") == tree(pod.folder / "src")


async def test_a_file_takes_the_name_it_is_given(pod: Pod, here: Path) -> None:
    (pod.folder / "a").write_bytes(BYTES)
    assert (await pod.fetch("a", here / "b")).target == str(here / "b")
    assert (await pod.fetch("~/a", f"{here}/new folder/")).target == str(here / "new folder/a")
    assert (await pod.send(here / "b", "sub/")).target == str(pod.folder / "sub/b")
    assert (await pod.send(here / "b", "-c")).target == str(pod.folder / "-c")
    (pod.folder / "latest").symlink_to("sub")
    assert (await pod.fetch("latest", here)).target == str(here / "latest")
    assert {each.read_bytes() for each in (here / "b", pod.folder / "sub/b", pod.folder / "-c")} == {BYTES}


async def test_a_copy_that_breaks_off_goes_on_where_it_ended(pod: Pod, here: Path) -> None:
    (pod.folder / "a").write_bytes(BYTES)
    pod.breaks = [300_000, 1, 500_000]
    report = await pod.fetch("a", here)
    assert (here / "a").read_bytes() == BYTES
    assert report.resumed == 0
    assert len([each for each in pod.commands if each.startswith("read")]) == 4
    pod.input_breaks = [200_000, 400_000]
    await pod.send(here / "a", "b")
    assert (pod.folder / "b").read_bytes() == BYTES
    assert len([each for each in pod.commands if each.startswith("write") and "part in " in each]) == 3


async def test_giving_up_keeps_what_came_and_never_shows_half_a_file(pod: Pod, here: Path) -> None:
    (pod.folder / "a").write_bytes(BYTES)
    pod.breaks = [100_000, *([0] * MAX_FRUITLESS_ATTEMPTS)]
    with pytest.raises(
        CopyFailed, match=r"a was interrupted: 100.0 kB of 1.0 MB are there. The connection broke"
    ) as failure:
        await pod.fetch("a", here)
    assert "continues where this one stopped" in failure.value.hint
    assert not (here / "a").exists()
    pod.breaks = []
    assert (await pod.fetch("a", here)).resumed == 100_000
    assert (here / "a").read_bytes() == BYTES
    assert not parts(here)


async def test_an_upload_that_was_stopped_is_gone_on_with(pod: Pod, here: Path) -> None:
    (here / "a").write_bytes(BYTES)
    pod.input_breaks = [300_000, *([0] * (MAX_FRUITLESS_ATTEMPTS + 1))]
    with pytest.raises(CopyFailed):
        await pod.send(here / "a", "")
    assert not (pod.folder / "a").exists()
    assert (await pod.send(here / "a", "")).resumed == 300_000
    assert (pod.folder / "a").read_bytes() == BYTES
    assert not parts(pod.folder)


async def test_a_folder_that_breaks_off_is_not_begun_anew(pod: Pod, here: Path) -> None:
    source = plant(here / "src")
    pod.input_breaks = [20_000]
    await pod.send(source, "")
    assert tree(pod.folder / "src") == tree(source)
    pod.breaks = [20_000]
    await pod.fetch("src", f"{here}/back/")
    assert tree(here / "back/src") == tree(source)


async def test_large_files_of_a_folder_are_copied_by_themselves(
    pod: Pod, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (single_copy, send):
        monkeypatch.setattr(module, "MIN_SINGLE_BYTES", 5000)
    source = plant(here / "src")
    await pod.send(source, "")
    assert tree(pod.folder / "src") == tree(source)
    await pod.fetch("src", f"{here}/back/")
    assert tree(here / "back/src") == tree(source)
    assert any(each.startswith("read") for each in pod.commands)
    assert any(each.startswith("pack") for each in pod.commands)


async def test_a_new_copy_goes_over_the_old_one_and_leaves_the_rest(pod: Pod, here: Path) -> None:
    source = plant(here / "src")
    (pod.folder / "src").mkdir()
    (pod.folder / "src/plain").write_bytes(b"old")
    (pod.folder / "src/other").write_bytes(b"stays")
    await pod.send(source, "")
    assert (pod.folder / "src/other").read_bytes() == b"stays"
    (pod.folder / "src/other").unlink()
    assert tree(pod.folder / "src") == tree(source)


async def test_links_that_are_in_the_way_in_the_container_are_replaced_and_not_followed(pod: Pod, here: Path) -> None:
    elsewhere = pod.folder / "elsewhere"
    elsewhere.mkdir()
    (pod.folder / "src").mkdir()
    for name in ("plain", "out"):
        (pod.folder / "src" / name).symlink_to(elsewhere)
    source = plant(here / "src")
    await pod.send(source, "")
    assert tree(pod.folder / "src") == tree(source)
    assert list(elsewhere.iterdir()) == []


async def test_what_arrives_damaged_is_fetched_again(pod: Pod, here: Path) -> None:
    (pod.folder / "a").write_bytes(BYTES)
    spoiled: list[int] = []

    def spoil(data: bytes) -> bytes:
        if spoiled:
            return data
        spoiled.append(1)
        return b"?" + data[1:]

    pod.spoil = spoil
    await pod.fetch("a", here)
    assert (here / "a").read_bytes() == BYTES
    pod.spoil = lambda data: bytes(len(data))
    with pytest.raises(CopyFailed, match="damaged twice"):
        await pod.fetch("a", here / "b")
    assert not (here / "b").exists()


async def test_a_file_that_grows_is_copied_as_it_was_and_that_is_reported(pod: Pod, here: Path) -> None:
    (pod.folder / "log").write_bytes(b"first\n")

    def grow(data: bytes) -> bytes:
        with (pod.folder / "log").open("ab") as file:
            file.write(b"more\n")
        return data

    pod.spoil = grow
    report = await pod.fetch("log", here)
    assert (here / "log").read_bytes() == b"first\n"
    assert [each.why for each in report.problems] == ["It changed while it was copied."]


async def test_an_image_with_few_programs_will_do(tmp_path: Path, here: Path) -> None:
    """No -printf in find, no GNU tar, no sha256sum: as with busybox."""
    find, tar = shutil.which("find"), shutil.which("tar")
    programs = program(tmp_path / "bin", "find", f'case "$*" in *-printf*) exit 1;; esac; exec {find} "$@"')
    program(programs, "tar", f'[ "$1" = --version ] && echo busybox && exit; exec {tar} "$@"')
    for name in USUAL:
        (programs / name).symlink_to(shutil.which(name) or "/bin/false")
    pod = Pod(tmp_path / "pod", programs, alone=True)
    plant(pod.folder / "src")
    report = await pod.fetch("src", here)
    assert tree(here / "src") == tree(pod.folder / "src")
    assert report.proof is CopyVerification.SIZE
    assert (await pod.send(here / "src", "again")).proof is CopyVerification.SIZE
    assert tree(pod.folder / "again") == tree(here / "src")


async def test_a_full_disk_there_is_reported_with_what_helps(tmp_path: Path, here: Path) -> None:
    text = 'cat >/dev/null; echo "head: write error: No space left on device" >&2; exit 1'
    pod = Pod(tmp_path / "pod", program(tmp_path / "bin", "head", text))
    (here / "a").write_bytes(BYTES)
    with pytest.raises(CopyFailed, match="No space left on device") as failure:
        await pod.send(here / "a", "")
    assert "continues where it stopped" in failure.value.hint
    program(tmp_path / "bin", "df", "echo h; echo 'disk 1 1 5 1% /'")
    with pytest.raises(CopyFailed, match=r"has 5.1 kB free, and the copy needs 1.0 MB"):
        await pod.send(here / "a", "")


async def test_bad_places_are_one_sentence(pod: Pod, here: Path) -> None:
    (pod.folder / "folder").mkdir()
    (pod.folder / "file").touch()
    (here / "folder").mkdir()
    (here / "file").touch()
    os.mkfifo(pod.folder / "pipe")
    with pytest.raises(NotFound, match="There is no nope in the pod"):
        await pod.fetch("nope", here)
    with pytest.raises(NotFound, match="There is no nope/nope in the pod"):
        await pod.fetch("nope/nope", here)
    with pytest.raises(CopyFailed, match="device, pipe or socket"):
        await pod.fetch("pipe", here)
    with pytest.raises(BadInput, match="is a file: a folder cannot"):
        await pod.fetch("folder", here / "file")
    with pytest.raises(BadInput, match="There is no folder"):
        await pod.fetch("file", here / "no/where")
    with pytest.raises(NotFound, match="There is no folder no in the pod") as missing:
        await pod.send(here / "file", "no/where")
    assert "/" in missing.value.hint
    with pytest.raises(BadInput, match="is a file: a folder cannot"):
        await pod.send(here / "folder", "file")
    (pod.folder / "sub/file").mkdir(parents=True)
    with pytest.raises(CopyFailed, match="a folder of that name is there"):
        await pod.send(here / "file", "sub")
    with pytest.raises(BadInput, match="on this machine"):
        await pod.send(here / "nope", "")


async def test_what_cannot_be_copied_is_left_out_and_reported(pod: Pod, here: Path) -> None:
    plant(pod.folder / "src")
    os.mkfifo(pod.folder / "src/pipe")
    (pod.folder / "src").joinpath(os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    report = await pod.fetch("src", here)
    assert {each.path: each.why for each in report.problems} == {
        "pipe": "It is a device, pipe or socket, which has no content.",
        "caf?": "Its name is not UTF-8.",
    }
    assert report.files == len(NAMES)


async def test_a_link_in_the_way_leads_nowhere_else(pod: Pod, here: Path) -> None:
    plant(pod.folder / "src")
    (here / "outside").mkdir()
    (here / "src").mkdir()
    (here / "src/deep").symlink_to(here / "outside")
    report = await pod.fetch("src", here)
    assert not list((here / "outside").iterdir())
    assert any("through a link" in each.why for each in report.problems)


async def test_a_copy_that_is_cancelled_leaves_no_process_and_its_part(pod: Pod, here: Path) -> None:
    (pod.folder / "a").write_bytes(BYTES * 8)
    begun = asyncio.Event()

    def spoil(data: bytes) -> bytes:
        begun.set()
        return data

    pod.spoil = spoil
    copying = asyncio.create_task(pod.fetch("a", here))
    await begun.wait()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert not (here / "a").exists()
    assert (await pod.fetch("a", here)).resumed > 0
    assert (here / "a").read_bytes() == BYTES * 8


@pytest.mark.slow(reason="copies between several pods of a practice cluster")
async def test_pods_that_share_a_file_system_get_a_file_and_a_folder_each_of_its_own_parts(
    tmp_path: Path, here: Path
) -> None:
    """As the pods of a job whose folder lies in a bucket, on Lustre or Filestore do."""
    (here / "file").write_bytes(BYTES * 8)
    plant(here / "folder")
    shared = [Pod(tmp_path / "shared") for _ in range(4)]
    for number, pod in enumerate(shared):
        pod.files.label = f"pod {number} of train"
    for name in ("file", "folder"):
        reports = await asyncio.gather(*(pod.send(here / name, f"./{name}") for pod in shared))
        assert [each.problems for each in reports] == [()] * 4
    assert (tmp_path / "shared" / "file").read_bytes() == BYTES * 8
    assert tree(tmp_path / "shared" / "folder") == tree(here / "folder")
    assert parts(tmp_path / "shared") == []
