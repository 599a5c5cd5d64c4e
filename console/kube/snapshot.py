"""Fleet: an immutable snapshot of all watched objects, with cached properties that are computed on first use.

`Store` builds the snapshots from the changes that the watches report; it is the only mutable state of the cluster view.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from console.errors import TRY_AGAIN, ConsoleError
from console.kube.stream_completeness import SERVER_CLOCK, ReceiveTimes

if TYPE_CHECKING:
    from console.kube.objects.event import Event
    from console.kube.objects.jobset import Job, JobSet
    from console.kube.objects.node import Node
    from console.kube.objects.pod import Pod
    from console.kube.objects.queue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology
    from console.kube.objects.workload import Workload


class KueueVersion(Struct, frozen=True):
    """The Kueue version that runs in a cluster, as far as the account may read it."""

    number: str = ""  # of its controller's image, such as "0.18.4"; empty: not known
    api_versions: tuple[str, ...] = ()  # the versions of its API that are served; those of 0.15 to 0.19 have v1beta1

    @property
    def rules_minor(self) -> int:
        """The minor version (18 is 0.18) whose rules forecasts follow; the API versions decide if it is unknown."""
        if self.number:
            return int(self.number.split(".")[1])
        return 19 if self.api_versions and "v1beta1" not in self.api_versions else 18

    @property
    def unknown_note(self) -> str:
        """A sentence, without its full stop, that the version is unknown; empty if it is known."""
        return "" if self.number else f"Kueue's version is not known: the rules are those of 0.{self.rules_minor}"


Key = tuple[str, str]  # namespace and name; the namespace is empty for what belongs to none


T = TypeVar("T")


def _group_by(objects: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for each in objects:
        if name := key(each):
            found[name].append(each)
    return found


def _exporting_node(pod: Pod) -> str:
    return pod.node if "dcgm-exporter" in pod.name else ""


def _regroup(
    groups: Mapping[str, list[Pod]], changes: Iterable[tuple[Pod | None, Pod | None]], key: Callable[[Pod], str]
) -> dict[str, list[Pod]]:
    """The groups of pods after changes (old pod, new pod), either None; lists without a change are reused."""
    found = {**groups}
    for old, new in changes:
        left, entered = key(old) if old is not None else "", key(new) if new is not None else ""
        if new is not None and left == entered:
            found[left] = [new if each is old else each for each in found.get(left, ())]
        elif left:
            found[left] = [each for each in found[left] if each is not old]
        if new is not None and entered != left:
            found[entered] = [*found.get(entered, ()), new]
    found.pop("", None)
    return {name: each for name, each in found.items() if each}


class Fleet(Struct, frozen=True, eq=False, dict=True, weakref=True):
    """All objects of the cluster known at time `at`, by (namespace, name).

    Its cached properties live in its `__dict__`. Snapshots are told apart by identity and never compared for equality.
    """

    at: float = 0.0
    nodes: Mapping[Key, Node] = field(default_factory=dict)
    pods: Mapping[Key, Pod] = field(default_factory=dict)
    events: Mapping[Key, Event] = field(default_factory=dict)
    jobsets: Mapping[Key, JobSet] = field(default_factory=dict)
    jobs: Mapping[Key, Job] = field(default_factory=dict)
    cluster_queues: Mapping[Key, ClusterQueue] = field(default_factory=dict)
    local_queues: Mapping[Key, LocalQueue] = field(default_factory=dict)
    workloads: Mapping[Key, Workload] = field(default_factory=dict)
    flavors: Mapping[Key, ResourceFlavor] = field(default_factory=dict)
    topologies: Mapping[Key, Topology] = field(default_factory=dict)
    cohorts: Mapping[Key, Cohort] = field(default_factory=dict)
    links: Mapping[str, WatchStatus] = field(default_factory=dict)  # by the kind's plural name
    kueue_version: KueueVersion = field(default_factory=KueueVersion)

    @cached_property
    def pods_by_node(self) -> Mapping[str, list[Pod]]:
        """Pods placed on each node, including finished ones."""
        return _group_by(self.pods.values(), attrgetter("node"))

    @cached_property
    def pods_by_jobset(self) -> Mapping[str, list[Pod]]:
        """Pods by the uid of their JobSet: unlike a name, a uid is never reused."""
        return _group_by(self.pods.values(), attrgetter("jobset_uid"))

    @cached_property
    def exporters_by_node(self) -> Mapping[str, list[Pod]]:
        """Pods of the DCGM exporter, by their node."""
        return _group_by(self.pods.values(), _exporting_node)

    @cached_property
    def jobs_by_jobset(self) -> Mapping[str, list[Job]]:
        return _group_by(self.jobs.values(), attrgetter("jobset_uid"))

    @cached_property
    def workload_by_owner(self) -> Mapping[str, Workload]:
        return {each.owner_uid: each for each in self.workloads.values() if each.owner_uid}

    @cached_property
    def jobset_by_uid(self) -> Mapping[str, JobSet]:
        return {each.uid: each for each in self.jobsets.values()}

    @cached_property
    def events_by_object(self) -> Mapping[str, list[Event]]:
        """Events by the uid of the object they are about, oldest first."""
        events = _group_by(self.events.values(), attrgetter("object_uid"))
        for each in events.values():
            each.sort(key=lambda event: event.last)
        return events

    @cached_property
    def gpus_used(self) -> Mapping[str, int]:
        """GPUs in use on each node: the requests of its unfinished pods."""
        taken: dict[str, int] = defaultdict(int)
        for pod in self.pods.values():
            held = pod.holds_gpus
            if held:
                taken[pod.node] += held
        return taken

    def gpus_free(self, node: Node) -> int:
        """Number of GPUs of that node that a new pod could get now; 0 while the node takes no pods."""
        return max(0, node.gpus - self.gpus_used.get(node.name, 0)) if node.takes_pods else 0

    def workload_of(self, jobset: JobSet) -> Workload | None:
        return self.workload_by_owner.get(jobset.uid)

    def events_of(self, jobset: JobSet) -> list[Event]:
        """Events of the job, its Jobs, pods and Workload, newest first."""
        workload = self.workload_of(jobset)
        uids = {jobset.uid, workload.uid if workload else jobset.uid}
        uids |= {job.uid for job in self.jobs_by_jobset.get(jobset.uid, ())}
        uids |= {pod.uid for pod in self.pods_by_jobset.get(jobset.uid, ())}
        found = [event for uid in uids if uid for event in self.events_by_object.get(uid, ())]
        return sorted(found, key=lambda event: (-event.last, event.name))

    def cluster_queue_of(self, workload: Workload) -> ClusterQueue | None:
        """The ClusterQueue that admitted the workload, or that its LocalQueue belongs to; None if not known."""
        name = workload.cluster_queue
        if not name:
            door = self.local_queues.get((workload.namespace, workload.queue))
            name = door.cluster_queue if door else ""
        return self.cluster_queues.get(("", name))


_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def per_snapshot(
    function: Callable[Concatenate[Fleet, _Asked], _Answer],
) -> Callable[Concatenate[Fleet, _Asked], _Answer]:
    """Decorator that caches a function's results per snapshot, since tables redraw far more often than data changes."""
    answers: WeakKeyDictionary[Fleet, dict[object, _Answer]] = WeakKeyDictionary()

    def cached(fleet: Fleet, /, *args: _Asked.args, **named: _Asked.kwargs) -> _Answer:
        known, asked = answers.setdefault(fleet, {}), (args, *named.items())
        if asked not in known:
            known[asked] = function(fleet, *args, **named)
        return known[asked]

    return cached


class WatchState(StrEnum):
    LISTING = "listing"  # the first list is under way; nothing is known yet
    LIVE = "live"
    STALE = "stale"  # the connection is lost; the last snapshot is kept and a new try is under way
    FORBIDDEN = "forbidden"  # the account may not list this kind
    ABSENT = "absent"  # the cluster does not serve this kind (Kueue or JobSet is not installed)


class WatchStatus(Struct, frozen=True):
    kind: str  # plural name of the kind: "pods", "jobsets"
    state: WatchState = WatchState.LISTING
    since: float = 0.0  # when this state began
    last_seen: float = 0.0  # when the server last sent something on this watch: a list, an event or a bookmark
    received_at: float = 0.0  # the same by the monotonic clock
    why: str = ""  # one sentence for stale, forbidden and absent
    hint: str = ""
    version: str = ""  # API group and version in use, such as "kueue.x-k8s.io/v1beta2"


class ContextName(Struct, frozen=True):
    name: str
    cluster: str = ""
    namespace: str = ""  # empty: the context names none, and "default" is meant
    current: bool = False  # whether this session uses it


class StopReport(Struct, frozen=True):
    namespace: str
    name: str
    release: str = ""  # Helm release that was uninstalled; empty when only the JobSet was deleted
    deleted: tuple[str, ...] = ()  # objects asked to go, as "Kind name"
    note: str = ""  # why the history of runs does not keep it; empty: it does, or has no such run


def complete_until(links: Sequence[WatchStatus], arrivals: ReceiveTimes) -> float:
    """The time (epoch seconds) up to which these watches have reported every change; now if none was silent."""
    shift = (now := SERVER_CLOCK.now()) - time.monotonic()
    known = [link for link in links if link.state in {WatchState.LIVE, WatchState.STALE}]
    complete = [arrivals.complete_until(link.received_at) + shift for link in known]
    return min([now, *complete, *(link.since for link in known if link.state is WatchState.STALE)])


_RETRIES_AUTOMATICALLY = "Retrying automatically."
SNAPSHOT_SECONDS = 0.25  # seconds between two snapshots
REDRAW_GROWTH, MAX_REDRAW_PAUSE = 1.2, 1.0  # so much longer, or seconds later, a list that grows is drawn again

MAX_EVENTS = 40_000  # events that are kept, the latest

FLEET_FIELDS: Mapping[str, str] = {  # plural name of a kind -> its field in Fleet
    "nodes": "nodes",
    "pods": "pods",
    "events": "events",
    "jobsets": "jobsets",
    "jobs": "jobs",
    "clusterqueues": "cluster_queues",
    "localqueues": "local_queues",
    "workloads": "workloads",
    "resourceflavors": "flavors",
    "topologies": "topologies",
    "cohorts": "cohorts",
}


_WORKED_OUT: Mapping[str, str] = {  # cached property of Fleet -> the field that alone it is worked out from
    "pods_by_node": "pods",
    "pods_by_jobset": "pods",
    "exporters_by_node": "pods",
    "gpus_used": "pods",
    "jobs_by_jobset": "jobs",
    "workload_by_owner": "workloads",
    "jobset_by_uid": "jobsets",
    "events_by_object": "events",
}
_POD_GROUPS: Mapping[str, Callable[[Pod], str]] = {
    "pods_by_node": attrgetter("node"),
    "pods_by_jobset": attrgetter("jobset_uid"),
    "exporters_by_node": _exporting_node,
}
MAX_POD_CHANGES = 2000  # pods from which on their groups are made anew


class Store:
    """The objects of each kind as the watches report them, and the state of each watch."""

    def __init__(self, kinds: Iterable[str] = FLEET_FIELDS, *, clock: Callable[[], float] = SERVER_CLOCK.now) -> None:
        self._clock = clock
        self._subscribers: set[asyncio.Event] = set()
        self._failure: BaseException | None = None
        self._ended = False
        self.reset(kinds)

    def reset(self, kinds: Iterable[str]) -> None:
        now = self._clock()
        self._objects: dict[str, dict[Key, Any]] = {plural: {} for plural in kinds}
        self._unparsable: dict[str, dict[Key, str]] = {plural: {} for plural in self._objects}
        self._notes: dict[str, str] = {}
        self._links = {plural: WatchStatus(plural, since=now) for plural in self._objects}
        self.errors: dict[str, ConsoleError] = {}  # by kind, what its watch was last lost by
        self.in_one_namespace: set[str] = set()  # kinds that may not be listed in all
        self._snapshot_objects: dict[str, dict[Key, Any]] = {}
        self.kueue_version = KueueVersion()
        self._fleet: Fleet | None = None
        self._last_fleet = Fleet()
        self._pod_changes: list[tuple[Pod | None, Pod | None]] | None = None  # since the last one; None: too many
        self._list_progress: dict[str, tuple[int, float]] = {}  # lists under way: length when shown, and time
        self._wake_subscribers()

    def _wake_subscribers(self, plural: str = "") -> None:
        """Mark the snapshot (of `plural`, if given) as outdated, and wake all tasks that wait for changes."""
        if plural:
            self._snapshot_objects.pop(plural, None)
        self._fleet = None
        for event in self._subscribers:
            event.set()

    def set_version(self, plural: str, version: str, one_namespace_note: str = "") -> None:
        """Record the API version of a kind; `one_namespace_note`: empty unless only one namespace may be listed."""
        (self.in_one_namespace.add if one_namespace_note else self.in_one_namespace.discard)(plural)
        self._notes[plural] = one_namespace_note
        self._links[plural] = replace(self._links[plural], version=version)
        self._wake_subscribers()

    def add(self, plural: str, objects: Mapping[Key, Any]) -> None:
        """Add objects of a list that is still being paged; the state of the watch does not change."""
        self._objects[plural].update(objects)
        self._pod_changes = None if plural == "pods" else self._pod_changes
        self._drop_old_events(plural)
        self._links[plural] = replace(self._links[plural], last_seen=self._clock(), received_at=time.monotonic())
        self._snapshot_objects.pop(plural, None)
        count, now = len(self._objects[plural]), time.monotonic()
        shown, at = self._list_progress.get(plural, (0, 0.0))
        if count > REDRAW_GROWTH * shown or now > at + MAX_REDRAW_PAUSE:
            self._list_progress[plural] = count, now
            self._wake_subscribers()

    def replace(self, plural: str, objects: Mapping[Key, Any], unparsable: Mapping[Key, str]) -> None:
        """Replace all objects of a kind; one that cannot be parsed keeps its last known version."""
        before = self._objects[plural]
        kept = {key: before[key] for key in unparsable if key in before}
        self._objects[plural] = {**objects, **kept}
        self._pod_changes = None if plural == "pods" else self._pod_changes
        self._drop_old_events(plural)
        self._unparsable[plural] = dict(unparsable)
        self._on_change(plural)

    def set_object(self, plural: str, key: Key, thing: Any) -> None:
        if plural == "pods":
            self._note_pod(self._objects[plural].get(key), thing)
        self._objects[plural][key] = thing
        self._drop_old_events(plural)
        self._unparsable[plural].pop(key, None)
        self._on_change(plural)

    def _drop_old_events(self, plural: str) -> None:
        """Drop the oldest tenth of the events once there are too many."""
        objects = self._objects[plural]
        if plural == "events" and len(objects) > MAX_EVENTS:
            by_age = sorted(objects.items(), key=lambda each: each[1].last)
            self._objects[plural] = dict(by_age[-(MAX_EVENTS * 9 // 10) :])
            self._notes[plural] = f"only the latest {MAX_EVENTS:,} of more events are kept"

    def mark_unparsable(self, plural: str, key: Key, why: str) -> None:
        """Record that an object cannot be parsed: it keeps its last known version, and the watch status names it."""
        self._unparsable[plural][key] = why
        self.mark_alive(plural)

    def remove(self, plural: str, key: Key) -> None:
        gone = self._objects[plural].pop(key, None)
        if plural == "pods" and gone is not None:
            self._note_pod(gone, None)
        self._unparsable[plural].pop(key, None)
        self._on_change(plural)

    def _note_pod(self, old_pod: Pod | None, new_pod: Pod | None) -> None:
        if self._pod_changes is not None and len(self._pod_changes) < MAX_POD_CHANGES:
            self._pod_changes.append((old_pod, new_pod))
        else:
            self._pod_changes = None

    def mark_lost(self, plural: str, state: WatchState, error: ConsoleError) -> None:
        """Record that a watch broke or was refused; its objects stay unless the kind is not offered or forbidden."""
        link, now = self._links[plural], self._clock()
        since = link.since if link.state is state else now
        self.errors[plural] = error.with_traceback(None)  # its frames hold what was read, 32 MiB perhaps
        hint = _RETRIES_AUTOMATICALLY if error.hint == TRY_AGAIN else error.hint
        self._links[plural] = replace(link, state=state, since=since, why=error.message, hint=hint)
        if state in {WatchState.ABSENT, WatchState.FORBIDDEN}:
            self._objects[plural] = {}
            self._pod_changes = None if plural == "pods" else self._pod_changes
            self._wake_subscribers(plural)
        self._wake_subscribers()

    def mark_alive(self, plural: str) -> None:
        link, now = self._links[plural], self._clock()
        since = link.since if link.state is WatchState.LIVE else now
        self._links[plural] = replace(
            link,
            state=WatchState.LIVE,
            since=since,
            last_seen=now,
            received_at=time.monotonic(),
            why=self._describe_missing(plural),
            hint="",
        )
        self._wake_subscribers()

    def _on_change(self, plural: str) -> None:
        self._snapshot_objects.pop(plural, None)
        self.mark_alive(plural)

    def _describe_missing(self, plural: str) -> str:
        odd, note = self._unparsable[plural], self._notes.get(plural, "")
        if not odd:
            return note
        (namespace, name), why = next(iter(odd.items()))
        first = "/".join(part for part in (namespace, name) if part) or "one without a name"
        many = f"{len(odd)} of them cannot be read, the first {first}: {why}"
        return f"{note}; {many}" if note else many

    def link(self, plural: str) -> WatchStatus:
        return self._links[plural]

    def object_count(self, plural: str) -> int:
        return len(self._objects[plural])

    @property
    def fleet(self) -> Fleet:
        """The current snapshot; the same object until something changes."""
        if self._fleet is None:
            for plural, objects in self._objects.items():
                if plural not in self._snapshot_objects:
                    self._snapshot_objects[plural] = objects.copy()
            fields = {FLEET_FIELDS[plural]: objects for plural, objects in self._snapshot_objects.items()}
            self._fleet = Fleet(at=self._clock(), links=self._links.copy(), kueue_version=self.kueue_version, **fields)
            self._carry_over_cached(self._last_fleet, self._fleet)
            self._last_fleet, self._pod_changes = self._fleet, []
        return self._fleet

    def _carry_over_cached(self, previous_fleet: Fleet, new_fleet: Fleet) -> None:
        """Copy results cached in the last snapshot that still hold into the new one, and update groups of pods."""
        for name, field_name in _WORKED_OUT.items():
            if (known := vars(previous_fleet).get(name)) is None:
                continue
            if getattr(previous_fleet, field_name) is getattr(new_fleet, field_name):
                vars(new_fleet)[name] = known
            elif name in _POD_GROUPS and self._pod_changes is not None:
                vars(new_fleet)[name] = _regroup(known, self._pod_changes, _POD_GROUPS[name])

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once and after every change; raises the exception that ended a watch."""
        woken = asyncio.Event()
        woken.set()
        self._subscribers.add(woken)
        try:
            while True:
                await woken.wait()
                woken.clear()
                if self._failure:
                    raise self._failure
                if self._ended:
                    return
                yield
        finally:
            self._subscribers.discard(woken)

    async def snapshots(self) -> AsyncGenerator[Fleet, None]:
        """Yield the current snapshot and new ones after changes, with a pause in which changes accumulate."""
        async for _ in self.changes():
            yield self.fleet
            await asyncio.sleep(SNAPSHOT_SECONDS)

    def fail(self, error: BaseException) -> None:
        """Record that a watch ended with a bug of this program: everyone who reads snapshots gets the exception."""
        self._failure = self._failure or error
        self._wake_subscribers()

    def end(self) -> None:
        self._ended = True
        self._wake_subscribers()
