"""Layouts of checkpoints beside each other, and of several files for each rank."""

from __future__ import annotations

import pytest

from tests.console.checkpoints.listings import survey_listing

DCP = "{0}/.metadata DCP:__0_0.distcp\n{0}/__0_0.distcp\n{0}/common.pt\n{0}/metadata.json\n"
HF = "{0}/model.safetensors\n{0}/config.json\n"
GRID = [f"{{0}}/mp_rank_{tp:02}_{pp:03}/{file}" for tp in range(2) for pp in range(2) for file in (
    "model_optim_rng.pt", "distrib_optim.pt")]  # fmt: skip
ZERO = [f"{{0}}/global_step9/{kind}_{rank}_mp_rank_00_{what}_states.pt" for rank in range(4) for kind, what in (
    ("bf16_zero_pp_rank", "optim"), ("zero_pp_rank", "model"))]  # fmt: skip
VERL = [f"{{0}}/actor/{kind}_world_size_4_rank_{rank}.pt" for kind in ("model", "optim") for rank in range(4)]
OLMO = [f"{{0}}/train/rank{rank}.pt" for rank in range(4)]
ORBAX = "{0}/items/_METADATA\n{0}/items/d/0a\n"
TUNE = "".join(f"{{0}}/ft-model-0000{at}-of-00002.safetensors\n" for at in (1, 2))


def lines(files: list[str], home: str, without: str = "") -> str:
    return "".join(f"{file.format(home)}\n" for file in files if not (without and file.endswith(without)))


@pytest.mark.parametrize(
    ("listing", "states"),
    [
        (DCP.format("o/iter_50") + HF.format("o/iter_50-hf"), ["complete", "complete"]),
        (DCP.format("iter_10") + DCP.format("iter_20").replace("iter_20/common.pt\n", ""), ["complete", "incomplete"]),
        (HF.format("step-1") + "step-2/config.json\n", ["complete", "incomplete"]),
        (lines(GRID, "iter_5"), ["complete"]),
        (lines(GRID, "release"), ["complete"]),
        (lines(ZERO, "checkpoint-9") + "checkpoint-9/latest TEXT:global_step9\n", ["complete"]),
        (lines(ZERO, "checkpoint-9") + "checkpoint-9/latest TEXT:global_step8\n", ["incomplete"]),
        (lines(VERL, "global_step_9"), ["complete"]),
        (DCP.format("step9/model_and_optim") + lines(OLMO, "step9"), ["complete"]),
        (DCP.format("m-step=9-last/weights"), ["complete"]),
        (DCP.format("m-step=9-last/weights") + "m-step=9-last-unfinished EMPTY\n", ["incomplete"]),
        (ORBAX.format("c/100"), ["cannot tell"]),
        (ORBAX.format("c/100") + "c/100/commit_success.txt\n", ["complete"]),
        (ORBAX.format("c/100") + "c/100/commit_success.txt\n" + ORBAX.format("c/150"), ["complete", "incomplete"]),
        (ORBAX.format("c/100.orbax-checkpoint-tmp-17"), ["incomplete"]),
        (
            "10/checkpoint_metadata.json\n10/model/model/decoder/0/w_pp-rank-0-of-1_tp-rank-0-of-1.safetensors\n",
            ["cannot tell"],
        ),
        (
            TUNE.format("epoch_1") + "epoch_1/model.safetensors.index.json INDEX:"
            "ft-model-00001-of-00002.safetensors,ft-model-00002-of-00002.safetensors\n", ["complete"],
        ),
        (TUNE.format("epoch_1"), ["incomplete"]),
    ],
)  # fmt: skip
def test_layouts(listing: str, states: list[str]) -> None:
    assert [each.state.value for each in survey_listing(listing).checkpoints] == states


@pytest.mark.parametrize(
    ("files", "home", "gone"),
    [
        (GRID, "iter_5", "mp_rank_01_000/model_optim_rng.pt"),
        (GRID, "iter_5", "mp_rank_01_001/distrib_optim.pt"),
        (GRID, "release", "mp_rank_00_001/model_optim_rng.pt"),
        (ZERO, "checkpoint-9", "global_step9/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"),
        (VERL, "global_step_9", "actor/model_world_size_4_rank_3.pt"),
        ([*OLMO, "{0}/model.safetensors"], "step9", "train/rank1.pt"),
    ],
)
def test_a_hole_in_what_each_rank_wrote_is_seen(files: list[str], home: str, gone: str) -> None:
    [found] = survey_listing(lines(files, home, gone)).checkpoints
    assert found.state.value == "incomplete"
    assert found.problems == (f"{gone} is missing",)
