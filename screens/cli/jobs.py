"""One job by its name, and what it is made of: shared by the commands on jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import BadInput, NotFound
from console.models.ranks import ranks

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.pod import Pod

JOB_KINDS = ("jobsets", "jobs", "pods")


def find_job(fleet: Fleet, namespace: str, name: str) -> JobSet:
    """The JobSet of that name; NotFound names those there are."""
    job = fleet.jobsets.get((namespace, name))
    if job is None:
        known = sorted(other for where, other in fleet.jobsets if where == namespace)
        hint = f"There are: {', '.join(known)}." if known else "There are none; other namespaces: --namespace."
        raise NotFound(f"There is no job {name} in namespace {namespace}.", hint)
    return job


def pod_of_rank(fleet: Fleet, namespace: str, name: str, rank: int) -> Pod:
    """The live pod of a job's rank."""
    job = find_job(fleet, namespace, name)
    every = ranks(job, fleet)
    if not 0 <= rank < len(every):
        raise BadInput(f"{name} has no rank {rank}.", f"Its ranks are 0 to {len(every) - 1}." if every else "")
    pod = every[rank].pod
    if pod is None:
        raise NotFound(f"Rank {rank} of {name} has no pod: the job is {job.state}.", f"Why: a4 why {name}")
    return pod
