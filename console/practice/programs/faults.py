"""Faults that a job is told to have, and its pace.

The opening scene says so by annotations of its pods; whoever launches a job, by variables: PRACTICE_FAULT=nan:118,
PRACTICE_PACE=0.5. A fault is ``kind:step`` or ``kind:step:pod``, several are separated by commas, and ``@n`` behind one
means the n-th attempt of the job only (0 is the first). The pod is its number in the job.

=======  ====================================================================================================
nan      from that step the loss is not a number
spike    the loss jumps and comes down again within a dozen steps
slow     steps take a third longer from there; a test of NCCL on two pods and more keeps a third of its bandwidth from
         that row, counted from 0
oom      the pod (without a number: every pod) is killed for its memory
fail     the pod (without a number: the last) ends with a traceback, the others wait for it
hang     the pod (as above) stops for ever in its data loader, the others in the next all_reduce
wrong    a test of NCCL has wrong values in that row, counted from 0
xid      a GPU of the pod (without a number: of the last) has an uncorrected memory error, Xid 94; training goes on
timeout  as hang, but after ten minutes the watchdog of NCCL ends the others
=======  ====================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.practice.programs.script import Place

FAULT, FAULT_VARIABLE = "a4-practice/fault", "PRACTICE_FAULT"
PACE, PACE_VARIABLE = "a4-practice/pace", "PRACTICE_PACE"
"""Seconds per step instead of the program's own."""
_TESTS = "a4-practice/tests"
"""How often a test is run, one after the other, for one that outlasts a first look."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of this attempt of the job."""

    kind: str
    step: int
    rank: int | None = None
    """Number of the pod; None: not said."""


def faults(place: Place) -> tuple[Fault, ...]:
    """Return the faults of this attempt of the job, in all its pods; what cannot be read is none."""
    attempt = place.notes.get("jobset.sigs.k8s.io/restart-attempt", "0")
    found = []
    for text in (place.notes.get(FAULT) or place.env.get(FAULT_VARIABLE, "")).split(","):
        what, _, when = text.strip().partition("@")
        kind, _, rest = what.partition(":")
        step, _, rank = rest.partition(":")
        if step.isdigit() and (not rank or rank.isdigit()) and when in ("", attempt):
            found.append(Fault(kind, int(step), int(rank) if rank else None))
    return tuple(found)


def fault_at(place: Place, kind: str) -> int | None:
    """Return the step at which a fault of a kind happens to this pod."""
    for fault in faults(place):
        if fault.kind == kind and fault.rank in (None, place.rank):
            return fault.step
    return None


def pace(place: Place, usual: float) -> float:
    """Return the seconds one step takes."""
    try:
        return max(float(place.notes.get(PACE) or place.env.get(PACE_VARIABLE) or usual), 1e-6)
    except ValueError:
        return usual


def tests(place: Place) -> int:
    """Return how many tests one program runs."""
    return int(place.notes.get(_TESTS, "1"))
