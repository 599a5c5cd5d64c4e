"""Which program a container runs: by the recipe its environment names, by its command, or by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.practice.programs import ddp, megatron, nccl, plain, recipes

if TYPE_CHECKING:
    from console.practice.programs.script import Program

_RECIPES: dict[str, Program] = {
    "nccl-all-reduce": recipes.launched("nccl-all-reduce", nccl.all_reduce),
    "ddp-smoke": recipes.launched("ddp-smoke", ddp.smoke_test),
    "ddp-train": recipes.launched("ddp-train", ddp.training),
    "interactive": recipes.launched("interactive", recipes.interactive),
    "qwen3-30b-pretrain": recipes.launched("qwen3-30b-pretrain", megatron.pretraining),
}


def choose(pod: dict[str, Any], spec: dict[str, Any], argv: list[str], env: dict[str, str], *, init: bool) -> Program:
    """Return the program of one container."""
    if init:
        return plain.installer
    recipe = _RECIPES.get(env.get("A4_RECIPE", ""))
    if recipe is not None and any("launchers/run.sh" in part for part in argv):
        return recipe
    return plain.command
