"""Manages single pods and groups of pods for Kueue: gates them, creates their Workloads, ungates and ends them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable

from practice.controllers.base import Controller
from practice.controllers.kueue import admission_status as status
from practice.controllers.kueue.info import has_quota
from practice.controllers.kueue.jobs import release_orphan
from practice.controllers.kueue.label_names import IN_USE, JOB_UID, PREFIX, TOPOLOGY_GATE
from practice.controllers.kueue.podsets import (
    add_to_template,
    admission_additions,
    build_workload,
    gates_of,
    queue_name,
    workload_name,
)
from practice.controllers.kueue.snapshot import read_release
from practice.controllers.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    drop_finalizer,
    find_condition,
    is_being_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)
from practice.objects.resources import PODS, WORKLOADS, Resource

MANAGED = PREFIX + "managed"  # the label and the finalizer
GATE = PREFIX + "admission"
GROUP_NAME = PREFIX + "pod-group-name"
GROUP_COUNT = PREFIX + "pod-group-total-count"
ROLE = PREFIX + "role-hash"
_IS_GROUP = PREFIX + "is-group-workload"
_ENDED = ("Succeeded", "Failed")


def hold_pod(pod: Object) -> None:
    """Gate a new pod that has a queue and belongs to no job until its admission, as Kueue's webhook does."""
    if not queue_name(pod) or controller_of(pod) is not None:
        return
    meta, spec = pod["metadata"], pod["spec"]
    meta["labels"][MANAGED] = "true"
    meta["finalizers"] = [*(meta.get("finalizers") or ()), MANAGED]
    content = {name: spec.get(name) for name in ("containers", "initContainers", "nodeSelector", "tolerations")}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    meta.setdefault("annotations", {})[ROLE] = digest[:8]
    spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": GATE}, {"name": TOPOLOGY_GATE}]


class ManagedPods(Controller):
    """Ports the pod integration of Kueue 0.18; a key is a namespace and the name of the Workload."""

    source = "pod-kueue-controller"

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {PODS: self._workload_keys, WORKLOADS: lambda obj: [key_of(obj)] if _is_of_pods(obj) else []}

    def _workload_keys(self, pod: Object) -> list[Key]:
        return [(pod["metadata"]["namespace"], _workload_name(pod))] if labels_of(pod).get(MANAGED) == "true" else []

    def reconcile(self, key: Key) -> None:
        members = [pod for pod in self.storage.list(PODS, key[0]) if self._workload_keys(pod) == [key]]
        workload = self.storage.find(WORKLOADS, *key)
        if workload is not None and is_being_deleted(workload):
            self._end_pods(members)
            self.storage.modify(WORKLOADS, *key, lambda draft: drop_finalizer(draft, IN_USE))
        elif not members and workload is not None:
            release_orphan(self.storage, workload, self.clock.now())
        elif members and workload is None:
            self._create_workload(members)
        elif workload is not None:
            self._finish_workload(members, workload)
            self._run_or_stop(members, self.storage.get(WORKLOADS, *key))
        workload = self.storage.find(WORKLOADS, *key)
        for pod in members:
            # A group waits for others in place of pods that are deleted, as long as it has its Workload.
            gone = is_being_deleted(pod) and (workload is None or GROUP_NAME not in labels_of(pod))
            if gone or (workload is not None and is_true(workload, "Finished")):
                self.storage.modify(PODS, *key_of(pod), lambda draft: drop_finalizer(draft, MANAGED))

    def _create_workload(self, members: list[Object]) -> None:
        """Create the Workload of a group once all of its pods exist."""
        alive = [pod for pod in members if not is_being_deleted(pod) and pod["status"].get("phase") not in _ENDED]
        if not alive or len(alive) < int(annotations_of(alive[0]).get(GROUP_COUNT, 1)):
            return
        first = alive[0]
        made = build_workload(first, self.storage)
        if GROUP_NAME in labels_of(first):
            roles = sorted({_group_role(pod) for pod in alive})
            kinds = [next(pod for pod in alive if _group_role(pod) == role) for role in roles]
            made["spec"]["podSets"] = [
                {
                    **build_workload(pod, self.storage)["spec"]["podSets"][0],
                    "name": role,
                    "count": sum(_group_role(each) == role for each in alive),
                }
                for role, pod in zip(roles, kinds, strict=True)
            ]
            owners = [owner_reference(pod) for pod in alive]
            for owner in owners:
                del owner["controller"], owner["blockOwnerDeletion"]
            del made["metadata"]["labels"][JOB_UID]
            made["metadata"] |= {
                "name": _workload_name(first),
                "ownerReferences": owners,
                "annotations": {_IS_GROUP: "true"},
            }
        created = self.storage.create(WORKLOADS, made)
        self.record_event(first, "CreatedWorkload", f"Created Workload: {'/'.join(key_of(created))}")

    def _finish_workload(self, members: list[Object], workload: Object) -> None:
        phases = [pod["status"].get("phase") for pod in members]
        count = sum(pod_set["count"] for pod_set in workload["spec"]["podSets"])
        is_group = _IS_GROUP in annotations_of(workload)
        good = phases.count("Succeeded") == count
        if is_true(workload, "Finished") or not (good or (phases == ["Failed"] and not is_group)):
            return
        text = f"Pods succeeded: {count}/{count}." if is_group else members[0]["status"].get("message") or ""
        reason, now = "Succeeded" if good else "Failed", self.clock.now()
        self.storage.modify_status(WORKLOADS, *key_of(workload), lambda draft: status.finish(draft, reason, text, now))
        self.record_event(
            members[0], "FinishedWorkload", f"Workload '{'/'.join(key_of(workload))}' is declared finished"
        )

    def _run_or_stop(self, members: list[Object], workload: Object) -> None:
        evicted = find_condition(workload, "Evicted")
        if is_true(workload, "Finished"):
            return
        if evicted is not None and evicted["status"] == "True":
            self._end_pods([pod for pod in members if GATE not in gates_of(pod)])
            if has_quota(workload) and all(GATE in gates_of(pod) for pod in members):
                self._release_quota(workload, evicted)
            return
        if not is_true(workload, "Admitted"):
            return
        names = [item["name"] for item in workload["spec"]["podSets"]]
        info = dict(zip(names, admission_additions(workload, self.storage), strict=True))
        queue = workload["status"]["admission"]["clusterQueue"]
        for pod in members:
            if GATE in gates_of(pod):
                self._remove_gates(pod, info.get(_group_role(pod)) or info[names[0]])
                self.record_event(pod, "Started", f"Admitted by clusterQueue {queue}")

    def _remove_gates(self, pod: Object, info: Object) -> None:
        """Remove Kueue's gates from a pod; the topology's gate stays if the topology places the pod."""

        def change(obj: Object) -> None:
            gates = [gate for gate in obj["spec"].pop("schedulingGates") if gate["name"] not in (GATE, TOPOLOGY_GATE)]
            if gates:
                obj["spec"]["schedulingGates"] = gates
            add_to_template(obj, info)

        self.storage.modify(PODS, *key_of(pod), change)

    def _release_quota(self, workload: Object, evicted: Object) -> None:
        now, release = self.clock.now(), read_release(self.storage)

        def change(obj: Object) -> None:
            back = evicted["reason"] in ("Preempted", "NodeFailures")
            status.set_requeued(obj, evicted["reason"], evicted["message"], back, now)
            status.release_quota(obj, "Pending", evicted["message"], now, release)

        self.storage.modify_status(WORKLOADS, *key_of(workload), change)

    def _end_pods(self, pods: list[Object]) -> None:
        for pod in pods:
            if not is_being_deleted(pod):
                self.storage.delete(PODS, *key_of(pod))


def _workload_name(pod: Object) -> str:
    return str(labels_of(pod).get(GROUP_NAME) or workload_name(pod))


def _group_role(pod: Object) -> str:
    return str(annotations_of(pod)[ROLE])


def _is_of_pods(workload: Object) -> bool:
    return any(owner["kind"] == "Pod" for owner in workload["metadata"].get("ownerReferences") or ())
