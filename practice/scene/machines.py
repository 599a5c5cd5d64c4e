"""The nodes of the scene: three GKE node pools, with one node due for maintenance and one faulty."""

from __future__ import annotations

import random
from dataclasses import dataclass

from practice.admission.networks import resources_of
from practice.clock import format_timestamp
from practice.objects.api_error import Object

RESERVED_POOL, SPOT_POOL, SYSTEM_POOL = "a4-highgpu-8g-a4-pool", "a4-spot", "system"
FLEX_POOL = "a4-flex"  # a pool whose machines come only when they are asked for: none at the opening
RDMA = tuple(f"rdma-{index}" for index in range(8))
"""Names of the networks of an A4's eight RDMA network cards, one beside each GPU."""
FABRIC = ("gvnic-1", *RDMA)  # all networks of an A4 beside that of its pods
_GKE = "cloud.google.com/"
_ZONE, _REGION = "us-central1-b", "us-central1"
VERSION = "v1.35.1-gke.1396002"
_DAY = 86400.0
_MAINTENANCE_AFTER = 6 * 3600.0
MAINTENANCE, FAULTY, STARTING = 13, 15, 3
"""Numbers of machines: with maintenance planned and faulty (both in the reserved pool); starting (in the spot pool)."""


@dataclass(frozen=True)
class SceneMachine:
    """A machine of the scene: its pool, number in the pool, and topology."""

    pool: str
    number: int
    provisioning: str
    block: str = ""
    subblock: str = ""
    host: str = ""


def all_machines() -> list[SceneMachine]:
    """Return all machines: 16 reserved in two blocks of two subblocks, 4 spot, 3 without GPUs."""
    found = []
    for number in range(16):
        block, subblock = number // 8, number // 4
        found.append(
            SceneMachine(RESERVED_POOL, number, "standard", f"blk-{block}", f"sub-{subblock}", f"host-{number:04d}")
        )
    found += [SceneMachine(SPOT_POOL, at, "spot", "blk-9", f"sub-9{at // 2}", f"host-9{at:03d}") for at in range(4)]
    return found + [SceneMachine(SYSTEM_POOL, at, "standard") for at in range(3)]


def machine_name(machine: SceneMachine) -> str:
    suffix = {RESERVED_POOL: "79c66879", SPOT_POOL: "5f1d02ab", SYSTEM_POOL: "c3e7a914", FLEX_POOL: "e8a03c51"}[
        machine.pool
    ]
    stem = "gke-practice" if machine.pool == RESERVED_POOL else "gke-practice-" + machine.pool
    stem = f"{stem}-{RESERVED_POOL}" if machine.pool == RESERVED_POOL else stem
    return f"{stem}-{suffix}-{machine.number:04d}"


def new_node(pool: str, names: list[str], now: float) -> Object:
    """Return a new node for a pool, with an unused name; it is not ready yet."""
    taken = {int(name.rpartition("-")[2]) for name in names}
    number = next(at for at in range(len(taken) + 1) if at not in taken)
    block = {RESERVED_POOL: f"blk-{number // 8}", SPOT_POOL: "blk-9", FLEX_POOL: "blk-7"}.get(pool, "")
    subblock = {RESERVED_POOL: f"sub-{number // 4}", SPOT_POOL: f"sub-9{number // 2}", FLEX_POOL: f"sub-7{number // 4}"}
    provisioning = {SPOT_POOL: "spot", FLEX_POOL: "flex-start"}.get(pool, "standard")
    machine = SceneMachine(pool, number, provisioning, block, subblock.get(pool, ""), f"host-{block[-1:]}{number:03d}")
    node = build_node(machine, now, 0, faults=False)
    node["metadata"]["creationTimestamp"] = format_timestamp(now)
    node["status"]["conditions"] = _node_conditions(now, now, is_ready=False)
    return node


def build_node(machine: SceneMachine, now: float, seed: int, *, faults: bool) -> Object:
    """Return the node of a machine with its status; ``faults``: whether the scene's faults are applied."""
    choice = random.Random(f"{seed} {machine.pool} {machine.number}")
    place = (machine.pool, machine.number)
    ready = not (faults and place == (SPOT_POOL, STARTING))
    born = now - (41 * _DAY if machine.pool != SPOT_POOL else 1.5 * _DAY) - machine.number * 61
    if not ready:
        born = now - 100
    labels = _node_labels(machine)
    spec: Object = {
        "providerID": f"gce://practice/{_ZONE}/{machine_name(machine)}",
        "podCIDR": f"10.60.{machine.number}.0/24",
    }
    if machine.pool != SYSTEM_POOL:
        labels |= _health_scan_labels(machine, now, choice) if faults else {}
        spec["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    if faults and place == (RESERVED_POOL, MAINTENANCE):
        labels[_GKE + "scheduled-maintenance-time"] = str(int(now + _MAINTENANCE_AFTER))
    if faults and place == (RESERVED_POOL, FAULTY):
        spec["unschedulable"] = True
        labels[_GKE + "fault-behavior"] = "PERFORMANCE"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine_name(machine),
            "creationTimestamp": format_timestamp(born),
            "labels": labels,
            "annotations": {"node.gke.io/last-applied-node-taints": "nvidia.com/gpu=present:NoSchedule"},
        },
        "spec": spec,
        "status": _node_status(machine, born, now, is_ready=ready),
    }


def _node_labels(machine: SceneMachine) -> dict[str, str]:
    name = machine_name(machine)
    kind = "e2-standard-8" if machine.pool == SYSTEM_POOL else "a4-highgpu-8g"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": _ZONE,
        "topology.kubernetes.io/region": _REGION,
        _GKE + "gke-nodepool": machine.pool,
        _GKE + "machine-family": kind.partition("-")[0],
        _GKE + "gke-provisioning": machine.provisioning,
        _GKE + "gke-os-distribution": "cos",
        "iam.gke.io/gke-metadata-server-enabled": "true",
    }
    if machine.pool == SYSTEM_POOL:
        return labels
    labels |= {
        _GKE + "gke-accelerator": "nvidia-b200",
        _GKE + "gke-accelerator-count": "8",
        _GKE + "gke-gpu": "true",
        _GKE + "gke-gpu-driver-version": "latest",
        _GKE + "gke-ephemeral-storage-local-ssd": "true",
        _GKE + "gce-topology-block": machine.block,
        _GKE + "gce-topology-subblock": machine.subblock,
        _GKE + "gce-topology-host": machine.host,
    }
    if machine.pool == RESERVED_POOL:
        labels |= {_GKE + "reservation-name": "practice-a4", _GKE + "reservation-affinity": "specific"}
    elif machine.pool == FLEX_POOL:
        labels |= {_GKE + "gke-flex-start": "true", _GKE + "gke-queued": "true"}
    else:
        labels[_GKE + "gke-spot"] = "true"
    return labels


def _health_scan_labels(machine: SceneMachine, now: float, choice: random.Random) -> dict[str, str]:
    """Return the labels of the machine's last health scan; empty for machines that were not scanned."""
    if machine.pool == SPOT_POOL or machine.number % 3 == 2:
        return {}
    faulty = machine.number == FAULTY
    bandwidth = 187 + choice.random() if faulty else 330 + 12 * choice.random()
    return {
        "aiinfra/nccl-healthcheck-result": "fail" if faulty else "pass",
        "aiinfra/nccl-healthcheck-bandwidth": f"{bandwidth:.0f}",
        "aiinfra/nccl-healthcheck-runtime-sec": str(int(now - 9 * 3600 - machine.number * 40)),
    }


def _node_status(machine: SceneMachine, born_at: float, now: float, *, is_ready: bool) -> Object:
    gpus = machine.pool != SYSTEM_POOL
    pool = {RESERVED_POOL: 1, SPOT_POOL: 2, SYSTEM_POOL: 3, FLEX_POOL: 4}[machine.pool]
    capacity = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "94Gi", "pods": "110"}
    allocatable = {"cpu": "7910m", "memory": "28Gi", "ephemeral-storage": "47Gi", "pods": "110"}
    if gpus:
        capacity = {"cpu": "224", "memory": "3968Gi", "ephemeral-storage": "12000Gi", "pods": "110"}
        capacity["nvidia.com/gpu"] = "8"
        for network in FABRIC:
            capacity |= dict.fromkeys(resources_of(network), "1")
        allocatable = {**capacity, "cpu": "223370m", "memory": "3881Gi", "ephemeral-storage": "11000Gi"}
    return {
        "addresses": [
            {"type": "InternalIP", "address": f"10.128.{pool}.{machine.number + 10}"},
            {"type": "Hostname", "address": machine_name(machine)},
        ],
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": _node_conditions(born_at, now, is_ready=is_ready),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Container-Optimized OS from Google",
            "kernelVersion": "6.6.93+",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "containerd://2.0.5",
            "bootID": "",
            "machineID": "",
            "systemUUID": "",
        },
    }


def make_ready(node: Object, now: float) -> None:
    """Mark a starting node as ready."""
    changed = {each["type"]: each for each in _node_conditions(now, now, is_ready=True)}
    for found in node["status"]["conditions"]:
        new = changed[found["type"]]
        if found["status"] != new["status"]:
            found |= {**new, "lastTransitionTime": format_timestamp(now)}
        found["lastHeartbeatTime"] = format_timestamp(now)


def _node_conditions(born_at: float, now: float, *, is_ready: bool) -> list[Object]:
    """Return the conditions of a ready node, or of one that is starting and has no network yet."""
    route = ("False", "RouteCreated", "NodeController create implicit route")
    found = [
        ("NetworkUnavailable", *(route if is_ready else ("True", "NoRouteCreated", "Node created without a route")))
    ]
    found += [
        (kind, "False", f"KubeletHas{reason}", f"kubelet has {words}")
        for kind, reason, words in (
            ("MemoryPressure", "SufficientMemory", "sufficient memory available"),
            ("DiskPressure", "NoDiskPressure", "no disk pressure"),
            ("PIDPressure", "SufficientPID", "sufficient PID available"),
        )
    ]
    if is_ready:
        found.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    else:
        text = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        text += "message:Network plugin returns error: cni plugin not initialized"
        found.append(("Ready", "False", "KubeletNotReady", text))
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": text,
            "lastHeartbeatTime": format_timestamp(now),
            "lastTransitionTime": format_timestamp(born_at + 45 if is_ready else born_at),
        }
        for kind, status, reason, text in found
    ]
