"""What was forecast, and what came true: each window that was told is kept, and compared with the start."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from console.scheduling.start_windows import StartWindow

KEPT = 1000  # promises
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
    started: float = 0.0  # 0.0: it has not, as far as anybody looked
    late: bool = False  # it still waited when the window was over

    @property
    def judged(self) -> bool:
        return bool(self.started) or self.late

    @property
    def held(self) -> bool:
        return self.start <= self.started <= self.end


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


def compare(
    promises: Iterable[Promise], fleet: Fleet, server: str, windows: Mapping[tuple[str, str], StartWindow]
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
    for key, window in windows.items():
        workload = fleet.workloads.get(key)
        if workload is not None and workload.uid not in known:
            found.append(Promise(server, workload.uid, workload.namespace, job_name(workload), fleet.at, window.start,
                                 window.middle, window.end))  # fmt: skip
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
        promises = compare(read_promises(path), fleet, server, windows)
        atomic_write(path, msgspec.json.encode(promises))
    return promises
