"""Cells and columns of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from screens.columns.column import COMMAND, CREATED, Column, ListLayout, age_column, fact
from screens.wording import Cell, Span, pod_glyph

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod
    from console.kube.snapshot import Fleet


def status_cell(pod: Pod) -> Cell:
    status = pod.status
    mark = pod_glyph(status, is_ready=pod.ready)
    return [mark, Span(f" {status}", "bad" if mark.style == "bad" else "")]


def ready_cell(pod: Pod) -> Cell:
    """A cell with the ready containers of all, init containers not counted."""
    mains = [each for each in pod.containers if not each.init]
    return f"{sum(each.ready for each in mains)}/{len(mains)}" if mains else ""


def restarts_cell(pod: Pod) -> Cell:
    restarts = pod.restarts
    return Span(str(restarts), "waits") if restarts else Span("0", "dim")


def _iter_pods(fleet: Fleet, namespace: str | None, name_owner: Callable[[str], str]) -> Iterable[Pod]:
    return (pod for _, pod in sorted(fleet.pods.items()) if namespace in {None, pod.namespace})


PODS: ListLayout[Pod] = ListLayout(
    "pods",
    (),
    _iter_pods,
    (
        Column("NAMESPACE", attrgetter("namespace"), "namespace", "its namespace", most=20, style="dim", drop=7,
               sort=lambda pod: f"{pod.namespace} {pod.name}"),
        Column("NAME", attrgetter("name"), "name", "its name", least=16, most=63, sort=True, cut="middle"),
        Column("READY", ready_cell, "ready", "whether all containers are ready", lambda pod: pod.ready, width=5,
               right=True, drop=5),
        fact("phase", "Pending, Running, Succeeded or Failed", lambda pod: pod.phase),
        Column("STATUS", status_cell, "status", "its reason, or its phase", attrgetter("status"), least=13, most=26,
               sort=True),
        Column("RESTARTS", restarts_cell, "restarts", "restarts of its containers", attrgetter("restarts"), width=8,
               right=True, drop=6, sort=True, down=True),
        Column("GPUS", lambda pod: str(pod.gpus or ""), "gpus", "GPUs it asks for", attrgetter("gpus"), width=4,
               right=True, sort=True, down=True),
        Column("JOB", lambda pod: pod.jobset or pod.owner_name, "jobset", "the JobSet it belongs to",
               lambda pod: pod.jobset, most=40, style="dim", drop=8, cut="middle",
               sort=lambda pod: f"{pod.jobset or '~' + pod.owner_name} {pod.name}"),
        fact("replicated_job", "its group in the JobSet", lambda pod: pod.replicated_job),
        fact("job_index", "index of its Job in the group; null outside JobSets",
             lambda pod: None if pod.job_index < 0 else pod.job_index),
        Column("INDEX", lambda pod: "" if pod.completion_index < 0 else str(pod.completion_index), "completion_index",
               "index of the pod in its Job; null outside Indexed Jobs",
               lambda pod: None if pod.completion_index < 0 else pod.completion_index, COMMAND, right=True),
        fact("attempt", "restart attempt of the JobSet", lambda pod: pod.attempt),
        Column("NODE", attrgetter("node"), "node", "the node it is on", least=12, most=24, cut="node", drop=2,
               sort=True),
        Column("IP", attrgetter("ip"), "ip", "its address", width=15, drop=9, sort=True, style="dim"),
        fact("message", "what the API says of it", lambda pod: pod.message or pod.unschedulable),
        age_column("AGE", attrgetter("created"), *CREATED),
    ),
)  # fmt: skip
