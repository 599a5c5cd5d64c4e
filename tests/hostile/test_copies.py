"""Copies from a container that lies about names, kinds, sizes, modes and times: nothing outside the folder changes.

A new attack is a row of `LIES`: what the container answers to which script of `console.attach.files.scripts`.
"""

import io
import json
import os
import stat
import sys
import tarfile
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from console.attach.files import local, scripts, single_copy
from console.attach.files.copy_progress import CopyVerification, EntryKind, FileEntry
from console.attach.files.pod_files import PodFiles
from console.errors import ConsoleError, CopyFailed, Unreadable
from tests.console.attach.files.pod import Pod

Answer = str | tuple[str, int]
NUL = "\0"


def entry(kind: str, path: str, *, size: str = "0", mode: str = "755", time: str = "0", target: str = "") -> str:
    return f"{kind}|{size}|{mode}|{time}|{path}{NUL}{target}{NUL}"


def look(kind: str, path: str, *, size: str = "0", mode: str = "755", time: str = "0", free: str = "") -> str:
    return f"{kind}|{size}|{mode}|{time}|{path}{NUL}{NUL}{free}"


def tar(*members: tuple[str, int]) -> str:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, size in members:
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    return made.getvalue().decode("latin-1")


def forged(kind: bytes, name: str, target: str = "", *, mode: int = 0o644, content: bytes = b"") -> str:
    """A member of a tar of any kind, and its content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(content)
    return (info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)).decode("latin-1")


def huge_header(kind: bytes) -> str:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 600 << 20
    return info.tobuf(tarfile.GNU_FORMAT).decode("latin-1")


class LyingPod(Pod):
    """A container whose shell answers by the table."""

    def __init__(self, folder: Path, lies: Mapping[str, Answer]) -> None:
        assert lies.keys() <= vars(scripts).keys()
        programs = folder.parent / "programs"
        programs.mkdir()
        table = programs / "lies.json"
        table.write_text(json.dumps(lies))
        shell = programs / "sh"
        script = Path(__file__).with_name("lying_sh.py")
        shell.write_text(f'#!/bin/sh\nLIES={table} exec {sys.executable} {script} "$@"\n')
        shell.chmod(0o755)
        super().__init__(folder, programs)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder to copy into, between things that must stay as they are."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / ".bashrc").write_text("mine")
    (tmp_path / ".profile").write_text("mine")
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / ".ssh").mkdir(mode=0o700)
    (victim / "locked").mkdir(mode=0o755)
    return folder


def outside(top: Path) -> dict[str, tuple[int, bytes]]:
    """What is beside the target: modes and contents."""
    paths = [top / ".profile", top / "here/.bashrc", *(top / "victim").rglob("*"), top / "victim"]
    return {str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"") for path in paths}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def written(folder: Path) -> int:
    """Bytes of all files below it."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def check_kinds(folder: Path) -> None:
    """Files and folders alone: no hard link, pipe or device, none that runs as another user, none at a whole path."""
    made = [path.lstat() for path in folder.rglob("*") if not path.is_symlink()]
    assert not [each for each in made if each.st_mode & 0o7000 or (stat.S_ISREG(each.st_mode) and each.st_nlink > 1)]
    assert {stat.S_IFMT(each.st_mode) for each in made} <= {stat.S_IFREG, stat.S_IFDIR}
    assert not Path("/tmp/a4-hostile").exists()


END = "\0" * 2 * tarfile.BLOCKSIZE
TARS = {
    "a link and a file behind it": forged(tarfile.SYMTYPE, "./a", "../../victim")
    + forged(tarfile.REGTYPE, "./a/new", content=b"pwned"),
    "a link of a file's name, then the file": forged(tarfile.SYMTYPE, "./a", "../.bashrc")
    + forged(tarfile.REGTYPE, "./a", content=b"pwned!"),
    "a hard link to what is outside": forged(tarfile.LNKTYPE, "./a", "../.bashrc")
    + forged(tarfile.REGTYPE, "./a", content=b"pwned!"),
    "a hard link to a whole path": forged(tarfile.LNKTYPE, "./a", "/etc/passwd"),
    "names that climb": forged(tarfile.REGTYPE, "../.bashrc", content=b"pwned!")
    + forged(tarfile.REGTYPE, "./../../.profile", content=b"pwned!"),
    "whole paths": forged(tarfile.REGTYPE, "/tmp/a4-hostile", content=b"pwned!")
    + forged(tarfile.REGTYPE, "//tmp/a4-hostile", content=b"pwned!"),
    "a file of which the pod's user becomes root": forged(tarfile.REGTYPE, "./a", mode=0o6755, content=b"pwned!"),
    "a pipe and a device": forged(tarfile.FIFOTYPE, "./a") + forged(tarfile.CHRTYPE, "./b"),
    "a folder of a file's name": forged(tarfile.DIRTYPE, "./a") + forged(tarfile.DIRTYPE, "../victim", mode=0o777),
}  # fmt: skip
OUTSIDE = ("../.profile", "/tmp/a4-hostile", "b/../../.profile")
LIES: dict[str, dict[str, Answer]] = {
    "a folder calls itself ..": {
        "STAT_PATH": look("d", "/data/.."),
        "LIST_TREE": entry("d", ".") + entry("f", "./.profile"),
    },
    "a file calls itself .bashrc": {"STAT_PATH": look("f", "/x/.bashrc", size="5", mode="644"), "READ_FILE": "pwned"},
    "a folder calls itself after a link": {"STAT_PATH": look("d", "/x/victim"), "LIST_TREE": entry("d", ".")},
    "modes are set behind a link": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("l", "./a", target="../../victim")
        + entry("d", "./a/.ssh", mode="777") + entry("d", "./a/locked", mode="000"),
    },
    "a file lies behind a link": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("l", "./a", target="../../victim") + entry("f", "./a/new", size="3"),
        "READ_FILE": "bad",
    },
    "names lead out of the folder": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + "".join(entry("f", path, size="3") for path in OUTSIDE),
        "READ_FILE": "bad",
    },
    "a size of words": {"STAT_PATH": look("f", "/data", size="abc")},
    "a negative size": {"STAT_PATH": look("f", "/data", size="-5")},
    "a size of 5,000 digits": {"STAT_PATH": look("f", "/data", size="9" * 5000)},
    "a mode of words": {"STAT_PATH": look("f", "/data", mode="xyz")},
    "no time": {"STAT_PATH": look("f", "/data", time="nan")},
    "an endless time": {"STAT_PATH": look("f", "/data", time="inf")},
    "a time of the year 10^300": {"STAT_PATH": look("f", "/data", time="1e300")},
    "free space of no number": {"STAT_PATH": look("f", "/data", free="1.5e+99.9")},
    "endless free space": {"STAT_PATH": look("f", "/data", size="3", free="inf"), "READ_FILE": "abc"},
    "a listing of words": {"STAT_PATH": look("d", "/data"), "LIST_TREE": "f|a|b|c|d\0\0"},
    "a listing with an endless time": {"STAT_PATH": look("d", "/data"), "LIST_TREE": entry("f", "./a", time="inf")},
    "nothing at all": {"STAT_PATH": ""},
    "an answer of 600 MB": {"STAT_PATH": ("x" * (1 << 20), 600)},
    "a listing without end": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": (entry("f", "./" + "a" * 200) * 5000, 10_000),
    },
    "a sum of 600 MB": {
        "STAT_PATH": look("f", "/data", size="3"),
        "READ_FILE": "abc",
        "CHECKSUM": ("f" * (1 << 20), 600),
    },
    "more bytes than announced": {
        "STAT_PATH": look("f", "/data", size="6", mode="644"),
        "READ_FILE": ("x" * (1 << 20), 134),
    },
    "more bytes than announced, in a folder": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./small", size="6"),
        "READ_FILE": ("x" * (1 << 20), 134),
    },
    "a tar with larger files than listed": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6") + entry("f", "./b", size="6"),
        "PACK_FILES": tar(("./a", 3_000_000), ("./b", 3_000_000)),
        "READ_FILE": "abcdef",
    },
    "a tar without end": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6") + entry("f", "./b", size="6"),
        "PACK_FILES": (tar(("./zzz", 1 << 20))[:-10240], 1000),
        "READ_FILE": "abcdef",
    },
    "a tar with a name of 600 MB": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6") + entry("f", "./b", size="6"),
        "PACK_FILES": huge_header(tarfile.GNUTYPE_LONGNAME) + "x" * (1 << 20),
        "READ_FILE": "abcdef",
    },
    "a tar with attributes of 600 MB": {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6") + entry("f", "./b", size="6"),
        "PACK_FILES": huge_header(tarfile.XHDTYPE) + "x" * (1 << 20),
        "READ_FILE": "abcdef",
    },
    **{
        f"a tar with {what}": {
            "STAT_PATH": look("d", "/data"),
            "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6", mode="4755") + entry("f", "./b", size="6"),
            "PACK_FILES": members + END,
            "READ_FILE": "abcdef",
        }
        for what, members in TARS.items()
    },
}  # fmt: skip


@pytest.mark.slow(reason="copies by programs of its own")
@pytest.mark.parametrize("attack", LIES)
async def test_a_lie_changes_nothing_outside_the_target(attack: str, tmp_path: Path, here: Path) -> None:
    before = outside(tmp_path)
    pod = LyingPod(tmp_path / "pod", LIES[attack])
    tracemalloc.start()
    with suppress(ConsoleError):  # in words, or the copy is made
        await pod.fetch("/data/results", here)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outside(tmp_path) == before
    assert {name for name in names(here) if not local.is_partial_file(name)} <= {".bashrc", "results"}
    check_kinds(here)
    assert written(here) < 1 << 20
    assert peak < 200 << 20


@pytest.mark.slow(reason="copies by programs of its own")
@pytest.mark.parametrize("attack", [name for name in LIES if name.startswith("more bytes")])
async def test_what_is_more_than_announced_is_named_and_leaves_nothing(attack: str, tmp_path: Path, here: Path) -> None:
    pod = LyingPod(tmp_path / "pod", LIES[attack])
    with suppress(CopyFailed):
        report = await pod.fetch("/data/results", here)
        raise CopyFailed(report.problems[0].why)
    assert written(here) == len("mine")


@pytest.mark.slow(reason="copies by programs of its own")
async def test_a_sum_that_was_not_reported_is_no_proof(tmp_path: Path, here: Path) -> None:
    lies: dict[str, Answer] = {
        "STAT_PATH": look("d", "/data"),
        "LIST_TREE": entry("d", ".") + entry("f", "./a", size="6") + entry("f", "./b", size="6"),
        "PACK_FILES": tar(("./a", 6), ("./b", 6)),
        "CHECKSUMS": f"{'0' * 64}  ./other\n",
        "CHECKSUM": "",
    }
    report = await LyingPod(tmp_path / "pod", lies).fetch("/data/results", here)
    assert report.proof is not CopyVerification.SHA256 or report.problems


async def test_a_folder_is_not_copied_through_a_link_of_an_earlier_copy(tmp_path: Path, here: Path) -> None:
    (here / "results").symlink_to(tmp_path / "victim")
    pod = Pod(tmp_path / "pod")
    (pod.folder / "results").mkdir()
    (pod.folder / "results/authorized_keys").write_text("pwned")
    with pytest.raises(CopyFailed, match="is a link on this machine"):
        await pod.fetch("results", here)
    assert names(tmp_path / "victim") == {".ssh", "locked"}


@pytest.mark.parametrize(
    ("typed", "name"),
    [("result.txt", "result.txt"), ("/data/", "data"), ("/data/..", ""), ("~", ""), ("", ""), ("/", ""), (".", "")],
)
def test_a_local_name_is_what_was_typed(typed: str, name: str) -> None:
    assert single_copy.local_name(typed) == name


async def test_an_ordinary_link_gives_the_copy_no_other_name(tmp_path: Path, here: Path) -> None:
    pod = Pod(tmp_path / "pod")
    (pod.folder / "d/.ssh").mkdir(parents=True)
    (pod.folder / "d/.bashrc").write_text("pwned")
    (pod.folder / "result.txt").symlink_to("d/.bashrc")
    (pod.folder / "results").symlink_to("d/.ssh")
    await pod.fetch("result.txt", here)
    await pod.fetch("results", here)
    assert (here / ".bashrc").read_text() == "mine"
    assert names(here) == {".bashrc", "result.txt", "results"}


async def test_a_listing_of_a_folder_without_end_is_ended_in_words(tmp_path: Path) -> None:
    lies: dict[str, Answer] = {"LIST_FOLDER": ("f|1|644|0|./" + "a" * 200 + "\0\0", 2_000_000)}
    pod = LyingPod(tmp_path / "pod", lies)
    with pytest.raises(CopyFailed, match="longer than 32 MiB"):
        await PodFiles(pod.start, "the pod").list_folder("/data")


async def test_a_listing_of_nonsense_is_reported(tmp_path: Path) -> None:
    pod = LyingPod(tmp_path / "pod", {"LIST_FOLDER": "/data\0 1 2 3\0f|abc|644|nan|./x\0\0"})
    with pytest.raises(Unreadable):
        await PodFiles(pod.start, "the pod").list_folder("/data")


def test_the_copier_keeps_its_own_rights_on_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    local.set_folder_mode(tmp_path, FileEntry("a", EntryKind.FOLDER, mode=0))
    assert os.access(tmp_path / "a", os.R_OK | os.W_OK | os.X_OK)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
