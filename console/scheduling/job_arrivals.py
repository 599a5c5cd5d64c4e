"""Arrival rates of recurring jobs, by the workloads that consoles have seen, for start forecasts.

Each workload in a snapshot, whoever submitted it, is stored for two weeks. Jobs of unknown run time are left out, and
so are jobs that came and went while no console was open: the rate is rather too low than too high.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from console.folders import atomic_write, file_lock, read_own_file
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.kueue_snapshot import closed_reason, kueue_workload
from console.scheduling.run_times import PastTimes
from console.scheduling.start_simulation import all_gpu_flavors
from console.scheduling.start_windows import ExpectedArrivals, RecurringJob

HOUR, DAY = 3600.0, 86_400.0
RECENT_SECONDS = 14 * DAY
MIN_DAYS = 3  # that tell of the hours of the day
HOURS_AROUND = 2  # hours
MAX_KEPT_WORKLOADS = 1000
MAX_KINDS = 50  # the most frequent ones


class SeenWorkload(Struct, frozen=True):
    """A workload as this console has seen it arrive, with its quota request."""

    server: str
    seen: float  # when a console first saw it, in seconds since the epoch
    workload: Workload
    recipe: str = ""  # of its JobSet
    owner: str = ""
    gpus: int = 0

    @property
    def kind(self) -> tuple[object, ...]:
        """The key of workloads that count as the same recurring job."""
        asked = self.workload
        return (self.recipe, self.owner, asked.namespace, asked.owner_kind, asked.queue, asked.priority, asked.pod_sets)


def add_seen_workloads(seen: Sequence[SeenWorkload], fleet: Fleet, server: str) -> list[SeenWorkload]:
    """The workloads seen in the last days, with new ones of the snapshot added."""
    found = [each for each in seen if each.server != server or each.seen > fleet.at - RECENT_SECONDS]
    known = {each.workload.uid for each in found if each.server == server}
    for workload in fleet.workloads.values():
        job = fleet.jobset_by_uid.get(workload.owner_uid)
        readable = job is not None or workload.owner_kind != "JobSet"  # its JobSet may be read a moment later
        if workload.uid not in known and workload.created > fleet.at - RECENT_SECONDS and readable:
            about = (job.recipe, job.owner, job.gpus) if job is not None else ()
            pod_sets = tuple(structs.replace(each, flavors=(), domains=()) for each in workload.pod_sets)
            asked = structs.replace(workload, pod_sets=pod_sets, conditions=(), checks=(), cluster_queue="")
            found.append(SeenWorkload(server, fleet.at, asked, *about))
    return found[-MAX_KEPT_WORKLOADS:]


def expected_arrivals(fleet: Fleet, seen: Iterable[SeenWorkload], server: str, times: PastTimes) -> ExpectedArrivals:
    """Recurring jobs with known run times that are expected in open queues, at the rate of the last days."""
    of_server = [each for each in seen if each.server == server]
    since = max(fleet.at - RECENT_SECONDS, min((each.seen for each in of_server), default=fleet.at))
    recent = [each for each in of_server if each.workload.created >= since]
    kinds: dict[tuple[object, ...], list[SeenWorkload]] = defaultdict(list)
    for each in recent:
        kinds[each.kind].append(each)
    flavors, found = all_gpu_flavors(fleet), []
    for alike in sorted(kinds.values(), key=len, reverse=True)[:MAX_KINDS]:
        last = alike[-1]
        time = times.of_jobset(last.recipe, last.gpus, last.owner) or times.of_workload(last.workload)
        like = kueue_workload(last.workload, fleet, flavors, holds=False)
        queue = fleet.cluster_queues.get(("", like.cluster_queue))
        if time is not None and like.pod_sets and queue is not None and not closed_reason(queue):
            like.shape()  # once for all that come
            found.append(RecurringJob(like, max(DAY, fleet.at - since) / len(alike), time))
    return ExpectedArrivals(tuple(found), _by_hour([each.workload.created for each in recent], fleet.at - since))


def _by_hour(created: Sequence[float], seconds: float) -> tuple[float, ...]:
    """By hour of the day the arrival rate, smoothed and relative to the mean."""
    if seconds < MIN_DAYS * DAY or not created:
        return (1.0,) * 24
    counts = Counter(int(at // HOUR) % 24 for at in created)
    around = [sum(counts[(hour + off) % 24] for off in range(-HOURS_AROUND, HOURS_AROUND + 1)) for hour in range(24)]
    return tuple(24 * each / sum(around) for each in around)


def read_seen_workloads(path: Path) -> list[SeenWorkload]:
    """The workloads in the file; none if it is missing or cannot be read. Blocking."""
    try:
        return msgspec.json.decode(read_own_file(path), type=list[SeenWorkload])
    except (OSError, msgspec.DecodeError):
        return []


def update_seen_workloads(path: Path, fleet: Fleet, server: str) -> None:
    """Add the snapshot's new workloads to the file; OSError if it cannot be written. Blocking."""
    with file_lock(path):
        before = read_seen_workloads(path)
        seen = add_seen_workloads(before, fleet, server)
        if seen != before:
            atomic_write(path, msgspec.json.encode(seen))
