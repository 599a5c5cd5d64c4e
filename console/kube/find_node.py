"""Finds a node by its name or by the short one that screens show, such as a4-pool/0011 (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from console.errors import BadInput

if TYPE_CHECKING:
    from console.kube.objects.node import Node

MAX_NAMED_NODES = 8  # nodes that a refusal names


def find_node(nodes: Mapping[tuple[str, str], Node], word: str) -> Node | None:
    """The node of that name or short name; None if there is none, BadInput if several end so."""
    if ("", word) in nodes:
        return nodes["", word]
    pool, _, end = word.rpartition("/")
    # GKE puts eight hexadecimal digits between the name of the pool and the end.
    name = re.compile(
        rf"(?:.*-)?{re.escape(pool)}(?:-[0-9a-f]{{8}})?-{re.escape(end)}" if pool else rf".*-{re.escape(end)}"
    )
    found = [node for node in nodes.values() if end and "-" not in end and name.fullmatch(node.name)]
    if len(found) > 1:
        more = f" and {len(found) - MAX_NAMED_NODES} more" if len(found) > MAX_NAMED_NODES else ""
        names = ", ".join(sorted(node.name for node in found)[:MAX_NAMED_NODES])
        raise BadInput(f"{word} is the end of several nodes' names: {names}{more}.", "Give the whole name.")
    return found[0] if found else None
