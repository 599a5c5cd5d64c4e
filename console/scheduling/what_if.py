"""Predicts the immediate effect of changes, by Kueue's rules on two copies of the cluster, one with the changes.

The cluster itself is not changed. Only GPUs and topology domains are counted, no other resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import Struct, structs
from msgspec.structs import replace

from console.errors import BadInput, NotThere
from console.kube.find_job import find_job, find_node
from console.kube.objects.meta import GPU
from console.kube.objects.node import Node
from console.kube.objects.queue import ClusterQueue
from console.kube.snapshot import Fleet
from console.scheduling.kueue_snapshot import (
    ANY_TAINT,
    closed_reason,
    cluster_queue_name,
    job_name,
    kueue_snapshot,
    queue_order,
    queue_timestamp,
)
from console.scheduling.start_simulation import all_gpu_flavors, first_waiting, virtual_cluster_of
from console.scheduling.topology import MACHINE_GPUS
from kueue_rules import Key, SnapshotPodSet, SnapshotWorkload, VirtualCluster, queue_order_key, without_quota

MAX_NODES_TRIED = 64  # machines that are asked for, one after the other, to see who would be preempted


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    submit: tuple[str, ...] = ()  # QUEUE:GPUS[:PRIORITY]; a priority is a number or the name of a class
    stop: tuple[str, ...] = ()  # JOB
    drain: tuple[str, ...] = ()  # NODE, POOL or HOST
    quota: tuple[str, ...] = ()  # QUEUE:FLAVOR:GPUS
    priority: tuple[str, ...] = ()  # JOB:PRIORITY

    @property
    def priority_classes(self) -> list[str]:
        """The requested priorities that are names of priority classes."""
        named = (each.rpartition(":")[2] for each in (*self.priority, *(x for x in self.submit if x.count(":") > 1)))
        return [each for each in named if not _WHOLE_NUMBER.fullmatch(each)]


_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
NO_PRIORITY_CLASSES: Mapping[str, int] = {}


class Consequence(Struct, frozen=True):
    job: str
    namespace: str
    queue: str  # ClusterQueue
    gpus: int
    what: str  # starts, waits, never starts, preempted, moves, leaves, stopped
    by: str = ""  # for which job it is preempted
    position: int = 0  # in its ClusterQueue, where it waits then
    most: int | None = None  # GPUs that its queue could ever give, where the job asks for more
    lost: str = ""  # what of its work would be lost, in words; empty: nothing, or nobody has asked

    @property
    def ends_work(self) -> bool:
        return self.what in {"stopped", "preempted", "moves", "leaves"}


class FreeQuota(Struct, frozen=True):
    """The GPUs of a flavor that a queue can still take, own and borrowed, and those free on its machines."""

    queue: str
    flavor: str
    now: int
    then: int
    machines_now: int | None  # None: the flavor has no topology, and Kueue counts no machines
    machines_then: int | None


class WhatIf(Struct, frozen=True):
    consequences: tuple[Consequence, ...]
    free: tuple[FreeQuota, ...]
    notes: tuple[str, ...]  # what is not counted, and queues that are closed: sentences without their ends
    next_victims: NextVictims | None  # as things are, without the changes


class NextVictims(Struct, frozen=True):
    """The workloads that Kueue would preempt first if more jobs came like the waiting one of highest priority."""

    job: str  # that waits
    queue: str  # ClusterQueue
    priority: int
    victims: tuple[tuple[str, str], ...]  # namespaces and names of jobs


def next_victims(fleet: Fleet) -> NextVictims | None:
    """Find which workloads Kueue would preempt next; None if nothing waits or nothing may be preempted."""
    queues = (each for each in fleet.cluster_queues.values() if not closed_reason(each))
    waiting = [each for queue in queues for each in queue_order(fleet, queue.name).pending]
    if not waiting:
        return None
    first = min(waiting, key=lambda each: queue_order_key(each.priority, queue_timestamp(each), each.uid))
    name = cluster_queue_name(first, fleet)
    found: dict[Key, None] = {}
    cluster = VirtualCluster(kueue_snapshot(fleet, all_gpu_flavors(fleet), with_topology=True), ())
    for number in range(MAX_NODES_TRIED):
        machine = SnapshotPodSet("main", 1, {GPU: MACHINE_GPUS}, {GPU: MACHINE_GPUS}, tolerations=ANY_TAINT)
        asked = SnapshotWorkload(
            (first.namespace, f"-{number}-"), "", name, first.priority, queue_timestamp(first), [machine]
        )
        cluster.submit(asked)
        moves = cluster.admit(fleet.at)
        if not moves:
            break
        found |= dict.fromkeys(each.workload.key for each in moves if each.preempted_by is not None)
        for again in (each for listed in cluster.waiting.values() for each in listed):
            cluster.withdraw(again)
    victims = (fleet.workloads[key] for key in found if key in fleet.workloads)
    keys = tuple((each.namespace, job_name(each)) for each in victims)
    return NextVictims(job_name(first), name, first.priority, keys) if keys else None


def what_if(fleet: Fleet, namespace: str, changes: Changes, classes: Mapping[str, int] = NO_PRIORITY_CLASSES) -> WhatIf:
    """The effect of changes on jobs; `classes`: priority values. BadInput, NotThere, NotFound if one is impossible."""
    return _TwoClusters(fleet, namespace, changes, classes).result()


class _TwoClusters:
    def __init__(self, fleet: Fleet, namespace: str, changes: Changes, classes: Mapping[str, int]) -> None:
        self._fleet, self._namespace, self._classes = fleet, namespace, classes
        self._drained = dict(_iter_drained(fleet, changes.drain))
        queues = _with_quotas(fleet, changes.quota)
        self._changed = replace(fleet, nodes={**fleet.nodes, **self._drained}, cluster_queues=queues)
        flavors = all_gpu_flavors(fleet)
        self._before, self._after = virtual_cluster_of(fleet, flavors), virtual_cluster_of(self._changed, flavors)
        self._notes: list[str] = []
        self._new: list[SnapshotWorkload] = []
        self._closed: list[SnapshotWorkload] = []  # new ones of queues that admit nothing
        for text in changes.priority:
            name, priority = _split_form(text, "--priority", "JOB:PRIORITY", 2)
            workload = self._find_workload(name)
            self._remove_workload(workload)
            self._put_back(structs.replace(workload, priority=self._parse_priority(priority, "--priority", text)))
        self._stopped = list(dict.fromkeys(map(self._find_workload, changes.stop)))
        self._moved = self._on_drained_nodes()
        for workload in self._stopped:
            self._remove_workload(workload)
        for workload in self._moved:
            if workload not in self._stopped:
                self._remove_workload(workload)
                self._after.submit(without_quota(workload))
        for number, text in enumerate(changes.submit, start=1):
            self._add_submission(text, f"new-{number}")
        anyway, self._preempted_by = (
            {each.workload.key: each.preempted_by.key for each in cluster.admit(fleet.at) if each.preempted_by}
            for cluster in (self._before, self._after)
        )
        self._requeued = {each.key for each in self._moved} | (self._preempted_by.keys() - anyway.keys())
        self._note_caveats(flavors)

    def result(self) -> WhatIf:
        both = self._before, self._after
        free = [
            FreeQuota(
                name,
                flavor,
                *(max(0, each.snapshot.queues[name].available((flavor, GPU))) for each in both),
                *(_free_on_machines(each, flavor) for each in both),
            )
            for name, queue in self._after.snapshot.queues.items()
            for group in queue.groups
            for flavor in group.flavors
        ]
        return WhatIf(tuple(self._iter_consequences()), tuple(free), tuple(self._notes), next_victims(self._fleet))

    def _iter_consequences(self) -> Iterator[Consequence]:
        before, after = _running_workloads(self._before), _running_workloads(self._after)
        for workload in self._stopped:
            yield self._make_consequence(workload, "stopped")
        for key, workload in after.items():
            if key not in before or key in self._requeued:
                yield self._make_consequence(workload, "moves" if key in before else "starts")
        new = {each.key for each in self._new}
        for queue in self._after.waiting.values():
            for at, workload in enumerate(queue, start=1):
                if workload.key in before or workload.key in new:
                    yield self._waiting_consequence(workload, at)
        for workload in self._closed:
            yield self._make_consequence(workload, "waits")

    def _waiting_consequence(self, workload: SnapshotWorkload, position: int) -> Consequence:
        """The consequence for a job that would run without the change, or for a new one."""
        by = self._preempted_by.get(workload.key)
        if by is not None:
            return self._make_consequence(workload, "preempted", by, position)
        if workload.key in self._requeued:
            return self._make_consequence(workload, "leaves", position=position)
        found = self._make_consequence(workload, "waits", position=position)
        most = self._max_gpus(workload.cluster_queue)
        return found if found.gpus <= most else structs.replace(found, what="never starts", position=0, most=most)

    def _max_gpus(self, name: str) -> int:
        """GPUs of all flavors that a queue could have, own and borrowed, if nothing ran."""
        queue = self._after.snapshot.queues[name]
        flavors = [flavor for group in queue.groups for flavor in group.flavors]
        return sum(max(0, queue.potential_available((flavor, GPU))) for flavor in flavors)

    def _make_consequence(
        self, workload: SnapshotWorkload, subject: str, by: Key | None = None, position: int = 0
    ) -> Consequence:
        return Consequence(
            self._job_name(workload.key),
            workload.key[0],
            workload.cluster_queue,
            sum(each.requests.get(GPU, 0) for each in workload.pod_sets),
            subject,
            self._job_name(by) if by else "",
            position,
        )

    def _job_name(self, key: Key) -> str:
        known = self._fleet.workloads.get(key)
        return job_name(known) if known else key[1]

    def _find_workload(self, name: str) -> SnapshotWorkload:
        """The workload of a job in the copy with the changes. Raises NotThere if it neither holds nor awaits GPUs."""
        for each in self._fleet.workloads.values():
            if each.namespace == self._namespace and job_name(each) == name:
                for queue in self._after.snapshot.queues.values():
                    if each.key in queue.workloads:
                        return queue.workloads[each.key]
                for waiting in (each for queue in self._after.waiting.values() for each in queue):
                    if waiting.key == each.key:
                        return waiting
        if (found := find_job(self._fleet, self._namespace, name)).finished:
            raise NotThere(f"{name} has ended ({found.state}) and holds no GPUs: nothing would change.")
        raise NotThere(
            f"{name} neither holds GPUs of a queue nor is among the first that wait in one.", f"a4 why {name}"
        )

    def _parse_priority(self, typed_text: str, flag: str, text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(typed_text):
            return int(typed_text)
        if typed_text not in self._classes:
            raise _not_found_error(flag, text, "WorkloadPriorityClass", typed_text, self._classes)
        return self._classes[typed_text]

    def _remove_workload(self, workload: SnapshotWorkload) -> None:
        if self._after.is_running(workload):
            self._after.end(workload)
        elif workload in self._after.waiting[workload.cluster_queue]:
            self._after.withdraw(workload)

    def _put_back(self, workload: SnapshotWorkload) -> None:
        if workload.pod_sets[0].flavors:
            self._after.snapshot.add_workload(workload)
        else:
            self._after.submit(workload)

    def _on_drained_nodes(self) -> list[SnapshotWorkload]:
        names = {node.name for node in self._drained.values()}
        keys, strangers = set(), 0
        for name in names:
            for pod in self._fleet.pods_by_node.get(name, ()):
                jobset = self._fleet.jobset_by_uid.get(pod.jobset_uid)
                workload = self._fleet.workload_of(jobset) if jobset else None
                if workload is not None and pod.holds_gpus:
                    keys.add(workload.key)
                strangers += workload is None and pod.holds_gpus > 0
        if strangers:
            self._notes.append(
                f"{strangers} pods with GPUs on these nodes belong to no job in a queue: where they go is not known"
            )
        held = [each for queue in self._after.snapshot.queues.values() for each in queue.workloads.values()]
        return [
            each
            for each in held
            if each.key in keys or any(values[-1] in names for group in each.pod_sets for values, _ in group.places)
        ]

    def _add_submission(self, text: str, name: str) -> None:
        form = "QUEUE:GPUS[:PRIORITY]"
        queue_name, gpus_text, *rest = _split_form(text, "--submit", form, 2, 3)
        gpus = _parse_whole_number(gpus_text, "--submit", form, text)
        priority = self._parse_priority(rest[0], "--submit", text) if rest else 0
        if gpus < 1 or (gpus > MACHINE_GPUS and gpus % MACHINE_GPUS):
            raise BadInput(f"--submit {text}: GPUs have to be 1 to {MACHINE_GPUS}, or a multiple of {MACHINE_GPUS}.")
        local = self._fleet.local_queues.get((self._namespace, queue_name))
        target = local.cluster_queue if local else queue_name
        queue = self._fleet.cluster_queues.get(("", target))
        if queue is None:
            mine = [each for where, each in self._fleet.local_queues if where == self._namespace]
            known = sorted({*mine, *(each for _, each in self._fleet.cluster_queues)})
            raise _not_found_error("--submit", text, "queue", queue_name, known)
        pods, each = max(1, gpus // MACHINE_GPUS), min(gpus, MACHINE_GPUS)
        group = SnapshotPodSet("main", pods, {GPU: gpus}, {GPU: each}, tolerations=ANY_TAINT)
        workload = SnapshotWorkload((self._namespace, name), name, target, priority, self._fleet.at, [group])
        closed = (closed_reason(local) if local else "") or closed_reason(queue)
        if closed:
            self._notes.append(f"{name} waits: {closed}")
            self._closed.append(workload)
        else:
            self._new.append(workload)
            self._after.submit(workload)

    def _note_caveats(self, flavors: Iterable[str]) -> None:
        if self._drained:
            plain = [name for name in flavors if name not in self._after.snapshot.trees]
            if plain:
                self._notes.append(
                    f"flavor {', '.join(plain)} has no topology, so Kueue counts quota alone and not machines: whether "
                    "machines are left for its jobs is not known"
                )
        for queue in self._fleet.cluster_queues.values():
            if queue.checks and any(each.cluster_queue == queue.name for each in (*self._new, *self._moved)):
                self._notes.append(
                    f"queue {queue.name} has the admission check {', '.join(queue.checks)}: what starts there has its "
                    "quota; then machines are provisioned, and when is not known"
                )
        for name, tried in first_waiting(self._fleet).items():
            if (waiting := len(queue_order(self._fleet, name).pending)) > len(tried):
                self._notes.append(f"{waiting} jobs wait in queue {name}; the first {len(tried)} are tried")


def _free_on_machines(cluster: VirtualCluster, flavor: str) -> int | None:
    tree = cluster.snapshot.trees.get(flavor)
    return sum(max(0, each.free.get(GPU, 0) - each.used.get(GPU, 0)) for each in tree.leaves) if tree else None


def _running_workloads(cluster: VirtualCluster) -> dict[Key, SnapshotWorkload]:
    return {key: each for queue in cluster.snapshot.queues.values() for key, each in queue.workloads.items()}


def _iter_drained(fleet: Fleet, names: Iterable[str]) -> Iterator[tuple[Key, Node]]:
    for name in names:
        found = {key: node for key, node in fleet.nodes.items() if name in {node.name, node.pool, node.host}}
        if not found:
            node = find_node(fleet.nodes, name)
            found = {("", node.name): node} if node is not None else {}
        if not found:
            pools = sorted({node.pool for node in fleet.nodes.values() if node.pool})
            raise NotThere(
                f"There is no node, pool or host {name}.", f"Pools: {', '.join(pools) or 'none'}; a4 nodes lists nodes."
            )
        yield from ((key, structs.replace(node, cordoned=True)) for key, node in found.items())


def _with_quotas(fleet: Fleet, changes: Iterable[str]) -> Mapping[Key, ClusterQueue]:
    queues = dict(fleet.cluster_queues)
    for text in changes:
        form = "QUEUE:FLAVOR:GPUS"
        name, flavor, amount = _split_form(text, "--quota", form, 3)
        gpus = _parse_whole_number(amount, "--quota", form, text)
        if gpus < 0:
            raise BadInput(f"--quota {text}: GPUs have to be 0 or more.")
        queue = queues.get(("", name))
        if queue is None:
            raise _not_found_error("--quota", text, "ClusterQueue", name, sorted(each for _, each in queues))
        known = [each.flavor for each in queue.quotas if each.resource == GPU]
        if flavor not in known:
            raise _not_found_error("--quota", text, f"GPU quota in ClusterQueue {name} of flavor", flavor, known)
        queues["", name] = structs.replace(
            queue,
            quotas=tuple(
                structs.replace(each, nominal=gpus) if (each.flavor, each.resource) == (flavor, GPU) else each
                for each in queue.quotas
            ),
        )
    return queues


def _not_found_error(flag: str, text: str, kind: str, name: str, names: Iterable[str]) -> NotThere:
    return NotThere(f"{flag} {text}: there is no {kind} {name}.", f"There are: {', '.join(names) or 'none'}.")


def _split_form(text: str, flag: str, form_name: str, *parts: int) -> list[str]:
    found = text.split(":")
    if len(found) not in parts or not all(found):
        raise BadInput(f"{flag} {text} has to be {form_name}.")
    return found


def _parse_whole_number(text: str, flag: str, form_name: str, full_text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{flag} {full_text} has to be {form_name}, and {text} is no whole number.") from None
