import pytest

from tests.bench.rows import BUSY, CORES, Row


@pytest.mark.parametrize(
    ("ours", "peer", "limit", "load", "verdict"),
    [
        (3.0, 2.0, 1.5, 0.0, "kept"),
        (3.0, 2.0, -1.5, 0.0, "kept"),
        (2.9, 2.0, -1.5, 0.0, "BROKEN"),
        (3.1, 2.0, 1.5, BUSY * CORES, "BROKEN"),
        (3.0, None, 3.0, 0.0, "kept"),
        (3.1, None, 3.0, 0.0, "BROKEN"),
        (3.1, 2.0, None, 0.0, ""),
        (3.0, 2.0, 1.5, BUSY * CORES + 0.1, "too loaded to tell"),
        (3.0, 0.0, 1.5, 0.0, "BROKEN"),
    ],
)
def test_a_busy_machine_is_neither_red_nor_green(
    ours: float, peer: float | None, limit: float | None, load: float, verdict: str
) -> None:
    rate = limit is not None and limit < 0
    row = Row("work", ours, peer, -limit if limit and rate else limit, load, rate)
    assert row.verdict == verdict
    assert row.line().endswith(verdict or f"{load:.1f}")
