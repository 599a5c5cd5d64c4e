"""What a client learns before it asks for anything: versions, groups, kinds."""

import re

import pytest

from tests.contract.client import Api, Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KINDS = [
    ("/api/v1", "nodes", "Node", False, ["no"]),
    ("/api/v1", "pods", "Pod", True, ["po"]),
    ("/api/v1", "events", "Event", True, ["ev"]),
    ("/api/v1", "secrets", "Secret", True, None),
    ("/apis/batch/v1", "jobs", "Job", True, None),
    ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet", True, None),
    ("/apis/kueue.x-k8s.io/v1beta2", "clusterqueues", "ClusterQueue", False, ["cq"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "localqueues", "LocalQueue", True, ["queue", "queues", "lq"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "workloads", "Workload", True, ["kwl", "kueueworkload", "kueueworkloads"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "resourceflavors", "ResourceFlavor", False, ["flavor", "flavors", "rf"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "topologies", "Topology", False, ["topo"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "cohorts", "Cohort", False, ["co"]),
    ("/apis/kueue.x-k8s.io/v1beta2", "admissionchecks", "AdmissionCheck", False, ["ac"]),
]


async def test_version(api: Api) -> None:
    version = (await api.get("/version")).made
    assert version["major"] == "1"
    assert re.fullmatch(r"v1\.\d+\.\d+(-gke\.\d+)?", version["gitVersion"])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_core_versions(api: Api) -> None:
    versions = (await api.get("/api")).made
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])


async def test_groups_with_their_preferred_versions(api: Api) -> None:
    groups = (await api.get("/apis")).made
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    preferred = {group["name"]: group["preferredVersion"]["groupVersion"] for group in groups["groups"]}
    assert preferred["batch"] == "batch/v1"
    assert preferred["jobset.x-k8s.io"] == "jobset.x-k8s.io/v1alpha2"
    assert preferred["kueue.x-k8s.io"] == "kueue.x-k8s.io/v1beta2"
    assert preferred["visibility.kueue.x-k8s.io"] == "visibility.kueue.x-k8s.io/v1beta2"


async def test_one_group(api: Api) -> None:
    group = (await api.get("/apis/kueue.x-k8s.io")).made
    assert group["kind"] == "APIGroup"
    assert [each["version"] for each in group["versions"]] == ["v1beta2", "v1beta1"]


@pytest.mark.parametrize(("base", "plural", "kind", "namespaced", "short"), KINDS, ids=[kind[1] for kind in KINDS])
async def test_kind(api: Api, base: str, plural: str, kind: str, namespaced: bool, short: list[str] | None) -> None:
    listed = (await api.get(base)).made
    assert listed["kind"] == "APIResourceList"
    resource = next(each for each in listed["resources"] if each["name"] == plural)
    assert (resource["kind"], resource["namespaced"]) == (kind, namespaced)
    assert sorted(resource.get("shortNames") or []) == sorted(short or [])
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(resource["verbs"])


async def test_what_a_pod_can_do(api: Api) -> None:
    names = {each["name"] for each in (await api.get("/api/v1")).made["resources"]}
    assert {"pods/log", "pods/exec", "pods/portforward", "pods/status", "nodes/status"} <= names


async def test_all_groups_in_one_answer(api: Api) -> None:
    answer = await api.send("GET", "/apis", headers={"Accept": AGGREGATED})
    groups: dict[str, Object] = {group["metadata"]["name"]: group for group in answer.made["items"]}
    assert answer.made["kind"] == "APIGroupDiscoveryList"
    kueue = groups["kueue.x-k8s.io"]["versions"]
    assert [version["version"] for version in kueue] == ["v1beta2", "v1beta1"]
    workloads = next(each for each in kueue[0]["resources"] if each["resource"] == "workloads")
    assert (workloads["scope"], workloads["responseKind"]["kind"]) == ("Namespaced", "Workload")


async def test_both_versions_of_kueue_give_the_same_queue(api: Api) -> None:
    new = (await api.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/a4")).made
    old = (await api.get("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/a4")).made
    assert new["spec"]["cohortName"] == old["spec"]["cohort"]
    assert "cohortName" not in old["spec"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert (new["apiVersion"], old["apiVersion"]) == ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


async def test_a_group_that_is_not_served(api: Api) -> None:
    answer = await api.get("/apis/nope.example.com/v1")
    assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_a_kind_that_is_not_served(api: Api) -> None:
    message = (await api.get("/api/v1/nopes")).refused(404, "NotFound")
    assert message == "the server could not find the requested resource"
