"""The page of one node: topology, health and pods."""

from __future__ import annotations

from typing import ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.objects.event import Event
from console.kube.objects.node import Node, NodeFault
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.nccl_history import NodeBandwidth
from console.scheduling.topology import host
from screens.columns.nodes import busbw_words, maintenance_words, node_state
from screens.dialogs.pod_actions import Key, PodActions
from screens.dialogs.pool_actions import NodeActions
from screens.pages.pods import PodTable
from screens.widgets.side_pane import FactsWidget
from screens.widgets.table.events import EventTable
from screens.widgets.table.row_painter import EmptyNotice
from screens.wording import Fact, Span, clock, duration, moment, sentence, short_node
from trainlog import PASS_LINE


def node_facts(node: Node, fleet: Fleet, now: float, measured: NodeBandwidth | None = None) -> tuple[Fact, ...]:
    machine = host(node, fleet)
    gpus = f"{machine.used} used, {machine.free} free of {machine.total}" if machine.total else "none"
    lost = node.gpu_capacity - node.gpus
    upkeep = node.maintenance_at or node.maintenance_active
    words = maintenance_words(node.maintenance_at, now, is_active=node.maintenance_active) if upkeep else ""
    words = words.removeprefix("maintenance ")
    return (
        ("State", node_state(node, now)),
        ("GPUs", gpus),
        ("Lost GPUs", Span(f"{lost} of {node.gpu_capacity} not allocatable" if lost > 0 else "", "bad")),
        ("Pool", node.pool),
        ("Machine", node.machine_type),
        ("Accelerator", node.accelerator),
        ("Zone", node.zone),
        ("Provisioning", " ".join(part for part in (str(node.provisioning), node.reservation) if part)),
        ("Block", node.block),
        ("Subblock", node.subblock),
        ("Host", node.host),
        ("Address", node.internal_ip),
        ("Kubelet", node.version),
        ("Age", duration(now - node.created) if node.created else ""),
        ("Health scan", _health_scan_text(node, now)),
        ("NCCL test", busbw_words(measured, now)),
        ("Maintenance", Span(f"{words} ({clock(node.maintenance_at)})" if node.maintenance_at else words, "waits")),
        ("Repair", Span(node.repair, "waits")),
        ("Cordoned for", Span(node.cordon_reason, "waits")),
        ("Taints", ", ".join(node.taints)),
        *((f"Fault {index}", _fault_spans(fault, now)) for index, fault in enumerate(node.fault_reports(now), start=1)),
    )


def _fault_spans(fault: NodeFault, now: float) -> list[Span]:
    since = f", since {clock(fault.since)} ({moment(fault.since, now)})" if fault.since else ""
    by = f"says {fault.by}" if fault.by else ""
    return [Span(sentence(fault.words), "bad"), Span(f"  {by}{since}", "dim")]


def _health_scan_text(node: Node, now: float) -> str:
    """The result of Google's Cluster Health Scanner (NCCL between two nodes) in the node's labels; empty if none."""
    speed = f"{node.last_busbw:.0f} GB/s" if node.last_busbw is not None else ""
    found = " ".join(part for part in (speed, node.scan_result) if part)
    if not found:
        return ""
    when = f"{duration(now - node.scanned_at)} ago" if node.scanned_at else "at a time not told"
    return f"{found}, {when}: NCCL between two nodes, 2 to 8 GiB; passes from {PASS_LINE:.0f} GB/s on A4"


def events_of_node(node: Node, fleet: Fleet) -> list[Event]:
    """Events of a node, newest first; kubelets use the node's name as the object's uid."""
    events = [event for name in {node.name, node.uid} for event in fleet.events_by_object.get(name, ())]
    return sorted(events, key=lambda event: -event.last)


OTHER_LINES = 5  # lines of the page beside its facts and pods: the bars, a blank one, and two of events


class NodePodTable(PodTable):
    EMPTY = EmptyNotice("No pods on this node.")
    COLUMNS: ClassVar = tuple(column for column in PodTable.COLUMNS if column.title != "NODE")


class NodeScreen(NodeActions, PodActions):
    CSS_PATH = "node.tcss"
    KINDS = ("nodes", "pods", "events")
    ROW_PAGE = "pod"
    OF_CLUSTER = True
    CHANGES_CLUSTER = NodeActions.CHANGES_CLUSTER | PodActions.CHANGES_CLUSTER
    SUBJECT = PodActions.SUBJECT
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("Y", "node_yaml", "Node YAML", show=False, key_display="Y", id="node.yaml")
    ]
    facts = getters.query_one(FactsWidget)
    pods_here = getters.query_one(NodePodTable)
    events = getters.query_one(EventTable)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._node_name = name
        self.trail_name = short_node(name)

    def body(self) -> ComposeResult:
        yield FactsWidget(classes="of-snapshot")
        yield NodePodTable()
        yield EventTable()

    def show_fleet(self, fleet: Fleet) -> None:
        node = fleet.nodes.get(("", self._node_name))
        now = SERVER_CLOCK.now()
        gone = (("State", Span("gone: the node was removed", "waits")),)
        facts = node_facts(node, fleet, now, self.bandwidth_of_nodes().get(node.name)) if node else gone
        self.facts.facts = (("Name", self._node_name), *facts)
        here = sorted(fleet.pods_by_node.get(self._node_name, ()), key=lambda pod: (pod.finished, -pod.gpus, pod.key))
        left = self.size.height - OTHER_LINES - len(self.facts.lines_at(self.size.width))
        self.pods_here.styles.height = max(3, min(len(here) + 2, self.size.height // 2, left))
        self.pods_here.show_rows({pod.key: pod for pod in here}, fleet.links.get("pods"))
        events = events_of_node(node, fleet) if node else fleet.events_by_object.get(self._node_name, ())
        self.events.show_rows({(each.namespace, each.name): each for each in events}, fleet.links.get("events"))
        self.refresh_bindings()

    @property
    def node_names(self) -> list[str]:
        return [self._node_name]

    @property
    def pod_keys(self) -> list[Key]:
        return self.pods_here.chosen_keys

    def action_yaml(self) -> None:
        self._focused_actions().action_yaml(self)

    def action_copy(self) -> None:
        self._focused_actions().action_copy(self)

    def _focused_actions(self) -> type[PodActions | NodeActions]:
        """The class whose actions the keys run: the pod's if the pod table has the focus, else the node's."""
        return PodActions if self.pods() and self.pods_here.has_focus else NodeActions

    def action_node_yaml(self) -> None:
        NodeActions.action_yaml(self)
