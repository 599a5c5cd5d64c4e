"""Reports on hangs and on slow ranks in the short form that is kept for all consoles (pure)."""

from __future__ import annotations

from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from rankscope import HangReport, SlowReport, describe_cost


def diagnose_hang(report: HangReport, uid: str) -> Diagnosis:
    """For whom the ranks wait; without words where nothing is wrong."""
    words = report.short.rstrip(".") if report.alarming else ""
    return Diagnosis(
        uid, DiagnosisKind.HANG, report.at, words, words, report.suspected_nodes, report.blames_program, report.advice
    )  # fmt: skip


def diagnose_slow_ranks(report: SlowReport, uid: str) -> tuple[Diagnosis, ...]:
    """The slowest rank, or the one that launches latest; without words if there is none.

    NCCL's RAS service alone knows of no slow GPU, so that it clears no rank that was measured to be slow.
    """
    if report.slow:
        return (_diagnose_slow(report, uid),)
    if report.suspects:
        first = report.suspects[0]
        words, short = describe_cost(first), describe_cost(first, short=True)
        return (Diagnosis(uid, DiagnosisKind.LATE, report.at, words, short, advice=report.advice),)
    if not report.has_verdict:
        return ()
    kinds = (DiagnosisKind.SLOW, DiagnosisKind.LATE) if report.timed else (DiagnosisKind.LATE,)
    return tuple(Diagnosis(uid, kind, report.at) for kind in kinds)


def _diagnose_slow(report: SlowReport, uid: str) -> Diagnosis:
    nodes = tuple(dict.fromkeys(each.node for each in report.slow if each.node and each.cause != "data"))
    by_data = tuple(dict.fromkeys(each.node for each in report.slow if each.node)) if not nodes else ()
    others = len(report.slow) - 1
    more = f"; {others} more rank{'s are' if others > 1 else ' is'} slow" if others > 0 else ""
    first = report.slow[0]
    words, short = f"{describe_cost(first)}{more}", describe_cost(first, short=True)
    return Diagnosis(
        uid, DiagnosisKind.SLOW, report.at, words, short, nodes or by_data, bool(by_data), report.advice
    )  # fmt: skip
