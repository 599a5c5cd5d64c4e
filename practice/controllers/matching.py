"""Whether a pod may run on a node: taints and tolerations, node selectors and affinity."""

from __future__ import annotations

from collections.abc import Iterable

from practice.controllers.objects import Object, labels_of

_SCHEDULING_EFFECTS = ("NoSchedule", "NoExecute")


def is_tolerated(tolerations: Iterable[Object], taint: Object) -> bool:
    """Whether one of the tolerations matches the taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator", "Equal") == "Exists":
            return True
        if toleration.get("key") and toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def first_untolerated_taint(taints: Iterable[Object] | None, tolerations: Iterable[Object] | None) -> Object | None:
    """Return the first taint that no toleration matches, of those that affect scheduling; None if there is none."""
    kept = list(tolerations or ())
    for taint in taints or ():
        if taint["effect"] in _SCHEDULING_EFFECTS and not is_tolerated(kept, taint):
            return taint
    return None


def format_taint(taint: Object) -> str:
    """Return a taint as logs write it: ``key=value:NoSchedule``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def node_matches_spec(spec: Object, node: Object) -> bool:
    """Whether the node selector and the required node affinity of a pod spec allow a node."""
    marks = labels_of(node)
    if any(marks.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not required:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def requirement_matches(requirement: Object, labels: dict[str, str]) -> bool:
    """Whether one match expression (In, NotIn, Exists, DoesNotExist, Gt, Lt) holds for labels."""
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def selector_matches(selector: Object | None, labels: dict[str, str]) -> bool:
    """Whether a label selector matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(requirement_matches(item, labels) for item in selector.get("matchExpressions") or ())


def _term_matches(term: Object, node: Object) -> bool:
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(requirement_matches(item, labels_of(node)) for item in term.get("matchExpressions") or ()) and all(
        requirement_matches(item, fields) for item in term.get("matchFields") or ()
    )
