"""A record of forecasts: each start window that was shown is stored, and later compared with the real start.

Simulations ignore failing jobs and some later arrivals, so their windows may be too narrow, too early or too late. The
errors of earlier windows, in units of their own widths, correct later ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from console.folders import atomic_write, file_lock, read_own_file
from console.kube.objects.meta import condition
from console.kube.snapshot import Fleet
from console.median import median
from console.scheduling.kueue_snapshot import job_name
from console.scheduling.start_windows import WINDOW_SHARE, StartWindow

if TYPE_CHECKING:
    Key = tuple[str, str]

MAX_RECORDED = 1000  # recorded
JUDGED_WINDOWS = 300  # judged recorded that windows are corrected by
MIN_JUDGED = 20  # of these, before anything is corrected
MIN_HALF_WIDTH = 0.02  # of the wait: the least half of a window that is corrected
START_WAIT_SECONDS = 7 * 86_400.0  # seconds after its window for which the start of a job that is gone is waited for


class RecordedWindow(Struct, frozen=True):
    """The first start window forecast for a workload, with its real start once known, in seconds since the epoch."""

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
    def error(self) -> float:
        """The real start, on a scale where the simulated window goes from -1 to 1; infinite before the start."""
        if not self.started:
            return math.inf
        start, middle, end = self.simulated or (self.start, self.middle, self.end)
        least, off = MIN_HALF_WIDTH * (middle - self.made), self.started - middle
        return off / max(end - middle if off > 0 else middle - start, least, 1.0)


class WindowScore(Struct, frozen=True):
    """Numbers of forecast windows: with the real start inside (`held`), decided (`judged`), and open."""

    held: int
    judged: int
    open: int
    median_error: float | None  # seconds from the middle of the window to the start; None: none has started


def score(recorded_windows: Iterable[RecordedWindow]) -> WindowScore:
    listed = list(recorded_windows)
    judged = [each for each in listed if each.judged]
    errors = [abs(each.started - each.middle) for each in judged if each.started]
    held = sum(each.held for each in judged)
    return WindowScore(held, len(judged), len(listed) - len(judged), median(errors) if errors else None)


def correct_windows(
    windows: Mapping[Key, StartWindow], recorded_windows: Iterable[RecordedWindow], server: str, now: float
) -> dict[Key, StartWindow]:
    """The windows, scaled so that earlier ones would have held 80 % of real starts; unchanged if too few are known."""
    offs = sorted([each.error for each in recorded_windows if each.server == server and each.judged][-JUDGED_WINDOWS:])
    if len(offs) < MIN_JUDGED:
        return dict(windows)
    low, high = (_quantile(offs, share) for share in ((1 - WINDOW_SHARE) / 2, (1 + WINDOW_SHARE) / 2))

    def correct_window(window: StartWindow) -> StartWindow:
        least = max(MIN_HALF_WIDTH * (window.middle - now), 1.0)
        before, after = max(window.middle - window.start, least), max(window.end - window.middle, least)
        start, end = (window.middle + off * (after if off > 0 else before) for off in (low, high))
        return structs.replace(window, start=max(now, start), middle=min(max(start, window.middle), end), end=end)

    return {key: correct_window(window) for key, window in windows.items()}


def _quantile(offs: Sequence[float], share: float) -> float:
    """The quantile `share` (0 to 1) of sorted errors, else the last finite one before; 1.0 if all are infinite."""
    at = min(max(0, round(share * (len(offs) + 1)) - 1), len(offs) - 1)
    return next((offs[index] for index in range(at, -1, -1) if math.isfinite(offs[index])), 1.0)


def compare(
    recorded_windows: Sequence[RecordedWindow], fleet: Fleet, server: str, windows: Mapping[Key, StartWindow]
) -> list[RecordedWindow]:
    """The recorded windows with the starts known by now, and new windows of other workloads."""
    seen = {each.uid: each for each in fleet.workloads.values()}
    found = []
    for window_before in recorded_windows:
        workload = seen.get(window_before.uid) if window_before.server == server else None
        reserved = condition(workload.conditions, "QuotaReserved") if workload else None
        if window_before.started:
            found.append(window_before)
        elif reserved is not None and reserved.is_true:
            found.append(structs.replace(window_before, started=reserved.since))
        elif workload is not None and fleet.at > window_before.end:
            found.append(structs.replace(window_before, late=True))
        elif window_before.late or fleet.at < window_before.end + START_WAIT_SECONDS:
            found.append(window_before)
    known = {each.uid for each in found}
    for key, corrected in correct_windows(windows, recorded_windows, server, fleet.at).items():
        workload, window = fleet.workloads.get(key), windows[key]
        if workload is not None and workload.uid not in known:
            simulated = window.start, window.middle, window.end
            about = server, workload.uid, workload.namespace, job_name(workload), fleet.at
            found.append(RecordedWindow(*about, corrected.start, corrected.middle, corrected.end, simulated))
    return found[-MAX_RECORDED:]


def read_recorded_windows(path: Path) -> list[RecordedWindow]:
    """The windows in the file; none if it is missing or cannot be read. Blocking."""
    try:
        return msgspec.json.decode(read_own_file(path), type=list[RecordedWindow])
    except (OSError, msgspec.DecodeError):
        return []


def update_record(
    path: Path, fleet: Fleet, server: str, windows: Mapping[tuple[str, str], StartWindow]
) -> Sequence[RecordedWindow]:
    """Complete the recorded windows, add new ones and write the file; OSError if that fails. Blocking."""
    with file_lock(path):
        before = read_recorded_windows(path)
        recorded = compare(before, fleet, server, windows)
        if recorded != before:
            atomic_write(path, msgspec.json.encode(recorded))
    return recorded
