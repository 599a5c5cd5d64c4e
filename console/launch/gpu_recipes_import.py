"""Converts values of Google's gpu-recipes charts to this chart's; values without a counterpart are reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.kube.nested_values import overlay_values
from console.launch.helm_command import CommandWord
from console.launch.helm_set_parser import FileValue, SetValues, format_key_path
from console.launch.recipes import Remark
from console.launch.values_schema import iter_leaf_values
from trainlog import is_confidential, looks_confidential

HelmPath = tuple[str, ...]

RENAMED_VALUES: dict[HelmPath, str] = {  # a value of theirs that is one of ours
    ("queue",): "queue",
    ("targetNodes",): "placement.targetNodes",
    ("avoidNodes",): "placement.avoidNodes",
    ("dwsSettings", "maxRunDurationSeconds"): "maxRunDuration",
    ("workload", "gpus"): "gpus",
    ("workload", "image"): "image",
    ("workload", "max_workload_restarts"): "restarts",
    ("workload", "arguments"): "recipe.script.arguments",
    ("workload", "defaultArguments"): "recipe.script.arguments",
    ("workload", "configFile"): "recipe.script.configFile",
    ("workload", "configPath"): "recipe.script.configFolder",
    ("workload", "sleepInfinity"): "keepAlive",
    ("volumes", "ssdMountPath"): "storage.ssd",
    ("volumes", "nfs", "ip"): "storage.nfs.server",
    ("volumes", "nfs", "volume"): "storage.nfs.share",
    ("volumes", "nfs", "region"): "storage.nfs.location",
    ("volumes", "nfs", "instance"): "storage.nfs.instance",
    ("volumes", "nfs", "storage"): "storage.nfs.size",
    ("volumes", "lustre", "ip"): "storage.lustre.server",
    ("volumes", "lustre", "filesystem"): "storage.lustre.filesystem",
    ("volumes", "lustre", "instanceName"): "storage.lustre.instance",
    ("volumes", "lustre", "projectId"): "storage.lustre.project",
    ("volumes", "lustre", "location"): "storage.lustre.location",
    ("volumes", "lustre", "storage"): "storage.lustre.size",
    ("volumes", "lustre", "mountPath"): "storage.lustre.path",
    ("volumes", "lustre", "pvcName"): "storage.lustre.claim",
    ("network", "hostNetwork"): "network.hostNetwork",
    ("network", "subnetworks"): "network.subnetworks",
}

DROPPED_VALUES: dict[HelmPath, str] = {  # a value of theirs that has no place here, and what is used instead
    ("workload", "workflow"): "no template reads it; steps are skipped with recipe.skip.clone and its like",
    ("workload", "gcsSidecarImage"): "the cluster's own driver brings the sidecar",
    ("workload", "psSidecarImage"): "there is no Parallelstore here; use storage.lustre or storage.pvc",
    ("volumes", "psVolumes"): "there is no Parallelstore here; use storage.lustre or storage.pvc",
    ("volumes", "lustre", "pvName"): "the volume's name follows from the claim's, storage.lustre.claim",
    ("volumes", "lustre", "storageClassName"): "a claim that is named needs no class",
    ("task_script",): "its text goes into recipe.script.before of own-script",
}

DERIVED_VALUES: tuple[HelmPath, ...] = (  # values that follow from others here, or that never did anything
    ("volumes", "gcsVolumes"),
    ("workload", "arguments[]"),
    ("workload", "defaultArguments[]"),
    ("network", "subnetworks[]"),
    ("launchers",),
)

RENAMED_VARIABLES: dict[str, str] = {  # a variable that is a value of its own here
    "SSH_PUBLIC_KEY": "ssh.publicKey",
    "SLEEP_INFINITY": "keepAlive",
    "PAI_WORKSPACE_ROOT": "recipe.workspace",
    "SKIP_ENV_SETUP": "recipe.skip.environment",
    "SKIP_CLONE_REPO": "recipe.skip.clone",
    "SKIP_DOWNLOAD_DATA": "recipe.skip.download",
    "SKIP_CHECKPOINT_CONVERSION": "recipe.skip.conversion",
    "SKIP_TRAINING": "recipe.skip.training",
    "USE_JSON_SFT": "recipe.train.alsoJson",
    "MP_DATASET_TYPE": "recipe.train.dataType",
    "MP_AC_LAYERS": "recipe.train.recomputeLayers",
    "MP_VP": "recipe.train.virtualStage",
    "MP_PP0_LAYERS": "recipe.train.firstStage",
    "MP_SFT_PACKING": "recipe.train.packing",
    "MODEL_PARALLEL_ARGS": "recipe.convert.parallel",
    "MASTER_PORT": "network.masterPort",
    "NCCL_DEBUG": "network.nccl.debug",
    "NCCL_SOCKET_IFNAME": "network.nccl.socketInterfaces",
    "MODELSCOPE_CACHE": "recipe.swift.cache",
    "MEGATRON_LM_PATH": "recipe.swift.megatron",
}

UNUSED_VARIABLES = (  # variables that no recipe of the documents reads
    "NEMO_CONFIG_PATH",
    "NEMO_CONFIG_NAME",
    "NEMO_LAUNCH_SCRIPT",
    "EXPERIMENT_NAME",
    "EXPERIMENT_ROOT_DIR",
    "TOKENIZER_PATH",
)

TESTBED_ENVS = (  # workload.envs of the testbed's values.yaml, by place: what --set workload.envs[7].value is about
    "SSH_PUBLIC_KEY",
    "SLEEP_INFINITY",
    "HF_TOKEN",
    "NVTE_FWD_LAYERNORM_SM_MARGIN",
    "NVTE_BWD_LAYERNORM_SM_MARGIN",
    "GLOO_SOCKET_IFNAME",
    "TORCH_DISTRIBUTED_TRACING",
    "PAI_WORKSPACE_ROOT",
)

TESTBED_SCRIPT = "torchrun-stratup.sh"  # spelled so; it tests connections and all-reduce, and keeps its pods

RECIPE_OF_SCRIPT: dict[str, str] = {  # the documents' scripts, and the recipe that each is here
    "nccl-test.sh": "nccl-all-reduce",
    "torchrun-ddp-test.sh": "ddp-smoke",
    "pai-megatron-qwen3.sh": "qwen3-30b-pretrain",
    "pai-megatron-qwen3-next.sh": "qwen3-next-pretrain",
    "torchrun-startup.sh": "interactive",
    TESTBED_SCRIPT: "nccl-all-reduce",
}

RECIPE_KEYS = {
    "workload",
    "volumes",
    "workload_launcher",
    "pai_training_script",
    "tasSettings",
    "dwsSettings",
    "targetNodes",
}
"""Top-level keys that only the values of gpu-recipes charts have."""


@dataclass(slots=True)
class TranslatedValues:
    recipe: str = ""
    is_testbed: bool = False  # whether it is the testbed, which runs its tests and keeps what its pods print
    values: list[tuple[str, Any]] = field(default_factory=list)  # path and raw value; later ones win
    left_out: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    def set_value(self, path: str, value: Any) -> None:
        self.values.append((path, value))

    def leave_out(self, path: str, why: str) -> None:
        self.left_out.append(Remark(path, f"{path} was not imported: {why}."))

    def add_note(self, path: str, note_text: str) -> None:
        self.notes.append(Remark(path, note_text))


def merge_sources(
    trees: Iterable[Mapping[str, Any]], settings: Iterable[tuple[str, CommandWord]], out: TranslatedValues
) -> dict[str, Any]:
    """The merge of values files and options as by Helm; a value with an unknown variable is left out and reported."""
    values = SetValues()
    for tree in trees:
        values.root = overlay_values(values.root, tree)
    for option, word in settings:
        values.add(option, word.text, word.unknown_variables)
    for way, unknown in values.left_out:
        bucket = "gcsMounts" in way or "gcsVolumes" in way
        ours = RENAMED_VALUES.get(tuple(map(str, way)), "storage.gcs" if bucket else "its field")
        out.leave_out(format_key_path(way), f"{', '.join(unknown)} is not known here; type the value into {ours}")
    return values.root


def translate_values(root: dict[str, Any], own: set[str], texts: Mapping[str, str], out: TranslatedValues) -> None:
    """Translate a gpu-recipes chart's values into `out`; `own`: this chart's top names, `texts`: files."""
    _translate_scripts(root, texts, out)
    _convert_env_lists(root, out)
    _translate_topology(root, out)
    _translate_mounts(root, out)
    _translate_file_systems(root, out)
    _translate_gib(root, out)
    if out.is_testbed:
        _keep_testbed_logs(out)
    for way, path in RENAMED_VALUES.items():
        value = pop_at(root, way)
        if value not in ("", [], None):
            out.set_value(path, value)
    for way, why in DROPPED_VALUES.items():
        if pop_at(root, way) not in ("", None, False, [], {}):
            out.leave_out(".".join(way), why)
    for way in DERIVED_VALUES:
        pop_at(root, way)
    for name in [each for each in root if each not in own]:
        for unknown, _ in iter_leaf_values(root.pop(name), (name,)):
            why = "no value of this chart, nor of those that it understands, is called so"
            out.leave_out(format_key_path(unknown), why)


def _translate_scripts(root: dict[str, Any], texts: Mapping[str, str], out: TranslatedValues) -> None:
    launcher, training = pop_at(root, ("workload_launcher",)), pop_at(root, ("pai_training_script",))
    config = pop_at(root, ("workload_config",))
    if isinstance(launcher, FileValue):
        out.recipe = RECIPE_OF_SCRIPT.get(launcher.name, "own-script")
        if out.recipe == "own-script":
            _translate_own_script(launcher, "workload_launcher", "recipe.script.text", texts, out)
        elif launcher.name == TESTBED_SCRIPT and training is None:
            out.is_testbed = True
            out.set_value("keepAlive", True)
    if isinstance(training, FileValue):
        if training.name == "qwen3.sh":
            out.recipe = "qwen3-30b-pretrain-pai"
        else:
            out.recipe = "own-script"
            _translate_own_script(training, "pai_training_script", "recipe.script.text", texts, out)
    if isinstance(config, FileValue):
        _translate_own_script(config, "workload_config", "recipe.script.config", texts, out)


def _keep_testbed_logs(out: TranslatedValues) -> None:
    buckets: dict[str, str] = next((value for path, value in out.values if path == "storage.gcs"), {})
    if buckets:
        folder = str(next(iter(buckets.values()))).partition(":")[0]
        out.set_value("storage.logs", f"{folder}/testbed-logs")
    else:
        out.add_note("storage.logs", "The testbed keeps its logs in its bucket: none is known, so none are kept.")


def _translate_own_script(
    file: FileValue, key: str, path: str, texts: Mapping[str, str], out: TranslatedValues
) -> None:
    if str(file) in texts:
        out.set_value(path, texts[str(file)])
    else:
        out.leave_out(key, f"the file {file} cannot be read from here; put its text into {path} of own-script")


def _convert_env_lists(root: dict[str, Any], out: TranslatedValues) -> None:
    """Convert lists of environment variables to maps; --set lines may have given entries by index only."""
    for way in (("workload", "envs"), ("network", "ncclSettings")):
        given = pop_at(root, way)
        if isinstance(given, Mapping):  # a map is what people take it for
            given = [{"name": name, "value": value} for name, value in given.items()]
        entries = list(enumerate(given if isinstance(given, list) else ()))
        # What kind of training it is decides what other variables mean.
        entries.sort(key=lambda each: not (isinstance(each[1], Mapping) and each[1].get("name") == "TRAINING_MODE"))
        for place, entry in entries:
            if isinstance(entry, Mapping):
                _translate_env_entry(way, place, entry, out)


def _translate_env_entry(helm_path: HelmPath, index: int, entry: Mapping[str, Any], out: TranslatedValues) -> None:
    key, name, value = f"{'.'.join(helm_path)}[{index}]", entry.get("name"), entry.get("value")
    testbed = helm_path[-1] == "envs"
    if name is None and testbed and out.recipe != "qwen3-30b-pretrain-pai" and index < len(TESTBED_ENVS):
        name = TESTBED_ENVS[index]
        out.add_note(name, f"{key} was taken as {name}, which has that place in the testbed's values.yaml.")
    if name is None:
        out.leave_out(key, "which variable stands at that place is not known here; write it as env.NAME")
    elif value is not None:
        _translate_env(str(name), _as_text(value), out)


def _translate_env(name: str, value: str, out: TranslatedValues) -> None:
    if name == "TRAINING_MODE":
        if out.recipe.startswith("qwen3-next"):
            out.recipe = "qwen3-next-sft" if value == "sft" else "qwen3-next-pretrain"
        else:
            out.leave_out(name, "choose the recipe instead: qwen3-next-pretrain or qwen3-next-sft")
    elif name == "USE_JSON_SFT" and out.recipe == "qwen3-next-sft" and value == "true":
        out.recipe = "qwen3-next-sft-json"
    elif name in RENAMED_VARIABLES:
        if value or name != "SSH_PUBLIC_KEY":
            out.set_value(RENAMED_VARIABLES[name], value)
    elif value and name in UNUSED_VARIABLES:
        out.leave_out(name, "no recipe reads this variable")
    elif value and (is_confidential(name, value) or looks_confidential(value)):
        out.leave_out(name, f"secrets stay in Secrets; name one instead: secrets.{name}=SECRET/KEY")
    elif value:
        out.set_value(f"env.{name}", value)


def _translate_topology(root: dict[str, Any], out: TranslatedValues) -> None:
    request = pop_at(root, ("tasSettings", "topologyRequest"))
    for key, level in request.items() if isinstance(request, Mapping) else ():
        found = re.search(r"podset-(preferred|required|unconstrained)-topology$", str(key))
        if found is None:
            out.leave_out(f"tasSettings.topologyRequest.{key}", "use topology.request and topology.level")
        elif found[1] == "unconstrained":
            out.set_value("topology.request", "none")
        else:
            out.set_value("topology.request", found[1])
            out.set_value("topology.level", level)


def _translate_mounts(root: dict[str, Any], out: TranslatedValues) -> None:
    buckets: dict[str, str] = {}
    for place, mount in enumerate(_as_dicts(pop_at(root, ("volumes", "gcsMounts")))):
        bucket = _as_text(mount.get("bucketName") or "")
        if not bucket:
            continue
        if bucket.startswith("gs://"):
            out.add_note("storage.gcs", f"{bucket} was taken without gs://, as a bucket's name alone.")
            bucket = bucket.removeprefix("gs://").strip("/")
        folder = _as_text(mount.get("mountPath") or ("/gcs" if place == 0 else "/artifacts"))
        buckets[bucket] = f"{folder}:{_as_text(mount.get('mountOptions') or 'implicit-dirs')}"
    if buckets:
        out.set_value("storage.gcs", buckets)
    claims = {
        _as_text(mount["claimName"]): _as_text(mount.get("mountPath") or "/mnt")
        for mount in _as_dicts(pop_at(root, ("volumes", "pvcMounts")))
        if mount.get("claimName")
    }
    if "nfs-pvc" in claims:
        # The shared file system has fields of its own here.
        out.set_value("storage.nfs.claim", "nfs-pvc")
        out.set_value("storage.nfs.path", claims.pop("nfs-pvc"))
    if claims:
        out.set_value("storage.pvc", claims)


def _translate_file_systems(root: dict[str, Any], out: TranslatedValues) -> None:
    nfs = pop_at(root, ("volumes", "nfs", "enabled"))
    if _as_text(nfs) == "true":
        out.set_value("storage.nfs.claim", "nfs-pvc")
    lustre = pop_at(root, ("volumes", "lustre", "enabled"))
    if _as_text(lustre) == "true":
        out.set_value("storage.lustre.claim", "lustre-pvc")
        if out.recipe == "qwen3-next-pretrain":
            out.recipe = "qwen3-next-lustre"
    for kind, given in (("nfs", nfs), ("lustre", lustre)):
        if _as_text(given) == "false":
            # What describes a file system that is not used would only make one.
            pop_at(root, ("volumes", kind))


def _translate_gib(root: dict[str, Any], out: TranslatedValues) -> None:
    given = pop_at(root, ("network", "gibVersion"), NOT_SET)
    image = _as_text(given or "")
    if given is NOT_SET:
        return
    if not image:
        out.set_value("network.gib.enabled", False)
    elif "/" in image:
        out.set_value("network.gib.image", image)
    else:
        out.leave_out("network.gibVersion", "network.gib.image takes a whole image reference, not a version alone")


def _as_dicts(value: Any) -> list[Mapping[str, Any]]:
    """The entries of a list; an entry that is no map counts as an empty one."""
    return [each if isinstance(each, Mapping) else {} for each in value] if isinstance(value, list) else []


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


NOT_SET = object()  # nothing stands there, not even null


def pop_at(root: dict[str, Any], key_path: tuple[str, ...], default: object = None) -> Any:
    """Remove the value at a path and the maps that become empty; returns it, else `default`."""
    first, *rest = key_path
    if not rest:
        return root.pop(first, default)
    below = root.get(first)
    if not isinstance(below, dict):
        return default
    found = pop_at(below, tuple(rest), default)
    if not below:
        del root[first]
    return found
