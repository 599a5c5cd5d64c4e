"""Data types of GKE clusters, node pools, operations and versions, networks and reservations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.errors import BadInput, ConsoleError, NotFound


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    number: str = ""


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    project: str
    location: str  # a region or a zone
    cluster: str

    @property
    def region(self) -> str:
        return self.location if self.location.count("-") < 2 else self.location.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class GkeOperation:
    name: str
    kind: str  # Google's word: UPGRADE_NODES, AUTO_REPAIR_NODES, SET_NODE_POOL_SIZE ...
    status: str  # PENDING, RUNNING, DONE or ABORTING
    project: str
    location: str
    cluster: str
    pool: str  # empty: the cluster as a whole
    detail: str
    error: str
    started: float  # seconds since the epoch; 0.0 if it has not begun
    ended: float  # seconds since the epoch; 0.0 if it is under way
    done: int | None = None  # nodes that are done; None: Google does not count them
    total: int | None = None  # nodes to be done in all; None: Google does not count them

    @property
    def over(self) -> bool:
        return self.status == "DONE"


@dataclass(frozen=True, slots=True)
class GkePool:
    """A node pool of a GKE cluster; all its sizes count nodes."""

    name: str
    status: str  # RUNNING, PROVISIONING, RECONCILING, RUNNING_WITH_ERROR, STOPPING or ERROR
    message: str
    version: str
    machine_type: str
    accelerator: str  # "nvidia-b200"; empty: none
    accelerators: int  # in one machine
    initial_size: int
    zones: tuple[str, ...]
    autoscaling: bool
    least: int
    most: int  # limits of autoscaling over all zones
    spot: bool
    flex_start: bool
    queued: bool  # whether nodes come only for ProvisioningRequests
    reservation: str  # name of the reservation; "any" for whatever matches, empty: none
    placement: str  # "COMPACT", or empty
    auto_repair: bool
    auto_upgrade: bool
    surge: int
    unavailable: int  # how many nodes more, and fewer, there may be during an upgrade
    workload_metadata: str  # GKE_METADATA where Workload Identity Federation works
    networks: int  # networks beside the default one
    local_ssds: int
    taints: tuple[str, ...]  # each as "key=value:Effect"
    groups: tuple[str, ...] = ()  # addresses of its managed instance groups
    account: str = ""  # the service account of its machines; "default" or empty: Compute Engine's own of the project

    @property
    def provisioning(self) -> str:
        """The provisioning of temporary nodes: queued provisioning, flex-start or spot; empty for permanent nodes."""
        words = {"queued provisioning": self.queued, "flex-start": self.flex_start, "spot": self.spot}
        return next((word for word, is_so in words.items() if is_so), "")


@dataclass(frozen=True, slots=True)
class GkeCluster:
    """A GKE cluster with the settings that the preflight checks read."""

    project: str
    location: str
    name: str
    status: str  # RUNNING, PROVISIONING, RECONCILING, DEGRADED, STOPPING or ERROR
    message: str
    version: str
    endpoint: str  # address of the API server from outside, or from the VPC of a private cluster
    private: bool  # whether the address answers only inside the VPC
    dns_endpoint: str  # host name that Google's front end answers for; empty: switched off
    authority: str  # certificate of the API server's authority, base64 of PEM
    regional: bool
    autopilot: bool
    nodes: int
    network: str
    subnetwork: str
    created: float
    workload_pool: str  # "PROJECT.svc.id.goog" where Workload Identity Federation is on
    addons: frozenset[str]  # that are on: gcsFuse, filestore, lustre, lustreLegacyPort, dcgm, multiNetworking, …
    maintenance: str  # when maintenance may happen, in words; empty: any time
    pools: tuple[GkePool, ...]

    @property
    def context(self) -> str:
        return f"gke_{self.project}_{self.location}_{self.name}"

    @property
    def path(self) -> str:
        """The cluster's unique name PROJECT/LOCATION/NAME."""
        return f"{self.project}/{self.location}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterList:
    """The clusters found in several projects, sorted by project, location and name."""

    clusters: tuple[GkeCluster, ...]
    unread: tuple[tuple[str, ConsoleError], ...] = ()  # project -> why its clusters could not be listed
    missing_zones: tuple[str, ...] = ()  # zones that did not answer: clusters there may be missing

    def merge(self, other_list: ClusterList) -> ClusterList:
        return ClusterList(
            tuple(sorted((*self.clusters, *other_list.clusters), key=lambda each: each.path)),
            tuple(sorted((*self.unread, *other_list.unread), key=lambda each: each[0])),
            (*self.missing_zones, *other_list.missing_zones),
        )

    def find_by_name(self, name: str) -> GkeCluster:
        """The cluster of that name, context or path; NotFound if there is none, BadInput if there are several."""
        matching = [each for each in self.clusters if name in (each.name, each.context, each.path)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            listed = ", ".join(each.path for each in matching)
            raise BadInput(f"Several clusters are named {name}: {listed}.", "Name it as PROJECT/LOCATION/NAME.")
        raise NotFound(f"There is no cluster {name}.", "`a4 clusters` lists those that can be seen.")


_GKE_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:.*?-gke\.(\d+))?")


def parse_version(version: str) -> tuple[int, ...]:
    """The numbers of a version, comparable as a tuple, GKE's patch last; empty if the text is no version."""
    found = _GKE_VERSION.match(version)
    return tuple(int(each) for each in found.groups() if each is not None) if found else ()


def is_older(version: str, minimum: str) -> bool:
    """Whether a version is older than `minimum`; GKE's patch counts only if both have one."""
    mine, other = parse_version(version), parse_version(minimum)
    length = min(len(mine), len(other))
    return mine[:length] < other[:length]


def is_gke(version: str) -> bool:
    return len(parse_version(version)) == 4


@dataclass(frozen=True, slots=True)
class CloudNat:
    name: str
    network: str
    subnets: tuple[str, ...] = ()  # names of those it serves; none: all of them


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    is_dense: bool  # whether they stand close together: deployment type DENSE
    count: int
    used: int
    status: str  # READY, CREATING, DELETING ...


_PRIVATE_ADDRESSES = ("10.", "172.16.", "192.168.", "0.0.0.0", "100.64.", "240.")


@dataclass(frozen=True, slots=True)
class FirewallRule:
    name: str
    allows: bool
    priority: int  # the lowest number wins
    sources: tuple[str, ...]  # address ranges and tags
    ports: tuple[str, ...]  # of TCP: "2222", "0-65535"

    def covers_port(self, port: int) -> bool:
        return any(
            int(low) <= port <= int(high or low) for low, _, high in (each.partition("-") for each in self.ports)
        )


def is_port_open(rules: tuple[FirewallRule, ...], port: int) -> bool:
    """Whether a private range may reach the port: the rule of highest priority decides, no rule means closed."""
    for rule in rules:
        if rule.covers_port(port) and any(
            each.startswith(_PRIVATE_ADDRESSES) or "." not in each for each in rule.sources
        ):
            return rule.allows
    return False
