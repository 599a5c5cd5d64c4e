from .admission_cycle import CycleVerdict as CycleVerdict, Decision as Decision, admission_cycle as admission_cycle
from .fair_sharing import (
    DEFAULT_STRATEGIES as DEFAULT_STRATEGIES,
    LESS_OR_EQUAL_TO_FINAL as LESS_OR_EQUAL_TO_FINAL,
    LESS_THAN_INITIAL as LESS_THAN_INITIAL,
)
from .flavor_assignment import (
    FlavorAssigner as FlavorAssigner,
    FlavorChoice as FlavorChoice,
    Mode as Mode,
    PodSetChoice as PodSetChoice,
    TriedFlavorMemory as TriedFlavorMemory,
    places_every_pod as places_every_pod,
)
from .node_constraints import (
    Requirement as Requirement,
    Toleration as Toleration,
    first_untolerated_taint as first_untolerated_taint,
)
from .preemption import (
    HUMAN_REASONS as HUMAN_REASONS,
    PreemptionSearch as PreemptionSearch,
    PreemptionTarget as PreemptionTarget,
)
from .quota_tree import (
    CohortQuota as CohortQuota,
    FlavorQuota as FlavorQuota,
    FlavorResource as FlavorResource,
    Quantities as Quantities,
    QuotaNode as QuotaNode,
)
from .scenario import Scenario as Scenario, ScenarioError as ScenarioError, read_scenario as read_scenario
from .simulation import (
    JobEvent as JobEvent,
    QueueResult as QueueResult,
    SimulationResult as SimulationResult,
    simulate_scenario as simulate_scenario,
)
from .snapshot import (
    BACK_OF_QUEUE as BACK_OF_QUEUE,
    UNLIMITED_PODS as UNLIMITED_PODS,
    AdmissionCheck as AdmissionCheck,
    AdmissionVerdict as AdmissionVerdict,
    Flavor as Flavor,
    Key as Key,
    KueueRelease as KueueRelease,
    Place as Place,
    QueueNode as QueueNode,
    ResourceGroup as ResourceGroup,
    Snapshot as Snapshot,
    SnapshotNode as SnapshotNode,
    SnapshotPodSet as SnapshotPodSet,
    SnapshotWorkload as SnapshotWorkload,
    TopologyRequest as TopologyRequest,
    TriedFlavors as TriedFlavors,
    open_checks as open_checks,
    queue_order_key as queue_order_key,
    refusal_words as refusal_words,
    required_checks as required_checks,
    unadmitted_words as unadmitted_words,
    worst_check_state as worst_check_state,
)
from .topology_assignment import (
    HOSTNAME as HOSTNAME,
    SnapshotDomain as SnapshotDomain,
    TopologyTree as TopologyTree,
    WantedPlaces as WantedPlaces,
    assign_together as assign_together,
    assign_topology as assign_topology,
    count_fitting as count_fitting,
    sort_by_room as sort_by_room,
    spread as spread,
)
from .virtual_cluster import Move as Move, VirtualCluster as VirtualCluster, without_quota as without_quota
