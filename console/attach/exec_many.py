"""Commands in containers: one in many ranks with equal outputs grouped, a quick NCCL test, facts of a container."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from console.attach.fan_out import run_when_room
from console.errors import BadInput, ConsoleError, NotFound, NotThere, ProgramFailed, Refused, Unreachable, Unreadable
from console.scheduling.pod_slots import PodSlot
from rankscope import format_pods
from trainlog import format_ranges

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.gpu_metrics import Gpu
    from trainlog import NcclTest


class FactState(StrEnum):
    KNOWN = "known"
    ABSENT = "absent"  # the container has no such program, folder or device
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ContainerFact:
    name: str  # machine word: gpus, disks, mounts, environment, infiniband, libc, python
    title: str
    state: FactState
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


EXIT_NOT_FOUND = 44
_SECRET_VARIABLE = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE|AUTH", re.IGNORECASE)
_HIDDEN_VALUE = "(hidden)"


@dataclass(frozen=True, slots=True)
class FactQuestion:
    name: str
    title: str
    script: str
    absent_text: str  # what is shown when its program or thing is not there
    limit_seconds: float = 10.0  # seconds


_GPUS_SCRIPT = "command -v nvidia-smi >/dev/null || exit 44; exec nvidia-smi"
_DISKS_SCRIPT = """
command -v df >/dev/null || exit 44
df -hP 2>/dev/null | grep -Ev '^(shm|devtmpfs|udev) '
"""
_MOUNTS_SCRIPT = """
mounts="${A4_PROC:-/proc}/mounts"  # which A4_PROC says stands elsewhere
[ -r "$mounts" ] || exit 44
awk '$3 !~ /^(proc|sysfs|cgroup2?|devpts|mqueue|securityfs|debugfs|tracefs|bpf|pstore|configfs|fusectl|devtmpfs)$/ {
  print $2 "  " $3 "  " $1 "  " substr($4, 1, 60)
}' "$mounts"
"""
_ENVIRONMENT_SCRIPT = "env | grep -E '^[A-Za-z0-9_]*(NCCL|RANK|MASTER|WORLD)[A-Za-z0-9_]*=' | sort || :"
_INFINIBAND_SCRIPT = """
[ -d /dev/infiniband ] || [ -d "${A4_RDMA:-}" ] || exit 44
ls -l /dev/infiniband 2>/dev/null; ls "${A4_RDMA:-/sys/class/infiniband}" 2>/dev/null || :
"""
_LIBC_SCRIPT = """
getconf GNU_LIBC_VERSION 2>/dev/null && exit
command -v ldd >/dev/null || exit 44
ldd --version 2>&1 | head -n 2
"""
_PYTHON_SCRIPT = """
p=$(command -v python3 || command -v python) || exit 44
echo "$p"; "$p" --version 2>&1
exec "$p" -c '
import importlib.metadata as m
for n in ("torch", "megatron-core", "transformer-engine", "ms-swift", "nvidia-nccl-cu12"):
    try: print(n, m.version(n))
    except m.PackageNotFoundError: pass
'
"""

FACT_QUESTIONS = (
    FactQuestion(
        "environment",
        "Environment",
        _ENVIRONMENT_SCRIPT,
        "No variable of NCCL, RANK, MASTER or WORLD is set for the container; its launcher may set them later.",
    ),
    FactQuestion(
        "infiniband", "InfiniBand", _INFINIBAND_SCRIPT, "There is no /dev/infiniband: the container has no RDMA device."
    ),
    FactQuestion("libc", "C library", _LIBC_SCRIPT, "There is neither getconf nor ldd in this image."),
    FactQuestion("python", "Python", _PYTHON_SCRIPT, "There is no Python in this image."),
    FactQuestion("disks", "Disks", _DISKS_SCRIPT, "There is no df in this image.", 20.0),
    FactQuestion("mounts", "Mounts", _MOUNTS_SCRIPT, "The container has no /proc/mounts."),
    FactQuestion(
        "gpus", "GPUs", _GPUS_SCRIPT, "There is no nvidia-smi in this image, or the container has no GPU.", 20.0
    ),
)


def mask_secrets(text: str) -> str:
    """The lines of an environment, with secret values replaced by a mask."""
    lines = []
    for line in text.splitlines():
        name, equals, _ = line.partition("=")
        lines.append(f"{name}={_HIDDEN_VALUE}" if equals and _SECRET_VARIABLE.search(name) else line)
    return "\n".join(lines)


EXIT_TIMED_OUT = 124  # exit code of a rank that took too long, as `timeout` has it
_RANK_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class RankOutput:
    rank: int
    pod: str
    node: str
    code: int | None = None  # None until it has ended
    output: str = ""  # what it printed; where it wrote to both, errors as they came in between
    errors: str = ""  # what of that went to standard error
    failure: str = ""  # why it could not run, or was given up; a sentence
    seconds: float = 0.0
    cut: bool = False  # whether it printed more than is kept

    @property
    def comparable_text(self) -> str:
        """The rank's output without trailing blanks, and its failure if any: equal texts form one group."""
        return self.output.rstrip() if not self.failure else f"{self.output.rstrip()}\n{self.failure}".strip()


@dataclass(frozen=True, slots=True)
class OutputGroup:
    """Ranks whose command gave the same output."""

    ranks: tuple[int, ...]
    code: int | None
    output: str
    differs: bool = False  # whether most ranks printed something else, or it failed

    @property
    def description(self) -> str:
        """The ranks, such as "pods 0-6" or "pod 7"."""
        return format_pods(*self.ranks)


def group_outputs(outputs: Iterable[RankOutput]) -> tuple[OutputGroup, ...]:
    """Group the finished outputs that are equal: the largest group first, then by rank."""
    found: dict[tuple[str, int | None], list[int]] = {}
    for each in sorted(outputs, key=lambda each: each.rank):
        if each.code is not None:
            found.setdefault((each.comparable_text, each.code), []).append(each.rank)
    ranked = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[1][0]))
    every = sum(len(ranks) for _, ranks in ranked)
    most = bool(ranked) and len(ranked[0][1]) * 2 > every  # without a majority nobody is odd, as with `hostname`
    return tuple(
        OutputGroup(tuple(ranks), code, output, bool(code) or (most and at > 0))
        for at, ((output, code), ranks) in enumerate(ranked)
    )


def worst_exit_code(outputs: Iterable[RankOutput]) -> int:
    return max((each.code or 0 for each in outputs), default=0)


def parse_ranks(text: str, ranks: Collection[int]) -> tuple[int, ...]:
    """Parse a list such as `0-3,7` to ranks in order. Raises NotThere for unknown ranks, BadInput for other text."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANK_RANGE.fullmatch(part.strip())
        if match is None:
            raise BadInput(f"{text!r} is not a list of pods.", "Write it such as 0-3,7.")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise BadInput(f"{part.strip()} is not an ascending range.", f"Write {high}-{low}.")
        strange = next((rank for rank in range(low, high + 1) if rank not in ranks), None)
        if strange is not None:
            raise NotThere(f"There is no pod {strange}.", f"Its pods are {format_ranges(ranks)}." if ranks else "")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


MAX_CONCURRENT_RANKS = 16  # ranks in which a command runs at the same time
DEFAULT_TIMEOUT = 60.0  # seconds after which a rank is given up, unless another limit is asked for
MAX_KEPT_BYTES = 1 << 20  # bytes of each rank's output that are kept
MAX_OUTPUT_BYTES = 8 << 20  # bytes that a rank may print in all; then the command is ended there
_COMMAND_NOT_FOUND = (126, 127)


class ContainerExec:
    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster

    async def run_in_ranks(
        self,
        ranks: Sequence[PodSlot],
        argv: Sequence[str],
        *,
        container: str = "",
        concurrency: int = MAX_CONCURRENT_RANKS,
        limit: float = DEFAULT_TIMEOUT,
        on_output: Callable[[int, int, bytes], None] = lambda *_: None,
        on_end: Callable[[RankOutput], None] = lambda _: None,
    ) -> tuple[RankOutput, ...]:
        """Run a command in these ranks, `concurrency` at a time, each for at most `limit` seconds; results by rank.

        Each rank has an exec stream of its own; none is reached by ssh from another pod. A command of sshd has neither
        the working directory nor the environment of the container, and if a gateway pod fails, nobody knows where the
        command has run. No command runs twice in a pod; a stream that the API server refuses is opened again, since
        nothing has run then.

        `on_output` gets rank, 1 (output) or 2 (errors) and bytes as they come, `on_end` each rank's result. A rank's
        failure is part of its result. Raises NotAllowed in read-only mode.
        """
        self._cluster.connection_for_change(f"run a command in {len(ranks)} pods")
        room = asyncio.Semaphore(concurrency)

        async def run_in_slot(slot: PodSlot) -> RankOutput:
            try:
                result = await run_when_room(room, lambda: self._run_in_rank(slot, argv, container, limit, on_output))
            except (Refused, Unreachable) as error:
                unfinished = RankOutput(slot.number, slot.name, slot.node)
                result = replace(unfinished, code=error.exit_code, failure=error.message)
            on_end(result)
            return result

        tasks = [asyncio.create_task(run_in_slot(rank)) for rank in ranks]
        try:
            return tuple(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_in_rank(
        self,
        slot: PodSlot,
        argv: Sequence[str],
        container: str,
        limit_seconds: float,
        on_output: Callable[[int, int, bytes], None],
    ) -> RankOutput:
        result = RankOutput(slot.number, slot.name, slot.node)
        if slot.pod is None or slot.phase != "Running":
            return replace(result, code=1, failure=f"It has no running pod ({slot.status}).")
        output, errors, count = bytearray(), bytearray(), 0

        def forward_output(channel: int, data: bytes) -> None:
            nonlocal count
            on_output(slot.number, channel, data)
            count += len(data)
            if count > MAX_OUTPUT_BYTES:
                raise Unreadable(f"It printed more than {MAX_OUTPUT_BYTES >> 20} MiB: the command was stopped.")
            output.extend(data[: max(0, MAX_KEPT_BYTES - len(output))])
            if channel == 2:
                errors.extend(data[: max(0, MAX_KEPT_BYTES - len(errors))])

        began = time.monotonic()
        code, failure = await self._run_in_pod(slot.pod, argv, container, limit_seconds, forward_output)
        return replace(
            result,
            code=code,
            failure=failure,
            output=output.decode(errors="replace"),
            errors=errors.decode(errors="replace"),
            seconds=round(time.monotonic() - began, 3),
            cut=len(output) >= MAX_KEPT_BYTES,
        )

    async def run_quick_nccl_test(
        self,
        pod: Pod,
        test: QuickNcclTest,
        *,
        on_output: Callable[[int, bytes], None] = lambda *_: None,
        grown: Callable[[NcclTest], None] = lambda _: None,
        container: str = "",
        limit_seconds: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Run all_reduce_perf on a pod's GPUs: output to `on_output` (1 stdout, 2 stderr), each new row to `grown`.

        Raises NotFound without the program, ProgramFailed if it fails, Unreadable for too much output.
        """
        from trainlog import NcclParser

        self._cluster.connection_for_change(f"run an NCCL test in pod {pod.name}")
        errors, parser, count = bytearray(), NcclParser(), 0

        def store_output(channel: int, data: bytes) -> None:
            nonlocal count
            count += len(data)
            if count > MAX_KEPT_BYTES:
                raise Unreadable(f"It printed more than {MAX_KEPT_BYTES >> 20} MiB: it was stopped.")
            on_output(channel, data)
            if channel == 2:
                errors.extend(data[: max(0, MAX_KEPT_BYTES - len(errors))])
            else:
                for found in parser.feed(data):
                    grown(found)

        doing = f"run the NCCL test in pod {pod.name}"
        code, failure = await self._run_in_pod(pod, test.argv, container, limit_seconds, store_output, doing)
        if code == EXIT_NOT_FOUND or code in _COMMAND_NOT_FOUND:
            hint = "The gIB diagnostic image brings it (network.gib.image); so do images with nccl-tests."
            raise NotFound(f"Pod {pod.name} has no all_reduce_perf.", hint, status=404)
        if failure or code:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            reason = failure or f"It ended with exit code {code}{f': {last}' if last else '.'}"
            raise ProgramFailed(f"The NCCL test in pod {pod.name} failed. {reason}", code=code or 1)

    async def _run_in_pod(
        self,
        pod: Pod,
        argv: Sequence[str],
        container: str,
        limit_seconds: float,
        store_output: Callable[[int, bytes], None],
        action: str = "",
    ) -> tuple[int, str]:
        """Run a command in a pod: (exit code, failure or ""). Raises Refused or Unreachable if no stream opens."""
        from console.kube import exec as executing

        client, container = self._cluster.current_connection.client, container or _main_container(pod)
        try:
            async with asyncio.timeout(limit_seconds):
                return await executing.run(
                    client, pod.namespace, pod.name, argv, store_output, container=container, action=action
                ), ""
        except TimeoutError:
            return EXIT_TIMED_OUT, f"It did not end within {limit_seconds:g} s; it may still run there."
        except ProgramFailed as error:
            return error.code, error.message
        except (Unreachable, Unreadable) as error:
            if isinstance(error, Unreachable) and error.status:
                raise
            return error.exit_code, error.message

    async def read_facts(self, pod: Pod, *, rank: int | None = None, container: str = "") -> ContainerFacts:
        """Read all facts of a container; failures are part of the result. Raises Refused if none may be read."""
        refusals: list[Refused] = []

        async def answer_question(fact_question: FactQuestion) -> ContainerFact:
            try:
                return await self._answer_fact_question(pod, fact_question, container)
            except Refused as error:
                refusals.append(error)
                return ContainerFact(fact_question.name, fact_question.title, FactState.FAILED, words=error.message)

        facts = await asyncio.gather(*map(answer_question, FACT_QUESTIONS))
        if len(refusals) == len(facts):
            raise refusals[0]
        gpus = _parse_gpus(next(fact.text for fact in facts if fact.name == "gpus"))
        return ContainerFacts(pod.name, pod.node, rank, tuple(facts), gpus)

    async def _answer_fact_question(self, pod: Pod, fact_question: FactQuestion, container: str) -> ContainerFact:
        from console.kube import exec as executing

        began, client = time.monotonic(), self._cluster.current_connection.client
        argv = ("sh", "-c", executing.ANNOUNCE_START + fact_question.script)

        def make_fact(state: FactState, message: str = "", text: str = "") -> ContainerFact:
            seconds = round(time.monotonic() - began, 3)
            return ContainerFact(fact_question.name, fact_question.title, state, text, message, seconds)

        try:
            code, output, complained = await executing.run_and_collect(
                client,
                pod.namespace,
                pod.name,
                argv,
                container=container or _main_container(pod),
                max_bytes=MAX_KEPT_BYTES,
                limit=fact_question.limit_seconds,
                start_seconds=executing.START_TIMEOUT,
                action=f"ask pod {pod.name} for its {fact_question.title}",
            )
        except Refused:
            raise
        except ConsoleError as error:
            if isinstance(error, ProgramFailed) and error.code in _COMMAND_NOT_FOUND:
                return make_fact(FactState.ABSENT, "There is no shell (sh) in this image to ask with.")
            return make_fact(FactState.FAILED, error.message)
        text = mask_secrets(output.decode(errors="replace")).strip("\n")
        if code == EXIT_NOT_FOUND or (not code and not text):
            return make_fact(FactState.ABSENT, fact_question.absent_text, text)
        if code:
            complaint = complained.decode(errors="replace").strip()
            why = complaint.splitlines()[-1] if complaint else f"The command ended with exit code {code}."
            return make_fact(FactState.FAILED, why, text)
        return make_fact(FactState.KNOWN, format_gpus(_parse_gpus(text)) if fact_question.name == "gpus" else "", text)


def _main_container(pod: Pod) -> str:
    return pod.main.name if pod.main else ""


def _parse_gpus(text: str) -> tuple[Gpu, ...]:
    from console.metrics.gpu_metrics import parse_nvidia_smi

    return parse_nvidia_smi(text.encode())


def format_gpus(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return ""
    names = " and ".join(f"{number} × {name}" for name, number in Counter(each.name for each in gpus).items())
    busy = [each.utilization for each in gpus if each.utilization is not None]
    used = sum(each.memory_used or 0 for each in gpus) / 1024
    total = sum(each.memory_total or 0 for each in gpus) / 1024
    hot = [each.temperature for each in gpus if each.temperature is not None]
    wrong = sum(each.ecc_uncorrected or 0 for each in gpus)
    words = [names]
    words += [f"{sum(busy) / len(busy):.0f} % busy"] if busy else []
    words += [f"{used:,.0f} of {total:,.0f} GiB used"] if total else []
    words += [f"{max(hot):.0f} °C at most"] if hot else []
    words += [f"{wrong} uncorrected ECC errors"] if wrong else []
    return ", ".join(words)


_MESSAGE_SIZE = re.compile(r"([1-9]\d{0,14})([KMG]?)")
_UNIT_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}
NCCL_QUICK_SCRIPT = r"""
perf=/third_party/nccl-tests/build/all_reduce_perf
[ -x "$perf" ] || perf=$(command -v all_reduce_perf) || exit 44
if [ -r /tmp/export_init_env.sh ]; then
    . /tmp/export_init_env.sh
elif [ -r /usr/local/gib/scripts/set_nccl_env.sh ]; then
    export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    . /usr/local/gib/scripts/set_nccl_env.sh
fi
gpus=$3
[ "$gpus" -gt 0 ] || gpus=${GPUS_PER_NODE:-$(nvidia-smi -L | grep -c "^GPU ")}
by="-f 2"
[ "$1" != "$2" ] || by="-i 1"
exec "$perf" -b "$1" -e "$2" $by -g "$gpus"
"""
"""Bash script. It reads the environment that launchers save for mpirun, else that of gIB's script."""


@dataclass(frozen=True, slots=True)
class QuickNcclTest:
    """A short NCCL test: its first and last message size, doubled from row to row, and its number of GPUs."""

    first_size: str = "1M"  # bytes, or with K, M or G (powers of 1024)
    last_size: str = "1G"
    gpus: int = 0  # GPUs of the pod that store_output part; 0: all

    def require_valid(self) -> None:
        first, last = _parse_size(self.first_size), _parse_size(self.last_size)
        if first > last:
            raise BadInput(f"The first size {self.first_size} is above the last, {self.last_size}.", "Exchange them.")
        if self.gpus < 0:
            raise BadInput(f"{self.gpus} GPUs cannot be.", "Give 1 or more, or 0 for all.")

    @property
    def argv(self) -> tuple[str, ...]:
        self.require_valid()
        return ("bash", "-c", NCCL_QUICK_SCRIPT, "nccl-quick", self.first_size, self.last_size, str(self.gpus))


def _parse_size(size: str) -> int:
    found = _MESSAGE_SIZE.fullmatch(size)
    if found is None:
        raise BadInput(f"{size} is not a message size.", "Give a number of bytes such as 8, 512K, 1M or 1G.")
    return int(found[1]) << _UNIT_SHIFTS[found[2]]
