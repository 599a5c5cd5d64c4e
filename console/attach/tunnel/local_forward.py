"""Forwards local ports to one rank for as long as the rank exists, whichever pod runs it.

The client of a broken connection sees it end, but the local port stays open, and the next connection waits for the next
pod. `a4 proxy` imports this module within 150 ms, so imports are few.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from console.attach.tunnel import tunnel_files
from console.attach.tunnel.relay import AsyncStream, Relay
from console.attach.tunnel.tunnel_files import Listener, Tunnel
from console.errors import BadInput, ConsoleError, NotFound, NotLoggedIn, Unreachable
from console.kube.login import Login
from console.kube.pod_address import PodAddress, PortPair
from console.kube.port_forward import JobEnded, LivePod, Pipe, PodPending, find_live_pod, open_pipe
from console.kube.raw_connection import MAX_IDLE_SECONDS, RawConnection, connect, open_connection

T = TypeVar("T")


class Closable(Protocol):
    @property
    def is_usable(self) -> bool:
        """Whether the connection is open, as far as is known."""

    def close(self) -> None: ...


class SpareConnections(Generic[T]):
    """A pool of connections opened ahead of their use, each closed if unused for some seconds."""

    def __init__(
        self, connect: Callable[[], Coroutine[Any, Any, T]], seconds: float, part: Callable[[T], Closable]
    ) -> None:
        """`connect` opens a connection; `part` picks the closable part of its result, closed after `seconds` unused."""
        self._connect, self._idle_seconds, self._closable_of = connect, seconds, part
        self._opening: dict[asyncio.Future[T], asyncio.TimerHandle] = {}

    def fill_up_to(self, count: int) -> None:
        """Open connections ahead until the pool has `count` of them; failed ones are left out."""
        while len(self._opening) < count:
            made = asyncio.ensure_future(self._connect())
            self._opening[made] = made.get_loop().call_later(self._idle_seconds, self._cancel_spare, made)

    def pop_open(self) -> T | None:
        """Take an open connection out of the pool; None if there is none."""
        for made in [each for each in self._opening if each.done()]:
            self._opening.pop(made).cancel()
            if made.exception() is None and self._closable_of(made.result()).is_usable:
                return made.result()
            self._close_once_open(made)
        return None

    def close(self) -> None:
        """Close all connections of the pool."""
        for made in tuple(self._opening):
            self._cancel_spare(made)

    def _cancel_spare(self, spare: asyncio.Future[T]) -> None:
        self._opening.pop(spare).cancel()
        spare.cancel()
        spare.add_done_callback(self._close_once_open)

    def _close_once_open(self, spare: asyncio.Future[T]) -> None:
        if not spare.cancelled() and spare.exception() is None:
            self._closable_of(spare.result()).close()


POD_POLL_SECONDS = 60.0
"""Seconds between two checks of the pod of a ready tunnel; a broken connection brings the next check forward."""
WAITING_POLL_SECONDS = 3.0
CLOCK_JUMP_SECONDS = 15.0  # seconds by which the clock runs ahead if the machine has slept
CLOCK_CHECK_SECONDS = 5.0
_MIN_POLL_SECONDS = 1.0  # seconds between two looks, however many connections break
MAX_SPARE_CONNECTIONS = 4
SPARE_CONNECTION_SECONDS = 10.0
"""Seconds for which a spare connection to the pod's port stays open; clients that often connect get spares.

The first client within this time gets none, since a debugger may accept one connection only. Spares do not stay open
longer, since the server in the pod sees them.
"""


@dataclass(slots=True)
class _LocalPort:
    local: int
    remote: int
    spares: SpareConnections[tuple[Pipe, LivePod]]
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SPARE_CONNECTIONS + 1))  # of the last clients
    server: asyncio.Server | None = None
    open: int = 0
    connections: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def add_bytes(self, sent_bytes: int, received_bytes: int) -> None:
        self.sent_bytes += sent_bytes
        self.received_bytes += received_bytes

    def take_spare(self, now: float) -> tuple[Pipe, LivePod] | None:
        """An open spare connection for a new client, whose time `now` is recorded; None if the pool has none."""
        self.times.append(now)
        return self.spares.pop_open()

    def refill_spares(self, now: float) -> None:
        self.spares.fill_up_to(sum(now - each < SPARE_CONNECTION_SECONDS for each in self.times) - 1)


class LocalForward:
    """A running tunnel: call `open`, wait for `ended`, call `close`."""

    def __init__(
        self,
        forwarder: PortForwarder,
        address: PodAddress,
        ports: Sequence[PortPair],
        *,
        name: str,
        context: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._forwarder, self._address, self._ports, self._clock = forwarder, address, tuple(ports), clock
        self._local_ports: list[_LocalPort] = []
        self._relays: set[Relay] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._check_due = asyncio.Event()
        self._uid = ""
        self.ended = asyncio.Event()  # set when its job is over for good
        self.on_change: Callable[[Tunnel], None] = lambda tunnel: None  # called at each change of its state
        self.notes: list[str] = []  # what was done otherwise than asked: other local ports
        self._tunnel = Tunnel(
            name=name,
            namespace=address.namespace,
            job=address.job_text,
            rank=address.rank_text,
            context=context,
            server=forwarder.login.server,
            state="waiting",
            since=clock(),
            pid=os.getpid(),
        )

    @property
    def tunnel(self) -> Tunnel:
        listeners = [
            Listener(each.local, each.remote, each.open, each.connections, each.sent_bytes, each.received_bytes)
            for each in self._local_ports
        ]
        return replace(self._tunnel, listeners=tuple(listeners))

    async def open(self) -> None:
        """Listen on the local ports and look up the pod once. Raises BadInput, JobEnded and Refused only."""
        self._forwarder.connects_ahead = True
        try:
            await self._find_pod()
        except Unreachable as error:
            self._set_state("lost", error.message)
        try:
            for each in self._ports:
                await self._open_port(each)
        except BaseException:
            await self.close()
            raise
        self._start_task(self._poll_pod())

    async def close(self) -> None:
        for door in self._local_ports:
            door.spares.close()
            if door.server:
                door.server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        for splice in tuple(self._relays):
            splice.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._forwarder.close()

    async def _open_port(self, pair: PortPair) -> None:
        choices = [pair.local]
        if not pair.local:  # last time's, else the same number, else any
            last = await asyncio.to_thread(tunnel_files.last_port, self._tunnel.server, self._address, pair.remote)
            choices = [last or (pair.remote if pair.remote >= 1024 else 0), 0]
        taken = ""
        for local in choices:
            connect = partial(self._forwarder.open_pipe, self._address, pair.remote, limit_seconds=0.0)
            spares = SpareConnections(connect, SPARE_CONNECTION_SECONDS, lambda made: made[0])
            door = _LocalPort(local, pair.remote, spares)
            loop = asyncio.get_running_loop()
            try:
                door.server = await loop.create_server(partial(self._accept_connection, door), "127.0.0.1", local)
            except OSError as error:
                busy = error.errno == errno.EADDRINUSE
                taken = "is taken by another program" if busy else f"cannot be used ({error.strerror})"
                if pair.local:
                    hint = f"Choose another (9000:{pair.remote}), or give only {pair.remote} for a free local port."
                    raise BadInput(f"Port {local} of this machine {taken}.", hint) from error
                continue
            door.local = int(door.server.sockets[0].getsockname()[1])
            self._local_ports.append(door)
            if taken:
                self.notes.append(f"Port {choices[0]} of this machine {taken}: {door.local} forwards to {door.remote}.")
            await asyncio.to_thread(
                tunnel_files.remember_local_port, self._tunnel.server, self._address, pair.remote, door.local
            )
            return

    def _accept_connection(self, local_port: _LocalPort) -> Relay:
        splice = Relay(local_port.add_bytes)
        self._start_task(self._relay_connection(local_port, splice))
        return splice

    def _start_task(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay_connection(self, local_port: _LocalPort, relay: Relay) -> None:
        loop = asyncio.get_running_loop()
        local_port.open += 1
        local_port.connections += 1
        self._relays.add(relay)
        try:
            if (spare := local_port.take_spare(loop.time())) is None:
                opening = asyncio.ensure_future(
                    self._forwarder.open_pipe(self._address, local_port.remote, report=self._on_pod_pending)
                )
                done, _ = await asyncio.wait({opening, relay.ended}, return_when=asyncio.FIRST_COMPLETED)
                if opening not in done:  # the client has gone meanwhile
                    opening.cancel()
                    return
                spare = opening.result()
            pipe, target = spare
            self._on_pod_found(target)
            relay.attach(pipe)
            local_port.refill_spares(loop.time())
            await relay.ended
            if relay.end_reason:
                self._on_connection_broken(relay.end_reason)
            elif relay.ended_by_pod:  # as it does after an answer, or because it is going
                self._check_due.set()
        except JobEnded as error:
            self._on_job_ended(error)
        except ConsoleError as error:
            self._on_connection_broken(str(error))
        finally:
            relay.close()
            self._relays.discard(relay)
            local_port.open -= 1
            self.on_change(self.tunnel)

    def _set_state(self, state: str, message: str = "") -> None:
        if (state, message) != (self._tunnel.state, self._tunnel.words):
            self._tunnel = replace(self._tunnel, state=state, words=message)
            self.on_change(self.tunnel)

    def _on_pod_found(self, target: LivePod) -> None:
        if target.uid != self._uid:
            for door in self._local_ports:
                door.spares.close()
            again = self._tunnel.reconnections + bool(self._uid)
            if self._uid and self._tunnel.state == "ready":
                self._on_pod_gone(f"{target.name} replaced it.")
            self._uid = target.uid
            self._tunnel = replace(self._tunnel, pod=target.name, reconnections=again, state="")
        self._set_state("ready")

    def _on_pod_gone(self, message: str) -> None:
        gone = f"Pod {self._tunnel.pod} was deleted: {message}"
        self._tunnel = replace(self._tunnel, last_end=gone, last_end_at=self._clock())

    def _on_pod_pending(self, message: str) -> None:
        if self._tunnel.state == "ready":
            self._on_pod_gone(message)
        self._set_state("waiting", message)

    def _on_connection_broken(self, why: str) -> None:
        self._tunnel = replace(self._tunnel, last_end=why, last_end_at=self._clock())
        self.on_change(self.tunnel)
        self._check_due.set()

    def _on_job_ended(self, error: ConsoleError) -> None:
        self._set_state("ended", error.message)
        self.ended.set()

    async def _find_pod(self) -> None:
        found = await self._forwarder.poll_pod(self._address)
        if isinstance(found, PodPending):
            if self._tunnel.state == "ready":
                self._on_pod_gone(f"{found.words}.")
            self._set_state("waiting", f"Waiting for {self._address}: {found.words}.")
        else:
            self._on_pod_found(found)

    async def _poll_pod(self) -> None:
        while True:
            await self._wait_for_next_check(POD_POLL_SECONDS if self._tunnel.state == "ready" else WAITING_POLL_SECONDS)
            try:
                await self._find_pod()
            except JobEnded as error:
                self._on_job_ended(error)
                return
            except ConsoleError as error:
                # The network is away, or a right was taken: both may change, and the ports stay.
                self._set_state("lost", error.message)
            await asyncio.sleep(_MIN_POLL_SECONDS)

    async def _wait_for_next_check(self, seconds: float) -> None:
        """Wait until the next check is due, a connection has broken, or the machine woke up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0 and not self._check_due.is_set():
            wall, awake = self._clock(), loop.time()
            try:
                async with asyncio.timeout(min(left, CLOCK_CHECK_SECONDS)):
                    await self._check_due.wait()
            except TimeoutError:
                if (self._clock() - wall) - (loop.time() - awake) > CLOCK_JUMP_SECONDS:
                    for splice in self._relays:  # may be dead without an error
                        splice.ping()
                    break
        self._check_due.clear()


POD_TIMEOUT = 60.0  # seconds a connection waits for the pod that replaces another
POLL_PAUSES = (0.25, 2.0)  # seconds between two looks at a pod that is not there yet: at first, and at most

_UNAUTHORIZED = 401


def _ignore_message(message: str) -> None: ...


class PortForwarder:
    """Opens connections to ports of ranks with one login, each to the rank's current pod."""

    def __init__(self, login: Login, *, limit: float = POD_TIMEOUT) -> None:
        self.login = login
        self._limit_seconds = limit
        self._spare_connections = SpareConnections(partial(connect, login), MAX_IDLE_SECONDS, lambda made: made)
        self.connects_ahead = False  # as a tunnel does, whose clients make many: TLS is half of what each waits for

    def close(self) -> None:
        """Close the spare connection to the API server, and open no other."""
        self.connects_ahead = False
        self._spare_connections.close()

    async def wait_for_pod(
        self, address: PodAddress, *, limit: float | None = None, report: Callable[[str], None] = _ignore_message
    ) -> LivePod:
        """The live pod of a rank; `report` gets each reason to wait. Raises JobEnded, Unreachable after `limit` s."""
        return await self._poll_until(address, lambda: self.poll_pod(address), limit, report)

    async def poll_pod(self, address: PodAddress) -> LivePod | PodPending:
        return await self._with_new_connection(
            lambda connection: find_live_pod(connection, self.login, address), f"find {address}"
        )

    async def open_pipe(
        self,
        address: PodAddress | LivePod,
        port: int,
        *,
        limit_seconds: float | None = None,
        report: Callable[[str], None] = _ignore_message,
    ) -> tuple[Pipe, LivePod]:
        """A pipe to a port of the rank's live pod, and the pod; waits, reports and raises as `wait_for_pod` does."""
        gone = 0

        async def dial() -> tuple[Pipe, LivePod] | PodPending:
            nonlocal gone
            try:
                return await self._with_new_connection(
                    lambda connection: self._open_pipe(connection, address, port), f"reach port {port} of {address}"
                )
            except JobEnded:
                raise
            except NotFound:
                gone += 1  # it went between the look and the call
                if isinstance(address, LivePod) or gone > 20:
                    raise
                return PodPending("its pod was just deleted")

        return await self._poll_until(address, dial, limit_seconds, report)

    @asynccontextmanager
    async def _open_relay(self, address: PodAddress | LivePod, port: int) -> AsyncIterator[tuple[socket.socket, Relay]]:
        pipe, _ = await self.open_pipe(address, port)
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        relay = Relay()
        await asyncio.get_running_loop().create_connection(lambda: relay, sock=theirs)
        relay.attach(pipe)
        try:
            yield ours, relay
        finally:
            ours.close()
            relay.close()

    @asynccontextmanager
    async def open_stream(self, address: PodAddress | LivePod, port: int) -> AsyncIterator[AsyncStream]:
        """Open a port-forward as a stream with awaitable `send`, `receive` and `finish`."""
        async with self._open_relay(address, port) as (ours, relay):
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                yield AsyncStream(relay, reader, writer)
            finally:
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()

    @asynccontextmanager
    async def open_socket(self, address: PodAddress | LivePod, port: int) -> AsyncIterator[socket.socket]:
        """Open a port-forward as a blocking socket for libraries that run in a thread."""
        async with self._open_relay(address, port) as (ours, _):
            yield ours

    async def _poll_until(
        self,
        address: PodAddress | LivePod,
        poll: Callable[[], Awaitable[T | PodPending]],
        limit: float | None,
        report: Callable[[str], None],
    ) -> T:
        """The first result of `poll`; `report` gets new reasons to wait. Unreachable after `limit` s (or default)."""
        loop = asyncio.get_running_loop()
        deadline, pause, text = loop.time() + (self._limit_seconds if limit is None else limit), POLL_PAUSES[0], ""
        while isinstance(found := await poll(), PodPending):
            if loop.time() >= deadline:
                raise Unreachable(f"{address} cannot be reached: {found.words}.", "Why: a4 jobs --json")
            if found.words != text:
                text = found.words
                report(f"Waiting for {address}: {text}.")
            await asyncio.sleep(pause)
            pause = min(POLL_PAUSES[1], pause * 1.5)
        return found

    async def _open_pipe(
        self, connection: RawConnection, address: PodAddress | LivePod, port: int
    ) -> tuple[Pipe, LivePod] | PodPending:
        found = address if isinstance(address, LivePod) else await find_live_pod(connection, self.login, address)
        if isinstance(found, PodPending):
            return found
        return await open_pipe(connection, self.login, found.namespace, found.name, port), found

    async def _with_new_connection(self, function: Callable[[RawConnection], Awaitable[T]], action: str) -> T:
        """Call `function` with a new connection; once more after a renewed login or with the other protocol."""
        renewed = False
        while True:
            ahead = self._spare_connections.pop_open()
            try:
                async with open_connection(self.login, action, ahead) as connection:
                    found = await function(connection)
                self._spare_connections.fill_up_to(int(self.connects_ahead))
                return found
            except Unreachable:
                if ahead is None:
                    raise  # else it has ended unnoticed, and a new one is tried
            except NotLoggedIn as error:
                if error.status != _UNAUTHORIZED or renewed or not await self.login.renew(connection.refused):
                    raise
                renewed = True
