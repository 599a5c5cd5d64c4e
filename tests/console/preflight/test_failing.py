"""Every check is seen to pass and to fail: what is broken, and which words say so."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from google.cloud import container_v1

from console.preflight.all_checks import CHECKS
from console.preflight.check import Result
from practice.google.bucket_store import BUCKET, FAR, BucketStore
from practice.google.builds import BuildStore
from practice.google.lustre import LustreInstances
from practice.google.networks import NetworkResources
from practice.google.registry import RegistryStore
from practice.objects.resources import (
    CSIDRIVERS,
    DAEMONSETS,
    DEPLOYMENTS,
    DEVICECLASSES,
    JOBSETS,
    NETWORKPOLICIES,
    NETWORKS,
    NODES,
    SERVICEACCOUNTS,
)
from tests.console.preflight.ground import NCCL, Ground, ground

pytestmark = pytest.mark.asyncio(loop_scope="module")
GCS = f"storage.gcs={BUCKET}=/gcs"
TRAIN = "qwen3-30b-pretrain"
LUSTRE = "qwen3-next-lustre"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def here() -> AsyncIterator[Ground]:
    async with ground() as made:
        yield made


@dataclass
class Case:
    """How a check is made to fail."""

    id: str
    broken: tuple[str, ...]
    """Recipe and values of the launch that fails it; none: no launch."""
    words: str
    """In the reason or the evidence."""
    harm: Callable[[Ground], AbstractContextManager[Any]] = lambda _: nullcontext()
    result: Result = Result.FAIL
    well: tuple[str, ...] | None = None
    """The launch that passes it; None: the same one, unharmed."""


@contextmanager
def setting(thing: Any, name: str, value: Any) -> Any:
    before = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, before)


@contextmanager
def _both(first: Any, second: Any) -> Any:
    with first, second:
        yield


def gone(resource: Any, namespace: str, name: str) -> Callable[[Ground], Any]:
    return lambda here: here.without(resource, namespace, name)


def all_tainted(here: Ground) -> Any:
    def change(node: Any) -> None:
        node["spec"]["taints"] = [
            *node["spec"].get("taints", ()),
            {"key": "team", "value": "b", "effect": "NoSchedule"},
        ]

    return here.changed(NODES, "", here.a4_nodes(), change)


def pool_tainted(here: Ground) -> Any:
    """A pool that has no node now."""
    pool = next(each for each in here.gke.node_pools if each.name == "a4-flex")
    taint = container_v1.NodeTaint(key="dedicated", value="b", effect=container_v1.NodeTaint.Effect.NO_SCHEDULE)
    return setting(pool.config, "taints", [*pool.config.taints, taint])


def unlabelled(label: str) -> Callable[[Ground], Any]:
    def change(node: Any) -> None:
        node["metadata"]["labels"].pop(label, None)

    return lambda here: here.changed(NODES, "", here.a4_nodes()[:1], change)


def old_fuse(here: Ground) -> Any:
    def change(agent: Any) -> None:
        agent["spec"]["template"]["spec"]["containers"][0]["image"] = "gke.gcr.io/gcs-fuse-csi-driver:v1.15.0-gke.1"

    return here.changed(DAEMONSETS, "kube-system", ["gcsfusecsi-node"], change)


def walled(here: Ground) -> Any:
    meta = {"name": "deny-all", "namespace": "default"}
    return here.with_(NETWORKPOLICIES, {"metadata": meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})


def taken(here: Ground) -> Any:
    pods = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    job = {"name": "w", "replicas": 1, "template": {"spec": {"suspend": True, **pods}}}
    meta = {"name": "train-1", "namespace": "default"}
    return here.with_(JOBSETS, {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [job]}})


def service_off(name: str) -> Callable[[Ground], Any]:
    def harm(here: Ground) -> Any:
        project = here.world.projects["practice"]
        return setting(project, "enabled", project.enabled - {name})

    return harm


def in_project(name: str, value: Any) -> Callable[[Ground], Any]:
    return lambda here: setting(here.world.projects["practice"], name, value)


CASES = (
    Case("P01", (), "The nodes are away", lambda here: _both(
        setting(here.gke, "status", 5), setting(here.gke, "status_message", "The nodes are away"))),
    Case("P02", (), "1.31.7-gke.1265000",
         lambda here: setting(here.gke.node_pools[0], "version", "1.31.6-gke.1064001")),
    Case("P03", (), "Autopilot", lambda here: setting(here.gke.autopilot, "enabled", True)),
    Case("P04", (NCCL, "gpus=512"), "64 nodes with 8 GPUs are needed", well=(NCCL,)),
    Case("P05", (NCCL, "topology.request=required"), "close together",
         unlabelled("cloud.google.com/gce-topology-block")),
    Case("P06", (NCCL, "gpus=256"), "fewer GPUs", well=(NCCL,)),
    Case("P07", (NCCL,), "team", all_tainted),
    Case("P07", (NCCL, "placement.flexStart=true"), "dedicated", lambda here: pool_tainted(here)),
    Case("P17", (NCCL, "queue=a4", "requests.cpu=32"), "a4 has no quota of cpu", well=(NCCL, "queue=a4")),
    Case("P21", (LUSTRE,), "need the legacy port: a4-highgpu-8g-a4-pool",
         lambda here: setting(here.gke.node_pools[0], "version", "1.33.1-gke.1000000"), well=()),
    Case("P27", (NCCL, "network.dranet=true"), "There is no DeviceClass mrdma.google.com", well=(NCCL,)),
    Case("P08", (), "gke-metadata-server", gone(DAEMONSETS, "kube-system", "gke-metadata-server")),
    Case("P09", (NCCL, GCS), "gcsfuse", gone(CSIDRIVERS, "", "gcsfuse.csi.storage.gke.io")),
    Case("P10", (NCCL, GCS, "network.hostNetwork=true"), "v1.15.0", old_fuse),
    Case("P11", (NCCL, f"storage.gcs={FAR}=/gcs"), "europe-west4", well=(NCCL, GCS)),
    Case("P11", (NCCL, "storage.gcs=nowhere=/gcs"), "The bucket gs://nowhere does not exist.", well=(NCCL, GCS)),
    Case("P12", (NCCL, "storage.gcs=nowhere=/gcs"), "The bucket gs://nowhere does not exist.", well=(NCCL, GCS)),
    Case("P12", (NCCL, GCS), "objectAdmin",
         lambda here: setting(here.world.service_state(BucketStore).buckets[BUCKET], "bindings", [])),
    Case("P13", (), "DCGM", gone(DAEMONSETS, "gke-managed-system", "dcgm-exporter"), Result.WARN),
    Case("P14", (), "jobset", gone(DEPLOYMENTS, "jobset-system", "jobset-controller-manager"), Result.WARN),
    Case("P14", (NCCL,), "jobset", gone(DEPLOYMENTS, "jobset-system", "jobset-controller-manager")),
    Case("P15", (NCCL, "queue=a4"), "kueue", gone(DEPLOYMENTS, "kueue-system", "kueue-controller-manager")),
    Case("P15", (), "kueue", gone(DEPLOYMENTS, "kueue-system", "kueue-controller-manager"), Result.WARN),
    Case("P16", (NCCL, "queue=a4-high"), "no LocalQueue a4-high", well=(NCCL, "queue=a4")),
    Case("P17", (NCCL, "queue=a4", "gpus=256"), "quota never reaches", well=(NCCL, "queue=a4")),
    Case("P18", (NCCL, "queue=a4", "topology.level=example.com/rack"), "example.com/rack", well=(NCCL, "queue=a4")),
    Case("P19", (TRAIN, "storage.nfs.claim=other-pvc"), "no claim other-pvc", well=(TRAIN,)),
    Case("P20", (TRAIN, "storage.nfs.server=10.128.15.200", "storage.nfs.instance=shared"), "filestore",
         well=()),
    Case("P21", (LUSTRE,), "legacy port", well=()),
    Case("P22", (LUSTRE, "storage.lustre.server=10.9.9.9"), "10.9.9.9",
         well=(LUSTRE, "storage.lustre.server=10.128.15.210")),
    Case("P23", (NCCL, "image=nvcr.io/nvidia/pytorch:25.99-py3"), "25.99-py3",
         well=(NCCL, "image=nvcr.io/nvidia/pytorch:25.06-py3")),
    Case("P24", (NCCL, "image=nvcr.io/nvidia/pytorch:24.07-py3"), "12.8", well=(NCCL,)),
    Case("P25", (NCCL, "network.gib.image=us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-diagnostic:v9"),
         ":v9", well=(NCCL,)),
    Case("P26", (NCCL,), "no Cloud NAT",
         lambda here: setting(here.world.service_state(NetworkResources), "routers", []),
         Result.WARN),
    Case("P27", (NCCL,), "rdma-3", gone(NETWORKS, "", "rdma-3")),
    Case("P28", (NCCL,), "block traffic into the pods on 2222 and 6002: pods", walled),
    Case("P29", (NCCL, "storage.ssd=/ssd"), "local SSD",
         unlabelled("cloud.google.com/gke-ephemeral-storage-local-ssd")),
    Case("P30", (), "cloudbuild.googleapis.com", service_off("cloudbuild.googleapis.com")),
    Case("P31", (NCCL, "image=us-central1-docker.pkg.dev/practice/none/testbed:1"), "no none",
         well=(NCCL, "image=us-central1-docker.pkg.dev/practice/a4/testbed:1")),
    Case("P32", (), "cloudbuild.builds.create", in_project("denied_permissions", {"cloudbuild.builds.create"}),
         Result.WARN),
    Case("P34", (NCCL,), "A name belongs to one", taken),
    Case("P35", (), "container.clusters.create", in_project("denied_permissions", {"container.clusters.create"}),
         Result.NOT_APPLICABLE),
    Case("P36", (NCCL, "serviceAccount=trainer"), "There is no ServiceAccount trainer in default.", well=(NCCL,)),
    Case("P36", (NCCL, "secrets.HF_TOKEN=hub/token"), "There is no Secret hub in default.", well=(NCCL,)),
    Case("P36", (NCCL, "imagePullSecrets=registry"), "There is no Secret registry in default.", well=(NCCL,)),
    Case("P36", (NCCL, "storage.pvc=scratch=/scratch"), "There is no claim scratch in default.",
         well=(NCCL, "storage.pvc=nfs-pvc=/mnt")),
    Case("P36", (NCCL, "queue=a4", "priorityClass=urgent"), "There is no WorkloadPriorityClass urgent.",
         well=(NCCL, "queue=a4", "priorityClass=high")),
)  # fmt: skip
ELSEWHERE = {"P33"}
"""Shown in test_running: it takes another account."""


async def test_every_check_has_its_failure() -> None:
    assert {case.id for case in CASES} | ELSEWHERE == {check.id for check in CHECKS}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_it_fails_when_it_should(here: Ground, case: Case) -> None:
    wish = here.wish(*case.broken)
    with case.harm(here):
        check = await here.becomes(case.result, case.id, wish)
        assert case.words.lower() in f"{check.reason} {check.evidence}".lower()
        assert check.fix
        assert check.looks
    well = here.wish(*(case.broken if case.well is None else case.well))
    if case.id == "P35":
        with in_project("denied_permissions", set())(here):
            await here.becomes(Result.OK, case.id, well)
    elif case.well != ():
        check = await here.becomes(Result.OK, case.id, well)
        assert check.evidence


async def test_a_driver_that_is_missing_though_its_addon_is_on_is_not_enabled_again(here: Ground) -> None:
    wish = here.wish(NCCL, GCS)
    with here.without(CSIDRIVERS, "", "gcsfuse.csi.storage.gke.io"):
        check = await here.becomes(Result.FAIL, "P09", wish)
    assert "Google: the GCS FUSE CSI driver is on." in check.evidence
    assert check.fix.startswith("Wait some minutes: the add-on is on.")
    assert (check.command, check.repair) == ("kubectl get csidriver gcsfuse.csi.storage.gke.io", None)


async def test_the_legacy_port_is_not_asked_for_where_it_is_not_needed(here: Ground) -> None:
    """Of newer nodes and an instance without GKE support it is needed by nobody, and `--fix` leaves it off."""
    wish = here.wish(LUSTRE)
    instances = here.world.service_state(LustreInstances).instances
    config = here.gke.addons_config.lustre_csi_driver_config
    with ExitStack() as harm:
        for each in instances.values():
            harm.enter_context(setting(each, "gke_support_enabled", False))
        on = await here.look("P21", wish)
        assert (on.result, on.repair) == (Result.OK, None)
        assert "its legacy port is off, as newer nodes do without" in on.evidence
        harm.enter_context(setting(config, "enabled", False))
        off = await here.look("P21", wish)
        assert off.repair is not None
        assert (off.result, off.repair.target[-1]) == (Result.FAIL, "lustre")
        assert "legacy" not in off.command


async def test_cards_are_claimed_or_asked_for_by_annotation(here: Ground) -> None:
    def manage(node: Any) -> None:
        node["metadata"]["labels"]["cloud.google.com/gke-networking-dra-driver"] = "true"

    claims, notes = here.wish(NCCL, "network.dranet=true"), here.wish(NCCL)
    with here.with_(DEVICECLASSES, {"metadata": {"name": "mrdma.google.com"}}):
        check = await here.becomes(Result.FAIL, "P27", claims)
        assert "No A4 node has the label" in check.reason
        with here.changed(NODES, "", here.a4_nodes(), manage):
            assert "A4 nodes have managed DRANET" in (await here.becomes(Result.OK, "P27", claims)).evidence
            with here.without(NETWORKS, "", "rdma-3"):
                check = await here.becomes(Result.FAIL, "P27", notes)
                assert "network.dranet=true" in check.fix


async def test_registries_that_hide_an_image_are_distinguished_from_those_without_it(here: Ground) -> None:
    wish = here.wish(NCCL, "image=nvcr.io/nvidia/pytorch:25.06-py3")
    here.world.registries.hidden.add("nvcr.io/nvidia/pytorch")
    try:
        check = await here.look("P23", wish)
    finally:
        here.world.registries.hidden.clear()
    assert "no permission to read" in f"{check.reason} {check.evidence}"


async def test_a_reservation_that_is_not_dense_is_reported(here: Ground) -> None:
    kept = here.world.service_state(NetworkResources).reservations
    (one,) = kept.values()
    with setting(
        here.world.service_state(NetworkResources), "reservations", {key: {**one, "deploymentType": ""} for key in kept}
    ):
        loose = await here.look("P05")
        strict = await here.look("P05", here.wish(NCCL, "topology.request=required"))
    assert (loose.result, strict.result) == (Result.WARN, Result.FAIL)
    assert "practice-a4 (not dense, 16 of 18 machines used)" in loose.evidence
    with setting(here.world.service_state(NetworkResources), "reservations", {}):
        check = await here.look("P05")
    assert check.result is Result.WARN
    assert "reservation practice-a4, which does not exist in us-central1-b" in check.evidence


async def test_versions_of_the_operators_and_of_their_apis_are_reported(here: Ground) -> None:
    jobset = await here.look("P14")
    assert "jobsets of jobset.x-k8s.io are served in v1alpha2." in jobset.evidence
    assert "jobset-system/jobset-controller-manager (v" in jobset.evidence
    kueue = await here.look("P15")
    assert "v1beta2" in kueue.evidence
    assert "kueue-system/kueue-controller-manager (v" in kueue.evidence


async def test_what_the_project_gives_counts_and_the_account_that_pods_act_as(here: Ground) -> None:
    wish = here.wish(NCCL, GCS)
    project = here.world.projects["practice"]
    pods = "principalSet://iam.googleapis.com/projects/1001/locations/global/workloadIdentityPools/practice.svc.id.goog"
    with setting(here.world.service_state(BucketStore).buckets[BUCKET], "bindings", []):
        lacks = await here.look("P12", wish)
        assert (lacks.result, lacks.reason) == (Result.FAIL, "The project's policy gives no more.")
        assert "/projects/1001/locations/global/" in lacks.command
        with setting(project, "denied_permissions", {"resourcemanager.projects.getIamPolicy"}):
            blind = await here.look("P12", wish)
        assert "its policy was not seen" in blind.reason
        with setting(project, "bindings", {"roles/storage.admin": (f"{pods}/namespace/default",)}):
            assert (await here.look("P12", wish)).result is Result.OK

        def acts(account: Any) -> None:
            account["metadata"]["annotations"] = {"iam.gke.io/gcp-service-account": "train@practice.iam"}

        kept = {"roles/storage.admin": ("serviceAccount:train@practice.iam",)}
        here.cluster.storage.modify(SERVICEACCOUNTS, "default", "default", acts)
        try:
            with setting(project, "bindings", kept):
                found = await here.look("P12", wish)
        finally:
            here.cluster.storage.modify(
                SERVICEACCOUNTS, "default", "default", lambda each: each["metadata"].pop("annotations", None)
            )
        assert found.result is Result.OK
        assert "act as train@practice.iam" in found.evidence


async def test_the_nodes_account_must_be_let_in(here: Ground) -> None:
    wish = here.wish(NCCL, "image=us-central1-docker.pkg.dev/practice/a4/testbed:nemo25.04-gib1.0.6-A4")
    assert "The nodes may read it, as 1001-compute@developer." in (await here.look("P23", wish)).evidence
    shelf = here.world.service_state(RegistryStore)
    path = "projects/practice/locations/us-central1/repositories/a4"
    with setting(here.world.projects["practice"], "bindings", {}):
        check = await here.look("P23", wish)
        assert check.result is Result.WARN
        assert "ImagePullBackOff" in check.reason
        assert "--member=serviceAccount:1001-compute@developer.gserviceaccount.com" in check.command
        with setting(shelf, "bindings", {path: {"roles/artifactregistry.reader": ("allUsers",)}}):
            assert (await here.look("P23", wish)).result is Result.OK
    with setting(here.world.projects["practice"], "denied_permissions", {"resourcemanager.projects.getIamPolicy"}):
        blind = await here.look("P23", wish)
    assert blind.result is Result.OK
    assert "Not allowed to look: Could not read the IAM policy of practice" in blind.evidence


async def test_programs_of_an_image_are_reported_by_its_configuration(here: Ground) -> None:
    known = await here.look("P24", here.wish(NCCL))
    assert "It has sshd (a step of its build), mpirun (OPENMPI_VERSION=4.1.7)." in known.evidence
    bare = await here.look("P24", here.wish(NCCL, "image=nvcr.io/nvidia/pytorch:25.06-py3"))
    assert bare.result is Result.WARN
    assert "Nothing in its configuration tells of sshd" in bare.evidence


async def test_builds_that_wait_and_quota_that_is_used_up(here: Ground) -> None:
    yard = here.world.service_state(BuildStore)
    kept = dict(yard.builds)
    one = next(iter(kept.values()))
    number = ("practice", "us-central1", "w")

    def another(status: Any, moment: float, why: str = "") -> None:
        made = type(one)(one)
        made.id, made.status, made.status_detail = "w", status, why
        made.create_time = datetime.fromtimestamp(moment, UTC)
        yard.builds[number] = made

    try:
        another(1, here.world.opening - 600)
        waits = await here.look("P32")
        assert (waits.result, waits.reason) == (Result.WARN, "The project's quota lets no more run at once.")
        another(4, here.world.opening, "failed: quota for concurrent builds exceeded")
        refused = await here.look("P32")
        assert "quota for concurrent builds exceeded" in refused.reason
    finally:
        yard.builds.clear()
        yard.builds.update(kept)
    assert "0 wait" in (await here.look("P32")).evidence


PEERS = (
    ([{"ports": [{"port": 2222}, {"port": 6002}]}], True),
    ([{"ports": [{"port": 2000, "endPort": 7000}], "from": [{"podSelector": {}}]}], True),
    ([{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}], True),
    ([{"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}], False),
    ([{"from": [{"ipBlock": {"cidr": "192.168.7.0/24"}}]}], False),
    ([{"from": [{"podSelector": {"matchLabels": {"app": "monitoring"}}}]}], False),
    ([{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}]}], True),
    ([{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}]}], False),
    ([{"ports": [{"port": 2222, "protocol": "UDP"}]}], False),
    ([{"ports": [{"port": 2222}]}], False),
)


@pytest.mark.parametrize(("rules", "opens"), PEERS)
async def test_what_a_policy_lets_in(here: Ground, rules: list[dict[str, Any]], opens: bool) -> None:
    meta = {"name": "some", "namespace": "default"}
    policy = {"metadata": meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules}}
    with here.with_(NETWORKPOLICIES, policy):
        inside = await here.look("P28", here.wish(NCCL))
        outside = await here.look("P28", here.wish(NCCL, "network.hostNetwork=true"))
    assert inside.result is (Result.OK if opens else Result.FAIL), inside
    assert outside.result is Result.OK
    assert "NetworkPolicies do not apply" in outside.evidence


async def test_a_built_image_is_found_in_its_repository(here: Ground) -> None:
    shelf = here.world.service_state(RegistryStore)
    image = "us-central1-docker.pkg.dev/practice/a4/mine:1"
    assert (await here.look("P23", here.wish(NCCL, f"image={image}"))).result is Result.FAIL
    shelf.push_image(image, 5_000_000_000, 0.0)
    assert (await here.look("P23", here.wish(NCCL, f"image={image}"))).result is Result.OK


async def test_a_cluster_without_a_second_network_for_tcp_will_do(here: Ground) -> None:
    """Google's own set-up names nine networks: the default one and one for each RDMA card."""
    ten = ",".join(("default", "gvnic-1", *(f"rdma-{card}" for card in range(8))))
    changed = []
    for pool in here.gke.node_pools:
        more = pool.network_config.additional_node_network_configs
        if pool.config.machine_type.startswith("a4-") and more:
            changed.append((pool.network_config, list(more)))
            pool.network_config.additional_node_network_configs = list(more)[1:]
    try:
        with here.without(NETWORKS, "", "gvnic-1"):
            check = await here.look("P27", here.wish(NCCL))
            strict = await here.look("P27", here.wish(NCCL, f"network.subnetworks={{{ten}}}"))
    finally:
        for config, more in changed:
            config.additional_node_network_configs = more
    assert check.result is Result.OK, check.reason
    assert "9 of the 9 Network objects are there." in check.evidence
    assert "a4-pool has 8 networks more" in check.evidence
    assert strict.result is Result.FAIL
    assert "Missing: gvnic-1." in strict.reason
