"""Which nodes are at fault when something is wrong with a job: one rule for alarms, dialogs and relaunches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.diagnosis import Diagnosis

_EXPLAINED = frozenset({AlarmKind.STALL, AlarmKind.BEHIND})  # alarms whose cause an inspection of the processes tells


class Blame(NamedTuple):
    nodes: tuple[str, ...] = ()  # that are at fault
    innocent: tuple[str, ...] = ()  # not at fault: where the ranks are whose program, data or storage is


def find_blame(alarms: Iterable[Alarm], diagnosis: Diagnosis | None) -> Blame:
    """The nodes of the alarms, else of the ranks that the others wait for, unless those are kept by something else.

    A rank in its data loader, in a save or in another collective would be so on any node. Its node is at fault only
    where something else tells of it, such as a GPU with an Xid.
    """
    excused = diagnosis is not None and diagnosis.blames_program
    of_alarms = (alarm.nodes for alarm in alarms if not (excused and alarm.kind in _EXPLAINED))
    nodes = tuple(dict.fromkeys(node for each in of_alarms for node in each))
    if nodes or diagnosis is None:
        return Blame(nodes)
    return Blame(innocent=diagnosis.nodes) if excused else Blame(diagnosis.nodes)
