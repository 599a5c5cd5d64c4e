"""The node services for pods: images, addresses, facts shared by a job's pods, events."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

from practice.controllers.objects import key_of, labels_of
from practice.objects.api_error import ApiError
from practice.objects.resources import NODES, PODS
from practice.programs.steps import SharedFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.controllers.base import ControlPlane
    from practice.controllers.objects import Key, Object
    from practice.node.buckets import Buckets
    from practice.node.registries import Registries

_FIRST_PULL_SECONDS = 5.0


class PodHost:
    """The services of nodes for their pods: images, addresses, shared facts; one object serves all nodes."""

    def __init__(self, plane: ControlPlane, registries: Registries, buckets: Buckets, seed: int = 0) -> None:
        self.storage = plane.storage
        self.clock = plane.clock
        self.registries = registries
        self.buckets = buckets
        self._recorder = plane.recorder
        self._seed = seed
        self._rooms: dict[str, SharedFacts] = {}
        self._pulled: set[tuple[str, str]] = set()
        self._addresses = 10

    def stored_pod(self, pod: Object) -> Object:
        """Return a pod as it is stored now, or as it last was."""
        return self.storage.find(PODS, *key_of(pod)) or pod

    def node_of(self, pod: Object) -> Object:
        """Return the node of a pod, empty when it is gone."""
        return self.storage.find(NODES, "", pod["spec"]["nodeName"]) or {}

    def new_address(self) -> str:
        self._addresses += 1
        return f"10.60.{self._addresses // 250}.{self._addresses % 250 + 2}"

    def has_image(self, node: str, image: str) -> bool:
        return (node, image) in self._pulled

    def pull_seconds(self, node: str, image: str) -> float:
        """Return the seconds that pulling an image takes, 0 if the node has it; marks it as pulled."""
        if self.has_image(node, image):
            return 0.0
        self._pulled.add((node, image))
        return _FIRST_PULL_SECONDS + len(image) % 7 / 2

    def facts_of_attempt(self, pod: Object) -> SharedFacts:
        """Return the facts that the pods of this pod's attempt share."""
        marks = labels_of(pod)
        parts = [marks.get(f"jobset.sigs.k8s.io/{name}", "") for name in ("jobset-uid", "restart-attempt")]
        parts.append(marks.get("batch.kubernetes.io/controller-uid", "") or pod["metadata"]["uid"])
        return self._rooms.setdefault("/".join(parts), SharedFacts())

    def random_of(self, pod: Object, attempt: int) -> random.Random:
        """Return a random generator with the same seed for the same rank of a job's attempt, whatever its uid."""
        return random.Random(f"{self._seed} {pod['metadata'].get('generateName', pod['metadata']['name'])} {attempt}")

    def record_event(self, pod: Object, kind: str, reason: str, message: str, field: str) -> None:
        host = pod["spec"]["nodeName"]
        self._recorder.record(pod, kind, reason, message, source="kubelet", host=host, field=field)

    def write_status(self, key: Key, modify: Callable[[Object], None]) -> None:
        """Change the status of a pod that may be gone."""
        with suppress(ApiError):  # gone in the meantime
            self.storage.modify_status(PODS, *key, lambda pod: modify(pod["status"]))
