"""Kubectl's table columns of a pod: readiness, status, restarts, address and node."""

from __future__ import annotations

from practice.objects.api_error import Object


def pod_cells(pod: Object) -> list[str]:
    """Return name, ready, status, restarts, an empty age, and the wide columns."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    statuses = status.get("containerStatuses") or []
    ready = sum(1 for one in statuses if one.get("ready") and "running" in one.get("state", {}))
    restarts = sum(one.get("restartCount", 0) for one in statuses)
    gates = ", ".join(gate["conditionType"] for gate in spec.get("readinessGates") or [])
    return [
        str(pod["metadata"]["name"]),
        f"{ready}/{len(spec.get('containers') or [])}",
        pod_state(pod),
        str(restarts),
        "",
        str(status.get("podIP") or "<none>"),
        str(spec.get("nodeName") or "<none>"),
        str(status.get("nominatedNodeName") or "<none>"),
        gates or "<none>",
    ]


def pod_state(pod: Object) -> str:
    """Return kubectl's STATUS word: the phase, or a more specific reason."""
    status = pod.get("status", {})
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    starting = _waiting_state(pod)
    word = starting or _container_state(status, word)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _waiting_state(pod: Object) -> str:
    """Return the state of the first init container that is not over, empty when all are."""
    for at, one in enumerate(pod.get("status", {}).get("initContainerStatuses") or []):
        state = one.get("state", {})
        over = state.get("terminated")
        if over and not over.get("exitCode"):
            continue
        if over:
            return f"Init:{_terminated_state(over)}"
        reason = state.get("waiting", {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{at}/{len(pod['spec'].get('initContainers') or [])}"
    return ""


def _container_state(status: Object, word: str) -> str:
    any_running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state", {})
        if state.get("waiting", {}).get("reason"):
            word = str(state["waiting"]["reason"])
        elif "terminated" in state:
            word = _terminated_state(state["terminated"])
        elif one.get("ready") and "running" in state:
            any_running = True
    if word == "Completed" and any_running:
        return "Running" if _is_ready(status) else "NotReady"
    return word


def _terminated_state(over: Object) -> str:
    if over.get("reason"):
        return str(over["reason"])
    if over.get("signal"):
        return f"Signal:{over['signal']}"
    return f"ExitCode:{over.get('exitCode', 0)}"


def _is_ready(status: Object) -> bool:
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or [])
