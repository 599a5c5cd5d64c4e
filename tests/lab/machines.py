"""Fake A4 machines: node objects as GKE writes them (labels, taints, addresses, capacity), for KWOK to keep alive."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
ZONE, REGION = "us-central1-b", "us-central1"
KUBELET = "v1.35.1-gke.1000000"
GKE = "cloud.google.com"
NETWORKS = ("gvnic-1", *(f"rdma-{index}" for index in range(8)))


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool; hosts stand in subblocks of `per_subblock`, and those in blocks of `per_block`."""

    name: str
    count: int
    machine: str = "a4-highgpu-8g"
    provisioning: str = "standard"
    reservation: str = ""
    per_subblock: int = 4
    per_block: int = 8
    first_block: int = 0

    @property
    def accelerated(self) -> bool:
        return self.machine.startswith("a4-")

    def nodes(self) -> Iterator[Object]:
        return (self._node(index) for index in range(self.count))

    def _node(self, index: int) -> Object:
        name = f"gke-lab-{self.name}-{index:04d}"
        spec: Object = {"providerID": f"gce://lab/{ZONE}/{name}"}
        taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if self.accelerated else []
        if self.provisioning == "spot":
            taints.append({"key": f"{GKE}/gke-spot", "value": "true", "effect": "NoSchedule"})
        if taints:
            spec["taints"] = taints
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": self._labels(name, index),
            },
            "spec": spec,
            "status": {"addresses": self._addresses(name, index), **self._resources(), "nodeInfo": NODE_INFO},
        }

    def _labels(self, name: str, index: int) -> dict[str, str]:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": self.machine,
            "topology.kubernetes.io/zone": ZONE,
            "topology.kubernetes.io/region": REGION,
            f"{GKE}/gke-nodepool": self.name,
            f"{GKE}/machine-family": self.machine.partition("-")[0],
            f"{GKE}/gke-provisioning": self.provisioning,
        }
        if self.provisioning == "spot":
            labels[f"{GKE}/gke-spot"] = "true"
        if self.reservation:
            labels[f"{GKE}/reservation-name"] = self.reservation
        if self.accelerated:
            block, subblock = index // self.per_block, index // self.per_subblock
            labels |= {
                f"{GKE}/gke-accelerator": "nvidia-b200",
                f"{GKE}/gke-accelerator-count": "8",
                f"{GKE}/gke-gpu": "true",
                f"{GKE}/gce-topology-block": f"block-{self.first_block + block}",
                f"{GKE}/gce-topology-subblock": f"block-{self.first_block + block}-sub-{subblock}",
                f"{GKE}/gce-topology-host": f"host-{self.first_block + block}-{index:04d}",
            }
        return labels

    def _addresses(self, name: str, index: int) -> list[Object]:
        # The API server reaches the fake kubelet by ExternalDNS; the 10.x address is what people see.
        pool = sum(self.name.encode()) % 200
        return [
            {"type": "InternalIP", "address": f"10.{pool}.{index // 250}.{index % 250 + 2}"},
            {"type": "Hostname", "address": name},
            {"type": "ExternalDNS", "address": "localhost"},
        ]

    def _resources(self) -> Object:
        if not self.accelerated:
            size = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
            return {"capacity": size, "allocatable": {**size, "cpu": "15890m", "memory": "58Gi"}}
        size = {"cpu": "224", "memory": "3968Gi", "ephemeral-storage": "12000Gi", "pods": "110", "nvidia.com/gpu": "8"}
        size |= {f"networking.gke.io.networks/{name}{end}": "1" for name in NETWORKS for end in ("", ".IP")}
        usable = {**size, "cpu": "223370m", "memory": "3881Gi", "ephemeral-storage": "11000Gi"}
        return {"capacity": size, "allocatable": usable}


NODE_INFO = {
    "kubeletVersion": KUBELET,
    "osImage": "Container-Optimized OS from Google",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "kernelVersion": "6.12.0",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kubeProxyVersion": "",
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
}
POOLS = (
    Pool("a4-reserved", 16, reservation="a4-reservation"),
    Pool("a4-spot", 4, provisioning="spot", first_block=2),
    Pool("cpu-pool", 3, machine="n2-standard-16"),
)
