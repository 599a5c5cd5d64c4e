"""Create, replace, delete: what is stored, and what is refused in which words."""

from pathlib import Path
from typing import Any

import pytest

from practice.objects import resources as kinds
from tests.contract.client import JSON_PATCH
from tests.practice.api_client import MAPS, PODS, ServedApi, config_map, serving

Object = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
SECRETS = "/api/v1/namespaces/default/secrets"


def pod(container: Object | None = None, **meta: Any) -> Object:
    containers = [{"name": "c", "image": "i", **(container or {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **meta}, "spec": {"containers": containers}}


def jobset(container: Object) -> Object:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}}}
    spec = {"replicatedJobs": [{"name": "w", "template": template}]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}, "spec": spec}


PLACE = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].env[0].value"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (MAPS, {**config_map("a"), "kind": "Secret"}, 400, 'Secret in version "v1" cannot be handled as a ConfigMap'),
        (MAPS, {**config_map("a"), "apiVersion": "v2"}, 400, "the API version in the data (v2) does not match"),
        (MAPS, config_map("a", labels={"x": "a b"}), 422, 'metadata.labels: Invalid value: "a b": a valid label must'),
        (
            PODS,
            pod({"env": [{"name": "X", "value": 1}]}),
            400,
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field '
            "EnvVar.spec.containers.env.value of type string",
        ),
        (
            JOBSETS,
            jobset({"env": [{"name": "X", "value": 1}]}),
            422,
            f'JobSet.jobset.x-k8s.io "j" is invalid: {PLACE}: Invalid value: "integer": {PLACE} in body must be of '
            'type string: "integer"',
        ),
        (PODS, pod({"resources": {"limits": {"cpu": "x"}}}), 400, "quantities must match the regular expression"),
    ],
)
async def test_what_is_refused(path: str, body: Object, status: int, message: str, api: ServedApi) -> None:
    answer = await api.send("POST", path, body)
    assert answer.status == status, answer.body
    assert message in answer.message


async def test_custom_kinds_say_what_they_lack(api: ServedApi) -> None:
    body = jobset({})
    del body["spec"]["replicatedJobs"][0]["name"]
    refused = await api.send("POST", JOBSETS, body)
    assert refused.status == 422
    assert refused.message == 'JobSet.jobset.x-k8s.io "j" is invalid: spec.replicatedJobs[0].name: Required value'
    await api.post(JOBSETS, jobset({}))
    change = [{"op": "remove", "path": "/spec/replicatedJobs/0/name"}]
    assert (await api.send("PATCH", f"{JOBSETS}/j", change, JSON_PATCH)).status == 422


async def test_unknown_fields_are_dropped_with_a_warning_or_refused(api: ServedApi) -> None:
    body = pod({"imag": "x"})
    refused = await api.send("POST", PODS, body, fieldValidation="Strict")
    expected = 'strict decoding error: unknown field "spec.containers[0].imag"'
    assert (refused.status, refused.message.partition("as a Pod: ")[2]) == (400, expected)
    made = await api.send("POST", PODS, body)
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.containers[0].imag\\""'
    assert "imag" not in made.body["spec"]["containers"][0]


async def test_secrets_keep_text_as_data(api: ServedApi) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    made = await api.post(SECRETS, body)
    assert (made["data"], made["type"], "stringData" in made) == ({"k": "dg=="}, "Opaque", False)


async def test_bodies_of_go_clients(tmp_path: Path) -> None:
    """A ConfigMap as protobuf: an envelope of version and kind, then the object."""
    meta = b"\n\x01a"
    raw = b"\n" + bytes([len(meta)]) + meta + b"\x12\x08\n\x03key\x12\x01v"
    head = b"\n\x02v1\x12\tConfigMap"
    body = b"k8s\x00" + b"\n" + bytes([len(head)]) + head + b"\x12" + bytes([len(raw)]) + raw
    async with serving(tmp_path) as api:
        made = await api.send("POST", MAPS, body, "application/vnd.kubernetes.protobuf")
        assert (made.status, made.body["metadata"]["name"], made.body["data"]) == (201, "a", {"key": "v"})
        cut = await api.send("POST", MAPS, body[:-3], "application/vnd.kubernetes.protobuf")
        assert cut.status == 400


async def test_what_may_not_change(api: ServedApi) -> None:
    running = (await api.get(f"{PODS}/run")).body
    running["spec"]["nodeName"] = "other"
    refused = await api.send("PUT", f"{PODS}/run", running)
    assert refused.status == 422
    assert "pod updates may not change fields other than" in refused.message
    fixed = {**config_map("a", {"x": "1"}), "immutable": True}
    await api.post(MAPS, fixed)
    refused = await api.send("PUT", f"{MAPS}/a", {**fixed, "data": {"x": "2"}})
    assert "field is immutable when `immutable` is set" in refused.message


async def test_eviction_begins_a_deletion(api: ServedApi) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "run"}}
    answer = await api.send("POST", f"{PODS}/run/eviction", body)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    pod = api.storage.get(kinds.PODS, "default", "run")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    (told,) = (each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (told["status"], told["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_a_namespace_that_ends_takes_no_more(api: ServedApi) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    ending = await api.send("DELETE", "/api/v1/namespaces/n")
    assert ending.body["status"]["phase"] == "Terminating"
    refused = await api.send("POST", "/api/v1/namespaces/n/configmaps", config_map("a"))
    assert (refused.status, "because it is being terminated" in refused.message) == (403, True)
    missing = await api.send("POST", "/api/v1/namespaces/none/configmaps", config_map("a"))
    assert (missing.status, missing.message) == (404, 'namespaces "none" not found')


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", f"{PODS}/run/status"), ("OPTIONS", PODS), ("PUT", PODS), ("POST", f"{PODS}/run")],
)
async def test_methods_that_do_not_exist(method: str, path: str, api: ServedApi) -> None:
    assert (await api.send(method, path, {})).status == 405
    assert api.storage.find(kinds.PODS, "default", "run") is not None
