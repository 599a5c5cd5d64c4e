"""The physical topology: blocks, subblocks and hosts, node pools, the labels of nodes, and the holder of each GPU.

The API has the number of a pod's GPUs, not their indexes, so the GPUs of a host are listed in the order of its pods:
their number per holder is exact, their position is not the device's index.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cached_property

from msgspec import Struct, field

from console.kube.objects.node import GKE_PREFIX, MAX_GPUS_PER_NODE, Node, Provisioning
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet, per_snapshot
from kueue_rules import HOSTNAME

MACHINE_GPUS = 8  # GPUs of one A4 machine, and what a pod of a training job asks for


class GpuState(StrEnum):
    """Whether a GPU is held by a pod, free, or out of use."""

    HELD = "held"
    FREE = "free"
    OUT = "out"  # nobody has it and nobody can have it: the node takes no pods, or the GPU is lost


class Holder(Struct, frozen=True):
    """The JobSet that holds a GPU, or the owner of a pod without a JobSet."""

    namespace: str
    name: str
    uid: str = ""
    kind: str = "JobSet"
    owner: str = ""  # who launched it; empty if it does not say

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class HostGpu(Struct, frozen=True):
    state: GpuState
    holder: Holder | None = None


class Host(Struct, frozen=True):
    """One machine with its GPUs: held ones first, then free ones, then those out of use."""

    node: Node
    gpus: tuple[HostGpu, ...] = ()
    faults: tuple[str, ...] = ()  # what is wrong with it
    is_starting: bool = False  # whether it is on its way

    @property
    def total(self) -> int:
        """Number of GPUs of the machine, working or not."""
        return len(self.gpus)

    @property
    def used(self) -> int:
        """Number of GPUs that pods hold."""
        return sum(pip.state is GpuState.HELD for pip in self.gpus)

    @property
    def free(self) -> int:
        """Number of GPUs that a new pod could get now."""
        return sum(pip.state is GpuState.FREE for pip in self.gpus)


class HostGroup(Struct, frozen=True, dict=True):
    """A group of hosts with cached sums, which are stored in its `__dict__`, so it has no slots."""

    name: str  # value of the topology label; empty for hosts that carry none
    hosts: tuple[Host, ...] = ()

    @cached_property
    def total(self) -> int:
        return sum(each.total for each in self.hosts)

    @cached_property
    def used(self) -> int:
        return sum(each.used for each in self.hosts)

    @cached_property
    def free(self) -> int:
        return sum(each.free for each in self.hosts)

    @cached_property
    def out_of_use(self) -> int:
        return self.total - self.used - self.free

    @cached_property
    def whole_free_gpus(self) -> int:
        """The GPUs of hosts that are free as a whole, for jobs that need whole machines."""
        return sum(each.total for each in self.hosts if each.free == each.total)

    @cached_property
    def slots(self) -> int:
        """Number of additional pods with 8 GPUs that fit."""
        return sum(each.free // MACHINE_GPUS for each in self.hosts)


class TopologyBlock(HostGroup, frozen=True):
    subblocks: tuple[HostGroup, ...] = ()


class LargestFree(Struct, frozen=True):
    """The largest groups of free whole hosts, in GPUs; the name is empty where nothing is free."""

    subblock: str = ""
    in_subblock: int = 0
    in_block: int = 0
    total: int = 0


class PoolFloor(HostGroup, frozen=True, dict=True):
    """All hosts of a node pool (or another set of nodes), by block and subblock, sorted by name."""

    blocks: tuple[TopologyBlock, ...] = ()

    @cached_property
    def subblocks(self) -> tuple[HostGroup, ...]:
        return tuple(each for block in self.blocks for each in block.subblocks)

    @cached_property
    def holders(self) -> tuple[tuple[Holder, int], ...]:
        """(holder, number of GPUs), most first."""
        held = Counter(pip.holder for host in self.hosts for pip in host.gpus if pip.holder)
        return tuple(sorted(held.items(), key=lambda each: (-each[1], each[0].key)))

    @cached_property
    def largest(self) -> LargestFree:
        """The largest free group within one subblock, within one block, and in total."""
        if not self.whole_free_gpus:
            return LargestFree()
        groups = (self.subblocks, self.blocks)
        subblock, block = (max(group, key=lambda each: each.whole_free_gpus) for group in groups)
        return LargestFree(subblock.name, subblock.whole_free_gpus, block.whole_free_gpus, self.whole_free_gpus)


def holder_of(pod: Pod, fleet: Fleet) -> Holder:
    if pod.jobset:
        jobset = fleet.jobset_by_uid.get(pod.jobset_uid)
        return Holder(pod.namespace, pod.jobset, pod.jobset_uid, owner=jobset.owner if jobset else "")
    if pod.owner_name:
        return Holder(pod.namespace, pod.owner_name, kind=pod.owner_kind)
    return Holder(pod.namespace, pod.name, pod.uid, kind="Pod")


def host(node: Node, fleet: Fleet) -> Host:
    """The host of a node; it has more GPUs than the node reports only if pods hold more."""
    known = _known_hosts(fleet)
    if node.name not in known:
        known[node.name] = _host_of(node, fleet)
    return known[node.name]


@per_snapshot
def _known_hosts(_: Fleet) -> dict[str, Host]:
    """Hosts by node name, filled on first use and cached per snapshot."""
    return {}


def _host_of(node: Node, fleet: Fleet) -> Host:
    pips: list[HostGpu] = []
    # A pod may ask for any number: its kubelet refuses it then.
    has = max(node.gpus, node.gpu_capacity) or MAX_GPUS_PER_NODE
    for pod in sorted(fleet.pods_by_node.get(node.name, ()), key=lambda pod: (pod.jobset, pod.job_index, pod.name)):
        if pod.holds_gpus:
            here = min(pod.holds_gpus, has, MAX_GPUS_PER_NODE - len(pips))
            pips += [HostGpu(GpuState.HELD, holder_of(pod, fleet))] * here
    pips += [HostGpu(GpuState.FREE)] * fleet.gpus_free(node)
    pips += [HostGpu(GpuState.OUT)] * (max(node.gpus, node.gpu_capacity) - len(pips))
    return Host(node, tuple(pips), node.faults(fleet.at), node.is_starting(fleet.at))


def format_gpu_sum(floor: HostGroup) -> str:
    """The GPUs of a group of hosts as a sum: "128 GPUs - 96 used - 8 out of use = 24 free"; empty if there are none."""
    if not floor.total:
        return ""
    used = f" - {floor.used:,} used" if floor.used else ""
    out = f" - {floor.out_of_use:,} out of use" if floor.out_of_use else ""
    return f"{floor.total:,} GPUs{used}{out} = {floor.free:,} free"


def build_floor(nodes: Iterable[Node], fleet: Fleet) -> PoolFloor:
    """Arrange the hosts among these nodes (those with GPUs) by block and subblock."""
    placed: dict[str, dict[str, list[Host]]] = defaultdict(lambda: defaultdict(list))
    for node in sorted(nodes, key=lambda each: (each.host, each.name)):
        if max(node.gpus, node.gpu_capacity) or fleet.gpus_used.get(node.name):
            placed[node.block][node.subblock].append(host(node, fleet))
    blocks = tuple(_make_block(name, subblocks) for name, subblocks in sorted(placed.items()))
    return PoolFloor("", tuple(each for block in blocks for each in block.hosts), blocks)


def _make_block(name: str, subblocks: dict[str, list[Host]]) -> TopologyBlock:
    made = tuple(HostGroup(each, tuple(hosts)) for each, hosts in sorted(subblocks.items()))
    return TopologyBlock(name, tuple(host for each in made for host in each.hosts), made)


NO_POOL = "no pool"  # name of the group of nodes that have neither a pool label nor a machine type


class Pool(Struct, frozen=True):
    name: str
    is_labelled: bool = True  # False for nodes without a pool label, which are grouped by machine type
    machine_type: str = ""  # several, with commas, where nodes without a pool are grouped
    zones: tuple[str, ...] = ()
    provisioning: Provisioning = Provisioning.ON_DEMAND
    reservation: str = ""
    accelerator: str = ""
    nodes: tuple[Node, ...] = ()
    nodes_ready: int = 0
    faults: tuple[tuple[str, str], ...] = ()  # Node and what is wrong with it, one entry per fault
    starting: tuple[str, ...] = ()  # nodes that are on their way
    maintenance: tuple[Node, ...] = ()  # nodes whose maintenance is announced or under way
    floor: PoolFloor = field(default_factory=lambda: PoolFloor(""))

    @property
    def nodes_total(self) -> int:
        return len(self.nodes)


def build_pools(fleet: Fleet) -> tuple[Pool, ...]:
    """All node pools, those with GPUs first, then by name."""
    grouped: dict[tuple[bool, str], list[Node]] = defaultdict(list)
    for node in fleet.nodes.values():
        grouped[bool(node.pool), node.pool or node.machine_type or NO_POOL].append(node)
    found = [_build_pool(name, labelled, nodes, fleet) for (labelled, name), nodes in grouped.items()]
    return tuple(sorted(found, key=lambda pool: (not pool.floor.total, not pool.is_labelled, pool.name)))


def _build_pool(name: str, labelled: bool, nodes: list[Node], fleet: Fleet) -> Pool:
    nodes.sort(key=lambda node: node.name)
    return Pool(
        name=name,
        is_labelled=labelled,
        machine_type=", ".join(_sorted_distinct(node.machine_type for node in nodes)),
        zones=_sorted_distinct(node.zone for node in nodes),
        provisioning=Counter(node.provisioning for node in nodes).most_common(1)[0][0],
        reservation=next((node.reservation for node in nodes if node.reservation), ""),
        accelerator=next((node.accelerator for node in nodes if node.accelerator), ""),
        nodes=tuple(nodes),
        nodes_ready=sum(node.ready for node in nodes),
        faults=tuple((node.name, fault) for node in nodes for fault in node.faults(fleet.at)),
        starting=tuple(node.name for node in nodes if node.is_starting(fleet.at)),
        maintenance=tuple(node for node in nodes if node.maintenance_at or node.maintenance_active),
        floor=build_floor(nodes, fleet),
    )


def _sorted_distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


BLOCK, SUBBLOCK = f"{GKE_PREFIX}gce-topology-block", f"{GKE_PREFIX}gce-topology-subblock"
LEVELS = {BLOCK: "block", SUBBLOCK: "subblock", f"{GKE_PREFIX}gce-topology-host": "host", HOSTNAME: "node"}
_PROVISIONING = {Provisioning.SPOT: "spot", Provisioning.FLEX_START: "flex-start", Provisioning.QUEUED: "flex-start"}
"""Values of GKE's provisioning label; on-demand and reserved machines are "standard"."""
_LABELS: dict[str, Callable[[Node], str]] = {
    BLOCK: lambda node: node.block,
    SUBBLOCK: lambda node: node.subblock,
    f"{GKE_PREFIX}gce-topology-host": lambda node: node.host,
    HOSTNAME: lambda node: node.name,
    f"{GKE_PREFIX}gke-nodepool": lambda node: node.pool,
    f"{GKE_PREFIX}gke-accelerator": lambda node: node.accelerator,
    f"{GKE_PREFIX}reservation-name": lambda node: node.reservation,
    "node.kubernetes.io/instance-type": lambda node: node.machine_type,
    "topology.kubernetes.io/zone": lambda node: node.zone,
    f"{GKE_PREFIX}gke-provisioning": lambda node: _PROVISIONING.get(node.provisioning, "standard"),
    f"{GKE_PREFIX}gke-spot": lambda node: str(node.provisioning is Provisioning.SPOT).lower(),
    f"{GKE_PREFIX}gke-flex-start": lambda node: str(_PROVISIONING.get(node.provisioning) == "flex-start").lower(),
    f"{GKE_PREFIX}gke-queued": lambda node: str(node.provisioning is Provisioning.QUEUED).lower(),
}
"""Label -> function that returns its value from a Node, for the labels that Nodes store."""


def level_name(label: str) -> str:
    """The common name of a topology level, such as "block"."""
    return LEVELS.get(label) or label.rpartition("/")[2]


def label_of(node: Node, label: str) -> str | None:
    """The value of a node's label; None for a label that is not stored."""
    return _LABELS[label](node) if label in _LABELS else None
