"""Which nodes are at fault when something is wrong with a job: one rule for alarms, dialogs and relaunches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from console.metrics.alarm import Alarm, AlarmKind

if TYPE_CHECKING:
    from console.hang.report import HangReport

_OF_STEPS = frozenset({AlarmKind.STALL, AlarmKind.BEHIND})  # what an inspection of the processes explains


class Blame(NamedTuple):
    nodes: tuple[str, ...] = ()  # that are at fault
    beside: tuple[str, ...] = ()  # not at fault: where the ranks are whose program, data or storage is


def find_blame(alarms: Iterable[Alarm], report: HangReport | None) -> Blame:
    """The nodes of the alarms, else of the ranks that the others wait for, unless those are kept by something else.

    A rank in its data loader, in a save or in another collective would be so on any node. Its node is at fault only
    where something else tells of it, such as a GPU with an Xid.
    """
    excused = report is not None and report.blames_program
    told = dict.fromkeys(node for alarm in alarms if not (excused and alarm.kind in _OF_STEPS) for node in alarm.nodes)
    if told or report is None:
        return Blame(tuple(told))
    return Blame(beside=report.suspected_nodes) if excused else Blame(report.suspected_nodes)
