"""Validation of pods and pod templates, worded and ordered as by the API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from practice.admission.fields import (
    duplicate_value,
    forbidden_value,
    invalid,
    label_value_faults,
    not_found,
    port_name_faults,
    qualified_name_faults,
    required_value,
    rfc1123_label_faults,
    subdomain_faults,
    unsupported_value,
)
from practice.controllers.quantity import parse_milli
from practice.objects.api_error import FieldCause, Object

EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
_RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_DNS_POLICIES = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_MAX_SECONDS = 2147483647
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_LABEL_AND_ANNOTATION_PATHS = ("metadata.labels['", "metadata.annotations['")
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGEPAGES_PREFIX = "hugepages-"
_VARIABLE_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_VOLUME_FIELDS = {"persistentVolumeClaim": "claimName", "hostPath": "path", "csi": "driver"}
"""By kind of volume the field that it must have."""


def pod_faults(spec: Object, path: str, *, template: bool) -> Iterator[FieldCause]:
    """Yield the faults of a pod spec; some rules apply to pods but not to templates."""
    volumes: set[str] = set()
    for at, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume_causes(volume, f"{path}.volumes[{at}]", volumes)
        volumes.add(volume.get("name") or "")
    yield from _containers_causes(spec, path, volumes, template=template)
    yield from _enum_causes(spec, "restartPolicy", _RESTART_POLICIES, path)
    yield from _enum_causes(spec, "dnsPolicy", _DNS_POLICIES, path)
    for value in (spec.get("nodeSelector") or {}).values():
        yield from (invalid(f"{path}.nodeSelector", value, why) for why in label_value_faults(value))
    yield from _host_port_causes(spec, path)
    yield from _node_affinity_causes(spec, path)
    if name := spec.get("serviceAccountName"):
        yield from (invalid(f"{path}.serviceAccountName", name, why) for why in subdomain_faults(name))
    for at, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_causes(toleration, f"{path}.tolerations[{at}]")
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _MAX_SECONDS:
        yield invalid(f"{path}.activeDeadlineSeconds", seconds, f"must be between 1 and {_MAX_SECONDS}, inclusive")


def _containers_causes(spec: Object, path: str, volumes: set[str], *, template: bool) -> Iterator[FieldCause]:
    if not spec.get("containers"):
        yield required_value(f"{path}.containers")
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(kind) or ()):
            place, name = f"{path}.{kind}[{at}]", container.get("name") or ""
            yield from _container_causes(container, place, volumes, template=template)
            if name in names:
                yield duplicate_value(f"{place}.name", name)
            names.add(name)


def template_faults(meta: Object, path: str) -> Iterator[FieldCause]:
    """Yield the faults in labels and annotations of a pod template."""
    for value in (meta.get("labels") or {}).values():
        yield from (invalid(f"{path}.labels", value, why) for why in label_value_faults(value))
    for key in meta.get("annotations") or {}:
        yield from (invalid(f"{path}.annotations", key, why) for why in qualified_name_faults(key.lower()))


def _enum_causes(node: Object, name: str, allowed: list[str], path: str) -> Iterator[FieldCause]:
    if node.get(name) is not None and node[name] not in allowed:
        yield unsupported_value(f"{path}.{name}", str(node[name]), allowed)


def _volume_causes(volume: Object, path: str, volume_names: set[str]) -> Iterator[FieldCause]:
    kinds = [kind for kind in volume if kind != "name"]
    for kind in kinds[1:]:
        yield forbidden_value(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in kinds[:1]:
        field = _VOLUME_FIELDS.get(kind)
        if field and not (volume[kind] or {}).get(field):
            yield required_value(f"{path}.{kind}.{field}")
    name = volume.get("name") or ""
    if not name:
        yield required_value(f"{path}.name")
        return
    yield from (invalid(f"{path}.name", name, why) for why in rfc1123_label_faults(name))
    if name in volume_names:
        yield duplicate_value(f"{path}.name", name)


def _container_causes(container: Object, path: str, volumes: set[str], *, template: bool) -> Iterator[FieldCause]:
    name, image = container.get("name") or "", str(container.get("image") or "")
    if not name:
        yield required_value(f"{path}.name")
    else:
        yield from (invalid(f"{path}.name", name, why) for why in rfc1123_label_faults(name))
    if not image:
        yield required_value(f"{path}.image")
    elif image != image.strip() and not template:
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _port_causes(container.get("ports") or (), f"{path}.ports")
    for at, variable in enumerate(container.get("env") or ()):
        yield from _variable_causes(variable, f"{path}.env[{at}]")
    yield from _mount_causes(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from _enum_causes(container, "imagePullPolicy", _PULL_POLICIES, path)
    yield from _resources_causes(container.get("resources") or {}, f"{path}.resources")


def _port_causes(ports: Any, path: str) -> Iterator[FieldCause]:
    names: set[str] = set()
    for at, port in enumerate(ports):
        place, name, number = f"{path}[{at}]", port.get("name") or "", port.get("containerPort") or 0
        if name:
            yield from (invalid(f"{place}.name", name, why) for why in port_name_faults(name))
            if name in names:
                yield duplicate_value(f"{place}.name", name)
            names.add(name)
        if not number:
            yield required_value(f"{place}.containerPort")
        for kind in ("containerPort", "hostPort"):
            if port.get(kind) and not 1 <= port[kind] <= 65535:
                yield invalid(f"{place}.{kind}", port[kind], "must be between 1 and 65535, inclusive")
        yield from _enum_causes(port, "protocol", _PROTOCOLS, place)


def _host_port_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    for at, container in enumerate((spec.get("containers") or ()) if spec.get("hostNetwork") else ()):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}.containers[{at}].ports[{number}].hostPort", port["hostPort"], text)


def _variable_causes(variable: Object, path: str) -> Iterator[FieldCause]:
    name = variable.get("name") or ""
    if not name:
        yield required_value(f"{path}.name")
    elif not (name.isascii() and name.isprintable()) or "=" in name:
        yield invalid(f"{path}.name", name, _VARIABLE_NAME)
    if variable.get("valueFrom") is not None:
        yield from _value_source_causes(variable, f"{path}.valueFrom")


def _value_source_causes(variable: Object, path: str) -> Iterator[FieldCause]:
    source = variable["valueFrom"]
    given = [kind for kind in _VALUE_SOURCES if source.get(kind)]
    if not given:
        *most, last = (f"`{kind}`" for kind in _VALUE_SOURCES)
        yield invalid(path, "", f"must specify one of: {', '.join(most)} or {last}")
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in given and not source[kind].get("key"):
            yield required_value(f"{path}.{kind}.key")
    if "fieldRef" in given:
        yield from _field_path_causes(source["fieldRef"].get("fieldPath") or "", f"{path}.fieldRef.fieldPath")


def _field_path_causes(name: str, path: str) -> Iterator[FieldCause]:
    if not name:
        yield required_value(path)
    elif name not in _FIELDS and not (name.startswith(_LABEL_AND_ANNOTATION_PATHS) and name.endswith("']")):
        yield invalid(path, name, f"error converting fieldPath: field label not supported: {name}")


def _mount_causes(mounts: Any, path: str, volumes: set[str]) -> Iterator[FieldCause]:
    taken: set[str] = set()
    for at, mount in enumerate(mounts):
        place, name, where = f"{path}[{at}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required_value(f"{place}.name")
        if name not in volumes:
            yield not_found(f"{place}.name", name)
        if not where:
            yield required_value(f"{place}.mountPath")
        if where in taken:
            yield invalid(f"{place}.mountPath", where, "must be unique")
        taken.add(where)
        below = mount.get("subPath") or ""
        if below.startswith("/"):
            yield invalid(f"{path}.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield invalid(f"{path}.subPath", below, "must not contain '..'")


def _resources_causes(resources: Object, path: str) -> Iterator[FieldCause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        yield from _quantity_causes(name, str(value), f"{path}.limits[{name}]")
    for name, value in requests.items():
        yield from _quantity_causes(name, str(value), f"{path}.requests[{name}]")
        if name not in limits:
            if "/" in name:
                yield required_value(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif "/" in name and parse_milli(str(value)) != parse_milli(str(limits[name])):
            yield invalid(f"{path}.requests", str(value), f"must be equal to {name} limit of {limits[name]}")
        elif "/" not in name and parse_milli(str(value)) > parse_milli(str(limits[name])):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid(f"{path}.requests", str(value), text)


def _quantity_causes(name: str, value: str, path: str) -> Iterator[FieldCause]:
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_HUGEPAGES_PREFIX):
        yield invalid(path, name, "must be a standard resource type or fully qualified")
        yield invalid(path, name, "must be a standard resource for containers")
        return
    yield from (invalid(path, name, why) for why in (qualified_name_faults(name) if "/" in name else ()))
    amount = parse_milli(value)
    if amount < 0:
        yield invalid(path, value, "must be greater than or equal to 0")
    if "/" in name and amount % 1000:
        yield invalid(path, f"{amount}m", "must be an integer")


def _node_affinity_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    wanted = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(rule)
    if wanted is None:
        return
    place = f"{path}.affinity.nodeAffinity.{rule}.nodeSelectorTerms"
    if not wanted.get("nodeSelectorTerms"):
        yield required_value(place, "must have at least one node selector term")
    for at, term in enumerate(wanted.get("nodeSelectorTerms") or ()):
        for number, one in enumerate(term.get("matchExpressions") or ()):
            if one.get("operator") in ("In", "NotIn") and not one.get("values"):
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required_value(f"{place}[{at}].matchExpressions[{number}].values", text)


def _toleration_causes(toleration: Object, path: str) -> Iterator[FieldCause]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    yield from (invalid(f"{path}.key", key, why) for why in (qualified_name_faults(key) if key else ()))
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, text)
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.get("effect", ""), text)
    if toleration.get("effect") and toleration["effect"] not in EFFECTS:
        yield unsupported_value(f"{path}.effect", toleration["effect"], EFFECTS)


_POD_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
}
"""By list of a pod spec the key fields that must be unique among its items, as custom kinds define."""
_CONTAINER_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
}


def duplicate_key_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """Yield list items with a duplicate key, which custom kinds with pod templates refuse."""
    for name, keys in _POD_LIST_KEYS.items():
        yield from _duplicate_item_causes(spec.get(name) or (), keys, f"{path}.{name}")
    for kind in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(kind) or ()):
            for name, keys in _CONTAINER_LIST_KEYS.items():
                yield from _duplicate_item_causes(container.get(name) or (), keys, f"{path}.{kind}[{at}].{name}")


def _duplicate_item_causes(items: Any, keys: tuple[str, ...], path: str) -> Iterator[FieldCause]:
    seen: list[Object] = []
    for at, item in enumerate(items):
        mark = {key: item[key] for key in keys if key in item}
        if mark in seen:
            yield duplicate_value(f"{path}[{at}]", mark)
        seen.append(mark)
