"""The kubelets of all nodes: run the pods bound to their nodes, and serve logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.clock import parse_timestamp
from practice.controllers.base import Controller
from practice.controllers.objects import annotations_of, is_being_deleted, key_of
from practice.controllers.pod_host import PodHost
from practice.controllers.pod_run import PodRun
from practice.node.buckets import Buckets
from practice.node.registries import Registries
from practice.objects.api_error import bad_request
from practice.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from practice.controllers.base import ControlPlane
    from practice.controllers.container_run import ContainerRun
    from practice.controllers.objects import Key, Object
    from practice.node.container_logs import PodLog
    from practice.objects.resources import Resource

_CLEANUP_SECONDS = 1.0
"""Seconds from the end of a deleted pod's containers to its removal, for unmounting volumes and removing its cgroup."""
TEST_ANNOTATION_PREFIX = "a4-lab/"
"""Annotations by which a test drives a pod, the same as on the real control plane of the lab:
outcome, exit-code, reason, and log (the lines its container prints)."""


class Kubelets(Controller):
    """The kubelets of all nodes as one object, since all behave alike."""

    def __init__(self, plane: ControlPlane, seed: int = 0) -> None:
        super().__init__(plane)
        self._pod_runs: dict[str, PodRun] = {}  # by the uid of the pod
        self.registries = Registries()
        self.buckets = Buckets()
        self._host = PodHost(plane, self.registries, self.buckets, seed)
        self._printed: dict[str, int] = {}

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {PODS: lambda pod: [key_of(pod)] if pod["spec"].get("nodeName") else []}

    def reconcile(self, key: Key) -> None:
        pod = self.storage.find(PODS, *key)
        if pod is None:
            for left in [run for run in self._pod_runs.values() if run.key == key]:
                left.stop(0.0)  # it was deleted without grace
                self._pod_runs.pop(left.pod["metadata"]["uid"], None)
            return
        uid = pod["metadata"]["uid"]
        run = self._pod_runs.get(uid)
        if is_being_deleted(pod):
            self._stop_pod(pod, run)
        elif run is None and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            if self.storage.find(NODES, "", pod["spec"]["nodeName"]) is not None:
                self._pod_runs[uid] = run = PodRun(self._host, pod, self._finish_deleted_pod)
                run.begin()
        elif run is not None:
            self._apply_test_annotations(pod, run)

    def _stop_pod(self, pod: Object, run: PodRun | None) -> None:
        if run is not None and run.stopping:
            return  # it is removed once it has ended
        if run is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._remove_pod(pod)
            return
        left = parse_timestamp(pod["metadata"]["deletionTimestamp"]) - self.clock.now()
        run.stop(left if pod["metadata"].get("deletionGracePeriodSeconds") else 0.0)

    def _finish_deleted_pod(self, run: PodRun) -> None:
        """Record the end of a deleted pod's containers, and remove the pod shortly after."""
        if self._find_pod(run) is not None:
            run.write_status()
            self.clock.call_later(_CLEANUP_SECONDS, lambda: self._remove_pod_of_run(run))

    def _find_pod(self, run: PodRun) -> Object | None:
        pod = self.storage.find(PODS, *run.key)
        return pod if pod is not None and pod["metadata"]["uid"] == run.pod["metadata"]["uid"] else None

    def _remove_pod_of_run(self, run: PodRun) -> None:
        pod = self._find_pod(run)
        if pod is not None:
            self._remove_pod(pod)

    def _remove_pod(self, pod: Object) -> None:
        meta = pod["metadata"]
        if meta.get("finalizers") and meta.get("deletionGracePeriodSeconds") == 0:
            return
        self.storage.remove(PODS, *key_of(pod))
        if self.storage.find(PODS, *key_of(pod)) is None:
            self._pod_runs.pop(meta["uid"], None)

    def _apply_test_annotations(self, pod: Object, run: PodRun) -> None:
        """Apply the annotations by which tests control a pod."""
        notes = annotations_of(pod)
        text = notes.get(f"{TEST_ANNOTATION_PREFIX}log", "")
        seen = self._printed.get(pod["metadata"]["uid"], 0)
        log = run.main[0].log
        if log is not None and len(text) > seen:
            *lines, part = text[seen:].split("\n")
            for line in lines:
                log.add(self.clock.now(), line)
            if part:
                log.add_partial(self.clock.now(), part)
            self._printed[pod["metadata"]["uid"]] = len(text)
        outcome = notes.get(f"{TEST_ANNOTATION_PREFIX}outcome")
        if outcome in ("Succeeded", "Failed") and not run.forced_phase and run.phase() == "Running":
            run.end_containers(
                outcome,
                int(notes.get(f"{TEST_ANNOTATION_PREFIX}exit-code", "0")),
                notes.get(f"{TEST_ANNOTATION_PREFIX}reason", ""),
            )

    # what the API server asks of the kubelets

    def find_container(self, namespace: str, pod: str, container: str) -> ContainerRun:
        """Return a container of a pod. Raises ApiError if there is none of that name."""
        found = self.storage.get(PODS, namespace, pod)
        run = self._pod_runs.get(found["metadata"]["uid"])
        one = run.container(container) if run is not None else None
        if one is None:
            waits = [
                spec["name"] for kind in ("containers", "initContainers") for spec in found["spec"].get(kind) or ()
            ]
            if container in waits or not container:
                name = container or waits[0]
                raise bad_request(f'container "{name}" in pod "{pod}" is waiting to start: ContainerCreating')
            raise bad_request(f"container {container} is not valid for pod {pod}")
        return one

    def find_log(self, namespace: str, pod: str, container: str, previous: bool) -> PodLog:
        """Return the log of a container, or of its previous run."""
        run = self.find_container(namespace, pod, container)
        found = run.previous if previous else run.log
        if found is not None:
            return found
        if previous:
            raise bad_request(f'previous terminated container "{run.name}" in pod "{pod}" not found')
        reason = run.state.get("waiting", {}).get("reason", "ContainerCreating")
        word = f'container "{run.name}" in pod "{pod}" is waiting to start: '
        raise bad_request(word + reason)
