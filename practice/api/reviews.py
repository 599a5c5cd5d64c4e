"""Reviews in which an account asks about itself: SelfSubjectAccessReview, RulesReview, SelfSubjectReview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from practice.api.schema import normalize_request

if TYPE_CHECKING:
    from practice.api.authn import AccessRule, Account
    from practice.api.paths_and_versions import ApiPath
    from practice.objects.api_error import Object

_REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
}


def is_review(target: ApiPath) -> bool:
    """Whether a POST to this path is an access or token review."""
    return target.version == "v1" and (target.group, target.plural) in _REVIEWS


def answer_review(target: ApiPath, body: Any, account: Account) -> Object:
    """Return the review with its answer in the status."""
    kind = _REVIEWS[target.group, target.plural]
    body = normalize_request(body, f"{target.group}/v1", kind)
    spec = body.get("spec") or {}
    status: Object
    if kind == "SelfSubjectAccessReview":
        status = _review_access(spec, account)
    elif kind == "SelfSubjectRulesReview":
        rules = [entry for rule in account.rules for entry in _rule_entries(rule)]
        status = {"resourceRules": rules, "nonResourceRules": [], "incomplete": False}
    else:
        status = {"userInfo": {"username": account.name, "groups": list(account.groups)}}
    answer: Object = {"kind": kind, "apiVersion": f"{target.group}/v1", "metadata": {}}
    if spec:
        answer["spec"] = spec
    return {**answer, "status": status}


def _rule_entries(rule: AccessRule) -> list[Object]:
    """Return a rule as RBAC lists it: one entry for the kinds of each API group."""
    groups: dict[str, list[str]] = {}
    for resource in sorted(rule.resources):
        qualified, slash, subresource = resource.partition("/")
        kind, _, group = qualified.partition(".")
        groups.setdefault("*" if resource == "*" else group, []).append(kind + slash + subresource)
    verbs = sorted(rule.verbs)
    return [{"verbs": verbs, "apiGroups": [group], "resources": kinds} for group, kinds in groups.items()]


def _review_access(spec: Object, account: Account) -> Object:
    asked = spec.get("resourceAttributes")
    if asked is None:
        return {"allowed": True}
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource = f"{resource}/{asked['subresource']}"
    if account.is_allowed(asked.get("verb", ""), asked.get("group", ""), resource):
        return {"allowed": True}
    return {"allowed": False}
