"""Folders that we make are for this account alone, with every folder above them that we make, whatever the umask."""

import asyncio
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from console.attach.ssh.config_and_known_hosts import load_entry
from console.attach.tunnel import tunnel_files
from console.errors import BadInput, ConsoleError
from console.folders import atomic_write, make_own_folders_private, make_private
from console.google import builds
from console.kube import kubeconfig
from console.kube.pod_address import PodAddress
from console.launch.profiles import _load_values
from console.launch.run_database import RunHistory, default_path
from console.logs import log_folder
from console.logs.log_segment import LogSegment, append_to
from console.metrics.log_result_cache import LogResultCache
from console.metrics.nccl_history import MeasuredTest, NcclHistory
from console.scheduling.forecast_record import read_recorded_windows
from console.scheduling.job_arrivals import read_seen_workloads
from console.settings_file import load_config
from screens.cli.output import write_text
from screens.dialogs.save_and_copy import write_export
from trainlog import NcclTest


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


def modes(above: Path) -> dict[str, int]:
    """Of every folder in there."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in above.rglob("*") if path.is_dir()}


def test_every_folder_that_is_made_is_private(umask: int, tmp_path: Path) -> None:
    make_private(tmp_path / "state" / "a4" / "logs")
    assert list(modes(tmp_path).values()) == [0o700] * 3, umask


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    make_private(tmp_path / "state" / "a4")
    make_private(tmp_path / "state" / "a4")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_private(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        make_private(tmp_path / "file" / "below")


def test_a_folder_in_which_others_may_write_is_mended_at_each_start_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    folder = tmp_path / "a4"
    for mend in (make_own_folders_private, lambda: make_private(folder)):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        mend()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o775)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(BadInput, match="others may write in this folder, and it is not yours"):
        make_own_folders_private()


def huge(place: Path) -> None:
    place.touch()
    os.truncate(place, 1 << 40)


def nccl_note(place: Path) -> str:
    history = NcclHistory(place)
    asyncio.run(history.load())
    assert history.tests == ()
    return history.note


def nccl_note_of_writer(place: Path) -> str:
    history = NcclHistory(place)
    asyncio.run(history.store([MeasuredTest(NcclTest(), rank=0, index=0, at=1.0)]))
    return history.note


def learned_logs(place: Path) -> str:
    learned = LogResultCache(place)
    learned.load()
    learned.keep("uid", tested=1.0)
    learned.store()
    return "()" * (learned.tested("other") == 0.0)


def words_of(read: Callable[[Path], object]) -> Callable[[Path], str]:
    """What the error says that reading raises."""

    def words(place: Path) -> str:
        with pytest.raises((OSError, ConsoleError)) as raised:
            read(place)
        return str(raised.value)

    return words


READERS: dict[str, Callable[[Path], str]] = {
    "config.toml": lambda place: str(load_config(place).problems[0]),
    "nccl-tests.jsonl": nccl_note,
    "nccl-tests.jsonl, written": nccl_note_of_writer,
    "logs-learned.msgpack": learned_logs,
    "profiles/mine.yaml": words_of(_load_values),
    "ssh/jobs/mine.json": words_of(lambda place: load_entry(SimpleNamespace(jobs=place.parent), place.stem)),  # type: ignore[arg-type]
    "ports.json": lambda place: "{}" * (tunnel_files.read_json(place) == {}),
    "workloads.json": lambda place: "[]" * (read_seen_workloads(place) == []),
    "forecasts.json": lambda place: "[]" * (read_recorded_windows(place) == []),
    "images.json": lambda place: "()" * (builds.read_built_images(place) == ()),
    "attempt-0/0000.main.log": words_of(lambda place: LogSegment.load(place, 0)),
    "attempt-0/0000.main.log, written": words_of(lambda place: append_to(place, b"line")),
}


@pytest.mark.parametrize("made", [os.mkfifo, lambda place: place.symlink_to("/dev/zero"), huge, Path.mkdir])
@pytest.mark.parametrize("of", READERS)
def test_a_state_file_that_is_none_is_refused_at_once_in_words(
    of: str, made: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / of.partition(",")[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    made(place)
    if made is huge and ".log" in of:
        return  # logs may be as long as they are
    words = READERS[of](place)
    assert words in {"{}", "[]", "()"} or any(
        each in words for each in ("no regular file", "larger than", "irectory", "symbolic")
    ), words


async def test_logs_history_and_tunnels_lie_in_private_folders(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    log_folder.JobLogStore.open(log_folder.logs_folder(), log_folder.JobMetadata("uid", "default", "job")).segment_path(
        0, 0, "main", "pod"
    ).touch()
    tunnel_files.remember_local_port("https://server", PodAddress("default", "job", 0), 8888, 18888)
    await RunHistory(default_path()).list_runs()
    builds.record_builds(default_path().parent / "google" / "images.json", [])
    entry = kubeconfig.KubeconfigEntry("c", "https://server", "", "plugin")
    kubeconfig.write_entry(tmp_path / "home" / ".kube" / "config", entry)
    folders = modes(tmp_path)
    assert len(folders) == 9
    assert set(folders.values()) == {0o700}, umask


def test_a_file_is_written_whole_or_not_at_all_and_for_its_owner_alone(umask: int, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the disk is full")

    (place := tmp_path / "file").write_bytes(b"before")
    with pytest.raises(OSError, match="the disk is full"):
        atomic_write(place, broken())
    assert [(each, each.read_bytes()) for each in tmp_path.iterdir()] == [(place, b"before")]
    atomic_write(place, b"after")
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"after", 0o600), umask


@pytest.mark.parametrize(
    "write", [lambda place, text: write_text(place, text), lambda place, text: write_export(place, lambda _: text)]
)
def test_of_an_export_that_the_disk_does_not_take_nothing_is_left(
    write: Callable[[str, str], None], umask: int, tmp_path: Path
) -> None:
    place, before = tmp_path / "curve.svg", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, before[1]))  # bytes that a file may have
    try:
        with pytest.raises(BadInput, match=r"curve\.svg cannot be written: File too large"):
            write(str(place), "x" * (1 << 16))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
    write(str(place), "whole")
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("whole", 0o600), umask


# the folder of the tunnels' sockets, which lies in a folder that all users share where the system gives none


def _elsewhere(place: Path) -> None:
    (place.parent / "theirs").mkdir(mode=0o700)
    place.symlink_to(place.parent / "theirs")


@pytest.mark.parametrize(
    "planted",
    [
        lambda place: place.symlink_to(place.parent / "not-there"),
        _elsewhere,
        Path.touch,
        lambda place: place.mkdir(mode=0o755),
    ],
    ids=["a link to nothing", "a link to a folder", "a file", "one that others may enter"],
)
def test_sockets_are_not_made_where_somebody_else_was_first(
    planted: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    planted(tmp_path / "a4")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match="can be accessed by other users"):
        tunnel_files.socket_path("p")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("runtime", ["", "relative"])
def test_without_a_folder_of_the_system_the_one_of_another_user_is_refused(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one made in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    user = 1_000_000_000 + os.getpid()
    monkeypatch.setattr(os, "geteuid", lambda: user)
    shared = Path(f"/tmp/a4-{user}")  # whoever runs this is that other user
    try:
        with pytest.raises(BadInput, match=f"The folder {shared} can be accessed by other users"):
            tunnel_files.socket_path("p")
        assert list(tmp_path.iterdir()) == []
    finally:
        with suppress(FileNotFoundError):
            shared.rmdir()
