"""Kueue's own labels, annotations and defaults."""

from __future__ import annotations

PREFIX = "kueue.x-k8s.io/"
QUEUE = PREFIX + "queue-name"
PRIORITY_CLASS = PREFIX + "priority-class"
MAX_EXECUTION = PREFIX + "max-exec-time-seconds"
JOB_UID = PREFIX + "job-uid"
WORKLOAD = PREFIX + "workload"
PODSET = PREFIX + "podset"
LOCAL_QUEUE = PREFIX + "local-queue-name"
CLUSTER_QUEUE = PREFIX + "cluster-queue-name"
IN_USE = PREFIX + "resource-in-use"
TOPOLOGY_GATE = PREFIX + "topology"
REQUIRED = PREFIX + "podset-required-topology"
PREFERRED = PREFIX + "podset-preferred-topology"
UNCONSTRAINED = PREFIX + "podset-unconstrained-topology"
SLICE_REQUIRED = PREFIX + "podset-slice-required-topology"
SLICE_SIZE = PREFIX + "podset-slice-size"
GROUP = PREFIX + "podset-group-name"

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
