"""A script that runs inside a pod: polls NCCL's RAS service for ranks that are behind.

Arguments: seconds to poll; maximum seconds, if by then NCCL has launched operations at fewer moments than the third
argument, as with long steps, or has given fewer answers than the fourth, as on a busy machine. The script prints a line
of JSON for each fact and each answer:

    {"version": "2.28.9", "form": "json", "ranks": 64}
    {"process": [0, "10.0.0.6", 1202, 1, 41, [0, 1]]}    number, host, pid, GPU, rank in the job, its communicators
    [0.31, 0.001, 4117, [[0, 2, [[0, 1]]]]]              time, seconds of query, operations, ranks behind: communicator,
                                                         its size, and for each process by how many operations
    {"over": "", "active": [0, 1]}                       why there are no more answers; communicators in use

The rank in the job is that in the communicator of all processes. NCCL's text form, before 2.28.7, has operation counts
only of ranks that differ from most. The script needs only Python 3.7 or newer, and changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

ANSWER_TIMEOUT = 5.0
"""Seconds to wait for one answer."""
MIN_PAUSE = 0.005
"""Minimum seconds between two queries."""
MAX_QUESTIONS = 8000
"""Maximum number of queries in the seconds to poll, and again as many in the additional seconds."""
PAUSE_FACTOR = 4
"""The pause after a query, as a multiple of the query's duration, so that queries take a small part of the time."""
MAX_OUTPUT_BYTES = 64 << 20
"""Maximum bytes of one answer of the RAS service."""
MAX_ANSWER_BYTES = 6 << 20
"""Maximum bytes that the script prints."""
QUERY = b"set format json\nverbose status\n"

READ_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, subprocess.SubprocessError)
"""Exceptions of a query that fails, and of an invalid answer."""

Process = Tuple[str, int, int]
BehindCounts = Dict[Process, int]
ParsedAnswer = Tuple[
    Optional[Dict[str, int]], List[Tuple[str, int, BehindCounts]], Dict[str, Dict[Process, int]], Optional[float]
]


def ras_address() -> tuple[str, int]:
    host, _, port = os.environ.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
    return host.strip("[]") or "localhost", int(port)


def query_service() -> str:
    """One answer of NCCL's RAS service, directly or by `ncclras`. Raises OSError."""
    try:
        with socket.create_connection(ras_address(), timeout=ANSWER_TIMEOUT) as door:
            door.sendall(QUERY)
            pieces = []
            length = 0
            while length < MAX_OUTPUT_BYTES:
                more = door.recv(1 << 20)
                if not more:
                    break
                pieces.append(more)
                length += len(more)
            return b"".join(pieces).decode("utf-8", "replace")
    except ConnectionRefusedError:
        tool = shutil.which("ncclras")
        if not tool:
            raise
        for argv in ([tool, "-v", "-f", "json"], [tool, "-v"]):
            done = subprocess.run(argv, capture_output=True, timeout=ANSWER_TIMEOUT, check=False)
            if not done.returncode:
                return done.stdout.decode("utf-8", "replace")
        raise


def count_behind(counts_by_item: dict[Any, int]) -> dict[Any, int]:
    """By rank the number of operations that it is behind the foremost; empty if most ranks are behind."""
    most = max(counts_by_item.values(), default=0)
    behind = {each: most - count for each, count in counts_by_item.items() if count < most}
    return behind if 2 * len(behind) <= len(counts_by_item) else {}


def read_json(report: dict[str, Any]) -> ParsedAnswer:
    """Parse a JSON answer: operations and members of each communicator, and the ranks behind."""
    progress = {}
    behind = []
    members: dict[str, dict[Process, int]] = {}
    for each in report["communicators"]:
        name = each["hash"] + "/" + each.get("secondary_hash", "")
        counts = {
            (rank["host"], rank["pid"], rank["nvml_dev"]): sum(rank["collective_counts"].values())
            for rank in each["ranks"]
        }
        progress[name] = max(counts.values(), default=0)
        behind.append((name, each["size"], count_behind(counts)))
        members[name] = {(rank["host"], rank["pid"], rank["nvml_dev"]): rank["rank"] for rank in each["ranks"]}
    return progress, behind, members, report["ras"]["collection_time_sec"]


COMMUNICATOR_LINE = re.compile(r"\s*(\d+)\s+\d+\s+\d+\s+[\d-]+\s+(\d+)\s+\d+\s+[A-Z_]+\s+[A-Z_,]+\s*$")
COMMUNICATOR_NAME = re.compile(r"#(\d+)-\d+ \((\w+)\)")
COUNTS_DIFFER = "operation counts"
SEVERAL_RANKS_LINE = re.compile(r"\s*(\d+) ranks have (?:launched up to operation (\d+)|not launched any operations)")
ONE_RANK_LINE = re.compile(r"\s*Rank (\d+) has (?:launched up to operation (\d+)|not launched any operations)")
RANK_LINE = re.compile(r"\s*Rank (\d+) -- ")
GPU_AND_PROCESS = re.compile(r"GPU (\d+)(?: \(NVML (\d+)\))? managed by process (\d+) on node (\S+)")


def read_text(text: str) -> ParsedAnswer:
    """Parse a text answer, which lists ranks by their number of operations if few have it."""
    sizes = {each[1]: int(each[2]) for each in map(COMMUNICATOR_LINE.match, text.splitlines()) if each}
    whole = max(sizes.values(), default=0)
    behind: list[tuple[str, int, BehindCounts]] = []
    members: dict[str, dict[Process, int]] = {}
    for section in re.split(r"\n(?=#\d)", text)[1:]:
        named = COMMUNICATOR_NAME.match(section)
        if not named:
            continue
        size = sizes.get(named[1], 0)
        sums: BehindCounts = {}
        ranks: dict[Process, int] = {}
        for counts in section.split(COUNTS_DIFFER)[1:]:
            listed, late_ones = read_counts(counts)
            ranks.update(listed)
            for process, by in late_ones.items():
                sums[process] = sums.get(process, 0) + by
        behind.append((named[0], size, sums))
        if size == whole:
            members[named[0]] = ranks
    return None, behind, members, None


def read_counts(text: str) -> tuple[dict[Process, int], BehindCounts]:
    """(rank by process in one kind of operation; by process how far it is behind the foremost, if only few are)."""
    groups: list[tuple[int, int, list[Process]]] = []
    ranks: dict[Process, int] = {}
    for line in text.splitlines():
        many, one, where = SEVERAL_RANKS_LINE.match(line), ONE_RANK_LINE.match(line), GPU_AND_PROCESS.search(line)
        if many:
            groups.append((int(many[2] or 0), int(many[1]), []))
        elif one:
            groups.append((int(one[2] or 0), 1, []))
        found = one or RANK_LINE.match(line)
        if found and where and groups:
            process = (where[4], int(where[3]), int(where[2] or where[1]))
            ranks[process] = int(found[1])
            groups[-1][2].append(process)
    most = max((count for count, _, _ in groups), default=0)
    few = 2 * sum(number for count, number, _ in groups if count < most) <= sum(number for _, number, _ in groups)
    return ranks, {each: most - count for count, _, several in groups for each in several if few and count < most}


class PollPrinter:
    def __init__(self) -> None:
        self.comms: dict[str, int] = {}
        self.processes: dict[Process, int] = {}
        self.begun = False
        self.first: dict[str, int] = {}
        self.progress: Optional[int] = None
        self.moments = 0  # between two answers in which something was launched
        self.active: set[int] = set()
        self.lines: list[str] = []
        self.length = 0

    def print_json(self, answer: Any) -> None:
        line = json.dumps(answer, separators=(",", ":"))
        self.length += len(line) + 1
        self.lines.append(line)

    def print_answer(self, text: str, time: float, took_seconds: float) -> None:
        form = "json" if text.find("{", 0, 200) >= 0 else "text"
        if form == "json":
            report = json.loads(text[text.index("{") :])
            version, found = report["nccl_version"], read_json(report)
            size = max((each["size"] for each in report["communicators"]), default=0)
        else:
            named = re.search(r"NCCL version (\S{1,40})", text)
            if not named:
                raise ValueError("the service gives no status: " + " ".join(text.split())[:100])
            version, found = named[1], read_text(text)
            size = max((int(each[2]) for each in map(COMMUNICATOR_LINE.match, text.splitlines()) if each), default=0)
        if not self.begun:
            self.begun = True
            self.print_json({"version": version, "form": form, "ranks": size})
        counts, behind, members, collecting = found
        for name, count in (counts or {}).items():
            if count != self.first.setdefault(name, count):
                self.active.add(self.communicator_number(name))
        progress = sum(counts.values()) if counts is not None else None
        self.moments += self.progress is not None and progress != self.progress
        self.progress = progress
        rows = [
            [
                self.communicator_number(name),
                size,
                [[self.process_number(each, members, form), by] for each, by in sorted(several.items())],
            ]
            for name, size, several in behind
            if several
        ]
        self.print_json([round(time, 4), round(took_seconds if collecting is None else collecting, 4), progress, rows])

    def print_end(self, why: str) -> None:
        self.print_json({"over": why, "active": sorted(self.active)})

    def communicator_number(self, name: str) -> int:
        return self.comms.setdefault(name, len(self.comms))

    def process_number(self, process: Process, members: dict[str, dict[Process, int]], number_format: str) -> int:
        if process not in self.processes:
            self.processes[process] = len(self.processes)
            whole = max(members.values(), key=len, default={})
            belongs = [self.communicator_number(name) for name, several in members.items() if process in several]
            row = [self.processes[process], *process, whole.get(process), belongs if number_format == "json" else None]
            self.print_json({"process": row})
        return self.processes[process]


def poll_until(seconds: float, most: float = 0.0, moments: int = 0, answers: int = 0, ask: Any = query_service) -> None:
    """Poll for `seconds`; for up to `most` while fewer launches or answers came than wanted."""
    teller, began, why, answered = PollPrinter(), time.monotonic(), "", 0
    while teller.length < MAX_ANSWER_BYTES:
        gone = time.monotonic() - began
        too_few = 0 < teller.moments < moments or (teller.moments and answered < answers)
        if gone >= seconds and (gone >= most or not too_few):
            break
        asked = time.monotonic()
        try:
            text = ask()
            teller.print_answer(text, asked - began, time.monotonic() - asked)
            answered += 1
        except READ_ERRORS as error:
            why = getattr(error, "strerror", None) or str(error)
            break
        often = (seconds if gone < seconds else most) / MAX_QUESTIONS
        time.sleep(max(MIN_PAUSE, often, PAUSE_FACTOR * (time.monotonic() - asked)))
    teller.print_end(why)
    sys.stdout.write("\n".join(teller.lines) + "\n")  # at once: what drips is no answer of this script


if __name__ == "__main__":
    given = [float(each) for each in sys.argv[1:]] + [0.0] * 4
    poll_until(given[0], given[1], int(given[2]), int(given[3]))
