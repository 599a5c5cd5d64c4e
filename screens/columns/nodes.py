"""Cells and columns of node pools and nodes: state, GPUs, bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.durations import HOUR
from console.google.node_pools import GooglePool
from console.kube.objects.node import Node
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.topology import GpuState, Host, Pool, build_pools, host
from screens.columns.column import COMMAND, CREATED, PAGE, Column, ListLayout, age_column, fact
from screens.wording import BAD, CARE, IDLE, OK, UNDER_WAY, Span, bar_columns, count, duration, sentence

if TYPE_CHECKING:
    from console.metrics.nccl_history import NodeBandwidth

MAX_BUSBW_FALL = 0.1  # a bandwidth that fell by more than this share is bad


def maintenance_words(begins_at: float, now: float, *, is_active: bool, whole_hours: bool = False) -> str:
    if is_active:
        return "maintenance under way"
    left = begins_at - now
    if whole_hours and left > 2 * HOUR:
        left -= left % HOUR
    return f"maintenance in {duration(left)}" if begins_at > now else "maintenance due"


def node_state(node: Node, now: float) -> list[Span]:
    """The state of a node as spans, worst first."""
    runs: list[Span] = []
    if node.is_starting(now):
        why = f": {': '.join(sentence(node.not_ready_reason).split(': ')[:2])}" if node.not_ready_reason else ""
        runs += [UNDER_WAY, Span(f" starting, made {duration(now - node.created)} ago{why}  ", "waits")]
    faults = [fault for fault in node.faults(now) if not (node.maintenance_active and "maintenance" in fault)]
    if faults:
        runs += [BAD, Span(f" {sentence('; '.join(faults))}  ", "bad")]
    if node.maintenance_active or node.maintenance_at:
        words = maintenance_words(node.maintenance_at, now, is_active=node.maintenance_active)
        runs += [CARE, Span(f" {words}  ", "waits")]
    if node.cordoned:
        runs += [Span("‖ cordoned  ", "waits")]
    return runs or [OK, Span(" ready", "dim")]


def pool_state(pool: Pool, now: float) -> list[Span]:
    runs: list[Span] = []
    away = [node for node in pool.nodes if not node.ready]
    starting = len(pool.starting)
    if len(away) > starting:
        runs += [BAD, Span(f" {len(away) - starting} not ready  ", "bad")]
    if starting:
        runs += [UNDER_WAY, Span(f" {starting} starting  ", "waits")]
    maintained = {node.name for node in pool.nodes if node.maintenance_active and len(node.faults(now)) == 1}
    faulty = {node for node, _ in pool.faults} - {node.name for node in away} - maintained
    if faulty:
        runs += [BAD, Span(f" {len(faulty)} faulty  ", "bad")]
    if pool.maintenance:
        first = min(pool.maintenance, key=lambda each: (not each.maintenance_active, each.maintenance_at))
        words = maintenance_words(first.maintenance_at, now, is_active=first.maintenance_active, whole_hours=True)
        runs += [CARE, Span(f" {len(pool.maintenance)} {words}  ", "waits")]
    cordoned = sum(node.cordoned for node in pool.nodes)
    if cordoned:
        runs += [Span(f"‖ {cordoned} cordoned  ", "waits")]
    runs += _google_state(pool)
    return [*runs[:-1], Span(runs[-1].text.rstrip(), runs[-1].style)] if runs else [OK, Span(" ready", "dim")]


def _google_state(pool: Pool) -> list[Span]:
    """Google's state of a pool, if known: in full for pools without nodes."""
    if not isinstance(pool, GooglePool) or (pool.nodes and pool.status.state == "ok"):
        return []  # what failed and is over stands on the pool's page
    facts = pool.status
    glyph = {"ok": IDLE, "busy": UNDER_WAY, "bad": BAD}[facts.state]
    style = {"ok": "dim", "busy": "waits", "bad": "bad"}[facts.state]
    sentences = [sentence(text).rstrip(".") for text in facts.sentences]
    if not pool.nodes and not sentences:
        sentences = [_empty_pool_words(pool)]
    return [glyph, Span(f" {'; '.join(sentences)}  ", style)] if sentences else []


def _empty_pool_words(pool: GooglePool) -> str:
    google = pool.status.pool
    if pool.requests:
        return f"no machine yet: {count(pool.requests, 'request')} to DWS {'waits' if pool.requests == 1 else 'wait'}"
    if google.queued or google.flex_start:
        return "no machine: they come from DWS when a job asks"
    if google.autoscaling:
        return f"no machine: up to {google.most} come when a job asks"
    return "no machine"


def gpu_bar(pool: Pool, width: int) -> list[Span]:
    """Used, out of use and free GPUs as one bar with figures; red only where a machine has a fault."""
    total = pool.floor.total
    if not total:
        return []
    figures = f" {pool.floor.used}/{total}"
    room = width - len(figures)
    if room < 4:
        return [Span(figures.strip())]
    used = bar_columns(pool.floor.used, total, room)
    out = min(room - used, bar_columns(pool.floor.out_of_use, total, room))
    style = "bad" if pool.faults else "waits"
    return [Span("█" * used, "accent"), Span("▒" * out, style), Span("░" * (room - used - out), "faint"), Span(figures)]


def busbw_cell(node: Node, bandwidth: NodeBandwidth | None) -> list[Span]:
    """Bandwidth (GB/s) of the node's last test with its trend, else of the last health scan."""
    if bandwidth is not None:
        trend = bandwidth.trend
        style = "bad" if trend is not None and trend < -MAX_BUSBW_FALL else "ok" if bandwidth.arrow == "↗" else "dim"
        return [Span(f"{bandwidth.last:,.0f}"), Span(f" {bandwidth.arrow or ' '}", style)]
    return [Span(f"{node.last_busbw:,.0f}  ", "dim")] if node.last_busbw is not None else []


def busbw_words(bandwidth: NodeBandwidth | None, now: float) -> list[Span]:
    """The node's bandwidth as a sentence: "367 GB/s ↘ 8 % under its median of 4 tests, in nccl-0412, 2 h ago"."""
    if bandwidth is None:
        return []
    trend = bandwidth.trend
    words = ""
    if trend is not None:
        share = f"{100 * abs(trend):.0f} % {'over' if trend > 0 else 'under'}" if bandwidth.arrow != "→" else "at"
        words = f" {bandwidth.arrow} {share} its median of {count(len(bandwidth.values) - 1, 'test')} before"
    when = f", {duration(now - bandwidth.at)} ago" if bandwidth.at else ""
    style = "bad" if trend is not None and trend < -MAX_BUSBW_FALL else ""
    where = f", in {bandwidth.job}{when}" if bandwidth.job else when
    return [Span(f"{bandwidth.last:,.0f} GB/s{words}", style), Span(where, "dim")]


@dataclass(frozen=True, slots=True)
class NodeRow:
    node: Node
    pips: tuple[Span, ...]
    free: int
    used: int
    jobs: str
    jobsets: tuple[str, ...]
    pods: int
    bandwidth: NodeBandwidth | None = None  # what it reached in the NCCL tests that were seen
    faults: tuple[str, ...] = ()
    is_starting: bool = False
    snapshot_at: float = field(default=0.0, compare=False)  # when it was so: a row that only grew older is the same row


def node_row(
    host: Host, fleet: Fleet, style_of: Callable[[str], str], bandwidth: NodeBandwidth | None = None
) -> NodeRow:
    holders = dict.fromkeys(pip.holder for pip in host.gpus if pip.holder)
    pips = tuple(
        Span("■", style_of(pip.holder.uid))
        if pip.holder
        else Span("·", "text")
        if pip.state is GpuState.FREE
        else Span("✗", "bad")
        if host.faults
        else Span("◐", "waits")
        if host.is_starting
        else Span("‖", "dim")
        for pip in host.gpus
    )
    pods = fleet.pods_by_node.get(host.node.name, ())
    return NodeRow(
        host.node,
        pips,
        fleet.gpus_free(host.node),
        fleet.gpus_used.get(host.node.name, 0),
        ", ".join(holder.name for holder in holders),
        tuple(sorted({pod.jobset for pod in pods if pod.jobset and pod.holds_gpus})),
        sum(not pod.finished for pod in pods),
        bandwidth,
        host.faults,
        host.is_starting,
        fleet.at,
    )


def _iter_nodes(fleet: Fleet, namespace: str | None, name_owner: Callable[[str], str]) -> Iterable[NodeRow]:
    every = sorted(fleet.nodes.values(), key=lambda node: (node.pool, node.block, node.subblock, node.host, node.name))
    return (node_row(host(node, fleet), fleet, str) for node in every)


POOLS: ListLayout[Pool] = ListLayout(
    "nodes",
    ("pods",),
    lambda fleet, namespace, whose: build_pools(fleet),
    (
        Column("POOL", lambda pool: Span(pool.name, "strong" if pool.is_labelled else "dim"), "name",
               "the pool; a machine type in brackets where nodes belong to no pool", lambda pool: pool.name, least=8,
               most=40, sort=True),
        Column("MACHINE", lambda pool: pool.machine_type, "machine_type", "GCE machine type", least=8, most=24, drop=8,
               sort=True),
        Column("ZONE", lambda pool: Span(", ".join(pool.zones), "dim"), "zones", "zones of its nodes",
               lambda pool: pool.zones, most=24, drop=9),
        fact("accelerator", "GPU type as the nodes' label has it", lambda pool: pool.accelerator),
        Column("NODES", lambda pool: f"{pool.nodes_ready}/{pool.nodes_total}", "nodes", "number of nodes",
               lambda pool: pool.nodes_total, least=6, right=True, drop=3, sort=True, down=True),
        fact("ready", "nodes that are ready", lambda pool: pool.nodes_ready),
        fact("gpus", "allocatable GPUs", lambda pool: pool.floor.total),
        Column("GPUS", lambda pool: f"{pool.floor.used}/{pool.floor.total}", "used", "GPUs requested by its pods",
               lambda pool: pool.floor.used, least=13, most=32, drop=2, draw=gpu_bar, sort=True, down=True),
        Column("OUT OF USE", lambda pool: str(pool.floor.out_of_use), "out",
               "GPUs of machines that take no pods, and lost ones; used + out + free = gpus",
               lambda pool: pool.floor.out_of_use, COMMAND, right=True),
        Column("FREE", lambda pool: f"{pool.floor.free}" if pool.floor.total else "", "free",
               "GPUs a new pod could have now", lambda pool: pool.floor.free, width=5, right=True, style="strong",
               sort=True, down=True),
        fact("free_slots", "hosts with all 8 GPUs free", lambda pool: pool.floor.slots),
        Column("PROVISIONING", lambda pool: Span(str(pool.provisioning), "dim"), "provisioning",
               "reservation, spot, flex-start, queued or on demand", lambda pool: pool.provisioning, least=4, most=11,
               drop=7, sort=True),
        fact("reservation", "name of the reservation", lambda pool: pool.reservation),
        fact("faulty", "nodes with something wrong", lambda pool: sorted({node for node, _ in pool.faults})),
        fact("cordoned", "nodes that take no new pods",
             lambda pool: [each.name for each in pool.nodes if each.cordoned]),
        fact("maintenance", "nodes with maintenance scheduled or under way",
             lambda pool: [each.name for each in pool.maintenance]),
        Column("STATE", lambda pool: pool_state(pool, SERVER_CLOCK.now()), fill=True, least=20, ages=True),
    ),
)  # fmt: skip

NODES: ListLayout[NodeRow] = ListLayout(
    "nodes",
    ("pods",),
    _iter_nodes,
    (
        Column("NODE", lambda row: row.node.name, "name", "its name", least=12, most=60, sort=True, style="strong",
               cut="node"),
        Column("POOL", lambda row: row.node.pool, "pool", "node pool", only=COMMAND),
        fact("machine_type", "GCE machine type", lambda row: row.node.machine_type),
        Column("ZONE", lambda row: row.node.zone, "zone", "zone", only=COMMAND),
        fact("provisioning", "reservation, spot, flex-start, queued or on demand", lambda row: row.node.provisioning),
        fact("reservation", "name of the reservation", lambda row: row.node.reservation),
        Column("BLOCK", lambda row: row.node.block, "block", "block of the network", most=12, drop=5,
               sort=lambda row: (row.node.block, row.node.subblock)),
        Column("SUBBLOCK", lambda row: row.node.subblock, "subblock", "subblock of the network", most=12, drop=6,
               sort=lambda row: (row.node.block, row.node.subblock)),
        fact("host", "physical host", lambda row: row.node.host),
        fact("ready", "whether it is ready", lambda row: row.node.ready),
        fact("cordoned", "whether it takes no new pods", lambda row: row.node.cordoned),
        fact("cordon_reason", "why, where it was cordoned by a4 with a reason", lambda row: row.node.cordon_reason),
        Column("GPUS", lambda row: list(row.pips), only=PAGE, least=8, most=16, sort=lambda row: len(row.pips)),
        Column("GPUS", lambda row: str(row.node.gpus), "gpus", "allocatable GPUs", lambda row: row.node.gpus, COMMAND,
               right=True),
        Column("USED", lambda row: str(row.used), "used", "GPUs requested by its pods", lambda row: row.used, COMMAND,
               right=True),
        Column("FREE", lambda row: str(row.free) if row.pips else "", "free", "GPUs a new pod could have now",
               lambda row: row.free, width=5, right=True, sort=True, down=True),
        Column("JOBS", lambda row: row.jobs, "jobs", "JobSets with pods on it", lambda row: row.jobsets, least=6,
               most=40, drop=3, cut="middle", sort=lambda row: row.jobs),
        Column("PODS", lambda row: str(row.pods), only=PAGE, width=5, right=True, drop=4, sort=lambda row: row.pods,
               down=True),
        Column("BUSBW GB/s", lambda row: busbw_cell(row.node, row.bandwidth), "last_busbw",
               "bus bandwidth in its last NCCL health scan, GB/s; on the page in its last NCCL test, where one is kept",
               lambda row: row.node.last_busbw, width=10, right=True, drop=7,
               sort=lambda row: row.bandwidth.last if row.bandwidth else row.node.last_busbw or 0.0, down=True),
        Column("STATE", lambda row: node_state(row.node, SERVER_CLOCK.now()), fill=True, least=10, ages=True,
               sort=lambda row: (not row.faults, not row.node.maintenance_at, not row.node.cordoned)),
        fact("starting", "whether it was made a while ago and never ready so far", lambda row: row.is_starting),
        fact("not_ready", "why it is not ready, in the words of its Ready condition; empty: it is",
             lambda row: row.node.not_ready_reason),
        fact("faults", "what is wrong with it", lambda row: row.faults),
        fact("fault_reports", "the same: fault, by (who reported it), since (seconds since the epoch, or null)",
             lambda row: [{"fault": each.words, "by": each.by, "since": each.since or None}
                          for each in row.node.fault_reports(row.snapshot_at)]),
        fact("maintenance_at", "when maintenance is scheduled, seconds since the epoch",
             lambda row: row.node.maintenance_at or None),
        fact("version", "kubelet version", lambda row: row.node.version),
        age_column("AGE", lambda row: row.node.created, *CREATED, drop=2),
    ),
)  # fmt: skip
