"""One command with the same input in many pods of a job: by ssh from one of them, else in a stream for each.

API servers and their tunnels to the nodes lose many of dozens of streams that begin together. The chart's launchers
give all pods of a release one SSH key and an sshd, so one stream into one pod, the gateway, brings the answers of all.
Pods that the gateway cannot reach get a stream each, a few at a time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from console.errors import ConsoleError, NotAllowed, ProgramFailed, Unreachable, Unreadable
from console.scheduling.pod_slots import PodSlot

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod

T = TypeVar("T")
Exec = Callable[["Pod", Sequence[str], bytes, Callable[[int, bytes], None]], Awaitable[int]]
"""Runs a command in a pod with bytes as its stdin, passes output on (1 stdout, 2 stderr) and returns the exit code."""

MAX_CONCURRENT_PODS = 16  # streams for one pod each at the same time
FEW_PODS = 4  # so many get a stream each in any case
_NO_STREAM_STATUSES = HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE  # so that nothing has run
STREAM_RETRY_PAUSES = 1.0, 2.0  # seconds after which a stream that was refused for want of room is tried again
MAX_GATEWAYS_TRIED = 3  # pods that are tried as gateways; no other after a silent one, where all have room for a stream
GATEWAY_START_TIMEOUT = 2.0  # seconds until a gateway has begun, and from its first byte to the first of its answer
GATEWAY_CONNECTIONS = 64  # pods that the gateway asks at the same time
GATEWAY_EXTRA_SECONDS = 10.0  # seconds that the gateway has beside those of the commands
MAX_POD_BYTES = 8 << 20  # bytes that one pod may print
MAX_ANSWERS_BYTES = 64 << 20  # bytes that all pods may print
_STDOUT, _STDERR = 1, 2
_ANSWER_HEAD, _MAX_BYTES_BEFORE_HEAD, _MAX_HEADER = b"a4-gateway\n", 1 << 16, 32
_EXIT_NO_SSH, _EXIT_TIMED_OUT, _EXIT_SSH_FAILED = 44, 124, 255
_GATEWAY_SCRIPT = Path(__file__).with_name("gateway_script.py")
# The script is read from standard input by its length: neither the URL of an exec nor an open input limits it. Nothing
# that an image adds to Python is loaded: it may be slow to start, or fail.
PYTHON_FROM_INPUT = (
    'p=$(command -v python3 || command -v python) || { echo "there is no Python in this image" >&2; exit 44; }; '
    'exec "$p" -ISc "import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv.pop(1))), \'probe\', \'exec\'))" "$@"'
)

Answer = bytes | ConsoleError


@dataclass(slots=True)
class PodAnswers:
    """The output of one command in many pods, by pod number, or the reason why it did not end in a pod."""

    by_pod: dict[int, Answer] = field(default_factory=dict)
    gateway: int | None = None  # the pod from which others were reached
    gateway_answers: int = 0  # pods that answered by way of it, itself too
    gateway_error: str = ""  # why there was none

    @property
    def texts(self) -> dict[int, bytes | str]:
        """The command's output by pod number; for a pod where it did not end, a sentence with the reason."""
        return {number: each if isinstance(each, bytes) else each.message for number, each in self.by_pod.items()}


def _program_error(code: int, errors: bytes | bytearray) -> ProgramFailed:
    last = next((line for line in reversed(errors.decode(errors="replace").splitlines()) if line.strip()), "")
    return ProgramFailed(last.strip() or f"it ended with exit code {code}", code=code)


def _output_limit_error() -> Unreadable:
    return Unreadable(f"The pods print more than {MAX_ANSWERS_BYTES >> 20} MiB together.")


def _announcing_start(argv: Sequence[str]) -> tuple[str, ...]:
    from console.kube.exec import ANNOUNCE_START

    shell, option, script, *arguments = argv
    return (shell, option, ANNOUNCE_START + script, *arguments)


async def run_and_collect(
    run: Exec,
    pod: Pod,
    argv: Sequence[str],
    stdin: bytes,
    limit: float,
    *,
    max_bytes: int = MAX_POD_BYTES,
    flow: float | None = None,
) -> bytes:
    """A shell script's output in a pod; `flow`: seconds from its first byte to its end at most, None for any.

    Raises ProgramFailed, Unreachable after `limit` seconds, Unreadable after `flow` or more than `max_bytes`.
    """
    from console.kube.exec import START_TIMEOUT, limit_output

    async with limit_output(pod.name, max_bytes=max_bytes, limit=limit, flow=flow, begins=START_TIMEOUT) as answer:
        code = await run(pod, _announcing_start(argv), stdin, answer.add)
    if code:
        raise _program_error(code, answer.errors)
    return bytes(answer.output)


async def run_when_room(semaphore: asyncio.Semaphore, start_command: Callable[[], Awaitable[T]]) -> T:
    """Start a command once the semaphore is free; retry if the API server has no room for its stream."""
    for pause in STREAM_RETRY_PAUSES:
        try:
            async with semaphore:
                return await start_command()
        except Unreachable as error:
            if error.status not in _NO_STREAM_STATUSES:
                raise
        await asyncio.sleep(pause)
    async with semaphore:
        return await start_command()


async def run_in_pods(
    run: Exec,
    ranks: Sequence[PodSlot],
    argv: Sequence[str],
    stdin: bytes,
    limit: float,
    *,
    flow: float | None = None,
    on_answer: Callable[[PodSlot], None] = lambda _: None,
) -> PodAnswers:
    """Run a shell script in pods, each for at most `limit` seconds and `flow` seconds after its first byte."""
    answers, room, together = PodAnswers(), asyncio.Semaphore(MAX_CONCURRENT_PODS), 0

    def store_answer(slot: PodSlot, answer: Answer) -> None:
        nonlocal together
        together += len(answer) if isinstance(answer, bytes) else 0
        if together > MAX_ANSWERS_BYTES:
            answer = _output_limit_error()
        answers.by_pod[slot.number] = answer
        on_answer(slot)

    async def run_in_one(slot: PodSlot) -> None:
        pod = slot.pod
        assert pod is not None
        try:
            answer: Answer = await run_when_room(room, lambda: run_and_collect(run, pod, argv, stdin, limit, flow=flow))
        except ConsoleError as error:
            answer = error
        store_answer(slot, answer)

    if len(ranks) > FEW_PODS:
        await _run_through_gateway(run, ranks, argv, stdin, limit, answers, store_answer)
    await asyncio.gather(*(run_in_one(rank) for rank in ranks if rank.number not in answers.by_pod))
    return answers


async def _run_through_gateway(
    run: Exec,
    ranks: Sequence[PodSlot],
    argv: Sequence[str],
    stdin: bytes,
    limit_seconds: float,
    answers: PodAnswers,
    accept: Callable[[PodSlot, Answer], None],
) -> None:
    """Collect the pods' answers by ssh from one pod, the gateway; a pod it cannot reach is left without an answer."""
    script = await asyncio.to_thread(_GATEWAY_SCRIPT.read_bytes)
    now, few = asyncio.get_running_loop().time, len(ranks) <= MAX_CONCURRENT_PODS
    for gateway in ranks[:MAX_GATEWAYS_TRIED]:
        asked = {
            "pods": [
                (rank.number, rank.name, "" if rank is gateway else _pod_ip(rank))
                for rank in ranks
                if rank is gateway or _pod_ip(rank)
            ],
            "argv": _announcing_start(argv),
            "input": len(stdin),
            "limit": limit_seconds,
            "most": MAX_POD_BYTES,
        }
        read, begun = _FrameReader(gateway.name, ranks, accept), now()
        whole = limit_seconds * ceil(len(ranks) / GATEWAY_CONNECTIONS) + GATEWAY_EXTRA_SECONDS
        data = script + json.dumps(asked).encode() + b"\n" + stdin
        try:
            code, answers.gateway_error = await _run_gateway(run, gateway, len(script), data, whole, read)
        except NotAllowed as error:
            for rank in ranks:
                accept(rank, error)
            return
        except ConsoleError as error:
            code, answers.gateway_error = 1, error.message
        if read.answered_pods:
            answers.gateway, answers.gateway_answers = gateway.number, read.answered_pods
        if not code or code == _EXIT_NO_SSH or read.answered_pods or (few and now() - begun >= GATEWAY_START_TIMEOUT):
            return  # another one has no key either, or the rest is asked directly


async def _run_gateway(
    run: Exec, gateway: PodSlot, length: int, data: bytes, limit: float, reader: _FrameReader
) -> tuple[int, str]:
    """Run the gateway script, the first `length` bytes of `data`, within `limit` s: (exit code, its failure or "")."""
    from console.kube.exec import limit_output

    assert gateway.pod is not None
    soon = GATEWAY_START_TIMEOUT
    async with limit_output(gateway.name, max_bytes=MAX_ANSWERS_BYTES, limit=limit, flow=soon, begins=soon) as answer:

        def pass_on(channel: int, chunk: bytes) -> None:
            answer.add(channel, chunk)
            if channel == _STDOUT:
                reader.feed(chunk)
                if reader.has_begun:
                    answer.reset()

        argv = _announcing_start(("sh", "-c", PYTHON_FROM_INPUT, "sh", str(length)))
        code = await run(gateway.pod, argv, data, pass_on)
    return code, _program_error(code, answer.errors).message if code else ""


def _pod_ip(slot: PodSlot) -> str:
    """The address of a rank's pod; empty if it has none."""
    try:
        return str(ip_address(slot.pod.ip)) if slot.pod is not None else ""
    except ValueError:
        return ""


class _FrameReader:
    """Parses the gateway's output: frames, each a line of three numbers and then bytes of one pod's output."""

    def __init__(self, gateway: str, ranks: Sequence[PodSlot], accept: Callable[[PodSlot, Answer], None]) -> None:
        self._gateway, self._accept = gateway, accept
        self._open_ranks = {rank.number: (rank, bytearray(), bytearray()) for rank in ranks}
        self._unparsed, self._total_bytes = bytearray(), 0
        self.has_begun = False  # whether the first word of the script has come
        self.answered_pods = 0  # pods that were reached

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the gateway's output. Raises Unreadable if they are no valid frames."""
        self._unparsed += data
        self._total_bytes += len(data)
        if self._total_bytes > MAX_ANSWERS_BYTES:
            for rank, _, _ in self._open_ranks.values():
                self._accept(rank, _output_limit_error())
            raise _output_limit_error()
        if not self.has_begun:
            _, magic, rest = self._unparsed.partition(_ANSWER_HEAD)
            if not magic:
                if len(self._unparsed) > _MAX_BYTES_BEFORE_HEAD:
                    raise self._unreadable_error()
                return
            self.has_begun, self._unparsed = True, rest
        at = 0
        while (end := self._unparsed.find(b"\n", at, at + _MAX_HEADER)) >= 0:
            number, channel, length = self._parse_frame_header(bytes(self._unparsed[at:end]))
            if len(self._unparsed) < end + 1 + length:
                break
            self._read_frame(number, channel, bytes(self._unparsed[end + 1 : end + 1 + length]))
            at = end + 1 + length
        else:
            if len(self._unparsed) - at > _MAX_HEADER:
                raise self._unreadable_error()
        del self._unparsed[:at]

    def _unreadable_error(self) -> Unreadable:
        return Unreadable(f"What pod {self._gateway} prints of the other pods cannot be parsed.")

    def _parse_frame_header(self, line: bytes) -> tuple[int, int, int]:
        try:
            number, channel, length = map(int, line.split(b" "))
        except ValueError as error:
            raise self._unreadable_error() from error
        if number not in self._open_ranks or channel not in (0, _STDOUT, _STDERR) or not 0 <= length <= 1 << 15:
            raise self._unreadable_error()
        return number, channel, length

    def _read_frame(self, number: int, channel: int, data: bytes) -> None:
        rank, output, errors = self._open_ranks[number]
        if channel:
            (output if channel == _STDOUT else errors).extend(data)
            if len(output) + len(errors) > MAX_POD_BYTES:  # the script ends such a command, unless it is another one
                raise self._unreadable_error()
            return
        del self._open_ranks[number]
        digits, _, why = data.decode(errors="replace").partition(" ")
        if not re.fullmatch("[0-9]{1,3}", digits):
            raise self._unreadable_error()
        code = int(digits)
        if code == _EXIT_SSH_FAILED and not errors.startswith(b"\n"):
            return  # no shell has begun there: the pod was not reached
        self.answered_pods += 1
        if why:
            error = Unreachable if code == _EXIT_TIMED_OUT else Unreadable
            self._accept(rank, error(f"Pod {rank.name}: {why}."))
        else:
            self._accept(rank, _program_error(code, errors) if code else bytes(output))
