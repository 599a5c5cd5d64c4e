"""Lists and their pages, tables, versions, compression, and refusals."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSServerHandshakeError

from practice.api.injected_responses import InjectedResponse
from practice.objects import resources as kinds
from tests.contract.client import MERGE_PATCH
from tests.practice.api_client import MAPS, PODS, QUEUES, ServedApi, config_map, serving


async def fill(api: ServedApi, count: int) -> None:
    for number in range(count):
        await api.post(MAPS, config_map(f"m{number}", labels={"odd": str(number % 2)}))


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_a_page_whose_moment_is_over_is_gone_but_may_be_read_on(api: ServedApi) -> None:
    await fill(api, 3)
    token = (await api.get(MAPS, limit=1)).body["metadata"]["continue"]
    api.server.expire_watches()
    gone = await api.get(MAPS, limit=1, **{"continue": token})
    assert (gone.status, gone.body["reason"]) == (410, "Expired")
    rest = await api.get(MAPS, **{"continue": gone.body["metadata"]["continue"]})
    assert names(rest.body) == ["m1", "m2"]


async def test_selected_pages_do_not_count(api: ServedApi) -> None:
    await fill(api, 5)
    first = (await api.get(MAPS, limit=1, labelSelector="odd=1")).body
    assert names(first) == ["m1"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    last = (await api.get(MAPS, limit=1, labelSelector="odd=1", **{"continue": token})).body
    assert (names(last), "continue" in last["metadata"]) == (["m3"], False)


async def test_a_version_from_the_future_is_not_there_yet(api: ServedApi) -> None:
    answer = await api.get(MAPS, resourceVersion="999999")
    assert (answer.status, answer.body["reason"]) == (504, "Timeout")


async def test_tables(api: ServedApi) -> None:
    api.http.headers["Accept"] = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = (await api.get(PODS)).body
    headings = [column["name"] for column in table["columnDefinitions"]]
    shown = dict(zip(headings, table["rows"][0]["cells"], strict=True))
    assert (shown["Name"], shown["Ready"], shown["Status"], shown["Node"]) == ("run", "2/2", "Running", "node")
    async with api.watch(PODS) as events:
        event = await anext(events)
    assert event["object"]["rows"][0]["cells"][0] == "run"


async def test_both_versions_of_kueue(api: ServedApi) -> None:
    old = "/apis/kueue.x-k8s.io/v1beta1"
    spec = {"cohort": "c", "admissionChecks": ["check"], "flavorFungibility": {"whenCanBorrow": "Borrow"}}
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec}
    await api.post(f"{old}/clusterqueues", body)
    new = (await api.get(f"{QUEUES}/q")).body["spec"]
    assert new["cohortName"] == "c"
    assert new["admissionChecksStrategy"] == {"admissionChecks": [{"name": "check"}]}
    assert new["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch"}
    assert (await api.get(f"{old}/clusterqueues/q")).body["spec"]["cohort"] == "c"


async def test_topology_assignments_in_both_versions(api: ServedApi) -> None:
    level = {"individual": {"prefix": "node-", "roots": ["1", "2"]}}
    part = {"domainCount": 2, "valuesPerLevel": [level], "podCounts": {"universal": 1}}
    assignment = {"name": "main", "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": [part]}}
    status = {"admission": {"clusterQueue": "q", "podSetAssignments": [assignment]}}
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
    workload = {"metadata": {"name": "w"}, "spec": {"priorityClassRef": reference}, "status": status}
    api.storage.create(kinds.WORKLOADS, workload, keep_status=True)
    seen = (await api.get("/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads/w")).body
    podset = seen["status"]["admission"]["podSetAssignments"][0]
    domains = [{"values": ["node-1"], "count": 1}, {"values": ["node-2"], "count": 1}]
    assert podset["topologyAssignment"] == {"levels": ["kubernetes.io/hostname"], "domains": domains}
    source = "scheduling.k8s.io/priorityclass"
    assert seen["spec"] == {"priorityClassName": "high", "priorityClassSource": source, "queueName": ""}


async def test_large_answers_are_compressed_for_who_asks(api: ServedApi) -> None:
    await api.post(MAPS, config_map("big", {"x": "y" * 200_000}))
    asked = await api.get(MAPS)
    assert asked.headers["Content-Encoding"] == "gzip"
    assert len(json.dumps(asked.body)) > 200_000
    api.http.headers["Accept-Encoding"] = "identity"
    assert "Content-Encoding" not in (await api.get(MAPS)).headers


LISTS = (
    *(f"/api/v1/{each}" for each in ("namespaces", "nodes", "pods", "services", "secrets", "configmaps", "events")),
    *(f"/api/v1/namespaces/default/{each}" for each in ("pods", "secrets", "persistentvolumeclaims")),
    *(f"/apis/batch/v1/{each}" for each in ("jobs", "namespaces/default/jobs")),
    *(f"/apis/jobset.x-k8s.io/v1alpha2/{each}" for each in ("jobsets", "namespaces/default/jobsets")),
    *(f"/apis/kueue.x-k8s.io/v1beta2/{each}" for each in ("clusterqueues", "localqueues", "workloads", "topologies")),
)
SINGLE = (f"{PODS}/run", f"{PODS}/run/log?container=main")
UPGRADES = tuple(
    f"{PODS}/run/{each}"
    for each in (
        "exec?container=main&command=echo&command=x&stdout=true",
        "exec?container=side&command=cat&stdin=true&stdout=true",
        "attach?container=main&stdout=true",
        "portforward?ports=2222",
    )
)
"""Of a pod that runs: each of them opens for the administrator."""
NOT_LET_IN = {
    "none": ({}, 403),
    "wrong": ({"Authorization": "Bearer wrong"}, 401),
    "basic": ({"Authorization": "Basic YWRtaW46YWRtaW4="}, 401),
    "empty": ({"Authorization": "Bearer "}, 401),
}


@pytest.mark.parametrize("who", [*NOT_LET_IN, "reader", "admin"])
async def test_every_path_asks_who_it_is(tmp_path: Path, who: str) -> None:
    """20 paths x 6, and what would change something by 4 methods."""
    assert len(LISTS + SINGLE) == 20
    readable = ("/pods", "/nodes", "/jobs", "/jobsets", "/events", "/run", "container=main")
    async with serving(tmp_path) as api:
        api.runtime.output.end()
        headers, refused = NOT_LET_IN.get(who, ({}, 0))
        token = {"reader": api.server.reader.token, "admin": api.server.admin.token}.get(who)
        headers = {"Authorization": f"Bearer {token}"} if token else headers
        del api.http.headers["Authorization"]
        api.http.headers.update(headers)
        for path in LISTS + SINGLE:
            wanted = 200 if who == "admin" or (who == "reader" and path.endswith(readable)) else refused or 403
            assert (await api.get(path)).status == wanted, path
        if who == "admin":
            return
        for method, path in (("POST", MAPS), ("PUT", f"{PODS}/run"), ("PATCH", f"{PODS}/run"), ("DELETE", PODS)):
            kind = MERGE_PATCH if method == "PATCH" else "application/json"
            assert (await api.send(method, path, config_map("run"), kind)).status == (refused or 403), method
        assert [each["metadata"]["name"] for each in api.storage.list(kinds.PODS, "default")] == ["run"]
        assert not api.storage.list(kinds.CONFIGMAPS, "default")


@pytest.mark.parametrize("path", UPGRADES)
async def test_no_connection_is_upgraded_for_who_is_not_let_in(path: str, api: ServedApi) -> None:
    protocols = ["v4.channel.k8s.io"]
    async with api.http.ws_connect(path, protocols=protocols):
        pass  # so would the others, if they were let in
    right = api.server.admin.token
    in_protocol = base64.urlsafe_b64encode(right.encode()).decode().rstrip("=")
    tries: list[tuple[Mapping[str, str], str, list[str]]] = [
        *((headers, path, protocols) for headers, _ in NOT_LET_IN.values()),
        ({"Authorization": f"Bearer {api.server.reader.token}"}, path, protocols),
        ({}, f"{path}{'&' if '?' in path else '?'}access_token={right}", protocols),
        ({}, path, [f"base64url.bearer.authorization.k8s.io.{in_protocol}", *protocols]),
    ]
    del api.http.headers["Authorization"]
    for headers, asked, offered in tries:
        with pytest.raises(WSServerHandshakeError) as told:
            await api.http.ws_connect(asked, protocols=offered, headers=headers)
        assert told.value.status in {401, 403}


async def test_a_kubeconfig_is_for_its_owner_only(tmp_path: Path, api: ServedApi) -> None:
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert api.server.admin.token not in repr(api.server.admin)


async def test_injected_faults(api: ServedApi) -> None:
    api.server.faults.append(InjectedResponse(429, "TooManyRequests", path="/pods", times=1, retry_after=3))
    refused = await api.get(PODS)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
    assert (await api.get(PODS)).status == 200
