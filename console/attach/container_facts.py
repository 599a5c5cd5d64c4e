"""Reads facts inside a container by `sh` scripts with time limits; values of secrets are hidden."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.metrics.gpu_metrics import Gpu


class FactState(StrEnum):
    ASKED = "asked"  # the answer has not come yet
    KNOWN = "known"
    ABSENT = "absent"  # the container has no such program, folder or device
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ContainerFact:
    name: str  # machine word: gpus, disks, mounts, environment, infiniband, libc, python
    title: str
    state: FactState = FactState.ASKED
    text: str = ""  # what the command printed, secrets hidden; lines without blank ends
    words: str = ""  # why there is nothing, or what the text comes to; a sentence, or empty
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    pod: str
    node: str
    rank: int | None
    facts: tuple[ContainerFact, ...]
    gpus: tuple[Gpu, ...] = ()  # read from the table of nvidia-smi


ABSENT = 44
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE|AUTH", re.IGNORECASE)
_MASK = "(hidden)"


@dataclass(frozen=True, slots=True)
class FactQuestion:
    name: str
    title: str
    script: str
    absent: str  # what is said when its program or thing is not there
    limit: float = 10.0  # seconds


_GPUS = "command -v nvidia-smi >/dev/null || exit 44; exec nvidia-smi"
_DISKS = """
command -v df >/dev/null || exit 44
df -hP 2>/dev/null | grep -Ev '^(shm|devtmpfs|udev) '
"""
_MOUNTS = """
mounts="${A4_PROC:-/proc}/mounts"  # which A4_PROC says stands elsewhere
[ -r "$mounts" ] || exit 44
awk '$3 !~ /^(proc|sysfs|cgroup2?|devpts|mqueue|securityfs|debugfs|tracefs|bpf|pstore|configfs|fusectl|devtmpfs)$/ {
  print $2 "  " $3 "  " $1 "  " substr($4, 1, 60)
}' "$mounts"
"""
_ENVIRONMENT = "env | grep -E '^[A-Za-z0-9_]*(NCCL|RANK|MASTER|WORLD)[A-Za-z0-9_]*=' | sort || :"
_INFINIBAND = """
[ -d /dev/infiniband ] || [ -d "${A4_RDMA:-}" ] || exit 44
ls -l /dev/infiniband 2>/dev/null; ls "${A4_RDMA:-/sys/class/infiniband}" 2>/dev/null || :
"""
_LIBC = """
getconf GNU_LIBC_VERSION 2>/dev/null && exit
command -v ldd >/dev/null || exit 44
ldd --version 2>&1 | head -n 2
"""
_PYTHON = """
p=$(command -v python3 || command -v python) || exit 44
echo "$p"; "$p" --version 2>&1
exec "$p" -c '
import importlib.metadata as m
for n in ("torch", "megatron-core", "transformer-engine", "ms-swift", "nvidia-nccl-cu12"):
    try: print(n, m.version(n))
    except m.PackageNotFoundError: pass
'
"""

QUESTIONS = (
    FactQuestion(
        "environment",
        "Environment",
        _ENVIRONMENT,
        "No variable of NCCL, RANK, MASTER or WORLD is set for the container; its launcher may set them later.",
    ),
    FactQuestion(
        "infiniband", "InfiniBand", _INFINIBAND, "There is no /dev/infiniband: the container has no RDMA device."
    ),
    FactQuestion("libc", "C library", _LIBC, "There is neither getconf nor ldd in this image."),
    FactQuestion("python", "Python", _PYTHON, "There is no Python in this image."),
    FactQuestion("disks", "Disks", _DISKS, "There is no df in this image.", 20.0),
    FactQuestion("mounts", "Mounts", _MOUNTS, "The container has no /proc/mounts."),
    FactQuestion("gpus", "GPUs", _GPUS, "There is no nvidia-smi in this image, or the container has no GPU.", 20.0),
)


def unanswered_facts() -> tuple[ContainerFact, ...]:
    return tuple(ContainerFact(each.name, each.title) for each in QUESTIONS)


def mask_secrets(text: str) -> str:
    """The lines of an environment with the values of secrets hidden."""
    lines = []
    for line in text.splitlines():
        name, equals, _ = line.partition("=")
        lines.append(f"{name}={_MASK}" if equals and _SECRET.search(name) else line)
    return "\n".join(lines)
