"""Create, update, patch, apply: what is stored, what is refused, and in which words."""

import json
from typing import Any

import pytest

from tests.contract.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Answer, Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE
from tests.contract.space import Space, container, jobset

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
EXISTS = "operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"
EFFECT = 'effect: Unsupported value: "Nope": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'


def config(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def create(space: Space, body: Object, **query: Any) -> Answer:
    return await space.api.create(space.path(CORE, "configmaps"), body, **query)


async def patch(space: Space, name: str, body: object, kind: str, **query: Any) -> Answer:
    return await space.api.send("PATCH", space.path(CORE, "configmaps", name), body, kind, **query)


async def test_what_the_server_adds(space: Space) -> None:
    answer = await create(space, config("a", key="value"))
    assert answer.status == 201
    metadata = answer.made["metadata"]
    assert {"uid", "resourceVersion", "creationTimestamp"} <= set(metadata)
    assert metadata["namespace"] == space.name
    assert "generation" not in metadata
    assert answer.made["data"] == {"key": "value"}


async def test_generated_names(space: Space) -> None:
    answer = await create(space, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}})
    name = answer.made["metadata"]["name"]
    assert name.startswith("a-")
    assert len(name) == len("a-") + 5


async def test_a_name_is_taken_once(space: Space) -> None:
    await create(space, config("a"))
    assert (await create(space, config("a"))).refused(409, "AlreadyExists") == 'configmaps "a" already exists'


async def test_an_update_of_an_older_version_is_refused(space: Space) -> None:
    first = (await create(space, config("a", n="1"))).made
    path = space.path(CORE, "configmaps", "a")
    second = (await space.api.send("PUT", path, {**first, "data": {"n": "2"}})).made
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    message = (await space.api.send("PUT", path, {**first, "data": {"n": "3"}})).refused(409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert (await space.api.get(path)).made["data"] == {"n": "2"}


async def test_an_update_that_changes_nothing_keeps_the_version(space: Space) -> None:
    first = (await create(space, config("a", n="1"))).made
    again = (await space.api.send("PUT", space.path(CORE, "configmaps", "a"), first)).made
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_merge_patch(space: Space) -> None:
    await create(space, config("a", keep="1", drop="2"))
    changed = (await patch(space, "a", {"data": {"drop": None, "new": "3"}}, MERGE_PATCH)).made
    assert changed["data"] == {"keep": "1", "new": "3"}


async def test_json_patch(space: Space) -> None:
    await create(space, config("a", one="1", two="2"))
    steps = [
        {"op": "test", "path": "/data/one", "value": "1"},
        {"op": "replace", "path": "/data/one", "value": "uno"},
        {"op": "remove", "path": "/data/two"},
        {"op": "add", "path": "/metadata/labels", "value": {"with/slash": "x"}},
        {"op": "add", "path": "/metadata/labels/other~1slash", "value": "y"},
    ]
    changed = (await patch(space, "a", steps, JSON_PATCH)).made
    assert changed["data"] == {"one": "uno"}
    assert changed["metadata"]["labels"] == {"with/slash": "x", "other/slash": "y"}


@pytest.mark.parametrize(
    "step",
    [{"op": "test", "path": "/data/one", "value": "2"}, {"op": "remove", "path": "/data/zzz"}],
    ids=["test", "remove"],
)
async def test_a_json_patch_that_does_not_fit(space: Space, step: Object) -> None:
    await create(space, config("a", one="1"))
    message = (await patch(space, "a", [step], JSON_PATCH)).refused(422, "Invalid")
    assert message == "the server rejected our request due to an error in our request"


async def test_a_strategic_patch_merges_lists_by_name(space: Space) -> None:
    await space.pod("a", containers=[container("main"), container("side")])
    path = space.path(CORE, "pods", "a")
    change = {"spec": {"containers": [{"name": "side", "image": "busybox:2"}]}}
    changed = (await space.api.send("PATCH", path, change, STRATEGIC_PATCH)).made
    assert [(each["name"], each["image"]) for each in changed["spec"]["containers"]] == [
        ("main", "busybox:1"),
        ("side", "busybox:2"),
    ]


async def test_a_merge_patch_replaces_lists(space: Space) -> None:
    made = (
        await create(space, {**config("a"), "metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}})
    ).made
    assert made["metadata"]["finalizers"] == ["x.io/one", "x.io/two"]
    changed = (await patch(space, "a", {"metadata": {"finalizers": []}}, MERGE_PATCH)).made
    assert "finalizers" not in changed["metadata"]


async def test_a_node_is_cordoned_and_let_go(space: Space) -> None:
    node = (await space.api.get(f"{CORE}/nodes", limit=1)).made["items"][0]["metadata"]["name"]
    path = f"{CORE}/nodes/{node}"
    held = (await space.api.send("PATCH", path, {"spec": {"unschedulable": True}}, STRATEGIC_PATCH)).made
    assert held["spec"]["unschedulable"] is True
    freed = (await space.api.send("PATCH", path, {"spec": {"unschedulable": None}}, STRATEGIC_PATCH)).made
    assert "unschedulable" not in freed["spec"]


async def test_generation_counts_changes_of_the_spec_only(space: Space) -> None:
    await space.queue("team", 8)
    path = f"{KUEUE}/clusterqueues/{space.name}-team"
    before = (await space.api.get(path)).made["metadata"]["generation"]
    await space.api.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    assert (await space.api.get(path)).made["metadata"]["generation"] == before
    await space.api.send("PATCH", path, {"spec": {"queueingStrategy": "StrictFIFO"}}, MERGE_PATCH)
    assert (await space.api.get(path)).made["metadata"]["generation"] == before + 1


async def test_status_and_spec_are_written_apart(space: Space) -> None:
    await space.queue("team", 8)
    path = f"{KUEUE}/clusterqueues/{space.name}-team"
    before = (await space.api.get(path)).made
    await space.api.send("PATCH", path, {"status": {"pendingWorkloads": 99}}, MERGE_PATCH)
    assert (await space.api.get(path)).made["status"].get("pendingWorkloads") != 99
    await space.api.send("PATCH", f"{path}/status", {"spec": {"queueingStrategy": "StrictFIFO"}}, MERGE_PATCH)
    assert (await space.api.get(path)).made["spec"] == before["spec"]


async def test_apply_creates_changes_and_removes_what_it_owns(space: Space) -> None:
    first = await patch(space, "a", json.dumps(config("a", x="1", y="2")), APPLY_PATCH, fieldManager="one")
    assert first.status == 201
    assert first.made["metadata"]["managedFields"][0]["manager"] == "one"
    assert first.made["metadata"]["managedFields"][0]["operation"] == "Apply"
    second = await patch(space, "a", json.dumps(config("a", x="9")), APPLY_PATCH, fieldManager="one")
    assert second.status == 200
    assert second.made["data"] == {"x": "9"}


async def test_apply_leaves_what_others_own(space: Space) -> None:
    await patch(space, "a", json.dumps(config("a", x="1")), APPLY_PATCH, fieldManager="one")
    await patch(space, "a", json.dumps(config("a", y="2")), APPLY_PATCH, fieldManager="two")
    answer = await patch(space, "a", json.dumps(config("a", x="1")), APPLY_PATCH, fieldManager="one")
    assert answer.made["data"] == {"x": "1", "y": "2"}
    again = await patch(space, "a", json.dumps(config("a", x="1")), APPLY_PATCH, fieldManager="one")
    assert again.made["metadata"]["resourceVersion"] == answer.made["metadata"]["resourceVersion"]
    await patch(space, "a", json.dumps(config("a", x="1", y="2")), APPLY_PATCH, fieldManager="two")
    left = await patch(space, "a", json.dumps(config("a", z="3")), APPLY_PATCH, fieldManager="one")
    assert left.made["data"] == {"x": "1", "y": "2", "z": "3"}
    gone = await patch(space, "a", json.dumps(config("a", y="2")), APPLY_PATCH, fieldManager="two")
    assert gone.made["data"] == {"y": "2", "z": "3"}


async def test_apply_over_another_owner_is_a_conflict_until_forced(space: Space) -> None:
    await patch(space, "a", json.dumps(config("a", x="1")), APPLY_PATCH, fieldManager="one")
    text = json.dumps(config("a", x="2"))
    answer = await patch(space, "a", text, APPLY_PATCH, fieldManager="two")
    assert answer.refused(409, "Conflict") == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]
    forced = await patch(space, "a", text, APPLY_PATCH, fieldManager="two", force="true")
    assert forced.made["data"] == {"x": "2"}


async def test_a_dry_run_checks_and_stores_nothing(space: Space) -> None:
    assert (await create(space, config("a"), dryRun="All")).status == 201
    assert (await space.api.get(space.path(CORE, "configmaps", "a"))).status == 404
    assert (await create(space, config("Bad_Name"), dryRun="All")).status == 422
    await create(space, config("a"))
    assert (await create(space, config("a"), dryRun="All")).status == 409
    assert (await space.api.delete(space.path(CORE, "configmaps", "a"), dryRun="All")).status == 200
    assert (await space.api.get(space.path(CORE, "configmaps", "a"))).status == 200


MAPS = "configmaps"
BAD_NAME = f'Invalid value: "Bad_Name": {SUBDOMAIN}'
NO_PODS = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
ELSEWHERE = {**config("a"), "metadata": {"name": "a", "namespace": "other"}}
MEDIA = "the body of the request was in an unknown format - accepted media types include: "
WRONG: dict[str, tuple[str, str, object, Object, int, str, str]] = {
    "an update of nothing": ("PUT", "configmaps/zz", config("zz"), {}, 404, "NotFound", 'configmaps "zz" not found'),
    "an update under another name": (
        "PUT", "configmaps/there", config("b"), {}, 400, "BadRequest",
        "the name of the object (b) does not match the name on the URL (there)",
    ),
    "a strategic patch of a custom kind": (
        "PATCH", f"{KUEUE}/clusterqueues/a4", {"metadata": {"labels": {"a": "b"}}}, {"kind": STRATEGIC_PATCH}, 415,
        "UnsupportedMediaType",
        f"{MEDIA}application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    ),
    "an apply without a manager": (
        "PATCH", "configmaps/a", json.dumps(config("a")), {"kind": APPLY_PATCH}, 422, "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    ),
    "a bad name": (
        "POST", MAPS, config("Bad_Name"), {}, 422, "Invalid",
        f'ConfigMap "Bad_Name" is invalid: metadata.name: {BAD_NAME}',
    ),
    "no name": (
        "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, {}, 422, "Invalid",
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "a pod without a container": (
        "POST", "pods", NO_PODS, {}, 422, "Invalid", 'Pod "p" is invalid: spec.containers: Required value',
    ),
    "an unknown field, asked for strictly": (
        "POST", MAPS, {**config("a"), "nope": 1}, {"fieldValidation": "Strict"}, 400, "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "nope"',
    ),
    "a namespace that is not there": (
        "POST", f"{CORE}/namespaces/nope/configmaps", config("a"), {}, 404, "NotFound", 'namespaces "nope" not found',
    ),
    "another namespace than the address has": (
        "POST", MAPS, ELSEWHERE, {}, 400, "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "no JSON": ("POST", MAPS, '{"a', {}, 400, "BadRequest", ""),
    "a body of an unknown type": ("POST", MAPS, "x", {"kind": "text/plain"}, 415, "UnsupportedMediaType", ""),
    "a patch of an unknown type": (
        "PATCH", "configmaps/there", {}, {"kind": "application/json"}, 415, "UnsupportedMediaType", "",
    ),
}  # fmt: skip
"""Method, path (of the namespace, if it is no whole one), body and how it is sent; status, reason, message."""


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_is_refused_in_the_servers_words(space: Space, what: str) -> None:
    method, path, body, how, status, reason, message = WRONG[what]
    await create(space, config("there"))
    answer = await space.api.send(method, path if path[0] == "/" else space.path(CORE, path), body, **how)
    assert answer.refused(status, reason) == message or not message
    if what == "a bad name":
        cause = {"reason": "FieldValueInvalid", "message": BAD_NAME, "field": "metadata.name"}
        assert answer.body["details"]["causes"] == [cause]


async def test_a_job_set_whose_names_grow_too_long_is_refused(space: Space) -> None:
    name = "s" * 60
    job = {"template": {"spec": {"template": {"spec": {"containers": [container("main")], "restartPolicy": "Never"}}}}}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "w", **job}]},
    }
    message = (await space.api.create(space.path(JOBSETS, "jobsets"), body)).refused(422, "Invalid")
    assert message == (
        f'admission webhook "vjobset.kb.io" denied the request: JobSet.jobset.x-k8s.io "{name}" is invalid: '
        f'spec.replicatedJobs[0].name: Invalid value: "{name}-w-0": JobSet name is too long, '
        "job names generated for this JobSet will exceed 63 characters"
    )


async def test_a_quota_of_something_not_covered_is_refused(space: Space) -> None:
    quota = [{"name": "a4", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": f"{space.name}-bad"},
        "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": quota}]},
    }
    message = (await space.api.create(f"{KUEUE}/clusterqueues", body)).refused(403, "Forbidden")
    assert message == (
        'admission webhook "vclusterqueue.kb.io" denied the request: '
        'spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value: "cpu": '
        "must match the name in coveredResources"
    )


async def test_a_topology_that_is_no_label_is_refused(space: Space) -> None:
    body = jobset("a", "team", 1, topology="no label!")
    message = (await space.api.create(space.path(JOBSETS, "jobsets"), body)).refused(403, "Forbidden")
    assert message == (
        'admission webhook "vjobset.kb.io" denied the request: spec.replicatedJobs[0].template.spec.template.metadata.'
        f'annotations[kueue.x-k8s.io/podset-required-topology]: Invalid value: "no label!": {QUALIFIED}'
    )


@pytest.mark.parametrize(
    ("toleration", "problem"),
    [
        ({"key": "no label!", "operator": "Exists"}, f'key: Invalid value: "no label!": {QUALIFIED}'),
        ({"key": "a", "operator": "Exists", "value": "v"}, EXISTS),
        ({"key": "a", "operator": "Exists", "effect": "Nope"}, EFFECT),
    ],
    ids=["key", "value", "effect"],
)
async def test_tolerations_are_checked(space: Space, toleration: Object, problem: str) -> None:
    pod = {"restartPolicy": "Never", "containers": [container("main")], "tolerations": [toleration]}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": pod}}}
    answer = await space.api.create(space.path(BATCH, "jobs"), body, dryRun="All")
    assert answer.refused(422, "Invalid") == f'Job.batch "a" is invalid: spec.template.spec.tolerations[0].{problem}'
