"""Whether a slow rank waits for its data: by where py-spy found it, beside a rank that is not slow (pure).

Every rank spends some time in its data loader. Only what a slow one spends there beyond another rank explains that
the others wait for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from rankscope.decoding import MAX_PROCESSES, Count, RankNumber, Text, decode_answer
from rankscope.errors import UnreadableAnswer
from rankscope.pod_rank import PodRank
from rankscope.slow_rank_words import LateRank, format_share
from rankscope.slow_ranks import SlowReport
from rankscope.stack_location import Activity, locate_thread
from trainlog import Frame, ThreadStack, format_ranges

MAX_SUSPECTS = 4  # slow ranks at which py-spy looks
MIN_SAMPLES = 40
EXPLAINS = 0.5  # of the share that the others wait: a data loader that takes less is not the cause
_FRAME = re.compile(r"(\S.{0,300}?) \(([^()]{1,500}?)(?::(\d{1,9}))?\)")


class RankSamples(msgspec.Struct):
    """Where the main thread of a rank was: how often, and the calls, the outermost first, separated by semicolons."""

    rank: RankNumber
    why: Text = ""  # why there is none
    stacks: list[tuple[Count, str]] = []


class _PodSamples(msgspec.Struct):
    ranks: Annotated[list[RankSamples], msgspec.Meta(max_length=MAX_PROCESSES)]


def parse_samples(output: bytes) -> list[RankSamples]:
    """What a pod printed; UnreadableAnswer if it is no such answer."""
    return decode_answer(output, _PodSamples, "What py-spy told in the pod").ranks


def read_samples(answers: Mapping[int, bytes | str]) -> tuple[list[RankSamples], str]:
    """The samples of all ranks, and why a pod told none."""
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


def choose_sampled(report: SlowReport, every: Sequence[PodRank]) -> list[int]:
    """The ranks at which py-spy is to look: slow ones and suspects, then one that is neither; empty without either."""
    late = (*report.slow, *report.suspects)
    named = [each.rank for each in late if each.rank is not None and each.cause != "network"]
    suspects = named[:MAX_SUSPECTS]
    gpus = {rank.gpus for rank in every}
    if not suspects or gpus == {0} or len(gpus) != 1:
        return []
    slow, a_pod, world = {each.rank for each in late}, min(gpus), min(gpus) * len(every)
    # Who has the same place in another pod most likely has the same part in the training.
    others = [*range(suspects[0] % a_pod, world, a_pod), *range(world)]
    other = next((each for each in others if each not in slow), None)
    return [*suspects, other] if other is not None else []


def add_data_waits(report: SlowReport, samples: Iterable[RankSamples], why: str = "") -> SlowReport:
    """The report with the cause "data" where a rank waits for its data, which is slow then; `why` some told nothing."""
    by_rank = {each.rank: each for each in samples}
    why = why or next((each.why.rstrip(".") for each in by_rank.values() if each.why), "")
    shares = {rank: found for rank, each in by_rank.items() if (found := _find_share(each.stacks)) is not None}
    slow = {each.rank for each in (*report.slow, *report.suspects)}
    usual = next(((rank, share) for rank, (share, _) in shares.items() if rank not in slow), None)
    looked = [rank for rank in shares if rank in slow]
    if not looked or usual is None:
        return replace(report, sampled=f"Whether a data loader is the cause is not known ({why or 'too few samples'})")
    late = [
        _judge(each, *shares[each.rank], usual) if each.rank in slow and each.rank in shares else each
        for each in report.late
    ]
    return replace(report, late=tuple(late), sampled=f"py-spy looked at ranks {format_ranges([*looked, usual[0]])}")


def _judge(late: LateRank, share: float, where: str, usual: tuple[int, float]) -> LateRank:
    if late.cause == "network" or share - usual[1] < EXPLAINS * late.share:
        return late
    text = f"it is in its data loader{where} for {format_share(share)} of the time, rank {usual[0]} for"
    return replace(late, slow=True, suspect=False, cause="data", evidence=f"{text} {format_share(usual[1])}")


def _find_share(stacks: Iterable[tuple[int, str]]) -> tuple[float, str] | None:
    """The share of the samples in the data loader, and the line of code that is there most often; None: too few."""
    every, lines = 0, Counter[str]()
    for count, calls in stacks:
        found = (_FRAME.fullmatch(call) for call in reversed(calls.split(";")))
        frames = tuple(Frame(each[1], each[2], int(each[3]) if each[3] else None) for each in found if each)
        if count <= 0 or not frames:
            continue
        every += count
        where = locate_thread(ThreadStack("", "MainThread", ("idle",), frames))
        if where.doing is Activity.DATA:
            frame = where.frame
            lines[f" ({frame.file}:{frame.line})" if frame is not None and frame.line else ""] += count
    if every < MIN_SAMPLES:
        return None
    return lines.total() / every, lines.most_common(1)[0][0] if lines else ""
