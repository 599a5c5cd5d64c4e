"""Which pod fills a rank now: two small requests in one go, read with the standard library alone.

The rules are those of `console.scheduling.ranks`: numbers run over the replicated jobs in the order of the spec, their
Jobs, and the completion indexes of each Job; the pod that counts is of the newest attempt.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from console.errors import ConsoleError, NotFound, NotThere, Unreadable
from console.kube.rank_address import LivePod
from console.kube.raw_connection import error_from_raw_response

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.kube.login import Login
    from console.kube.rank_address import RankAddress
    from console.kube.raw_connection import RawConnection, RawResponse

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
_LABEL = "jobset.sigs.k8s.io/"
_INDEX = "batch.kubernetes.io/job-completion-index"
_OK, _NOT_FOUND = 200, 404
_SOME = 500  # jobs that are listed to find the one that was meant

Object = dict[str, Any]


class JobEnded(NotFound):
    """The job has ended or is gone, and will not come back."""


class PodPending(NamedTuple):
    """No pod of the rank can be connected to yet; `words` says why, as the end of a sentence."""

    words: str


class _Seat(NamedTuple):
    """A rank's place."""

    number: int
    group: str
    job_index: int
    completion_index: int


async def locate(wire: RawConnection, login: Login, address: RankAddress) -> LivePod | PodPending:
    """The live pod of a rank, or why there is none yet. Raises BadInput for a rank that the job does not have, JobEnded
    when it is over or gone, Refused and its subclasses.
    """
    if address.pod:
        return await _named(wire, login, address)
    base = f"{JOBSETS}/namespaces/{quote(address.namespace, safe='')}/jobsets/{quote(address.job, safe='')}"
    jobset_answer, pods_answer = await wire.get(base, _pods(address, completion_index=address.number))
    jobset = await _read(jobset_answer, login, f"read job {address.job}")
    if jobset is None:
        hint = await _elsewhere(wire, login, address) or await _known(wire, login, address)
        raise JobEnded(f"There is no job {address.job} in namespace {address.namespace}.", hint, status=_NOT_FOUND)
    seat = _seat(jobset, address)
    if seat.completion_index != address.number:  # the guess that saved a round trip was wrong
        (pods_answer,) = await wire.get(_pods(address, completion_index=seat.completion_index))
    pods = await _read(pods_answer, login, f"find {address}")
    return _choose(jobset, seat, address, (pods or {}).get("items") or [])


async def _elsewhere(wire: RawConnection, login: Login, address: RankAddress) -> str:
    """Where else there is a job of that name; empty: nowhere, or nobody may tell."""
    from console.kube.find_job import format_other_namespaces

    query = urlencode({"fieldSelector": f"metadata.name={address.job}"})
    with suppress(ConsoleError):
        (answer,) = await wire.get(f"{JOBSETS}/jobsets?{query}")
        found = await _read(answer, login, f"find job {address.job} in other namespaces")
        return format_other_namespaces(
            sorted(each["metadata"]["namespace"] for each in (found or {}).get("items") or [])
        )
    return ""


async def _known(wire: RawConnection, login: Login, address: RankAddress) -> str:
    """Which jobs there are in the namespace, as far as that may be told."""
    from console.kube.find_job import known_jobs_hint

    with suppress(ConsoleError):
        (answer,) = await wire.get(f"{JOBSETS}/namespaces/{quote(address.namespace, safe='')}/jobsets?limit={_SOME}")
        found = await _read(answer, login, f"list the jobs of namespace {address.namespace}")
        return known_jobs_hint(
            address.job, sorted(each["metadata"]["name"] for each in (found or {}).get("items") or [])
        )
    return "`a4 jobs -A` lists all there are."


def _pods(address: RankAddress, completion_index: int) -> str:
    selector = f"{_LABEL}jobset-name={address.job},{_INDEX}={completion_index}"
    return f"/api/v1/namespaces/{quote(address.namespace, safe='')}/pods?{urlencode({'labelSelector': selector})}"


async def _read(answer: RawResponse, login: Login, doing: str) -> Object | None:
    """The object; None if it is not there."""
    if answer.status == _NOT_FOUND:
        return None
    if answer.status != _OK:
        raise await error_from_raw_response(login, answer, doing)
    try:
        found = json.loads(answer.body)
    except ValueError as error:
        raise Unreadable(f"Could not {doing}: the API server's answer is not JSON.") from error
    if not isinstance(found, dict):
        raise Unreadable(f"Could not {doing}: the API server's answer is not a JSON object.")
    return found


def _seats(jobset: Object) -> Iterator[_Seat]:
    number = 0
    for group in jobset.get("spec", {}).get("replicatedJobs") or []:
        spec = group.get("template", {}).get("spec", {})
        pods = spec.get("parallelism")
        for job in range(1 if group.get("replicas") is None else group["replicas"]):
            for index in range(1 if pods is None else pods):
                yield _Seat(number, group.get("name", ""), job, index)
                number += 1


def _seat(jobset: Object, address: RankAddress) -> _Seat:
    """The place of the rank; BadInput names those there are."""
    every = list(_seats(jobset))
    groups = list(dict.fromkeys(seat.group for seat in every))
    if address.group and address.group not in groups:
        raise NotThere(f"{address.job} has no replicated job {address.group}.", f"It has: {', '.join(groups)}.")
    within = [seat for seat in every if address.group in {"", seat.group}]
    if address.number >= len(within):
        where = f" in {address.group}" if address.group else ""
        hint = f"Its pods{where} are 0 to {len(within) - 1}." if within else "It has no pods."
        raise NotThere(f"{address.job} has no pod {address.number}{where}.", hint)
    return within[address.number]


def _choose(jobset: Object, seat: _Seat, address: RankAddress, pods: Sequence[Object]) -> LivePod | PodPending:
    """The pod of the newest attempt in that place, if one can be connected to."""
    uid = jobset["metadata"].get("uid", "")
    here = [pod for pod in pods if _place(pod) == seat[1:] and _label(pod, "jobset-uid", uid) in {uid, ""}]
    here = [pod for pod in here if int(_label(pod, "restart-attempt", "0")) >= _restarts(jobset)]
    live = sorted((pod for pod in here if not _leaving(pod) and _phase(pod) not in {"Succeeded", "Failed"}), key=_age)
    if live and _runs(live[-1]):
        return _target(live[-1], seat.number)
    over = _over(jobset)
    if over:
        raise JobEnded(f"{address.job} has ended ({over}): no pod of it can be reached.", status=_NOT_FOUND)
    if live:
        return PodPending(f"its pod {live[-1]['metadata']['name']} is {_why_not(live[-1])}")
    if here:
        last = sorted(here, key=_age)[-1]
        state = "is being deleted" if _leaving(last) else f"has ended ({_phase(last).lower()})"
        return PodPending(f"its pod {last['metadata']['name']} {state} and no other is there yet")
    if jobset["spec"].get("suspend"):
        return PodPending("the job waits for quota")
    return PodPending("it has no pod yet")


async def _named(wire: RawConnection, login: Login, address: RankAddress) -> LivePod | PodPending:
    """A pod by name: once it is gone there is no other."""
    path = f"/api/v1/namespaces/{quote(address.namespace, safe='')}/pods/{quote(address.pod, safe='')}"
    (answer,) = await wire.get(path)
    pod = await _read(answer, login, f"read pod {address.pod}")
    if pod is None:
        raise JobEnded(f"There is no pod {address.pod} in namespace {address.namespace}.", status=_NOT_FOUND)
    if _phase(pod) in {"Succeeded", "Failed"}:
        raise JobEnded(f"Pod {address.pod} has ended ({_phase(pod).lower()}).", status=_NOT_FOUND)
    return _target(pod, -1) if _runs(pod) else PodPending(f"it is {_why_not(pod)}")


def _target(pod: Object, number: int) -> LivePod:
    containers = pod.get("spec", {}).get("containers") or [{}]
    meta = pod["metadata"]
    return LivePod(
        meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", ""), containers[0].get("name", ""), number,
        pod.get("spec", {}).get("nodeName", ""),
    )  # fmt: skip


def _label(pod: Object, name: str, default: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_LABEL + name, default))


def _place(pod: Object) -> tuple[str, int, int]:
    index = (pod["metadata"].get("labels") or {}).get(_INDEX, "0")
    return _label(pod, "replicatedjob-name", ""), int(_label(pod, "job-index", "0")), int(index)


def _restarts(jobset: Object) -> int:
    return int((jobset.get("status") or {}).get("restarts") or 0)


def _leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _age(pod: Object) -> tuple[int, str]:
    return int(_label(pod, "restart-attempt", "0")), str(pod["metadata"].get("creationTimestamp", ""))


def _runs(pod: Object) -> bool:
    return _phase(pod) == "Running" and not _leaving(pod)


def _why_not(pod: Object) -> str:
    """Why a pod does not run yet: the scheduler's or the kubelet's word."""
    if _leaving(pod):
        return "being deleted"
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        reason = ((each.get("state") or {}).get("waiting") or {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"pending ({reason})"
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return f"pending ({each.get('reason', 'not scheduled')})"
    return _phase(pod).lower()


def _over(jobset: Object) -> str:
    """How the job ended for good; empty while it has not."""
    status = jobset.get("status") or {}
    ended = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    terminal = status.get("terminalState")
    return next((word.lower() for word in ("Completed", "Failed") if word == terminal or word in ended), "")
