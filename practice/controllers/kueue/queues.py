"""The waiting Workloads of each queue in the order of trying."""

from __future__ import annotations

from kueue_rules import SnapshotWorkload, TriedFlavorMemory
from practice.clock import Clock
from practice.controllers.kueue.admission_status import requeue_at
from practice.controllers.kueue.info import (
    has_quota,
    is_active,
    local_queue_of,
    needs_second_pass,
    read_workload,
    why_not_tried,
)
from practice.controllers.kueue.snapshot import gate
from practice.controllers.objects import Key, Object, find_condition, is_being_deleted, is_true, key_of, labels_of
from practice.objects.resources import CLUSTERQUEUES, LIMITRANGES, LOCALQUEUES, NAMESPACES, WORKLOADS
from practice.objects.storage import Storage


class WaitingQueues:
    """The queues of waiting Workloads; those that did not fit are set aside until something changes."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._set_aside_keys: dict[Key, str] = {}  # key -> what it looked like when it was tried in vain
        self._hopeless: dict[str, set[str]] = {}
        """By ClusterQueue the shapes of workloads that do not fit, which are not tried again."""
        self._blocked: set[str] = set()  # ClusterQueues whose head must come first and cannot yet
        self._sticky: set[Key] = set()  # workloads that wait for the Workloads they evict: they stay first
        self.turns = TriedFlavorMemory()

    def retry_all(self) -> None:
        self.turns.changed()
        self._set_aside_keys.clear()
        self._hopeless.clear()
        self._blocked.clear()

    def remove(self, key: Key) -> None:
        """Remove a Workload from its queue."""
        self._set_aside_keys.pop(key, None)
        self._sticky.discard(key)

    def cluster_queue(self, workload: Object) -> str:
        """Return the ClusterQueue a Workload waits for; empty when its LocalQueue does not exist."""
        queue = self._storage.find(LOCALQUEUES, workload["metadata"]["namespace"], local_queue_of(workload))
        return str(queue["spec"].get("clusterQueue", "")) if queue is not None else ""

    def pending_workloads(self, name: str) -> list[Object]:
        """Return the Workloads that wait for a ClusterQueue, in the order of trying."""
        found = [
            obj for obj in self._storage.list(WORKLOADS) if self._is_pending(obj) and self.cluster_queue(obj) == name
        ]
        return sorted(found, key=lambda obj: (key_of(obj) not in self._sticky, read_workload(obj).order()))

    def heads(self) -> list[SnapshotWorkload]:
        """Return the next Workload of every active ClusterQueue."""
        found = []
        for queue in self._storage.list(CLUSTERQUEUES):
            name = queue["metadata"]["name"]
            if is_true(queue, "Active") and name not in self._blocked:
                head = self._first_to_try(self.pending_workloads(name), name)
                if head is not None:
                    head.tried = self.turns.tried_flavors(head)
                    found.append(head)
        layers = gate(self._storage, "TASMultiLayerTopology", default=False)
        for obj in self._storage.list(WORKLOADS):
            if needs_second_pass(obj) and self._set_aside_keys.get(key_of(obj)) != _retry_key(obj):
                found.append(read_workload(obj, layers=layers))
        for head in found:
            namespace = self._storage.find(NAMESPACES, "", head.key[0])
            head.namespace_labels = labels_of(namespace) if namespace is not None else {}
        return found

    def set_aside(self, obj: Object, name: str, *, is_strict: bool, is_hopeless: bool) -> None:
        """Set aside a Workload that was tried and did not fit."""
        if is_strict:
            self._blocked.add(name)
            return
        self._set_aside_keys[key_of(obj)] = _retry_key(obj)
        if is_hopeless:
            self._hopeless.setdefault(name, set()).add(read_workload(obj, name).shape())

    def hold_head(self, key: Key, name: str) -> None:
        """Keep a Workload at the head while its preemption targets end."""
        self._sticky.add(key)
        self._blocked.add(name)

    def unblock(self, name: str) -> None:
        """Allow the head of a ClusterQueue to be tried again, since a new Workload joined the queue."""
        self._blocked.discard(name)

    def _first_to_try(self, waiting_workloads: list[Object], name: str) -> SnapshotWorkload | None:
        """Return the first of these Workloads that is not set aside; None if all are."""
        hopeless, layers = self._hopeless.get(name, set()), gate(self._storage, "TASMultiLayerTopology", default=False)
        for obj in waiting_workloads:
            if self._set_aside_keys.get(key_of(obj)) == _retry_key(obj):
                continue
            found = read_workload(obj, name, layers=layers)
            if found.shape() not in hopeless:
                found.refused = why_not_tried(obj, self._storage.list(LIMITRANGES, found.key[0]))
                return found
            self._set_aside_keys[found.key] = _retry_key(obj)
        return None

    def _is_pending(self, obj: Object) -> bool:
        if has_quota(obj) or not is_active(obj) or is_true(obj, "Finished") or is_being_deleted(obj):
            return False
        again = find_condition(obj, "Requeued")
        if again is not None and again["status"] == "False":
            return False
        if requeue_at(obj) > self._clock.now():
            return False
        queue = self._storage.find(LOCALQUEUES, obj["metadata"]["namespace"], local_queue_of(obj))
        return queue is not None and queue["spec"].get("stopPolicy", "None") == "None"


def _retry_key(obj: Object) -> str:
    """Return a key that changes when a set-aside Workload is worth another try."""
    status = obj.get("status", {})
    parts = [find_condition(obj, "Evicted"), find_condition(obj, "Requeued"), status.get("reclaimablePods")]
    return f"{key_of(obj)} {obj['metadata'].get('generation')} {parts}"
