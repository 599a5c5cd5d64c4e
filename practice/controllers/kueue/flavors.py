"""Which flavor a Workload would get, whether it fits there, and the sentence that says what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.controllers.kueue.choice import Attempt, Choice, Mode, PodSetChoice, quantity_words
from practice.controllers.kueue.placement import place
from practice.controllers.kueue.podsets import is_explicit
from practice.controllers.matching import selects, taint_words, untolerated

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.controllers.kueue.info import FlavorResource, PodSetInfo, Quantities, WorkloadInfo
    from practice.controllers.kueue.snapshot import QueueNode, Snapshot
    from practice.controllers.objects import Object


class FlavorAssigner:
    """Tries the flavors of a ClusterQueue for one Workload, in order, by its fungibility rules."""

    def __init__(
        self,
        workload: WorkloadInfo,
        queue: QueueNode,
        snapshot: Snapshot,
        simulate: Callable[[FlavorResource, int], tuple[Mode, int]],
    ) -> None:
        self._workload = workload
        self._queue = queue
        self._snapshot = snapshot
        self._simulate = simulate
        self._assumed: Quantities = {}
        self._borrowing = 0

    def assign(self) -> Choice:
        """Return flavors and places for every pod set, as far as they can be had."""
        choice = Choice()
        for pod_set in self._workload.pod_sets:
            one = self._assign_pod_set(pod_set)
            choice.pod_sets.append(one)
            if one.mode is Mode.NO_FIT or one.error:
                one.mode = Mode.NO_FIT
                return choice
            for resource, flavor in one.flavors.items():
                at = (flavor, resource)
                self._assumed[at] = self._assumed.get(at, 0) + pod_set.requests[resource]
        choice.borrowing = self._borrowing
        self.place(choice)
        return choice

    def place(self, choice: Choice) -> None:
        """Find places by topology for what fits; without, it is a case for preemption or none at all."""
        for one in choice.pod_sets:
            if not one.tree or self._snapshot.topology is None:
                continue
            tree = self._snapshot.topology.trees[one.tree]
            if one.mode is Mode.FIT:
                one.places, why = place(tree, one.pod_set)
                if not why:
                    continue
                one.reasons.append(why)
                one.mode = Mode.PREEMPT
            if place(tree, one.pod_set, empty=True)[1]:
                one.mode = Mode.NO_FIT

    def _assign_pod_set(self, pod_set: PodSetInfo) -> PodSetChoice:
        one = PodSetChoice(pod_set, mode=Mode.FIT)
        for resource, value in sorted(pod_set.requests.items()):
            if resource in one.flavors:
                continue
            group = next((item for item in self._queue.groups if resource in item["coveredResources"]), None)
            if group is None:
                if value:
                    one.reasons = [f"resource {resource} unavailable in ClusterQueue"]
                    one.flavors, one.mode = {}, Mode.NO_FIT
                    return one
                continue
            self._search(one, group)
            if one.mode is Mode.NO_FIT:
                return one
        trees = self._snapshot.topology.trees if self._snapshot.topology is not None else {}
        placed = {flavor for flavor in one.flavors.values() if flavor in trees}
        if self._wants_topology(pod_set) and not placed:
            one.error = (
                "no TAS flavor assigned"
                if trees
                else ("workload requires Topology, but there is no TAS cache information")
            )
        one.tree = next(iter(placed), "") if self._wants_topology(pod_set) else ""
        return one

    def _search(self, one: PodSetChoice, group: Object) -> None:
        """Try the flavors of one resource group for the resources it covers."""
        wanted = {name: value for name, value in one.pod_set.requests.items() if name in group["coveredResources"]}
        best: tuple[Mode, int] = (Mode.NO_FIT, 0)
        reasons: list[str] = []
        chosen = ""
        for flavor in group["flavors"]:
            mode, borrow, why = self._try(flavor["name"], wanted, one.pod_set, group)
            one.attempts.append(Attempt(flavor["name"], mode, borrow, sorted(why)))
            reasons += why
            if mode > Mode.NO_FIT and (not chosen or (mode, -borrow) > (best[0], -best[1])):
                best, chosen = (mode, borrow), flavor["name"]
            if not self._try_next(mode, borrow):
                best, chosen = (mode, borrow), flavor["name"]
                break
        if best[0] is not Mode.FIT:
            one.reasons += reasons
        one.mode = min(one.mode, best[0])
        if chosen:
            one.flavors |= dict.fromkeys(wanted, chosen)
            self._borrowing = max(self._borrowing, best[1])

    def _try(
        self, flavor: str, wanted: dict[str, int], pod_set: PodSetInfo, group: Object
    ) -> tuple[Mode, int, list[str]]:
        why = self._unsuitable(flavor, pod_set, group)
        if why:
            return Mode.NO_FIT, 0, [why]
        mode, borrow, reasons = Mode.FIT, 0, []
        for resource, value in sorted(wanted.items()):
            one, height, text = self._fits((flavor, resource), value)
            mode, borrow = min(mode, one), max(borrow, height)
            reasons += [text] if text else []
            if mode is Mode.NO_FIT:
                break
        return mode, borrow, reasons

    def _fits(self, at: FlavorResource, value: int) -> tuple[Mode, int, str]:
        """Compare one amount with the quota."""
        flavor, resource = at
        assumed = self._assumed.get(at, 0)
        total, most = assumed + value, self._queue.most(at)
        if total > most:
            text = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({quantity_words(resource, assumed)}) + current podset request ({quantity_words(resource, value)}) "
                f"> maximum capacity ({quantity_words(resource, most)})"
            )
            return Mode.NO_FIT, 0, text
        borrow, hierarchy = borrowing_height(self._queue, at, total)
        free = self._queue.available(at)
        if total <= free:
            return Mode.FIT, borrow, ""
        needed = quantity_words(resource, total - free)
        text = f"insufficient unused quota for {resource} in flavor {flavor}, {needed} more needed"
        quota = self._queue.quotas.get(at)
        borrow_policy = (self._queue.obj["spec"].get("preemption") or {}).get("borrowWithinCohort") or {}
        may_borrow = borrow_policy.get("policy", "Never") != "Never"
        if (quota is not None and quota.nominal >= total) or hierarchy or may_borrow:
            mode, height = self._simulate(at, total)
            return mode, height, text
        return Mode.NO_FIT, borrow, text

    def _unsuitable(self, name: str, pod_set: PodSetInfo, group: Object) -> str:
        flavor = self._snapshot.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        spec = flavor.get("spec") or {}
        why = self._topology_mismatch(name, spec, pod_set, group)
        if why:
            return why
        pod = pod_set.pod_set["template"]["spec"]
        taint = untolerated(spec.get("nodeTaints"), [*(pod.get("tolerations") or ()), *(spec.get("tolerations") or ())])
        if taint is not None:
            return f"untolerated taint {taint_words(taint)} in flavor {name}"
        marks = spec.get("nodeLabels") or {}
        selector = {key: value for key, value in (pod.get("nodeSelector") or {}).items() if key in marks}
        if not selects({"nodeSelector": selector}, {"metadata": {"labels": marks, "name": name}}):
            return f"flavor {name} doesn't match node affinity"
        return ""

    def _topology_mismatch(self, name: str, spec: Object, pod_set: PodSetInfo, group: Object) -> str:
        if not self._wants_topology(pod_set):
            return f'Flavor "{name}" supports only TopologyAwareScheduling' if spec.get("topologyName") else ""
        if not is_explicit(pod_set.pod_set):
            return ""
        if not spec.get("topologyName"):
            overlaps = any(resource in group["coveredResources"] for resource in pod_set.requests)
            return f'Flavor "{name}" does not support TopologyAwareScheduling' if overlaps else ""
        tree = self._snapshot.topology.trees.get(name) if self._snapshot.topology is not None else None
        if tree is None:
            return f'Flavor "{name}" information missing in TAS cache'
        request = pod_set.pod_set["topologyRequest"]
        wanted = [request.get(field) for field in ("required", "preferred", "podSetSliceRequiredTopology")]
        if any(key is not None and tree.level_of(key) is None for key in wanted):
            return f'Flavor "{name}" does not contain the requested level'
        return ""

    def _wants_topology(self, pod_set: PodSetInfo) -> bool:
        return is_explicit(pod_set.pod_set) or self._topology_only()

    def _topology_only(self) -> bool:
        names = [flavor["name"] for group in self._queue.groups for flavor in group["flavors"]]
        specs = [self._snapshot.flavors.get(name, {}).get("spec") or {} for name in names]
        return bool(specs) and all(spec.get("topologyName") for spec in specs)

    def _try_next(self, mode: Mode, borrow: int) -> bool:
        rules = self._queue.obj["spec"].get("flavorFungibility") or {}
        if mode <= Mode.NO_CANDIDATES:
            return True
        if mode in (Mode.PREEMPT, Mode.RECLAIM) and rules.get("whenCanPreempt", "TryNextFlavor") == "TryNextFlavor":
            return True
        return borrow > 0 and rules.get("whenCanBorrow", "MayStopSearch") == "TryNextFlavor"


def borrowing_height(queue: QueueNode, at: FlavorResource, value: int) -> tuple[int, bool]:
    """Return how high in the cohort tree ``value`` has to borrow (0 not at all), and whether quota may be reclaimed."""
    if queue.parent is None or not queue.borrows_with(at, value):
        return 0, queue.parent is not None
    left = value - queue.local_free(at)
    top = queue.parent
    for node in queue.above():
        top = node
        if not node.borrows_with(at, left):
            return node.height(), node.parent is not None
        left -= node.local_free(at)
    return top.height(), False
