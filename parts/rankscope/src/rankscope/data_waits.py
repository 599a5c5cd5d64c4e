"""The cause of a slow rank, by comparing py-spy samples of it with those of a rank that is not slow (pure).

Every rank spends some time in its data loader and at each line of the program. Only the time that a slow rank spends
there beyond another rank explains the others' wait. A late launch by the host alone does not name a cause: hosts of
healthy jobs differ by a tenth of a step now and then (FSDP2 on two H200). A program line is named if the other rank is
hardly ever at it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from rankscope.collective_times import MIN_SHARE
from rankscope.decoding import MAX_PROCESSES, Count, RankNumber, Text, decode_answer
from rankscope.errors import UnreadableAnswer
from rankscope.pod_answers import PodRank
from rankscope.slow_rank_texts import LateRank, format_share
from rankscope.slow_ranks import SlowReport
from rankscope.stack_location import Activity, find_own_code, locate_thread
from trainlog import Frame, ThreadStack, format_ranges

MAX_SUSPECTS = 4  # slow ranks at which py-spy looks
KNOWN_CAUSES = frozenset({"GPU", "network"})
MIN_SAMPLES = 40
CAUSE_SECONDS, MAX_SECONDS = 0.75, 15.0
"""Seconds at a cause, with 20 samples each, that make it certain by SURE_SIGMAS_OF_LINES; maximum seconds to sample."""
MAX_STACKS = 40_000  # different ones of a pod: 8 ranks have 16,000 in 20 s at 100 samples a second
MIN_EXPLAINED = 0.5  # of the share that the others wait: what takes less is not the cause
MAX_SHARE_OF_OTHERS = 1 / 3  # of the time of the slow rank at a line: how long another one is there at most
SURE_SIGMAS, SURE_SIGMAS_OF_LINES = 2.0, 3.0
"""Standard deviations by which two shares of samples must differ; the second if any of many lines may be the cause."""
GARBAGE_COLLECTION = re.compile(r"(?:^|_)gc(?:_|$)|garbage|^collect$")
RANK_DUTIES = re.compile(
    r"log(?:g|s\b|_)|wandb|tensorboard|mlflow|tqdm|print|report|save|checkpoint|eval|valid|summary", re.IGNORECASE
)
"""Names of calls that only the first rank makes in healthy jobs, such as logging and saving."""
_FRAME = re.compile(r"(\S.{0,300}?) \(([^()]{1,500}?)(?::(\d{1,9}))?\)")


class RankSamples(msgspec.Struct):
    """The py-spy samples of one rank's main thread: (count, call stack)."""

    rank: RankNumber
    why: Text = ""  # why there is none
    stacks: list[tuple[Count, str]] = []


class _PodSamples(msgspec.Struct):
    ranks: Annotated[list[RankSamples], msgspec.Meta(max_length=MAX_PROCESSES)]


def parse_samples(output: bytes) -> list[RankSamples]:
    """Parse a pod's py-spy samples. Raises UnreadableAnswer."""
    ranks = decode_answer(output, _PodSamples, "What py-spy told in the pod").ranks
    if (stacks := sum(len(each.stacks) for each in ranks)) > MAX_STACKS:
        raise UnreadableAnswer(f"py-spy reports {stacks:,} stacks in the pod; at most {MAX_STACKS:,} are read.")
    return ranks


def read_samples(answers: Mapping[int, bytes | str]) -> tuple[list[RankSamples], str]:
    """(samples of all ranks, a sentence why a pod gave none; empty if each did)."""
    found: list[RankSamples] = []
    why = ""
    for answer in answers.values():
        try:
            if isinstance(answer, str):
                raise UnreadableAnswer(answer)
            found += parse_samples(answer)
        except UnreadableAnswer as error:
            why = why or str(error).rstrip(".")
    return found, why


def seconds_to_sample(report: SlowReport, asked: float) -> float:
    """The seconds for which py-spy samples, enough for the slow rank with the smallest cost.

    Half of `asked`, the seconds for which NCCL was polled; longer if a rank costs little, then at most MAX_SECONDS.
    """
    shares = [each.share for each in (*report.slow, *report.suspects) if each.share > 0]
    return min(max(asked / 2, MAX_SECONDS), max(asked / 2, CAUSE_SECONDS / max(min(shares, default=1.0), MIN_SHARE)))


def choose_sampled(report: SlowReport, all_ranks: Sequence[PodRank]) -> list[int]:
    """The ranks that py-spy samples: slow ones and suspects, and a healthy one to compare with.

    None is sampled if a GPU or the network is the cause: of 226 recorded verdicts py-spy changed 134 of 147 on hosts,
    and none of 79 on GPUs.
    """
    late = (*report.slow, *report.suspects)
    named = [each.rank for each in late if each.rank is not None and each.cause not in KNOWN_CAUSES]
    suspects = named[:MAX_SUSPECTS]
    gpus = {rank.gpus for rank in all_ranks}
    if not suspects or gpus == {0} or len(gpus) != 1:
        return []
    slow, a_pod, world = {each.rank for each in late}, min(gpus), min(gpus) * len(all_ranks)
    # Who has the same place in another pod most likely has the same part in the training.
    others = [*range(suspects[0] % a_pod, world, a_pod), *range(world)]
    other = next((each for each in others if each not in slow), None)
    return [*suspects, other] if other is not None else []


@dataclass(frozen=True, slots=True)
class _StackSampleCounts:
    """The numbers of a rank's py-spy samples in its data loader and at each line of its program."""

    every: int
    loading: Counter[str]
    lines: Counter[str]
    duties: Counter[str]  # those of the lines at which it does what only the first rank does

    def share(self, line: str) -> float:
        return self.lines[line] / self.every


def add_samples(report: SlowReport, samples: Iterable[RankSamples], why: str = "") -> SlowReport:
    """The report with the causes that py-spy's samples of slow ranks show: data loading or a line of the program."""
    by_rank = {each.rank: each for each in samples}
    why = why or next((each.why.rstrip(".") for each in by_rank.values() if each.why), "")
    found = {rank: sampled for rank, each in by_rank.items() if (sampled := _count_samples(each.stacks)) is not None}
    slow = {each.rank for each in (*report.slow, *report.suspects)}
    usual = next(((rank, each) for rank, each in found.items() if rank not in slow), None)
    looked = [rank for rank in found if rank in slow]
    if not looked or usual is None:
        return replace(report, sampled=f"What slow ranks do meanwhile is not known ({why or 'too few samples'})")
    late = [
        _judge_by_samples(each, found[each.rank], usual, is_timed=bool(report.timed))
        if (each.slow or each.suspect) and each.rank in found
        else each
        for each in report.late
    ]
    return replace(report, late=tuple(late), sampled=f"py-spy looked at ranks {format_ranges([*looked, usual[0]])}")


def _judge_by_samples(
    late: LateRank, samples: _StackSampleCounts, usual_samples: tuple[int, _StackSampleCounts], *, is_timed: bool
) -> LateRank:
    other, beside = usual_samples
    # How long a rank launches late is no more than a bound of what it costs.
    enough = MIN_EXPLAINED * late.share if is_timed or late.slow else min(MIN_SHARE, MIN_EXPLAINED * late.share)
    share, beside_share = samples.loading.total() / samples.every, beside.loading.total() / beside.every
    if late.cause == "network":
        return late
    if share - beside_share >= enough and _is_certain(share, samples.every, beside_share, beside.every):
        where = samples.loading.most_common(1)[0][0]
        text = f"it is in its data loader{f' ({where})' if where else ''} for {format_share(share)} of the time, rank"
        return replace(
            late,
            slow=True,
            suspect=False,
            cause="data",
            where=where,
            evidence=f"{text} {other} for {format_share(beside_share)}",
        )
    lines = [
        line
        for line in samples.lines
        if samples.share(line) - beside.share(line) >= enough
        and beside.share(line) <= MAX_SHARE_OF_OTHERS * samples.share(line)
        and _is_certain(samples.share(line), samples.every, beside.share(line), beside.every, SURE_SIGMAS_OF_LINES)
    ]
    if late.cause == "GPU" or not lines:
        return late
    line = max(lines, key=samples.share)
    duty = late.rank == 0 and 2 * samples.duties[line] > samples.lines[line]
    text = f"it is at {line} for {format_share(samples.share(line))} of the time, rank {other} for"
    evidence = f"{text} {format_share(beside.share(line))}"
    if not duty and is_timed and late.cause == "host":
        return replace(late, slow=True, suspect=False, where=line, evidence=evidence)
    return replace(late, where="" if duty else line, evidence=evidence)


def _is_certain(share: float, samples: int, beside: float, samples_beside: int, certain: float = SURE_SIGMAS) -> bool:
    """Whether two shares of samples differ by at least `certain` standard deviations."""
    pooled = (share * samples + beside * samples_beside) / (samples + samples_beside)
    scatter = math.sqrt(pooled * (1 - pooled) * (1 / samples + 1 / samples_beside))
    return share - beside > certain * scatter


def _count_samples(stacks: Iterable[tuple[int, str]]) -> _StackSampleCounts | None:
    """The number of samples in the data loader and by program line; None if there are too few."""
    sampled = _StackSampleCounts(0, Counter(), Counter(), Counter())
    every = 0
    for count, calls in stacks:
        found = (_FRAME.fullmatch(call) for call in reversed(calls.split(";")))
        frames = tuple(Frame(each[1], each[2], int(each[3]) if each[3] else None) for each in found if each)
        if count <= 0 or not frames:
            continue
        every += count
        where = locate_thread(ThreadStack("", "MainThread", ("idle",), frames))
        own = where.frame if where.doing is Activity.DATA else find_own_code(frames)
        line = f"{own.file}:{own.line}" if own is not None and own.line else ""
        if any(GARBAGE_COLLECTION.search(each.function) for each in frames):
            line = "python collector"
        if where.doing is Activity.DATA:
            sampled.loading[line] += count
        elif line and not where.doing.waits_for_ranks:
            sampled.lines[line] += count
            # The program's own name of what it does is in the calls to that line, and in those from it
            inner = frames[: frames.index(own) + 1] if own is not None else ()
            if any(RANK_DUTIES.search(f"{each.function} {each.file}") for each in inner):
                sampled.duties[line] += count
    return replace(sampled, every=every) if every >= MIN_SAMPLES else None
