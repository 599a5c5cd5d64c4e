"""Pods that cannot start: ports and network cards of the machine that are taken, images and buckets that are not there.

What GKE does (its network webhook, its drivers) the real control plane of the lab has not: those tests hold for the
practice cluster only, and are exceptions by name.
"""

import json

import pytest

from tests.contract.client import Object
from tests.contract.cluster import CORE, JOBSETS, KUEUE, eventually
from tests.contract.space import GPU, Space, container
from tests.contract.test_refusals import accounted
from tests.fakes import present

SOON = 8.0
"""Seconds in which a cluster that does it at all does it."""
CARD = "networking.gke.io.networks/rdma-0"
EVERYTHING = [{"operator": "Exists"}]
INTERFACES = [{"interfaceName": "eth0", "network": "default"}, {"interfaceName": "eth2", "network": "rdma-0"}]


def annotated(interfaces: object = INTERFACES) -> Object:
    text = interfaces if isinstance(interfaces, str) else json.dumps(interfaces)
    return {"networking.gke.io/default-interface": "eth0", "networking.gke.io/interfaces": text}


async def machine(space: Space) -> str:
    """The second machine of the reserved pool."""
    pool = await space.reserved_pool()
    path = f"{CORE}/nodes"
    nodes = (await space.api.get(path, labelSelector=f"cloud.google.com/gke-nodepool={pool}")).made["items"]
    return str(sorted(each["metadata"]["name"] for each in nodes)[1])


async def begin(space: Space, name: str, spec: Object, notes: Object | None = None) -> None:
    """Create a pod on that machine."""
    spec = {"restartPolicy": "Never", "tolerations": EVERYTHING, **spec}
    spec["nodeSelector"] = {"kubernetes.io/hostname": await machine(space)}
    meta = {"name": name, "annotations": notes or {}}
    answer = await space.api.create(
        space.path(CORE, "pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    )
    assert answer.status == 201, answer.body


async def runs(space: Space, name: str) -> Object:
    return await space.wait(CORE, "pods", name, lambda pod: pod["status"].get("phase") == "Running")


async def pending(space: Space, name: str) -> str:
    """Why a pod has no machine."""
    why = await space.condition(CORE, "pods", name, "PodScheduled", "False")
    assert why["reason"] == "Unschedulable"
    return str(why["message"])


async def test_a_port_of_the_host_is_given_once(space: Space) -> None:
    await accounted(space)
    spec = {"hostNetwork": True, "containers": [{**container("main"), "ports": [{"containerPort": 2222}]}]}
    await begin(space, "first", spec)
    assert (await runs(space, "first"))["spec"]["containers"][0]["ports"] == [
        {"containerPort": 2222, "hostPort": 2222, "protocol": "TCP"}
    ]
    await begin(space, "second", spec)
    assert await pending(space, "second") == (
        "0/23 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, "
        "22 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: "
        "0/23 nodes are available: 1 No preemption victims found for incoming pod, "
        "22 Preemption is not helpful for scheduling."
    )
    await begin(space, "another", {**spec, "containers": [{**container("main"), "ports": [{"containerPort": 2223}]}]})
    await runs(space, "another")
    await space.end("first")
    await runs(space, "second")


async def test_what_no_machine_has_is_not_got_by_evicting_others(space: Space) -> None:
    await accounted(space)
    nothing = {"containers": [{**container("main"), "resources": {"limits": {"example.com/nothing": "1"}}}]}
    await begin(space, "a", nothing)
    assert await pending(space, "a") == (
        "0/23 nodes are available: 1 Insufficient example.com/nothing, 22 node(s) didn't match Pod's node "
        "affinity/selector. no new claims to deallocate, preemption: 0/23 nodes are available: "
        "23 Preemption is not helpful for scheduling."
    )


async def test_a_claim_that_is_not_there(space: Space) -> None:
    await accounted(space)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nope"}}
    await begin(space, "a", {"containers": [container("main")], "volumes": [volume]})
    assert (await pending(space, "a")).startswith('0/23 nodes are available: persistentvolumeclaim "nope" not found.')


async def test_a_network_card_is_given_once(space: Space) -> None:
    await accounted(space)
    spec = {"containers": [{**container("main"), "resources": {"limits": {CARD: "1"}}}]}
    await begin(space, "first", spec)
    await runs(space, "first")
    await begin(space, "second", spec)
    assert f"1 Insufficient {CARD}, 22 node(s)" in await pending(space, "second")
    await space.end("first")
    await runs(space, "second")


async def test_interfaces_become_resources_of_the_first_container(space: Space) -> None:
    await accounted(space)
    await begin(space, "a", {"containers": [container("main", 2), container("side")]}, annotated())
    main, side = (await runs(space, "a"))["spec"]["containers"]
    asked = {GPU: "2", CARD: "1", f"{CARD}.IP": "1"}
    assert (main["resources"], side["resources"]) == ({"limits": asked, "requests": asked}, {})


async def test_small_jobs_with_interfaces_block_each_other(space: Space) -> None:
    """Kueue counts GPUs only: it admits both, and holds the quota of the one that waits."""
    await accounted(space)
    queue = await space.queue("team", 16)
    for name in ("first", "second"):
        body = small(name, queue, await machine(space), annotated())
        assert (await space.api.create(space.path(JOBSETS, "jobsets"), body)).status == 201

    async def waits() -> Object | None:
        pods = await space.items(CORE, "pods")
        phases = sorted(pod["status"].get("phase", "") for pod in pods)
        held = [pod for pod in pods if pod["status"].get("phase") == "Pending" and pod["status"].get("conditions")]
        return held[0] if phases == ["Pending", "Running"] and held else None

    pod = present(await eventually(waits, "one of two pods waits for its cards", SOON))
    assert f"Insufficient {CARD}" in await pending(space, pod["metadata"]["name"])
    local = await space.wait(KUEUE, "localqueues", queue, lambda item: item["status"].get("admittedWorkloads") == 2)
    assert local["status"]["flavorsReservation"][0]["resources"] == [{"name": GPU, "total": "4"}]


def small(name: str, queue: str, node: str, notes: Object) -> Object:
    """A JobSet of one pod with two GPUs on that machine."""
    spec = {"restartPolicy": "Never", "containers": [container("main", 2)], "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node}}  # fmt: skip
    job = {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": {"metadata": {"annotations": notes},
           "spec": spec}}  # fmt: skip
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": job}}]
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta}
    return {**made, "spec": {"replicatedJobs": replicated}}


@pytest.mark.parametrize(
    ("interfaces", "word"),
    [
        ([*INTERFACES, {"interfaceName": "eth3", "network": "nope"}], '"nope" not found'),
        ("[{", "cannot be read"),
        (INTERFACES[1:], 'default interface "eth0"'),
        ([*INTERFACES, INTERFACES[1]], "twice"),
    ],
    ids=["unknown", "broken", "default", "twice"],
)
async def test_interfaces_that_cannot_be(space: Space, interfaces: object, word: str) -> None:
    await accounted(space)
    meta = {"name": "a", "annotations": annotated(interfaces)}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container("main")]}}
    message = (await space.api.create(space.path(CORE, "pods"), body, dryRun="All")).refused(403, "Forbidden")
    assert word in message


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize(
    ("image", "word"),
    [
        ("registry.example/team/trainer:1", "lookup registry.example on 169.254.169.254:53: no such host"),
        ("nobody-has-made-this:1", "pull access denied, repository does not exist or may require authorization"),
        ("nvcr.io/nvidia/pytorch:99.99-py3", "nvcr.io/nvidia/pytorch:99.99-py3: not found"),
        ("us-docker.pkg.dev/nobody/nothing/x:1", "us-docker.pkg.dev/nobody/nothing/x:1: not found"),
    ],
    ids=["registry", "hub", "tag", "repository"],
)
async def test_an_image_that_is_not_there(space: Space, image: str, word: str) -> None:
    await accounted(space)
    await begin(space, "a", {"containers": [{**container("main"), "image": image}]})

    def reason(pod: Object) -> Object:
        found: Object = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
        return found

    async def waiting() -> Object | None:
        state = reason((await space.api.get(space.path(CORE, "pods", "a"))).made)
        return state if state.get("reason") in ("ErrImagePull", "ImagePullBackOff") else None

    state = present(await eventually(waiting, f"{image} is not pulled", SOON))
    assert word in state["message"]
    await space.wait(CORE, "pods", "a", lambda pod: reason(pod).get("reason") == "ImagePullBackOff")
    told = {each["reason"]: each for each in await space.items(CORE, "events") if each["type"] == "Warning"}
    assert told["Failed"]["source"]["component"] == "kubelet"


@pytest.mark.parametrize(
    ("bucket", "notes", "why"),
    [
        ("no-such-bucket", True, 'NotFound desc = failed to get GCS bucket "no-such-bucket": '
         "storage: bucket doesn't exist"),
        ("practice-datasets", True, 'PermissionDenied desc = failed to get GCS bucket "practice-datasets": '
         "googleapi: Error 403: Caller does not have storage.objects.list access"),
        ("cloud-samples-data", False, "FailedPrecondition desc = failed to find the sidecar container in Pod spec"),
    ],
    ids=["unknown", "locked", "without the annotation"],
)  # fmt: skip
async def test_a_bucket_that_cannot_be_mounted(space: Space, bucket: str, notes: bool, why: str) -> None:
    await accounted(space)
    driver = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": bucket}}
    mounts = [{"name": "data", "mountPath": "/gcs"}]
    spec = {"containers": [{**container("main"), "volumeMounts": mounts}], "volumes": [{"name": "data", "csi": driver}]}
    await begin(space, "a", spec, {"gke-gcsfuse/volumes": "true"} if notes else {})

    async def failed() -> Object | None:
        events = await space.items(CORE, "events")
        return next((each for each in events if each["reason"] == "FailedMount"), None)

    event = present(await eventually(failed, "the mount fails", SOON))
    assert event["message"].startswith(f'MountVolume.SetUp failed for volume "data" : rpc error: code = {why}')
    pod = (await space.api.get(space.path(CORE, "pods", "a"))).made
    assert pod["status"]["phase"] == "Pending"


async def test_a_bucket_that_can_be_mounted(space: Space) -> None:
    await accounted(space)
    driver = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "cloud-samples-data"}}
    spec = {"containers": [container("main")], "volumes": [{"name": "data", "csi": driver}]}
    await begin(space, "a", spec, {"gke-gcsfuse/volumes": "true"})
    await runs(space, "a")
