"""API discovery: versions, groups, resources, and the part of OpenAPI that kubectl and Helm need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from practice.api.paths_and_versions import SERVED, ServedKind, no_such_path
from practice.api.visibility import GROUP as VISIBILITY, VERSIONS as VISIBILITY_VERSIONS
from practice.objects.api_error import ApiError, Object

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.4-gke.1047000",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS = ("get", "patch", "update")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_JSON = "application/json"
_POD_SUBRESOURCES = (
    ("attach", "PodAttachOptions", ("create", "get")),
    ("binding", "Binding", ("create",)),
    ("eviction", "Eviction", ("create",)),
    ("exec", "PodExecOptions", ("create", "get")),
    ("log", "Pod", ("get",)),
    ("portforward", "PodPortForwardOptions", ("create", "get")),
)
_REVIEWS = {
    "authentication.k8s.io": (("selfsubjectreviews", "SelfSubjectReview"),),
    "authorization.k8s.io": (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ),
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a discovery answer: a resource, or a subresource if its name has a slash."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@cache
def _group_entries() -> dict[str, dict[str, list[_Entry]]]:
    """Return group -> version -> entries, the preferred version first."""
    groups: dict[str, dict[str, list[_Entry]]] = {"": {"v1": []}}
    for (group, version, _), served in SERVED.items():
        groups.setdefault(group, {}).setdefault(version, []).extend(_entries_of_kind(served))
    for group, reviews in _REVIEWS.items():
        groups[group] = {"v1": [_Entry(name, kind, False, ("create",), kind.lower()) for name, kind in reviews]}
    kind = "PendingWorkloadsSummary"
    for version in VISIBILITY_VERSIONS:
        groups.setdefault(VISIBILITY, {})[version] = [
            _Entry("clusterqueues/pendingworkloads", kind, False, ("get",)),
            _Entry("localqueues/pendingworkloads", kind, True, ("get",)),
        ]
    return groups


def _entries_of_kind(served: ServedKind) -> list[_Entry]:
    one = served.resource
    found = [_Entry(one.plural, one.kind, one.namespaced, _ALL_VERBS, one.singular, one.short_names, one.categories)]
    if one.status:
        found.append(_Entry(f"{one.plural}/status", one.kind, one.namespaced, _STATUS))
    if one.plural == "pods":
        found += [_Entry(f"pods/{name}", kind, True, verbs) for name, kind, verbs in _POD_SUBRESOURCES]
    return found


def answer_discovery(path: str, accept: str) -> tuple[Object, int, str]:
    """Return body, HTTP status and content type for a discovery path. Raises ApiError 404 for any other."""
    parts = path.strip("/").split("/")
    if parts[0] == "openapi":
        return _openapi_answer(parts[1:], accept), 200, _JSON
    if parts in (["api"], ["apis"]) and "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
        return _aggregated_discovery(core=parts == ["api"]), 200, _AGGREGATED
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, 200, _JSON
    if parts == ["apis"]:
        listed = [_api_group(name) for name in _group_entries() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}, 200, _JSON
    if parts == ["api", "v1"]:
        return _resource_list("", "v1"), 200, _JSON
    if len(parts) == 2 and parts[0] == "apis" and parts[1] in _group_entries():
        return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(parts[1])}, 200, _JSON
    if len(parts) == 3 and parts[0] == "apis" and parts[2] in _group_entries().get(parts[1], {}):
        return _resource_list(parts[1], parts[2]), 200, _JSON
    raise no_such_path()


def _api_group(name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _group_entries()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> Object:
    resources = []
    for entry in _group_entries()[group][version]:
        line: Object = {
            "name": entry.name,
            "singularName": entry.singular,
            "namespaced": entry.namespaced,
            "kind": entry.kind,
            "verbs": list(entry.verbs),
        }
        if entry.kind == "Eviction":
            line |= {"group": "policy", "version": "v1"}
        if entry.short_names:
            line["shortNames"] = list(entry.short_names)
        if entry.categories:
            line["categories"] = list(entry.categories)
        resources.append(line)
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _aggregated_discovery(*, core: bool) -> Object:
    items = []
    for group, versions in _group_entries().items():
        if core != (group == ""):
            continue
        listed = [
            {"version": version, "resources": _aggregated_resources(group, version, entries), "freshness": "Current"}
            for version, entries in versions.items()
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resources(group: str, version: str, entries: list[_Entry]) -> list[Object]:
    resources: dict[str, Object] = {}
    for entry in entries:
        plural, _, subresource = entry.name.partition("/")
        scope = "Namespaced" if entry.namespaced else "Cluster"
        kind = {"group": group, "version": version, "kind": entry.kind}
        if not subresource:
            resources[plural] = {
                "resource": plural,
                "responseKind": kind,
                "scope": scope,
                "singularResource": entry.singular,
                "verbs": list(entry.verbs),
                "shortNames": list(entry.short_names),
                "categories": list(entry.categories),
            }
            continue
        line = {"subresource": subresource, "responseKind": kind, "verbs": list(entry.verbs)}
        parent = resources.setdefault(
            plural, {"resource": plural, "scope": scope, "singularResource": "", "verbs": [], "responseKind": None}
        )
        parent.setdefault("subresources", []).append(line)
    return list(resources.values())


def _openapi_answer(parts: list[str], accept: str) -> Object:
    if parts == ["v2"]:
        if "json" not in accept and "*/*" not in accept:
            raise ApiError(406, "NotAcceptable", "only the following media types are accepted: application/json")
        return {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.4"}, "paths": {}, "definitions": {}}
    if parts[:1] != ["v3"]:
        raise no_such_path()
    names = {
        f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
        for group, versions in _group_entries().items()
        for version in versions
    }
    if len(parts) == 1:
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=practice"} for name in names}}
    found = names.get("/".join(parts[1:]))
    if found is None:
        raise no_such_path()
    return _openapi_document(*found)


def _openapi_document(group: str, version: str) -> Object:
    """Return the OpenAPI document of a group version: which kinds exist, and that PATCH takes fieldValidation."""
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    paths, schemas = {}, {}
    for entry in _group_entries()[group][version]:
        if "/" in entry.name or "patch" not in entry.verbs:
            continue
        kind = {"group": group, "version": version, "kind": entry.kind}
        scope = "/namespaces/{namespace}" if entry.namespaced else ""
        operation = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind, "parameters": parameters}
        operation["responses"] = {"200": {"description": "OK"}}
        paths[f"{prefix}{scope}/{entry.name}/{{name}}"] = {"patch": operation}
        schema = {"type": "object", "x-kubernetes-group-version-kind": [kind]}
        schemas[f"practice.{group or 'core'}.{version}.{entry.kind}"] = schema
    info = {"title": "Kubernetes", "version": "v1.36.4"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
