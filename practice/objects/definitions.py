"""The CustomResourceDefinitions of the served custom kinds, for tools that look for them."""

from __future__ import annotations

from practice.objects.api_error import Object
from practice.objects.resources import CUSTOMRESOURCEDEFINITIONS, RESOURCES, Resource
from practice.objects.storage import Storage


def define_custom_kinds(storage: Storage) -> None:
    """Store a definition for every custom kind that has none yet."""
    for resource in RESOURCES:
        if resource.is_custom and storage.find(CUSTOMRESOURCEDEFINITIONS, "", resource.qualified) is None:
            storage.create(CUSTOMRESOURCEDEFINITIONS, _make_definition(resource), keep_status=True)


def _make_definition(resource: Resource) -> Object:
    names: Object = {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": version, "served": True, "storage": version == resource.version, "schema": schema}
        for version in resource.versions
    ]
    if resource.status:
        for version in versions:
            version["subresources"] = {"status": {}}
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    return {
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": versions,
            "conversion": {"strategy": "None"},
        },
        "status": {"acceptedNames": names, "conditions": conditions, "storedVersions": [resource.version]},
    }
