"""Plays a case of Kueue's own tables with our rules of Kueue, and says where the answer differs.

Objects are read as the practice cluster reads them.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from kueue_rules import (
    DEFAULT_STRATEGIES,
    CycleVerdict,
    Decision,
    Flavor,
    FlavorAssigner,
    FlavorChoice,
    FlavorResource,
    Mode,
    PodSetChoice,
    PreemptionSearch,
    Snapshot,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyTree,
    WantedPlaces,
    admission_cycle,
    assign_together,
)
from practice.controllers.kueue.assignment import decode_domains
from practice.controllers.kueue.info import has_quota, read_pod_set, read_workload, why_not_tried
from practice.controllers.kueue.snapshot import (
    gate,
    is_usable,
    node_of,
    read_release,
    read_snapshot,
    usage_outside_kueue,
)
from practice.controllers.objects import Object, find_condition, is_true, labels_of
from practice.objects.resources import (
    ADMISSIONCHECKS,
    CLUSTERQUEUES,
    COHORTS,
    CONFIGMAPS,
    DEPLOYMENTS,
    LIMITRANGES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEFLAVORS,
    TOPOLOGIES,
)
from practice.objects.storage import Storage

Case = dict[str, Any]
_NAMESPACES = {
    "default": {}, "test-ns": {}, "lend": {"dep": "lend"}, "sales": {"dep": "sales"},
    "eng-alpha": {"dep": "eng"}, "eng-beta": {"dep": "eng"}, "eng-gamma": {"dep": "eng"},
}  # fmt: skip
_KINDS = {
    "resourceFlavors": RESOURCEFLAVORS, "cohorts": COHORTS, "clusterQueues": CLUSTERQUEUES, "topologies": TOPOLOGIES,
    "nodes": NODES, "pods": PODS, "admissionChecks": ADMISSIONCHECKS,
}  # fmt: skip
NEWLY_ON = ("TASMultiLayerTopology", "SkipReassignmentForPodOwnedWorkloads")  # in 0.19, of those that cases set
_LONG_AGO = "2000-01-01T00:00:00Z"
MODES = {Mode.NO_FIT: 0, Mode.NO_CANDIDATES: 1, Mode.PREEMPT: 1, Mode.RECLAIM: 1, Mode.FIT: 2}  # 3 from 0.19 on


def difference(case: Case) -> str:
    """Where our answer differs from the one that the case wants; empty if it does not."""
    return _RUNNERS.get(case["suite"], _schedule)(case)


def _storage(case: Case, parts: Mapping[str, Any], fair: bool = False) -> Storage:
    storage = Storage()
    for name, labels in _NAMESPACES.items():
        storage.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    for kind, resource in _KINDS.items():
        for number, obj in enumerate(parts.get(kind) or ()):
            whole = {"spec": {}, "status": {}} | obj
            if kind == "clusterQueues":
                whole["spec"].setdefault("queueingStrategy", "BestEffortFIFO")
                _fill_in(whole["spec"])
            storage.create(resource, _named(whole, number), keep_status=True)
    for number, obj in enumerate(parts.get("objects") or ()):
        if "limits" in (obj.get("spec") or {}):
            storage.create(LIMITRANGES, _named(obj, number))
        elif not obj.get("spec") and not obj["metadata"].get("namespace"):
            storage.create(NAMESPACES, _named(obj, number))
    gates = "".join(f"  {name}: {str(value).lower()}\n" for name, value in _gates(case).items())
    text = f"featureGates:\n{gates}" * bool(gates) + "fairSharing: {}\n" * fair
    settings = {"metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
                "data": {"controller_manager_config.yaml": text}}  # fmt: skip
    storage.create(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    storage.create(CONFIGMAPS, settings)
    image = f"kueue:v{case['version']}"
    manager = {"metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
               "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}}}  # fmt: skip
    storage.create(DEPLOYMENTS, manager)
    return storage


def _fill_in(spec: Object) -> None:
    """What no API server has filled in or refused: an empty word in the place of Never, groups that cover nothing."""
    if "preemption" in spec:
        spec["preemption"] = {"reclaimWithinCohort": ""} | spec["preemption"]
    for group in spec.get("resourceGroups") or ():
        group.setdefault("coveredResources", [])
        for flavor in group["flavors"]:
            flavor.setdefault("resources", [])


def _gates(case: Case) -> Mapping[str, bool]:
    """What it sets, and what is on by default in that version and not in the one that the practice cluster plays."""
    later = dict.fromkeys(NEWLY_ON, True) if case["version"].startswith("0.19.") else {}
    return later | (case["case"].get("featureGates") or {})


def _named(obj: Object, number: int) -> Object:
    marks = {"uid": f"u{number:05d}", "creationTimestamp": _LONG_AGO, "namespace": ""}
    known = {key: value for key, value in obj.get("metadata", {}).items() if value is not None}
    return {**obj, "metadata": marks | known}


def _schedule(case: Case) -> str:
    """One cycle: who holds quota afterwards, in which flavors and on which nodes, and who is evicted."""
    test, shared = case["case"], case.get("cfg") or {}
    parts = {kind: [*(shared.get(kind) or ()), *(test.get(kind) or ())] for kind in (*_KINDS, "objects")}
    parts["clusterQueues"] += test.get("additionalClusterQueues") or ()
    queues = [*(case.get("queues") or shared.get("queues") or ()), *(test.get("additionalLocalQueues") or ())]
    storage = _storage(case, parts, bool(test.get("enableFairSharing")))
    workloads = [_named({"status": {}} | each, number) for number, each in enumerate(test.get("workloads") or ())]
    snapshot = read_snapshot(storage, with_topology=bool(parts["topologies"]))
    heads = _heads(storage, snapshot, workloads, queues)
    settled = {
        each["metadata"]["name"] for each in workloads
        if is_true(each, "Admitted") and not each["status"].get("unhealthyNodes")
    }  # fmt: skip
    decisions = admission_cycle(heads, snapshot)
    got = {
        "/".join(held.key): _held(held)
        for queue in snapshot.queues.values()
        for held in queue.workloads.values()
        if not ("wantNewAssignments" in test and held.key[1] in settled)
    }
    asked = test["wantNewAssignments"] if "wantNewAssignments" in test else test.get("wantAssignments")
    want = {key: _wanted(admission) for key, admission in (asked or {}).items()}
    fault = [
        f"{key}: {want.get(key)} wanted, {got.get(key)} here"
        for key in sorted({*got, *want})
        if got.get(key) != want.get(key)
    ]
    gone, evicted = _evicted(test, workloads), _evicted_here(decisions)
    if gone is not None and gone != evicted:
        fault.append(f"evicted {sorted(gone)} wanted, {sorted(evicted)} here")
    return "; ".join(fault)


def _heads(
    storage: Storage, snapshot: Snapshot, workloads: Iterable[Object], queues: Iterable[Object]
) -> list[SnapshotWorkload]:
    doors = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["spec"]["clusterQueue"]
             for each in queues}  # fmt: skip
    closed = {name for name, queue in snapshot.queues.items() if any(
        flavor not in snapshot.flavors for group in queue.groups for flavor in group.flavors)}  # fmt: skip
    closed |= {each["metadata"]["name"] for each in storage.list(CLUSTERQUEUES)
               if (each["spec"].get("stopPolicy") or "None") != "None"}  # fmt: skip
    layers = gate(storage, "TASMultiLayerTopology", default=False)
    first: dict[str, SnapshotWorkload] = {}
    again = []
    for obj in workloads:
        if is_true(obj, "Finished") or obj["spec"].get("active") is False:
            continue
        if has_quota(obj):
            held = read_workload(obj, layers=layers)
            snapshot.add_workload(held)
            if held.second_pass and not is_true(obj, "Evicted"):
                again.append(held)
            continue
        queue = doors.get((obj["metadata"].get("namespace", ""), obj["spec"].get("queueName") or ""))
        if queue in snapshot.queues and queue not in closed and queue is not None:
            namespace = obj["metadata"].get("namespace", "")
            one = replace(
                read_workload(obj, queue, layers=layers),
                namespace_labels=labels_of(storage.get(NAMESPACES, "", namespace)) if namespace else {},
                refused=why_not_tried(obj, storage.list(LIMITRANGES, namespace)),
            )
            if queue not in first or one.order() < first[queue].order():
                first[queue] = one
    return [*again, *first.values()]


def _held(workload: SnapshotWorkload) -> object:
    return workload.cluster_queue, sorted(
        (each.name, each.count, sorted(each.flavors.items()), sorted(each.places)) for each in workload.pod_sets
    )


def _wanted(admission: Object) -> object:
    return admission["clusterQueue"], sorted(
        (each["name"], each.get("count"), sorted((each.get("flavors") or {}).items()),
         sorted(decode_domains(each.get("topologyAssignment") or {})))
        for each in admission["podSetAssignments"]
    )  # fmt: skip


def _evicted(test: Case, before: Iterable[Object]) -> set[str] | None:
    if test.get("wantWorkloads") is not None:
        gone = {each["metadata"]["name"] for each in before if is_true(each, "Evicted") or is_true(each, "Preempted")}
        after = {each["metadata"]["name"] for each in test["wantWorkloads"]
                 if is_true(each, "Evicted") or is_true(each, "Preempted")}  # fmt: skip
        return after - gone
    if test.get("wantEvents") is not None:
        return {each["key"]["Name"] for each in test["wantEvents"]
                if each["reason"] in {"Preempted", "EvictedDueToNodeFailures"}}  # fmt: skip
    return None


def _evicted_here(decisions: Iterable[Decision]) -> set[str]:
    victims = {target.workload.key[1] for each in decisions if each.verdict is CycleVerdict.PREEMPT
               for target in each.targets if not target.workload.evicted}  # fmt: skip
    return victims | {each.workload.key[1] for each in decisions if each.verdict is CycleVerdict.EVICT}


def _milli(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    """Amounts of Kueue's own, thousandths of a processor and whole units of others; from 0.19 on a list."""
    if isinstance(amounts, list):
        amounts = {each["name"]: each for each in amounts}
    found = {
        name: int(value["value"]) if isinstance(value, dict) else int(value) for name, value in (amounts or {}).items()
    }
    return {name: value if name.rpartition("|")[2] == "cpu" else value * 1000 for name, value in found.items()}


def _places(case: Case) -> str:
    """The domains of each pod set."""
    test = case["case"]
    storage = _storage(case, test)
    nodes = [node_of(obj) for obj in storage.list(NODES) if is_usable(obj)]
    flavor, others = Flavor("flavor", labels=test.get("nodeLabels") or {}), usage_outside_kueue(storage)
    tree = TopologyTree("default", test["levels"], flavor, nodes, others)
    shared = test.get("priorFlavorUsage") if tree.of_nodes else None
    for usage in (*(test.get("priorOwnUsage") or ()), *(shared or ())):
        tree.add_usage(tuple(usage["values"]), _milli(usage["singlePodRequests"]), usage["count"])
    tree.weighs_leaders = read_release(storage).minor > 18
    for values, amounts in dict(test.get("aggregatedDomainUsages") or {}).items() if tree.of_nodes else ():
        tree.add_usage(tuple(values.split(",")), _milli(amounts) | {"pods": 0}, 1)
    failed = [each["name"] for each in ((test.get("workload") or {}).get("status") or {}).get("unhealthyNodes") or ()]
    pod_sets = [_placed_pod_set(each, test, storage) for each in test["podSets"]]
    found, why = assign_together([WantedPlaces(tree, each) for each in pod_sets], failed=failed)
    fault = []
    for number, (asked, pod_set) in enumerate(zip(test["podSets"], pod_sets, strict=True)):
        want = sorted(
            (tuple(each["values"]), each["count"]) for each in (asked["wantAssignment"] or {}).get("domains") or ()
        )
        got = sorted(found[number]) if number < len(found) else []
        if got != want:
            fault.append(f"{pod_set.name}: {want} wanted, {got} here")
        elif asked["wantReason"] and asked["wantReason"] != why:
            fault.append(f"{pod_set.name}: {asked['wantReason']!r} wanted, {why!r} here")
    return "; ".join(fault)


def _placed_pod_set(asked: Case, test: Case, storage: Storage) -> SnapshotPodSet:
    spec = {"nodeSelector": asked.get("nodeSelector"), "tolerations": asked.get("tolerations")}
    if asked.get("nodeAffinity"):
        spec["affinity"] = {"nodeAffinity": asked["nodeAffinity"]}
    request = (asked.get("topologyRequest") or {}) | {"podSetGroupName": asked.get("podSetGroupName") or ""}
    obj = {"name": asked.get("podSetName") or "main", "count": asked["count"], "template": {"spec": spec},
           "topologyRequest": request}  # fmt: skip
    status = (test.get("workload") or {}).get("status") or {}
    assigned = {each["name"]: each for each in (status.get("admission") or {}).get("podSetAssignments") or ()}
    one = read_pod_set(obj, layers=gate(storage, "TASMultiLayerTopology", default=False))
    held = assigned.get(one.name) or {}
    return replace(
        one, single=_milli(asked["requests"]), places=tuple(decode_domains(held.get("topologyAssignment") or {}))
    )


def _quantities(amounts: Mapping[str, Any] | None) -> dict[FlavorResource, int]:
    found = {}
    for key, value in _milli({_resource(key): value for key, value in (amounts or {}).items()}).items():
        flavor, _, resource = key.partition("|")
        found[flavor, resource] = value
    return found


def _resource(key: str) -> str:
    """ "flavor|resource", however the key of a map was written."""
    whole = json.loads(key) if key.startswith("{") else None
    return f"{whole['Flavor']}|{whole['Resource']}" if whole else key


def _flavors(case: Case) -> str:
    """The flavors of each pod set, how well they fit, and why others do not."""
    test = case["case"]
    queues = [each for each in (test["clusterQueue"], test["secondaryClusterQueue"]) if each]
    parts = {
        "clusterQueues": queues,
        "resourceFlavors": case["resourceFlavors"].values(),
        "topologies": test["topologies"],
    }
    snapshot = read_snapshot(_storage(case, parts), with_topology=bool(test["topologies"]))
    snapshot.fair_sharing = DEFAULT_STRATEGIES if test["enableFairSharing"] else ()
    names = [each["metadata"]["name"] for each in queues]
    for name, used in zip(names, (test["clusterQueueUsage"], test["secondaryClusterQueueUsage"]), strict=False):
        for at, value in _quantities(used).items():
            snapshot.queues[name].add_usage(at, value)
    obj = {"metadata": {"name": "one", "namespace": "", "uid": "", "creationTimestamp": _LONG_AGO},
           "spec": {"podSets": test["wlPods"]}, "status": {"reclaimablePods": test["wlReclaimablePods"]}}  # fmt: skip
    known = {_resource(key): value for key, value in (test["simulationResult"] or {}).items()}

    def simulate(pair: FlavorResource, _value: int) -> tuple[Mode, int]:
        found = known.get("|".join(pair), {"preemptionPossiblity": 1, "borrowingAfterSimulation": 0})
        modes = (Mode.NO_CANDIDATES, Mode.PREEMPT, Mode.RECLAIM)
        return modes[found["preemptionPossiblity"]], found["borrowingAfterSimulation"]

    choice = FlavorAssigner(read_workload(obj, names[0]), snapshot.queues[names[0]], snapshot, simulate).assign()
    want = test["wantAssignment"]
    pairs = [
        ("mode", min(test["wantRepMode"], 2), MODES[choice.mode]),
        ("borrowing", want["borrowing"], choice.borrowing if choice.mode is not Mode.NO_FIT else want["borrowing"]),
        (
            "pod sets",
            [_wanted_flavors(each) for each in want["podSets"] or ()],
            [_found_flavors(each) for each in choice.pod_sets],
        ),
        ("usage", _quantities(want["usage"]["quota"]), choice.requested()),
    ]
    return "; ".join(f"{name}: {wanted} wanted, {got} here" for name, wanted, got in pairs if wanted != got)


def _wanted_flavors(asked: Case) -> object:
    flavors = {
        name: (each["name"], min(each["mode"], 2), each["triedFlavorIdx"])
        for name, each in (asked["flavors"] or {}).items()
    }
    status = asked["status"]
    error = (status["err"] or "").partition(":")[0]  # from 0.19 on the flavors are named behind it
    return asked["name"], asked["count"], flavors, error or sorted(status["reasons"] or ())


def _found_flavors(one: PodSetChoice) -> object:
    lost = one.mode is Mode.NO_FIT and not one.error
    flavors = {
        name: (flavor, 0 if lost else 2 - (name in one.short), one.tried.get(name, 0))
        for name, flavor in one.flavors.items()
    }
    return one.pod_set.name, one.pod_set.count, flavors, one.error.partition(":")[0] or sorted(one.reasons)


def _victims(case: Case) -> str:
    """Who has to go for a workload whose flavors are given, and why."""
    test, fair = case["case"], "strategies" in case["case"]
    parts = {kind: test[kind] for kind in ("clusterQueues", "cohorts")}
    parts["resourceFlavors"] = test.get("flavors") or case["flavors"]
    snapshot = read_snapshot(_storage(case, parts), with_topology=False)
    snapshot.fair_sharing = tuple(test["strategies"] or DEFAULT_STRATEGIES) if fair else ()
    for number, obj in enumerate(test["admitted"] or ()):
        uid = {"uid": obj["metadata"]["name"]} if fair else {}
        snapshot.add_workload(read_workload(_named({**obj, "metadata": obj["metadata"] | uid}, number)))
    asked = replace(read_workload(_named(test["incoming"], 0)), cluster_queue=test["targetCQ"])
    given: Case
    if fair:
        given = {"main": {"cpu": {"name": test["assignmentFlavor"] or "default", "mode": 1}}}
    else:
        given = {each["name"]: each["flavors"] for each in test["assignment"]["podSets"]}
    chosen = [
        PodSetChoice(
            each,
            {name: flavor["name"] for name, flavor in given[each.name].items()},
            mode=Mode.PREEMPT,
            short={name for name, flavor in given[each.name].items() if flavor["mode"] == 1},
        )
        for each in asked.pod_sets
    ]
    targets = PreemptionSearch(snapshot, asked).targets(FlavorChoice(chosen))
    got = {f"{each.workload.key[1]}:{each.reason}" for each in targets if not each.workload.evicted}
    if fair:
        want = {each.removeprefix("/") for each in test["wantPreempted"] or ()}
    else:
        before = {each["metadata"]["name"] for each in test["admitted"] if is_true(each, "Evicted")}
        marks = {each["metadata"]["name"]: find_condition(each, "Preempted") for each in test["wantWorkloads"]}
        want = {f"{name}:{mark['reason']}" for name, mark in marks.items() if mark and name not in before}
        if len(targets) != test["wantPreempted"]:
            return f"{test['wantPreempted']} to go wanted, {len(targets)} here"
    return "" if got == want else f"{sorted(want)} wanted, {sorted(got)} here"


def _shares(case: Case) -> str:
    """The dominant resource share of each queue and cohort."""
    test = case["case"]
    queues = [each for each in (test["clusterQueue"], test["lendingClusterQueue"]) if each]
    snapshot = read_snapshot(_storage(case, {"clusterQueues": queues, "cohorts": test["cohorts"]}), with_topology=False)
    for at, value in _quantities(test["usage"]).items():
        snapshot.queues["cq"].add_usage(at, value)
    more, got = _quantities(test["flvResQ"]), {}
    for node in snapshot.nodes:
        with node.with_usage(more):
            share = node.fair_share()
        got[node.name] = share.rounded, bool(share.borrowed)
    want = {each["name"]: (each["drValue"], each["borrowing"]) for each in test["want"]}
    return "" if got == want else f"{want} wanted, {got} here"


_RUNNERS: dict[str, Callable[[Case], str]] = {
    "TestFindTopologyAssignments": _places, "TestAssignFlavors": _flavors, "TestPreemption": _victims,
    "TestHierarchicalPreemptions": _victims, "TestFairPreemptions": _victims, "TestDominantResourceShare": _shares,
}  # fmt: skip
