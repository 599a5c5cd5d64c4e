"""Parts shared by the commands on one job: the pod and container named on the command line, and lines of alarms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from console.errors import NotFound, NotThere
from console.kube.find_job import find_job
from console.kube.objects.pod import HINT_AFTER_THE_END, Pod
from console.kube.snapshot import Fleet
from console.scheduling.pod_slots import PodSlot, find_pod_slot, pod_slots
from screens.cli.arguments import EXIT_ALARM
from screens.cli.output import warn
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.kube.watched_cluster import Selectors, WatchedCluster
    from console.metrics.alarm import Alarm
    from console.metrics.health import JobHealth
    from console.metrics.job_monitor import JobMonitor
    from console.session import Session


JOB_KINDS = ("jobsets", "jobs", "pods")
_VALID_NAME = lazy_pattern(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")  # of a job, as Kubernetes allows it


def selectors_of_job(name: str) -> Selectors | None:
    """Selectors for one job and its pods, or for pod/NAME, in all namespaces; None if `name` is not a name."""
    pod = name.removeprefix("pod/")
    if not _VALID_NAME.fullmatch(pod):
        return None
    by_name = {"fieldSelector": f"metadata.name={pod}"}
    if pod != name:
        return {"pods": by_name}
    return {"jobsets": by_name, "pods": {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name}"}}


def running_pod(slot: PodSlot, job: str, subject: str) -> Pod:
    """The rank's running pod; NotFound says why there is none."""
    name = pod_words(slot, job).capitalize()
    if slot.pod is None:
        raise NotFound(f"{name} is not there.", f"Why: a4 why {job}")
    if slot.pod.finished:
        raise NotFound(f"{name} has ended ({slot.pod.status}): {subject}.", HINT_AFTER_THE_END)
    if slot.pod.phase != "Running":
        raise NotFound(f"{name} does not run yet ({slot.pod.status}): {subject}.", "Why: a4 pods --json")
    return slot.pod


def pod_words(slot: PodSlot, job: str) -> str:
    return f"pod {slot.number} of {job}" if slot.number >= 0 else f"pod {slot.name}"


def pod_index_json(slot: PodSlot) -> dict[str, Any]:
    """The pod index of a rank as JSON, also under the older name `rank`."""
    return {"pod_index": slot.number, "rank": slot.number, "pod": slot.name}


def chosen_ranks(fleet: Fleet, namespace: str, job: str, text: str) -> tuple[PodSlot, ...]:
    """The ranks listed in `text`, all if it is empty. NotFound if the job has no pods, BadInput for unknown ranks."""
    from console.attach.exec_many import parse_ranks  # of no use to most commands, such as `a4 why`

    every = pod_slots(find_job(fleet, namespace, job), fleet)
    if not every:
        raise NotFound(f"{job} has no pods.")
    wanted = set(parse_ranks(text, [each.number for each in every])) if text else None
    return tuple(each for each in every if wanted is None or each.number in wanted)


def container_of(pod: Pod, container_name: str) -> str:
    """The requested container, else the main one with a warning that names other running ones. NotThere if unknown."""
    running = [each.name for each in pod.containers if each.state == "running"]
    if container_name:
        if container_name not in [each.name for each in pod.containers]:
            raise NotThere(f"Pod {pod.name} has no container {container_name}.", f"It has {', '.join(running)}.")
        return container_name
    main = pod.main.name if pod.main else ""
    others = [name for name in running if name != main]
    if others:
        warn(f"This is container {main}; {', '.join(others)} with --container.")
    return main


def pod_of_rank(fleet: Fleet, namespace: str, name: str, rank: int) -> Pod:
    """The live pod of a rank. Raises NotFound if there is none."""
    pod = find_pod_slot(fleet, namespace, name, "" if name.startswith("pod/") else str(rank)).pod
    if pod is None:
        state = find_job(fleet, namespace, name).state
        raise NotFound(f"Pod {rank} of {name} is not there: the job is {state}.", f"Why: a4 why {name}")
    return pod


ALARM_POLL_SECONDS = 0.5


def health_code(health: JobHealth) -> int:
    """The exit code for a job's health: 5 for an alarm, 1 if it failed or cannot start, else 0."""
    from console.metrics.health import HealthLevel  # as below: of no use to commands that print no alarms

    if health.level is not HealthLevel.BAD:
        return 0
    return EXIT_ALARM if health.alarmed or health.state in {"diverged", "stalled"} else 1


def alarm_json(session: Session, alarm: Alarm) -> dict[str, object]:
    from console.metrics.alarm import next_step

    made: dict[str, object] = msgspec.to_builtins(alarm)
    return made | {"verdict": alarm.verdict, "next": next_step(alarm, session.watch)}


def alarm_line(alarm: Alarm, watch: WatchedCluster) -> str:
    from console.metrics.alarm import format_alarm

    return f"{alarm.job}: {alarm.kind.label}: {format_alarm(alarm, watch)}"


async def print_alarms(session: Session, name: str, monitor: JobMonitor) -> None:
    """Print each alarm of a job as it begins, until its log has been read to the end; FAILED alarms are not printed."""
    from console.metrics.alarm import ALARM_GLYPH, AlarmKind, format_alarm

    printed = 0
    while True:
        over = monitor.error is not None or monitor.is_complete
        for alarm in monitor.watch.alarms[printed:]:
            if alarm.kind is not AlarmKind.FAILED:
                warn(f"{name}: {ALARM_GLYPH} {alarm.kind.label}: {format_alarm(alarm, session.watch)}")
        printed = len(monitor.watch.alarms)
        if over:
            if monitor.error is not None:
                warn(f"{name} is not watched for alarms: {monitor.error}")
            return
        await asyncio.sleep(ALARM_POLL_SECONDS)
