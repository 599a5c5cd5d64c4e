"""Nodes, pods and node pools in words: state, place, GPUs, and what Google has under way (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.google.node_pools import kind_words, operation_sentence, operation_words
from screens.columns.google import POOL_GLYPHS
from screens.widgets.table.progress_rows import operation_row, request_row
from screens.wording import BAD, OK, WAITS, Span, count, sentence

if TYPE_CHECKING:
    from console.google.node_pools import PoolFacts, PoolsSnapshot
    from console.kube.objects.node import Node


def facts_runs(facts: PoolFacts, picture: PoolsSnapshot) -> tuple[Span, ...]:
    """State, sizes and settings of a pool, the most urgent first."""
    pool = facts.pool
    runs = [POOL_GLYPHS[facts.state], Span(f" Google: {pool.status.lower().replace('_', ' ')}   ", "strong")]
    if facts.target is not None:
        runs.append(Span(f"{facts.ready} of {count(facts.target, 'wanted node')} ready   ", "text"))
    rows = {operation_words(each, facts.nodes) for each in facts.operations}  # they stand below, with their bars
    said = [text for text in facts.sentences if text not in rows and not facts.failed]
    runs += [Span(f"{sentence(text)}   ", "bad" if facts.state == "bad" else "waits") for text in said]
    parts = [
        f"autoscaling {facts.limits}" if pool.autoscaling else "no autoscaling",
        facts.how,
        f"{pool.placement.lower()} placement" if pool.placement else "",
        f"upgrades {pool.surge} more, {pool.unavailable} fewer at a time" if pool.auto_upgrade else "no auto-upgrade",
        "auto-repair" if pool.auto_repair else "no auto-repair",
        pool.version,
        f"maintenance {picture.cluster.maintenance}" if picture.cluster.maintenance else "maintenance at any time",
    ]
    runs.append(Span(" · ".join(part for part in parts if part), "dim"))
    runs += [Span(f"   {name} not known: {sentence(why)}", "waits") for name, why in picture.unread]
    return tuple(runs)


def rows_of(facts: PoolFacts, picture: PoolsSnapshot, now: float) -> list[tuple[Span, ...]]:
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


def failed_row(node: Node) -> tuple[Span, ...]:
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
    return (
        glyph,
        Span(f" {node.name} ", "text"),
        Span(f"reported faulty ({node.fault}): ", "dim"),
        Span(words, "waits"),
    )
