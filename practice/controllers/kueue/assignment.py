"""Encodes and decodes topologyAssignment: domains compressed into slices with prefix, roots and suffix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from kueue_rules import Place
from practice.controllers.objects import Object


def encode_assignment(levels: Sequence[str], places: Sequence[Place]) -> Object:
    """Return a topologyAssignment (v1beta2) that has all domains in one slice."""
    counts = [pods for _, pods in places]
    columns = list(zip(*(values for values, _ in places), strict=True))
    same = len(set(counts)) == 1
    one: Object = {
        "domainCount": len(places),
        "valuesPerLevel": [_encode_level(column) for column in columns],
        "podCounts": {"universal": counts[0]} if same else {"individual": counts},
    }
    return {"levels": list(levels), "slices": [one]}


def decode_domains(assignment: Object) -> Iterator[Place]:
    """Yield the domains of a topologyAssignment: (values by level, number of pods)."""
    for one in assignment.get("slices") or ():
        counts = one["podCounts"]
        for at in range(one["domainCount"]):
            values = tuple(_level_value(level, at) for level in one["valuesPerLevel"])
            yield values, counts["universal"] if "universal" in counts else counts["individual"][at]


def _level_value(level: Object, index: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    parts = level["individual"]
    return f"{parts.get('prefix', '')}{parts['roots'][index]}{parts.get('suffix', '')}"


def _encode_level(values: Sequence[str]) -> Object:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_affix(values)
    suffix = _common_affix([value[::-1] for value in values])[::-1]
    shortest = min(len(value) for value in values)
    prefix = prefix[: max(shortest - len(suffix), 0)]
    parts: Object = {}
    if prefix:
        parts["prefix"] = prefix
    if suffix:
        parts["suffix"] = suffix
    parts["roots"] = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    return {"individual": parts}


def _common_affix(values: Sequence[str]) -> str:
    return "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*values, strict=False))
    )
