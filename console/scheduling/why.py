"""The explanation why something does not run: category, numbers, and jobs or people who could change it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from operator import add, attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple, replace

if TYPE_CHECKING:
    from console.scheduling.expected_start import ExpectedStart

WAIT_KINDS = (
    "jobsets",
    "pods",
    "jobs",
    "workloads",
    "localqueues",
    "clusterqueues",
    "cohorts",
    "nodes",
    "resourceflavors",
    "events",
)
"""Kinds of objects from which the reason of a wait is found."""
JOB_KINDS = (*WAIT_KINDS, "topologies")
"""Kinds of objects from which a job and its expected start are explained."""


class Category(StrEnum):
    """The kind of reason that keeps a Workload or JobSet from running; from NO_QUEUE on they concern JobSets."""

    QUOTA = "quota"  # fits the limits, but not into what is unused now
    EXCEEDS = "exceeds quota"  # asks for more than its queue can ever have
    TOPOLOGY = "topology"  # quota is there, but not close enough together
    PREEMPTING = "preempting"  # others are being evicted for it
    BEHIND = "behind others"
    STOPPED = "stopped queue"
    MISSING_QUEUE = "missing queue"
    INACTIVE_QUEUE = "inactive queue"
    CHECKS = "admission checks"
    EVICTED = "evicted"
    BACKOFF = "backoff"  # evicted, and queued again only later
    DEACTIVATED = "deactivated"
    PODS_NOT_READY = "pods not ready"
    """Its own pods are not up, or Kueue waits for those of jobs admitted before."""
    NO_FLAVOR = "no flavor"  # no flavor of the queue has what it asks for, or lets it in
    GATED = "gated"  # held back on purpose by a gate or by its owner
    NOT_EVALUATED = "not evaluated"
    NOT_ALLOWED = "not allowed"  # the account may not see what it waits for
    UNKNOWN = "unknown"  # Kueue gives a reason that is not known here; its own words are the answer
    RUNNING = "running"
    FINISHED = "finished"

    NO_QUEUE = "no queue"  # suspended, and no queue will ever start it
    REFUSED = "refused"  # the API server refuses its pods
    UNSCHEDULABLE = "unschedulable"
    IMAGE = "image"
    STARTING = "starting"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


class QuotaAccount(Struct, frozen=True):
    """The quota of a ClusterQueue for one resource: own, borrowed, used and free, in its units."""

    nominal: int = 0  # its own quota
    used: int = 0  # reserved by its workloads, borrowed quota included
    free: int = 0  # what it could take now, by borrowing too
    total: int = 0  # what it could have if nobody else used anything
    borrowed: int = 0  # what it uses beyond its own quota
    can_borrow: int = 0  # the part of `free` that is not its own
    lent: int = 0
    """The part of the queue's own quota that it cannot take, because other queues of the cohort use it."""

    @property
    def borrows(self) -> int:
        """GPUs borrowed, plus those that could still be borrowed."""
        return self.borrowed + self.can_borrow

    @property
    def sum_text(self) -> str:
        """The calculation of free quota: "112 own + 8 to borrow - 96 used = 24 free", without zero terms."""
        parts = [f"{self.nominal:,} own", f"+ {self.borrows:,} to borrow" if self.borrows else ""]
        parts += [f"- {self.used:,} used" if self.used else "", f"- {self.lent:,} lent" if self.lent else ""]
        text = " ".join(filter(None, parts))
        plain = text == parts[0] and self.nominal == self.free
        return f"{'' if plain else f'{text} = '}{self.free:,} free"

    @property
    def limit_text(self) -> str:
        """The most that the queue could ever use of the resource, such as "24 (8 of its own, 16 by borrowing)"."""
        borrow = self.total - self.nominal
        return f"{self.total}{f' ({self.nominal} of its own, {borrow} by borrowing)' if borrow > 0 else ''}"

    def __add__(self, other_account: QuotaAccount) -> QuotaAccount:
        return QuotaAccount(*map(add, astuple(self), astuple(other_account)))


class QuotaHolder(Struct, frozen=True):
    """A job that holds quota, and how many GPUs."""

    namespace: str
    name: str
    owner: str = ""  # who launched it; empty if it does not say
    queue: str = ""  # LocalQueue it came by
    cluster_queue: str = ""
    gpus: int = 0
    priority: int = 0


class Why(Struct, frozen=True):
    """The reason why something does not run, as a sentence and numbers; amounts are GPUs."""

    sentence: str  # empty when nothing is waited for
    category: Category
    api_text: str = ""  # the controller's own message
    agrees: bool = False  # whether that message tells the same as the sentence, so that it adds nothing
    reported_at: float = 0.0
    """Time of the controller's message (epoch seconds), if the present state contradicts it; 0.0 if unknown."""
    differs: bool = False  # whether the sentence tells otherwise than that message, which is of some time ago
    next: str = ""  # what to do about it, where that is known; a sentence without its end
    need: int = 0
    short_by: int = 0  # more GPUs that would have to be free; 0 where quota is not what is missing
    flavor: str = ""
    account: QuotaAccount | None = None  # its ClusterQueue's quota of GPUs in that flavor
    holders: tuple[QuotaHolder, ...] = ()  # jobs that hold quota it could use, most first
    unblocks: tuple[QuotaHolder, ...] = ()
    """The fewest running jobs whose end would let this one start, even past those before it; empty if no end would."""
    until: str = ""  # the same as "a ends", where its start is foreseen by the forecast
    frees: bool = True  # whether that frees as much as it is short of; else it only may start then
    room: int = -1  # pods that the best place of the level they must share has room for; -1: not known
    position: int = 0  # in its ClusterQueue; 1 is tried first, 0 stands in no queue
    ahead: tuple[str, ...] = ()  # names of the jobs that are tried before it

    @property
    def brief(self) -> str:
        """The sentence shortened for a column: what is missing, and the jobs whose end is awaited."""
        if not self.short_by or self.category is Category.EXCEEDS:
            return self.sentence
        short = f"{self.short_by:,} GPU{'s' if self.short_by > 1 else ''} short"
        names = self.until.removesuffix("s").removesuffix(" end")
        return (f"{short} · {names}" if self.frees else f"may start after {names}") if names else short

    def without_figures(self, expected_start: ExpectedStart | None) -> str:
        """The sentence without the sum of quota, and without the ends awaited if `expected_start` names them."""
        sums = f"; {self.account.sum_text}, {self.short_by} more needed" if self.account is not None else ""
        words = self.sentence.replace(sums, f", {self.short_by} more than are free") if sums else self.sentence
        ends = free_when(self.short_by, self.until, frees=self.frees) if start_after(expected_start) else ""
        return words.replace(ends, "") if ends else words

    def with_end(self, expected_start: ExpectedStart | None) -> Why:
        """The explanation, completed by the jobs whose end is awaited; unchanged if none is known."""
        waits = self.category is not Category.PREEMPTING and (self.short_by or self.unblocks)
        until = awaited_ends(self.unblocks, expected_start) if waits else ""
        if not until:
            return self
        names = {*start_after(expected_start)} or {each.name for each in self.unblocks}
        known = dict.fromkeys(each for each in (*self.unblocks, *self.holders) if each.name in names)
        frees = frees_enough(self.short_by, (*self.unblocks, *self.holders), expected_start)
        words = self.sentence + free_when(self.short_by, until, frees=frees)
        return replace(self, sentence=words, until=until, frees=frees, unblocks=tuple(known))


_MAX_NAMED_JOBS = 3  # jobs that are named in a sentence; the rest is counted


def start_after(expected_start: ExpectedStart | None) -> tuple[str, ...]:
    """The names of the jobs whose end a workload's start awaits, any one of several; empty if unknown."""
    if expected_start is None:
        return ()
    if expected_start.sooner or expected_start.at:
        return expected_start.sooner or ((expected_start.after_job,) if expected_start.after_job else ())
    return (expected_start.earliest_after,) if expected_start.earliest_after else ()


def awaited_ends(unblocks: Sequence[QuotaHolder], expected_start: ExpectedStart | None) -> str:
    """The jobs whose end a job waits for, by the forecast, else by the quota: "a or b ends"; empty if none is known."""
    if foreseen := start_after(expected_start):
        return format_ends(foreseen, any_of=True)
    return format_ends([each.name for each in unblocks])


def frees_enough(short_by: int, holders: Sequence[QuotaHolder], expected_start: ExpectedStart | None) -> bool:
    """Whether each job that `expected_start` waits for holds at least `short_by` GPUs, as far as `holders` show."""
    held = {each.name: each.gpus for each in sorted(holders, key=attrgetter("gpus"), reverse=True)}
    return all(held.get(name, -1) >= short_by for name in start_after(expected_start))


def free_when(short_by: int, end_text: str, *, frees: bool) -> str:
    """The last clause of a reason: "; quota free when a ends"; empty without `end_text`."""
    if end_text and not frees:
        return f"; may start when {end_text}"
    return f"; {'quota' if short_by else 'room'} free when {end_text}" if end_text else ""


def format_ends(names: Sequence[str], *, any_of: bool = False) -> str:
    """Join names to "a ends", "a and b end" or "a or b ends"; empty for none."""
    if len(names) < 2:
        return "".join(f"{each} ends" for each in names)
    more = len(names) - _MAX_NAMED_JOBS
    first, last = (names[:-1], names[-1]) if more <= 0 else (names[:_MAX_NAMED_JOBS], f"{more} more")
    return f"{', '.join(first)} {f'or {last} ends' if any_of else f'and {last} end'}"
