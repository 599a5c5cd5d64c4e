"""The last diagnosis of each job, in the file of the run history, so that all consoles and commands tell the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.kube.arrivals import CLOCK
from console.metrics.diagnosis import Diagnosis, DiagnosisKind

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet
    from console.launch.run_database import RunHistory
    from console.metrics.training_run import Slowdown

REFRESH_SECONDS = 5.0  # seconds after which the file is read again for what other consoles found


class Diagnoses:
    """What is known of jobs by the uids of their JobSets, which are of one cluster only."""

    def __init__(self, history: Callable[[], RunHistory]) -> None:
        self._history = history
        self._known: dict[tuple[str, DiagnosisKind], Diagnosis] = {}

    def find(self, uid: str, kind: DiagnosisKind) -> Diagnosis | None:
        """The last one of that kind, as of the last refresh; it may have found nothing."""
        return self._known.get((uid, kind))

    def find_hang(self, jobset: JobSet, fleet: Fleet, stepped: float) -> Diagnosis | None:
        """For whom the ranks of a job wait that made its last step at `stepped`; None: that is not known."""
        found = self._find_of_attempt(jobset, fleet, DiagnosisKind.HANG)
        return found if found is not None and found.words and found.at > stepped else None

    def find_slow_rank(self, jobset: JobSet, fleet: Fleet) -> Diagnosis | None:
        """For which rank the others wait in each step, else which one launches later; None: not known, or none does."""
        slow = self._find_of_attempt(jobset, fleet, DiagnosisKind.SLOW)
        late = self._find_of_attempt(jobset, fleet, DiagnosisKind.LATE)
        found = slow if slow is not None and (slow.words or late is None or slow.at >= late.at) else late
        return found if found is not None and found.words else None

    def _find_of_attempt(self, jobset: JobSet, fleet: Fleet, kind: DiagnosisKind) -> Diagnosis | None:
        found = self.find(jobset.uid, kind)
        return found if found is not None and found.is_of_attempt(jobset, fleet) else None

    async def record(self, diagnosis: Diagnosis) -> None:
        """Keep it for this console, and for others as far as the file can be written."""
        self._known[diagnosis.uid, diagnosis.kind] = diagnosis
        await self._history().record_diagnosis(diagnosis)

    async def record_slowdown(self, uid: str, slowdown: Slowdown | None) -> None:
        """Keep that the steps of a job take longer than before; None: they are as fast again."""
        if slowdown is not None:
            words, since, limit = slowdown
            await self.record(Diagnosis(uid, DiagnosisKind.SLOWER, since, words, threshold=limit))
        elif (known := self.find(uid, DiagnosisKind.SLOWER)) is not None:
            await self.record(Diagnosis(uid, DiagnosisKind.SLOWER, known.at + 1))  # before any that comes later

    async def take_pace(self, uid: str, words: str, since: float) -> None:
        """Keep that the steps of a job, slower since then, are its pace from now on."""
        await self.record(Diagnosis(uid, DiagnosisKind.PACE, max(since, CLOCK.now()), words))

    def find_consent(self, uid: str) -> bool | None:
        """What a person answered to whether the pods of that job may be looked into; None: nobody was asked."""
        found = self.find(uid, DiagnosisKind.CONSENT)
        return found.words == "yes" if found is not None else None

    async def refresh(self) -> None:
        """Read what other consoles found; Unreadable if the file is."""
        for each in await self._history().list_diagnoses():
            known = self.find(each.uid, each.kind)
            if known is None or each.at > known.at:
                self._known[each.uid, each.kind] = each

    async def refresh_periodically(self) -> None:
        while True:
            with suppress(ConsoleError):  # the page of runs says why the file cannot be read; it is tried again
                await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS)
