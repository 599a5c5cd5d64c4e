"""Lines in memory and on the disk, whatever happens to either."""

import stat
import threading
import tracemalloc
from pathlib import Path

import pytest

from console.logs import log_segment as parts
from console.logs.log_segment import DELETED_NOTE, LOST_NOTE, RECENT_LINES, LogSegment


def lines(start: int, number: int) -> list[tuple[float, bytes]]:
    return [
        (float(at), b"2026-11-21T00:%02d:%02d.5Z line %d" % (at // 60 % 60, at % 60, at))
        for at in range(start, start + number)
    ]


def words(start: int, stop: int) -> list[bytes]:
    return [b"line %d" % at for at in range(start, stop)]


def test_lines_are_the_same_before_and_after_they_are_written(tmp_path: Path) -> None:
    part = LogSegment(7, file=tmp_path / "log")
    for at in range(0, 1000, 100):
        part.append_lines(lines(at, 100))
        assert part.read_texts(0, 2000) == words(0, at + 100)
        part.write_pending()
        assert part.read_texts(0, 2000) == words(0, at + 100)
    assert not part.pending
    assert part.read_texts(500, 503) == words(500, 503)
    assert part.read_texts_at([1, 2, 3, 990, 995]) == [*words(1, 4), b"line 990", b"line 995"]
    assert len(part._recent) == RECENT_LINES
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_file_is_taken_up_where_it_ends_and_a_cut_line_does_not_count(tmp_path: Path) -> None:
    part = LogSegment(7, file=tmp_path / "log")
    part.append_lines(lines(0, 10))
    part.write_pending()
    with (tmp_path / "log").open("ab") as file:
        file.write(b"2026-11-21T00:00:10.5Z half a li")
    again = LogSegment.load(tmp_path / "log", 7)
    again.cut_incomplete_line()
    again.append_lines(lines(10, 5))
    again.write_pending()
    assert again.read_texts(0, 99) == words(0, 15)
    assert LogSegment.load(tmp_path / "log", 7).read_texts(0, 99) == words(0, 15)
    assert [moment % 60 for moment, _ in again.iter_timed_lines(len(again) - 2)] == [13.5, 14.5]


@pytest.mark.slow(reason="reads a large file and measures the memory")
def test_a_large_file_is_read_and_put_behind_older_lines_in_a_small_part_of_its_size(tmp_path: Path) -> None:
    block = b"".join(raw + b"x" * 1000 + b"\n" for _, raw in lines(0, 3600))
    (tmp_path / "log").write_bytes(block * 4)
    with (tmp_path / "older").open("w+b") as older:
        older.write(block * 2)
        tracemalloc.start()
        part = LogSegment.load(tmp_path / "log", 7)
        loading = tracemalloc.get_traced_memory()[1]
        part.backfill(older)
        number = sum(1 for _ in part.iter_timed_lines(0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (number, part.opened_with) == (6 * 3600, 0)
    assert loading < len(block) * 4 / 6
    assert peak < len(block) * 6 / 1.5
    assert part.read_texts(0, 1) == [b"line 0" + b"x" * 1000]
    assert part.read_texts(21_590, 21_600)[-1] == b"line 3599" + b"x" * 1000


def test_a_full_disk_holds_what_it_can_and_counts_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = LogSegment(7, file=tmp_path / "log")
    part.append_lines(lines(0, 10))
    part.write_pending()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("console.logs.log_segment.os.write", full)
        part.append_lines(lines(10, 10))
        with pytest.raises(OSError, match="No space"):
            part.write_pending()
        assert part.read_texts(0, 99) == words(0, 20)
        patch.setattr(parts, "MAX_PENDING_BYTES", 400)
        part.append_lines(lines(20, 20))
    assert 0 < part.lost_lines < 30
    part.write_pending()
    said = part.read_texts(0, 99)
    assert said[:10] == words(0, 10)
    assert said.count(LOST_NOTE) == part.lost_lines
    assert said[10 + part.lost_lines :] == words(10 + part.lost_lines, 40)
    (tmp_path / "log").unlink()
    assert part.read_texts(0, 2) == [DELETED_NOTE] * 2


def test_without_a_file_the_newest_lines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_PENDING_BYTES", 2000)
    part = LogSegment(0)
    part.append_lines(lines(0, 500))
    assert part.read_texts(495, 500) == words(495, 500)
    assert part.read_texts(0, 1) == [LOST_NOTE]
    assert part.lost_lines > 400


def test_times_never_go_back() -> None:
    part = LogSegment(0)
    part.append_lines([(5.0, b"a"), (3.0, b"b"), (0.0, b"c"), (6.0, b"d")])
    assert list(part.times) == [5.0, 5.0, 5.0, 6.0]


def test_two_threads_that_write_the_same_lines_write_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = LogSegment(7, file=tmp_path / "log")
    part.append_lines(lines(0, 3))
    inside, go_on, append = threading.Event(), threading.Event(), parts.append_to

    def held(file: Path, data: bytes) -> int:
        inside.set()
        assert go_on.wait(60)
        return append(file, data)

    monkeypatch.setattr(parts, "append_to", held)
    threads = [threading.Thread(target=part.write_pending) for _ in range(2)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert (tmp_path / "log").read_bytes().count(b"\n") == 3
    assert part.read_texts(0, 9) == words(0, 3)
