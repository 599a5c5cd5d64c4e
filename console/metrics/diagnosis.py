"""Diagnoses of jobs, as all consoles and commands show them: the rank that the others wait for, the nodes at fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import Alarm, AlarmKind
from console.scheduling.pod_slots import pod_slots

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet
    from console.metrics.job_progress import JobProgress
    from console.metrics.training_run import Slowdown
    from rankscope import HangReport, SlowReport

DIAGNOSES_REFRESH_SECONDS = 5.0  # seconds after which the file is read again for what other consoles found
_EXPLAINED = frozenset({AlarmKind.STALL, AlarmKind.BEHIND})  # alarms whose cause an inspection of the processes tells


class DiagnosisKind(StrEnum):
    HANG = "hang"  # the rank that the others wait for, in a job that makes no steps
    SLOW = "slow"  # for which rank they wait in each step
    SLOWER = "slower"  # that its steps take longer than before, since `at`
    PACE = "pace"  # that its owner took such steps for its pace
    CONSENT = "consent"  # what was answered to whether its pods may be looked into unasked: yes or no
    LATE = "late"  # which rank launches later than the others, who may or may not wait for it


class Diagnosis(Struct, frozen=True):
    """The latest finding of one kind about a job; without words if nothing was found."""

    uid: str  # of the JobSet
    kind: DiagnosisKind
    at: float  # when it was made, in seconds since the epoch
    words: str = ""  # the rank that the others wait for, as a phrase; empty: none
    short: str = ""  # the same without its node and bounds, for a column
    nodes: tuple[str, ...] = ()  # nodes of the ranks that the others wait for
    blames_program: bool = False  # its program, data or storage is at fault, so that other nodes would not help
    advice: tuple[str, ...] = ()  # what to do next, in sentences
    threshold: float = 0.0  # of slower steps: what one costs, below which the job is as fast again

    def is_of_attempt(self, jobset: JobSet, fleet: Fleet) -> bool:
        """Whether the diagnosis was made since the processes of the job last started."""
        started = (slot.pod.main.started for slot in pod_slots(jobset, fleet) if slot.pod and slot.pod.main)
        return self.uid == jobset.uid and self.at > max((each for each in started if each), default=0.0)


def diagnose_hang(report: HangReport, uid: str) -> Diagnosis:
    """The diagnosis of a hang report; without words if nothing is wrong."""
    words = report.short.rstrip(".") if report.alarming else ""
    return Diagnosis(
        uid, DiagnosisKind.HANG, report.at, words, words, report.suspected_nodes, report.blames_program, report.advice
    )


def diagnose_slow_ranks(report: SlowReport, uid: str) -> tuple[Diagnosis, ...]:
    """The diagnoses of the slowest rank and of the rank that launches latest; without words if there are none."""
    if report.slow:
        return (_diagnose_slow(report, uid),)
    if report.suspects:
        from rankscope import describe_cost

        first = next((each for each in report.suspects if each.where), None)
        if first is None:
            return (Diagnosis(uid, DiagnosisKind.LATE, report.at),)
        words, short = describe_cost(first), describe_cost(first, is_short=True)
        return (Diagnosis(uid, DiagnosisKind.LATE, report.at, words, short, advice=report.advice),)
    if not report.has_verdict:
        return ()
    kinds = (DiagnosisKind.SLOW, DiagnosisKind.LATE) if report.timed else (DiagnosisKind.LATE,)
    return tuple(Diagnosis(uid, kind, report.at) for kind in kinds)


def _diagnose_slow(report: SlowReport, uid: str) -> Diagnosis:
    from rankscope import describe_cost

    nodes = tuple(dict.fromkeys(each.node for each in report.slow if each.node and each.cause != "data"))
    by_data = tuple(dict.fromkeys(each.node for each in report.slow if each.node)) if not nodes else ()
    others = len(report.slow) - 1
    more = f"; {others} more rank{'s are' if others > 1 else ' is'} slow" if others > 0 else ""
    first = report.slow[0]
    words, short = f"{describe_cost(first)}{more}", describe_cost(first, is_short=True)
    return Diagnosis(uid, DiagnosisKind.SLOW, report.at, words, short, nodes or by_data, bool(by_data), report.advice)


class DiagnosisFile(Protocol):
    """A file shared by consoles with the last diagnosis of each kind for each job."""

    async def record_diagnosis(self, diagnosis: Diagnosis) -> None: ...
    async def list_diagnoses(self) -> tuple[Diagnosis, ...]: ...


class Diagnoses:
    """The diagnoses of all jobs of one cluster, by the uids of their JobSets."""

    def __init__(self, file: Callable[[], DiagnosisFile]) -> None:
        self._file = file
        self._latest: dict[tuple[str, DiagnosisKind], Diagnosis] = {}

    def find(self, uid: str, kind: DiagnosisKind) -> Diagnosis | None:
        """The last diagnosis of that kind (perhaps that nothing is wrong), as of the last refresh; None without any."""
        return self._latest.get((uid, kind))

    def find_hang(self, jobset: JobSet, fleet: Fleet, stepped: float) -> Diagnosis | None:
        """The rank that the others wait for, in a job whose last step was at `stepped`; None if unknown."""
        found = self._find_of_attempt(jobset, fleet, DiagnosisKind.HANG)
        return found if found is not None and found.words and found.at > stepped else None

    def find_slow_rank(self, jobset: JobSet, fleet: Fleet) -> Diagnosis | None:
        """The rank that others wait for in each step, else one that launches later; None if unknown or none does."""
        slow = self._find_of_attempt(jobset, fleet, DiagnosisKind.SLOW)
        late = self._find_of_attempt(jobset, fleet, DiagnosisKind.LATE)
        found = slow if slow is not None and (slow.words or late is None or slow.at >= late.at) else late
        return found if found is not None and found.words else None

    def _find_of_attempt(self, jobset: JobSet, fleet: Fleet, kind: DiagnosisKind) -> Diagnosis | None:
        found = self.find(jobset.uid, kind)
        return found if found is not None and found.is_of_attempt(jobset, fleet) else None

    async def record(self, diagnosis: Diagnosis) -> None:
        """Store a diagnosis for this console, and in the shared file if it can be written."""
        self._latest[diagnosis.uid, diagnosis.kind] = diagnosis
        await self._file().record_diagnosis(diagnosis)

    async def record_slowdown(self, uid: str, slowdown: Slowdown | None) -> None:
        """Record that a job's steps take longer than before; None records that they no longer do."""
        if slowdown is not None:
            words, since, limit = slowdown
            await self.record(Diagnosis(uid, DiagnosisKind.SLOWER, since, words, threshold=limit))
        elif (known := self.find(uid, DiagnosisKind.SLOWER)) is not None:
            await self.record(Diagnosis(uid, DiagnosisKind.SLOWER, known.at + 1))  # before any that comes later

    async def accept_pace(self, uid: str, sentence: str, since: float) -> None:
        """Record that a person accepts the job's slower steps since then as normal."""
        await self.record(Diagnosis(uid, DiagnosisKind.PACE, max(since, SERVER_CLOCK.now()), sentence))

    def find_consent(self, uid: str) -> bool | None:
        """The person's answer whether that job's pods may be inspected; None if nobody was asked."""
        found = self.find(uid, DiagnosisKind.CONSENT)
        return found.words == "yes" if found is not None else None

    async def refresh(self) -> None:
        """Read the diagnoses of other consoles. Raises Unreadable."""
        for each in await self._file().list_diagnoses():
            known = self.find(each.uid, each.kind)
            if known is None or each.at > known.at:
                self._latest[each.uid, each.kind] = each

    async def refresh_periodically(self) -> None:
        while True:
            with suppress(ConsoleError):  # the page of runs says why the file cannot be read; it is tried again
                await self.refresh()
            await asyncio.sleep(DIAGNOSES_REFRESH_SECONDS)


class Blame(Struct, frozen=True):
    nodes: tuple[str, ...] = ()  # that are at fault
    cleared_nodes: tuple[str, ...] = ()  # not at fault: where the ranks are whose program, data or storage is


def find_blame(alarms: Iterable[Alarm], diagnosis: Diagnosis | None) -> Blame:
    """The nodes at fault: the nodes of the alarms, else of the ranks that the others wait for.

    A rank that loads data, saves or is in another collective would be late on any node: its node is at fault only with
    further evidence, such as a GPU with an Xid.
    """
    excused = diagnosis is not None and diagnosis.blames_program
    of_alarms = (alarm.nodes for alarm in alarms if not (excused and alarm.kind in _EXPLAINED))
    nodes = tuple(dict.fromkeys(node for each in of_alarms for node in each))
    if nodes or diagnosis is None:
        return Blame(nodes)
    return Blame(cleared_nodes=diagnosis.nodes) if excused else Blame(diagnosis.nodes)


def judge_pace(progress: JobProgress, slowdown: Diagnosis | None, consent: Diagnosis | None) -> JobProgress:
    """The progress, marked with the recorded slowdown unless a person accepted that pace later (`consent`)."""
    if (
        slowdown is not None
        and slowdown.words
        and not progress.slower_since
        and progress.cost is not None
        and progress.cost > slowdown.threshold
    ):
        words = "; ".join(filter(None, (slowdown.words, progress.slower)))
        progress = replace(progress, slower=words, slower_since=slowdown.at)
    return replace(progress, slower="") if consent is not None and consent.at >= progress.slower_since else progress
