"""What was forecast, and what came true: each window that was told is kept, and compared with the start.

Rollouts know nothing of jobs that come later, that fail or that resume, so their windows are too narrow, and rather
too early than too late. By how much, earlier windows say, in units of their own widths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from console.folders import atomic_write, file_lock
from console.kube.objects.meta import condition
from console.kube.snapshot import Fleet
from console.scheduling.quota_accounts import job_name
from console.scheduling.start_windows import SHARE, StartWindow

if TYPE_CHECKING:
    Key = tuple[str, str]

KEPT = 1000  # promises
RECENT = 300  # judged promises that windows are corrected by
FEWEST = 20  # of these, before anything is corrected
LEAST_HALF = 0.02  # of the wait: the least half of a window that is corrected
FORGOTTEN = 7 * 86_400.0  # seconds after its window for which the start of a job that is gone is waited for


class Promise(Struct, frozen=True):
    """The first window that was told of a workload. Times are seconds since the epoch."""

    server: str
    uid: str  # of the workload
    namespace: str
    job: str
    made: float
    start: float
    middle: float
    end: float
    simulated: tuple[float, float, float] | None = None  # start, middle and end before the correction; None: the same
    started: float = 0.0  # 0.0: it has not, as far as anybody looked
    late: bool = False  # it still waited when the window was over

    @property
    def judged(self) -> bool:
        return bool(self.started) or self.late

    @property
    def held(self) -> bool:
        return self.start <= self.started <= self.end

    @property
    def off(self) -> float:
        """How far from the simulated middle it started: -1 to 1 are the ends of the simulated window."""
        if not self.started:
            return math.inf
        start, middle, end = self.simulated or (self.start, self.middle, self.end)
        least, off = LEAST_HALF * (middle - self.made), self.started - middle
        return off / max(end - middle if off > 0 else middle - start, least, 1.0)


class Score(Struct, frozen=True):
    """How good the windows were."""

    held: int
    judged: int
    open: int
    median_error: float | None  # seconds from the middle of the window to the start; None: none has started


def score(promises: Iterable[Promise]) -> Score:
    listed = list(promises)
    judged = [each for each in listed if each.judged]
    errors = [abs(each.started - each.middle) for each in judged if each.started]
    held = sum(each.held for each in judged)
    return Score(held, len(judged), len(listed) - len(judged), median(errors) if errors else None)


def correct_windows(
    windows: Mapping[Key, StartWindow], promises: Iterable[Promise], server: str, now: float
) -> dict[Key, StartWindow]:
    """The windows with the bounds with which those before them would have held 80 % of the starts."""
    offs = sorted([each.off for each in promises if each.server == server and each.judged][-RECENT:])
    if len(offs) < FEWEST:
        return dict(windows)
    low, high = (_quantile(offs, share) for share in ((1 - SHARE) / 2, (1 + SHARE) / 2))

    def corrected(window: StartWindow) -> StartWindow:
        least = max(LEAST_HALF * (window.middle - now), 1.0)
        before, after = max(window.middle - window.start, least), max(window.end - window.middle, least)
        start, end = (window.middle + off * (after if off > 0 else before) for off in (low, high))
        return structs.replace(window, start=max(now, start), middle=min(max(start, window.middle), end), end=end)

    return {key: corrected(window) for key, window in windows.items()}


def _quantile(offs: Sequence[float], share: float) -> float:
    """Of a sorted list; of those that have not started yet only that they are late is known."""
    at = min(max(0, round(share * (len(offs) + 1)) - 1), len(offs) - 1)
    return next((offs[index] for index in range(at, -1, -1) if math.isfinite(offs[index])), 1.0)


def compare(
    promises: Sequence[Promise], fleet: Fleet, server: str, windows: Mapping[Key, StartWindow]
) -> list[Promise]:
    """The promises with what has come of them by now, and those of windows of which there is none yet."""
    seen = {each.uid: each for each in fleet.workloads.values()}
    found = []
    for promise in promises:
        workload = seen.get(promise.uid) if promise.server == server else None
        reserved = condition(workload.conditions, "QuotaReserved") if workload else None
        if promise.started:
            found.append(promise)
        elif reserved is not None and reserved.is_true:
            found.append(structs.replace(promise, started=reserved.since))
        elif workload is not None and fleet.at > promise.end:
            found.append(structs.replace(promise, late=True))
        elif promise.late or fleet.at < promise.end + FORGOTTEN:
            found.append(promise)
    known = {each.uid for each in found}
    for key, told in correct_windows(windows, promises, server, fleet.at).items():
        workload, window = fleet.workloads.get(key), windows[key]
        if workload is not None and workload.uid not in known:
            found.append(Promise(server, workload.uid, workload.namespace, job_name(workload), fleet.at, told.start,
                                 told.middle, told.end, (window.start, window.middle, window.end)))  # fmt: skip
    return found[-KEPT:]


def read_promises(path: Path) -> list[Promise]:
    """Those that are kept; none of a file that is not there or that cannot be read. Blocking."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Promise])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def update_record(
    path: Path, fleet: Fleet, server: str, windows: Mapping[tuple[str, str], StartWindow]
) -> Sequence[Promise]:
    """Compare and keep; OSError if that cannot be. Blocking."""
    with file_lock(path):
        before = read_promises(path)
        promises = compare(before, fleet, server, windows)
        if promises != before:
            atomic_write(path, msgspec.json.encode(promises))
    return promises
