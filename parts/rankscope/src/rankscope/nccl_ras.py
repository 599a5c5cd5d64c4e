"""Parses the verbose status of NCCL's RAS service (port 28028, NCCL 2.24 and newer): ranks behind, missing or dead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rankscope.errors import UnreadableAnswer
from trainlog import format_ranges


@dataclass(frozen=True, slots=True)
class RasGroup:
    number: int
    communicators: int
    nodes: int
    ranks: int
    status: str  # "RUNNING", "INIT", "FINALIZE", "ABORT", "MIXED", …
    errors: str  # "OK", "MISMATCH", "INCOMPLETE,ERROR", …


@dataclass(frozen=True, slots=True)
class RasRank:
    """A rank in NCCL's report that differs from the others."""

    rank: int | None  # its number in the communicator; None: only the process is known
    operations: int | None = None  # number of the last operation it has launched
    collective: str = ""
    pid: int | None = None
    node: str = ""
    gpu: int | None = None
    missing: bool = False  # it gave no answer, or is dead
    error: str = ""  # what went wrong in it, to follow its name; not that another one is gone
    stays: bool | None = None
    """Whether the rank was behind at the same operation at an earlier poll; None: only one poll, or a missing rank."""
    others: int | None = None  # up to which operation most ranks of its communicator have launched


@dataclass(frozen=True, slots=True)
class RasReport:
    """The verbose RAS status that NCCL gave of a job."""

    version: str = ""
    processes: int | None = None
    groups: tuple[RasGroup, ...] = ()
    odd: tuple[RasRank, ...] = ()  # those that are behind first, then the missing
    most: int | None = None  # operation up to which most ranks have launched, in the communicator where most do
    text: str = ""
    located: bool = False  # ranks are numbers in the job, not in a communicator

    @property
    def is_healthy(self) -> bool:
        """Whether the report finds nothing wrong."""
        return not self.odd and all(group.errors in ("OK", "") for group in self.groups)

    @property
    def behind(self) -> tuple[RasRank, ...]:
        """Ranks that have launched fewer operations than the others."""
        return tuple(each for each in self.odd if not each.missing and each.operations is not None)

    def compare_with(self, earlier_report: RasReport) -> RasReport:
        """This report; marked are the ranks behind that were behind at the same operation in `earlier_report`."""
        known = {(each.rank, each.collective, each.operations) for each in earlier_report.behind}
        behind = set(self.behind)
        odd = (
            replace(each, stays=(each.rank, each.collective, each.operations) in known) if each in behind else each
            for each in self.odd
        )
        return replace(self, odd=tuple(odd))

    def covers_all(self, processes: int) -> bool:
        """Whether the report is about all `processes` ranks of the job, not about a smaller communicator."""
        return self.located or all(group.ranks == processes for group in self.groups if group.errors not in ("OK", ""))

    def with_job_ranks(self, ranks: Mapping[tuple[str, int | None], int]) -> RasReport:
        """This report with the job's rank numbers, where address and pid of each rank give them."""
        if not self.odd or any((each.node, each.pid) not in ranks for each in self.odd):
            return self
        odd = dict.fromkeys(replace(each, rank=ranks[each.node, each.pid]) for each in self.odd)
        return replace(self, odd=tuple(odd), located=True)

    def with_node_names(self, nodes: Mapping[tuple[int, int | None], str]) -> RasReport:
        """This report with node names for addresses, looked up by rank and pid, or by the job's rank."""
        odd = (
            replace(each, node=nodes.get((each.rank, each.pid)) or nodes.get((each.rank, own)) or each.node)
            if each.rank is not None
            else each
            for each in self.odd
            for own in (None if self.located else each.pid,)
        )
        return replace(self, odd=tuple(odd))

    @property
    def words(self) -> str:
        """The report as a sentence; empty if there is no report."""
        if not self.version and not self.groups:
            return ""
        if self.is_healthy:
            number = sum(group.communicators for group in self.groups)
            which = "its communicator" if number == 1 else f"all {number:,} communicators"
            return f"NCCL {self.version}: all ranks of {which} are at the same operation."
        alike: dict[tuple[object, ...], list[RasRank]] = {}
        for each in self.odd:
            pid = each.pid if each.rank is None else None
            mark = each.operations, each.others, each.collective, each.missing, each.error, pid
            alike.setdefault(mark, []).append(each)
        several = list(alike.values())
        parts = [self._format_ranks(ranks) for ranks in several[:4]]
        if left := sum(map(len, several[4:])):
            parts.append(f"and {left} more")
        kinds = sorted({kind for group in self.groups for kind in group.errors.split(",") if kind not in ("OK", "")})
        moves = ", but they move on" if self.odd and all(each.stays is False for each in self.odd) else ""
        return f"NCCL says {' and '.join(kinds) or 'trouble'}: {'; '.join(parts) or 'see its report'}{moves}."

    def _format_ranks(self, alike_ranks: Sequence[RasRank]) -> str:
        """The sentence on ranks with the same finding."""
        odd, many = alike_ranks[0], len(alike_ranks) > 1
        ranks = format_ranges(each.rank for each in alike_ranks if each.rank is not None)
        name = f"rank{'s' if many else ''} {ranks}" if odd.rank is not None else f"process {odd.pid}"
        nodes = dict.fromkeys(each.node for each in alike_ranks if each.node)
        where = f" on {len(nodes)} nodes" if len(nodes) > 1 else f" on {next(iter(nodes))}" if nodes else ""
        if odd.missing or odd.error:
            silent = "do not answer" if many else "does not answer"
            return f"{name}{where} {odd.error.replace('has ', 'have ', many) or silent}"
        beside = f", the others {odd.others:,}" if odd.others is not None else ""
        verb = "have" if many else "has"
        return f"{name}{where} {verb} launched {odd.operations:,} {odd.collective or 'operations'}{beside}"


MAX_LINES = 100_000
MAX_RANKS = 50_000  # that a report may list: a line of ranges names millions
_N = r"(\d{1,18})"
_VERSION_LINE = re.compile(r"NCCL version (\S{1,40})")
_JOB_LINE = re.compile(rf"\s*\d+\s+\d+\s+\d+\s+{_N}\s+\d+\s*$")
_COMMUNICATOR_LINE = re.compile(rf"\s*{_N}\s+{_N}\s+{_N}\s+{_N}\s+{_N}\s+{_N}\s+([A-Z_]+)\s+([A-Z_,]+)\s*$")
_COUNTS_DIFFER_LINE = re.compile(r"Communicator ranks have different (\w{1,40}) operation counts")
_LAUNCHED = rf"ha(?:s|ve) (?:launched up to operation {_N}|not launched any operations)"
_MAJORITY_LINE = re.compile(rf"\s*{_N} ranks? {_LAUNCHED}")
# Where CUDA_VISIBLE_DEVICES hides some, the number of NVML stands beside that of CUDA: "GPU 0 (NVML 1)".
_GPUS = rf"GPUs? {_N}[\d, -]*(?:\(NVML [\d, -]+\))?"
_BEHIND_LINE = re.compile(
    r"\s*Ranks? (\d[\d, -]{0,400}) "
    rf"{_LAUNCHED}(?: -- {_GPUS} managed by process(?:es)? {_N}[\d, -]* on nodes? (\S+))?"
)
_MISSING_PROCESS_LINE = re.compile(rf"\s*Process {_N} on node (\S+) managing {_GPUS}")
_REPORTED_LINE = re.compile(r"\s*\d+ ranks reported (\w[\w ]{0,60})$")
_FAILED_LINE = re.compile(
    rf"\s*Rank {_N} (?:reported (\w[\w ]{{0,60}}?)|has status (\w+)) -- {_GPUS} managed by process {_N} on node (\S+)"
)
_NO_FAILURE = "Remote process error", "RUNNING"  # the first is what those report whose peer is gone
_MISSING_RANK_LINE = re.compile(rf"\s*Rank {_N} -- {_GPUS} managed by process {_N} on node (\S+)")


class _RasParser:
    def __init__(self) -> None:
        self.version = self.collective = ""
        self.processes: int | None = None
        self.groups: list[RasGroup] = []
        self.behind: list[RasRank] = []
        self.most: tuple[int, ...] = ()  # how many ranks have launched the same, and up to which operation
        self.listed: list[RasRank] = []  # with their operations, of one communicator and collective
        self.missing: list[RasRank] = []
        self.counts: list[tuple[int, int]] = []
        self.failed: list[RasRank] = []
        self.operation: int | None = None  # of the ranks that are listed below it
        self.reported = ""  # what the ranks have reported that are listed below it

    def parse_table_line(self, line: str) -> bool:
        """Parse a line of one of the tables; returns whether it is one."""
        if found := _VERSION_LINE.match(line):
            self.version = found[1]
        elif found := _COMMUNICATOR_LINE.match(line):
            number, comms, nodes, _, ranks, _ = map(int, found.groups()[:6])
            self.groups.append(RasGroup(number, comms, nodes, ranks, found[7], found[8]))
        elif (found := _JOB_LINE.match(line)) and self.processes is None:
            self.processes = int(found[1])
        return found is not None

    def close_section(self) -> None:
        """End a list of one communicator and collective: keep its ranks that launched fewer operations than most."""
        listed, self.listed, counts, self.counts = self.listed, [], self.counts, []
        # Of few ranks each has a line of its own: those behind are the ones that have launched less than the foremost.
        most = max(counts)[1] if counts else max((each.operations or 0 for each in listed), default=None)
        self.most = max([self.most, *counts])
        self.behind += [
            replace(each, others=most)
            for each in listed
            if each.operations is None or most is None or each.operations < most
        ]

    def parse_warning(self, line: str) -> None:
        if found := _COUNTS_DIFFER_LINE.search(line):
            self.close_section()
            self.collective = found[1]
        elif found := _MAJORITY_LINE.match(line):
            self.operation = int(found[2] or 0)
            self.counts.append((int(found[1]), self.operation))
        elif found := _BEHIND_LINE.match(line):
            self.listed += _find_behind(found, self.collective, MAX_RANKS - len(self.behind) - len(self.listed))
        elif found := _REPORTED_LINE.match(line):
            self.reported = found[1]
        elif found := _FAILED_LINE.match(line):
            self.add_failed(found, found[2] or found[3], "reported" if found[2] else "has status")
        elif (found := _MISSING_RANK_LINE.match(line)) and self.reported:
            self.add_failed(found, self.reported, "reported")
        elif found:
            rank, gpu, pid = map(int, found.groups()[:3])
            # Below "6 ranks have launched up to operation 6649" such lines name these ranks.
            several = self.missing if self.operation is None else self.listed
            collective = "" if self.operation is None else self.collective
            several.append(RasRank(rank, self.operation, collective, pid, found[4], gpu, self.operation is None))
        elif found := _MISSING_PROCESS_LINE.match(line):
            self.missing.append(RasRank(None, pid=int(found[1]), node=found[2], gpu=int(found[3]), missing=True))
        else:
            self.operation, self.reported = None, ""

    def add_failed(self, match: re.Match[str], label: str, verb: str) -> None:
        if label not in _NO_FAILURE:
            gpu, pid = map(int, match.groups()[-3:-1])
            self.failed.append(RasRank(int(match[1]), None, "", pid, match.groups()[-1], gpu, error=f"{verb} {label}"))


def parse_ras(text: str) -> RasReport:
    """The report in the text; empty if there is none. Raises UnreadableAnswer if it has far too many lines."""
    read = _RasParser()
    lines = text.split("\n", MAX_LINES)
    if len(lines) > MAX_LINES:
        raise UnreadableAnswer(f"NCCL's report has more than {MAX_LINES:,} lines.")
    for line in lines:
        if not read.parse_table_line(line):
            read.parse_warning(line)
    read.close_section()
    behind = sorted(read.behind, key=lambda each: (each.operations or 0, each.rank or 0))
    odd = (*behind, *_drop_duplicates(read.missing), *dict.fromkeys(read.failed))
    return RasReport(
        read.version,
        read.processes,
        tuple(read.groups),
        odd,
        read.most[1] if read.most else max((each.others or 0 for each in behind), default=None),
        text,
    )


def _drop_duplicates(missing: list[RasRank]) -> list[RasRank]:
    """The missing processes without duplicates: one for each rank, if known."""
    ranks = {(each.pid, each.node) for each in missing if each.rank is not None}
    return list(dict.fromkeys(each for each in missing if each.rank is not None or (each.pid, each.node) not in ranks))


def _find_behind(match: re.Match[str], collective: str, limit: int) -> list[RasRank]:
    ranks = _parse_numbers(match[1], limit)
    gpu, pid = (int(text) if text and len(ranks) == 1 else None for text in match.groups()[2:4])
    return [RasRank(rank, int(match[2] or 0), collective, pid, match[5] or "", gpu) for rank in ranks]


def _parse_numbers(text: str, limit: int) -> list[int]:
    """The numbers 1, 4, 5, 6 of a list "1, 4-6"; at most `limit`."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.strip().isdecimal():
            last = int(high) if high.strip().isdecimal() else int(low)
            found += range(int(low), min(last, int(low) + limit - len(found) - 1) + 1)
    return found
