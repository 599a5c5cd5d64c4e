"""Which program a container runs: by the recipe its environment names, by its command, or by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.practice.programs import ddp, megatron, nccl, plain, recipes, stages
from console.practice.programs.stages import staged

if TYPE_CHECKING:
    from console.practice.programs.script import Program

_TRAINING = ("SKIP_CLONE_REPO", "SKIP_DOWNLOAD_DATA", "SKIP_CHECKPOINT_CONVERSION", "SKIP_TRAINING")
_FROM_IMAGE = ("SKIP_ENV_SETUP", *_TRAINING)
_QWEN3_NEXT = staged(
    stages.environment, stages.clone, stages.download, stages.sync, stages.convert, megatron.train, megatron.train_json,
    keep=_FROM_IMAGE,
)  # fmt: skip
_JSON = staged(stages.clone, stages.download, stages.sync, stages.convert, megatron.train, keep=_TRAINING)
_SWIFT = staged(stages.megatron_core, stages.sync, megatron.train_swift)
_BODIES: dict[str, Program] = {
    "nccl-all-reduce": nccl.all_reduce,
    "connectivity": nccl.connectivity,
    "nccl-one-pod": nccl.one_pod,
    "ddp-smoke": ddp.smoke_test,
    "interactive": recipes.interactive,
    "qwen3-30b-pretrain-pai": _JSON,
    "qwen3-30b-pretrain": staged(
        stages.environment, stages.clone, stages.download, stages.sync, stages.convert, megatron.train,
        keep=_FROM_IMAGE,
    ),
    "qwen3-next-pretrain": _QWEN3_NEXT,
    "qwen3-next-lustre": _QWEN3_NEXT,
    "qwen3-next-sft": staged(
        stages.environment, stages.clone, stages.download, stages.build_data, stages.sync, stages.convert,
        megatron.train, megatron.train_json,
        keep=("SKIP_DATA_BUILD", *_FROM_IMAGE),
    ),
    "qwen3-next-sft-json": staged(
        stages.environment, stages.clone, stages.download, stages.sync, stages.convert, megatron.train,
        keep=_FROM_IMAGE,
    ),
    "qwen3-sft": staged(
        stages.clone, stages.download, stages.build_data, stages.sync, stages.convert, megatron.train,
        keep=("SKIP_DATA_BUILD", *_TRAINING),
    ),
    "qwen3-sft-json": _JSON,
    "qwen3-to-mcore": staged(stages.clone, stages.sync, stages.convert_always),
    "qwen3-to-hf": staged(stages.clone, stages.sync, stages.convert_always),
    "qwen3-next-to-mcore": staged(stages.environment, stages.clone, stages.sync, stages.convert_always),
    "qwen3-download": staged(stages.clone, stages.download),
    "qwen3-eval": staged(stages.clone, stages.download, stages.harness, stages.evaluate),
    "swift-export": staged(stages.megatron_core, stages.sync, stages.export),
    "swift-dpo": _SWIFT,
    "swift-dpo-multinode": _SWIFT,
    "swift-sft": _SWIFT,
    "own-script": staged(stages.script),
}  # fmt: skip
RECIPES: dict[str, Program] = {name: recipes.launched(name, body) for name, body in _BODIES.items()}


def choose(argv: list[str], env: dict[str, str], *, init: bool) -> Program:
    """Return the program of one container."""
    if init:
        return plain.installer
    recipe = RECIPES.get(env.get("A4_RECIPE", ""))
    if recipe is not None and any("launchers/run.sh" in part for part in argv):
        return recipe
    return plain.command
