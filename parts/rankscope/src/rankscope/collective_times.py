"""The rank that the others wait for on the GPU, by how long each rank was in the same collectives (pure).

The last rank to enter a collective is in it for the shortest time, as the others wait there for it. PyTorch's flight
recorder has these times (TORCH_NCCL_ENABLE_TIMING), also of a GPU that computes slowly while its host launches in time.
A rank that waits for another in one of its groups is late in its other groups only because of that. Ranks that are late
together and make up whole smaller groups are a pipeline stage.

The waits of a step add up only where the program itself calls the collectives, one after the other. Where collectives
overlap the computation (the buckets of DDP, FSDP), a rank that was late once makes the others wait in each following
collective: its cost is the longest of these waits. Waits that other ranks cause too are no cost of this rank: the waits
of the median rank are subtracted from each step, and outlier steps, in which a rank saves or evaluates, are capped.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import mul
from typing import Annotated

import msgspec

from rankscope.decoding import MAX_PROCESSES, RankNumber, Signed, Text, decode_answer
from rankscope.errors import UnreadableAnswer
from rankscope.flight_recorder import GroupRanks, GroupTable, ProcessGroup
from rankscope.host_or_gpu import MIN_PACE_SHARE, MIN_PART_OF_WAIT, RankLaunches, is_late_by_host, share_beyond_hosts

MIN_TIMED = 8  # collectives of a group that all of its ranks tell
MIN_SHARE = 0.05  # of a step: GPUs of a fleet differ by 1 to 3 %, and that is no fault
MIN_LOWER_BOUND = 0.025  # the least with 95 % confidence: less is told of healthy ranks, too
ABOVE_OTHERS = 3  # times as late as the usual rank
MEAN_BLOCKS, STUDENT_T = 8, 2.365
"""Number of blocks of collectives whose means give the scatter, and Student's t for 95 % with that many blocks."""
MAX_COLLECTIVES_PER_STEP, MIN_STEPS = 250, 8
"""Maximum collectives in a step, and minimum number of steps."""
MIN_VARIATION, MIN_CORRELATION = 0.2, 0.4
"""Standard deviation of the logarithms of intervals below which each collective is a step of its own, and their minimum
autocorrelation at which they repeat. (The least of 24 recorded runs of DDP and FSDP2 was 0.6.)"""
BATCHES_OF_STEP = 1.5  # times as long as what repeats itself in a group is the step at least, if that is its batches
SINGLE_STEP_SHARE = 0.15  # of all steps: what is longer in so few of them is no lasting cost
OWN_WAIT_SHARE = 0.5  # of its lateness: who waits as much for another in another group is not the cause
MIN_ROUND_TRIP_SECONDS, SLOW_TRIP_FACTOR = 0.00015, 3
"""Minimum excess in seconds, and as a multiple of the usual, of a slow link's round trips. (The least of 11 slow links
were 0.26 ms and 4.1 times; the most of 62 runs without one 0.04 ms and 2.2 times.)"""
WAIT_ERROR, PACE_ERROR = 0.03, 0.06
"""Shares of a step: how far the cost of a rank may be below the wait of the others, and how far from the time that
their hosts lose. (Chosen on one half of 475 trials on H200; hosts of healthy runs lose 0.02 to 0.12.)"""
MIN_COLLECTIVE_SHARE = 0.05  # of the time in collectives beside all waiting, without which a link is harmless


class RankTimes(msgspec.Struct):
    """The collectives of one rank by group: (number, launch time, duration), times in microseconds."""

    rank: RankNumber
    why: Text = ""  # why there are none
    groups: dict[str, GroupRanks] = {}
    times: dict[str, list[tuple[Signed, Signed, Signed]]] = {}
    since: Signed | None = None
    queued: dict[str, list[Signed]] = {}
    """By group, at several moments, how long ago the oldest unfinished collective was launched, in microseconds."""
    direct: list[Text] = []
    """Groups whose collectives the program calls itself, so that its computation waits for each collective."""
    cut: list[Text] = []
    """Groups of which only the last collectives are recorded, which cover less time than those of other groups."""
    sends: list[Text] = []
    """Groups in which ranks send to each other, as stages of a pipeline do."""
    gathers: list[Text] = []
    """Groups, not in `direct`, whose collectives gather parameters, which the computation has to wait for."""


class RdmaDevice(msgspec.Struct):
    name: Text
    state: Text = ""
    rate: Text = ""


class PodTimes(msgspec.Struct):
    ranks: Annotated[list[RankTimes], msgspec.Meta(max_length=MAX_PROCESSES)]
    links: list[tuple[Text, Signed, Signed]] = []
    """(peer, smoothed round trip, least round trip) of each connection of the pod, in microseconds."""
    rdma: list[RdmaDevice] = []
    no_links: Text = ""
    clock: Text = ""  # names the machine whose clock launches are timed by


@dataclass(frozen=True, slots=True)
class LateOnGpu:
    """A rank for which the others wait in collectives, with the share of the time for which they wait."""

    rank: int
    share: float
    low: float  # with 95 % confidence
    high: float
    pod: int = 0
    gpu: int = 0
    by_host: bool | None = None  # whether it launches as late as the others wait; None: clocks do not tell
    staged: bool = False  # it is in a stage of a pipeline, which may hide a part of that
    estimate: float = 0.0  # of each step, what it costs: less than the others wait, where their hosts need that time
    least: float = 0.0
    most: float = 1.0


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A pod whose traffic is slower than that of the others."""

    pod: int
    rank: int  # the first one in it
    what: str  # to follow the pod: "its packets take 5.1 ms there and back, those of other pods 0.08 ms"


@dataclass(frozen=True, slots=True)
class TimesReport:
    """The result of comparing all ranks' collective times: late ranks, and a slow link."""

    late: tuple[LateOnGpu, ...] = ()
    link: SlowLink | None = None
    words: str = ""  # how many ranks told what
    has_verdict: bool = False  # whether there was enough for one
    bound: float = 1.0  # no other rank is late for a larger share
    highs: Mapping[int, float] = field(default_factory=dict)  # the largest share of each rank, with 95 % confidence
    busy: float = 0.0  # share of the time in which all ranks are in a collective


def read_times(answers: Mapping[int, bytes | str], addresses: Mapping[str, int]) -> TimesReport:
    """The report on the collective times in these answers of pods; it counts unreadable answers."""
    pods: dict[int, PodTimes] = {}
    why = ""
    for number, answer in answers.items():
        try:
            if isinstance(answer, str):
                raise UnreadableAnswer(answer)
            pods[number] = decode_answer(answer, PodTimes, "What the pod tells of times")
        except UnreadableAnswer as error:
            why = why or str(error)
    report = find_late_on_gpu(pods, addresses)
    deaf = len(answers) - len(pods)
    return replace(report, words=f"{report.words}; {deaf:,} pods could not be asked: {why}") if deaf else report


def find_late_on_gpu(pods: Mapping[int, PodTimes], addresses: Mapping[str, int]) -> TimesReport:
    """The late ranks by the times of their collectives on the GPU; `addresses`: the pods' IP addresses."""
    ranks = [each for pod in pods.values() for each in pod.ranks]
    clocks = {each.rank: pod.clock for pod in pods.values() for each in pod.ranks}
    several: dict[ProcessGroup, dict[int, RankLaunches]] = defaultdict(dict)
    spans: list[float] = []
    table = GroupTable()
    overlapping: set[ProcessGroup] = set()
    gathering: set[ProcessGroup] = set()
    for each in ranks:
        for name, group in each.groups.items():
            if len(group.ranks) > 1 and each.rank in group.ranks and (rows := each.times.get(name)):
                known = table.find(name, group)
                several[known][each.rank] = RankLaunches(
                    {number: at + (each.since or 0) for number, at, _ in rows},
                    {number: took for number, _, took in rows},
                    clocks[each.rank] if each.since is not None else "",
                    each.queued.get(name, ()),
                    cut=name in each.cut,
                )
                if name not in each.direct:
                    overlapping.add(known)
                gathering.update([known] if name in each.gathers else [])
        launched = [at for rows in each.times.values() for _, at, _ in rows]
        spans += [float(max(launched) - min(launched))] if launched else []
    span = max(spans, default=0.0)
    sizes = _find_sizes(several, overlapping)
    judged = {
        group: found
        for group, size in sizes.items()
        if (
            found := _GroupLateness.of(
                several[group], span, size, overlap=group in overlapping, gathers=group in gathering
            )
        )
    }
    timed = sum(bool(each.times) for each in ranks)
    why = next((each.why for each in ranks if each.why), "")
    words = f"{timed:,} of {len(ranks):,} ranks told how long collectives took" + (f" ({why})" if why else "")
    if ranks and not timed and not why:
        words += " (TORCH_NCCL_ENABLE_TIMING is not set)"
    if not judged:
        return TimesReport(link=None, words=words)
    late = _root_causes(judged)
    highs: dict[int, float] = {}
    for lateness in judged.values():
        for rank, high in lateness.highs.items():
            highs[rank] = max(high, highs.get(rank, 0.0))
    busy = max(each.common for each in judged.values())
    link = _slow_link(pods, addresses) if busy >= MIN_COLLECTIVE_SHARE else None
    place = {
        each.rank: (number, at)
        for number, pod in pods.items()
        for at, each in enumerate(sorted(pod.ranks, key=lambda each: each.rank))
    }
    staged = {each.rank for each in ranks for name in each.sends if name in each.groups}
    named = [
        replace(
            _estimate_cost(each, share_beyond_hosts(others, sizes[which]), gathers=which in gathering),
            staged=each.rank in staged,
            pod=place[each.rank][0],
            gpu=place[each.rank][1],
            by_host=is_late_by_host(each.rank, several[which], found.late, found.longest[each.rank]),
        )
        for which, each in late.values()
        for found in (judged[which],)
        for frees_hosts in (which in overlapping - gathering and each.rank not in staged,)
        for others in ([own for rank, own in several[which].items() if frees_hosts and rank not in found.late],)
    ]
    named.sort(key=lambda each: -each.share)
    bound = max((high for rank, high in highs.items() if rank not in late), default=1.0)
    return TimesReport(tuple(named), link, words, has_verdict=True, highs=highs, bound=bound, busy=busy)


def _estimate_cost(late: LateOnGpu, lost: float, *, gathers: bool) -> LateOnGpu:
    """The late rank with the share of each step that its lateness costs; `lost`: the share that others' hosts lose."""
    share = (late.low + late.high) / 2 if gathers else late.share
    if max(MIN_PACE_SHARE, MIN_PART_OF_WAIT * share) <= lost < share:
        least, most = min(late.low - WAIT_ERROR, lost - PACE_ERROR), min(late.high, lost + PACE_ERROR)
        return replace(late, estimate=lost, least=max(0.0, least), most=most)
    return replace(late, estimate=share, least=max(0.0, late.low - WAIT_ERROR), most=late.high)


@dataclass(frozen=True, slots=True)
class _GroupLateness:
    """Of each rank of a group the share of the time for which the others wait for it; negative if it waits for them."""

    shares: dict[int, float]
    lows: dict[int, float]
    highs: dict[int, float]
    waits: dict[int, float]  # for what share of the time it waits itself for the latest one
    late: frozenset[int]
    longest: dict[int, list[int]]  # of each late rank the collective of each step in which the others wait longest
    common: float  # share of the time in which all are in its collectives

    @staticmethod
    def of(
        launches: Mapping[int, RankLaunches], span: float, size: int, *, overlap: bool, gathers: bool
    ) -> _GroupLateness | None:
        """The lateness of each rank of a group; None if no time has passed. `span` is in microseconds."""
        if span <= 0:
            return None
        times = {rank: each.on_gpu for rank, each in launches.items()}
        timed, known = sorted(times), _common_collectives(launches)
        # Of the time, for each collective. The span begins and ends with one of the busiest group, not of others.
        own_part = _mean_interval(launches)
        every = len(set[int]().union(*times.values()))
        part = own_part if any(each.cut for each in launches.values()) else max(span / every, own_part)
        steps = [known[at : at + size] for at in range(0, len(known) - size + 1, size)]
        usual = {number: statistics.median(times[rank][number] for rank in timed) for number in known}
        # Of two ranks, the median is halfway to the other.
        factor = 2 if len(timed) == 2 else 1
        earlier = {
            rank: [[max(0.0, factor * (usual[each] - own[each])) for each in step] for step in steps]
            for rank in timed
            for own in (times[rank],)
        }
        of_step = max if overlap else sum
        costs = {rank: list(map(of_step, several)) for rank, several in earlier.items()}
        # Where only a part of the collectives holds up the computation, the waits add up in part: they are a bound.
        added = (
            _cost_beyond_others({rank: list(map(sum, several)) for rank, several in earlier.items()}) if gathers else {}
        )
        shares: dict[int, float] = {}
        middles: dict[int, float] = {}
        half: dict[int, float] = {}
        highs: dict[int, float] = {}
        for rank, more in _cost_beyond_others(costs).items():
            shares[rank], half[rank] = _mean_and_half(more, part * size)
            whole, scatter = _mean_and_half(added.get(rank, more), part * size)
            middles[rank] = (shares[rank] + whole) / 2
            highs[rank] = max(_mean_and_half(costs[rank], part * size)[0] + half[rank], whole + scatter)
        least = {number: min(times[rank][number] for rank in timed) for number in known}
        waits = {
            rank: statistics.fmean(of_step(own[each] - least[each] for each in step) for step in steps) / (part * size)
            for rank in timed
            for own in (times[rank],)
        }
        positive = sorted(max(0.0, share) for share in shares.values())
        late = frozenset(
            rank
            for rank, share in shares.items()
            if middles[rank] >= MIN_SHARE
            and share - half[rank] > max(MIN_LOWER_BOUND, ABOVE_OTHERS * median_of_others(positive, max(0.0, share)))
        )
        return _GroupLateness(
            shares,
            {rank: share - half[rank] for rank, share in shares.items()},
            highs,
            waits,
            late,
            {rank: [min(step, key=lambda each: times[rank][each] - usual[each]) for step in steps] for rank in late},
            statistics.fmean(least.values()) / part,
        )


def _common_collectives(launches: Mapping[int, RankLaunches]) -> list[int]:
    """The collectives of a group that all its ranks report."""
    first, *others = (each.on_gpu for each in launches.values())
    return sorted(number for number in first if all(number in each for each in others))


def _mean_interval(launches: Mapping[int, RankLaunches]) -> float:
    return statistics.median(each.mean_interval for each in launches.values())


def _find_sizes(
    several: Mapping[ProcessGroup, Mapping[int, RankLaunches]], overlapping: Set[ProcessGroup]
) -> dict[ProcessGroup, int]:
    """For each group of which enough is known, the number of its collectives in one step."""
    found: dict[ProcessGroup, int | None] = {}
    for group, launches in several.items():
        known = _common_collectives(launches)
        if len(launches) > 1 and len(known) >= MIN_TIMED:
            found[group] = find_step(launches[min(launches)].launched, known)
    intervals = {group: _mean_interval(several[group]) for group in found}
    longest = max((size * intervals[group] for group, size in found.items() if size and size > 1), default=0.0)
    for group, size in found.items():
        # Where waits overlap, those of several steps are not those of one.
        if group not in overlapping:
            by_others = round(longest / intervals[group]) if intervals[group] else 1
            enough = by_others * MIN_STEPS <= len(_common_collectives(several[group]))
            found[group] = by_others if enough and by_others >= BATCHES_OF_STEP * (size or 1) else size or 1
    return {group: size for group, size in found.items() if size}


def find_step(launched: Mapping[int, int], numbers: Sequence[int]) -> int | None:
    """The number of collectives in one step, found by their repetition; None if they do not repeat."""
    gaps = [math.log(max(1, launched[after] - launched[before])) for before, after in pairwise(numbers)]
    mean = statistics.fmean(gaps)
    gaps = [each - mean for each in gaps]
    whole = sum(each * each for each in gaps) / len(gaps)
    if whole < MIN_VARIATION**2:
        return 1
    most = min(MAX_COLLECTIVES_PER_STEP, len(gaps) // MIN_STEPS)
    like = [sum(map(mul, gaps, gaps[by:])) / (len(gaps) - by) / whole for by in range(1, most + 1)]
    best = max(like, default=0.0)
    return next(by for by, each in enumerate(like, 1) if each >= 0.65 * best) if best >= MIN_CORRELATION else None


def _cost_beyond_others(costs: Mapping[int, Sequence[float]]) -> dict[int, list[float]]:
    """By rank the cost of each step beyond the median cost of the other ranks."""
    ordered = [sorted(several) for several in zip(*costs.values(), strict=True)]
    return {
        rank: [cost - median_of_others(every, cost) for cost, every in zip(own, ordered, strict=True)]
        for rank, own in costs.items()
    }


def _cap_outlier_steps(costs: Sequence[float]) -> list[float]:
    """The costs of steps with a few outliers lowered to the highest other cost, and raised to its negative."""
    most = sorted(costs)[math.ceil((1 - SINGLE_STEP_SHARE) * len(costs)) - 1]
    return [max(min(each, most), -abs(most)) for each in costs]


def median_of_others(values: Sequence[float], own_seconds: float, zeros: int = 0) -> float:
    """The median of the sorted values without `own_seconds`; `zeros`: number of further values that are zero."""
    gone, rest = zeros + bisect_left(values, own_seconds), zeros + len(values) - 1

    def at(rank: int) -> float:
        rank += rank >= gone
        return values[rank - zeros] if rank >= zeros else 0.0

    return (at((rest - 1) // 2) + at(rest // 2)) / 2


def _mean_and_half(values: Sequence[float], part: float) -> tuple[float, float]:
    """(mean share of the time without outlier steps, half of its 95 % interval), by the means of blocks of steps."""
    values, count = _cap_outlier_steps(values), len(values)
    blocks = [values[at * count // MEAN_BLOCKS : (at + 1) * count // MEAN_BLOCKS] for at in range(MEAN_BLOCKS)]
    means = [statistics.fmean(each) / part for each in blocks if each]
    return statistics.fmean(values) / part, STUDENT_T * statistics.stdev(means) / len(means) ** 0.5


def _root_causes(judged: Mapping[ProcessGroup, _GroupLateness]) -> dict[int, tuple[ProcessGroup, LateOnGpu]]:
    """By late rank its group and lateness, without pipeline stages and ranks that wait in another group."""
    own: dict[int, list[frozenset[int]]] = defaultdict(list)  # the members of each group of a rank
    waits: dict[int, dict[ProcessGroup, float]] = defaultdict(dict)
    for group, lateness in judged.items():
        members = frozenset(group.ranks)
        for rank in members:
            own[rank].append(members)
            waits[rank][group] = lateness.waits.get(rank, 0.0)
    found: dict[int, tuple[ProcessGroup, LateOnGpu]] = {}
    for group, lateness in judged.items():
        if lateness.late and _is_stage(group, lateness.late, own):
            continue
        elsewhere = {
            rank: max((wait for other, wait in waits[rank].items() if other != group), default=0.0)
            for rank in lateness.shares
        }
        ordered = sorted(elsewhere.values())
        for rank in lateness.late:
            share = lateness.shares[rank]
            # What the others wait for as well, as all of a stage do for another, does not make it later than them.
            explained = elsewhere[rank] - median_of_others(ordered, elsewhere[rank])
            if explained < OWN_WAIT_SHARE * share and (rank not in found or found[rank][1].share < share):
                low, high = lateness.lows[rank], lateness.highs[rank]
                found[rank] = group, LateOnGpu(rank, min(1.0, share), min(1.0, low), min(1.0, high))
    return found


def _is_stage(group: ProcessGroup, late: frozenset[int], own_groups: Mapping[int, Iterable[frozenset[int]]]) -> bool:
    """Whether the late ranks are a pipeline stage: several, and for each of them its smaller groups as a whole."""
    smaller = [each for rank in late for each in own_groups[rank] if len(each) < len(group.ranks)]
    return len(late) > 1 and bool(smaller) and all(each <= late for each in smaller)


def _slow_link(pods: Mapping[int, PodTimes], addresses: Mapping[str, int]) -> SlowLink | None:
    """The pod whose connections have longer round trips than all others, or whose NICs are slower; None without one."""
    pods = {number: pod for number, pod in pods.items() if pod.ranks}
    rates: dict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    for number, pod in pods.items():
        rates[tuple(sorted((each.rate, each.state) for each in pod.rdma))].append(number)
    if len(rates) > 1 and len(pods) > 2:
        odd, usual = min(rates.values(), key=len), max(rates.values(), key=len)
        if len(odd) == 1 < len(usual):
            usual_nics = {(each.rate, each.state) for each in pods[usual[0]].rdma}
            nic = next((each for each in pods[odd[0]].rdma if (each.rate, each.state) not in usual_nics), None)
            if nic is not None:
                return SlowLink(
                    odd[0],
                    _first_rank(pods[odd[0]]),
                    f"its {nic.name} has {nic.rate} ({nic.state}), unlike those of the other pods",
                )
    least_trips = _shortest_round_trips(pods, addresses)
    of_pod: dict[int, float] = {}
    for ends, trip in least_trips.items():
        for end in ends:
            of_pod[end] = min(trip, of_pod.get(end, math.inf))
    if len(of_pod) < 3:
        return None
    worst = max(of_pod, key=lambda number: of_pod[number])
    rest = [trip for ends, trip in least_trips.items() if worst not in ends]
    usual_trip = statistics.median(rest) if rest else 0.0
    least = max(usual_trip + MIN_ROUND_TRIP_SECONDS, SLOW_TRIP_FACTOR * usual_trip)
    if not rest or of_pod[worst] < least or max(rest) >= least:
        return None
    text = f"its packets take {of_pod[worst] * 1000:.2g} ms there and back, those of the others {usual_trip * 1000:.2g}"
    return SlowLink(worst, _first_rank(pods[worst]), f"{text} ms")


def _shortest_round_trips(pods: Mapping[int, PodTimes], addresses: Mapping[str, int]) -> dict[frozenset[int], float]:
    """The least round trip by pair of pods, in seconds; both ends' measurements are averaged."""
    trips: dict[frozenset[int], dict[int, float]] = defaultdict(dict)
    for number, pod in pods.items():
        for peer, trip, _ in pod.links:
            other = addresses.get(peer)
            if other is not None and other != number:
                measured = trips[frozenset((number, other))]
                measured[number] = min(trip / 1e6, measured.get(number, math.inf))
    # One long round trip is chance: where a pod's link is slow, those of all its connections are. The end that receives
    # most measures shorter ones than the end that sends, so that their geometric mean counts.
    return {
        ends: math.exp(statistics.fmean(math.log(max(value, 1e-6)) for value in measured.values()))
        for ends, measured in trips.items()
    }


def _first_rank(pod: PodTimes) -> int:
    return min(each.rank for each in pod.ranks)
