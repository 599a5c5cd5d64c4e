"""Faults that a job is configured to have, and its pace.

The opening scene sets them by annotations of its pods, a person by variables: PRACTICE_FAULT=nan:118,
PRACTICE_PACE=0.5. A fault is ``kind:step`` or ``kind:step:pod``, with the pod's number in the job; several are
separated by commas, and ``@n`` after one limits it to the n-th attempt of the job (0 is the first). The kind of a hang
is the last word: ``hang:20:1:skip`` or ``hang:20:skip``. A permanent fault has a rank and a share of the step instead:
``slowrank:41:7%``, or ``slowrank:41:7%:data`` for another cause than its host. KINDS lists all kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from practice.programs.hangs import DATA, HOW, REPLICAS, STAGES
from practice.programs.process_groups import ProcessGroups, process_groups

if TYPE_CHECKING:
    from practice.programs.steps import ProgramContext

FAULT, FAULT_VARIABLE = "a4-practice/fault", "PRACTICE_FAULT"
PACE, PACE_VARIABLE = "a4-practice/pace", "PRACTICE_PACE"  # seconds per step instead of the program's own
_TESTS = "a4-practice/tests"
"""Annotation with the number of consecutive tests of a job, for one that should still run when first looked at."""


GPUS_OF_A4 = 8
TRAINING, TEST = "training", "NCCL test"
KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "nan": ((TRAINING,), "from that step the loss is not a number"),
    "spike": ((TRAINING,), "the loss jumps and comes down again within a dozen steps"),
    "slow": (
        (TRAINING, TEST),
        "steps take a third longer from there; a test of two pods and more keeps a third of its bandwidth",
    ),
    "oom": ((TRAINING,), "the pod (without a number: every pod) is killed for its memory"),
    "fail": ((TRAINING,), "the pod (without a number: the last) ends with a traceback, the others wait for it"),
    "hang": (
        (TRAINING, TEST),
        "a rank of the pod (as above) stops for ever in its data loader, the others in the next all_reduce; a test in "
        "that row. In a training a word behind it says another way, as hang:20:1:skip: "
        f"{', '.join(how for how in HOW if how != DATA)}",
    ),
    "wrong": ((TEST,), "a test has wrong values in that row"),
    "xid": (
        (TRAINING,),
        "a GPU of the pod (without a number: of the last) has an uncorrected memory error, Xid 94; training goes on",
    ),
    "timeout": ((TRAINING,), "as hang, but after ten minutes the watchdog of NCCL ends the others"),
    "slowrank": (
        (TRAINING,),
        "all others wait for that rank for that share of each step: because of its host, or with :gpu, :data or "
        ":network (a NIC of its pod) behind it of that",
    ),
}
"""By kind: (programs in which the fault can happen, its effect). Rows of a test are counted from 0."""
_TESTING = frozenset({"nccl-all-reduce", "nccl-one-pod"})
_CONVERTING = frozenset({"qwen3-to-mcore", "qwen3-to-hf", "qwen3-next-to-mcore", "qwen3-download", "qwen3-eval"})
_FAULT = re.compile(r"(?P<kind>[^:@]+):(?P<step>\d+)(?::(?P<pod>\d+))?(?::(?P<how>[a-z]+))?(?:@(?P<attempt>\d+))?")
_SLOW_RANK = re.compile(
    r"slowrank:(?P<rank>\d+):(?P<percent>[1-9]\d?)%(?::(?P<cause>host|gpu|data|network))?(?:@(?P<attempt>\d+))?"
)


@dataclass(frozen=True, slots=True)
class JobFault:
    """One fault that a job's values request, such as a hang at a step."""

    kind: str
    step: int
    rank: int | None = None  # number of the pod; None: not said
    how: str = ""  # a rank hangs; empty: not said


def parse_faults(context: ProgramContext) -> tuple[JobFault, ...]:
    """Return the faults of this attempt of the job in all its pods, without invalid ones and hangs it cannot have."""
    read = (_FAULT.fullmatch(text) for text in _split_fault_list(_fault_list_text(context)))
    groups, recipe = process_groups(context), context.env.get("A4_RECIPE", "")
    return tuple(
        JobFault(found["kind"], int(found["step"]), int(found["pod"]) if found["pod"] else None, found["how"] or "")
        for found in read
        if found is not None
        and found["attempt"] in (None, _attempt_id(context))
        and (
            not found["how"]
            or (found["kind"] == "hang" and not _why_no_such_hang(found["how"], fault_kinds_of(recipe), groups))
        )
    )


class SlowRank(NamedTuple):
    rank: int
    share: float  # of each step
    cause: str  # host, gpu, data or network

    @property
    def launches_late(self) -> bool:
        """Whether the slow rank's host launches collectives late, which NCCL RAS shows."""
        return self.cause in ("host", "data")


def slow_rank(context: ProgramContext) -> SlowRank | None:
    """Return the rank for which all others wait in this attempt of the job; None if they wait for none."""
    read = (_SLOW_RANK.fullmatch(text) for text in _split_fault_list(_fault_list_text(context)))
    found = next((each for each in read if each is not None and each["attempt"] in (None, _attempt_id(context))), None)
    return SlowRank(int(found["rank"]), int(found["percent"]) / 100, found["cause"] or "host") if found else None


def _attempt_id(context: ProgramContext) -> str:
    return context.notes.get("jobset.sigs.k8s.io/restart-attempt", "0")


def fault_kinds_of(recipe: str) -> str:
    """Return the kind of faults that a recipe can have: TRAINING, TEST, or empty."""
    if recipe in _TESTING:
        return TEST
    trains = recipe.startswith(("qwen3", "swift-")) and recipe not in _CONVERTING and recipe != "swift-export"
    return TRAINING if trains else ""


def impossible_faults(
    text: str, program: str, *, steps: int | None, pods: int, sizes: tuple[int, int, int, int] | None = None
) -> list[str]:
    """Return a sentence for each requested fault of this text that cannot happen.

    `steps`: iterations of a training, rows of a test. `sizes`: ranks of a training, and sizes of its tensor, pipeline
    and context parallelism. None: not known.
    """
    groups = None if sizes is None else ProcessGroups(*sizes)
    return [why for each in _split_fault_list(text) if (why := _why_impossible(each, program, steps, pods, groups))]


def impossible_faults_of(context: ProgramContext, work: str, steps: int | None) -> list[str]:
    """Return why faults in a pod's environment will never happen, a sentence each; `steps` None: not known."""
    return impossible_faults(
        _fault_list_text(context), work, steps=steps, pods=context.nodes, sizes=process_groups(context)
    )


def _why_impossible(text: str, program: str, steps: int | None, pods: int, process_groups: ProcessGroups | None) -> str:
    head = f"{FAULT_VARIABLE}: "
    if text.partition(":")[0] == "slowrank":
        return _why_slow_rank_impossible(text, program, pods)
    found = _FAULT.fullmatch(text)
    if found is None or (found["how"] and found["kind"] in KINDS and found["kind"] != "hang"):
        return f'{head}"{text}" is no KIND:STEP or KIND:STEP:POD, such as nan:20 or hang:20:1.'
    if found["kind"] not in KINDS:
        return f"{head}there is no fault {found['kind']}; there are {', '.join(KINDS)}."
    where = KINDS[found["kind"]][0]
    if program not in where:
        programs = " or ".join("an NCCL test" if each == TEST else f"a {each}" for each in where)
        return f"{head}{text} never happens: {found['kind']} is a fault of {programs}."
    if steps is not None and program == TRAINING and int(found["step"]) > steps:
        return f"{head}{text} never happens: the training has {steps} iterations."
    if steps is not None and program == TEST and found["kind"] != "slow" and int(found["step"]) >= steps:
        return f"{head}{text} never happens: the test has {steps} rows, counted from 0."
    if found["pod"] and int(found["pod"]) >= pods:
        return f"{head}{text} never happens: the job has {pods} {'pod' if pods == 1 else 'pods'}, counted from 0."
    if found["how"] and (why := _why_no_such_hang(found["how"], program, process_groups)):
        return f"{head}{text} never happens: {why}"
    return ""


def _why_no_such_hang(how: str, program: str, process_groups: ProcessGroups | None) -> str:
    """Return why no rank of a job hangs in that way; empty if one can."""
    if program == TEST:
        return "a test hangs in one way only."
    if how not in HOW:
        return f"no rank hangs by {how}; there are {', '.join(HOW)}."
    known = {} if process_groups is None else {REPLICAS: process_groups.replicas, STAGES: process_groups.stages}
    needed = HOW[how].needs
    return "" if known.get(needed, 2) > 1 else f"it takes two {needed}, and the training has one."


def _why_slow_rank_impossible(text: str, program: str, pods: int) -> str:
    head, found = f"{FAULT_VARIABLE}: ", _SLOW_RANK.fullmatch(text)
    if found is None:
        return f'{head}"{text}" is no slowrank:RANK:PERCENT%, such as slowrank:9:7% or slowrank:9:7%:data.'
    if program != TRAINING:
        return f"{head}{text} never happens: slowrank is a fault of a training."
    if int(found["rank"]) >= pods * GPUS_OF_A4:
        return f"{head}{text} never happens: the job has {pods * GPUS_OF_A4} ranks at most, counted from 0."
    return ""


def _fault_list_text(context: ProgramContext) -> str:
    return context.notes.get(FAULT) or context.env.get(FAULT_VARIABLE, "")


def _split_fault_list(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(",")) if each]


def fault_at(context: ProgramContext, kind: str) -> int | None:
    """Return the step at which this pod has a fault of that kind; None if never."""
    for fault in parse_faults(context):
        if fault.kind == kind and fault.rank in (None, context.rank):
            return fault.step
    return None


def step_seconds(context: ProgramContext, usual_seconds: float) -> float:
    """Return the duration of one step in seconds."""
    slow = slow_rank(context)
    longer = 1 / (1 - slow.share) if slow is not None else 1.0
    try:
        return max(float(context.notes.get(PACE) or context.env.get(PACE_VARIABLE) or usual_seconds), 1e-6) * longer
    except ValueError:
        return usual_seconds * longer


def test_count(context: ProgramContext) -> int:
    return int(context.notes.get(_TESTS, "1"))
