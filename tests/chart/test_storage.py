"""Storage: what was asked for is mounted, nothing else, and what others may use stays."""

from typing import Any

import pytest
import yaml

from console.kube.nested_values import Value
from console.launch.helm import is_kept
from console.launch.recipes import LaunchPlan
from tests.chart.plans import CATALOGUE, offline

LUSTRE: dict[str, Value] = {
    "claim": "lustre-pvc",
    "server": "172.27.48.5",
    "instance": "my-lustre",
    "project": "my-project",
    "location": "us-central1-a",
}


async def render(recipe: str = "interactive", /, **values: Value) -> list[dict[str, Any]]:
    manifests = await offline().render(LaunchPlan(recipe, "anna", "team", values))
    return [yaml.safe_load(manifest.text) for manifest in manifests]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [made for made in objects if made["kind"] == kind]


def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (jobset,) = of_kind(objects, "JobSet")
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]  # type: ignore[no-any-return]


def mounted(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Folder in the pod -> its volume."""
    spec = pod(objects)["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert len(volumes) == len(spec["volumes"]), "no name twice"
    return {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}


async def test_a_claim_that_exists_is_mounted_and_nothing_is_made() -> None:
    objects = await render(storage={"nfs": {"claim": "nfs-pvc"}})
    assert mounted(objects)["/mnt"]["persistentVolumeClaim"] == {"claimName": "nfs-pvc"}
    assert {made["kind"] for made in objects} == {"JobSet", "ConfigMap", "Secret"}


async def test_plain_nfs_makes_a_volume_and_its_claim() -> None:
    objects = await render(storage={"nfs": {"claim": "nfs-pvc", "server": "10.0.0.2", "path": "/data"}})
    (volume,), (claim,) = of_kind(objects, "PersistentVolume"), of_kind(objects, "PersistentVolumeClaim")
    assert volume["spec"]["nfs"] == {"server": "10.0.0.2", "path": "/nfslarge"}
    assert volume["spec"]["mountOptions"] == [
        "nfsvers=4.1", "rsize=1048576", "wsize=1048576", "hard", "timeo=600", "retrans=2", "noresvport",
    ]  # fmt: skip
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"] == {"storage": "10Ti"}
    # Bound to each other by name, whatever classes the cluster has.
    assert volume["spec"]["claimRef"] == {"namespace": "team", "name": "nfs-pvc"}
    assert (claim["spec"]["volumeName"], claim["spec"]["storageClassName"]) == (volume["metadata"]["name"], "")
    assert claim["metadata"]["namespace"] == "team"
    assert mounted(objects)["/data"]["persistentVolumeClaim"] == {"claimName": "nfs-pvc"}


async def test_filestore_uses_its_driver_when_the_instance_is_known() -> None:
    nfs: dict[str, Value] = {
        "claim": "nfs-pvc",
        "server": "10.0.0.2",
        "instance": "my-filestore",
        "location": "us-central1-a",
    }
    (volume,) = of_kind(await render(storage={"nfs": nfs}), "PersistentVolume")
    assert volume["spec"]["csi"] == {
        "driver": "filestore.csi.storage.gke.io",
        "volumeHandle": "modeInstance/us-central1-a/my-filestore/nfslarge",
        "volumeAttributes": {"ip": "10.0.0.2", "volume": "nfslarge"},
    }
    assert "nfs" not in volume["spec"]


async def test_lustre_is_bound_by_its_driver() -> None:
    objects = await render(storage={"lustre": LUSTRE})
    (volume,) = of_kind(objects, "PersistentVolume")
    assert volume["spec"]["csi"] == {
        "driver": "lustre.csi.storage.gke.io",
        "volumeHandle": "my-project/us-central1-a/my-lustre",
        "volumeAttributes": {"ip": "172.27.48.5", "filesystem": "lustrefs"},
    }
    assert volume["spec"]["capacity"] == {"storage": "9000Gi"}
    assert mounted(objects)["/lustre"]["persistentVolumeClaim"] == {"claimName": "lustre-pvc"}


async def test_what_others_may_use_is_kept() -> None:
    manifests = await offline().render(LaunchPlan("interactive", "anna", "team", {"storage": {"lustre": LUSTRE}}))
    assert {manifest.kind for manifest in manifests if is_kept(manifest.text)} == {
        "PersistentVolume",
        "PersistentVolumeClaim",
    }
    for made in of_kind(await render(storage={"lustre": LUSTRE}), "PersistentVolume"):
        assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert made["metadata"]["name"] == "a4-team-lustre-pvc", "one name for every release of a namespace"


async def test_buckets_have_names_options_and_the_pods_own_account() -> None:
    buckets: dict[str, Value] = {"my-bucket": "/gcs:implicit-dirs,uid=1000", "a.b_c": "/artifacts"}
    objects = await render(storage={"gcs": buckets}, network={"hostNetwork": True})
    found = mounted(objects)
    assert found["/gcs"]["csi"] == {
        "driver": "gcsfuse.csi.storage.gke.io",
        "volumeAttributes": {
            "bucketName": "my-bucket",
            "mountOptions": "implicit-dirs,uid=1000",
            "hostNetworkPodKSA": "true",
        },
    }
    assert found["/artifacts"]["csi"]["volumeAttributes"] == {"bucketName": "a.b_c", "hostNetworkPodKSA": "true"}
    annotations = pod(objects)["metadata"]["annotations"]
    assert {name: value for name, value in annotations.items() if "gcsfuse" in name} == {
        "gke-gcsfuse/volumes": "true",
        "gke-gcsfuse/cpu-request": "250m",
        "gke-gcsfuse/memory-request": "256Mi",
        "gke-gcsfuse/ephemeral-storage-request": "5Gi",
        "gke-gcsfuse/cpu-limit": "500m",
        "gke-gcsfuse/memory-limit": "1Ti",
        "gke-gcsfuse/ephemeral-storage-limit": "2Ti",
    }
    own = await render(storage={"gcs": {"my-bucket": "/gcs"}})
    assert mounted(own)["/gcs"]["csi"]["volumeAttributes"] == {"bucketName": "my-bucket"}


async def test_without_buckets_there_is_no_sidecar() -> None:
    assert not [name for name in pod(await render())["metadata"]["annotations"] if "gcsfuse" in name]


async def test_ssd_node_folders_shared_memory_and_claims() -> None:
    objects = await render(
        storage={
            "ssd": "/ssd",
            "host": {"/dev/infiniband": "/dev/infiniband"},
            "pvc": {"data-claim": "/data"},
            "shm": "64Gi",
        }
    )
    found = mounted(objects)
    assert found["/ssd"]["hostPath"]["path"] == "/mnt/stateful_partition/kube-ephemeral-ssd"
    assert found["/dev/infiniband"]["hostPath"] == {"path": "/dev/infiniband"}
    assert found["/data"]["persistentVolumeClaim"] == {"claimName": "data-claim"}
    assert found["/dev/shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}


@pytest.mark.parametrize("bucket", ["gs://my-bucket", "My-Bucket", "a", "my bucket"])
def test_a_bucket_is_a_name_alone(bucket: str) -> None:
    plan = LaunchPlan("interactive", "anna", "team", {"storage": {"gcs": {bucket: "/gcs"}}})
    (problem,) = CATALOGUE.plan_problems(plan)
    assert problem.path == "storage.gcs"
    assert "without gs://" in problem.message


@pytest.mark.slow(reason="renders the whole chart by Helm again and again", fast_rows=4)
@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
async def test_recipes_mount_shared_storage_when_they_need_it_and_only_then(recipe: str) -> None:
    found = {
        path: volume for path, volume in mounted(await render(recipe)).items() if "persistentVolumeClaim" in volume
    }
    needs = any(field.path == "recipe.workspace" for field in CATALOGUE.fields(recipe))
    assert set(found) == ({str(CATALOGUE.defaults(recipe)["recipe"]["workspace"])} if needs else set())  # type: ignore[call-overload,index]


async def test_other_resources_are_limits_of_the_container() -> None:
    objects = await render(resources={"rdma/hca_shared_devices_a": "1"}, gpus=8)
    limits = pod(objects)["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": "1"}


async def test_a_download_takes_no_gpu() -> None:
    objects = await render("qwen3-download")
    assert "resources" not in pod(objects)["spec"]["containers"][0]
    assert "initContainers" not in pod(objects)["spec"]
