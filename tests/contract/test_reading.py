"""Get and list: pages, selectors, and the words for what cannot be read."""

from typing import Any

import pytest

from tests.contract.client import Api, Object
from tests.contract.cluster import CORE, JOBSETS
from tests.contract.space import Space

NAMES = ["five", "four", "one", "three", "two"]


async def fill(space: Space) -> None:
    """Five config maps; `size` is odd or even, one has no label."""
    for name in NAMES:
        labels = {"size": "odd" if name in ("one", "three", "five") else "even"} if name != "four" else {}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        assert (await space.api.create(space.path(CORE, "configmaps"), body)).status == 201


async def names(space: Space, **query: Any) -> list[str]:
    """Of the config maps, without the one that every namespace gets."""
    items = (await space.api.get(space.path(CORE, "configmaps"), **query)).made["items"]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]


async def test_a_list_is_sorted_and_its_items_have_no_kind(space: Space) -> None:
    await fill(space)
    listed = (await space.api.get(space.path(CORE, "configmaps"))).made
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert listed["metadata"]["resourceVersion"].isdecimal()
    assert await names(space) == NAMES
    assert not any("kind" in item for item in listed["items"])


async def test_items_of_custom_kinds_name_their_kind(space: Space) -> None:
    await space.queue("team", 8)
    await space.jobset("one", "team", 1)
    await space.pods("one", 1)
    listed = (await space.api.get(space.path(JOBSETS, "jobsets"))).made
    assert (listed["kind"], listed["apiVersion"]) == ("JobSetList", "jobset.x-k8s.io/v1alpha2")
    assert [item["kind"] for item in listed["items"]] == ["JobSet"]


async def test_pages_follow_one_another_at_one_moment(space: Space) -> None:
    await fill(space)
    path, seen, versions = space.path(CORE, "configmaps"), list[str](), set[str]()
    query: Object = {"limit": 2, "labelSelector": "size"}
    first = (await space.api.get(path, limit=2)).made["metadata"]
    assert first["remainingItemCount"] >= 3
    while True:
        page = (await space.api.get(path, **query)).made
        seen += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        assert len(page["items"]) <= 2
        if not (token := page["metadata"].get("continue")):
            break
        query["continue"] = token
        # What is written between two pages belongs to none of them.
        late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"z{len(seen)}", "labels": {"size": "x"}}}
        await space.api.create(path, late)
    assert seen == ["five", "one", "three", "two"]
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("size=odd", ["five", "one", "three"]),
        ("size==even", ["two"]),
        ("size!=odd", ["four", "two"]),
        ("size in (odd, even)", ["five", "one", "three", "two"]),
        ("size notin (odd)", ["four", "two"]),
        ("size", ["five", "one", "three", "two"]),
        ("!size", ["four"]),
        ("size,size!=odd", ["two"]),
    ],
)
async def test_label_selectors(space: Space, selector: str, expected: list[str]) -> None:
    await fill(space)
    assert await names(space, labelSelector=selector) == expected


async def test_selecting_by_name(space: Space) -> None:
    await fill(space)
    assert await names(space, fieldSelector="metadata.name=two") == ["two"]
    found = await names(space, fieldSelector="metadata.name!=two")
    assert found == ["five", "four", "one", "three"]


async def test_selecting_pods_by_node_and_phase(space: Space) -> None:
    pod = await space.pod("here")
    path, node = space.path(CORE, "pods"), pod["spec"]["nodeName"]
    for selector, count in [
        (f"spec.nodeName={node}", 1),
        ("spec.nodeName=elsewhere", 0),
        ("status.phase=Running", 1),
        ("status.phase!=Running", 0),
        (f"spec.nodeName={node},status.phase=Running", 1),
    ]:
        found = (await space.api.get(path, fieldSelector=selector)).made["items"]
        assert len(found) == count, selector


async def test_lists_of_all_namespaces(space: Space) -> None:
    await space.pod("far")
    listed = (await space.api.get(f"{CORE}/pods", fieldSelector=f"metadata.namespace={space.name}")).made
    assert [pod["metadata"]["name"] for pod in listed["items"]] == ["far"]


async def test_a_table_for_people(space: Space) -> None:
    await space.pod("shown")
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = (await space.api.send("GET", space.path(CORE, "pods"), headers=accept)).made
    assert table["kind"] == "Table"
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["shown", "1/1", "Running", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("path", "message", "details"),
    [
        ("api/v1/namespaces/default/configmaps/nope", 'configmaps "nope" not found', {"kind": "configmaps"}),
        ("api/v1/nodes/nope", 'nodes "nope" not found', {"kind": "nodes"}),
        ("api/v1/namespaces/default/pods/nope/log", 'pods "nope" not found', {"kind": "pods"}),
        (
            "apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/nope",
            'jobsets.jobset.x-k8s.io "nope" not found',
            {"kind": "jobsets", "group": "jobset.x-k8s.io"},
        ),
    ],
)
async def test_what_is_not_there(api: Api, path: str, message: str, details: Object) -> None:
    answer = await api.get(f"/{path}")
    assert answer.refused(404, "NotFound") == message
    assert answer.body["details"] == {"name": "nope", **details}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"fieldSelector": "spec.foo=1"}, "field label not supported: spec.foo"),
        ({"labelSelector": "a=(b"}, "unable to parse requirement: found '(', expected: identifier"),
        ({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            {"resourceVersion": "x"},
            "invalid resource version: resourceVersion: Invalid value: "
            '"x": strconv.ParseUint: parsing "x": invalid syntax',
        ),
    ],
    ids=["field", "label", "limit", "version"],
)
async def test_questions_that_make_no_sense(api: Api, query: Object, message: str) -> None:
    assert (await api.get(f"{CORE}/pods", **query)).refused(400, "BadRequest") == message


async def test_a_page_token_that_is_not_one(api: Api) -> None:
    answer = await api.get(f"{CORE}/pods", **{"limit": 1, "continue": "zzz"})
    assert answer.refused(400, "BadRequest").startswith("invalid continue token: continue key is not valid: ")
