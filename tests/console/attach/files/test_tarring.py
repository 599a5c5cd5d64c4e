import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

from console.attach.files.copy_progress import EntryKind, FileEntry
from console.attach.files.local import TarUnpacker, pack_tar, tar_length


def archive(*members: tuple[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            tar.addfile(info)
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def names(top: Path) -> list[str]:
    return [path.name for path in top.rglob("*") if path.is_file()]


async def pieces(data: bytes, size: int = 700) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def unpacked(top: Path, data: bytes, *wanted: str, size: int = 1) -> TarUnpacker:
    unpacking = TarUnpacker(
        top, {name: FileEntry(name, EntryKind.FILE, size) for name in wanted}, lambda *_: None, max_bytes=1 << 20
    )
    await unpacking.unpack(pieces(data))
    return unpacking


async def test_only_what_is_wanted_and_stays_inside_is_written(tmp_path: Path) -> None:
    data = archive(("./a", b"x"), ("../b", b"x"), (f"{tmp_path}/c", b"x"), ("sub/../../d", b"x"), ("e", b"x"))
    top = tmp_path / "top"
    done = await unpacked(top, data, "a", "../b", f"{tmp_path}/c", "sub/../../d")
    assert done.created_paths == {"a"}
    assert [each.why for each in done.problems] == ["It would be written outside the folder: it was not copied."] * 3
    assert names(tmp_path) == ["a"]


async def test_links_of_the_archive_are_not_made_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    data = archive(("sub/a", b"x"), link=("sub", str(tmp_path / "outside")))
    await unpacked(tmp_path / "top", data, "sub", "sub/a")
    assert not list((tmp_path / "outside").iterdir())
    assert (tmp_path / "top/sub/a").read_bytes() == b"x"


async def test_what_was_cut_off_is_not_there(tmp_path: Path) -> None:
    data = archive(("a", b"x" * 5000), ("b", b"y" * 5000))
    done = await unpacked(tmp_path / "top", data[:9000], "a", "b", size=5000)
    assert done.created_paths == {"a"}
    assert not (tmp_path / "top/b").exists()


async def test_a_stream_that_is_no_tar_makes_nothing(tmp_path: Path) -> None:
    done = await unpacked(tmp_path / "top", b"no tar at all" * 1000, "a")
    assert (done.created_paths, done.problems) == (set(), [])


async def test_a_tar_is_as_long_as_announced_whatever_becomes_of_the_files(tmp_path: Path) -> None:
    sizes = {"shrinks": 3000, "grows": 100, "x" * 150: 0}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"z" * size)
    entries = [FileEntry("", EntryKind.FOLDER), FileEntry("link", EntryKind.LINK, target="x" * 200)]
    entries += [FileEntry(name, EntryKind.FILE, size) for name, size in sizes.items()]
    (tmp_path / "shrinks").write_bytes(b"z")
    (tmp_path / "grows").write_bytes(b"z" * 5000)
    data = b"".join([piece async for piece in pack_tar(tmp_path, entries, lambda *_: None)])
    assert len(data) == tar_length(entries)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {member.name.removeprefix("./"): member.size for member in tar if member.isfile()}
    assert found == sizes
