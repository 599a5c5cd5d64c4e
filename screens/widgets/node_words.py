"""Nodes, pods and node pools in words: state, place, GPUs, and what Google has under way (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.google.node_pools import kind_words, operation_sentence, operation_words
from screens.widgets.table.progress_rows import operation_row, request_row
from screens.wording import BAD, CARE, IDLE, OK, WAITS, Run, count, duration, sentence

if TYPE_CHECKING:
    from console.google.node_pools import PoolFacts, PoolsSnapshot
    from console.kube.objects.node import Node
    from console.metrics.nccl.history import NodeBandwidth
    from console.scheduling.pools import Pool


FALLEN = 0.1  # a bandwidth that fell by more than this share is bad


def maintenance_words(at: float, now: float, *, active: bool) -> str:
    if active:
        return "maintenance under way"
    return f"maintenance in {duration(at - now)}" if at > now else "maintenance due"


def node_state(node: Node, now: float) -> list[Run]:
    """What a node is good for now, worst first."""
    runs: list[Run] = []
    if node.starts(now):
        why = f": {sentence(node.not_ready_reason)}" if node.not_ready_reason else ""
        runs += [WAITS, Run(f" starting, made {duration(now - node.created)} ago{why}  ", "waits")]
    faults = [fault for fault in node.faults(now) if not (node.maintenance_active and "maintenance" in fault)]
    if faults:
        runs += [BAD, Run(f" {sentence('; '.join(faults))}  ", "bad")]
    if node.maintenance_active or node.maintenance_at:
        words = maintenance_words(node.maintenance_at, now, active=node.maintenance_active)
        runs += [CARE, Run(f" {words}  ", "waits")]
    if node.cordoned:
        runs += [Run("‖ cordoned  ", "waits")]
    return runs or [OK, Run(" ready", "dim")]


def pool_state(pool: Pool, now: float) -> list[Run]:
    """What is wrong in a pool, or that nothing is."""
    runs: list[Run] = []
    away = [node for node in pool.nodes if not node.ready]
    starting = len(pool.starting)
    if len(away) > starting:
        runs += [BAD, Run(f" {len(away) - starting} not ready  ", "bad")]
    if starting:
        runs += [WAITS, Run(f" {starting} starting  ", "waits")]
    faulty = {node for node, _ in pool.faults} - {node.name for node in away} - _in_maintenance(pool, now)
    if faulty:
        runs += [BAD, Run(f" {len(faulty)} faulty  ", "bad")]
    if pool.maintenance:
        first = min(pool.maintenance, key=lambda each: (not each.active, each.at))
        words = maintenance_words(first.at, now, active=first.active)
        runs += [CARE, Run(f" {count(len(pool.maintenance), 'node')}: {words}  ", "waits")]
    cordoned = sum(node.cordoned for node in pool.nodes)
    if cordoned:
        runs += [Run(f"‖ {cordoned} cordoned  ", "waits")]
    runs += _google(pool)
    return runs or [OK, Run(" ready", "dim")]


def _google(pool: Pool) -> list[Run]:
    """What Google says of a pool, where it was asked: all of it where there is no node to tell more."""
    facts = pool.facts
    if facts is None or (pool.nodes and facts.state == "ok"):
        return []  # what failed and is over stands on the pool's page
    glyph = {"ok": IDLE, "busy": WAITS, "bad": BAD}[facts.state]
    ink = {"ok": "dim", "busy": "waits", "bad": "bad"}[facts.state]
    said = [sentence(text).rstrip(".") for text in facts.sentences]
    if not pool.nodes and not said:
        said = [_empty(pool)]
    return [glyph, Run(f" {'; '.join(said)}  ", ink)] if said else []


def _empty(pool: Pool) -> str:
    """Why a pool that is well has no machine."""
    assert pool.facts is not None
    google = pool.facts.pool
    if pool.requests:
        return f"no machine yet: {count(pool.requests, 'request')} to DWS {'waits' if pool.requests == 1 else 'wait'}"
    if google.queued or google.flex_start:
        return "no machine: they come from DWS when a job asks"
    if google.autoscaling:
        return f"no machine: up to {google.most} come when a job asks"
    return "no machine"


def _in_maintenance(pool: Pool, now: float) -> set[str]:
    return {node.name for node in pool.nodes if node.maintenance_active and len(node.faults(now)) == 1}


def gpu_bar(pool: Pool, width: int) -> list[Run]:
    """Used, out of use and free GPUs as one bar, with the figures behind it."""
    total = pool.gpus_total
    if not total:
        return []
    figures = f" {pool.gpus_used}/{total}"
    room = width - len(figures)
    if room < 4:
        return [Run(figures.strip())]
    used = _columns(pool.gpus_used, total, room)
    out = min(room - used, _columns(pool.gpus_out, total, room))
    return [Run("█" * used, "accent"), Run("▒" * out, "bad"), Run("░" * (room - used - out), "faint"), Run(figures)]


def _columns(part: int, whole: int, width: int) -> int:
    if not part:
        return 0
    return max(1, min(width if part >= whole else width - 1, round(width * part / whole)))


def busbw_cell(node: Node, measured: NodeBandwidth | None) -> list[Run]:
    """GB/s of the last test that this node took part in, with its trend; else of the last health scan."""
    if measured is not None:
        trend = measured.trend
        ink = "bad" if trend is not None and trend < -FALLEN else "ok" if measured.arrow == "↗" else "dim"
        return [Run(f"{measured.last:,.0f}"), Run(f" {measured.arrow or ' '}", ink)]
    return [Run(f"{node.last_busbw:,.0f}  ", "dim")] if node.last_busbw is not None else []


def busbw_words(measured: NodeBandwidth | None, now: float) -> list[Run]:
    """The same as a sentence: "367 GB/s ↘ 8 % under its median of 4 tests, in nccl-0412, 2 h ago"."""
    if measured is None:
        return []
    trend = measured.trend
    words = ""
    if trend is not None:
        share = f"{100 * abs(trend):.0f} % {'over' if trend > 0 else 'under'}" if measured.arrow != "→" else "as"
        words = f" {measured.arrow} {share} its median of {count(len(measured.values) - 1, 'test')} before"
    when = f", {duration(now - measured.at)} ago" if measured.at else ""
    ink = "bad" if trend is not None and trend < -FALLEN else ""
    where = f" in {measured.job}{when}" if measured.job else when
    return [Run(f"{measured.last:,.0f} GB/s{words}", ink), Run(where, "dim")]


GLYPHS = {"ok": OK, "busy": WAITS, "bad": BAD}


def facts_runs(facts: PoolFacts, picture: PoolsSnapshot) -> tuple[Run, ...]:
    """State, sizes and settings of a pool, the most urgent first."""
    pool = facts.pool
    runs = [GLYPHS[facts.state], Run(f" Google: {pool.status.lower().replace('_', ' ')}   ", "strong")]
    if facts.target is not None:
        runs.append(Run(f"{facts.ready} of {count(facts.target, 'wanted node')} ready   ", "text"))
    rows = {operation_words(each, facts.nodes) for each in facts.operations}  # they stand below, with their bars
    said = [text for text in facts.sentences if text not in rows and not facts.failed]
    runs += [Run(f"{sentence(text)}   ", "bad" if facts.state == "bad" else "waits") for text in said]
    parts = [
        f"autoscaling {facts.limits}" if pool.autoscaling else "no autoscaling",
        facts.how,
        f"{pool.placement.lower()} placement" if pool.placement else "",
        f"upgrades {pool.surge} more, {pool.unavailable} fewer at a time" if pool.auto_upgrade else "no auto-upgrade",
        "auto-repair" if pool.auto_repair else "no auto-repair",
        pool.version,
        f"maintenance {picture.cluster.maintenance}" if picture.cluster.maintenance else "maintenance at any time",
    ]
    runs.append(Run(" · ".join(part for part in parts if part), "dim"))
    runs += [Run(f"   {name} not known: {sentence(why)}", "waits") for name, why in picture.unread]
    return tuple(runs)


def rows_of(facts: PoolFacts, picture: PoolsSnapshot, now: float) -> list[tuple[Run, ...]]:
    """What is under way in this pool, then what is done to the cluster as a whole, then what failed last."""
    name = facts.pool.name
    rows = [
        operation_row(each, operation_sentence(each, name, facts.nodes).removeprefix(f"{name}: "), now)
        for each in facts.operations
    ]
    rows += [
        operation_row(each, sentence(operation_words(each)), now)
        for each in picture.operations
        if not each.over and not each.pool
    ]
    if facts.failed is not None:
        rows.append(operation_row(facts.failed, f"{kind_words(facts.failed.kind)} failed:", now))
    if facts.pool.queued or facts.pool.flex_start:
        rows += [request_row(each, now) for each in picture.requests]
    return rows


def failed_row(node: Node) -> tuple[Run, ...]:
    """A host that was reported as faulty, and how far its replacement is."""
    ended = node.repair.lower() in {"operationdone", "error"}
    glyph = BAD if node.repair.lower() == "error" else OK if ended else WAITS
    steps = {
        "podsevicted": "its pods are evicted",
        "operationrunning": "the host is being replaced",
        "operationdone": "it has been replaced",
        "error": "Google could not replace it",
    }
    words = steps.get(node.repair.lower(), node.repair or "Google has not taken it up yet")
    return (glyph, Run(f" {node.name} ", "text"), Run(f"reported faulty ({node.fault}): ", "dim"), Run(words, "waits"))
