import pytest
from msgspec import structs

from console.kube.snapshot import WatchState, WatchStatus
from screens.columns.live_jobs import freshness_spans

NOW = 1000.0
LIVE = WatchStatus("nodes", WatchState.LIVE, last_seen=NOW)
LOST = [WatchStatus(kind, WatchState.STALE, last_seen=NOW - 14, why="refused") for kind in ("nodes", "pods")]


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([WatchStatus("pods", WatchState.LIVE, last_seen=NOW - 4)], "● live"),
        ([WatchStatus("pods", WatchState.LIVE, last_seen=NOW - 14)], "● live, no change for 10 s"),
        ([], "◐ connecting …"),
        ([WatchStatus("pods")], "◐ listing pods …"),
        ([LIVE, LOST[1]], "◐ pods reconnecting, 14 s old: refused"),
        (LOST, "◐ reconnecting, 14 s old: refused"),
        ([structs.replace(each, since=NOW - 3) for each in LOST], "◐ reconnecting, 3.0 s old: refused"),
        ([LIVE, WatchStatus("pods", WatchState.FORBIDDEN, why="not allowed")], "✗ not allowed: pods"),
        ([LIVE, WatchStatus("jobsets", WatchState.ABSENT)], "● live"),
    ],
)
def test_how_fresh_a_picture_is(links: list[WatchStatus], text: str) -> None:
    assert "".join(run.text for run in freshness_spans(links, NOW, reason="")) == text


def test_no_session() -> None:
    assert "".join(run.text for run in freshness_spans((), NOW, reason="no file")) == "✗ not connected: no file"
