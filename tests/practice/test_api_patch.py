"""The dialects of PATCH, and who owns what under server-side apply."""

from typing import Any

import pytest

from practice.objects.api_error import ApiError
from practice.objects.json_patch import json_patch
from practice.objects.strategic_patch import strategic_merge
from tests.contract.client import APPLY_PATCH, MERGE_PATCH, Answer
from tests.practice.api_client import MAPS, PODS, ServedApi, config_map

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "m": {"x/y": 1}}),
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "m": {"x/y": 1}}),
        ([{"op": "remove", "path": "/l/0"}], {"l": [2], "m": {"x/y": 1}}),
        ([{"op": "move", "from": "/m", "path": "/n"}], {"l": [1, 2], "n": {"x/y": 1}}),
        ([{"op": "copy", "from": "/m", "path": "/n"}], {"l": [1, 2], "m": {"x/y": 1}, "n": {"x/y": 1}}),
    ],
)
def test_json_patch(steps: list[Object], expected: Object) -> None:
    assert json_patch({"l": [1, 2], "m": {"x/y": 1}}, steps) == expected


@pytest.mark.parametrize(
    "step",
    [
        {"op": "replace", "path": "/b/c", "value": 1},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_fit(step: Object) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, [step])
    assert refused.value.status == 422


def test_a_strategic_patch_knows_items_by_their_key() -> None:
    spec = {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}], "tolerations": [1]}
    change = {
        "containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "b", "$patch": "delete"}],
        "tolerations": [2],
    }
    merged = strategic_merge({"spec": spec}, {"spec": change})["spec"]
    both = [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]
    assert merged == {"containers": [{"name": "a", "env": both}], "tolerations": [2]}


def test_strategic_directives() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    change = {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
        "spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "x": {"$patch": "replace", "y": 1}},
    }
    merged = strategic_merge(target, change)
    assert merged["metadata"] == {"finalizers": ["b", "c"]}
    assert merged["spec"] == {"containers": [{"name": "b"}, {"name": "a"}], "x": {"y": 1}}
    assert strategic_merge({"v": {"a": 1, "b": 2}}, {"v": {"$retainKeys": ["b"], "b": 3}}) == {"v": {"b": 3}}


async def apply(api: ServedApi, body: Object, manager: str, *, path: str = MAPS, force: str = "false") -> Answer:
    name = body["metadata"]["name"]
    return await api.send("PATCH", f"{path}/{name}", body, APPLY_PATCH, fieldManager=manager, force=force)


def owned(body: Object) -> dict[str, Object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in body["metadata"]["managedFields"]}


async def test_a_conflict_names_the_manager_and_the_field(api: ServedApi) -> None:
    await api.post(f"{MAPS}?fieldManager=editor", config_map("a", {"x": "1"}))
    refused = await apply(api, config_map("a", {"x": "2"}), "one")
    assert refused.status == 409
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.x'
    forced = await apply(api, config_map("a", {"x": "2"}), "one", force="true")
    assert forced.body["data"] == {"x": "2"}
    assert owned(forced.body)["one"] == {"f:data": {"f:x": {}}}
    assert "f:x" not in owned(forced.body).get("editor", {}).get("f:data", {})


async def test_an_update_takes_ownership_of_what_it_changes(api: ServedApi) -> None:
    await apply(api, config_map("a", {"x": "1", "y": "1"}), "one")
    await api.send("PATCH", f"{MAPS}/a", {"data": {"x": "2"}}, MERGE_PATCH, fieldManager="editor")
    refused = await apply(api, config_map("a", {"x": "1", "y": "1"}), "one")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.x'


async def test_applied_containers_merge_by_name(api: ServedApi) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"

    def job(*containers: Object) -> Object:
        spec = {"containers": list(containers), "restartPolicy": "Never"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": {"spec": spec}},
        }

    first = {"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}
    assert (await apply(api, job(first, {"name": "b", "image": "i"}), "one", path=jobs)).status == 201
    changed = await apply(api, job({**first, "env": first["env"][1:]}), "one", path=jobs)
    assert changed.status == 200, changed.body
    containers = changed.body["spec"]["template"]["spec"]["containers"]
    assert containers == [{"name": "a", "image": "i", "env": [{"name": "Y", "value": "2"}]}]


async def test_unknown_fields_cannot_be_applied(api: ServedApi) -> None:
    refused = await apply(api, {**config_map("a"), "nope": 1}, "one")
    assert refused.message.endswith(".nope: field not declared in schema")


async def test_a_stale_version_in_a_patch_is_a_conflict(api: ServedApi) -> None:
    change = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}
    assert (await api.send("PATCH", f"{PODS}/run", change, MERGE_PATCH)).status == 409
