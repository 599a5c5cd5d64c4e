"""What is looked at before a launch: one check, what it found, and what fixes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Result(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It may do without, or nobody needs it yet."""
    FAIL = "fail"
    NOT_ALLOWED = "not allowed to look"
    """It may be there: this account may not see."""
    COULD_NOT = "could not look"
    """No answer, no login, or not in time."""
    NOT_APPLICABLE = "not applicable"


WORST_FIRST = (
    Result.FAIL,
    Result.WARN,
    Result.NOT_ALLOWED,
    Result.COULD_NOT,
    Result.OK,
    Result.NOT_APPLICABLE,
)


class Mend(StrEnum):
    """What can be mended from here."""

    ADDON = "add-on"
    """Switch on an add-on of the cluster: project, location, cluster, add-on."""
    SERVICE = "service"
    """Enable a service of Google's: project, then the services' names."""
    REPOSITORY = "repository"
    """Create a Docker repository: project, location, name."""
    QUEUE = "queue"
    """Create a LocalQueue: namespace, name, ClusterQueue."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that would make a check pass; nothing is done before somebody says so."""

    kind: Mend
    target: tuple[str, ...]
    """What it is done to, as `Mend` says."""
    words: str
    """What would be done, naming the object: "Enable lustre.googleapis.com in project practice"."""
    consequences: tuple[str, ...] = ()
    """What else a person should know before."""


@dataclass(frozen=True, slots=True)
class Look:
    """One thing that was looked at on the way."""

    at: str
    """Kubernetes, Google or registry."""
    what: str
    """What was asked: "GET /version", "container: cluster practice"."""
    outcome: str
    """"answered", or why it was not."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement, P01 to P36, as it was found."""

    id: str
    title: str
    area: str
    result: Result
    evidence: str
    """What was seen, in one or a few sentences."""
    reason: str
    """Why it matters, or why it is not as it should be; empty when all is well."""
    fix: str
    """What to do about it; of a check that passes, what would mend it if it did not."""
    command: str = ""
    """The same as a shell command, where there is one."""
    repair: Repair | None = None
    looks: tuple[Look, ...] = ()
    at: float = 0.0
    """When, in seconds since the epoch; 0.0: it is under way."""
    seconds: float = 0.0

    @property
    def lines(self) -> tuple[str, ...]:
        """What is wrong, and what fixes it, for somebody who reads nothing else."""
        fix = [f"Fix: {self.fix}" + (f" a4 preflight --fix {self.id} does it." if self.repair else "")]
        head = f"{self.id} {self.title}: {' '.join(filter(None, (self.evidence, self.reason)))}"
        return head, *fix, *([f"$ {self.command}"] if self.command else [])

    @property
    def over(self) -> bool:
        """Whether it has been looked at."""
        return self.at > 0


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of each, and which are worst."""

    counts: tuple[tuple[Result, int], ...]
    failing: tuple[Check, ...]
    open: int = 0
    """Still under way."""
    warned: tuple[Check, ...] = ()

    @property
    def sentence(self) -> str:
        """In one line: 14 ok, 1 fails: P21 Lustre driver."""
        words = {Result.FAIL: "fails"}
        parts = [f"{count} {words.get(result, result)}" for result, count in self.counts]
        text = ", ".join(parts) or "nothing was looked at"
        if self.open:
            text += f", {self.open} under way"
        worst = self.failing or self.warned
        named = ", ".join(f"{each.id} {each.title}" for each in worst[:3])
        more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
        return f"{text}: {named}{more}" if named else text


def nothing_allowed(checks: Iterable[Check]) -> bool:
    """Whether the account may see nothing that a launch needs: that the server answers (P01) is no part of it."""
    results = {each.result for each in checks if each.id != "P01" or each.result is Result.NOT_ALLOWED}
    return Result.NOT_ALLOWED in results and not results & {Result.OK, Result.WARN, Result.FAIL}


def unseen(checks: Iterable[Check]) -> tuple[str, ...]:
    """What was not learnt, a line for each reason: "Not allowed to look: P11 Bucket in the same region (…)"."""
    found: dict[tuple[Result, str], list[str]] = {}
    for each in checks:
        if each.over and each.result in (Result.NOT_ALLOWED, Result.COULD_NOT):
            found.setdefault((each.result, each.reason), []).append(f"{each.id} {each.title}")
    return tuple(
        f"{result[:1].upper()}{result[1:]}: {', '.join(names)}" + (f" ({reason.rstrip('.')})." if reason else ".")
        for (result, reason), names in found.items()
    )


_TOLD = (Result.OK, Result.FAIL, Result.WARN, Result.NOT_ALLOWED, Result.COULD_NOT)


def tally(checks: Iterable[Check]) -> Tally:
    """Count; what does not apply is not told."""
    found = tuple(checks)
    counted = Counter(each.result for each in found if each.over)
    counts = tuple((result, counted[result]) for result in _TOLD if counted[result])
    over = [each for each in found if each.over]
    failing = tuple(each for each in over if each.result is Result.FAIL)
    warned = tuple(each for each in over if each.result is Result.WARN)
    return Tally(counts, failing, sum(not each.over for each in found), warned)
