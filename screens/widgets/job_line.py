"""A job in words and cells: state, ranks, attempt, place, and what matters most about it now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from console.models.alarm import GLYPH
from console.models.health import NO_STEPS, Level, job_health
from console.models.job import JobState
from console.models.ranks import Rank, first_failure, ranks
from console.models.reference import Passing
from console.models.why_job import why_jobset
from screens import wording
from screens.wording import Run

if TYPE_CHECKING:
    from console.models.alarm import Alarm
    from console.models.fleet import Fleet
    from console.models.glance import Glance
    from console.models.health import Health
    from console.models.job import JobSet
    from console.models.why import Why
    from screens.wording import Cell


@dataclass(frozen=True)
class JobLine:
    """A JobSet in one picture; what follows from the picture is worked out when the line is drawn."""

    jobset: JobSet
    fleet: Fleet
    glance: Glance | None = None
    """What its log said last; None: nothing is known."""
    alarms: tuple[Alarm, ...] = ()
    """What is wrong with it now, if it is watched."""
    late: str = ""
    """That its next step is late, if somebody hears its steps."""
    heard: bool = False
    """Whether somebody does."""
    faults: tuple[str, ...] = ()
    """What the tabs of its page found wrong with it."""
    owner: str = ""
    """Who launched it; "you" for whoever looks."""
    outside: str = ""
    """Its namespace, where commands have to name it."""

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """All its ranks."""
        return ranks(self.jobset, self.fleet)

    @cached_property
    def why(self) -> Why:
        """Why it does not run, or not well."""
        return why_jobset(self.jobset, self.fleet)

    @cached_property
    def health(self) -> Health:
        """How it is, in one word and one sentence."""
        return job_health(
            self.jobset, self.fleet, alarms=self.alarms, late=self.late, heard=self.heard, glance=self.glance,
            faults=self.faults,
        )  # fmt: skip

    @property
    def up(self) -> int:
        """Ranks whose pod is ready, or has done its work."""
        return sum(rank.ready or rank.phase == "Succeeded" for rank in self.ranks)

    @property
    def ink(self) -> str:
        """Finished jobs are dimmer."""
        return "dim" if self.jobset.finished else ""


def state_cell(line: JobLine) -> Cell:
    """Glyph and word; the glyph is first, so that no narrow column cuts it."""
    return health_runs(line.health, line.ink)


def health_runs(health: Health, ink: str = "") -> list[Run]:
    """How a job is, as a glyph and a word: ▲ while an alarm rings, ◐ while a step is late."""
    if health.level is Level.BAD:
        glyph = wording.BAD if health.state == JobState.FAILED else Run(GLYPH, "bad")
        return [glyph, Run(f" {health.state}", "bad")]
    if health.level is Level.LATE:
        return [wording.WAITS, Run(f" {health.state}", "waits")]
    return [wording.job_glyph(health.state), Run(f" {health.state}", ink)]


def ranks_cell(line: JobLine) -> Cell:
    """Ranks that are up, of all."""
    total = line.jobset.ranks
    if line.jobset.finished or line.jobset.state is JobState.PENDING:
        return Run(f"{total}", "dim")
    return Run(f"{line.up}/{total}", "ok" if line.up == total else "waits")


def attempt_cell(line: JobLine) -> Cell:
    """Which attempt this is, of how many."""
    jobset = line.jobset
    if not jobset.restarts and not jobset.max_restarts:
        return Run("1", "dim")
    return Run(f"{jobset.restarts + 1}/{jobset.max_restarts + 1}", "waits" if jobset.restarts else line.ink)


def failure_words(rank: Rank) -> str:
    """The failure of a rank: "pod 1: OOMKilled (137)"."""
    ended = rank.ended
    reason = (ended.reason if ended else "") or rank.status
    code = f" ({rank.exit_code})" if rank.exit_code is not None else ""
    return f"pod {rank.number}: {reason}{code}"


def place_words(line: JobLine) -> str:
    """Where it runs: the smallest place that holds all its nodes."""
    nodes = [line.fleet.nodes[("", rank.node)] for rank in line.ranks if ("", rank.node) in line.fleet.nodes]
    if not nodes:
        return ""
    if len({node.name for node in nodes}) == 1:
        return f"on {nodes[0].name}"
    subblocks = {node.subblock for node in nodes}
    blocks = sorted({node.block for node in nodes if node.block})
    where = f"subblock {subblocks.pop()}" if len(subblocks) == 1 and "" not in subblocks else ""
    if not where and blocks:
        where = f"block {blocks[0]}" if len(blocks) == 1 else f"{len(blocks)} blocks"
    hosts = wording.count(len({node.name for node in nodes}), "node")
    return f"on {hosts} of {where}" if where else f"on {hosts}"


def reasons(line: JobLine) -> tuple[str, str]:
    """Why it is as it is: our sentence, and the controller's own where that says more, or said otherwise, and when."""
    told = wording.sentence(line.health.words)
    return told, wording.quotation(line.why, told, line.jobset.failure)


def last_cell(line: JobLine) -> Cell:
    """What matters most about it now: why it waits, what failed first, what came of it, or where it runs."""
    state, health = line.jobset.state, line.health
    sick = Run(wording.sentence(health.words), "bad" if health.level is Level.BAD else "waits")
    if state is JobState.SUCCEEDED:
        took = line.jobset.finished_at - line.jobset.created
        done = Run(f"done after {wording.duration(took)}" if took > 0 else "done", "dim")
        if health.level is Level.BAD:
            return [sick, Run("  "), done]
        return [*glance_words(line.glance), Run("  "), done] if line.glance else done
    if state in {JobState.FAILED, JobState.RESTARTING}:
        first = first_failure(line.jobset, line.fleet)
        if first:
            return Run(failure_words(first), "bad" if state is JobState.FAILED else "waits")
    if health.level in {Level.BAD, Level.LATE}:
        return sick
    told = wording.sentence(line.why.sentence)
    if told:
        return Run(told, line.ink)
    return glance_words(line.glance) if line.glance else Run(place_words(line), "dim")


def glance_words(glance: Glance) -> list[Run]:
    """The latest figures: "loss 2.104  1,180 TFLOP/s", "busbw 594 GB/s ✓"."""
    if glance.busbw is not None:
        average = f", average {glance.average:,.0f}" if glance.average is not None else ""
        mark = {Passing.PASSED: wording.DONE, Passing.FAILED: wording.BAD}.get(glance.passing)
        return [Run(f"busbw {glance.busbw:,.0f} GB/s{average}"), *([Run(" "), mark] if mark else [])]
    if glance.nan:
        return [Run(f"✗ {glance.nan_words}", "bad")]
    loss = f"loss {glance.loss:.4g}" if glance.loss is not None else ""
    speed = f"{glance.tflops:,.0f} TFLOP/s" if glance.tflops is not None else ""
    return [Run("  ".join(words for words in (loss, speed) if words))]


def progress_cell(line: JobLine) -> Cell:
    """How far it is, and how long it will take."""
    glance = line.glance
    if glance is None or line.jobset.finished:
        return ""
    if glance.size is not None and glance.busbw is not None:
        return Run(f"at {wording.size(glance.size)}", "dim")
    if glance.step is None:
        return ""
    if not glance.total:
        return Run(f"step {glance.step:,}", "dim")
    state, runs = line.health.state, line.jobset.state in {JobState.STARTING, JobState.RUNNING}
    stands = state in NO_STEPS
    left = f" {state}" if stands else f" {wording.age(glance.eta)} left" if glance.eta and runs else ""
    share = Run(f" {wording.percent(glance.step, glance.total)}")
    return [*wording.bar(glance.step, glance.total, 6), share, Run(left, "dim")]
