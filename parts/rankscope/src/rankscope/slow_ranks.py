"""The ranks that the others wait for, and for what share of a step, by NCCL's operation counts (pure).

A rank whose operation count is below the others' is late at that moment; the share of answers in which it is late is
the maximum share of the step for which others wait. (On two H200, sleeps of 3, 5 and 10 ms in steps of 96 ms were
measured as 4.9, 6.8 and 12.3 %, and made steps 2.3, 3.7 and 7.2 % longer.) Launches do not show whether others wait at
all: a GPU with enough queued work hides a host that launches slowly (of 15 healthy runs of 30 ms a step on two H200, 6
had a rank that was late for 5 to 17 %). Such a rank is a suspect until the times of collectives, or its data loader,
show that others wait. No share is given in three cases, where it would be wrong: hosts that run ahead of their GPUs
launch while another is late, and nobody waits; a burst of launches during an answer makes the ranks asked first seem
late; and few steps give no average.

A slow GPU is not detected if the loss is read in every step: then all hosts launch at the same time.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from rankscope.collective_times import LateOnGpu, TimesReport, median_of_others
from rankscope.decoding import DECODING_ERRORS, Count, RankNumber, Seconds, Signed, Text, check_json_cost
from rankscope.errors import UnreadableAnswer
from rankscope.pod_answers import PodRank
from rankscope.slow_rank_texts import (
    ASK_RECORDERS,
    LOOK_LONGER,
    SLOW_ADVICE,
    LateRank,
    describe_slow_rank,
    describe_suspect,
    format_share,
)

MIN_POLLS = 100
MAX_POLLS = 20_000  # the script pauses for 5 ms between two questions
MIN_STEPS = 8  # times that operations were launched, and a rank was late
MIN_TIMES_LATE = 5
MIN_LATE_SHARE = 0.025  # what is told from chance: of 34 healthy runs on an H100, 4 had more than 0.017
ABOVE_OTHERS = 3  # times as late as the usual rank
ALWAYS_LATE_SHARE = 0.95
"""Share of answers from which on a rank that is behind never catches up: the others do not wait for its launches."""
MAX_MOVING_SHARE = 0.4
"""Maximum share of consecutive answers with new launches between them; above it steps are too short to tell whether the
others go on launching while a rank is behind."""
LARGEST_BOUND = 0.05  # a slower rank than that has to be ruled out before none is said to be slow
LONG_ENOUGH_SECONDS = 25.0  # seconds after which it is said what can be ruled out, however little that is
STUDENT_T = (2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)
"""Student's t of 95 % for the means of 8 to 20 blocks into which the polls are cut, of a step or more each."""
NORMAL_95 = 1.96
MAX_RANKS = 10_000_000  # where nothing tells how many a job can have

ASKED_STEPS = 12  # steps for which NCCL is asked who is late
MIN_ASKED_SECONDS, MAX_ASKED_SECONDS = 10.0, 300.0

LateProcesses = dict[int, dict[int, set[int]]]
"""By number of a process, then of a poll: the communicators in which the process was late."""


class PolledProcess(msgspec.Struct, array_like=True, frozen=True):
    number: Count
    host: Text
    pid: Count
    gpu: Signed
    rank: RankNumber | None
    communicators: list[Count] | None = None  # None: not told, as in text


class LateProcess(msgspec.Struct, array_like=True, frozen=True):
    communicator: Count
    size: RankNumber
    processes: list[tuple[Count, Count]]  # numbers, and how many operations behind the foremost


class RasPoll(msgspec.Struct, array_like=True, frozen=True):
    at: Seconds
    took: Seconds  # in which the ranks were asked
    progress: Count | None  # operations launched in all communicators; None: not told
    late: list[LateProcess]


class _PollHeader(msgspec.Struct):
    """The first line that poll_ras.py prints, before NCCL's answers."""

    version: Text = ""
    form: Text = ""
    ranks: RankNumber = 0
    process: PolledProcess | None = None
    over: Text | None = None
    active: list[Count] = []


@dataclass(frozen=True, slots=True)
class RasPolls:
    version: str = ""
    form: str = ""  # json or text
    ranks: int = 0  # of the largest communicator
    processes: tuple[PolledProcess, ...] = ()  # those that were ever late
    polls: tuple[RasPoll, ...] = ()
    over: str = ""  # why there are no more
    active: frozenset[int] = frozenset()  # communicators in which something was launched meanwhile


@dataclass(frozen=True, slots=True)
class SlowReport:
    job: str = ""
    version: str = ""
    form: str = ""
    ranks: int = 0
    polls: int = 0
    seconds: float = 0.0
    steps: int | None = None  # times that operations were launched; None: not told
    late: tuple[LateRank, ...] = ()  # the slow ones first
    bound: float = 1.0  # no rank but the slow ones is late for a larger share, with 95 % confidence
    problem: str = ""  # why there is no verdict, a sentence
    at: float = 0.0
    timed: str = ""  # which ranks told how long collectives took on the GPU; empty: not asked
    no_gpu_slow: bool = False  # by those times no GPU and no link is slow
    sampled: str = ""  # at which ranks py-spy looked, or why that told nothing; empty: it was not asked

    @property
    def slow(self) -> tuple[LateRank, ...]:
        return tuple(each for each in self.late if each.slow)

    @property
    def suspects(self) -> tuple[LateRank, ...]:
        return tuple(each for each in self.late if each.suspect)

    @property
    def has_verdict(self) -> bool:
        looked_enough = self.no_gpu_slow or self.bound <= LARGEST_BOUND or self.seconds >= LONG_ENOUGH_SECONDS
        clears_all = looked_enough or any(each.partly for each in self.late)
        unsure = any(each.runs_ahead or each.suspect for each in self.late)
        return not self.problem and (bool(self.slow) or (clears_all and not unsure))

    @property
    def advice(self) -> tuple[str, ...]:
        """The next steps, by the causes of the slow ranks, the slowest first."""
        if self.suspects and not self.slow:
            sentences = [LOOK_LONGER if self.timed else ASK_RECORDERS]
        else:
            sentences = [SLOW_ADVICE[each.cause].replace("RANK", str(each.rank)) for each in self.slow]
        return tuple(each.replace("JOB", self.job or "JOB") for each in dict.fromkeys(sentences))

    @property
    def words(self) -> tuple[str, ...]:
        """The verdict: a sentence per slow rank."""
        if self.problem:
            return (self.problem,)
        if self.slow:
            return tuple(map(describe_slow_rank, self.slow))
        if self.suspects:
            return tuple(map(describe_suspect, self.suspects))
        if any(each.partly for each in self.late):
            return (
                "No rank is late in all its communicators: some launch later in some of them only, as stages of a "
                "pipeline do.",
            )
        if any(each.runs_ahead for each in self.late):
            return (
                "No verdict: hosts launch at different times, but those that launch first go on meanwhile: they run "
                "ahead of their GPUs, and launches do not tell who waits.",
            )
        if self.no_gpu_slow:
            usual = ": GPUs of a fleet differ by as much" if self.bound <= LARGEST_BOUND else ""
            return (f"No rank costs more than {format_share(self.bound)} of each step{usual}.",)
        if not self.has_verdict:
            return (
                f"No verdict: no rank stands out in {self.seconds:.0f} s, but one for which the others wait for "
                f"{format_share(self.bound)} of each step cannot be ruled out; look longer: --seconds "
                f"{3 * max(self.seconds, MIN_ASKED_SECONDS):.0f}.",
            )
        return (
            f"No host costs more than {format_share(self.bound)} of each step: none launches later than the others for "
            "longer. A GPU that computes slowly is not seen this way.",
        )


def parse_polls(output: bytes, most_ranks: int = MAX_RANKS) -> RasPolls:
    """Parse the output of poll_ras.py. UnreadableAnswer if invalid, or with more ranks than the job's pods can have."""
    check_json_cost(output, "What the pod tells of NCCL")
    head, over, active = _PollHeader(), "", frozenset[int]()
    processes: list[PolledProcess] = []
    polls: list[RasPoll] = []
    try:
        for line in output.splitlines():
            if len(polls) > MAX_POLLS:
                raise UnreadableAnswer("What the pod tells of NCCL is of more answers than are asked for.")
            if line.startswith(b"["):
                polls.append(msgspec.json.decode(line, type=RasPoll))
                continue
            read = msgspec.json.decode(line, type=_PollHeader)
            if read.process is not None:
                processes.append(read.process)
            elif read.over is not None:
                over, active = read.over, frozenset(read.active)
            else:
                head = read
    except DECODING_ERRORS as error:
        raise UnreadableAnswer("What the pod tells of NCCL cannot be parsed.") from error
    known = {each.number for each in processes}
    if any(number not in known for poll in polls for late in poll.late for number, _ in late.processes):
        raise UnreadableAnswer("What the pod tells of NCCL names processes that it does not describe.")
    if len(known) < len(processes) or max(len(processes), head.ranks) > most_ranks:
        raise UnreadableAnswer(
            f"What the pod tells of NCCL is of more processes than the job has ({most_ranks:,} at most)."
        )
    return RasPolls(head.version, head.form, head.ranks, tuple(processes), tuple(polls), over, active)


def find_slow_ranks(read: RasPolls) -> SlowReport:
    """The report on the ranks that the others wait for, by NCCL's answers alone."""
    polls = read.polls
    seconds = polls[-1].at - polls[0].at if polls else 0.0
    launches = [_has_progressed(before, after) for before, after in pairwise(polls)]
    known = [each for each in launches if each is not None]
    report = SlowReport(
        version=read.version,
        form=read.form,
        ranks=read.ranks,
        polls=len(polls),
        seconds=seconds,
        steps=sum(known) if known else None,
    )
    if problem := _why_no_verdict(report, read.over):
        return replace(report, problem=problem)
    asked = statistics.fmean(each.took for each in polls)
    # Ranks that are asked within an answer while others launch seem late by chance.
    smallest = max(MIN_LATE_SHARE, 2 * asked * (sum(known) if known else MIN_STEPS) / seconds)
    late_of: LateProcesses = {}
    for at, poll in enumerate(polls):
        for each in poll.late:
            for number, _ in each.processes:
                late_of.setdefault(number, {}).setdefault(at, set()).add(each.communicator)
    usual = sum(known) / len(known) if known else 0.0
    late = [_measure_lateness(each, late_of, read, launches, report.steps, usual) for each in read.processes]
    shares = sorted(rank.share for rank, _ in late)
    never = max(0, max(read.ranks, 2) - len(shares))
    judged = [
        _judge_rank(each, times, smallest, median_of_others(shares, each.share, zeros=never)) for each, times in late
    ]
    judged.sort(key=lambda each: (not each.suspect, -each.share))
    never_late = _confidence_interval([], len(polls), report.steps)[1]
    bound = max((each.high for each in judged if not each.suspect), default=never_late)
    return replace(report, late=tuple(judged), bound=max(bound, never_late))


def _why_no_verdict(report: SlowReport, over: str) -> str:
    if not report.polls:
        return f"NCCL's RAS service does not answer ({over or 'it said nothing'})."
    if report.ranks < 2:
        return "NCCL knows no communicator of two ranks and more: there is nobody who waits."
    end = f": {over}" if over else ""
    if report.polls < MIN_POLLS or report.seconds <= 0:
        enough = f" {report.seconds / report.polls * MIN_POLLS * 1.2:.0f}" if report.polls and not over else ""
        return (
            f"No verdict: NCCL answered {report.polls} times only, {MIN_POLLS} are needed{end}; look longer: "
            f"--seconds{enough}."
        )
    if report.steps == 0:
        return (
            f"No verdict: NCCL launched nothing in {report.seconds:.0f} s. The job stands still (a4 hang tells where) "
            "or its steps take longer (--seconds)."
        )
    if report.steps is not None and report.steps < MIN_STEPS:
        longer = report.seconds / report.steps * ASKED_STEPS
        return (
            f"No verdict: NCCL launched at {report.steps} moments only in {report.seconds:.0f} s, "
            f"{MIN_STEPS} are needed; look longer: --seconds {longer:.0f}."
        )
    return ""


def _has_progressed(earlier_poll: RasPoll, later_poll: RasPoll) -> bool | None:
    if earlier_poll.progress is None or later_poll.progress is None:
        return None
    return later_poll.progress != earlier_poll.progress


def _measure_lateness(
    process: PolledProcess,
    late_of: LateProcesses,
    polls: RasPolls,
    launches: Sequence[bool | None],
    steps: int | None,
    usual_seconds: float,
) -> tuple[LateRank, int]:
    """The lateness of a process, and how many times it became late; `steps`: made meanwhile, None if unknown."""
    times_late = late_of.get(process.number, {})
    everywhere = _is_late_everywhere(process, times_late, polls.active)
    when = sorted(times_late)
    share = len(when) / len(polls.polls)
    low, high = _confidence_interval(when, len(polls.polls), steps)
    # Not the very next interval: the others may be amid a burst of launches.
    meanwhile = [each for at in when if at + 1 < len(launches) and (each := launches[at + 1]) is not None]
    expected = usual_seconds * len(meanwhile)
    ahead = sum(meanwhile) >= 3 and 2 * sum(meanwhile) >= expected
    times = sum(at - 1 not in times_late for at in when)
    found = LateRank(
        process.rank,
        process.host,
        process.pid,
        process.gpu,
        share,
        low,
        high,
        runs_ahead=ahead,
        partly=everywhere is False,
    )
    return found, times


def _judge_rank(late: LateRank, times: int, smallest: float, others_median: float) -> LateRank:
    """The rank, a suspect or not: shares up to `smallest` may be chance; `others_median`: the others' share."""
    stands_out = times >= MIN_TIMES_LATE and late.low > max(smallest, ABOVE_OTHERS * others_median)
    return replace(
        late,
        suspect=stands_out and not late.runs_ahead and not late.partly,
        runs_ahead=late.runs_ahead and (stands_out or late.low >= ALWAYS_LATE_SHARE),
        partly=stands_out and late.partly,
    )


def _is_late_everywhere(
    process: PolledProcess, times_late: Mapping[int, set[int]], active_ranks: frozenset[int]
) -> bool | None:
    """Whether a rank is late in all its communicators, which points to its host; None if unknown."""
    if process.communicators is None:
        return None
    counts = Counter(each for several in times_late.values() for each in several)
    return all(2 * counts[each] >= len(times_late) for each in active_ranks.intersection(process.communicators))


def _confidence_interval(late_answers: Sequence[int], count: int, steps: int | None) -> tuple[float, float]:
    """(low, high) at 95 % for the share of `count` answers with a late rank; `steps`: made meanwhile, if known."""
    share = len(late_answers) / count
    middle = (share + NORMAL_95**2 / (2 * count)) / (1 + NORMAL_95**2 / count)
    half = NORMAL_95 / (1 + NORMAL_95**2 / count) * (share * (1 - share) / count + NORMAL_95**2 / (4 * count**2)) ** 0.5
    most = len(STUDENT_T) + MIN_STEPS - 1
    blocks = most if steps is None else max(MIN_STEPS, min(most, steps))
    ends = [at * count // blocks for at in range(blocks + 1)]
    means = [(bisect_left(late_answers, to) - bisect_left(late_answers, at)) / (to - at) for at, to in pairwise(ends)]
    mean = sum(means) / blocks
    scatter = STUDENT_T[blocks - MIN_STEPS] * (sum((each - mean) ** 2 for each in means) / (blocks - 1) / blocks) ** 0.5
    return max(0.0, min(middle - half, share - scatter)), min(1.0, max(middle + half, share + scatter))


def add_locations(report: SlowReport, locate: Callable[[LateRank], tuple[int | None, str]]) -> SlowReport:
    """The report with pod index and node of each late rank, as `locate` returns them."""
    late = []
    for each in report.late:
        pod_index, node = locate(each)
        late.append(replace(each, pod_index=pod_index, node=node))
    return replace(report, late=tuple(late))


def add_times(report: SlowReport, times: TimesReport, nodes: Mapping[int, str]) -> SlowReport:
    """The slow-rank report with the verdict of the measured times of collectives added."""
    report = replace(report, timed=times.words)
    if not times.has_verdict or (report.problem and report.steps == 0):
        return report
    asked = {each.rank: each for each in report.late}
    if times.link is not None:
        pod = times.link.pod
        found = [
            LateRank(
                times.link.rank,
                None,
                None,
                0,
                0.0,
                0.0,
                times.busy,
                slow=True,
                cause="network",
                pod_index=pod,
                node=nodes.get(pod, ""),
                evidence=times.link.what,
            )
        ]
    else:
        found = [_merge_gpu_lateness(each, asked.get(each.rank), nodes, report) for each in times.late]
        known = {each.rank for each in found}
        # Whose launches are late and who comes to no collective late costs nobody anything.
        found += [each for each in report.suspects if each.rank not in known and each.rank not in times.highs]
    named = {each.rank for each in found}
    rest = [_without_cause(each) for each in report.late if each.rank not in named]
    problem = ""
    if not found and times.bound >= 1:
        problem = (
            "No verdict: the times of collectives scatter so much that nothing can be ruled out; look longer: "
            f"--seconds {3 * max(report.seconds, MIN_ASKED_SECONDS):.0f}."
        )
    return replace(report, late=(*found, *rest), problem=problem, no_gpu_slow=not found, bound=min(1.0, times.bound))


def _without_cause(late: LateRank) -> LateRank:
    return replace(late, slow=False, suspect=False, runs_ahead=False, partly=False)


def _merge_gpu_lateness(
    late: LateOnGpu, asked_rank: LateRank | None, nodes: Mapping[int, str], report: SlowReport
) -> LateRank:
    """One late rank by both measurements: NCCL's answers (None if not late in them), and the times on the GPU."""
    host, pid = (asked_rank.host, asked_rank.pid) if asked_rank else (None, None)
    cause = _cause_by_launches(late, asked_rank, report)
    # That a GPU is slow two instruments tell: the times on it, and the launches in time of its host.
    return LateRank(
        late.rank,
        host,
        pid,
        late.gpu,
        late.share,
        late.low,
        late.high,
        slow=cause == "GPU",
        suspect=cause != "GPU",
        timed=True,
        cause=cause,
        staged=late.staged,
        estimate=late.estimate,
        least=late.least,
        most=late.most,
        pod_index=late.pod,
        node=nodes.get(late.pod, ""),
    )


def _cause_by_launches(late: LateOnGpu, asked_rank: LateRank | None, report: SlowReport) -> str:
    if late.by_host is not None:
        return "host" if late.by_host else "GPU"
    if asked_rank is None or asked_rank.share >= ALWAYS_LATE_SHARE:
        return "GPU"
    if asked_rank.runs_ahead and (report.steps or 0) > MAX_MOVING_SHARE * report.polls:
        return "not known"
    return "host" if not asked_rank.runs_ahead and 2 * asked_rank.share >= late.share else "GPU"


def seconds_to_ask(step: float | None) -> float:
    """The seconds for which NCCL is polled for late ranks, by the length of a step if known."""
    return min(MAX_ASKED_SECONDS, max(MIN_ASKED_SECONDS, ASKED_STEPS * (step or 0.0)))


def locate_late_rank(late: LateRank, all_ranks: Sequence[PodRank]) -> tuple[int | None, str]:
    """Index and node of a late rank's pod, by its IP address, else by its rank number."""
    gpus = {rank.gpus for rank in all_ranks}
    found = [rank for rank in all_ranks if rank.address == late.host]
    if len(found) != 1 and late.rank is not None and len(gpus) == 1 and gpus != {0}:
        found = [rank for rank in all_ranks if rank.number == late.rank // min(gpus)]
    return (found[0].number, found[0].node) if len(found) == 1 else (None, "")
