"""A Workload as the admission sees it: what each pod set asks for in all, in which flavor, at which priority."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from practice.controllers.objects import condition, is_true, key_of
from practice.controllers.quantity import Amounts, amounts, pod_requests

if TYPE_CHECKING:
    from practice.controllers.objects import Key, Object

FlavorResource = tuple[str, str]  # flavor and resource name
Quantities = dict[FlavorResource, int]  # Milli-units by flavor and resource


@dataclass(slots=True)
class PodSetInfo:
    """One pod set: what all its pods ask for together, and one of them alone."""

    name: str
    count: int
    requests: Amounts
    single: Amounts
    pod_set: Object
    flavors: dict[str, str] = field(default_factory=dict)  # resource -> flavor, once admitted


@dataclass(slots=True)
class WorkloadInfo:
    """One Workload with its pod sets."""

    obj: Object
    cluster_queue: str
    pod_sets: list[PodSetInfo]

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return key_of(self.obj)

    @property
    def priority(self) -> int:
        """The larger goes first."""
        return int(self.obj["spec"].get("priority") or 0)

    def usage(self) -> Quantities:
        total: Quantities = {}
        for pod_set in self.pod_sets:
            for resource, value in pod_set.requests.items():
                if resource in pod_set.flavors:
                    at = (pod_set.flavors[resource], resource)
                    total[at] = total.get(at, 0) + value
        return total

    def order(self) -> tuple[int, str, str]:
        """Return the place in the queue: higher priority, then older, then uid."""
        return -self.priority, queue_time(self.obj), self.obj["metadata"]["uid"]

    def shape(self) -> str:
        """Return a hash that is equal for Workloads which fit or do not fit alike."""
        parts = [
            [item.name, item.count, item.requests, item.pod_set.get("topologyRequest"), _placement(item.pod_set)]
            for item in self.pod_sets
        ]
        text = json.dumps([parts, self.priority], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_workload(obj: Object, cluster_queue: str = "") -> WorkloadInfo:
    """Return a Workload with its totals: from its admission when it has one, else from its pod sets."""
    admission = obj.get("status", {}).get("admission")
    assigned = {item["name"]: item for item in admission["podSetAssignments"]} if admission else {}
    given_back = {item["name"]: item["count"] for item in obj.get("status", {}).get("reclaimablePods") or ()}
    pod_sets = []
    for pod_set in obj["spec"]["podSets"]:
        single = pod_requests(pod_set["template"]["spec"])
        left = max(pod_set["count"] - given_back.get(pod_set["name"], 0), 0)
        found = assigned.get(pod_set["name"])
        if found is not None:
            whole = found.get("count") or pod_set["count"]
            held = amounts(found.get("resourceUsage"))
            requests = {name: value * left // whole if whole else 0 for name, value in held.items()}
            pod_sets.append(PodSetInfo(pod_set["name"], left, requests, single, pod_set, found.get("flavors") or {}))
        else:
            requests = {name: value * left for name, value in single.items()}
            pod_sets.append(PodSetInfo(pod_set["name"], left, requests, single, pod_set))
    return WorkloadInfo(obj, admission["clusterQueue"] if admission else cluster_queue, pod_sets)


def local_queue_of(obj: Object) -> str:
    """Return the name of the LocalQueue a Workload waits in; empty when it names none."""
    return str(obj["spec"].get("queueName") or "")


def has_quota(obj: Object) -> bool:
    return is_true(obj, "QuotaReserved") and bool(obj["status"].get("admission"))


def is_active(obj: Object) -> bool:
    return bool(obj["spec"].get("active", True))


def queue_time(obj: Object) -> str:
    """Return the time a Workload queues by: its creation, or when an admission check sent it back."""
    evicted = condition(obj, "Evicted")
    if evicted is not None and evicted["status"] == "True" and evicted["reason"] == "AdmissionCheck":
        return str(evicted["lastTransitionTime"])
    return str(obj["metadata"]["creationTimestamp"])


def _placement(pod_set: Object) -> list[object]:
    spec = pod_set["template"]["spec"]
    return [spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations")]
