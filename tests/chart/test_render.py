"""What values do to the objects."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from console.errors import ConsoleError
from console.kube.nested_values import Value
from console.launch.helm import Helm
from console.launch.recipes import LaunchPlan
from console.launch.value_checks import iterations, model_id
from tests.chart.plans import CATALOGUE, OF_EVERY_POD, offline

Object = dict[str, Any]


async def render(recipe: str = "nccl-all-reduce", name: str = "anna", /, **values: Value) -> dict[str, Any]:
    """Objects by kind, as data."""
    manifests = await offline().render(LaunchPlan(recipe, name, "team", values))
    return {manifest.kind: yaml.safe_load(manifest.text) for manifest in manifests}


async def jobset(recipe: str = "nccl-all-reduce", name: str = "anna", /, **values: Value) -> Object:
    made = (await render(recipe, name, **values))["JobSet"]
    assert isinstance(made, dict)
    return made


def job(made: Object) -> Object:
    return made["spec"]["replicatedJobs"][0]["template"]["spec"]  # type: ignore[no-any-return]


def pod(made: Object) -> Object:
    return job(made)["template"]["spec"]  # type: ignore[no-any-return]


def container(made: Object) -> Object:
    return pod(made)["containers"][0]  # type: ignore[no-any-return]


def pod_annotations(made: Object) -> dict[str, str]:
    return job(made)["template"]["metadata"]["annotations"]  # type: ignore[no-any-return]


def installer(made: Object) -> Object:
    """Of gIB; the pods have no sidecar."""
    assert len(pod(made)["containers"]) == 1
    (only,) = pod(made)["initContainers"]
    assert "--install-nccl" in only["args"][0]
    return only  # type: ignore[no-any-return]


def environment(made: Object) -> dict[str, Any]:
    names = [entry["name"] for entry in container(made)["env"]]
    assert len(names) == len(set(names)), "a name twice"
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container(made)["env"]}


NO_CARDS = {"networking.gke.io/default-interface": None, "networking.gke.io/interfaces": None}
HOSTS = [
    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]},
    {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["c"]},
]
AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": HOSTS}]}}


def spec(made: Object) -> Object:
    return made["spec"]  # type: ignore[no-any-return]


def bucket(gcs: Value, output: str = "logs/run") -> Object:
    return {"storage": {"gcs": gcs}, "recipe": {"train": {"output": output}}}


def swift(version: str, **more: Value) -> Object:
    return {"image": "registry.example/own:1", "recipe": {"swift": {"version": version, **more}}}


NCCL, SWIFT, PRETRAIN = "nccl-all-reduce", "swift-dpo", "qwen3-30b-pretrain"
GIVEN: list[tuple[str, Object, Callable[[Object], Object], Object]] = [
    (NCCL, {}, spec, {"ttlSecondsAfterFinished": 12 * 3600}),
    (NCCL, {"restarts": 3}, spec, {"failurePolicy": {"maxRestarts": 3}}),
    (NCCL, {"restarts": 3}, job, {"backoffLimit": 0}),
    (NCCL, {"restarts": 3}, pod, {"restartPolicy": "Never"}),
    (NCCL, {"placement": {"flexStart": True, "nodeSelector": {"pool": "a"}}},
     pod, {"nodeSelector": {"cloud.google.com/gke-flex-start": "true", "pool": "a"}}),
    (NCCL, {"placement": {"accelerator": "nvidia-b200"}},
     pod, {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-b200"}}),
    (NCCL, {"placement": {"targetNodes": ["a", "b"], "avoidNodes": ["c"]}},
     pod, {"affinity": {"nodeAffinity": AFFINITY}}),
    (NCCL, {"network": {"hostNetwork": True}}, pod, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}),
    (NCCL, {"network": {"hostNetwork": True}}, pod_annotations, NO_CARDS),
    (NCCL, {"network": {"hostNetwork": True}}, container, {"securityContext": {"privileged": True}}),
    (NCCL, {"security": {"privileged": True}}, container, {"securityContext": {"privileged": True}}),
    (NCCL, {"security": {"capabilities": ["IPC_LOCK", "SYS_RESOURCE"]}},
     container, {"securityContext": {"capabilities": {"add": ["IPC_LOCK", "SYS_RESOURCE"]}}}),
    (NCCL, {}, container, {"securityContext": None}),
    (NCCL, {}, installer, {"name": "nccl-plugin-installer"}),
    (NCCL, {"network": {"gib": {"image": "registry.example/gib:v1"}}}, installer, {"image": "registry.example/gib:v1"}),
    *((NCCL, {"network": {"nccl": {"debug": level}}}, environment, {"NCCL_DEBUG": level})
      for level in ("VERSION", "WARN", "INFO", "TRACE")),
    (NCCL, {}, environment, {"MASTER_ADDR": "anna-workload-0-0.anna.team.svc.cluster.local",
                             "DOMAIN_NAME": "anna.team.svc.cluster.local"}),
    (NCCL, {"recipe": {"nccl": {"end": "8G", "warmup": 0}}}, environment,
     {"A4_NCCL_BEGIN": "2M", "A4_NCCL_END": "8G", "A4_NCCL_FACTOR": "2", "A4_NCCL_ITERS": "1", "A4_NCCL_WARMUP": "0"}),
    ("ddp-smoke", {}, environment, {"A4_NCCL_BEGIN": None, "A4_NCCL_END": None}),
    (NCCL, {"network": {"nccl": {"preset": "explicit"}}, "env": {"NCCL_IB_TC": "1"}}, environment, {"NCCL_IB_TC": "1"}),
    *((PRETRAIN, values, environment, {"A4_OUTPUT_BASEPATH": folder}) for values, folder in (
        (bucket({}), "/mnt/logs/run"),
        (bucket({"mine": "/gcs:implicit-dirs"}), "/gcs/logs/run"),
        (bucket({"mine": "/results"}), "/results/logs/run"),
        (bucket({"a-samples": "/artifacts", "mine": "/gcs"}), "/gcs/logs/run"),
        (bucket({"first": "/a", "second": "/b"}), "/mnt/logs/run"),
        (bucket({"mine": "/gcs"}, "/mnt/logs/run"), "/mnt/logs/run"),
    )),
    *((SWIFT, swift(version), environment, {"A4_MEGATRON_BRANCH": f"core_r0.{branch}.0"}) for version, branch in (
        ("3.7.1", 13), ("3.9", 13), ("3.10.3", 14), ("3.11.0", 14), ("3.12.1", 15), ("4.0.0", 15),
    )),
    (SWIFT, swift("3.12.1", megatronBranch="mine"), environment, {"A4_MEGATRON_BRANCH": "mine"}),
]  # fmt: skip
"""Values of a recipe, and what they make of a part of its objects: None is a key that is not there."""


@pytest.mark.parametrize(("recipe", "values", "part", "expected"), GIVEN)
async def test_values_reach_their_place(
    recipe: str, values: Object, part: Callable[[Object], Object], expected: Object
) -> None:
    found = part(await jobset(recipe, **values))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("gpus", "pods", "each"), [*((small, 1, small) for small in range(1, 9)), (16, 2, 8), (32, 4, 8), (128, 16, 8)]
)
async def test_gpus_become_pods_of_eight(gpus: int, pods: int, each: int) -> None:
    made = await jobset(gpus=gpus)
    assert (job(made)["parallelism"], job(made)["completions"]) == (pods, pods)
    assert container(made)["resources"] == {"limits": {"nvidia.com/gpu": each}}
    variables = environment(made)
    assert (variables["WORLD_SIZE"], variables["NNODES"], variables["GPUS_PER_NODE"]) == (
        str(gpus),
        str(pods),
        str(each),
    )


@pytest.mark.parametrize("gpus", [0, 9, 12, 20, -8])
async def test_other_counts_are_refused(gpus: int) -> None:
    with pytest.raises(ConsoleError, match="GPUs must be"):
        await jobset(gpus=gpus)


@pytest.mark.parametrize(
    ("owner", "label"),
    [("anna@example.com", "anna"), ("anna", "anna"), ("Anna Lang", "Anna-Lang"), ("_x" * 60, "x" + "_x" * 30)],
)
async def test_the_job_and_its_pods_say_whose_they_are(owner: str, label: str) -> None:
    made = await jobset(owner=owner, queue="a4", maxRunDuration=60)
    key = "a4.console/owner"
    template = job(made)["template"]["metadata"]
    for meta in (made["metadata"], template):
        assert (meta["labels"][key], meta["annotations"][key]) == (label, owner)
    assert made["metadata"]["annotations"]["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] == "60"


async def test_without_an_owner_nobody_is_named() -> None:
    assert "a4.console/owner" not in json.dumps(await render(maxRunDuration=60))


async def test_without_a_queue_kueue_is_not_asked() -> None:
    made = await jobset(priorityClass="high", maxRunDuration=60)
    assert not [label for label in made["metadata"]["labels"] if "kueue" in label]
    assert not [name for name in pod_annotations(made) if "kueue" in name]
    assert job(made)["activeDeadlineSeconds"] == 60


async def test_a_queue_brings_topology_priority_and_duration() -> None:
    made = await jobset(queue="a4", priorityClass="high", maxRunDuration=60)
    labels = made["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "a4"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert labels["kueue.x-k8s.io/max-exec-time-seconds"] == "60"
    # Kueue reads it off the JobSet; on the pods, where the recipes' charts put it, it does nothing.
    assert made["metadata"]["annotations"] == {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60"}
    assert pod_annotations(made)["kueue.x-k8s.io/podset-preferred-topology"] == "cloud.google.com/gce-topology-block"
    assert "activeDeadlineSeconds" not in job(made)
    none = await jobset(queue="a4", topology={"request": "none"})
    assert not [name for name in pod_annotations(none) if "topology" in name]


async def test_every_object_carries_the_releases_labels() -> None:
    objects = await render()
    for made in [*objects.values(), objects["JobSet"]["spec"]["replicatedJobs"][0]["template"]]:
        labels = made["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "anna"
        assert labels["a4.console/recipe"] == "nccl-all-reduce"


async def interfaces(**values: Value) -> dict[str, str]:
    """Network of each interface that the pods ask for."""
    asked = json.loads(pod_annotations(await jobset(**values))["networking.gke.io/interfaces"])
    return {entry["interfaceName"]: entry["network"] for entry in asked}


async def test_interfaces_are_those_that_every_a4_cluster_has() -> None:
    cards = {f"eth{number + 2}": f"rdma-{number}" for number in range(8)}
    assert await interfaces() == {"eth0": "default", **cards}
    assert environment(await jobset())["NVTE_UB_SOCKET_IFNAME"] == "eth0"
    nine = [f"net-{number}" for number in (0, *range(2, 10))]
    assert await interfaces(network={"subnetworks": nine}) == {name.replace("net-", "eth"): name for name in nine}


async def test_ten_names_bring_a_second_interface_for_tcp() -> None:
    network: Value = {"subnetworks": [f"net-{number}" for number in range(10)]}
    assert await interfaces(network=network) == {f"eth{number}": f"net-{number}" for number in range(10)}
    assert environment(await jobset(network=network))["NVTE_UB_SOCKET_IFNAME"] == "eth1"
    with pytest.raises(ConsoleError, match="Network names must be nine or ten network names, or none"):
        await jobset(network={"subnetworks": ["default", "rdma-0"]})


@pytest.mark.parametrize("gpus", range(1, 8))
async def test_pods_that_take_part_of_a_node_ask_for_no_card_of_it(gpus: int) -> None:
    """A node gives each RDMA card to one pod: the second small pod would wait for ever."""
    made = await jobset(gpus=gpus)
    assert not [name for name in pod_annotations(made) if "networking" in name]
    # gIB would find no card, and NCCL fails when the network it is told to use has none.
    settings = environment(made)
    assert settings["NCCL_NET"] == "Socket"
    assert settings["NVTE_UB_SOCKET_IFNAME"] == "eth0"
    assert not {"NCCL_INIT_SCRIPT", "NCCL_TUNER_CONFIG_PATH"} & settings.keys()
    # The library and the tests of gIB are there all the same.
    assert settings["NCCL_PLUGIN_PATH"] == "/usr/local/gib/lib64"
    host = environment(await jobset(gpus=gpus, network={"hostNetwork": True}))
    assert (host["NCCL_NET"], host["NVTE_UB_SOCKET_IFNAME"]) == ("gIB", "eth1")


async def test_tolerations_are_the_persons_beside_ours() -> None:
    mine: dict[str, Value] = {
        "key": "dedicated",
        "operator": "Equal",
        "value": "1",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    made = await jobset(placement={"tolerations": [mine]})
    assert made["metadata"]["namespace"] == "team"
    assert pod(made)["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "cloud.google.com/impending-node-termination", "operator": "Exists"},
        {"key": "cloud.google.com/gke-queued", "operator": "Exists"},
        mine,
    ]


async def test_requests_and_limits_are_those_of_both_containers() -> None:
    """A ResourceQuota counts the container that installs gIB as well."""
    amounts = {"cpu": "32", "memory": "512Gi", "ephemeral-storage": "100Gi"}
    made = await jobset(gpus=16, requests=amounts, limits={"memory": "1Ti"}, resources={"rdma/hca": "1"})
    assert installer(made)["resources"] == {"requests": amounts, "limits": {"memory": "1Ti"}}
    limits = {"memory": "1Ti", "nvidia.com/gpu": 8, "rdma/hca": "1"}
    assert container(made)["resources"] == {"requests": amounts, "limits": limits}
    assert "resources" not in installer(await jobset())
    download = await jobset("qwen3-download", requests={"cpu": "4"}, storage={"nfs": {"claim": "nfs-pvc"}})
    assert container(download)["resources"] == {"requests": {"cpu": "4"}}


@pytest.mark.parametrize("amount", [{"cpus": "3"}, {"cpu": "many"}, {"memory": "1 Gi"}, {"nvidia.com/gpu": "1"}])
@pytest.mark.parametrize("kind", ["requests", "limits"])
async def test_other_amounts_are_refused(kind: str, amount: Value) -> None:
    with pytest.raises(ConsoleError, match=r"must be (cpu, memory or|one of cpu, memory, )"):
        await jobset(**{kind: amount})


async def test_cards_are_claimed_where_dranet_manages_them() -> None:
    objects = await render(network={"dranet": True})
    made = objects["JobSet"]
    assert not [name for name in pod_annotations(made) if "networking" in name]
    assert pod(made)["resourceClaims"] == [{"name": "rdma", "resourceClaimTemplateName": "anna-rdma"}]
    assert container(made)["resources"] == {"limits": {"nvidia.com/gpu": 8}, "claims": [{"name": "rdma"}]}
    assert "resources" not in installer(made)
    assert environment(made)["NCCL_NET"] == "gIB"
    template = objects["ResourceClaimTemplate"]
    assert (template["apiVersion"], template["metadata"]["name"]) == ("resource.k8s.io/v1", "anna-rdma")
    (asked,) = template["spec"]["spec"]["devices"]["requests"]
    assert asked["exactly"] == {"deviceClassName": "mrdma.google.com", "allocationMode": "ExactCount", "count": 8}


@pytest.mark.parametrize("values", [{"gpus": 4}, {"network": {"dranet": True, "hostNetwork": True}}])
async def test_no_card_is_claimed_by_part_of_a_node_or_in_its_network(values: dict[str, Value]) -> None:
    objects = await render(**{"network": {"dranet": True}, **values})
    assert "ResourceClaimTemplate" not in objects
    assert "resourceClaims" not in pod(objects["JobSet"])


async def test_without_gib_nothing_of_it_is_left() -> None:
    made = await jobset(image="plain", network={"gib": {"enabled": False}})
    assert "initContainers" not in pod(made)
    assert "gib" not in json.dumps(made).lower()


async def test_environment_is_text_and_has_no_name_twice() -> None:
    made = await jobset(
        env={"A": "1", "B": "true", "RUN_NAME": "plain", "NVTE_UB_SOCKET_IFNAME": None},
        secrets={"HF_TOKEN": "hub/token", "RUN_NAME": "runs/name"},
    )
    variables = environment(made)
    assert (variables["A"], variables["B"]) == ("1", "true")
    assert variables["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert variables["RUN_NAME"] == {"secretKeyRef": {"name": "runs", "key": "name"}}
    assert "NVTE_UB_SOCKET_IFNAME" not in variables


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "TOKEN"])
async def test_a_secret_is_not_given_in_the_open(name: str) -> None:
    (problem,) = CATALOGUE.plan_problems(LaunchPlan("ddp-smoke", "anna", "team", {"env": {name: "hf_abcdef"}}))
    assert problem.path == "env"
    assert name in problem.message
    assert "under Secrets" in problem.message
    assert "hf_abcdef" not in problem.message
    assert environment(await jobset("ddp-smoke", secrets={name: "hub/token"}))[name]["secretKeyRef"]["name"] == "hub"


@pytest.mark.parametrize("name", ["TOKENIZER_PATH", "TOKENIZERS_PARALLELISM", "KEYS", "MAX_TOKENS"])
def test_words_that_only_sound_secret_are_variables(name: str) -> None:
    assert CATALOGUE.plan_problems(LaunchPlan("ddp-smoke", "anna", "team", {"env": {name: "x"}})) == ()


async def test_without_gpus_the_queue_is_not_asked() -> None:
    """A ClusterQueue of GPUs never admits pods that take none."""
    made = await jobset("qwen3-download", queue="a4", topology={"request": "preferred"})
    assert not [label for label in made["metadata"]["labels"] if "kueue" in label]
    assert not [name for name in pod_annotations(made) if "kueue" in name]
    with_gpus = await jobset("qwen3-download", queue="a4", gpus=8)
    assert with_gpus["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "a4"


async def test_nothing_is_mounted_that_was_not_named() -> None:
    assert {mount["name"] for mount in container(await jobset())["volumeMounts"]} == {
        "launchers", "ssh", "shm", "gib", "third-party",
    }  # fmt: skip
    made = await jobset(storage={"pvc": {"nfs.claim": "/mnt"}, "ssd": "/ssd"})
    assert {"name": "pvc-nfs-claim", "persistentVolumeClaim": {"claimName": "nfs.claim"}} in pod(made)["volumes"]
    assert {"name": "pvc-nfs-claim", "mountPath": "/mnt"} in container(made)["volumeMounts"]


@pytest.mark.parametrize("name", ["true", "null", "on", "y"])
async def test_words_of_yaml_stay_names(name: str) -> None:
    objects = await render("nccl-all-reduce", name, queue="123", serviceAccount="1e3", image="null")
    assert objects["JobSet"]["metadata"]["name"] == name
    assert objects["JobSet"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "123"
    assert pod(objects["JobSet"])["serviceAccountName"] == "1e3"
    assert container(objects["JobSet"])["image"] == "null"
    assert environment(objects["JobSet"])["JOB_ID"] == name


async def test_a_recipe_gets_its_own_launchers_only() -> None:
    data = (await render("ddp-smoke"))["ConfigMap"]["data"]
    assert set(data) == OF_EVERY_POD | {"ddp-smoke.sh", "ddp-smoke.py"}


async def test_rendering_twice_gives_the_same_but_for_the_keys() -> None:
    """What was looked at is what is installed: no time and no random word in the objects."""
    assert await render() == await render()


async def test_two_releases_share_no_key() -> None:
    helm = Helm()
    values = CATALOGUE.chart_values(LaunchPlan("interactive", "anna", "team", {}))
    texts = [
        next(
            text
            for text in await helm.render(CATALOGUE.chart, values, name=name, namespace="team")
            if "kind: Secret" in text
        )
        for name in ("anna", "ben")
    ]
    keys = [value for text in texts for value in yaml.safe_load(text)["data"].values()]
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    ("preset", "some"),
    [
        ("gib", {}),
        ("explicit", {"NCCL_CROSS_NIC": "0", "NCCL_IB_TC": "52", "NCCL_TUNER_PLUGIN": "none"}),
        ("infiniband", {"NCCL_IB_DISABLE": "0", "NCCL_IB_TC": "136", "NCCL_IB_GID_INDEX": "3"}),
    ],
)
async def test_presets_of_nccl(preset: str, some: dict[str, str]) -> None:
    variables = environment(await jobset(network={"nccl": {"preset": preset}}))
    assert {name: variables.get(name) for name in some} == some
    assert ("A4_NCCL_OWN" in variables) is bool(some)
    eleven = {"NCCL_CROSS_NIC", "NCCL_NET_GDR_LEVEL", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE",
              "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_TC", "NCCL_IB_FIFO_TC",
              "NCCL_SHIMNET_SHIM_LAYERS", "NCCL_MIN_NCHANNELS", "NCCL_TUNER_PLUGIN"}  # fmt: skip
    assert (eleven <= set(variables)) is (preset == "explicit")


async def test_your_own_script_is_laid_beside_its_launcher() -> None:
    script: dict[str, Value] = {
        "text": "echo mine\n",
        "before": "echo first",
        "config": "a: 1\n",
        "configFile": "nemo-config.yaml",
        "arguments": ["--steps", "100", "true"],
    }
    objects = await render("own-script", recipe={"script": script})
    data = objects["ConfigMap"]["data"]
    assert [data[f"own-script-{name}"] for name in ("main", "before", "config")] == [
        "echo mine\n",
        "echo first",
        "a: 1\n",
    ]
    assert container(objects["JobSet"])["args"] == ["--steps", "100", "true"]
    assert environment(objects["JobSet"])["A4_CONFIG_PATH"] == "/workload/configs/nemo-config.yaml"
    plain = await render("own-script")
    assert "args" not in container(plain["JobSet"])
    assert not {"own-script-before", "own-script-config"} & set(plain["ConfigMap"]["data"])


@pytest.mark.slow(reason="renders the whole chart by Helm again and again", fast_rows=4)
@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
async def test_shared_launchers_go_with_the_recipes_that_source_them(recipe: str) -> None:
    data = (await render(recipe))["ConfigMap"]["data"]
    sourced = {name for text in data.values() for name in re.findall(r'source "\$here/([-\w]+\.sh)"', text)}
    sourced |= {"run.sh", "prepare.sh", f"{recipe}.sh"}
    if "step_train" in data[f"{recipe}.sh"]:
        sourced.add("torchrun-megatron.sh")
    assert sourced == {name for name in data if name.endswith(".sh")}


@pytest.mark.parametrize(
    "recipe", [recipe.id for recipe in CATALOGUE.recipes() if "train" in recipe.id or "sft" in recipe.id]
)
async def test_the_chart_and_the_form_count_the_same_iterations(recipe: str) -> None:
    variables = environment(await jobset(recipe))
    if "A4_TRAIN_ITERATIONS" in variables:
        assert int(variables["A4_TRAIN_ITERATIONS"]) == iterations(CATALOGUE.defaults(recipe))


@pytest.mark.parametrize(
    ("recipe", "model", "name"),
    [
        *(("qwen3-sft", {"size": size}, f"Qwen/Qwen3-{size}") for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B")),
        ("qwen3-sft", {}, "Qwen/Qwen3-30B-A3B"),
        ("qwen3-sft", {"size": "A22B"}, "Qwen/Qwen3-235B-A22B"),
        ("qwen3-next-sft", {}, "Qwen/Qwen3-Next-80B-A3B-Instruct"),
        ("qwen3-sft", {"size": "8B", "id": "anna/tuned"}, "anna/tuned"),
    ],
)
async def test_the_size_chooses_the_model_and_the_model_its_folders(recipe: str, model: Value, name: str) -> None:
    values: dict[str, Value] = {"gpus": 16, "recipe": {"model": model, "train": {"globalBatch": 16}}}
    given = environment(await jobset(recipe, "anna", **values))
    assert given["A4_MODEL_ID"] == model_id(CATALOGUE.values(LaunchPlan(recipe, "anna", "team", values))) == name
    for variable in ("A4_HF_FOLDER", "A4_MCORE_FOLDER", "A4_EXPORT_FOLDER", "A4_PRETRAIN_CHECKPOINT_PATH"):
        assert name.partition("/")[2] in given[variable].rpartition("/")[2]
    assert f"Model {name}." in CATALOGUE.plan_notes(LaunchPlan(recipe, "anna", "team", values))


async def test_a_log_folder_has_the_pods_keep_what_they_print() -> None:
    plain = await jobset()
    assert container(plain)["command"] == ["bash", "/a4/launchers/run.sh"]
    assert "A4_LOG_FOLDER" not in environment(plain)
    made = await jobset(storage={"gcs": {"bucket": "/gcs"}, "logs": "/gcs/testbed-logs"})
    assert container(made)["command"] == ["bash", "/a4/launchers/logged.sh"]
    assert environment(made)["A4_LOG_FOLDER"] == "/gcs/testbed-logs"
    objects = await render("nccl-all-reduce", "anna", storage={"gcs": {"bucket": "/gcs"}, "logs": "/gcs/testbed-logs"})
    assert "logged.sh" in objects["ConfigMap"]["data"]
