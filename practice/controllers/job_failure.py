"""The pod failure policy of a Job: whether a failed pod fails the whole Job, and the sentence that says so."""

from __future__ import annotations

from practice.controllers.objects import Object, key_of


def matching_failure(policy: Object | None, failed_jobs: list[Object]) -> str:
    """Return why a failed pod fails its whole Job by the Job's failure policy; empty if no pod does."""
    for pod in failed_jobs:
        for number, rule in enumerate((policy or {}).get("rules") or ()):
            text = _match_exit_code(rule, pod, number) or _match_pod_condition(rule, pod, number)
            if text:
                if rule["action"] == "FailJob":
                    return text
                break
    return ""


def _match_exit_code(rule: Object, pod: Object, number: int) -> str:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return ""
    for status in pod["status"].get("containerStatuses") or ():
        ended = status.get("state", {}).get("terminated")
        if not ended or not ended["exitCode"] or wanted.get("containerName") not in (None, status["name"]):
            continue
        if (ended["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
            place = "/".join(key_of(pod))
            return (
                f"Container {status['name']} for pod {place} failed with exit code {ended['exitCode']} "
                f"matching {rule['action']} rule at index {number}"
            )
    return ""


def _match_pod_condition(rule: Object, pod: Object, number: int) -> str:
    for pattern in rule.get("onPodConditions") or ():
        for found in pod["status"].get("conditions") or ():
            if found["type"] == pattern["type"] and found["status"] == pattern.get("status", "True"):
                place = "/".join(key_of(pod))
                return f"Pod {place} has condition {found['type']} matching {rule['action']} rule at index {number}"
    return ""
