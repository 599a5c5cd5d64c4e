"""Sentences on a slow or late rank: its name, how long the others wait, the cause, and what to do (pure)."""

from __future__ import annotations

from dataclasses import dataclass

BOUND_ERROR, MAX_BOUND = 0.03, 0.95
"""Shares of a step: the margin added to the measured upper bound of a cost, and the bound from which it is unknown."""


@dataclass(frozen=True, slots=True)
class LateRank:
    """A slow or late rank with the share of step time for which others wait, and the cause."""

    rank: int | None  # None: NCCL has no communicator of all processes
    host: str | None  # address of its pod; None: not known, as its pid then
    pid: int | None
    gpu: int
    share: float
    low: float  # with 95 % confidence
    high: float
    slow: bool = False  # others wait for it
    suspect: bool = False  # it launches later than the others, and whether they wait is not known
    partly: bool = False  # in some of its communicators only, as stages of a pipeline are
    runs_ahead: bool = False  # the others go on launching while it is behind: nobody need wait
    cause: str = "not known"  # host, GPU, network or data
    timed: bool = False  # its share is by the times of collectives
    staged: bool = False  # it is in a stage of a pipeline, which may hide a part of that
    estimate: float | None = None  # what it costs of each step; None: at most the highest share
    least: float = 0.0
    most: float = 1.0
    pod_index: int | None = None
    node: str = ""
    evidence: str = ""  # of a slow link, a data loader or a host, a phrase
    where: str = ""  # the line of the program at which it is while the others wait

    @property
    def cost(self) -> float | None:
        """The share of each step that the slow rank costs; None if it may be wrong by more than a third."""
        hidden = self.suspect or (self.staged and self.cause == "GPU")
        if self.estimate is None or hidden or 3 * self.least < 2 * self.estimate or 3 * self.most > 4 * self.estimate:
            return None
        return self.estimate

    @property
    def cost_at_most(self) -> float | None:
        """The largest share of each step that the rank may cost; None if unknown."""
        most = self.high if self.estimate is None else self.most + BOUND_ERROR
        return most if most < MAX_BOUND else None


def format_rank(late: LateRank) -> str:
    if late.rank is None:
        return f"process {late.pid} on {late.node or late.host} (GPU {late.gpu})"
    where = f"pod {late.pod_index}, " if late.pod_index is not None else ""
    node = f" on {late.node}" if late.node else ""
    return f"rank {late.rank} ({where}GPU {late.gpu}){node}"


def _begin_sentence(late: LateRank) -> str:
    name = format_rank(late)
    return name[0].upper() + name[1:]


def describe_slow_rank(late: LateRank) -> str:
    """A sentence on a slow rank: which one, how long the others wait for it, and the cause."""
    evidence = f": {late.evidence}" if late.evidence else ""
    return f"{_begin_sentence(late)}: {format_wait(late)}, {_CAUSE_WORDS.get(late.cause, CAUSE_NOT_KNOWN)}{evidence}."


def describe_cost(late: LateRank, *, is_short: bool = False) -> str:
    """The cost of a slow rank as a phrase: "Rank 9 on n1 costs about 7 % of each step"."""
    if late.cost is not None:
        costs = f"costs about {format_share(late.cost)} of each step"
    elif late.cost_at_most is not None:
        costs = f"costs at most about {format_share(late.cost_at_most)} of each step"
    else:
        costs = "costs a share of each step that is not known"
    cause = "host" if late.suspect else late.cause  # a suspect is one that launches late
    because = f" ({cause}{f': {late.where}' if late.where else ''})" if cause in _CAUSE_WORDS else ""
    name = f"rank {late.rank}" if late.rank is not None else f"process {late.pid}"
    return f"{name if is_short else _begin_sentence(late)} {costs}{because}"


def describe_suspect(late: LateRank) -> str:
    """A sentence on a rank that launches late, while it is unknown whether the others wait for it."""
    name, evidence = _begin_sentence(late), f": {late.evidence}" if late.evidence else ""
    if late.timed:
        return f"{name} may be slow: {format_wait(late)}{evidence}. By that alone it is only a suspicion."
    return (
        f"{name} launches later than the others for {_format_interval(late)} of each step: so long "
        f"they wait for it at most, if at all{evidence}."
    )


CAUSE_NOT_KNOWN = "the cause is not known"
_CAUSE_WORDS = {
    "host": "because of its host",
    "GPU": "because of its GPU",
    "network": "because of the network of its pod",
    "data": "because of its data",
}
SLOW_ADVICE = {
    "host": "Host: look at what else runs on that node and at its CPUs; a flame graph of the rank (F in the Hang tab, "
    "a4 hang JOB --rank RANK --record 10) shows what it does between two launches. If it stays slow, launch without "
    "that node.",
    "GPU": "GPU: look at its clock, temperature and Xid errors (GPUs tab, a4 gpus JOB); if it stays slow, launch "
    "without that node.",
    "network": "Network: look at the NICs and links of that node and at NCCL's warnings in the log; if they stay slow, "
    "launch without that node.",
    "data": "Data: look at the data set, at the storage that it is read from, and at the loader's workers; other nodes "
    "seldom help.",
    "not known": "Not known: the clocks of the nodes and NCCL's answers do not tell a slow host from a slow GPU; look "
    "at both (GPUs tab, a4 gpus JOB; a flame graph of the rank, F in the Hang tab).",
}
"""Advice on a slow rank, by its cause."""
DUMPS_HALT = "The first dump of its flight recorders halts each rank for 2 to 5 s."
ASK_RECORDERS = (
    "Not certain: M in the Hang tab, or a4 slow JOB --recorder, tells whether the others wait: it asks every rank how "
    "long it was in its collectives."
)
LOOK_LONGER = "Not certain: the times of the collectives scatter; look longer (a4 slow JOB --recorder --seconds)."
"""Advice on a rank that launches later than the others."""


def format_wait(late: LateRank) -> str:
    """The share of the step for which the others wait for a rank, with its 95 % confidence interval."""
    if late.share <= 0:  # of a slow link, it is only known how long all are in collectives
        return f"the others wait for it, at most for {format_share(late.high)} of each step"
    hides = "the pipeline may hide" if late.staged else "the other hosts hide" if late.most < late.share else ""
    hidden = f", of which {hides} a part" if hides else ""
    return f"the others wait for it for {_format_interval(late)} of each step{hidden}"


def _format_interval(late: LateRank) -> str:
    low, high = format_share(max(0.0, late.low)).removesuffix(" %"), format_share(late.high)
    return f"{format_share(late.share)} ({low} to {high} with 95 % confidence)"


def format_share(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):g} %"
