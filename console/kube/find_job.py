"""Finds the job, the pod and the node that a command line names, or says which there are (pure).

`a4 proxy` needs this too, as ssh waits for its imports, so they are few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import BadInput, NotAllowed, NotFound, NotThere, Unreachable
from console.kube.snapshot import Fleet, WatchState
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.objects.node import Node


def find_job(fleet: Fleet, namespace: str, name: str) -> JobSet:
    """The JobSet of that name; NotFound lists the existing ones, others say why none can be listed."""
    job = fleet.jobsets.get((namespace, name))
    if job is None:
        require_listed(fleet, "jobsets", f"Whether there is a job {name} in namespace {namespace}")
        known = sorted(other for where, other in fleet.jobsets if where == namespace)
        there = other_namespaces_hint(fleet, namespace, name) or known_jobs_hint(name, known)
        raise NotFound(f"There is no job {name} in namespace {namespace}.", there)
    return job


def known_jobs_hint(name: str, known: Sequence[str]) -> str:
    """A hint that lists the jobs of the namespace, the most similar name first."""
    if not known:
        return "There are none; a4 jobs -A lists those of all namespaces."
    from difflib import get_close_matches  # only for who errs

    near = get_close_matches(name, known, 1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}There are: {', '.join(known)}."


def other_namespaces_hint(fleet: Fleet, namespace: str, name: str) -> str:
    """A hint that names other namespaces with a job of that name; empty if there are none that may be listed."""
    return format_other_namespaces(
        sorted(where for where, other in fleet.jobsets if other == name and where != namespace)
    )


def format_other_namespaces(namespaces: Sequence[str]) -> str:
    """The text of the hint "there is one in namespace X" for these namespaces."""
    if not namespaces:
        return ""
    noun = "namespace" if len(namespaces) == 1 else "namespaces"
    return f"A job of that name is in {noun} {', '.join(namespaces)}: add -n {namespaces[0]}."


def require_listed(fleet: Fleet, kind: str, what: str) -> None:
    """Raise NotAllowed or Unreachable if this kind (plural name) cannot be listed; `what` is what stays unknown."""
    link = fleet.links.get(kind)
    if link is None:
        return
    if link.state is WatchState.FORBIDDEN:
        raise NotAllowed(f"{what} is not known: {link.why}", link.hint, status=403)
    if link.state is WatchState.STALE and not getattr(fleet, kind):
        raise Unreachable(f"{what} is not known: {link.why}", link.hint)
    if link.state is WatchState.ABSENT:
        raise NotFound(link.why, link.hint, status=404)


_NAMESPACED_COMMANDS = (  # those that look in one namespace
    "alarms", "code", "cp", "doctor", "exec", "facts", "forward", "gpus", "hang", "jobs", "launch", "logs",
    "ls", "nccl", "nccl-quick", "pods", "preflight", "releases", "rm", "shell", "ssh", "stop",
    "store-logs", "training", "wait", "why", "workloads",
)  # fmt: skip
_COMMAND_IN_HINT = lazy_pattern(
    rf"\ba4 (?=(?:{'|'.join(sorted(_NAMESPACED_COMMANDS, key=len, reverse=True))})\b(?!-)(?! -A)(?! --orphaned))"
)


def with_namespace_option(text: str, namespace: str) -> str:
    """Add `-n NAMESPACE` to the a4 commands in a text; unchanged for an empty namespace."""
    return _COMMAND_IN_HINT.sub(lambda _: f"a4 -n {namespace} ", text) if namespace else text


SSH_PORT = 2222
_POD_PREFIX = "pod/"
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class PodAddress:
    """Names a rank by its number in the job or its index in a replicated job, or names a pod."""

    namespace: str
    job: str
    number: int = 0
    group: str = ""  # replicated job in which `number` counts; empty: in the whole job
    pod: str = ""  # a pod by name; job, number and group then mean nothing

    @classmethod
    def parse(cls, namespace: str, job: str, rank: str = "") -> PodAddress:
        """Parse the arguments JOB and RANK (a number or REPLICATED/INDEX), or pod/NAME; BadInput for others."""
        if job.startswith(_POD_PREFIX):
            if rank:
                raise BadInput(f"{job} is a pod name: it takes no index.")
            return cls(namespace, "", pod=job.removeprefix(_POD_PREFIX))
        group, slash, index = rank.rpartition("/")
        if not job:
            raise BadInput("No job was named.", "Name it: JOB POD, or pod/NAME.")
        if not (index or "0").isdecimal() or (slash and not (group and index)):
            hint = "Give the index of a pod in the job (3) or in a replicated job (workers/3)."
            raise BadInput(f"{rank} is not the index of a pod.", hint)
        return cls(namespace, job, int(index or 0), group)

    @property
    def rank_text(self) -> str:
        """The rank as `parse` accepts it; empty for a pod."""
        if self.pod:
            return ""
        return f"{self.group}/{self.number}" if self.group else str(self.number)

    @property
    def job_text(self) -> str:
        return f"{_POD_PREFIX}{self.pod}" if self.pod else self.job

    @property
    def slug(self) -> str:
        return self.pod or f"{self.job}-{self.group}{'-' if self.group else ''}{self.number}"

    def __str__(self) -> str:
        return f"pod {self.pod}" if self.pod else f"{self.job} pod {self.rank_text}"


def place_in_job(jobset: JobSet, address: PodAddress) -> tuple[int, tuple[str, int, int]]:
    """Index and (replicated job, Job, completion index) of the pod in its job; NotThere lists the existing ones."""
    groups = list(dict.fromkeys(group.name for group in jobset.groups))
    if address.group and address.group not in groups:
        raise NotThere(f"{address.job} has no replicated job {address.group}.", f"It has {', '.join(groups)}.")
    within = [(number, place) for number, place in enumerate(jobset.places) if address.group in {"", place[0]}]
    if address.number >= len(within):
        where = f" in {address.group}" if address.group else ""
        hint = f"Its pods{where} are 0 to {len(within) - 1}." if within else "It has no pods."
        raise NotThere(f"{address.job} has no pod {address.number}{where}.", hint)
    return within[address.number]


@dataclass(frozen=True, slots=True)
class PortPair:
    """A port of a pod and the local port that leads to it."""

    remote: int
    local: int = 0  # 0: the one it had last time, else the same number, else a free one

    @classmethod
    def parse(cls, text: str) -> PortPair:
        """Parse REMOTE or LOCAL:REMOTE; BadInput for others."""
        first, colon, second = text.partition(":")
        local, remote = (first, second) if colon else ("0", first)
        numbers = [
            int(each) if each.isdecimal() and len(each) <= len(str(_MAX_PORT)) else -1
            for each in (remote, local or "0")
        ]
        if not (1 <= numbers[0] <= _MAX_PORT and 0 <= numbers[1] <= _MAX_PORT):
            raise BadInput(f"{text} names no ports.", "Write REMOTE or LOCAL:REMOTE, such as 8888 or 9000:8888.")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.local}:{self.remote}" if self.local else str(self.remote)


MAX_NAMED_NODES = 8  # nodes that a refusal names


def find_node(nodes: Mapping[tuple[str, str], Node], word: str) -> Node | None:
    """The node of that name or short name; None if there is none, BadInput if several end so."""
    if ("", word) in nodes:
        return nodes["", word]
    pool, _, end = word.rpartition("/")
    # GKE puts eight hexadecimal digits between the name of the pool and the end.
    name = re.compile(
        rf"(?:.*-)?{re.escape(pool)}(?:-[0-9a-f]{{8}})?-{re.escape(end)}" if pool else rf".*-{re.escape(end)}"
    )
    found = [node for node in nodes.values() if end and "-" not in end and name.fullmatch(node.name)]
    if len(found) > 1:
        more = f" and {len(found) - MAX_NAMED_NODES} more" if len(found) > MAX_NAMED_NODES else ""
        names = ", ".join(sorted(node.name for node in found)[:MAX_NAMED_NODES])
        raise BadInput(f"{word} is the end of several nodes' names: {names}{more}.", "Give the whole name.")
    return found[0] if found else None
