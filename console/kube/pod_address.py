"""The address of a pod as a person types it for ssh, tunnels and commands, and its place in the job; few imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import BadInput, NotThere

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet

SSH_PORT, _MAX_PORT = 2222, 65535
_POD_PREFIX = "pod/"


@dataclass(frozen=True, slots=True)
class PodAddress:
    """The address of a pod: a number in a job, an index in a replicated job, or the pod's name."""

    namespace: str
    job: str
    number: int = 0
    group: str = ""  # replicated job in which `number` counts; empty: in the whole job
    pod: str = ""  # a pod by name; job, number and group then mean nothing

    @classmethod
    def parse(cls, namespace: str, job: str, rank: str = "") -> PodAddress:
        """Parse the arguments JOB and RANK (a number or REPLICATED/INDEX), or pod/NAME. Raises BadInput for others."""
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

    def find_place(self, jobset: JobSet) -> tuple[int, tuple[str, int, int]]:
        """(pod index, (replicated job, Job, completion index)) of this address; NotThere lists the existing ones."""
        groups = list(dict.fromkeys(group.name for group in jobset.groups))
        if self.group and self.group not in groups:
            raise NotThere(f"{self.job} has no replicated job {self.group}.", f"It has {', '.join(groups)}.")
        within = [(number, place) for number, place in enumerate(jobset.places) if self.group in {"", place[0]}]
        if self.number >= len(within):
            where = f" in {self.group}" if self.group else ""
            hint = f"Its pods{where} are 0 to {len(within) - 1}." if within else "It has no pods."
            raise NotThere(f"{self.job} has no pod {self.number}{where}.", hint)
        return within[self.number]

    def __str__(self) -> str:
        return f"pod {self.pod}" if self.pod else f"{self.job} pod {self.rank_text}"


@dataclass(frozen=True, slots=True)
class PortPair:
    """A port of a pod and the local port that leads to it."""

    remote: int
    local: int = 0  # 0: the one it had last time, else the same number, else a free one

    @classmethod
    def parse(cls, text: str) -> PortPair:
        """Parse REMOTE or LOCAL:REMOTE. Raises BadInput for others."""
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
