"""Converts the practice cluster's objects to a snapshot for the library of Kueue's rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import yaml

from kueue_rules import (
    DEFAULT_STRATEGIES,
    CohortQuota,
    Flavor,
    FlavorQuota,
    FlavorResource,
    KueueRelease,
    QueueNode,
    Requirement,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    TopologyTree,
)
from practice.controllers.kueue.info import has_quota, parse_requirements, parse_tolerations, read_workload
from practice.controllers.kueue.podsets import requests_topology
from practice.controllers.matching import format_taint
from practice.controllers.objects import Object, is_true, labels_of
from practice.controllers.quantity import Amounts, add_amounts, parse_amounts, parse_milli, pod_requests
from practice.objects.resources import (
    ADMISSIONCHECKS,
    CLUSTERQUEUES,
    COHORTS,
    CONFIGMAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from practice.objects.storage import Storage

DELAYING = {"kueue.x-k8s.io/provisioning-request", "kueue.x-k8s.io/multikueue"}
"""Controllers of admission checks that create the nodes only after quota is reserved."""

_GATES = ("PartialAdmission", "TASRecomputeAssignmentWithinSchedulingCycle", "TASFailedNodeReplacementFailFast")


def read_snapshot(storage: Storage, *, with_topology: bool) -> Snapshot:
    """A snapshot of all queues and the holders of their quota; with `with_topology` also of the nodes."""
    flavors = [flavor_of(obj) for obj in storage.list(RESOURCEFLAVORS)]
    cohorts = [
        CohortQuota(obj["metadata"]["name"], obj["spec"].get("parentName") or "", _quotas(obj), _fair_weight(obj))
        for obj in storage.list(COHORTS)
    ]
    layers = gate(storage, "TASMultiLayerTopology", default=False)
    holding = (
        read_workload(obj, layers=layers)
        for obj in storage.list(WORKLOADS)
        if has_quota(obj) and not is_true(obj, "Finished")
    )
    trees = _topology_trees(storage, flavors) if with_topology else {}
    late = {
        obj["metadata"]["name"]
        for obj in storage.list(ADMISSIONCHECKS)
        if obj["spec"].get("controllerName") in DELAYING
    }
    queues = (read_queue(obj, late) for obj in storage.list(CLUSTERQUEUES))
    return Snapshot(queues, cohorts, flavors, trees, holding, _fair_sharing(storage), read_release(storage))


def _kueue_configuration(storage: Storage) -> Object:
    """Kueue's present configuration, read from its ConfigMap; changes take effect at once."""
    found = storage.find(CONFIGMAPS, "kueue-system", "kueue-manager-config") or {}
    text = (found.get("data") or {}).get("controller_manager_config.yaml")
    return yaml.safe_load(text) or {} if text else {}


def _fair_sharing(storage: Storage) -> tuple[str, ...]:
    """The preemption strategies of fair sharing; empty if that is off."""
    fair = _kueue_configuration(storage).get("fairSharing")
    if fair is None or not fair.get("enable", True):  # v1beta1 has `enable`
        return ()
    return tuple(fair.get("preemptionStrategies") or DEFAULT_STRATEGIES)


def read_release(storage: Storage) -> KueueRelease:
    """The Kueue version and feature gates according to its manager's image, if there is one."""
    manager = storage.find(DEPLOYMENTS, "kueue-system", "kueue-controller-manager")
    image = manager["spec"]["template"]["spec"]["containers"][0]["image"] if manager else ""
    named = re.search(r":v0\.(\d+)\.", image)
    minor = int(named[1]) if named else KueueRelease().minor
    observed = minor > 18 and gate(storage, "UnadmittedWorkloadsObservability", default=minor > 19)
    return KueueRelease(minor, observed, frozenset(each for each in _GATES if not gate(storage, each, default=True)))


def gate(storage: Storage, name: str, *, default: bool) -> bool:
    """Whether a feature gate of Kueue is on."""
    return bool((_kueue_configuration(storage).get("featureGates") or {}).get(name, default))


def _fair_weight(obj: Object) -> float:
    weight = (obj["spec"].get("fairSharing") or {}).get("weight")
    return 1.0 if weight is None else parse_milli(str(weight)) / 1000


def read_queue(obj: Object, late: Collection[str] = ()) -> QueueNode:
    """A ClusterQueue with its rules; `late`: names of the checks after which nodes are assigned."""
    spec = obj["spec"]
    flavors = {each["name"] for group in spec.get("resourceGroups") or () for each in group["flavors"]}
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    return QueueNode(
        obj["metadata"]["name"],
        weight=_fair_weight(obj),
        quotas=_quotas(obj),
        cohort=spec.get("cohortName") or "",
        groups=tuple(
            ResourceGroup(tuple(group["coveredResources"]), tuple(each["name"] for each in group["flavors"]))
            for group in spec.get("resourceGroups") or ()
        ),
        within_queue=preemption.get("withinClusterQueue", "Never"),
        reclaim=preemption.get("reclaimWithinCohort", "Never"),
        borrow_within=int(borrow.get("maxPriorityThreshold", -1)) if borrow.get("policy", "Never") != "Never" else None,
        next_if_preempting=fungibility.get("whenCanPreempt", "TryNextFlavor") == "TryNextFlavor",
        next_if_borrowing=fungibility.get("whenCanBorrow", "MayStopSearch") == "TryNextFlavor",
        namespaces=_parse_selector(spec.get("namespaceSelector")),
        preempts_before_borrowing=fungibility.get("preference") == "PreemptionOverBorrowing",
        checks={each["name"]: frozenset(each.get("onFlavors") or ()) for each in strategy},
        provisioned=frozenset(
            flavor for each in strategy if each["name"] in late for flavor in each.get("onFlavors") or flavors
        ),
    )


def _parse_selector(selector: Object | None) -> tuple[Requirement, ...] | None:
    if selector is None:
        return None
    labels = (Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items())
    return (*labels, *parse_requirements(selector.get("matchExpressions") or ()))


def _quotas(obj: Object) -> dict[FlavorResource, FlavorQuota]:
    found = {}
    for group in obj["spec"].get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for item in flavor["resources"]:
                limits = [item.get("borrowingLimit"), item.get("lendingLimit")]
                borrowing, lending = (parse_milli(str(limit)) if limit is not None else None for limit in limits)
                found[flavor["name"], item["name"]] = FlavorQuota(
                    parse_milli(str(item["nominalQuota"])), borrowing, lending
                )
    return found


def flavor_of(obj: Object) -> Flavor:
    spec = obj.get("spec") or {}
    return Flavor(
        obj["metadata"]["name"],
        labels=spec.get("nodeLabels") or {},
        taints=tuple(format_taint(taint) for taint in spec.get("nodeTaints") or ()),
        tolerations=parse_tolerations(spec.get("tolerations")),
        topology=spec.get("topologyName") or "",
    )


def _topology_trees(storage: Storage, flavors: Iterable[Flavor]) -> dict[str, TopologyTree]:
    nodes, others = [node_of(obj) for obj in storage.list(NODES) if is_usable(obj)], usage_outside_kueue(storage)
    found = {}
    for flavor in flavors:
        topology = storage.find(TOPOLOGIES, "", flavor.topology) if flavor.topology else None
        if topology is not None:
            levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
            found[flavor.name] = TopologyTree(flavor.topology, levels, flavor, nodes, others)
    return found


def node_of(obj: Object) -> SnapshotNode:
    taints = tuple(format_taint(taint) for taint in obj["spec"].get("taints") or ())
    return SnapshotNode(
        obj["metadata"]["name"], labels_of(obj), taints, parse_amounts(obj["status"].get("allocatable"))
    )


def is_usable(node: Object) -> bool:
    return is_true(node, "Ready") and not node["spec"].get("unschedulable")


def usage_outside_kueue(storage: Storage) -> dict[str, Amounts]:
    """Return the usage per node of pods that Kueue does not place by topology."""
    used: dict[str, Amounts] = {}
    for pod in storage.list(PODS):
        node = pod["spec"].get("nodeName")
        if not node or requests_topology(pod) or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        total = used.setdefault(node, {})
        add_amounts(total, pod_requests(pod["spec"]))
        add_amounts(total, {"pods": 1000})
    return used
