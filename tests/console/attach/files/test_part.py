"""A part grows by each byte once."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from console.attach.files import local
from console.attach.files.copy_progress import EntryKind, FileEntry


def test_two_threads_that_write_down_the_same_part_write_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = local.PartialFile(tmp_path / "model", FileEntry("model", EntryKind.FILE, 8))
    part.buffer(b"one ")
    inside, go_on, told = threading.Event(), threading.Event(), local.translate_os_errors

    def held(path: Path) -> object:
        inside.set()
        assert go_on.wait(60)
        return told(path)

    def begun(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    monkeypatch.setattr(local, "translate_os_errors", held)
    first = begun(part.flush)
    assert inside.wait(60)
    part.buffer(b"two ")
    second = begun(part.flush)
    go_on.set()
    first.join()
    second.join()
    assert part.path.read_bytes() == b"one two "
