"""A script that runs inside a pod: reads from the files of Google's CoMMA how long data take to each peer.

CoMMA, the NCCL profiler plug-in of the gIB images, writes a line of JSON for each collective to
NCCL_PROFILER_LATENCY_FILE, where %p is the process. By its source (github.com/google/CoMMA, 1b2b3744): a line is
written 2 s after the operation has ended, in blocks of 8 KiB; `rank` and `peer` are numbers in the communicator; steps
are there with NCCL_PROFILER_TRACK_STEPS, those of receptions with NCCL_PROFILER_TRACK_RECV_STEPS too; their times count
from another moment than `ts`. A step of a send takes from `fifo_ready_time`, before which the sender waits for the
receiver, to `end_time`; one of a reception begins with waiting for the sender. NCCL_PROFILER_SUMMARY_FILE tells of
no peers but those of single sends and receptions, with the waiting in it, and is not read.

It prints one line of JSON, times in microseconds, with a row for each communicator (by its place in the list of these),
peer, direction and size of steps (a power of two of bytes at least):

    {"ranks": [{"pid": 1202, "rank": 41, "gpu": 1, "why": "", "lines": 900, "span": 5000000, "busy": 900000,
                "communicators": [["0x58aecebabb9e37af", 41]],
                "peers": [[0, 49, true, 1048576, 800, 838860800, 22.5, 180]]}]}

The last are: steps, bytes, median of microseconds per MiB, longest step. It stands alone, for Python 3.7 and newer,
reads the last part of regular files only, and changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import stat
import statistics
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

PROC = os.environ.get("A4_PROC", "/proc")
TEMPLATE = "NCCL_PROFILER_LATENCY_FILE"
TAIL = 4 << 20
"""Bytes of a file that are read."""
LONGEST_LINE = 1 << 20
LIMIT = 1.0
"""Seconds of parsing for one file."""
OLDEST = 60
"""Seconds since a file was written after which it tells nothing of now."""
MOST_PROCESSES, MOST_COMMUNICATORS, MOST_ROWS, MOST_STEPS = 64, 64, 512, 2000
LARGEST = 1 << 53
COMMUNICATOR = re.compile(r"0x[0-9a-f]{16}")
MIB = 1 << 20

RowKey = Tuple[int, int, bool, int]


def small_int(text: str) -> int:
    if len(text) > 19:
        raise ValueError("the number is too long")
    return int(text)


def refuse(_: str) -> float:
    raise ValueError("CoMMA writes whole numbers only")


def count(told: Dict[str, Any], name: str) -> int:
    """A number of a line; raises ValueError or KeyError if there is none."""
    value = told[name]
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(name)
    return value


class RankFile:
    """What the lines of one file tell together."""

    def __init__(self) -> None:
        self.lines = 0
        self.communicators: Dict[Tuple[str, int], int] = {}
        self.rows: Dict[RowKey, List[Tuple[float, int, int]]] = {}  # per MiB, microseconds, bytes
        self.first: Optional[int] = None
        self.last = 0
        self.spans: List[Tuple[int, int]] = []

    def read(self, tail: bytes, until: float) -> None:
        """The newest lines first, so that these count if there is no time for all."""
        for line in reversed(tail.split(b"\n")):
            if time.monotonic() > until:
                return
            if line[:1] != b"{" or len(line) > LONGEST_LINE:
                continue
            try:
                self.add(json.loads(line, parse_int=small_int, parse_float=refuse, parse_constant=refuse))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # cut off, or none of CoMMA's

    def add(self, told: Dict[str, Any]) -> None:
        if told["cat"] not in ("COLL", "P2P"):
            return
        begun, rank, name = count(told, "ts"), count(told, "rank"), told["comm_hash"]
        if not COMMUNICATOR.fullmatch(name):
            return
        found: List[Tuple[RowKey, Tuple[float, int, int]]] = []
        if (name, rank) not in self.communicators and len(self.communicators) >= MOST_COMMUNICATORS:
            return
        number = self.communicators.setdefault((name, rank), len(self.communicators))
        for each in told.get("proxyops", ()):
            send, peer = each["is_send"] is True, count(each, "peer")
            for step in each.get("steps", ()):
                size, ended = count(step, "size"), count(step, "end_time")
                took = ended - count(step, "fifo_ready_time" if "fifo_ready_time" in step else "start_time")
                if size and took >= 0:
                    key = number, peer, send, 1 << (size.bit_length() - 1)
                    found.append((key, (took * MIB / size, took, size)))
        self.lines += 1
        self.first = begun if self.first is None else min(self.first, begun)
        self.last = max(self.last, begun + count(told, "dur"))
        if "child_start_ts" in told and "child_dur" in told:
            start = count(told, "child_start_ts")
            self.spans.append((start, start + count(told, "child_dur")))
        for key, row in found:
            steps = self.rows.setdefault(key, [])
            if len(steps) < MOST_STEPS:
                steps.append(row)

    def busy(self) -> int:
        """Microseconds in which any operation of the network ran."""
        whole, end = 0, 0
        for start, stop in sorted(self.spans):
            whole += max(0, stop - max(start, end))
            end = max(end, stop)
        return whole

    def told(self) -> Dict[str, Any]:
        rows = [
            [*key, len(steps), sum(size for _, _, size in steps),
             round(statistics.median(each for each, _, _ in steps), 2), max(took for _, took, _ in steps)]
            for key, steps in self.rows.items()
        ]  # fmt: skip
        rows.sort(key=lambda row: -row[5])
        return {
            "lines": self.lines,
            "span": max(0, self.last - self.first) if self.first is not None else 0,
            "busy": self.busy(),
            "communicators": list(self.communicators),
            "peers": rows[:MOST_ROWS],
        }


def read_tail(path: str) -> bytes:
    """The last bytes of a regular file that is being written; raises OSError or ValueError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("its file of CoMMA is no regular file")
        age = time.time() - status.st_mtime
        if age > OLDEST:
            raise ValueError("its file of CoMMA was last written %d s ago" % age)
        os.lseek(handle, max(0, status.st_size - TAIL), os.SEEK_SET)
        told = b""
        while len(told) < TAIL:
            more = os.read(handle, TAIL - len(told))
            if not more:
                break
            told += more
        return told
    finally:
        os.close(handle)


def read_environment(pid: int) -> Dict[str, str]:
    try:
        with open("%s/%d/environ" % (PROC, pid), "rb") as file:
            said = file.read(1 << 20).decode("utf-8", "surrogateescape")
    except OSError:
        return {}
    return dict(part.split("=", 1) for part in said.split("\0") if "=" in part)


def number_of(env: Dict[str, str], names: Tuple[str, ...]) -> Optional[int]:
    return next((int(env[name]) for name in names if re.fullmatch("[0-9]{1,7}", env.get(name, ""))), None)


def tell_rank(pid: int, env: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """What the file of a process tells; None if it has none, as helpers with the environment of a rank."""
    template = env[TEMPLATE]
    path = os.path.join("%s/%d/cwd" % (PROC, pid), template.replace("%p", str(pid)))
    rank = number_of(env, ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"))
    gpu = number_of(env, ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"))
    said: Dict[str, Any] = {"pid": pid, "rank": rank, "gpu": gpu}
    if "%p" not in template:
        exists = rank is not None and os.path.exists(path)
        return dict(said, why="all ranks of a pod write to the same file: %s has no %%p" % TEMPLATE) if exists else None
    read = RankFile()
    try:
        read.read(read_tail(path), time.monotonic() + LIMIT)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return dict(said, why=(getattr(error, "strerror", None) or str(error))[:200])
    found = dict(said, **read.told())
    if not read.rows:
        steps = "its lines have no steps (NCCL_PROFILER_TRACK_STEPS)"
        found["why"] = steps if read.lines else "its file has no lines of CoMMA yet"
    return found


def main() -> None:
    ranks = []
    for pid in sorted(int(name) for name in os.listdir(PROC) if name.isdigit()):
        env = read_environment(pid)
        found = tell_rank(pid, env) if env.get(TEMPLATE) else None
        if found is not None:
            ranks.append(found)
        if len(ranks) == MOST_PROCESSES:
            break
    json.dump({"ranks": ranks}, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
