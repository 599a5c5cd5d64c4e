"""Fleet: an immutable snapshot of all watched objects; what follows from them is worked out on first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct

if TYPE_CHECKING:
    from console.kube.objects.event import Event
    from console.kube.objects.jobset import Job, JobSet
    from console.kube.objects.node import Node
    from console.kube.objects.pod import Pod
    from console.kube.objects.queue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology
    from console.kube.objects.workload import Workload


class KueueVersion(Struct, frozen=True):
    """Which Kueue decides in a cluster, as far as the account may see."""

    number: str = ""  # of its controller's image, such as "0.18.4"; empty: not known
    api: tuple[str, ...] = ()  # the versions of its API that are served; those of 0.15 to 0.19 have v1beta1

    @property
    def rules(self) -> int:
        """The minor version whose rules hold; where none is known, the newest that promise nothing others deny."""
        if self.number:
            return int(self.number.split(".")[1])
        return 19 if self.api and "v1beta1" not in self.api else 18

    @property
    def note(self) -> str:
        """A sentence without its end where the version is not known, else empty."""
        return "" if self.number else f"Kueue's version is not known: the rules are those of 0.{self.rules}"


Key = tuple[str, str]  # namespace and name; the namespace is empty for what belongs to none


T = TypeVar("T")


def _grouped(objects: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for each in objects:
        if name := key(each):
            found[name].append(each)
    return found


@dataclass(frozen=True, eq=False)
class Fleet:
    """All objects known at time `at`, by (namespace, name).

    Not slotted, because the cached properties below live in its `__dict__`; never compared, because a screen asks
    whether the snapshot is another one, not whether it is equal.
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
    kueue: KueueVersion = field(default_factory=KueueVersion)

    @cached_property
    def pods_by_node(self) -> Mapping[str, list[Pod]]:
        """Pods placed on each node, including finished ones."""
        return _grouped(self.pods.values(), attrgetter("node"))

    @cached_property
    def pods_by_jobset(self) -> Mapping[str, list[Pod]]:
        """Pods by the uid of their JobSet: unlike a name, a uid is never reused."""
        return _grouped(self.pods.values(), attrgetter("jobset_uid"))

    @cached_property
    def jobs_by_jobset(self) -> Mapping[str, list[Job]]:
        return _grouped(self.jobs.values(), attrgetter("jobset_uid"))

    @cached_property
    def workload_by_owner(self) -> Mapping[str, Workload]:
        return {each.owner_uid: each for each in self.workloads.values() if each.owner_uid}

    @cached_property
    def jobset_by_uid(self) -> Mapping[str, JobSet]:
        return {each.uid: each for each in self.jobsets.values()}

    @cached_property
    def events_by_object(self) -> Mapping[str, list[Event]]:
        """Events by the uid of the object they are about, oldest first."""
        events = _grouped(self.events.values(), attrgetter("object_uid"))
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
        """The ClusterQueue that admitted the workload, or that its LocalQueue belongs to."""
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

    def kept(fleet: Fleet, /, *args: _Asked.args, **named: _Asked.kwargs) -> _Answer:
        known, asked = answers.setdefault(fleet, {}), (args, *named.items())
        if asked not in known:
            known[asked] = function(fleet, *args, **named)
        return known[asked]

    return kept


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
    received: float = 0.0  # the same by the monotonic clock
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
