"""A container that is a folder of this machine: the scripts run here, and a test decides what goes wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from console.attach.files.copy_progress import CopyMeter, CopyProgress, CopyReport
from console.attach.files.pod_files import PodFiles
from console.attach.files.single_copy import FetchCopy, SendCopy
from console.errors import Unreachable


class Pod:
    """`programs` come first in PATH, or alone.

    `breaks` holds after how many bytes of output each next reading command loses its connection, `input_breaks` that of
    input.
    """

    def __init__(self, folder: Path, programs: Path | None = None, *, alone: bool = False) -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self._path = ":".join(map(str, [*([programs] if programs else []), *([] if alone else [os.environ["PATH"]])]))
        self.breaks: list[int] = []
        self.input_breaks: list[int] = []
        self.spoil: Callable[[bytes], bytes] = lambda data: data
        self.commands: list[str] = []
        self.seen: list[CopyProgress] = []
        self.files = PodFiles(self.start, "the pod")

    async def fetch(self, source: str, target: Path | str) -> CopyReport:
        return await FetchCopy(self.files, CopyMeter(self.seen.append, first_retry_seconds=0)).run(source, str(target))

    async def send(self, source: Path | str, target: str) -> CopyReport:
        return await SendCopy(self.files, CopyMeter(self.seen.append, first_retry_seconds=0)).run(str(source), target)

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, stdin: bytes | AsyncIterator[bytes] | None, action: str
    ) -> AsyncIterator[Command]:
        self.commands.append(action)
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=self.folder, env={"PATH": self._path, "HOME": str(self.folder), "LC_ALL": "C"},
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        command = Command(self, process, action)
        feeding = asyncio.create_task(command.feed(stdin)) if stdin is not None else None
        try:
            yield command
        finally:
            if process.returncode is None:
                process.kill()
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
            await process.communicate()


class Command:
    """One of them."""

    def __init__(self, pod: Pod, process: asyncio.subprocess.Process, what: str) -> None:
        self._pod, self._process, self._what = pod, process, what
        self._cut = asyncio.Event()
        self.code: int | None = None

    async def feed(self, stdin: bytes | AsyncIterator[bytes]) -> None:
        assert self._process.stdin is not None
        left = self._pod.input_breaks.pop(0) if self._pod.input_breaks and not isinstance(stdin, bytes) else None
        try:
            if isinstance(stdin, bytes):
                self._process.stdin.write(stdin)
            else:
                async for data in stdin:
                    sent = data if left is None else data[:left]
                    self._process.stdin.write(sent)
                    await self._process.stdin.drain()
                    if left is not None:
                        left -= len(sent)
                        if not left:
                            self._cut.set()
                            break
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # the command has ended before its input
        self._process.stdin.close()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        copying = self._what.startswith(("read", "pack"))
        left = self._pod.breaks.pop(0) if self._pod.breaks and copying else None
        while data := await self._process.stdout.read(1 << 16):
            if left is not None:
                data = data[:left]
                left -= len(data)
            yield 1, self._pod.spoil(data) if copying else data
            if left == 0:
                raise Unreachable("The connection broke off.")
        if complaint := await self._process.stderr.read():
            yield 2, complaint
        self.code = await self._process.wait()
        if self._cut.is_set():
            raise Unreachable("The connection broke off.")
