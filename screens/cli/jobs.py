"""One job by its name, and what it is made of: shared by the commands on jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import BadInput, NotFound
from console.models.finding import find_job
from console.models.ranks import ranks

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.pod import Pod

JOB_KINDS = ("jobsets", "jobs", "pods")


def pod_of_rank(fleet: Fleet, namespace: str, name: str, rank: int) -> Pod:
    """The live pod of a job's rank."""
    job = find_job(fleet, namespace, name)
    every = ranks(job, fleet)
    if not 0 <= rank < len(every):
        raise BadInput(f"{name} has no pod {rank}.", f"Its pods are 0 to {len(every) - 1}." if every else "")
    pod = every[rank].pod
    if pod is None:
        raise NotFound(f"Pod {rank} of {name} is not there: the job is {job.state}.", f"Why: a4 why {name}")
    return pod
