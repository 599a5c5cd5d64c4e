"""A session without a cluster: the same methods as `console.session.Session`, over a picture that the test sets.

Every call that does something is kept in `calls` as (method, arguments). What a call answers or raises is set per
method in `answers`: a value is returned, an exception is raised.

    session = FakeSession(Fleet(nodes={("", "n1"): Node("n1")}))
    session.show(pods={...})                    # the next picture
    session.answers["cordon"] = NotAllowed("...")
    session.printed["default", "pod-0"] = [LogLine(1.0, "hello")]
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from console.errors import ConsoleError, NotFound, Unreachable
from console.kube.objects.meta import format_time
from console.kube.snapshot import ContextName, Fleet, WatchState, WatchStatus
from console.launch.ownership import Proof
from console.launch.run_database import RunHistory
from console.logs.follow import LogService
from console.logs.line import LogLine, StreamState
from console.logs.line_splitter import split_timestamps
from console.logs.store import logs_folder
from console.metrics.diagnosis import Diagnoses
from console.metrics.lost_work import has_checkpoint
from console.metrics.measures import MeasureService
from console.settings import Settings
from tests.fakes_google import FakeGoogle
from tests.fakes_preflight import FakePreflight
from tests.fakes_runs import FakeLaunching
from tests.fakes_tunnels import FakeTunnels
from tests.fakes_watch import FakeAlarms, FakeCheckpoints, FakeGpus, FakeInspector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from console.checkpoints.saved import SavedState
    from console.kube.objects.jobset import JobSet
    from console.kube.objects.pod import Pod
    from console.logs.container_log import LogRequest, ResumeCursor
    from rankscope import SlowReport

KINDS = (
    "nodes", "pods", "events", "jobsets", "jobs", "clusterqueues", "localqueues", "workloads",
    "resourceflavors", "topologies", "cohorts",
)  # fmt: skip


def live_links() -> dict[str, WatchStatus]:
    """Every kind live, heard just now."""
    now = time.time()
    return {kind: WatchStatus(kind, WatchState.LIVE, since=now, last_seen=now) for kind in KINDS}


class FakeConnection:
    """A connection to a cluster that is no practice cluster."""

    target = SimpleNamespace(cluster=SimpleNamespace(practice_folder=None))


class FakeStream:
    """The log of one container, from `FakeSession.printed`."""

    def __init__(
        self, session: FakeSession, wanted: LogRequest, memory: ResumeCursor, clean: Any, restarts: int
    ) -> None:
        self.state = StreamState.WAITING
        self.gaps: list[tuple[float, float]] = []
        self.complete_until = math.inf
        self.restarts = restarts
        self.memory = memory
        self.open = b""
        self._session, self._wanted, self._clean = session, wanted, clean

    async def run(self, to: Callable[[list[tuple[float, bytes]]], None]) -> None:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                to(batch)

    async def batches(self) -> AsyncGenerator[list[tuple[float, bytes]], None]:
        session, wanted = self._session, self._wanted
        session._did("follow_log", wanted.namespace, wanted.pod, wanted.container, wanted.tail)
        key, at, woken = (wanted.namespace, wanted.pod), 0, asyncio.Event()
        session._woken.add(woken)
        logs = session.previous_logs if wanted.previous else session.printed
        if key in session.unread:
            raise session.unread[key]
        if wanted.previous and key not in logs:
            raise NotFound(f"Could not read the log of pod {wanted.pod}: its container has no previous run.")
        if wanted.tail is not None and not self.memory.last:
            at = max(0, len(logs.get(key, [])) - wanted.tail)
        self.memory.rewind()
        self.state = StreamState.LIVE
        try:
            while True:
                lines = logs.get(key, [])[at:]
                at += len(lines)
                raws = [f"{format_time(line.time)} {line.text}".encode() for line in lines]
                fresh = self.memory.drop_repeated(split_timestamps(self._clean(raws)))
                seen, self.open = self.open, session.drawn.get(key, b"")
                if fresh or self.open != seen:
                    yield fresh
                if not lines and (key not in session.running or not wanted.follow):
                    break
                if not lines:
                    await woken.wait()
                    woken.clear()
        finally:
            session._woken.discard(woken)
        self.state = StreamState.ENDED
        if key in session.cuts:
            self.state = StreamState.CUT
            self.gaps.append(session.cuts[key])


class FakeSession:
    """What screens and commands need of a session, kept in memory."""

    def __init__(self, fleet: Fleet | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.context = self.settings.context or "test"
        self.namespace = self.settings.namespace or "default"
        self.read_only = self.settings.read_only
        self.practice = self.settings.practice
        self.unverified = False
        self.default_namespace = "default"
        self.server, self.server_version = "https://server", "v1.36.4"
        self.fleet = self._linked(fleet or Fleet(at=time.time()))
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.answers: dict[str, Any] = {}
        self.printed: dict[tuple[str, str], list[LogLine]] = {}
        self.previous_logs: dict[tuple[str, str], list[LogLine]] = {}
        """Of the container's run before its last restart, as `printed`."""
        self.unread: dict[tuple[str, str], ConsoleError] = {}
        """What asking for the log of a pod ends with."""
        self.drawn: dict[tuple[str, str], bytes] = {}
        self.cuts: dict[tuple[str, str], tuple[float, float]] = {}
        self.running: set[tuple[str, str]] = set()
        self.closed = False
        self.current_connection: Any = FakeConnection()
        """Another one after each switch of the cluster."""
        self.watch = self.own_jobs = self
        self.launch = FakeLaunching(self)
        self.tunnels = FakeTunnels(self)
        self.alarms, self.gpus, self.inspector = FakeAlarms(), FakeGpus(), FakeInspector(self)
        history = RunHistory(None)
        self.diagnoses = Diagnoses(lambda: history)
        self.alarms_enabled = True
        self.checkpoints = FakeCheckpoints(self)
        self.google = FakeGoogle(self)
        self.preflight = FakePreflight(self)
        self.mine = "you"
        """Owner of what the person who looks has launched."""
        self.proof: Proof | None = None  # of every job; None: the history knows those of that owner
        self._woken: set[asyncio.Event] = set()

    def keep_watching(self) -> None:
        """What is in memory is followed anyway."""

    def namespace_option(self, namespace: str) -> str:
        return "" if namespace == self.default_namespace else namespace

    def pause_for_keypress(self) -> None:
        """Nothing comes at the same time."""

    async def me(self) -> str:
        return self.mine

    def whose(self, owner: str) -> str:
        return "you" if owner == self.mine else owner

    def proof_of(self, jobset: JobSet) -> Proof:
        own = Proof.LAUNCHED if jobset.owner == self.mine else Proof.NONE
        return own if self.proof is None else self.proof

    async def read_proof(self, jobset: JobSet) -> Proof:
        return self.proof_of(jobset)

    @staticmethod
    def _linked(fleet: Fleet) -> Fleet:
        return fleet if fleet.links else replace(fleet, links=live_links())

    def show(self, fleet: Fleet | None = None, **changes: Any) -> None:
        """Make this the picture: a whole one, or the last one with these fields changed."""
        self.fleet = self._linked(fleet if fleet is not None else replace(self.fleet, at=time.time(), **changes))
        self._wake()

    def _wake(self) -> None:
        for event in self._woken:
            event.set()

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """Arguments of every call of that method, oldest first."""
        return [arguments for each, arguments in self.calls if each == name]

    def _did(self, name: str, *arguments: Any, default: Any = None) -> Any:
        self.calls.append((name, arguments))
        answer = self.answers.get(name, default)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    # the picture

    def contexts(self) -> tuple[ContextName, ...]:
        return tuple(self.answers.get("contexts", (ContextName(self.context, "cluster", self.namespace, True),)))

    async def switch(self, *, context: str | None = None, namespace: str | None = None) -> None:
        self._did("switch", context, namespace)
        if context is not None:
            self.context, self.current_connection = context, FakeConnection()
            self._wake()
        self.namespace = namespace or self.namespace

    async def require_namespace(self, name: str) -> None:
        self._did("require_namespace", name)

    async def snapshots(self) -> AsyncIterator[Fleet]:
        woken = asyncio.Event()
        woken.set()
        self._woken.add(woken)
        try:
            while not self.closed:
                await woken.wait()
                woken.clear()
                if not self.closed:
                    yield self.fleet
        finally:
            self._woken.discard(woken)

    async def wait_until_listed(self, *kinds: str, timeout: float = 30) -> Fleet:  # noqa: ASYNC109 - callers name it
        self._did("listed", *kinds)
        return self.fleet

    async def close(self) -> None:
        self.closed = True
        self._wake()
        if "logs" in vars(self):
            await self.logs.close()

    async def is_allowed(
        self, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        return bool(self._did("may", verb, resource, group, namespace, name, subresource, default=True))

    # things done

    async def cordon(self, node: str, *, on: bool = True, reason: str = "") -> None:
        self._did("cordon", node, on, *([reason] if reason else []))

    async def delete_pod(self, namespace: str, name: str) -> None:
        self._did("delete_pod", namespace, name)

    async def manifest(self, kind: str, namespace: str, name: str) -> str:
        return str(self._did("manifest", kind, namespace, name, default=f"kind: {kind}\nmetadata:\n  name: {name}\n"))

    # what there is to choose from

    async def read_choices(self) -> Any:
        return self._did("choices", default={})

    # streams

    @cached_property
    def logs(self) -> FakeLogs:
        """The real ones, over streams of `printed`; a key in `running` says that its container has not ended."""
        return FakeLogs(self)

    def _stream(self, wanted: LogRequest, memory: ResumeCursor, clean: Any, restarts: int) -> FakeStream:
        return FakeStream(self, wanted, memory, clean, restarts)

    def say(self, pod: str, *texts: str, namespace: str = "default", at: float = 0.0) -> None:
        """A container that runs prints these."""
        key = namespace, pod
        self.running.add(key)
        self.printed.setdefault(key, []).extend(LogLine(at or time.time(), text) for text in texts)
        self._wake()

    def draw(self, pod: str, picture: str, namespace: str = "default") -> None:
        """A container that runs draws that on a line that has no end."""
        self.running.add((namespace, pod))
        self.drawn[namespace, pod] = picture.encode()
        self._wake()

    def cut(self, pod: str, *, since: float, until: float, namespace: str = "default") -> None:
        """The pod goes while its log cannot be read."""
        self.cuts[namespace, pod] = since, until
        self.end(pod, namespace)

    def end(self, pod: str, namespace: str = "default") -> None:
        """The container ends."""
        self.running.discard((namespace, pod))
        self._wake()

    async def follow_log(
        self, namespace: str, pod: str, *, container: str = "", tail: int | None = None, since: float = 0.0,
        previous: bool = False, follow: bool = True, drawn: bool = False, memory: ResumeCursor | None = None,
    ) -> AsyncIterator[LogLine]:  # fmt: skip
        """Those of `printed`; a key in `running` says that its container has not ended."""
        self._did("follow_log", namespace, pod, container, tail, since, previous, follow)
        key, at, woken, connected = (namespace, pod), 0, asyncio.Event(), self.current_connection
        self._woken.add(woken)
        try:
            if memory is None or not memory.last:
                at = max(0, len(self.printed.get(key, [])) - (tail or 0)) if tail else 0
            if memory is not None:
                memory.rewind()
            while True:
                lines = self.printed.get(key, [])[at:]
                at += len(lines)
                for line in lines:
                    stamp = line.time, f"{format_time(line.time)} {line.text}".encode()
                    if (drawn or not line.open) and (memory is None or memory.drop_repeated([stamp])):
                        yield line
                if self.closed or self.current_connection is not connected:
                    raise Unreachable("The connection to this cluster was closed.", "Open the page again.")
                if not lines and (key not in self.running or not follow):
                    break
                if not lines:
                    await woken.wait()
                    woken.clear()
                await asyncio.sleep(0)
        finally:
            self._woken.discard(woken)

    async def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, container: str = "",
        stdin: bytes | AsyncIterator[bytes] | None = None, on_output: Callable[[int, bytes], None],
    ) -> int:  # fmt: skip
        answer = self._did("exec", namespace, pod, tuple(argv), container, default=(0, b"", b""))
        code, out, err = answer
        for fd, data in ((1, out), (2, err)):
            if data:
                on_output(fd, data)
        return int(code)

    async def shell(
        self, namespace: str, pod: str, *, container: str = "", argv: Sequence[str] = (), tmux: bool = True,
        name: str = "",
    ) -> int:  # fmt: skip
        return int(self._did("shell", namespace, pod, container, tuple(argv), default=0))

    @property
    def copies(self) -> FakeCopies:
        return FakeCopies(self)

    @property
    def container_exec(self) -> FakeInside:
        return FakeInside(self)

    @asynccontextmanager
    async def forward(self, namespace: str, pod: str, remote_port: int, *, local_port: int = 0) -> AsyncIterator[int]:
        yield int(self._did("forward", namespace, pod, remote_port, local_port, default=local_port or 40000))

    def saved_state(self, key: tuple[str, str]) -> SavedState | None:
        return self.checkpoints.known.get(key)

    def has_checkpoint(self, jobset: JobSet) -> bool | None:
        saved = self.saved_state(jobset.key)
        folder = saved.in_folder if saved is not None else None
        return has_checkpoint(jobset, self.measures.find_followed(jobset.key), folder)

    def slow_report(self, key: tuple[str, str]) -> SlowReport | None:
        return self.inspector.slow_reports.get(key)

    @cached_property
    def measures(self) -> MeasureService:
        """The real ones, over `printed`."""
        place = logs_folder().parent / "nccl-tests.jsonl"
        return MeasureService(cast("Any", self), lambda: self.logs, lambda: cast("Any", self.launch.runs), place=place,
                        read_tail=self._read_tail)  # fmt: skip

    async def _read_tail(self, pod: Pod, lines: int) -> list[LogLine]:
        self._did("read_tail", pod.namespace, pod.name, lines)
        return self.printed.get(pod.key, [])[-lines:]


class FakeLogs(LogService):
    """The real ones, over what containers of a FakeSession print."""

    def __init__(self, session: FakeSession, folder: Path | None = None) -> None:
        super().__init__(cast("Any", session), cast("Any", session._stream), folder or logs_folder())
        self._session = session

    def follow_pod(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.follow_log(*args, **kwargs)


class FakeCopies:
    """Copies: `answers["fetch"]` and `["send"]` are reports or errors, `answers["progress"]` what is told before."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    def for_container(
        self, namespace: str, pod: str, *, container: str = "", where: str = "", way: Any = None
    ) -> FakeContainerCopies:
        return FakeContainerCopies(self._session, namespace, pod, container)


class FakeContainerCopies:
    def __init__(self, session: FakeSession, namespace: str, pod: str, container: str) -> None:
        self._session = session
        self._place, self._container = (namespace, pod), container

    async def fetch(self, source: str, target: str, *, progress: Callable[[Any], None] = lambda _: None) -> Any:
        return await self._copied("fetch", progress, *self._place, source, target, self._container)

    async def send(self, source: Any, target: str, *, progress: Callable[[Any], None] = lambda _: None) -> Any:
        return await self._copied("send", progress, *self._place, str(source), target, self._container)

    async def _copied(self, name: str, progress: Callable[[Any], None], *arguments: str) -> Any:
        for each in self._session.answers.get("progress", ()):
            progress(each)
            await asyncio.sleep(0)
        if held := self._session.answers.get("hold"):
            await held.wait()
        return self._session._did(name, *arguments)


class FakeInside:
    """Ranks that run commands: `answers["exec"]` is (code, output, errors), or a function of the rank's number."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    async def run_in_ranks(
        self, ranks: Sequence[Any], argv: Sequence[str], *, container: str = "", at_once: int = 16, limit: float = 60,
        heard: Callable[[int, int, bytes], None] = lambda *_: None, ended: Callable[[Any], None] = lambda _: None,
    ) -> tuple[Any, ...]:  # fmt: skip
        from console.attach.exec_many import RankOutput

        self._session._did("everywhere", tuple(each.number for each in ranks), tuple(argv), container)
        answer = self._session.answers.get("exec", (0, b"", b""))
        found = []
        for rank in ranks:
            code, out, err = answer(rank.number) if callable(answer) else answer
            result = RankOutput(rank.number, rank.name, rank.node, code, (out + err).decode(), err.decode())
            ended(result)
            found.append(result)
            await asyncio.sleep(0)
        return tuple(found)

    async def run_quick_nccl_test(
        self, pod: Any, test: Any, *, heard: Callable[[int, bytes], None], grown: Callable[[Any], None],
        container: str = "", limit: float = 60,
    ) -> None:  # fmt: skip
        from trainlog import NcclParser

        parser = NcclParser()
        heard(2, b"a recording\n")
        for piece in self._session._did("quick_nccl", pod.name, test.first, test.last):
            for found in parser.feed(piece):
                grown(found)
            await asyncio.sleep(0)


def fleet_of(*objects: Any, **links: WatchStatus) -> Fleet:
    """A picture of these objects, each put where its type belongs; links are live but for those named."""
    from console.kube.objects.event import Event
    from console.kube.objects.jobset import Job, JobSet
    from console.kube.objects.node import Node
    from console.kube.objects.pod import Pod
    from console.kube.objects.queue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology
    from console.kube.objects.workload import Workload

    places: dict[type, str] = {
        Node: "nodes", Pod: "pods", Event: "events", JobSet: "jobsets", Job: "jobs", ClusterQueue: "cluster_queues",
        LocalQueue: "local_queues", Workload: "workloads", ResourceFlavor: "flavors", Topology: "topologies",
        Cohort: "cohorts",
    }  # fmt: skip
    found: dict[str, dict[tuple[str, str], Any]] = {}
    for each in objects:
        found.setdefault(places[type(each)], {})[getattr(each, "namespace", ""), each.name] = each
    return Fleet(at=time.time(), links={**live_links(), **links}, **found)
