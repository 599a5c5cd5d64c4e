"""Lists and then watches one kind, for ever, and keeps its objects in the store.

The first list comes page by page, so that a table fills meanwhile. A broken watch resumes at its last resourceVersion;
if the server has forgotten that (410), all objects are listed again and replaced at once, so none vanishes in between.
A silent connection is noticed, because the server sends a bookmark about every minute. A kind that is not served is
retried, and one that may not be listed in all namespaces is followed in one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from console.detached_tasks import start_task
from console.errors import ConsoleError, Gone, NotAllowed, NotFound, Refused, Unreachable, Unreadable
from console.kube.api_errors import StatusSchema, error_from_status
from console.kube.backoff import DEFAULT_BACKOFF, Backoff, Retries
from console.kube.http import HttpRequest
from console.kube.snapshot import WatchState
from console.kube.watched_kinds import JOBSET_GROUP, KUEUE_GROUP, Kind, WatchEvent, kind_named, peek_list_meta
from console.work_slices import SLICE_SECONDS, WorkSlices, key_expected

if TYPE_CHECKING:
    from console.kube.client import ApiDiscovery, Client, Connection
    from console.kube.http import HttpResponse
    from console.kube.snapshot import KueueVersion, Store
    from console.kube.watched_kinds import Key, KindReader, ListPage

Selection = Mapping[str, str] | Callable[["Client"], Awaitable[Mapping[str, str]]]
"""Field and label selectors of a list, or a function that finds them once the first page shows a long list."""

M = TypeVar("M")

LIST_PAGE_OBJECTS = 500
SELECTED_PAGE_OBJECTS = 2000
"""Objects per page of a list with selectors: a command shows nothing before the last page."""
FIRST_PAGE_OBJECTS = 100
"""Objects on the first page of a list that may turn out to be long: that page is then dropped."""
LONG_LIST_OBJECTS = 1400  # objects beyond the first page from which on it is asked which of them are needed
TURNS_UNTIL_SENT = 3  # of the event loop, in which a request leaves
WATCH_TIMEOUT = 90.0  # seconds without a line after which a watch is taken for dead; bookmarks come about every 60
WATCH_SECONDS = (240, 480)  # least and most seconds after which the server is asked to end a watch


class FirstListPage(Struct, Generic[M], frozen=True):
    objects: Mapping[Key, M]


class Listed(Struct, Generic[M], frozen=True):
    """The change that ends a list: known objects that are not in it are deleted."""

    objects: Mapping[Key, M]
    unreadable: Mapping[Key, str] = field(default_factory=dict)  # objects that could not be understood, and why


class Changed(Struct, Generic[M], frozen=True):
    key: Key
    object: M


class ObjectUnparsable(Struct, frozen=True):
    key: Key
    why: str


class Removed(Struct, frozen=True):
    key: Key


class Heartbeat(Struct, frozen=True):
    """The sign that the server has sent a line without a change, so the connection works."""


class Disconnected(Struct, frozen=True):
    """The change that the watch broke off and is being retried: the known objects may be out of date."""

    error: ConsoleError
    state: WatchState = WatchState.STALE


Change = FirstListPage[Any] | Listed[Any] | Changed[Any] | ObjectUnparsable | Removed | Heartbeat | Disconnected


class WatchSource(Protocol):
    label: str  # what is listed, and by which server

    async def page(self, token: str) -> bytes: ...

    async def choose_selector(self, first_page: bytes) -> bool:
        """Choose a selector by the first page of a long list; returns whether the list has to be repeated."""

    def watch(self, version: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch from that resourceVersion and yield its lines; once entered, the server has accepted it."""


class _EndedEarly(Unreachable):
    """Raised when a watch ended without an error, but sooner than a server ends one."""


MAX_OBJECTS = 160_000  # of a kind; Kubernetes is made for 150,000 pods, and each fills some 900 bytes here
MAX_LIST_BYTES = 4 << 30  # bytes of a list beyond which it is given up; 150,000 pods have some 10 kB each
MAX_UNCOUNTED_PAGES = 100  # pages of a list without a count, which every server since Kubernetes 1.15 tells
MAX_LIST_GROWTH = 5000  # objects by which a list may be longer than its first page announced
REST_PER_SECOND = 3.0  # seconds of rest after a second of work on changes: they are drawn, too
MAX_BURST_SECONDS = 0.25  # seconds that work on changes may take until it is taken to have no end
MAX_EVENT_BYTES = 4 << 20  # bytes of a watch event, decoded in one step: etcd keeps objects of 1.5 MiB


async def follow_kind(
    source: WatchSource, reader: KindReader[Any, M], backoff: Backoff = DEFAULT_BACKOFF
) -> AsyncGenerator[Change, None]:
    """Yield the changes of one kind for ever; ordinary failures are `Disconnected`, and only closing ends it."""
    version, listed, retries = "", False, Retries(backoff)
    storm: Disconnected | None = None  # what is the matter with a server whose lists and watches work, but do not last
    while True:
        try:
            if not version:
                async with aclosing(_list_pages(source, reader, by_page=not listed)) as pages:
                    async for seen, change in pages:
                        version = seen
                        yield change
                listed = True
                if storm is not None:
                    yield storm
            async with source.watch(version) as lines:
                retries.begin()
                if storm is None:
                    yield Heartbeat()
                async with aclosing(_lines_with_marker(lines, backoff.settled if storm else None)) as texts:
                    async for text in texts:
                        line = reader.read_event(text) if text else WatchEvent("BOOKMARK")
                        change, version, storm = _parse_change(line), line.version or version, None
                        yield change
            if not retries.has_lasted():
                raise _EndedEarly("Could not watch for changes: the server ended the watch within seconds.")
        except ConsoleError as error:
            failures, lasts_not = retries.fail(), isinstance(error, Gone | _EndedEarly)
            # One broken watch is mended before anybody would notice.
            is_shown = failures > 1 or (not lasts_not and (not version or isinstance(error, Refused)))
            version = "" if isinstance(error, Gone) else version
            if is_shown:
                disconnected = Disconnected(error)
                storm = disconnected if lasts_not else None
                yield disconnected
                await asyncio.sleep(backoff.wait(error, failures))


async def _lines_with_marker(lines: AsyncIterator[bytes], settled_seconds: float | None) -> AsyncGenerator[bytes, None]:
    """The lines of a watch; an empty one comes first if there is none within `settled_seconds`."""
    if settled_seconds is not None:
        coming = asyncio.ensure_future(anext(lines, None))
        try:
            if not (await asyncio.wait({coming}, timeout=settled_seconds))[0]:
                yield b""
            if (text := await coming) is not None:
                yield text
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
    async for text in lines:
        yield text


class _ListLimits:
    """Counts the pages, objects and bytes of a list, and decides when it is too long to be real."""

    def __init__(self) -> None:
        self._pages = self._objects = self._bytes = 0
        self._announced: int | None = None

    def add(self, page: ListPage[Any], size: int, token: str) -> str:
        """Count a page of `size` bytes; returns the reason to give the list up, else empty."""
        found = len(page.items)
        self._pages += 1
        self._objects += found
        self._bytes += size
        if self._objects > MAX_OBJECTS or self._bytes > MAX_LIST_BYTES:
            return f"{self._objects:,} objects in {self._bytes >> 20:,} MiB so far"
        if not page.continue_token:
            return ""
        if page.continue_token == token or not found:
            return "a page " + ("is followed by itself" if found else "without objects is followed by another")
        if page.remaining is None:
            why = f"{self._objects:,} objects so far, and not said how many are to come"
            return why if self._pages >= MAX_UNCOUNTED_PAGES else ""
        whole = self._objects + page.remaining
        self._announced = whole if self._announced is None else self._announced
        if whole > MAX_OBJECTS:
            return f"{whole:,} objects are announced, of at most {MAX_OBJECTS:,} that are read"
        many = whole > self._announced + MAX_LIST_GROWTH
        return f"{self._announced:,} objects were announced, and {whole:,} by now" if many else ""


async def _list_pages(
    source: WatchSource, reader: KindReader[Any, M], *, by_page: bool
) -> AsyncGenerator[tuple[str, Change], None]:
    """Yield (resourceVersion, change) for the whole list, fetching ahead. Raises Unreadable if it does not end."""
    everything: dict[Key, M] = {}
    unreadable: dict[Key, str] = {}
    length, slices = _ListLimits(), WorkSlices()
    token = version = ""
    fetching: asyncio.Task[bytes] | None = asyncio.ensure_future(source.page(""))
    try:
        while fetching:
            body = await fetching
            if not version and await source.choose_selector(body):
                fetching = asyncio.ensure_future(source.page(""))
                yield "", FirstListPage({})  # the server has answered
                continue
            ahead = peek_list_meta(body).next
            fetching = asyncio.ensure_future(source.page(ahead)) if ahead else None
            for _ in range(TURNS_UNTIL_SENT if ahead else 0):
                await asyncio.sleep(0)
            slices.begin()
            page = reader.read_page(body)
            if why := length.add(page, len(body), token):
                raise Unreadable(f"The list of {source.label} does not end: {why}.")
            del body
            token, version = page.continue_token, page.version
            if token != ahead:
                if fetching:
                    fetching.cancel()
                fetching = asyncio.ensure_future(source.page(token)) if token else None
            left = iter(page.items)
            while length_hint(left):
                made, odd = reader.build_models(left, SLICE_SECONDS)
                everything.update(made)
                unreadable.update(odd)
                if by_page and (page.continue_token or length_hint(left)):
                    yield "", FirstListPage(made)
                await (slices.pause() if key_expected() else asyncio.sleep(0))
            del page
    finally:
        if fetching:
            fetching.cancel()
    yield version, Listed(everything, unreadable)


def _parse_change(line: WatchEvent[Any]) -> Change:
    """Convert a watch event to a change; raises Gone, Unreachable and other errors for an event of type ERROR."""
    if line.type == "ERROR":
        status = line.status or StatusSchema()
        restored = "resource version" in (message := (status.message or "").lower()) and "large" in message
        if restored or status.reason == "StoreReadError":  # by a backup; or what it could not read is deleted
            raise Gone(status.message or "")
        raise error_from_status(status.code or 500, status, action="watch for changes")
    if line.type == "DELETED":
        return Removed(line.key)
    if line.unreadable:
        return ObjectUnparsable(line.key, line.unreadable)
    return Changed(line.key, line.model) if line.model is not None else Heartbeat()


class HttpSource:
    """Lists and watches one collection of the API server over HTTP."""

    def __init__(
        self, client: Client, path: str, label: str, *, silence: float = WATCH_TIMEOUT, query: Selection | None = None
    ) -> None:
        self._client = client
        self._path = path
        self._description = label
        self.label = f"{label} of the API server {client.login.server}"
        self._silence_seconds = silence
        self._query = {} if callable(query) else query or {}
        self._find_selector = query if callable(query) else None

    async def page(self, token: str) -> bytes:
        limit = SELECTED_PAGE_OBJECTS if self._query else LIST_PAGE_OBJECTS
        limit = FIRST_PAGE_OBJECTS if self._find_selector and not token else limit
        params = {"limit": str(limit), **self._query, **({"continue": token} if token else {})}
        return await self._client.request("GET", self._path, action=f"list {self._description}", params=params)

    async def choose_selector(self, first_page: bytes) -> bool:
        if self._find_selector is None or (peek_list_meta(first_page).remaining or 0) <= LONG_LIST_OBJECTS:
            return False
        selects, self._find_selector = self._find_selector, None
        self._query = await selects(self._client)
        return bool(self._query)

    @asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[AsyncIterator[bytes]]:
        lasts = str(random.randint(*WATCH_SECONDS))
        params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": lasts}
        client = self._client
        request = HttpRequest(client.url(self._path, {**self._query, **params}), self._silence_seconds)
        try:
            async with (
                client.stream(request, f"watch {self._description}") as answer,
                aclosing(_iter_lines(answer)) as lines,
            ):
                yield lines
        except Unreachable as error:
            if "resource version" in error.message.lower() and "large" in error.message.lower():
                raise Gone(error.message) from error
            raise


async def _iter_lines(answer: HttpResponse) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a watch, with pauses after key presses and in long bursts, so that the screen is drawn."""
    slices = WorkSlices(pause_factor=REST_PER_SECOND, burst_seconds=MAX_BURST_SECONDS)

    async def arrived() -> AsyncIterator[bytes]:
        async for chunk in answer.iter_chunks():
            await answer.wait_for_keypress_pause()
            slices.begin()
            yield chunk

    async with aclosing(_split_lines(arrived())) as lines:
        async for line in lines:
            yield line
            if await slices.pause():  # within a chunk too: it may hold thousands of changes
                await answer.wait_for_keypress_pause()
                slices.begin()


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield whole lines of any length. Raises Unreachable if the last one has no line end."""
    rest: list[bytes] = []
    length = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        length = len(others[-1]) if others else length + len(first)
        if length > MAX_EVENT_BYTES:
            why = f"Could not watch for changes: a line of the watch is longer than {MAX_EVENT_BYTES >> 20} MiB."
            raise Unreachable(why)
        for other in others:
            line = b"".join(rest)
            rest = [other]
            if line:
                yield line
    if any(rest):
        raise Unreachable("Could not watch for changes: the watch broke off in the middle of a line.")


_OPERATOR_NAMES = {JOBSET_GROUP: "JobSet", KUEUE_GROUP: "Kueue"}


class Served(Struct, frozen=True):
    """The change to another API version, from which the next changes come; `note` names the fields missing in it."""

    version: str  # group and version, such as "kueue.x-k8s.io/v1beta2"
    note: str = ""


async def watch_kind(
    client: Client,
    discovery: ApiDiscovery,
    kind: Kind,
    namespace: str,
    query: Selection | None = None,
    backoff: Backoff = DEFAULT_BACKOFF,
) -> AsyncGenerator[Change | Served, None]:
    """Yield the changes of one kind (those that `query` selects) for ever; in `namespace` if not all may be listed."""
    retries, where = Retries(backoff), ""
    while True:
        try:
            version = await discovery.version(kind)
        except ConsoleError as error:
            yield Disconnected(error, _watch_state_of(error))
            await asyncio.sleep(backoff.wait(error, retries.fail()))
            continue
        if not version:
            yield Disconnected(_not_served_error(kind), WatchState.ABSENT)
            await asyncio.sleep(backoff.refused_seconds)
            discovery.clear_cache()
            continue
        group = f"{kind.group}/{version}" if kind.group else version
        yield Served(group, f"only namespace {where}: listing {kind.plural} everywhere is not allowed" if where else "")
        source = HttpSource(client, kind.path(version, where), kind.plural, query=query)
        retries.begin()
        async with aclosing(follow_kind(source, kind.reader, backoff)) as changes:
            async for change in changes:
                if isinstance(change, Disconnected):
                    if isinstance(change.error, NotAllowed) and kind.namespaced and not where:
                        where = namespace
                        break
                    if isinstance(change.error, NotFound):
                        discovery.clear_cache()
                        yield Disconnected(_not_served_error(kind), WatchState.ABSENT)
                        await asyncio.sleep(backoff.pause(retries.fail(), backoff.refused_seconds))
                        break
                    change = Disconnected(change.error, _watch_state_of(change.error))
                yield change


async def store_kind(
    store: Store, connection: Connection, plural: str, namespace: str, query: Selection | None, goes_on: asyncio.Event
) -> None:
    """Keep the store's objects of a kind equal to the server's; watch them only once `goes_on` is set."""
    kind, catalogue = kind_named(plural), connection.discovery
    asking: asyncio.Task[KueueVersion] | None = None
    async with aclosing(watch_kind(connection.client, catalogue, kind, namespace, query)) as changes:
        async for change in changes:
            if plural == "clusterqueues" and isinstance(change, Served):
                asking = start_task(catalogue.kueue_version(), "kueue:version")
            elif asking is not None and not isinstance(change, Disconnected):
                store.kueue_version, asking = await asking, None
            _store_change(store, plural, change)
            if store.object_count(plural) > MAX_OBJECTS:
                message = f"The API server's watch of {plural} does not end: {MAX_OBJECTS:,} objects so far."
                store.mark_lost(plural, WatchState.STALE, Unreadable(message, "ctrl+r lists them anew."))
                return
            if isinstance(change, Listed):
                await goes_on.wait()


def _store_change(store: Store, plural: str, change: Change | Served) -> None:
    match change:
        case Changed(key, thing):
            store.set_object(plural, key, thing)
        case Removed(key):
            store.remove(plural, key)
        case Heartbeat():
            store.mark_alive(plural)
        case FirstListPage(objects):
            store.add(plural, objects)
        case Listed(objects, unparsable):
            store.replace(plural, objects, unparsable)
        case ObjectUnparsable(key, why):
            store.mark_unparsable(plural, key, why)
        case Served(version, note):
            store.set_version(plural, version, note)
        case Disconnected(error, state):
            store.mark_lost(plural, state, error)


def _watch_state_of(error: ConsoleError) -> WatchState:
    return WatchState.FORBIDDEN if isinstance(error, NotAllowed) else WatchState.STALE


def _not_served_error(kind: Kind) -> NotFound:
    operator = _OPERATOR_NAMES.get(kind.group, kind.group)
    words = f"This cluster does not serve {kind.plural}: {operator} is not installed, or an older version of it."
    return NotFound(words, f"Install {operator}, or work without it.", status=404)
