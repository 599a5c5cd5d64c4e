"""Defaults of pods and pod templates: as by the API server, priority, tolerations, service account token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from practice.admission.fields import invalid, qualified_name_faults, required_value, unsupported_value
from practice.admission.pod_faults import EFFECTS
from practice.clock import Clock, format_timestamp
from practice.objects.api_error import FieldCause, Object, forbidden_request
from practice.objects.resources import PODS, PRIORITYCLASSES, SERVICEACCOUNTS
from practice.objects.storage import Storage

_WAIT_SECONDS = 300
_EXTENDED_RESOURCE = "nvidia.com/gpu"


def default_spec(spec: Object) -> None:
    """Set the API server's defaults, for pods and pod templates."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        for kind in ("configMap", "secret"):
            if kind in volume:
                volume[kind].setdefault("defaultMode", 420)


def default_pod(pod: Object, storage: Storage, clock: Clock) -> None:
    """Set the defaults of pods only: priority, tolerations, scheduling gate condition, QoS class."""
    spec = pod["spec"]
    default_spec(spec)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _check_service_account(pod, storage)
    _set_priority(pod, storage)
    _mount_service_account_token(pod)
    for key in ("not-ready", "unreachable"):
        toleration = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        _add_toleration(spec, {**toleration, "tolerationSeconds": _WAIT_SECONDS})
    if any(_EXTENDED_RESOURCE in _requests_of(container) for container in spec["containers"]):
        there, wanted = spec["tolerations"], {"key": _EXTENDED_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
        spec["tolerations"] = there if wanted in there else [*there, wanted]
    status = pod.setdefault("status", {})
    status["qosClass"] = _qos_class(spec)
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_timestamp(clock.now()),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [gated]


def quantities_as_text(resources: Object) -> None:
    """Convert quantities to strings, as the API server stores them."""
    for side in ("limits", "requests"):
        if resources.get(side):
            resources[side] = {name: str(value) for name, value in resources[side].items()}


def _default_container(container: Object) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = tag in ("", "latest") and "@" not in image
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    quantities_as_text(resources)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def taint_faults(taints: Iterable[Object], path: str) -> list[FieldCause]:
    """Return the faults of a node's taints."""
    faults: list[FieldCause] = []
    for at, taint in enumerate(taints):
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        faults += [invalid(f"{path}[{at}].key", key, why) for why in qualified_name_faults(key)]
        if not effect:
            faults.append(required_value(f"{path}[{at}].effect"))
        elif effect not in EFFECTS:
            faults.append(unsupported_value(f"{path}[{at}].effect", effect, EFFECTS))
    return faults


def _requests_of(container: Object) -> dict[str, Any]:
    return (container.get("resources") or {}).get("requests") or {}


def _mount_service_account_token(pod: Object) -> None:
    """Mount the service account's token, as the API server does."""
    spec = pod["spec"]
    name = f"kube-api-access-{pod['metadata']['uid'][:5]}"
    if spec.get("automountServiceAccountToken") is False:
        return
    items = [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": items}},
    ]
    volume = {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _check_service_account(pod: Object, storage: Storage) -> None:
    name, namespace = pod["spec"]["serviceAccountName"], pod["metadata"]["namespace"]
    if storage.find(SERVICEACCOUNTS, namespace, name) is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden_request(PODS, _submitted_name(pod), why)


def _submitted_name(pod: Object) -> str:
    """The pod's name for admission plugins: the prefix of a generated name, which is completed only after them."""
    meta = pod["metadata"]
    return str(meta.get("generateName") or meta.get("name", ""))


def _set_priority(pod: Object, storage: Storage) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if not name:
        chosen = next((item for item in storage.list(PRIORITYCLASSES) if item.get("globalDefault")), None)
    else:
        chosen = storage.find(PRIORITYCLASSES, "", name)
        if chosen is None and not name.startswith("system-"):
            why = f"no PriorityClass with name {name} was found"
            raise forbidden_request(PODS, _submitted_name(pod), why)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["priority"] = int(chosen["value"]) if chosen is not None else 0
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _add_toleration(spec: Object, toleration: Object) -> None:
    """Add a toleration unless there is one for the same key and effect."""
    there = spec.setdefault("tolerations", [])
    effects = [found.get("effect") or "NoExecute" for found in there if found.get("key") == toleration["key"]]
    if toleration["effect"] not in effects:
        there.append(toleration)


def _qos_class(spec: Object) -> str:
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    asked = [container.get("resources") or {} for container in containers]
    if all(_is_guaranteed(item.get("limits") or {}, item.get("requests") or {}) for item in asked):
        return "Guaranteed"
    used = [item.get(side) or {} for item in asked for side in ("requests", "limits")]
    return "Burstable" if any("cpu" in side or "memory" in side for side in used) else "BestEffort"


def _is_guaranteed(limits: Object, requests: Object) -> bool:
    return all(limits.get(key) and limits[key] == requests.get(key) for key in ("cpu", "memory"))
