"""The controller framework: object changes put keys into queues, and each key is reconciled."""

from __future__ import annotations

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from practice.clock import Clock, parse_timestamp
from practice.controllers.objects import Key, Object, find_condition, is_being_deleted, key_of
from practice.controllers.recorder import EventRecorder
from practice.objects.api_error import ApiError
from practice.objects.history import Event
from practice.objects.resources import Resource
from practice.objects.storage import Storage

_RETRY_SECONDS, _RETRY_MOST = 0.5, 60.0
_TURN_LIMIT = 60  # keys looked at before other things on the event loop get their turn

log = logging.getLogger(__name__)


class Controller(ABC):
    """One control loop; subclasses define which changes concern it and how it reconciles a key."""

    source = ""  # the component that reports its events

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.storage = plane.storage
        self.clock = plane.clock
        self.record = plane.recorder.record

    @abstractmethod
    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """By kind, a function that returns, for a changed object, the keys to reconcile."""

    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Bring the cluster closer to the desired state of the object with this key."""

    def record_event(self, obj: Object, reason: str, message: str, kind: str = "Normal") -> None:
        self.record(obj, kind, reason, message, source=self.source)

    def delete_when_expired(self, resource: Resource, job: Object, propagation: str = "Background") -> None:
        """Delete a finished Job or JobSet at the end of its `ttlSecondsAfterFinished`."""
        keep = job["spec"].get("ttlSecondsAfterFinished")
        if keep is None or is_being_deleted(job):
            return
        ended = next(filter(None, (find_condition(job, kind) for kind in ("Complete", "Completed", "Failed"))), None)
        left = parse_timestamp(ended["lastTransitionTime"]) + keep - self.clock.now() if ended else 0.0
        if left > 0:
            self.requeue(key_of(job), left)
        else:
            self.storage.delete(resource, *key_of(job), propagation=propagation)

    def requeue(self, key: Key, seconds: float = 0.0) -> None:
        """Requeue a key, now or after some seconds."""
        self.plane.enqueue(self, key, seconds)


class ControlPlane:
    """All controllers with their common queue, storage and clock."""

    def __init__(self, storage: Storage, clock: Clock, seed: int = 0) -> None:
        self.storage = storage
        self.clock = clock
        self.recorder = EventRecorder(storage, clock)
        self.random = random.Random(f"control plane {seed}")
        self._watchers: dict[Resource, list[tuple[Controller, Callable[[Object], Iterable[Key]]]]] = {}
        self._queue: dict[tuple[Controller, Key], None] = {}
        self._pauses: dict[tuple[Controller, Key], float] = {}
        """Seconds until the next try of a key whose reconciliation failed, which grow with each failure."""
        self._turning = False
        self._unsubscribe = storage.subscribe(self._on_event)

    def add(self, controller: Controller) -> None:
        for resource, keys in controller.watches().items():
            self._watchers.setdefault(resource, []).append((controller, keys))

    def stop(self) -> None:
        """Stop reconciling: further changes are ignored."""
        self._unsubscribe()
        self._queue.clear()

    def enqueue(self, controller: Controller, key: Key, seconds: float = 0.0) -> None:
        """Have a controller reconcile a key, now or after some seconds of practice time."""
        if seconds > 0:
            self.clock.call_later(seconds, lambda: self.enqueue(controller, key))
            return
        self._queue[controller, key] = None
        if not self._turning:
            self._turning = True
            self.clock.call_soon(self._reconcile_next)

    def _on_event(self, event: Event) -> None:
        for controller, keys in self._watchers.get(event.resource, ()):
            for key in keys(event.object):
                self.enqueue(controller, key)

    def _reconcile_next(self) -> None:
        for _ in range(_TURN_LIMIT):
            if not self._queue:
                self._turning = False
                return
            controller, key = next(iter(self._queue))
            del self._queue[controller, key]
            try:
                controller.reconcile(key)
            except ApiError as error:
                log.debug("%s %s: %s", type(controller).__name__, key, error)
                failed = (controller, key)
                self._pauses[failed] = min(2 * self._pauses.get(failed, _RETRY_SECONDS / 2), _RETRY_MOST)
                self.enqueue(controller, key, self._pauses[failed])
            except BaseException:
                self._turning = False
                raise
            else:
                self._pauses.pop((controller, key), None)
        self.clock.call_soon(self._reconcile_next)
