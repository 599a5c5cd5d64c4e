from __future__ import annotations

from console.kube.snapshot import WatchState, WatchStatus
from screens.columns.live import freshness_runs

NOW = 1000.0


def said(*links: WatchStatus, trouble: str = "") -> str:
    return "".join(run.text for run in freshness_runs(links, NOW, trouble=trouble))


def test_live() -> None:
    assert said(WatchStatus("pods", WatchState.LIVE, last_seen=NOW - 4)) == "● live"
    assert said(WatchStatus("pods", WatchState.LIVE, last_seen=NOW - 14)) == "● live, no change for 10 s"


def test_before_anything_is_known() -> None:
    assert said() == "◐ connecting …"
    assert said(WatchStatus("pods")) == "◐ listing pods …"


def test_kinds_that_differ_are_named() -> None:
    links = (
        WatchStatus("nodes", WatchState.LIVE, last_seen=NOW),
        WatchStatus("pods", WatchState.STALE, last_seen=NOW - 14, why="connection refused"),
    )
    assert said(*links) == "◐ pods reconnecting, 14 s old: connection refused"


def test_all_lost_need_no_names() -> None:
    links = [WatchStatus(kind, WatchState.STALE, last_seen=NOW - 14, why="refused") for kind in ("nodes", "pods")]
    assert said(*links) == "◐ reconnecting, 14 s old: refused"


def test_what_may_not_be_listed() -> None:
    links = (
        WatchStatus("nodes", WatchState.LIVE, last_seen=NOW),
        WatchStatus("pods", WatchState.FORBIDDEN, why="not allowed"),
    )
    assert said(*links) == "✗ not allowed: pods"


def test_kinds_the_cluster_does_not_have_are_no_trouble() -> None:
    links = (WatchStatus("nodes", WatchState.LIVE, last_seen=NOW), WatchStatus("jobsets", WatchState.ABSENT))
    assert said(*links).startswith("● live")


def test_no_session() -> None:
    assert said(trouble="no kubeconfig") == "✗ not connected: no kubeconfig"
