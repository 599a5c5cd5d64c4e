"""What ranks printed before, merged by time while it is read."""

from collections.abc import Iterator

from console.logs.log_service import PreviousLog, PreviousLogs


class Counted(list[tuple[float, bytes]]):
    """Lines that count how many of them were read."""

    read = 0

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        for line in super().__iter__():
            self.read += 1
            yield line


def run(rank: int, *moments: float) -> tuple[PreviousLog, Counted]:
    lines = Counted((moment, f"2026-11-21T12:00:00Z at {moment:g}".encode()) for moment in moments)
    return PreviousLog(rank, 0, f"pod-{rank}", "main", lambda: lines, lines[0][0], is_cut=False), lines


def test_lines_of_all_ranks_are_merged_by_time_and_made_as_they_are_read() -> None:
    (zero, of_zero), (one, of_one) = run(0, 1, 4, 5), run(1, 2, 4, 6)
    runs = PreviousLogs(2, (zero, one), (), 2)
    lines = runs.lines
    assert (next(lines).text, of_zero.read, of_one.read) == ("at 1", 1, 1)
    assert [(line.rank, line.time) for line in lines] == [(1, 2), (0, 4), (1, 4), (0, 5), (1, 6)]
    assert len(list(runs.lines)) == 6
