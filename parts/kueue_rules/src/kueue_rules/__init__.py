"""Kueue's rules as a pure library: from the state of queues, nodes and workloads to the decisions of a cycle.

A `Snapshot` is what a caller fills in, `admission_cycle` what it calls, and `VirtualCluster` runs cycles until nothing
changes; `simulate` plays a whole scenario. Amounts are whole numbers, thousandths of a unit in a cycle. What is not
named here is the library's own.
"""

from kueue_rules.cycle import CycleVerdict, Decision, admission_cycle
from kueue_rules.fair_sharing import DEFAULT_STRATEGIES, LESS_OR_EQUAL_TO_FINAL, LESS_THAN_INITIAL
from kueue_rules.flavors import FlavorAssigner, FlavorChoice, FlavorTurns, Mode, PodSetChoice, places_every_pod
from kueue_rules.node_constraints import Requirement, Toleration, first_untolerated_taint
from kueue_rules.preemption import HUMAN_REASONS, PreemptionSearch, PreemptionTarget
from kueue_rules.quota_tree import CohortQuota, FlavorQuota, FlavorResource, Quantities, QuotaNode
from kueue_rules.scenario import Scenario, ScenarioError, read_scenario
from kueue_rules.simulation import JobEvent, QueueResult, SimulationResult, simulate
from kueue_rules.state import (
    BACK_OF_QUEUE,
    NO_LIMIT,
    AdmissionCheck,
    AdmissionVerdict,
    Flavor,
    Key,
    KueueRelease,
    Place,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
    Tried,
    fatal_state,
    open_checks,
    refusal_words,
    required_checks,
    try_order,
    unadmitted_words,
)
from kueue_rules.topology_assignment import (
    HOSTNAME,
    Domain,
    TopologyTree,
    WantedPlaces,
    assign_together,
    assign_topology,
    fill,
    roomiest,
    spread,
)
from kueue_rules.virtual_cluster import Move, VirtualCluster, queued_again

__all__ = [
    "BACK_OF_QUEUE",
    "DEFAULT_STRATEGIES",
    "HOSTNAME",
    "HUMAN_REASONS",
    "LESS_OR_EQUAL_TO_FINAL",
    "LESS_THAN_INITIAL",
    "NO_LIMIT",
    "AdmissionCheck",
    "AdmissionVerdict",
    "CohortQuota",
    "CycleVerdict",
    "Decision",
    "Domain",
    "Flavor",
    "FlavorAssigner",
    "FlavorChoice",
    "FlavorQuota",
    "FlavorResource",
    "FlavorTurns",
    "JobEvent",
    "Key",
    "KueueRelease",
    "Mode",
    "Move",
    "Place",
    "PodSetChoice",
    "PreemptionSearch",
    "PreemptionTarget",
    "Quantities",
    "QueueNode",
    "QueueResult",
    "QuotaNode",
    "Requirement",
    "ResourceGroup",
    "Scenario",
    "ScenarioError",
    "SimulationResult",
    "Snapshot",
    "SnapshotNode",
    "SnapshotPodSet",
    "SnapshotWorkload",
    "Toleration",
    "TopologyRequest",
    "TopologyTree",
    "Tried",
    "VirtualCluster",
    "WantedPlaces",
    "admission_cycle",
    "assign_together",
    "assign_topology",
    "fatal_state",
    "fill",
    "first_untolerated_taint",
    "open_checks",
    "places_every_pod",
    "queued_again",
    "read_scenario",
    "refusal_words",
    "required_checks",
    "roomiest",
    "simulate",
    "spread",
    "try_order",
    "unadmitted_words",
]
