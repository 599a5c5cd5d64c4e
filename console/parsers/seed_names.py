"""Names of the documents' charts and what they are called here: tables alone."""

from __future__ import annotations

Way = tuple[str, ...]

SAME: dict[Way, str] = {
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
"""A value of theirs that is one of ours."""

GONE: dict[Way, str] = {
    (
        "workload",
        "workflow",
    ): "no template reads it; steps are skipped with recipe.skip.clone and its like",
    ("workload", "gcsSidecarImage"): "the cluster's own driver brings the sidecar",
    ("workload", "psSidecarImage"): "there is no Parallelstore here; use storage.lustre or storage.pvc",
    ("volumes", "psVolumes"): "there is no Parallelstore here; use storage.lustre or storage.pvc",
    ("volumes", "lustre", "pvName"): "the volume's name follows from the claim's, storage.lustre.claim",
    ("volumes", "lustre", "storageClassName"): "a claim that is named needs no class",
    ("task_script",): "its text goes into recipe.script.before of own-script",
}
"""A value of theirs that has no place here, and what is used instead."""

FOLLOWS: tuple[Way, ...] = (
    ("volumes", "gcsVolumes"),
    ("workload", "arguments[]"),
    ("workload", "defaultArguments[]"),
    ("network", "subnetworks[]"),
    ("launchers",),
)
"""Values that follow from others here, or that never did anything."""

ENV: dict[str, str] = {
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
"""A variable that is a value of its own here."""

ENV_UNUSED = (
    "NEMO_CONFIG_PATH",
    "NEMO_CONFIG_NAME",
    "NEMO_LAUNCH_SCRIPT",
    "EXPERIMENT_NAME",
    "EXPERIMENT_ROOT_DIR",
    "TOKENIZER_PATH",
)
"""Variables that no recipe of the documents reads."""

TESTBED_ENVS = (
    "SSH_PUBLIC_KEY",
    "SLEEP_INFINITY",
    "HF_TOKEN",
    "NVTE_FWD_LAYERNORM_SM_MARGIN",
    "NVTE_BWD_LAYERNORM_SM_MARGIN",
    "GLOO_SOCKET_IFNAME",
    "TORCH_DISTRIBUTED_TRACING",
    "PAI_WORKSPACE_ROOT",
)
"""workload.envs of the testbed's values.yaml, by place: what --set workload.envs[7].value is about."""

LAUNCHERS: dict[str, str] = {
    "nccl-test.sh": "nccl-all-reduce",
    "torchrun-ddp-test.sh": "ddp-smoke",
    "pai-megatron-qwen3.sh": "qwen3-30b-pretrain",
    "pai-megatron-qwen3-next.sh": "qwen3-next-pretrain",
    "torchrun-startup.sh": "interactive",
    "torchrun-stratup.sh": "interactive",
}
"""The documents' scripts, and the recipe that each is here."""

MARKS = {"workload", "volumes", "workload_launcher", "pai_training_script", "tasSettings", "dwsSettings", "targetNodes"}
"""Names at the top that only the documents' charts have."""
