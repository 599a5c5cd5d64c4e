"""With which flavor the next try of a waiting workload begins.

Kueue goes on with the flavor after the last one tried, but forgets it as soon as something is written to the workload,
as its message, or to one that holds quota of the same queue; then it begins with the first flavor again.
"""

from __future__ import annotations

from collections import defaultdict

from console.scheduling.kueue.flavors import FlavorChoice
from console.scheduling.kueue.state import Key, Tried, Workload


class FlavorTurns:
    """The flavors that waiting workloads have tried, by queue, and what each was last told."""

    def __init__(self) -> None:
        self._tried: defaultdict[str, dict[Key, Tried]] = defaultdict(dict)
        self._messages: dict[Key, str] = {}
        self._seen: set[tuple[object, ...]] = set()

    def tried(self, workload: Workload) -> Tried:
        return self._tried[workload.cluster_queue].get(workload.key, ())

    def note(self, workload: Workload, message: str, choice: FlavorChoice | None = None) -> bool:
        """Note how a try went; whether the next one tries what was not tried since something changed.

        `choice`: how far it came, if it is tried again at once should flavors be left. With several pod sets it may go
        round for ever.
        """
        known = self._messages.get(workload.key) == message
        self._messages[workload.key] = message
        tried = self._tried[workload.cluster_queue]
        tried.pop(workload.key, None)
        if choice is None or not choice.flavors_left:
            return False
        if known:
            tried[workload.key] = tuple(each.tried for each in choice.pod_sets)
        turn = workload.key, message, repr(tried.get(workload.key))
        new = turn not in self._seen
        self._seen.add(turn)
        return new

    def admitted(self, workload: Workload) -> None:
        self._messages.pop(workload.key, None)
        self.written(workload.cluster_queue)

    def written(self, queue: str) -> None:
        """Something was written to a workload that holds quota of the queue, or it holds it no longer."""
        self._tried[queue].clear()
        self.changed()

    def changed(self) -> None:
        """What was tried in vain may succeed now."""
        self._seen.clear()
