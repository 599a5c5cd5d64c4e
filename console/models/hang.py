"""The X-ray of a job that hangs: where every process is, who is not where the others are, and what to do (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from console.models.hang_suspects import left_behind, suspects
from console.models.hang_words import ADVICE, BEHIND, blame, of_equals, of_gdb, others
from console.models.rank_words import pod_words, process_words, ranges
from console.models.ras import RasReport
from console.models.whereabouts import NOWHERE, Doing, Whereabouts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.stack import ProcessStacks

NO_REPORT = RasReport()


@dataclass(frozen=True, slots=True)
class Traced:
    """One process of a training, or a place where one should be."""

    rank: int
    """Its RANK, over the whole job: a pod may hold several."""
    pod_rank: int
    """Number of its pod."""
    pod: str
    node: str
    pid: int | None = None
    """None: there is no process for that rank."""
    local_rank: int = 0
    command: str = ""
    state: str = ""
    """Letter of the kernel: R runs, S sleeps, D waits for a device, Z is dead, T is stopped."""
    wchan: str = ""
    """Function of the kernel in which it sleeps."""
    threads: int | None = None
    stacks: ProcessStacks | None = None
    where: Whereabouts = NOWHERE
    problem: str = ""
    """Why there is no stack; a sentence."""
    program: str = ""
    """Its name, if it is no Python: then there can be no stack."""
    cpu: float | None = None
    """Percent of one core that it has used since its start."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Its rank, the index of its pod, its GPU there: LOCAL_RANK, as torchrun and mpirun number them."""
        return self.rank, self.pod_rank, self.local_rank


@dataclass(frozen=True, slots=True)
class Launcher:
    """A process of MPI that starts others: mpirun in the first pod, orted in the others."""

    program: str
    pid: int
    state: str = ""
    wchan: str = ""
    threads: int | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class PodTrace:
    """What was found in one pod beside its processes."""

    pod_rank: int
    pod: str
    node: str
    failure: str = ""
    """Why nothing could be found out; a sentence."""
    py_spy: str = ""
    """Its py-spy; empty: it has none."""
    master: str = ""
    """Address and port where the ranks meet, if the pod knows it."""
    reached: bool | None = None
    """Whether that port was reached from the pod; None: not tried."""
    unreached: str = ""
    """Why not."""
    rdma: tuple[tuple[str, str], ...] = ()
    """RDMA devices and the state of their port."""
    launchers: tuple[Launcher, ...] = ()
    """Processes of MPI that start the others."""
    gdb: str = ""
    """Its gdb; empty: it has none."""


@dataclass(frozen=True, slots=True)
class HangGroup:
    """Processes at the same place."""

    doing: Doing
    label: str
    members: tuple[Traced, ...]
    suspect: bool = False
    """Whether the others wait for these."""
    behind: bool = False
    """Whether NCCL alone tells these from the others: they stay behind."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Their ranks."""
        return tuple(each.rank for each in self.members)

    @property
    def words(self) -> str:
        """Such as "1 in data loader (rank 9, pod 1, GPU 1, n0)"; without the names where they matter to nobody."""
        bare = self.doing in (Doing.UNKNOWN, Doing.COMPILED)
        said = f"{len(self.members)} {self.label if bare else f'in {self.label}'}"
        return f"{said} ({self.who})" if self.suspect or len(self.members) <= 2 else said

    @property
    def named(self) -> str:
        """Who they are, in a sentence: "ranks 41, 97 (pods 5, 12) on 2 nodes", "rank 9 (pod 1, GPU 1) on n0"."""
        return self.processes + (f" on {self.place}" if self.place else "")

    @property
    def processes(self) -> str:
        """The same without their nodes."""
        return process_words(*(each.place for each in self.members))

    @property
    def place(self) -> str:
        """Their node, or how many they are on."""
        nodes = dict.fromkeys(each.node for each in self.members if each.node)
        return f"{len(nodes)} nodes" if len(nodes) > 1 else next(iter(nodes), "")

    @property
    def who(self) -> str:
        """Such as "ranks 41, 97, pod 5, n0", in parentheses."""
        name = self.processes.removesuffix(")").replace(" (", ", ", 1)
        return name + (f", {self.place}" if self.place else "")


@dataclass(frozen=True)
class HangReport:
    """What was found in all pods of a job."""

    job: str
    pods: tuple[PodTrace, ...]
    processes: tuple[Traced, ...]
    ras: RasReport = NO_REPORT
    ras_problem: str = ""
    """Why NCCL could not be asked."""
    at: float = 0.0
    absent: tuple[tuple[int, str], ...] = ()
    """Pods that are not running beside those that are, and their status."""

    @cached_property
    def groups(self) -> tuple[HangGroup, ...]:
        """Those for whom the others wait first, then the largest."""
        return grouped(self.processes, self.ras)

    @property
    def suspects(self) -> tuple[HangGroup, ...]:
        """Groups for which the others wait."""
        return tuple(group for group in self.groups if group.suspect)

    @property
    def summary(self) -> str:
        """Such as "126 in all_reduce, 2 in data loader (ranks 41, 97, pods 5, 12, 2 nodes)"."""
        largest = sorted(self.groups, key=lambda group: -len(group.members))
        return ", ".join(group.words for group in largest) or "no process of a training or an NCCL test was found"

    @property
    def without_py_spy(self) -> tuple[PodTrace, ...]:
        """Pods that could be looked into if they had it."""
        compiled = {each.pod for each in self.processes if each.program}
        return tuple(pod for pod in self.pods if not pod.failure and not pod.py_spy and pod.pod not in compiled)

    @property
    def compiled(self) -> bool:
        """Whether nothing but NCCL tests runs, which are no Python."""
        return bool(self.processes) and all(each.program for each in self.processes)

    @property
    def alarming(self) -> bool:
        """Whether somebody has to do something: a rank stands out, a pod is absent, or no pod could be asked."""
        return bool(self.suspects or self.absent) or all(pod.failure for pod in self.pods)

    @property
    def unreached(self) -> tuple[PodTrace, ...]:
        """Pods from which the master's port was not reached."""
        return tuple(pod for pod in self.pods if pod.reached is False)

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """What is wrong, the divergence first; sentences."""
        said = [self._of_absent()] if self.absent else []
        said.append(self._of_suspects() if self.groups else self._of_nobody())
        if self.ras.words:
            said.append(self.ras.words)
        if self.unreached:
            far = pod_words(*(pod.pod_rank for pod in self.unreached))
            said.append(f"{self.unreached[0].master} was not reached from {far}: {self.unreached[0].unreached}.")
        deaf = [pod for pod in self.pods if pod.failure]
        if deaf:
            named = pod_words(*(pod.pod_rank for pod in deaf)).capitalize()
            said.append(f"{named} could not be asked: {deaf[0].failure}")
        if self.without_py_spy:
            number = f"{len(self.without_py_spy)} of {len(self.pods)} pods"
            said.append(f"py-spy is missing in {number}: without it there are no stacks.")
        return tuple(said)

    @property
    def short(self) -> str:
        """The first sentence of the verdict, without nodes and calls."""
        return self._of_suspects(short=True) if self.suspects and not self.absent else self.verdict[0]

    def _of_nobody(self) -> str:
        if any(pod.launchers for pod in self.pods):
            return "mpirun runs, but none of the processes that it starts: it begins or ends."
        return "No process of a training or an NCCL test was found in any pod: it begins, ends, or does other work."

    def _of_absent(self) -> str:
        pods, several = ranges(number for number, _ in self.absent), len(self.absent) > 1
        status = ", ".join(dict.fromkeys(status for _, status in self.absent))
        subject, verb, them = (f"Pods {pods}", "do", "them") if several else (f"Pod {pods}", "does", "it")
        return f"{subject} {verb} not run ({status}): who needs {them} in a collective waits for ever."

    def _of_suspects(self, *, short: bool = False) -> str:
        suspects, rest = self.suspects, [group for group in self.groups if not group.suspect]
        if not suspects:
            return of_equals(rest)
        many = max(rest, key=lambda group: len(group.members), default=None)
        parts = [blame(group, short=short) for group in suspects[:3]]
        beside = f" while {len(many.members)} {others(many)}" if many else ""
        sentence = f"{' and '.join(parts)}{beside}."
        return sentence[0].upper() + sentence[1:]

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to do: by where the suspects are, else by where all are."""
        groups = self.suspects or self.groups
        said = list(dict.fromkeys(BEHIND if group.behind else ADVICE[group.doing] for group in groups))[:3]
        tests = {each.pod for group in groups if group.doing is Doing.COMPILED for each in group.members}
        return (*said, of_gdb([pod for pod in self.pods if pod.pod in tests])) if tests else tuple(said)


def grouped(processes: Iterable[Traced], ras: RasReport = NO_REPORT) -> tuple[HangGroup, ...]:
    """Processes at the same place together, and which groups the others wait for."""
    found: dict[tuple[Doing, str], list[Traced]] = {}
    for process in sorted(processes, key=lambda each: each.rank):
        found.setdefault((process.where.doing, process.where.label), []).append(process)
    awaited = suspects(found, ras)
    late = left_behind(found, awaited, ras)
    groups = list[HangGroup]()
    for place, members in found.items():
        behind = tuple(each for each in members if each.rank in late)
        rest = tuple(each for each in members if each.rank not in late)
        if behind:
            groups.append(HangGroup(place[0], f"{place[1]}, behind", behind, suspect=True, behind=True))
        if rest:
            groups.append(HangGroup(*place, rest, place in awaited))
    groups.sort(key=lambda group: (not group.suspect, group.doing is Doing.UNKNOWN, -len(group.members)))
    return tuple(groups)
