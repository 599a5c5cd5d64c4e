"""Connects to a cluster, keeps its snapshot, and switches contexts; `prepare` imports the network modules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.connection_settings import OWN_NAME, Settings, login_name
from console.detached_tasks import start_task
from console.errors import ConsoleError, NotAllowed, NotFound, Unreachable, read_only_error
from console.kube.objects.meta import short_name
from console.kube.snapshot import ContextName, Fleet, Store, WatchState, complete_until
from console.kube.stream_completeness import SERVER_CLOCK

if TYPE_CHECKING:
    from types import ModuleType

    from console.kube.client import Connection
    from console.kube.kubeconfig import Kubeconfig
    from console.kube.watch import Selection

Selectors = Mapping[str, "Selection | None"]
LIST_SILENCE_TIMEOUT = 7.0  # seconds after which a list of which nothing comes is given up by whoever waits for it
_PERMISSION_CACHE_SECONDS = 60.0  # seconds for which an answer about rights is believed


class WatchedCluster:
    """A connection to one context of the kubeconfig, with the latest snapshot of its cluster."""

    def __init__(
        self,
        settings: Settings,
        kubeconfig: Kubeconfig,
        kinds: Collection[str],
        *,
        is_brief: bool = False,
        selectors: Selectors | None = None,
    ) -> None:
        """`selectors`: by kind, selectors of kinds that are watched in part; None until `set_selector` sets them."""
        self.settings = settings
        self.context = ""
        self.namespace = ""
        self.default_namespace = ""  # the one that a command without -n takes
        self.server_version = ""
        self.kubeconfig = kubeconfig  # contexts that are added to it are not written to a file
        self._kinds = tuple(kinds)
        self._selectors = dict(selectors or {})
        self.started_kinds = tuple(kind for kind in kinds if self._selectors.get(kind, "") is not None)
        self._is_brief = is_brief  # whether kinds are only listed until `follow_event`
        self.follow_event = asyncio.Event()
        if not is_brief:
            self.follow_event.set()
        self._store = Store(self._kinds)
        self.snapshots = self._store.snapshots  # the latest, then new ones at most four times a second, until `close`
        self._connection: Connection | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._permissions: dict[tuple[str, ...], tuple[float, bool]] = {}
        self._own_name = ""
        self.server_answered = asyncio.Event()  # set once the server's version is known
        self.beside: dict[str, Callable[[], Coroutine[None, None, None]]] = {}  # begun anew with each connection
        self.on_left: list[Callable[[], None]] = []  # called when the cluster becomes another one

    @staticmethod
    def prepare() -> ModuleType:
        """Import the network modules ahead of `connect`, as that takes half a second."""
        from console.kube import client

        return client

    @property
    def read_only(self) -> bool:
        return self.settings.read_only

    @property
    def unverified(self) -> bool:
        """Whether the API server's certificate is not verified (insecure-skip-tls-verify)."""
        return self._connection is not None and self._connection.client.login.unverified

    @property
    def server(self) -> str:
        return self.current_connection.target.cluster.server

    @property
    def practice(self) -> bool:
        return self.settings.practice

    @property
    def fleet(self) -> Fleet:
        return self._store.fleet

    def namespace_if_not_default(self, namespace: str) -> str:
        """The namespace if commands have to name it; empty for the default namespace."""
        return "" if namespace == self.default_namespace else namespace

    async def connect(self, context: str, namespace: str) -> None:
        """Watch this context instead, without waiting for the server. Raises BadKubeconfig."""
        target = self.kubeconfig.target(context)
        await self._disconnect()
        self._connection = self.prepare().Connection(target)
        self.context, self.namespace, self.server_version = target.context, namespace or target.namespace, ""
        self.default_namespace = target.namespace
        self.server_answered.clear()
        if self._is_brief:
            self._connection.client.expect_little()
        else:
            self._start_task("greeting", self._read_server_and_user())
        for kind in self.started_kinds:
            self._start_task(kind, self._watch_kind(kind))
        self._start_task("keep-alive", self._connection.client.keep_alive())
        for name, work in self.beside.items():
            self._start_task(name, work())

    async def set_selector(self, plural: str, query: Selection) -> None:
        """Set the selector that a kind still waits for, and start its list."""
        self._selectors[plural] = query
        self._start_task(plural, self._watch_kind(plural))
        await self.wait_until_listed(plural)

    async def _disconnect(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection:
            await self._connection.close()
            self._connection = None

    def _start_task(self, name: str, coroutine: Coroutine[None, None, None]) -> None:
        task = self._tasks[name] = start_task(coroutine, f"session:{name}")
        task.add_done_callback(self._on_task_ended)

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        """Report a watch task that died of a bug to everyone who reads snapshots."""
        error = None if task.cancelled() else task.exception()
        if error:
            self._store.fail(error)

    @property
    def current_connection(self) -> Connection:
        """The connection now; do not store it: a context switch replaces it. Raises Unreachable once closed."""
        if self._connection is None:
            raise Unreachable("The session is closed.")
        return self._connection

    @property
    def slow_plugin(self) -> ConsoleError | None:
        """The error that a credential plugin has not answered for a while; None if none is late."""
        from console.kube.login import PLUGIN_SLOW_SECONDS

        return self.current_connection.client.login.unanswered_error(PLUGIN_SLOW_SECONDS)

    def pause_for_keypress(self) -> None:
        """Pause data from the cluster for a moment, so that the pressed key is handled first."""
        if self._connection is not None:
            self._connection.client.pause_for_keypress()

    def connection_for_change(self, action: str) -> Connection:
        """The connection, for an action that changes the cluster; NotAllowed, naming `action`, in read-only mode."""
        if self.read_only:
            raise read_only_error(action)
        return self.current_connection

    async def is_allowed(
        self, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        """Whether the account may use the verb on the resource, in any namespace and on any name by default; cached."""
        from console.kube import actions

        asked = (verb, resource, group, namespace, name, subresource)
        until, answer = self._permissions.get(asked, (0.0, False))
        if time.monotonic() >= until:
            answer = await actions.is_allowed(self.current_connection.client, *asked)
            self._permissions[asked] = (time.monotonic() + _PERMISSION_CACHE_SECONDS, answer)
        return answer

    async def require_namespace(self, name: str) -> None:
        """Raise NotFound if the cluster has no such namespace; returns normally if that may not be checked."""
        try:
            await self.current_connection.client.request(
                "GET", f"/api/v1/namespaces/{quote(name, safe='')}", action=f"read namespace {name}"
            )
        except NotFound as error:
            known = sorted({each for each, _ in self.fleet.jobsets})
            hint = (
                f"There are jobs in {', '.join(known[:6])}." if known else "a4 jobs -A lists those of all namespaces."
            )
            raise NotFound(f"There is no namespace {name}.", hint, status=404) from error
        except NotAllowed:
            return

    async def _read_server_and_user(self) -> None:
        from console.kube.backoff import DEFAULT_BACKOFF

        failures = 0
        while not self.server_version:
            try:
                self.server_version = await self.current_connection.discovery.server_version()
            except ConsoleError as error:
                # The links say why; the version is only decoration.
                failures += 1
                await asyncio.sleep(DEFAULT_BACKOFF.wait(error, failures))
        await self.me()
        self.server_answered.set()

    async def me(self) -> str:
        """The person's name as owner of launches: the login's e-mail address, else the user name."""
        if not self._own_name:
            from console.kube import actions

            name = ""
            with suppress(ConsoleError):  # the name of the user here is good enough, and the links say what is wrong
                name = await actions.whoami(self.current_connection.client)
            self._own_name = name if "@" in name else login_name()
        return self._own_name

    def format_owner(self, owner: str) -> str:
        """The owner's name for display: "you" for this person, else the name."""
        return OWN_NAME if owner and owner == short_name(self._own_name) else owner

    def _watch_kind(self, plural: str) -> Coroutine[None, None, None]:
        from console.kube.watch import store_kind

        connection, query = self.current_connection, self._selectors.get(plural)
        return store_kind(self._store, connection, plural, self.namespace, query, self.follow_event)

    def is_watched(self, plural: str, namespace: str) -> bool:
        return plural in self._kinds and (plural not in self._store.in_one_namespace or namespace == self.namespace)

    def contexts(self) -> tuple[ContextName, ...]:
        return self.kubeconfig.context_names(self.context)

    async def switch_context(self, *, context: str | None = None, namespace: str | None = None) -> None:
        """Switch to another context or namespace; BadKubeconfig, without any change, if there is no such context."""
        if context is not None and context != self.context:
            self.kubeconfig.target(context)
            self._permissions.clear()
            self._own_name = ""
            for tell in self.on_left:
                tell()
            await self._disconnect()
            self._store.reset(self._kinds)
            await self.connect(context, namespace or "")
        elif namespace is not None and namespace != self.namespace:
            self.namespace = namespace
            for kind in tuple(self._store.in_one_namespace):
                self._tasks.pop(kind).cancel()
                self._start_task(kind, self._watch_kind(kind))

    async def close(self) -> None:
        self._store.end()
        await self._disconnect()

    async def wait_until_listed(self, *kinds: str, timeout: float = 30, silent: float = LIST_SILENCE_TIMEOUT) -> Fleet:  # noqa: ASYNC109
        """The snapshot once these kinds (or all) are listed. Unreachable after `timeout` s, or `silent` s if silent."""
        wanted, loop, login = kinds or self._kinds, asyncio.get_running_loop(), self.current_connection.client.login
        ends, before = loop.time() + timeout, None
        try:
            async with asyncio.timeout(min(timeout, silent)) as clock, aclosing(self._store.changes()) as changes:
                async for _ in changes:
                    links = {kind: self._store.link(kind) for kind in wanted}
                    for lost in (kind for kind, link in links.items() if link.state is WatchState.STALE):
                        raise self._store.errors[lost]
                    slow = [link for link in links.values() if link.state is WatchState.LISTING]
                    if not slow:
                        break
                    answers = any(self._store.link(kind).state is WatchState.LIVE for kind in self._kinds)
                    if (slow, answers) != before:
                        before = slow, answers
                        quiet = SERVER_CLOCK.now() - max(max(link.since, link.last_seen) for link in slow)
                        left = max(0.0, silent - min(quiet, login.idle_seconds()))
                        clock.reschedule(ends if answers else min(ends, loop.time() + left))
        except TimeoutError as error:
            from console.kube.api_errors import CHECK_NETWORK, unreachable_error

            if login.idle_seconds() < silent:  # the server was not asked while a credential plugin ran
                while not login.idle_seconds():
                    if (slow_plugin := self.slow_plugin) is not None:
                        raise slow_plugin from error
                    await asyncio.sleep(0.05)
                return await self.wait_until_listed(*kinds, timeout=timeout, silent=silent)
            late = (kind for kind in dict.fromkeys(wanted) if self._store.link(kind).state is WatchState.LISTING)
            silence, slow_list = f"it listed nothing for {silent:g} s", f"after {timeout:g} s it still lists"
            reason = slow_list if loop.time() >= ends else silence
            raise unreachable_error(self.server, f"list {', '.join(late)}", reason, CHECK_NETWORK) from error
        return self.fleet

    def missing_seconds(self, *kinds: str) -> float:
        """The number of seconds up to now for which changes of these kinds may be missing."""
        links = [self.fleet.links[kind] for kind in kinds if kind in self._kinds]
        return SERVER_CLOCK.now() - complete_until(links, self.current_connection.client.arrivals)

    async def cordon(self, node: str, *, is_cordoned: bool = True, reason: str = "") -> None:
        from console.kube import actions

        connection = self.connection_for_change(f"{'cordon' if is_cordoned else 'uncordon'} node {node}")
        await actions.cordon(connection.client, node, is_cordoned=is_cordoned, reason=reason)

    async def delete_pod(self, namespace: str, name: str) -> None:
        from console.kube import actions

        await actions.delete_pod(self.connection_for_change(f"delete pod {name}").client, namespace, name)

    async def manifest(self, kind: str, namespace: str, name: str) -> str:
        """The live object as YAML with Secret data hidden; `kind` may be singular or plural, in any case."""
        from console.kube import actions

        connection = self.current_connection
        return await actions.read_manifest(connection.client, connection.discovery, kind, namespace, name)

    async def exec(
        self,
        namespace: str,
        pod: str,
        argv: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | AsyncIterator[bytes] | None = None,
        on_output: Callable[[int, bytes], None],
    ) -> int:
        """Run a command: its exit code; `on_output` gets (1 stdout, 2 stderr; bytes). Raises as `run`, NotAllowed."""
        from console.kube import exec as executing

        client = self.connection_for_change(f"run a command in pod {pod}").client
        return await executing.run(client, namespace, pod, argv, on_output, container=container, stdin=stdin)

    async def shell(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        argv: Sequence[str] = (),
        tmux: bool = True,
        name: str = "",
    ) -> int:
        """Run a shell on this process's terminal; returns its exit code. `name` sets the window title."""
        from console.kube.exec import shell

        client = self.connection_for_change(f"open a shell in pod {pod}").client
        return await shell(client, namespace, pod, container=container, argv=argv, tmux=tmux, name=name)
