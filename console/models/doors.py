"""What can be said of a launch before its size is looked at: whether its queue is there, open, and known at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.link import LinkState
from console.models.outlook import Ask, Forecast, Verdict
from console.models.suits import admits, selector_words

if TYPE_CHECKING:
    from console.models.fleet import Fleet


def unseen(fleet: Fleet, kind: str, noun: str) -> str:
    """Why nothing is known of a kind; empty while it is known."""
    link = fleet.links.get(kind)
    if link is None or link.state is LinkState.LISTING:
        return f"the {noun} are still being listed"
    if link.state is LinkState.FORBIDDEN:
        return f"this account may not see {noun}"
    return f"this cluster has no {noun}" if link.state is LinkState.ABSENT else ""


def shut(fleet: Fleet, ask: Ask) -> Forecast | None:
    """What is wrong with the queue itself."""
    if why := unseen(fleet, "localqueues", "LocalQueues"):
        return answer(ask, Verdict.UNKNOWN, why)
    door = fleet.local_queues.get((ask.namespace, ask.queue))
    if door is None:
        names = sorted(name for namespace, name in fleet.local_queues if namespace == ask.namespace)
        there = f"there are {', '.join(names[:6])}" if names else "the namespace has none"
        return answer(ask, Verdict.NEVER, f"{ask.namespace} has no queue {ask.queue}; {there}")
    if why := unseen(fleet, "clusterqueues", "ClusterQueues"):
        if door.stop_policy != "None" or door.inactive_reason:
            return _stopped(ask, door.name, door.stop_policy, door.inactive_reason)
        return answer(ask, Verdict.UNKNOWN, why)
    queue = fleet.cluster_queues.get(("", door.cluster_queue))
    if queue is None:
        words = f"queue {door.name} leads to ClusterQueue {door.cluster_queue}, which does not exist"
        return answer(ask, Verdict.STOPPED, words)
    if admits(queue.namespaces, ask.namespace) is False:
        words = f"{queue.name} takes no workloads of namespace {ask.namespace}; {selector_words(queue.namespaces)}"
        return answer(ask, Verdict.NEVER, words)
    for each in (door, queue):
        if each.stop_policy not in {"", "None"} or each.inactive_reason:
            return _stopped(ask, each.name, each.stop_policy, each.inactive_reason)
    return None


def _stopped(ask: Ask, name: str, policy: str, reason: str) -> Forecast:
    if policy not in {"", "None"}:
        words = f"queue {name} is stopped (stop policy {policy}) and admits nothing"
    else:
        words = f"queue {name} is not active: {reason}"
    return answer(ask, Verdict.STOPPED, words)


def answer(ask: Ask, verdict: Verdict, sentence: str) -> Forecast:
    """A forecast without numbers but what is needed."""
    return Forecast(verdict, sentence, need=ask.gpus)
