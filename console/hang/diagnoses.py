"""Reports on hangs and on slow ranks in the short form that is kept for all consoles (pure)."""

from __future__ import annotations

from console.hang.late_rank import describe_slow_rank_shortly
from console.hang.report import HangReport
from console.hang.slow_ranks import SlowReport
from console.metrics.diagnosis import Diagnosis, DiagnosisKind


def diagnose_hang(report: HangReport, uid: str) -> Diagnosis:
    """For whom the ranks wait; without words where nothing is wrong."""
    words = report.short.rstrip(".") if report.alarming else ""
    return Diagnosis(
        uid, DiagnosisKind.HANG, report.at, words, words, report.suspected_nodes, report.blames_program, report.advice
    )  # fmt: skip


def diagnose_slow_rank(report: SlowReport, uid: str) -> Diagnosis | None:
    """The slowest rank, without words where none is slow; None where the report has no verdict."""
    if not report.has_verdict:
        return None
    nodes = tuple(dict.fromkeys(each.node for each in report.slow if each.node and each.cause != "data"))
    by_data = tuple(dict.fromkeys(each.node for each in report.slow if each.node)) if not nodes else ()
    advice = report.advice if report.slow else ()
    others = len(report.slow) - 1
    more = f"; {others} more rank{'s are' if others > 1 else ' is'} slow" if others > 0 else ""
    words = f"{report.first}{more}" if report.slow else ""
    short = describe_slow_rank_shortly(report.slow[0]) if report.slow else ""
    return Diagnosis(uid, DiagnosisKind.SLOW, report.at, words, short, nodes or by_data, bool(by_data), advice)
