"""Folders of practice clusters: those of killed ones are removed, and nobody makes them anew."""

import os
import tempfile
from pathlib import Path

import pytest

from console.folders import PRACTICE_PREFIX, file_lock, make_private
from practice.cluster import PracticeCluster
from practice.folder_removal import hold_folder, remove_abandoned_folders


def test_only_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    names = ("killed", "alive", "unknown")
    killed, alive, unknown = (tmp_path / f"{PRACTICE_PREFIX}{name}" for name in names)
    for each in (killed, alive, unknown):
        (each / "pods").mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / f"{PRACTICE_PREFIX}link").symlink_to(other)
    os.close(hold_folder(killed))
    os.close(hold_folder(other))
    held = hold_folder(alive)
    try:
        remove_abandoned_folders(tmp_path)
    finally:
        os.close(held)
    assert [each.exists() for each in (killed, alive, unknown, other)] == [False, True, True, True]


async def test_a_cluster_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"{PRACTICE_PREFIX}left"
    left.mkdir()
    os.close(hold_folder(left))
    async with PracticeCluster(scene=False) as first, PracticeCluster(scene=False) as second:
        assert not left.exists()
        assert first.kubeconfig.exists()
        assert second.kubeconfig.exists()
    assert not first.folder.exists()
    assert not second.folder.exists()


def test_a_console_that_outlives_it_does_not_make_its_folder_anew(tmp_path: Path) -> None:
    folder = tmp_path / f"{PRACTICE_PREFIX}gone"
    for each in (folder / "hangs" / "unasked", folder):
        with pytest.raises(FileNotFoundError, match="the practice cluster has ended"):
            make_private(each)
    with pytest.raises(FileNotFoundError), file_lock(folder / "forecasts.json"):
        pass
    assert not folder.exists()
    folder.mkdir()
    make_private(folder / "hangs")
    assert (folder / "hangs").is_dir()
