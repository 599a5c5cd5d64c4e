"""Label selectors, taints and tolerations: requirements of pods on nodes, and of queues on namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

_INT64_DIGITS = 19
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_CONDITION_PREFIX = "node.kubernetes.io/"  # taints of a node's present state, which come and go


class Requirement(Struct, frozen=True):
    """One condition of a label selector."""

    key: str
    operator: str = "In"  # or NotIn, Exists, DoesNotExist; of nodes Gt and Lt too
    values: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        listed = "|".join(self.values)
        return {
            "In": f"{self.key}={listed}",
            "NotIn": f"{self.key} other than {listed}",
            "Exists": f"label {self.key}",
            "DoesNotExist": f"no label {self.key}",
        }.get(self.operator, f"{self.key} {self.operator} {listed}".strip())

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels, which must be complete, satisfy this requirement."""
        if self.operator in {"Exists", "DoesNotExist"}:
            return (self.key in labels) is (self.operator == "Exists")
        if self.operator in {"Gt", "Lt"}:
            value, limit = labels.get(self.key, ""), self.values[0] if self.values else ""
            if not (value.isdecimal() and limit.isdecimal() and len(value) < _INT64_DIGITS > len(limit)):
                return False
            return int(value) > int(limit) if self.operator == "Gt" else int(value) < int(limit)
        return (labels.get(self.key) in self.values) is (self.operator == "In")


class Toleration(Struct, frozen=True):
    """A toleration of a pod; an empty key with operator Exists tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: str) -> bool:
        marked, _, effect = taint.rpartition(":")
        key, _, value = marked.partition("=")
        if self.effect not in {"", effect} or self.key not in {"", key}:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == value)


def first_untolerated_taint(
    taints: Iterable[str], tolerations: Sequence[Toleration], *, ignore_condition_taints: bool = False
) -> str:
    """The first NoSchedule or NoExecute taint ("key=value:effect") that no toleration covers; "" if there is none."""
    for taint in taints:
        if ignore_condition_taints and taint.startswith(_CONDITION_PREFIX):
            continue
        if taint.rpartition(":")[2] in _REPELLING and not any(each.tolerates(taint) for each in tolerations):
            return taint
    return ""
