"""What the storage promises to controllers and watches."""

import pytest

from practice.objects import resources as kinds
from practice.objects.api_error import ApiError
from practice.objects.history import Event
from practice.objects.storage import Storage


def storage() -> Storage:
    made = Storage(now=lambda: 1_000_000.0, seed=1, window=5)
    made.create(kinds.NAMESPACES, {"metadata": {"name": "default"}})
    return made


def pod(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}], **spec}}


def test_a_new_object_gets_its_identity() -> None:
    made = storage().create(kinds.PODS, {**pod("a"), "status": {"phase": "Running"}})
    meta = made["metadata"]
    assert meta["creationTimestamp"] == "1970-01-12T13:46:40Z"
    assert meta["generation"] == 1
    assert made["status"] == {"phase": "Pending"}
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")


def test_a_pod_on_a_node_waits_for_its_kubelet() -> None:
    kept = storage()
    kept.create(kinds.PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=7))
    deleting = kept.delete(kinds.PODS, "default", "a")["metadata"]
    assert (deleting["deletionGracePeriodSeconds"], deleting["deletionTimestamp"]) == (7, "1970-01-12T13:46:47Z")
    kept.remove(kinds.PODS, "default", "a")
    assert kept.find(kinds.PODS, "default", "a") is None


def test_a_pod_on_no_node_goes_at_once() -> None:
    kept = storage()
    kept.create(kinds.PODS, pod("a"))
    kept.delete(kinds.PODS, "default", "a")
    assert kept.find(kinds.PODS, "default", "a") is None


@pytest.mark.parametrize(("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_leaves_its_finalizer(propagation: str, finalizer: str) -> None:
    kept = storage()
    kept.create(kinds.JOBS, {"metadata": {"name": "a"}, "spec": {}})
    kept.delete(kinds.JOBS, "default", "a", propagation=propagation)
    assert kept.get(kinds.JOBS, "default", "a")["metadata"]["finalizers"] == [finalizer]


def test_listeners_hear_in_order_even_of_what_a_listener_writes() -> None:
    kept, heard = storage(), list[tuple[str, str]]()

    def react(event: Event) -> None:
        if event.object["metadata"]["name"] == "a":
            kept.create(kinds.CONFIGMAPS, {"metadata": {"name": "b"}})

    kept.subscribe(react)
    stop = kept.subscribe(lambda event: heard.append((event.type, event.object["metadata"]["name"])))
    kept.create(kinds.CONFIGMAPS, {"metadata": {"name": "a"}})
    stop()
    kept.create(kinds.CONFIGMAPS, {"metadata": {"name": "c"}})
    assert heard == [("ADDED", "a"), ("ADDED", "b")]


def test_the_past_is_kept_as_far_as_the_window() -> None:
    kept = storage()
    since = kept.version
    for name in "abc":
        kept.create(kinds.CONFIGMAPS, {"metadata": {"name": name}})
    assert [event.type for event in kept.events_since(kinds.CONFIGMAPS, since)] == ["ADDED"] * 3
    for name in "defgh":
        kept.create(kinds.CONFIGMAPS, {"metadata": {"name": name}})
    with pytest.raises(ApiError, match="too old resource version") as refused:
        kept.events_since(kinds.CONFIGMAPS, since)
    assert (refused.value.status, refused.value.reason) == (410, "Expired")


def test_compaction_forgets() -> None:
    kept = storage()
    since = kept.version
    kept.create(kinds.CONFIGMAPS, {"metadata": {"name": "a"}})
    kept.compact_history()
    assert kept.events_since(kinds.CONFIGMAPS, kept.version) == []
    with pytest.raises(ApiError):
        kept.events_since(kinds.CONFIGMAPS, since)


def test_stored_objects_do_not_follow_what_was_given() -> None:
    kept = storage()
    given = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    kept.create(kinds.CONFIGMAPS, given)
    given["data"]["x"] = "2"
    assert kept.get(kinds.CONFIGMAPS, "default", "a")["data"] == {"x": "1"}
