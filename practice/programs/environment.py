"""The environment of a container: values, references to fields, ConfigMaps and Secrets, and $(NAMES) in values."""

from __future__ import annotations

import base64
import re
from typing import Any

from practice.objects.resources import CONFIGMAPS, SECRETS
from practice.objects.storage import Storage

Object = dict[str, Any]
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class MissingReferenceError(Exception):
    """Raised if a ConfigMap, Secret or key of a container does not exist, so that it cannot be created."""


def build_environment(pod: Object, container: Object, storage: Storage) -> dict[str, str]:
    """Return the variables of a container; MissingReferenceError in the words of the kubelet."""
    found: dict[str, str] = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    for source in container.get("envFrom") or ():
        found |= _env_from_source(source, pod, storage)
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _resolve_reference(variable["valueFrom"], pod, container, storage)
            if value is not None:
                found[variable["name"]] = value
        else:
            found[variable["name"]] = _expand(str(variable.get("value", "")), found)
    return found


def expand_arguments(container: Object, env: dict[str, str]) -> list[str]:
    return [_expand(str(part), env) for part in (*(container.get("command") or ()), *(container.get("args") or ()))]


def find_missing_volume(pod: Object, storage: Storage) -> str:
    """Return why a volume of a pod cannot be mounted, empty when all can."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for kind, resource, field in (("configMap", CONFIGMAPS, "name"), ("secret", SECRETS, "secretName")):
            source = volume.get(kind)
            if source and not source.get("optional") and storage.find(resource, namespace, source[field]) is None:
                thing = f'{kind.lower()} "{source[field]}" not found'
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {thing}'
    return ""


def _expand(text: str, env: dict[str, str]) -> str:
    return _REFERENCE.sub(lambda match: env.get(match[1], match[0]), text)


def _resolve_reference(source: Object, pod: Object, container: Object, storage: Storage) -> str | None:
    if "fieldRef" in source:
        return _downward_field(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        name = source["resourceFieldRef"]["resource"]
        side, _, resource = name.partition(".")
        return str(((container.get("resources") or {}).get(side) or {}).get(resource, "0"))
    for kind, resource, word in (("configMapKeyRef", CONFIGMAPS, "configmap"), ("secretKeyRef", SECRETS, "secret")):
        if kind not in source:
            continue
        wanted = source[kind]
        holder = storage.find(resource, pod["metadata"]["namespace"], wanted["name"])
        values = _decoded_data(holder) if holder is not None else {}
        if wanted["key"] in values:
            return values[wanted["key"]]
        if wanted.get("optional"):
            return None
        if holder is None:
            raise MissingReferenceError(f'{word} "{wanted["name"]}" not found')
        place = f"{pod['metadata']['namespace']}/{wanted['name']}"
        raise MissingReferenceError(f"couldn't find key {wanted['key']} in {resource.kind} {place}")
    return None


def _downward_field(path: str, pod: Object) -> str:
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str((pod["metadata"].get(subscript[1]) or {}).get(subscript[2], ""))
    value: Any = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _env_from_source(source: Object, pod: Object, storage: Storage) -> dict[str, str]:
    for kind, resource in (("configMapRef", CONFIGMAPS), ("secretRef", SECRETS)):
        if kind in source:
            holder = storage.find(resource, pod["metadata"]["namespace"], source[kind]["name"])
            if holder is not None:
                prefix = source.get("prefix", "")
                return {prefix + key: value for key, value in _decoded_data(holder).items()}
            if not source[kind].get("optional"):
                raise MissingReferenceError(f'{resource.kind.lower()} "{source[kind]["name"]}" not found')
    return {}


def _decoded_data(holder: Object) -> dict[str, str]:
    data = holder.get("data") or {}
    if holder["kind"] != "Secret":
        return {key: str(value) for key, value in data.items()}
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
