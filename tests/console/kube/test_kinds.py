import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from console.errors import Unreadable
from console.kube.watched_kinds import KINDS, Kind
from tests.console.kube.objects.recorded import kind

PODS = kind("pods").reader


def test_a_page_says_where_the_next_is() -> None:
    page = PODS.read_page(
        b'{"metadata":{"resourceVersion":"12","continue":"abc"},"items":[{"metadata":{"name":"a","namespace":"n"}}]}'
    )
    assert (page.continue_token, page.version, len(page.items)) == ("abc", "12", 1)


@pytest.mark.parametrize("body", [b'{"items":null}', b"{}", b'{"metadata":{},"items":[]}'])
def test_an_empty_list(body: bytes) -> None:
    assert PODS.read_page(body).items == []


def test_one_object_of_nonsense_costs_only_itself() -> None:
    items: list[dict[str, Any]] = [
        {"metadata": {"name": f"p{each}", "namespace": "n"}, "status": {"phase": "Running"}} for each in range(5)
    ]
    items[3]["status"] = {"phase": {"oops": 1}}
    page = PODS.read_page(json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode())
    models, odd = PODS.build_models(page.items)
    assert sorted(models) == [("n", f"p{each}") for each in (0, 1, 2, 4)]
    assert list(odd) == [("n", "p3")]
    assert page.version == "9"


def test_an_object_without_a_name_is_reported() -> None:
    models, odd = PODS.build_models(PODS.read_page(b'{"items":[{"metadata":{"namespace":"n"}},{}]}').items)
    assert not models
    assert set(odd) == {("n", ""), ("", "")}


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"items":[', b"\x00\x01", b'{"items":3}'])
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        PODS.read_page(body)


@pytest.mark.parametrize("each", KINDS, ids=lambda each: each.plural)
def test_every_kind_reads_an_object_of_which_everything_is_missing(each: Kind) -> None:
    models, odd = each.reader.build_models(
        each.reader.read_page(
            b'{"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"},"spec":null,"status":null}]}'
        ).items
    )
    assert (set(models), odd) == ({("", "x"), ("", "y")}, {})


def test_watch_lines() -> None:
    added = PODS.read_event(
        b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"5"}}}'
    )
    assert added.model is not None
    assert (added.type, added.key, added.version, added.model.name) == ("ADDED", ("n", "a"), "5", "a")
    deleted = PODS.read_event(
        b'{"type":"DELETED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"6"}}}'
    )
    assert (deleted.key, deleted.version, deleted.model) == (("n", "a"), "6", None)
    bookmark = PODS.read_event(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}')
    assert (bookmark.type, bookmark.version, bookmark.model) == ("BOOKMARK", "7", None)
    error = PODS.read_event(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}')
    assert error.status is not None
    assert (error.status.code, error.status.message) == (410, "too old")


def test_a_changed_object_that_is_nonsense_is_named() -> None:
    line = PODS.read_event(
        b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"5"},"status":7}}'
    )
    assert (line.key, line.version, line.model) == (("n", "a"), "5", None)
    assert "Expected" in line.unreadable


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    for read in (PODS.read_page, PODS.read_event):
        with suppress(Unreadable):
            read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "status", "containers", "conditions", "type", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(KINDS), JSON, JSON)
def test_any_spec_and_status_are_read_or_reported(each: Kind, spec: object, status: object) -> None:
    body = msgspec.json.encode({"items": [{"metadata": {"name": "x"}, "spec": spec, "status": status}]})
    page = each.reader.read_page(body)
    models, odd = each.reader.build_models(page.items)
    assert len(models) + len(odd) == 1
