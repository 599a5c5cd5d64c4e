"""The list-then-follow stream, on scripted lists and lines."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec import field

from console.errors import ConsoleError, Gone, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.kube.backoff import Backoff
from console.kube.stream_completeness import ReceiveTimes
from console.kube.watch import (
    Changed,
    Disconnected,
    FirstListPage,
    Heartbeat,
    HttpSource,
    Listed,
    ObjectUnparsable,
    Removed,
    follow_kind,
)
from console.kube.watched_kinds import MAX_PAGE_DECODED_AT_ONCE, peek_list_meta
from tests.apiserver import ApiServer, eventually, first, gathered, named, status
from tests.console.kube.objects.recorded import kind

PODS = kind("pods").reader
SILENCE = b"(nothing more comes)"
BROKEN = Unreachable("the connection was reset")
GONE = Gone("too old resource version", status=410)


class Recorded(Backoff, frozen=True):
    """Waits for nothing, and remembers for what it would have."""

    waits: list[tuple[str, int]] = field(default_factory=list)

    def wait(self, error: ConsoleError, failure_count: int) -> float:
        self.waits.append((type(error).__name__, failure_count))
        return 0.0


def pod(name: str, version: int = 0, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": str(version)}, **fields}


def page(*names: str, version: int, token: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": str(version), "continue": token}, "items": [pod(name) for name in names]}
    ).encode()


def line(verb: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": verb, "object": thing}).encode()


class Script:
    """Answers in order: bytes or an error for a page; for a watch, lines with perhaps an error in or before them."""

    label = "pods of the API server https://here"

    def __init__(self, pages: list[bytes | Exception], watches: list[list[bytes | Exception] | Exception]) -> None:
        self._pages, self._watches = pages, watches
        self.tokens: list[str] = []
        self.versions: list[str] = []

    async def choose_selector(self, first_page: bytes) -> bool:
        return False

    async def page(self, token: str) -> bytes:
        self.tokens.append(token)
        answer = self._pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.versions.append(version)
        answer: list[bytes | Exception] | Exception = self._watches.pop(0) if self._watches else [SILENCE]
        if isinstance(answer, Exception):
            raise answer
        yield self._lines(answer)

    @staticmethod
    async def _lines(lines: list[bytes | Exception]) -> AsyncIterator[bytes]:
        for each in lines:
            if each is SILENCE:
                await asyncio.Event().wait()
            if isinstance(each, Exception):
                raise each
            yield each


async def watched(script: Script, count: int, backoff: Backoff | None = None, reader: Any = PODS) -> list[Any]:
    async with aclosing(follow_kind(script, reader, backoff or Recorded())) as changes:
        return await first(count, changes)


def names(change: Any) -> list[str]:
    return sorted(name for _, name in change.objects)


async def test_the_first_list_fills_page_by_page_and_then_lines_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.watch.SLICE_SECONDS", 60.0)  # a busy machine cuts a page in two
    script = Script(
        [page("a", "b", version=5, token="t1"), page("c", version=5)],
        [[line("ADDED", pod("d", 6)), line("MODIFIED", pod("a", 7)), line("DELETED", pod("b", 8))]],
    )
    one, everything, heard, *changes = await watched(script, 6)
    assert isinstance(one, FirstListPage)
    assert names(one) == ["a", "b"]
    assert isinstance(everything, Listed)
    assert names(everything) == ["a", "b", "c"]
    assert isinstance(heard, Heartbeat)
    assert [(type(each), each.key[1]) for each in changes] == [(Changed, "d"), (Changed, "a"), (Removed, "b")]
    assert script.tokens == ["", "t1"]
    assert script.versions == ["5"]


@pytest.mark.parametrize("more", [0, MAX_PAGE_DECODED_AT_ONCE])
async def test_a_list_of_few_objects_that_take_long_is_built_in_slices(more: int) -> None:
    """What takes time is no count of objects; of a page of so many bytes more each object is decoded alone."""
    heavy = {"containers": [{"name": f"c{each}"} for each in range(4000)]}
    items = [pod("p0", kept="x" * more), *(pod(f"p{each}", spec=heavy) for each in range(1, 30))]
    parts = await watched(Script([json.dumps({"items": items}).encode()], []), 2)
    assert [type(each) for each in parts] == [FirstListPage, FirstListPage]
    assert len(parts[0].objects) < 15


async def test_the_next_page_is_asked_for_before_this_one_is_read() -> None:
    script = Script([page("a", version=5, token="t1"), page("b", version=5)], [[SILENCE]])
    asked: list[list[str]] = []

    class Reader:
        build_models = staticmethod(PODS.build_models)

        def read_page(self, body: bytes) -> Any:
            asked.append(list(script.tokens))
            return PODS.read_page(body)

    _, listed, _ = await watched(script, 3, reader=Reader())
    assert asked == [["", "t1"], ["", "t1"]]
    assert names(listed) == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (page("a", version=5, token="t1"), "t1"),
        (page("a", version=5), ""),
        (b'{"items":[{"metadata":{"continue":"x"}}],"metadata":{"continue":"t1"}}', ""),
        (b'{"metadata":{"continue":"t1"}}', ""),
        (b'{"metadata":{"note":"\\"items\\":","continue":"t1"},"items":[]}', "t1"),
        (b'{"metadata":{"continue":"t1"},\n "items": []}', "t1"),
        (b"no list", ""),
    ],
)
def test_the_next_page_is_known_ahead_where_its_token_stands_before_the_items(body: bytes, token: str) -> None:
    assert (peek_list_meta(body).next or "") == token


async def test_a_page_whose_token_stands_behind_its_items_is_followed_all_the_same() -> None:
    late = b'{"items":[' + json.dumps(pod("a")).encode() + b'],"metadata":{"resourceVersion":"5","continue":"t1"}}'
    script = Script([late, page("b", version=5)], [[SILENCE]])
    _, listed, _ = await watched(script, 3)
    assert (script.tokens, names(listed)) == (["", "t1"], ["a", "b"])


@pytest.mark.parametrize(
    "gone", [GONE, [line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})]]
)
async def test_410_lists_again_and_gives_one_replacement_without_a_gap(gone: Any) -> None:
    script = Script(
        [page("a", "b", version=5), page("b", version=90, token="t"), page("c", version=90)],
        [[line("MODIFIED", pod("a", 6))], gone, [line("ADDED", pod("d", 91))]],
    )
    changes_seen = await watched(script, 6 if gone is GONE else 7, Recorded(settled=0.0))
    changes = [each for each in changes_seen if not isinstance(each, Heartbeat)]
    assert [type(each) for each in changes[:4]] == [Listed, Changed, Listed, Changed]
    assert names(changes[2]) == ["b", "c"]
    assert script.versions == ["5", "6", "90"] or script.versions == ["5", "6", "90", "91"]


async def test_a_watch_that_ends_goes_on_where_it_stopped_and_nobody_hears_of_it() -> None:
    script = Script(
        [page("a", version=5)],
        [
            [line("ADDED", pod("b", 6)), line("BOOKMARK", {"metadata": {"resourceVersion": "40"}})],
            [line("ADDED", pod("c", 41))],
        ],
    )
    changes = await watched(script, 6)
    assert script.versions[:2] == ["5", "40"]
    assert not [each for each in changes if isinstance(each, Disconnected)]


async def test_one_break_is_mended_quietly_and_the_second_is_reported() -> None:
    backoff = Recorded()
    script = Script(
        [page("a", version=5)], [[line("ADDED", pod("b", 6)), BROKEN], BROKEN, BROKEN, [line("ADDED", pod("c", 7))]]
    )
    changes = await watched(script, 7, backoff)
    assert [type(each) for each in changes] == [
        Listed,
        Heartbeat,
        Changed,
        Disconnected,
        Disconnected,
        Heartbeat,
        Changed,
    ]
    assert changes[3].error is BROKEN
    assert script.versions[:4] == ["5", "6", "6", "6"]
    assert backoff.waits == [("Unreachable", 2), ("Unreachable", 3)]


async def test_a_list_that_fails_is_reported_at_once_and_tried_again() -> None:
    backoff = Recorded()
    script = Script([BROKEN, BROKEN, page("a", version=5)], [])
    changes = await watched(script, 4, backoff)
    assert [type(each) for each in changes] == [Disconnected, Disconnected, Listed, Heartbeat]
    assert backoff.waits == [("Unreachable", 1), ("Unreachable", 2)]


async def test_a_list_that_goes_stale_in_the_middle_begins_again() -> None:
    script = Script([page("a", version=5, token="t"), GONE, page("b", version=9)], [])
    changes = await watched(script, 3)
    assert [type(each) for each in changes] == [FirstListPage, Listed, Heartbeat]
    assert names(changes[1]) == ["b"]
    assert script.tokens == ["", "t", ""]


GONE_LINE = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
BOOKMARK = line("BOOKMARK", {"metadata": {"resourceVersion": "40"}})


@pytest.mark.parametrize(
    ("watch", "lists", "why"),
    [
        pytest.param(GONE, 5, "too old", id="410 as the status"),
        pytest.param([GONE_LINE], 5, "too old", id="410 as an event"),
        pytest.param([BOOKMARK, GONE_LINE], 5, "too old", id="410 after a bookmark"),
        pytest.param([], 1, "ended the watch", id="an end at once"),
        pytest.param([BOOKMARK], 1, "ended the watch", id="an end after a bookmark"),
    ],
)
async def test_watches_that_do_not_last_come_less_and_less_often_and_are_named(
    watch: Any, lists: int, why: str
) -> None:
    backoff = Recorded()
    script = Script([page("a", version=each) for each in range(1, 6)], [watch] * 4)
    async with gathered(follow_kind(script, PODS, backoff)) as changes:
        await eventually(lambda: len(script.versions) == 5)
    assert [failures for _, failures in backoff.waits] == [2, 3, 4]
    assert len(seen(changes, Listed)) == lists
    assert isinstance(changes[-1], Disconnected)  # a list alone does not make it live
    assert why in changes[-1].error.message


async def test_after_a_storm_a_list_and_a_watch_that_last_are_live_though_nothing_changes() -> None:
    script = Script([page("a", version=each) for each in range(1, 6)], [[GONE_LINE]] * 4)
    async with gathered(follow_kind(script, PODS, Recorded(settled=0.3))) as changes:
        await eventually(lambda: len(script.versions) == 5)
        assert isinstance(changes[-1], Disconnected)
        await eventually(lambda: isinstance(changes[-1], Heartbeat))


async def test_410_after_a_watch_that_lasted_costs_no_wait() -> None:
    backoff = Recorded(settled=0.0)
    script = Script([page("a", version=each) for each in range(1, 6)], [[BOOKMARK, GONE_LINE]] * 4)
    changes = await watched(script, 12, backoff)
    assert (backoff.waits, seen(changes, Disconnected)) == ([], [])


def test_lists_that_are_useless_for_ever_come_every_few_seconds_at_most() -> None:
    seconds = [Backoff().wait(GONE, failures) for failures in range(2, 200)]
    assert min(seconds[6:]) >= 15  # of each of eleven kinds: one in a second and a half


@pytest.mark.parametrize(
    "status",
    [
        {"code": 504, "message": "Too large resource version: 90, current: 7"},
        {"code": 500, "reason": "StoreReadError", "message": "corrupt object has been deleted"},
    ],
)
async def test_a_restored_server_lists_again_and_one_that_cannot_say_what_is_gone(status: dict[str, object]) -> None:
    script = Script([page("a", version=90), page("b", version=7)], [[line("ERROR", {"kind": "Status", **status})]])
    changes = await watched(script, 4)
    assert [type(each) for each in changes] == [Listed, Heartbeat, Listed, Heartbeat]


async def test_an_object_that_turns_to_nonsense_is_marked_unparsable() -> None:
    script = Script([page("a", version=5)], [[line("MODIFIED", pod("a", 6, status=[])), line("MODIFIED", pod("a", 7))]])
    changes = await watched(script, 4)
    assert isinstance(changes[2], ObjectUnparsable)
    assert changes[2].key == ("n", "a")
    assert isinstance(changes[3], Changed)


async def test_a_line_of_nonsense_costs_a_reconnection_and_no_object() -> None:
    script = Script(
        [page("a", version=5)], [[line("ADDED", pod("b", 6)), b'{"type":"ADD'], [line("ADDED", pod("c", 7))]]
    )
    changes = await watched(script, 5)
    assert [each.key[1] for each in changes if isinstance(each, Changed)] == ["b", "c"]
    assert script.versions[:2] == ["5", "6"]


@pytest.mark.parametrize(
    ("error", "least", "most"),
    [
        (NotAllowed("no", status=403), 60, 60),
        (NotFound("no", status=404), 60, 60),
        (NotLoggedIn("no", status=401), 15, 15),
        (Refused("busy", status=429, retry_after=7), 7, 8.75),
        (Unreachable("down"), 0.25, 0.5),
    ],
)
def test_how_long_to_wait(error: ConsoleError, least: float, most: float) -> None:
    waits = [Backoff().wait(error, 1) for _ in range(50)]
    assert least <= min(waits) <= max(waits) <= most


def test_waits_grow_but_not_beyond_bounds() -> None:
    backoff = Backoff()
    assert max(backoff.wait(BROKEN, 1000) for _ in range(50)) <= backoff.max_seconds
    assert min(backoff.wait(BROKEN, 5) for _ in range(50)) > max(backoff.wait(BROKEN, 1) for _ in range(50))


def test_a_stream_is_complete_until_a_pause_of_the_server_that_it_has_brought_nothing_since() -> None:
    arrivals = ReceiveTimes()
    arrivals.last_at, arrivals.pause = 130.0, (50.0, 100.0)
    assert [arrivals.complete_until(received) for received in (10.0, 50.0, 100.0, 120.0)] == [50.0, 50.0, 130.0, 130.0]


# over HTTP

PATH = "/api/v1/pods"


@asynccontextmanager
async def following(server: ApiServer, silence: float = 60.0) -> AsyncIterator[list[Any]]:
    """Changes of the pods as they come, without those that only say that the server is there."""
    async with (
        server.client() as client,
        gathered(follow_kind(HttpSource(client, PATH, "pods", silence=silence), PODS, Backoff(settled=0.0))) as changes,
    ):
        yield changes


def seen(changes: list[Any], kind_: type) -> list[Any]:
    return [each for each in changes if isinstance(each, kind_)]


async def test_pages_and_lines_over_http(server: ApiServer) -> None:
    server.page_size = 2
    for name in "abcde":
        server.put(PATH, named(name))
    async with following(server) as changes:
        await eventually(lambda: server.watched(PATH))
        # a page comes in pieces where building it takes long
        assert [name for each in seen(changes, FirstListPage) for name in names(each)] == list("abcd")
        assert [names(each) for each in seen(changes, Listed)] == [list("abcde")]
        server.put(PATH, named("f"))
        await eventually(lambda: seen(changes, Changed))
        assert changes[-1].key == ("default", "f")
    (asked,) = server.asked(PATH, watch="1")
    assert asked.query["allowWatchBookmarks"] == "true"
    assert 240 <= int(asked.query["timeoutSeconds"]) <= 480
    assert server.asked(PATH, limit="500")


async def test_a_line_cut_off_costs_nothing(server: ApiServer) -> None:
    async with following(server) as changes:
        await eventually(lambda: server.watched(PATH))
        server.raw(PATH, b'{"type":"ADDED","object":{"metadata":{"name":"half"')
        server.hang_up(PATH)
        server.put(PATH, named("whole"))
        await eventually(lambda: seen(changes, Changed))
        assert [each.key[1] for each in seen(changes, Changed)] == ["whole"]
        assert len(seen(changes, Listed)) == 1
        assert not seen(changes, Disconnected)


async def test_a_silent_connection_is_noticed(server: ApiServer) -> None:
    async with following(server, silence=0.1) as changes:
        await eventually(lambda: len(server.asked(PATH, watch="1")) >= 2)
        assert len(seen(changes, Listed)) == 1
        assert not seen(changes, Disconnected)


@pytest.mark.slow(reason="starts servers and waits until the watch comes back")
async def test_410_over_http(server: ApiServer) -> None:
    async with following(server) as changes:
        server.put(PATH, named("a"))
        await eventually(lambda: server.watched(PATH))
        server.refuse[PATH] = [status(410, "too old resource version: 1 (9)", reason="Expired")]
        server.hang_up(PATH)
        await eventually(lambda: len(seen(changes, Listed)) == 2)
        assert names(seen(changes, Listed)[1]) == ["a"]
        assert not seen(changes, Removed)
        assert not seen(changes, Disconnected)
