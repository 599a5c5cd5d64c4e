"""Fair sharing: the next workload to admit or preempt, by each queue's share of what it borrows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kueue_rules.quota_tree import QuotaNode
from kueue_rules.snapshot import QueueNode, Snapshot, SnapshotWorkload

if TYPE_CHECKING:
    from kueue_rules.admission_cycle import Decision

LESS_OR_EQUAL_TO_FINAL = "LessThanOrEqualToFinalShare"
"""Fair-sharing strategy: the preemptor's share is at most the share that its victim's queue has afterwards."""
LESS_THAN_INITIAL = "LessThanInitialShare"
"""Fair-sharing strategy: the preemptor's share is below the share that its victim's queue had before."""
DEFAULT_STRATEGIES = (LESS_OR_EQUAL_TO_FINAL, LESS_THAN_INITIAL)


def choose_fairest(entries: Sequence[Decision], snapshot: Snapshot) -> Decision:
    """The head to admit next: at each cohort the branch whose share would be smallest with its head admitted."""
    heads = {each.workload.cluster_queue: each for each in reversed(entries)}
    root = snapshot.queues[entries[0].workload.cluster_queue].root
    ranks: dict[tuple[int, QuotaNode], tuple[object, ...]] = {}
    for name, entry in heads.items():
        queue, usage = snapshot.queues[name], entry.choice.usage()
        with queue.with_usage(usage):
            for node in (queue, *queue.ancestors()):
                if node.parent is not None:
                    share = node.fair_share()
                    borrows = any(usage.get(at) for at in share.borrowed)
                    head = entry.workload
                    ranks[id(entry), node.parent] = borrows, share.order, -head.priority, head.queued

    def winner(node: QuotaNode) -> Decision | None:
        if isinstance(node, QueueNode):
            return heads.get(node.name)
        children = sorted(node.children, key=lambda each: isinstance(each, QueueNode))
        found = [each for each in map(winner, children) if each is not None]
        return min(found, key=lambda each: ranks[id(each), node], default=None)

    return winner(root) or entries[0]


def unfairest_first(
    preemptor: QueueNode,
    left: Mapping[str, Sequence[SnapshotWorkload]],
    order: Callable[[SnapshotWorkload], tuple[object, ...]],
    done: set[QuotaNode],
) -> Iterator[QueueNode]:
    """Yield the queue with the largest share that still has candidates, recomputed each time.

    After each queue the caller takes a candidate of it from `left`, or adds the queue to `done`.
    """
    own = {preemptor, *preemptor.ancestors()}

    def find_unfairest(node: QuotaNode) -> QueueNode | None:
        if isinstance(node, QueueNode):
            if not left.get(node.name):
                done.add(node)
            return None if node in done else node
        shares = {}
        for child in node.children:
            share = child.fair_share()
            if (not share.borrowed and child not in own) or (isinstance(child, QueueNode) and not left.get(child.name)):
                done.add(child)
            if child not in done:
                shares[child] = share.order
        if not shares:
            done.add(node)
            return None
        queues = sorted(
            (each for each in shares if isinstance(each, QueueNode)), key=lambda each: order(left[each.name][0])
        )
        cohorts = (each for each in shares if not isinstance(each, QueueNode))
        return find_unfairest(max((*cohorts, *queues), key=lambda each: shares[each]))  # the first of equal ones

    while preemptor.root not in done:
        found = find_unfairest(preemptor.root)
        if found is not None:
            yield found


def below_common_cohort(queue: QuotaNode, other_node: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The two children of the lowest common cohort: the one above or equal to `queue`, that of `other_node`."""
    mine, theirs = [queue, *queue.ancestors()], [other_node, *other_node.ancestors()]
    while mine[-1] is theirs[-1]:
        mine.pop()
        theirs.pop()
    return mine[-1], theirs[-1]
