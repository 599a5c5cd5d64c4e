"""Finds failures in a log while it is printed; takes bytes in pieces of any size.

A line that names a failure is recognized by its words (`_READERS`); the reports of torchrun and mpirun over several
lines are put together first (`_LauncherReport`). A program may print a failure for every rank and many times: each
failure of a rank is stored once, with the number of its lines.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from trainlog.failure_kinds import (
    EXCEPTIONS,
    FAILURE_WORDS,
    HINTS,
    NVSWITCH,
    TEST_FAILURE,
    WARNINGS,
    XIDS,
    LogFailure,
    parse_gpu_fault,
    parse_nccl_message,
)
from trainlog.failure_patterns import CONTINUATION, FailureForm, find_form
from trainlog.lines import LineBlocks, WordSearch, iter_spans_with, split_label
from trainlog.regex import lazy_pattern

MAX_LINE = 1 << 13  # bytes of a line that are kept
MAX_FAILURES = 1000  # failures that are kept; of more only their number
TAIL_BYTES = 32 << 10  # bytes at the end of a log in which a launcher says how it ended: little comes after it
FAILURE_SEARCH = WordSearch(*FAILURE_WORDS, b"Error: ", b"Exception: ")
_MAX_REPORT_LINES = 40  # lines of which a report may consist for each process that it names
_MAX_TEXT_LENGTH = 300  # letters of a log's own words that are kept

_RANK = lazy_pattern(r"\[(?:rank|Rank )(\d{1,7})\]|\bRank (\d{1,7})\]|\[\d{1,9},(\d{1,7})\]<std|^\s{0,8}(\d{1,7}): ")
_RANK_PREFIX = lazy_pattern(r"\[rank\d{1,7}\]: ?")
_BEFORE_TRACEBACK = lazy_pattern(  # what belongs to every line of one: a rank, a time and a level, bars of a group
    r"(?P<rank>\[rank\d{1,7}\]: ?)?"
    r"(?P<prefix>(?:\[[^\]\n]{1,60}\] ?){1,4}|\d{4}-\d\d-\d\d[ T][^\n]{4,100}[\])A-Z:-] ?)?"
    r"(?P<gutter>\s*[|+] ?)?(?:Exception Group )?$"
)
_BOX_CHARACTERS = ("│", "╭", "╰", "┃")  # rich's
_GROUP_BAR = lazy_pattern(r"\s{0,40}[|+] ?")
_POD_LABEL = lazy_pattern(r"\[pod/([^\]\s/]{1,253})")
_KERNEL_LABEL = lazy_pattern(r"([\w.-]{1,253}) kernel: ")
_WATCHDOG_LINE = lazy_pattern(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?P<work>[^)]{0,300}?)Timeout\(ms\)=(?P<limit>\d{1,12})\)"
    r"(?: ran for (?P<ran>\d{1,12}) milliseconds)?"
)
_CUT_WATCHDOG = lazy_pattern(r"Watchdog caught collective operation timeout: WorkNCCL\((?P<work>.{0,300})")
_WATCHDOG_FIELD = lazy_pattern(r"(SeqNum|OpType)=(\w{1,60})")
_FLIGHT_RECORDER_LINE = lazy_pattern(
    r"collective timeout from\s{1,4}(?:rank (\d{1,7})\b|this local rank)|failure detected by watchdog at work"
)
_CUDA_OOM = lazy_pattern(
    r"(?:CUDA|HIP)(?: error:)? out of memory\b(?P<said>[^\n]{0,200})|CUDA_ERROR_OUT_OF_MEMORY"
    r"|(?i:RESOURCE[_ ]EXHAUSTED): (?:XLA:TPU.{0,60})?(?i:Out of memory|Failed to allocate request|Ran out of memory)"
    r"|Allocator \(GPU_\d{1,3}_bfc\) ran out of memory(?!.{0,400}not a failure)"
    r"|torch(?:\.cuda)?\.OutOfMemoryError: (?P<other>.{0,200})"
)
_TRIED_TO_ALLOCATE = lazy_pattern(
    r"(?i:tried|trying|failed) to allocate (?:request for )?(?:([\d.]{1,12} ?[KMGT]?i?B)\b|(\d{1,18}) ?bytes)"
)
_GPU_NUMBER = lazy_pattern(r"\bGPU[ _](?P<gpu>\d{1,3})(?:\b|_bfc)|device ordinal (?P<device>\d{1,3})")
_HOST_OOM = lazy_pattern(
    r"oom[_-]kill event|Out of memory: Kill|cgroup out of memory: Kill|[Ee]xceeded (?:job |step )?memory limit"
)
_KILLED_PROCESS = lazy_pattern(r"Kill(?:ed)? process (\d{1,10}),? ?\(?([^\s,)]{1,60})")
_DEEPSPEED_EXIT = lazy_pattern(r"exits with return code = (-?\d{1,6})")
_SLURM_CANCELLED = lazy_pattern(
    r"\*\*\* (?P<what>JOB|STEP) (?P<id>\S{1,60}) ON (?P<host>\S{1,253}) CANCELLED AT \S{1,40}"
    r"(?: DUE TO (?P<why>[A-Z ]{1,40}))?"
)
_SRUN_EXIT = lazy_pattern(
    r"srun: error: (?P<host>[\w.\[\],-]{1,253}): tasks? (?P<ranks>[\d,-]{1,200}): (?P<how>Exited with exit code \d{1,4}"
    r"|Out Of Memory|Killed|Segmentation fault|Aborted|Bus error|Terminated)"
)
_MPIRUN_NOTICE = lazy_pattern(r"(mpirun|mpiexec|prterun|orterun) noticed that process rank (\d{1,9}) with PID ")
_ON_NODE = lazy_pattern(r"on node (\S{1,253})")
_ON_SIGNAL = lazy_pattern(r"on\s+signal (\d{1,3})")
_MPIRUN_DETECTED = lazy_pattern(
    r"(mpirun|mpiexec|prterun|orterun)\S* detected that one or more processes exited with non-zero status"
)
_MPI_PROCESS_NAME = lazy_pattern(r"Process name: +\[(?:\[\d{1,9},\d{1,9}\]|[^\s\[\]]{1,300}@\d{1,9}),(\d{1,9})\]")
_EXIT_CODE = lazy_pattern(r"Exit code: +(-?\d{1,9})")
_TORCHRUN_SIGNAL = lazy_pattern(r"SignalException: Process \d{1,12} got signal: (\d{1,3})")
_ELASTIC_EXIT = lazy_pattern(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6})")
_TORCHRUN_FIELD = lazy_pattern(r"\s*(host|rank|exitcode|traceback) +: +(.*)")
_NUMBER = lazy_pattern(r"-?\d{1,9}")
_ROOT_CAUSE = "Root Cause (first observed failure)"
_GPU_LOST = lazy_pattern(r"(?:at |GPU )(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}(?:\.\d)?)?)")
_NCCL_TESTS_HOST = lazy_pattern(r"(?:([\w.-]{1,253}):|\.\. ([\w.-]{1,253}) pid \d{1,10}:) $")  # put there by nccl-tests
_CRASH_WORDS = lazy_pattern(r"Segmentation fault(?! handler)|Bus error|segmentation fault")
_TRACEBACK_HEAD = "Traceback (most recent call last)"
_EXCEPTION_LINE = lazy_pattern(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?<!Group)(?:Error|Exception|Exit|Interrupt)(?::|\s*$)"
)
_EXCEPTION = lazy_pattern(r"\s{0,4}((?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80})(?:: (.{0,2000}))?\s*$")
_BARE_ERROR = lazy_pattern(  # an exception with its message at the beginning of what is printed, without its traceback
    r"(?:^|(?<=[\])}>|])|(?<=[\])}>|] )|(?<=\]: )|(?<=\d )|(?<=(?:ERROR|FATAL)[: ])|(?<=ERROR: ))"
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}(?:[A-Z]\w{0,80}Error|(?:[A-Z]\w{0,80})?Exception): (?:\S{1,120} \S|['\"]).{0,2000}"
)
_WARNING_LEVEL = lazy_pattern(r"\bWARN|[Ww]arning\b|\b(?:INFO|DEBUG)\b")
_END_KINDS = ("torchrun", "mpirun", "deepspeed", "time-limit", "cancelled", "out-of-memory", "slurm", "signal")
"""Failure kinds by which a launcher or scheduler reports a job's end, the most informative first."""


class _LauncherReport(Struct):
    launcher: str
    line: int
    left: int = _MAX_REPORT_LINES
    members: list[dict[str, str]] = field(default_factory=list)
    root: bool = False  # the member after this heading is the one that failed first
    first: dict[str, str] | None = None


class _OpenTraceback(Struct):
    """A Python traceback whose last line is still to come."""

    line: int
    prefix: re.Pattern[str] | None = None  # what a logger puts in front of its lines; their indentation is lost then
    group: bool = False  # whether bars of an exception group stand in front of its lines

    def without_label(self, text: str) -> str | None:
        """The line without its process label; None if another process printed it."""
        if self.prefix is not None:
            found = self.prefix.match(text)
            return text[found.end() :] if found else None
        return _GROUP_BAR.sub("", text, count=1) if self.group else text

    def is_open(self, bare: str | None, line: int) -> bool:
        """Whether the traceback's last line is still to come; `bare`: without labels, None: of another process."""
        if line - self.line >= 2000:
            return False
        if bare is not None and (self.prefix is not None or self.group):
            return not _EXCEPTION_LINE.match(bare)
        return bare is None or bare.startswith((" ", "\t", *_BOX_CHARACTERS)) or not bare.strip()


class FailureParser:
    """Finds the failures in the log of one job, fed in pieces."""

    def __init__(self) -> None:
        self._line_blocks = LineBlocks(MAX_LINE, returns=True)
        self._found: dict[tuple[str, int | None, str, str], LogFailure] = {}
        self._ends: dict[str, tuple[int, str]] = {}  # kind -> where in the log a launcher last told its end so, and how
        self._reports: dict[str, _LauncherReport] = {}
        self._raising: dict[str, _OpenTraceback] = {}  # by label
        self._naming: FailureForm | None = None  # whose next lines may each name one more
        self._lines, self._counted, self._bytes = 0, 0, 0
        self.more = 0  # failures that were not kept because there were too many

    @property
    def failures(self) -> tuple[LogFailure, ...]:
        return tuple(sorted(self._found.values(), key=lambda each: each.line))

    @property
    def ended(self) -> str:
        """The launcher's last sentence on how the job ended, such as `torchrun: rank 1 failed first, exit code 1.`"""
        last = {kind: sentence for kind, (at, sentence) in self._ends.items() if self._bytes - at <= TAIL_BYTES}
        return next((last[kind] for kind in _END_KINDS if kind in last), "")

    def feed(self, data: bytes) -> bool:
        """Parse more bytes, up to the last line end; returns whether a failure was found."""
        block = self._line_blocks.feed(data)
        before, at = len(self._found), 0
        for start, end in iter_spans_with(
            FAILURE_SEARCH, block, lambda: bool(self._reports or self._raising or self._naming)
        ):
            self._counted += block.count(b"\n", at, start)
            at = start
            self._parse_line(block[start : min(end, start + MAX_LINE)], self._bytes + start)
        self._lines += block.count(b"\n")
        self._counted = self._lines
        self._bytes += len(block)
        return len(self._found) != before

    def close(self) -> bool:
        """Parse an unterminated last line; returns whether a failure was found."""
        before = len(self._found)
        if rest := self._line_blocks.flush():
            self._parse_line(rest, self._bytes)
        for label in list(self._reports):
            self._close_report(label, self._bytes)
        return len(self._found) != before

    def _parse_line(self, raw: bytes, offset: int) -> None:
        text = raw.decode("utf-8", "replace")
        label, bare = split_label(text)
        if found := _RANK_PREFIX.match(bare):
            label, bare = label + found.group(), bare[found.end() :]
        number = self._counted + 1
        if label in self._reports and self._add_to_report(label, bare, offset):
            return
        if self._naming is not None and self._names_one_more(text, number, offset):
            return
        raising = self._raising.pop(label, None)
        own = raising.without_label(bare) if raising is not None else bare
        if raising is not None and raising.is_open(own, number) and _TRACEBACK_HEAD not in text:
            self._raising[label] = raising
            if own is not None:
                return
        if self._opens_report(text, label, number):
            return
        line = number if raising is None else raising.line
        raised = _parse_exception(own, line) if raising is not None and own is not None else None
        if not self._add_named(text, bare, number, line, offset, raised) and raised is not None:
            self._add_failure(raised, label + text, offset)

    def _add_named(self, text: str, bare: str, number: int, line: int, offset: int, raised: LogFailure | None) -> bool:
        """Add the failures that a line names; one found by its form counts at `line`. Returns whether there is any."""
        found = [
            each
            for read in dict.fromkeys(read for word, read in _READERS if word in text)  # several may be in one line
            for each in read(bare if read is _parse_nccl_test_failure else text, number)
        ]
        if not found and (matched := find_form(text)) is not None:
            named, form = matched
            self._naming = form if form.names else None
            hint = HINTS.get(named.hint, named.hint)
            words = raised.text if raised is not None and named.text in raised.text else named.text
            found = [LogFailure(named.kind, words[:_MAX_TEXT_LENGTH], line, named.rank, named.host, hint)]
        mild = found or raised is not None or CONTINUATION.search(text) or _WARNING_LEVEL.search(text)
        if not mild and (alone := _BARE_ERROR.search(bare)) and (untraced := _parse_exception(alone.group(), number)):
            found = [untraced]
        for each in found:
            self._add_failure(each, text, offset)
        return bool(found)

    def _names_one_more(self, text: str, number: int, offset: int) -> bool:
        """Add another failure if this line continues the list of names on the line before; returns whether it does."""
        form = self._naming
        found = re.search(form.names, text) if form is not None else None
        if form is None or found is None:
            self._naming = None
            return False
        self._add_failure(
            LogFailure(form.kind, form.named.format_map(found.groupdict()), number, hint=form.hint), text, offset
        )
        return True

    def _opens_report(self, text: str, label: str, number: int) -> bool:
        if "ChildFailedError" in text:
            self._reports.setdefault(label, _LauncherReport("torchrun", number))
        elif found := _MPIRUN_DETECTED.search(text):
            self._reports[label] = _LauncherReport(found.group(1), number)
        elif (found := _MPIRUN_NOTICE.search(text)) and not _ON_SIGNAL.search(text):
            self._reports[label] = _LauncherReport(found.group(1), number, 3, [{"rank": found.group(2), "text": text}])
        elif _TRACEBACK_HEAD in text:
            before = text[: text.index(_TRACEBACK_HEAD)]
            found = _BEFORE_TRACEBACK.search(before, max(0, len(before) - 200))
            fields = found.groupdict() if found else {}
            rank, prefix = fields.get("rank") or "", fields.get("prefix") or ""
            if rank and not _RANK_PREFIX.search(label):
                label += rank
            shape = re.compile(re.sub(r"\d+", r"\\d+", re.escape(prefix))) if prefix else None
            self._raising[label] = _OpenTraceback(
                number, shape, group=bool(fields.get("gutter")) or "Exception Group" in before
            )
        else:
            return False
        return True

    def _add_failure(self, failure: LogFailure, text: str, offset: int) -> None:
        if failure.rank is None and (rank := _RANK.search(text)):
            failure = replace(failure, rank=int(next(each for each in rank.groups() if each)))
        if not failure.host and (host := _POD_LABEL.search(text) or _KERNEL_LABEL.search(text)):
            failure = replace(failure, host=host.group(1))
        if not failure.hint:
            failure = replace(failure, hint=HINTS.get(failure.kind, ""))
        if failure.kind in _END_KINDS:
            self._ends[failure.kind] = offset, _format_job_end(failure)
        # Of a rank that waits too long the first operation tells what the others only follow.
        same = "" if failure.kind in {"nccl-timeout", "nccl-test"} else failure.text
        key = failure.kind, failure.rank, failure.host, same
        if known := self._found.get(key):
            self._found[key] = replace(known, times=known.times + 1)
        elif len(self._found) < MAX_FAILURES:
            self._found[key] = failure
        else:
            self.more += 1

    def _add_to_report(self, label: str, text: str, offset: int) -> bool:
        """Add the line to a launcher's open report; returns whether it is part of it."""
        report = self._reports[label]
        report.left -= 1
        over = (self._parse_torchrun_line if report.launcher == "torchrun" else self._parse_mpirun_line)(report, text)
        if over or report.left <= 0:
            self._close_report(label, offset + len(text))
            return over
        return True

    def _parse_torchrun_line(self, report: _LauncherReport, text: str) -> bool:
        """Parse a line of torchrun's report on its processes; returns whether it is the last one."""
        if _ROOT_CAUSE in text:
            report.root = True
        elif found := _TORCHRUN_FIELD.match(text):
            name, value = found.groups()
            if name == "host" or not report.members or name in report.members[-1]:
                report.members.append({})
                report.left = _MAX_REPORT_LINES
                if report.root and report.first is None:
                    report.first = report.members[-1]
            report.members[-1][name] = value.strip()
        return text.strip().startswith("====") and report.first is not None and "rank" in report.first

    def _parse_mpirun_line(self, report: _LauncherReport, text: str) -> bool:
        """Parse a line of mpirun's report on a process; returns whether it is the last one."""
        member = report.members[0] if report.members else {}
        if "text" in member:
            member["text"] += f" {text.strip()}"
            return _ON_SIGNAL.search(member["text"]) is not None
        report.members = [member]
        for name, pattern in (("rank", _MPI_PROCESS_NAME), ("exitcode", _EXIT_CODE)):
            if found := pattern.search(text):
                member[name] = found.group(1)
        return "exitcode" in member

    def _close_report(self, label: str, offset: int) -> None:
        """Close a launcher's report and add its failures, even if the report is incomplete."""
        for each in _failures_of_report(self._reports.pop(label)):
            self._add_failure(each, label, offset)


def _format_job_end(failure: LogFailure) -> str:
    """The end of the job as a launcher's sentence, such as `torchrun: rank 1 failed first, exit code 1.`"""
    what, _, who = failure.text.removesuffix(")").rpartition(" (")
    rank = f"rank {failure.rank} " if failure.rank is not None and failure.kind in {"torchrun", "mpirun"} else ""
    return f"{who}: {rank}{what}." if what else f"{failure.text}."


def _failures_of_report(report: _LauncherReport) -> Iterator[LogFailure]:
    members = [each for each in report.members if _parse_number(each.get("rank")) is not None or "text" in each]
    if report.launcher != "torchrun":
        for member in members:
            if "text" in member:
                yield from _parse_mpirun_notice(member["text"], report.line)
            elif (rank := _parse_number(member["rank"])) is not None:
                how = f", exit code {member['exitcode']}" if "exitcode" in member else ""
                yield LogFailure("mpirun", f"failed first{how} ({report.launcher})", report.line, rank)
        return
    first = report.first if report.first and _parse_number(report.first.get("rank")) is not None else None
    if first is not None:
        text = f"failed first{_format_exit(first)} (torchrun)"
        yield LogFailure("torchrun", text, report.line, _parse_number(first["rank"]), first.get("host", ""))
        return
    if not members:
        text = "a process failed; the report is cut before it names the process (torchrun)"
        yield LogFailure("torchrun", text, report.line)
    for each in members:
        text = f"failed{_format_exit(each)}; which rank failed first is not reported (torchrun)"
        yield LogFailure("torchrun", text, report.line, _parse_number(each["rank"]), each.get("host", ""))


def _format_exit(member: dict[str, str]) -> str:
    code = _parse_number(member.get("exitcode"))
    if code is None:
        return ""
    return f", ended by {_signal_name(-code)}" if code < 0 else f", exit code {code}"


def _parse_number(text: str | None) -> int | None:
    found = _NUMBER.match(text) if text else None
    return int(found.group()) if found else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# lines that name a failure by themselves


def _parse_exception(text: str, line: int) -> LogFailure | None:
    found = _EXCEPTION.match(text)
    if found is None or found.group(1) in {"KeyboardInterrupt", "SystemExit"}:
        return None
    name, detail = found.group(1).rpartition(".")[2], (found.group(2) or "").strip()
    words = f"{name}: {detail}"[:_MAX_TEXT_LENGTH] if detail else name
    hint = next((hint for word, hint in EXCEPTIONS if word in words), "")
    return LogFailure("exception", words, line, hint=hint)


def _parse_watchdog(text: str, line: int) -> Iterator[LogFailure]:
    for found in list(_WATCHDOG_LINE.finditer(text)) or list(_CUT_WATCHDOG.finditer(text)):
        work = dict(_WATCHDOG_FIELD.findall(found.group("work")))
        groups = found.groupdict()
        ran = f" ran for {int(groups['ran']) / 1000:,.0f} s" if groups.get("ran") else " did not end"
        limit = f", the limit is {int(groups['limit']) / 1000:,.0f} s" if groups.get("limit") else ""
        number = f" (SeqNum {work['SeqNum']})" if "SeqNum" in work else ""
        before = [each for each in _RANK.finditer(text[: found.start()]) if each.group(1) or each.group(2)]
        rank = int(before[-1].group(1) or before[-1].group(2)) if before else None
        what = f"NCCL timeout: {work.get('OpType', 'a collective')}{number}{ran}{limit}"
        yield LogFailure("nccl-timeout", what, line, rank)


def _parse_flight_recorder(text: str, line: int) -> Iterator[LogFailure]:
    if found := _FLIGHT_RECORDER_LINE.search(text):
        rank = int(found.group(1)) if found.group(1) else None
        yield LogFailure("nccl-timeout", "NCCL timeout: this rank reported it first", line, rank)


def _parse_cuda_error(text: str, line: int) -> Iterator[LogFailure]:
    found = _CUDA_OOM.search(text)
    if found is None:
        return
    tried, gpu = _TRIED_TO_ALLOCATE.search(text), _GPU_NUMBER.search(text, found.start())
    size = (tried.group(1) or f"{int(tried.group(2)) / 2**30:.2f} GiB") if tried else ""
    more = f", tried to allocate {size}" if size else ""
    where = f" on GPU {gpu[1] or gpu[2]}" if gpu else ""
    yield LogFailure("cuda-out-of-memory", f"CUDA out of memory{where}{more}", line)


def _parse_host_oom(text: str, line: int) -> Iterator[LogFailure]:
    if _HOST_OOM.search(text):
        killed = _KILLED_PROCESS.search(text)
        who = f": process {killed.group(1)} ({killed.group(2)}) was killed" if killed else ": processes were killed"
        yield LogFailure("out-of-memory", f"the memory of the machine or the container ran out{who}", line)


def _parse_deepspeed(text: str, line: int) -> Iterator[LogFailure]:
    found = _DEEPSPEED_EXIT.search(text)
    if found and (code := int(found.group(1))):
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        hint = HINTS["killed"] if code == -signal.SIGKILL else ""
        yield LogFailure("deepspeed", f"a process {how} (DeepSpeed)", line, hint=hint)


def _parse_slurm(text: str, line: int) -> Iterator[LogFailure]:
    found = _SLURM_CANCELLED.search(text)
    if found is None:
        return
    why = (found.group("why") or "").strip().lower()
    kind = "time-limit" if why == "time limit" else "cancelled"
    job = found.group("id").partition(".")[0]
    reason = f"due to {why}" if why else "by somebody"
    yield LogFailure(kind, f"job {job} was cancelled {reason} (Slurm)", line, host=found.group("host"))


def _parse_srun(text: str, line: int) -> Iterator[LogFailure]:
    if found := _SRUN_EXIT.search(text):
        ranks, how = found.group("ranks"), found.group("how")
        one = int(ranks) if ranks.isdecimal() else None
        kind = "out-of-memory" if how == "Out Of Memory" else "slurm"
        hint = HINTS["killed"] if how == "Killed" else ""
        who = f"task {ranks}" if one is not None else f"tasks {ranks}"
        yield LogFailure(kind, f"{who}: {how} (srun)", line, one, found.group("host"), hint)


def _parse_mpirun_notice(text: str, line: int) -> Iterator[LogFailure]:
    found, number, node = _MPIRUN_NOTICE.search(text), _ON_SIGNAL.search(text), _ON_NODE.search(text)
    if found:
        how = f"was ended by {_signal_name(int(number.group(1)))}" if number else "ended"
        hint = HINTS["killed"] if number and int(number.group(1)) == signal.SIGKILL else ""
        host = node.group(1) if node else ""
        yield LogFailure("mpirun", f"{how} ({found.group(1)})", line, int(found.group(2)), host, hint)


def _parse_torchrun_signal(text: str, line: int) -> Iterator[LogFailure]:
    if found := _TORCHRUN_SIGNAL.search(text):
        yield LogFailure("signal", f"it was ended by {_signal_name(int(found.group(1)))} (torchrun)", line)


def _parse_elastic_agent(text: str, line: int) -> Iterator[LogFailure]:
    if found := _ELASTIC_EXIT.search(text):
        end = _format_exit({"exitcode": found.group(1)})
        yield LogFailure("torchrun", f"the process with local rank {found.group(2)} failed{end} (torchrun)", line)


def _parse_xid_fault(text: str, line: int) -> Iterator[LogFailure]:
    if found := parse_gpu_fault(text):
        what = f"{'SXid' if found.switch else 'Xid'} {found.number} on {found.bus}"
        words = f"{what}: {found.text}" if found.text else what
        hint = NVSWITCH if found.switch else XIDS.get(found.number, "")
        yield LogFailure("xid", words[:_MAX_TEXT_LENGTH], line, hint=hint)


def _parse_lost_gpu(text: str, line: int) -> Iterator[LogFailure]:
    if "Xid (" not in text:
        found = _GPU_LOST.search(text)
        yield LogFailure("gpu-lost", f"{f'GPU {found.group(1)}' if found else 'A GPU'} has fallen off the bus", line)


def _parse_nccl_warning(text: str, line: int) -> Iterator[LogFailure]:
    parsed = parse_nccl_message(text)
    if parsed is not None and parsed.level == "WARN" and parsed.text:
        gpu = f" (GPU {parsed.device})" if parsed.device is not None else ""
        hint = next((hint for word, hint in WARNINGS if word in parsed.text), "")
        yield LogFailure(
            "nccl-warning", f"NCCL warning{gpu}: {parsed.text[:_MAX_TEXT_LENGTH]}", line, host=parsed.host, hint=hint
        )


def _parse_nccl_test_failure(text: str, line: int) -> Iterator[LogFailure]:
    if found := TEST_FAILURE.search(text):
        before = _NCCL_TESTS_HOST.search(text, 0, found.start())
        host = (before.group(1) or before.group(2)) if before else ""
        yield LogFailure("nccl-test", found.group().strip()[:_MAX_TEXT_LENGTH], line, host=host)


def _parse_crash(text: str, line: int) -> Iterator[LogFailure]:
    if (found := _CRASH_WORDS.search(text)) and "srun: error:" not in text:
        hint = HINTS["bus-error"] if found.group() == "Bus error" else ""
        yield LogFailure("crash", found.group().capitalize(), line, hint=hint)


_READERS: tuple[tuple[str, Callable[[str, int], Iterator[LogFailure]]], ...] = (
    ("Watchdog caught collective", _parse_watchdog), ("collective timeout from", _parse_flight_recorder),
    ("failure detected by watchdog", _parse_flight_recorder),
    ("out of memory", _parse_cuda_error), ("OutOfMemoryError", _parse_cuda_error), ("OUT_OF_MEMORY", _parse_cuda_error),
    ("RESOURCE_EXHAUSTED", _parse_cuda_error), ("to allocate request for", _parse_cuda_error),
    ("oom_kill event", _parse_host_oom), ("oom-kill event", _parse_host_oom), ("ut of memory: Kill", _parse_host_oom),
    (" memory limit", _parse_host_oom), ("exits with return code", _parse_deepspeed), (" CANCELLED AT ", _parse_slurm),
    ("srun: error:", _parse_srun), ("noticed that process rank", _parse_mpirun_notice),
    ("SignalException", _parse_torchrun_signal),
    ("failed (exitcode:", _parse_elastic_agent), ("Xid (", _parse_xid_fault), ("fallen off the bus", _parse_lost_gpu),
    ("NCCL WARN", _parse_nccl_warning),
    ("failure", _parse_nccl_test_failure), ("Test timeout", _parse_nccl_test_failure),
    ("egmentation fault", _parse_crash), ("Bus error", _parse_crash),
)  # fmt: skip


_STAGE_FAILED = lazy_pattern(
    r"(?:^|[\]>\sZ])step (\d{1,6}) ([^:]{1,200}): "
    r"(failed with exit code \d{1,3}|(?:ended by (?:the )?SIGTERM|did not end in the grace period).{0,200}?)\s*$"
)
_MISUSE = lazy_pattern(  # how programs and shells say that they were called with what they do not take
    r"\b(?:error|fatal): \S|command not found|No such file or directory|Permission denied|this image has no "
    r"|\binvalid \w|\bunrecognized |\bunknown (?:option|argument)|\bis not a valid\b",
    re.IGNORECASE,
)


_SENTENCE = lazy_pattern(r"^(?!\s*(?:#|\d+\s+\d+\s)).*[A-Za-z]{3}")  # no comment and no row of a table


def find_failed_stage(lines: Sequence[str], known: Sequence[LogFailure] = ()) -> LogFailure | None:
    """The launcher's last failed stage, with a line that gives the reason unless `known`; None if none failed."""
    found = _find_failed_stage(lines)
    if found is None:
        return None
    number, name, how = found.stage
    text = f"Stage {number} ({name}) {how}"
    if not found.cause or any(each.text in found.cause for each in known):
        return LogFailure("stage", text, found.at + 1)
    return LogFailure("stage", f"{text}: {found.cause}", found.cause_at + 1)


def name_reason(lines: Sequence[str]) -> tuple[str, str]:
    """(failed stage of the launcher script such as "stage 9 train", reason in the last lines)."""
    found = _find_failed_stage(lines)
    named = parse_failures("\n".join(lines).encode())
    # A launcher's report follows what a rank printed, and a warning may have come long before.
    likely = sorted(named, key=lambda each: (each.kind in _END_KINDS, each.kind in {"nccl-warning", "peer"}, each.line))
    cause = found.cause if found is not None else ""
    reason = likely[0].sentence if likely else cause
    if found is not None and not found.stage[2].startswith("failed"):  # what it was told to do is no fault of its own
        reason = found.stage[2]
    return " ".join(("stage", *found.stage[:2])) if found is not None else "", reason.rstrip(".")


class _FailedStage(Struct, frozen=True):
    stage: tuple[str, str, str]  # number, name, how it ended
    at: int  # index of its last line
    cause: str  # a line that gives the reason; empty: none does
    cause_at: int


def _find_failed_stage(lines: Sequence[str]) -> _FailedStage | None:
    at, found = next(
        ((at, found) for at in reversed(range(len(lines))) if (found := _STAGE_FAILED.search(lines[at]))), (0, None)
    )
    if found is None:
        return None
    number, name, how = found.groups()
    if not how.startswith("failed"):
        return _FailedStage((number, name, how), at, "", at)
    began = next((i for i in reversed(range(at)) if lines[i].rstrip().endswith(f"step {number} {name}: run")), -1)
    inside = [(i, line.strip()) for i, line in enumerate(lines[began + 1 : at], began + 1) if _SENTENCE.search(line)]
    cause = next(((i, line) for i, line in reversed(inside) if _MISUSE.search(line)), inside[-1] if inside else (0, ""))
    return _FailedStage((number, name, how), at, cause[1][:_MAX_TEXT_LENGTH].rstrip("."), cause[0])


def parse_failures(data: bytes) -> tuple[LogFailure, ...]:
    parser = FailureParser()
    parser.feed(data)
    parser.close()
    return parser.failures
