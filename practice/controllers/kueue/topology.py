"""The nodes of a flavor as a tree (block > subblock > host > node), and what pods placed by topology use of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from practice.controllers.kueue import words
from practice.controllers.kueue.assignment import domains_of
from practice.controllers.kueue.podsets import asks_for_topology
from practice.controllers.objects import is_true, labels_of
from practice.controllers.quantity import Amounts, add, amounts, pod_requests
from practice.objects.resources import NODES, PODS, RESOURCEFLAVORS, TOPOLOGIES

if TYPE_CHECKING:
    from practice.controllers.kueue.info import WorkloadInfo
    from practice.controllers.objects import Object
    from practice.objects.storage import Storage


@dataclass(eq=False, slots=True)
class Domain:
    """One place of the tree; a leaf is a node or, when the levels end above nodes, all nodes with the same labels."""

    values: tuple[str, ...]
    children: list[Domain] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    free: Amounts = field(default_factory=dict)  # what pods placed by topology may use in all (leaves only)
    used: Amounts = field(default_factory=dict)
    state: int = 0  # pods that fit, then pods that are placed
    slices: int = 0


class Tree:
    """The nodes of one flavor, by the levels of its Topology."""

    def __init__(self, topology: Object, flavor: Object, nodes: list[Object], others: dict[str, Amounts]) -> None:
        self.name: str = topology["metadata"]["name"]
        self.flavor = flavor
        self.levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
        self.of_nodes = self.levels[-1] == words.HOSTNAME
        self.by_level: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        self._leaves: dict[tuple[str, ...], Domain] = {}
        wanted = (flavor.get("spec") or {}).get("nodeLabels") or {}
        for node in nodes:
            marks = labels_of(node)
            if all(marks.get(key) == value for key, value in wanted.items()) and _usable(node):
                self._add(node, others.get(node["metadata"]["name"], {}))

    @property
    def leaves(self) -> list[Domain]:
        """The places of the lowest level, in order."""
        return list(self.by_level[-1].values())

    def level_of(self, key: str) -> int | None:
        """Return the number of a level, 0 the widest; None when there is none of that name."""
        return self.levels.index(key) if key in self.levels else None

    def assigned(self, domain: Domain) -> tuple[str, ...]:
        """Return the values an assignment lists: of all levels, or of the last alone when that is the node."""
        return domain.values[-1:] if self.of_nodes else domain.values

    def find(self, values: tuple[str, ...]) -> Domain | None:
        """Return the leaf an assignment names."""
        return self._leaves.get(values)

    def _add(self, node: Object, other: Amounts) -> None:
        marks = labels_of(node)
        values = tuple(marks.get(level, "") for level in self.levels)
        if not all(values):
            return
        parent: Domain | None = None
        for depth, known in enumerate(self.by_level):
            domain = known.get(values[: depth + 1])
            if domain is None:
                domain = known[values[: depth + 1]] = Domain(values[: depth + 1])
                if parent is not None:
                    parent.children.append(domain)
            parent = domain
        if parent is not None:
            parent.nodes.append(node)
            add(parent.free, amounts(node["status"].get("allocatable")))
            add(parent.free, other, -1)
            self._leaves[self.assigned(parent)] = parent


class TopologySnapshot:
    """The trees of all flavors that have a Topology."""

    def __init__(self, storage: Storage) -> None:
        self.trees: dict[str, Tree] = {}
        nodes, others = storage.list(NODES), _used_by_others(storage)
        for flavor in storage.list(RESOURCEFLAVORS):
            name = (flavor.get("spec") or {}).get("topologyName")
            topology = storage.find(TOPOLOGIES, "", name) if name else None
            if topology is not None:
                self.trees[flavor["metadata"]["name"]] = Tree(topology, flavor, nodes, others)

    def count(self, workload: WorkloadInfo, sign: int) -> None:
        """Count the pods of an admitted Workload in (1) or out (-1)."""
        admission = workload.obj.get("status", {}).get("admission") or {}
        for item, pod_set in zip(admission.get("podSetAssignments") or (), workload.pod_sets, strict=False):
            tree = next((self.trees[name] for name in item["flavors"].values() if name in self.trees), None)
            if tree is not None and item.get("topologyAssignment"):
                for values, pods in domains_of(item["topologyAssignment"]):
                    leaf = tree.find(values)
                    if leaf is not None:
                        add(leaf.used, {**pod_set.single, "pods": 1000}, sign * pods)


def _usable(node: Object) -> bool:
    return is_true(node, "Ready") and not node["spec"].get("unschedulable")


def _used_by_others(storage: Storage) -> dict[str, Amounts]:
    """Return what pods that Kueue does not place by topology use, by node."""
    used: dict[str, Amounts] = {}
    for pod in storage.list(PODS):
        node = pod["spec"].get("nodeName")
        if not node or asks_for_topology(pod) or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        total = used.setdefault(node, {})
        add(total, pod_requests(pod["spec"]))
        add(total, {"pods": 1000})
    return used
