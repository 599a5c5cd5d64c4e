"""Which nodes are at fault."""

import pytest

from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.diagnosis import Blame, Diagnosis, diagnose_hang, find_blame
from rankscope import Activity, HangReport, StackLocation, TracedProcess

WAITS = StackLocation(Activity.COLLECTIVE, "all_reduce")


def report(where: StackLocation, state: str = "S") -> HangReport:
    processes = (TracedProcess(each, each, f"p{each}", f"node-{each}", 7, where=WAITS) for each in range(3))
    return HangReport("job", (), (*processes, TracedProcess(3, 3, "p3", "node-3", 7, where=where, state=state)))


DATA = diagnose_hang(report(StackLocation(Activity.DATA, "data loader")), "u1")
STOPPED = diagnose_hang(report(StackLocation(Activity.UNKNOWN, "no stack"), "T"), "u1")


def alarm(kind: AlarmKind, *nodes: str) -> Alarm:
    return Alarm(kind, "words", 1.0, nodes=nodes)


@pytest.mark.parametrize(
    ("alarms", "seen", "found"),
    [
        ([], STOPPED, Blame(("node-3",))),
        ([], DATA, Blame(cleared_nodes=("node-3",))),
        ([alarm(AlarmKind.STALL)], DATA, Blame(cleared_nodes=("node-3",))),
        ([alarm(AlarmKind.STALL, "node-3"), alarm(AlarmKind.BEHIND, "node-3")], DATA, Blame(cleared_nodes=("node-3",))),
        ([alarm(AlarmKind.STALL, "node-3")], None, Blame(("node-3",))),
        ([alarm(AlarmKind.GPU, "node-1"), alarm(AlarmKind.STALL)], DATA, Blame(("node-1",))),
        ([alarm(AlarmKind.FAILED, "node-2")], STOPPED, Blame(("node-2",))),
        ([], None, Blame()),
    ],
)
def test_a_node_is_at_fault_unless_program_data_or_storage_are(
    alarms: list[Alarm], seen: Diagnosis | None, found: Blame
) -> None:
    assert find_blame(alarms, seen) == found
