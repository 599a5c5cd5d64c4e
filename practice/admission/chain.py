"""The admission chain: the defaults and checks for each kind of object."""

from __future__ import annotations

from collections.abc import Callable

from practice.admission import jobs, jobset, kueue, pods, quotas
from practice.admission.networks import add_network_resources
from practice.admission.pod_faults import pod_faults
from practice.clock import Clock
from practice.controllers.jobset_children import PREFIX
from practice.controllers.kueue.label_names import IN_USE
from practice.controllers.kueue.pods import hold_pod
from practice.controllers.objects import annotations_of
from practice.objects.api_error import ApiError, FieldCause, Object, invalid_object
from practice.objects.resources import (
    CLUSTERQUEUES,
    JOBS,
    JOBSETS,
    LOCALQUEUES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    WORKLOADS,
    Resource,
)
from practice.objects.storage import Operation, Storage

_WITH_SPEC = (CLUSTERQUEUES, JOBS, JOBSETS, LOCALQUEUES, NODES, WORKLOADS)


class AdmissionChain:
    """Defaults and validates objects as the API server and the webhooks of JobSet and Kueue do."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._create: dict[Resource, Callable[[Object], None]] = {
            PODS: self._admit_new_pod,
            JOBS: self._admit_new_job,
            JOBSETS: self._admit_new_jobset,
            CLUSTERQUEUES: self._admit_new_cluster_queue,
            LOCALQUEUES: _admit_new_local_queue,
            WORKLOADS: self._admit_new_workload,
            NAMESPACES: _admit_new_namespace,
            NODES: _admit_new_node,
            SERVICES: _admit_new_service,
        }
        self._update: dict[Resource, Callable[[Object, Object], None]] = {
            NODES: lambda node, _: _check_node(node),
            JOBS: self._admit_changed_job,
            JOBSETS: self._admit_changed_jobset,
        }

    def __call__(self, operation: Operation, resource: Resource, new: Object, old: Object | None) -> Object:
        """Default and validate one object; ``old`` is None for a new one. Raises ApiError if it is refused."""
        if resource in _WITH_SPEC and new.get("spec") is None:
            new["spec"] = {}
        if operation == "CREATE":
            self._create.get(resource, _admit_unchanged)(new)
            quotas.check_quotas(self._storage, resource, new)
        elif operation == "UPDATE" and resource in self._update and old is not None:
            self._update[resource](new, old)
        return new

    def _admit_new_pod(self, pod: Object) -> None:
        pods.default_pod(pod, self._storage, self._clock)
        hold_pod(pod)
        add_network_resources(pod, self._storage)
        _raise_if_faults(PODS, pod, list(pod_faults(pod["spec"], "spec", template=False)))
        if PREFIX + "jobset-name" in annotations_of(pod):
            pod["metadata"].setdefault("labels", {})[PREFIX + "priority"] = str(pod["spec"]["priority"])

    def _admit_new_job(self, job: Object) -> None:
        kueue.default_queue_and_suspend(job, self._storage)
        jobs.default_job(job)
        _raise_if_faults(JOBS, job, jobs.job_faults(job))
        kueue.raise_webhook_denial("vjob.kb.io", kueue.managed_job_faults(job))

    def _admit_new_jobset(self, new: Object) -> None:
        jobset.default_jobset(new)
        kueue.default_queue_and_suspend(new, self._storage)
        _raise_if_faults(JOBSETS, new, jobset.duplicate_key_faults(new))
        _raise_if_faults(JOBSETS, new, jobset.jobset_faults(new), webhook="vjobset.kb.io")
        kueue.raise_webhook_denial("vjobset.kb.io", kueue.managed_job_faults(new))

    def _admit_new_workload(self, workload: Object) -> None:
        workload["spec"].setdefault("active", True)
        meta = workload["metadata"]
        if IN_USE not in meta.setdefault("finalizers", []):
            meta["finalizers"].append(IN_USE)

    def _admit_new_cluster_queue(self, queue: Object) -> None:
        kueue.default_cluster_queue(queue)
        kueue.raise_webhook_denial("vclusterqueue.kb.io", kueue.cluster_queue_faults(queue))

    def _admit_changed_job(self, new: Object, old: Object) -> None:
        kueue.raise_webhook_denial("vjob.kb.io", kueue.managed_job_changes(new, old))
        _raise_if_faults(JOBS, new, jobs.job_changes(new, old))

    def _admit_changed_jobset(self, new: Object, old: Object) -> None:
        jobset.default_jobset(new)
        kueue.raise_webhook_denial("vjobset.kb.io", kueue.managed_job_changes(new, old))
        _raise_if_faults(JOBSETS, new, jobset.jobset_changes(new, old), webhook="vjobset.kb.io")


def _raise_if_faults(resource: Resource, obj: Object, faults: list[FieldCause], *, webhook: str = "") -> None:
    if not faults:
        return
    error = invalid_object(resource, obj["metadata"].get("name", ""), faults)
    if webhook:
        text = f'admission webhook "{webhook}" denied the request: {error.message}'
        error = ApiError(error.status, error.reason, text, error.details)
    raise error


def _admit_unchanged(_: Object) -> None:
    """Change nothing: the admission of kinds without defaults or validation."""


def _admit_new_namespace(namespace: Object) -> None:
    name = namespace["metadata"]["name"]
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    namespace.setdefault("status", {})["phase"] = "Active"


def _admit_new_node(node: Object) -> None:
    node.setdefault("status", {})
    _check_node(node)


def _check_node(node: Object) -> None:
    _raise_if_faults(NODES, node, pods.taint_faults(node["spec"].get("taints") or (), "spec.taints"))


def _admit_new_local_queue(queue: Object) -> None:
    queue["spec"].setdefault("clusterQueue", "")
    queue["spec"].setdefault("stopPolicy", "None")


def _admit_new_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
