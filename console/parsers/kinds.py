"""The kinds that are watched: where they are served and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.parsers.admissioncheck import AdmissionCheckWire, parse_admission_check
from console.parsers.clusterqueue import ClusterQueueWire, parse_cluster_queue
from console.parsers.cohort import CohortWire, parse_cohort
from console.parsers.event import EventWire, parse_event
from console.parsers.flavor import FlavorWire, parse_flavor
from console.parsers.job import JobWire, parse_job
from console.parsers.jobset import JobSetWire, parse_jobset
from console.parsers.localqueue import LocalQueueWire, parse_local_queue
from console.parsers.node import NodeWire, parse_node
from console.parsers.page import Reader
from console.parsers.pod import PodWire, parse_pod
from console.parsers.topology import TopologyWire, parse_topology
from console.parsers.workload import WorkloadWire, parse_workload

JOBSET = "jobset.x-k8s.io"
KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of API object."""

    plural: str
    group: str
    versions: tuple[str, ...]
    """Versions that can be read, best first."""
    namespaced: bool
    reader: Reader[Any, Any]

    def path(self, version: str, namespace: str = "") -> str:
        """URL path of the list; over all namespaces unless one is named."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


_QUEUES = ("v1beta2", "v1beta1", "v1alpha1")

KINDS: tuple[Kind, ...] = (
    Kind("nodes", "", ("v1",), False, Reader(NodeWire, parse_node)),
    Kind("pods", "", ("v1",), True, Reader(PodWire, parse_pod)),
    Kind("events", "", ("v1",), True, Reader(EventWire, parse_event)),
    Kind("jobsets", JOBSET, ("v1alpha2",), True, Reader(JobSetWire, parse_jobset)),
    Kind("jobs", "batch", ("v1",), True, Reader(JobWire, parse_job)),
    Kind("clusterqueues", KUEUE, _QUEUES, False, Reader(ClusterQueueWire, parse_cluster_queue)),
    Kind("localqueues", KUEUE, _QUEUES, True, Reader(LocalQueueWire, parse_local_queue)),
    Kind("workloads", KUEUE, _QUEUES, True, Reader(WorkloadWire, parse_workload)),
    Kind("resourceflavors", KUEUE, _QUEUES, False, Reader(FlavorWire, parse_flavor)),
    Kind("topologies", KUEUE, _QUEUES, False, Reader(TopologyWire, parse_topology)),
    Kind("cohorts", KUEUE, _QUEUES, False, Reader(CohortWire, parse_cohort)),
    Kind("admissionchecks", KUEUE, _QUEUES, False, Reader(AdmissionCheckWire, parse_admission_check)),
)
