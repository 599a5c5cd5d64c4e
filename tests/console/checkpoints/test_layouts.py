"""Layouts of checkpoints beside each other, and of several files for each rank."""

import pytest

from tests.console.checkpoints.listings import survey_listing

DCP = "{0}/.metadata DCP:__0_0.distcp\n{0}/__0_0.distcp\n{0}/common.pt\n{0}/metadata.json\n"
PURE = "{0}/.metadata DCP:__0_0.distcp\n{0}/__0_0.distcp\n"
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


HOME = "{0}/pytorch_model_fsdp_0/"
FSDP = HOME + ".metadata DCP:__0_0.distcp,__1_0.distcp\n" + HOME + "__0_0.distcp\n" + HOME + "__1_0.distcp\n"
HF2 = HF + "{0}/optimizer.pt\n{0}/scheduler.pt\n{0}/trainer_state.json\n{0}/rng_state_0.pth\n{0}/rng_state_1.pth\n"
LIT = "{0}/lit_model.pth\n{0}/hyperparameters.yaml\n"
NVRX = "s/{0}/iter_0000100_{0}_local.pt\n"
TUNED = TUNE.format("epoch_1") + "epoch_1/model.safetensors.index.json INDEX:" + ",".join(
    f"ft-model-0000{at}-of-00002.safetensors" for at in (1, 2)) + "\n"  # fmt: skip
WHOLE, NOT, UNKNOWN = "complete", "incomplete", "cannot tell"


@pytest.mark.parametrize(
    ("listing", "found"),
    [
        (DCP.format("o/iter_50") + HF.format("o/iter_50-hf"), [(50, WHOLE), (50, WHOLE)]),
        (DCP.format("iter_10") + DCP.format("iter_20").replace("iter_20/common.pt\n", ""), [(10, WHOLE), (20, NOT)]),
        (PURE.format("step-2000") + HF.format("step-3000"), [(2000, WHOLE), (3000, WHOLE)]),
        (HF.format("step-1") + "step-2/config.json\n", [(1, WHOLE), (2, NOT)]),
        (DCP.format("step-10").replace("step-10/.metadata DCP:__0_0.distcp\n", ""), [(10, NOT)]),
        (DCP.format("iter_9").replace("iter_9/__0_0.distcp\n", ""), [(9, NOT)]),
        (lines(GRID, "iter_5"), [(5, WHOLE)]),
        (lines(GRID, "release"), [(None, WHOLE)]),
        (lines(GRID, "iter_5", "mp_rank_01_000/model_optim_rng.pt"), [(5, NOT)]),
        (lines(GRID, "iter_5", "mp_rank_01_001/distrib_optim.pt"), [(5, NOT)]),
        (lines(GRID, "release", "mp_rank_00_001/model_optim_rng.pt"), [(None, NOT)]),
        ("iter_7/mp_rank_00/model_optim_rng.pt\nlatest_checkpointed_iteration.txt TEXT:7\n", [(7, WHOLE)]),
        (HF2.format("checkpoint-9"), [(9, WHOLE)]),
        (HF2.format("step-8") + HF2.format("step-9").replace("9/optimizer.pt", "9/x"), [(8, WHOLE), (9, NOT)]),
        (HF2.format("checkpoint-9").replace("9/optimizer.pt", "9/optimizer.pt CUT"), [(9, NOT)]),
        (HF2.format("tmp-checkpoint-9"), [(9, NOT)]),
        (FSDP.format("checkpoint-9"), [(9, WHOLE)]),
        (FSDP.format("checkpoint-9").replace("0/__1_0.distcp\n", "0/x\n"), [(9, NOT)]),
        (lines(ZERO, "checkpoint-9") + "checkpoint-9/latest TEXT:global_step9\n", [(9, WHOLE)]),
        (lines(ZERO, "checkpoint-9") + "checkpoint-9/latest TEXT:global_step8\n", [(9, NOT)]),
        (lines(ZERO, "checkpoint-9", "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"), [(9, NOT)]),
        (lines(ZERO, "checkpoint-9", "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt"), [(9, UNKNOWN)]),
        (lines(ZERO, "c").replace("c/", "") + "latest TEXT:global_step9\nzero_to_fp32.py\n", [(9, WHOLE)]),
        (lines(VERL, "global_step_9") + "latest_checkpointed_iteration.txt TEXT:9\n", [(9, WHOLE)]),
        (lines(VERL, "global_step_9", "actor/model_world_size_4_rank_3.pt"), [(9, NOT)]),
        (DCP.format("step9/model_and_optim") + lines(OLMO, "step9"), [(9, WHOLE)]),
        (HF.format("step9") + lines(OLMO, "step9", "train/rank1.pt"), [(9, NOT)]),
        (DCP.format("m-step=9-last/weights"), [(9, WHOLE)]),
        (DCP.format("m-step=9-last/weights") + "m-step=9-last-unfinished EMPTY\n", [(9, NOT)]),
        (ORBAX.format("c/100"), [(100, UNKNOWN)]),
        (ORBAX.format("c/100") + "c/100/commit_success.txt\n", [(100, WHOLE)]),
        (ORBAX.format("c/100") + "c/100/commit_success.txt\n" + ORBAX.format("c/150"), [(100, WHOLE), (150, NOT)]),
        ("c/100/commit_success.txt\nc/100/items/_METADATA EMPTY\n", [(100, NOT)]),
        (ORBAX.format("c/100.orbax-checkpoint-tmp-17"), [(100, NOT)]),
        ("10/checkpoint_metadata.json\n10/model/d/w_pp-rank-0-of-1_tp-rank-0-of-1.safetensors\n", [(10, UNKNOWN)]),
        (TUNED, [(None, WHOLE)]),
        (TUNE.format("epoch_1"), [(None, NOT)]),
        ("v/epoch=3-step=1200.ckpt\nv/last.ckpt\nv/hparams.yaml\n", [(None, WHOLE), (1200, WHOLE)]),
        ("v/checkpoints/epoch=3-step=1200.ckpt CUT\n", [(1200, NOT)]),
        (PURE.format("epoch=0-step=10.ckpt"), [(10, WHOLE)]),
        (LIT.format("o/step-00001000") + LIT.format("o/final"), [(None, WHOLE), (1000, WHOLE)]),
        ("o/step-200/lit_model.pth.lora CUT\n", [(200, NOT)]),
        (NVRX.format(0) + NVRX.format(1), [(100, UNKNOWN)]),
        (NVRX.format(0) + NVRX.format(1).replace(".pt", ".dirty.pt"), [(100, NOT)]),
        ("checkpoint-9/adapter_model.bin\ncheckpoint-9/adapter_config.json\n", [(9, WHOLE)]),
        ("checkpoint-9/adapter_model.bin EMPTY\n", [(9, NOT)]),
        ("checkpoint_0/pytorch_model.bin\ncheckpoint_0/random_states_0.pkl\n", [(0, WHOLE)]),
        ("logs/train.log\ntokenizer.json\nrun/config.yaml\n", []),
    ],
)  # fmt: skip
def test_layouts(listing: str, found: list[tuple[int | None, str]]) -> None:
    assert [(each.step, each.state.value) for each in survey_listing(listing).checkpoints] == found


@pytest.mark.parametrize(
    ("pointer", "note"),
    [
        ("latest TEXT:global_step9", ""),
        ("latest TEXT:global_step12", "latest names step 12, which is not there"),
        ("latest TEXT:8", "latest names step 8, but step 9 is complete"),
    ],
)
def test_pointers_beside_the_folders_of_steps(pointer: str, note: str) -> None:
    listing = lines(VERL, "global_step_8") + lines(VERL, "global_step_9") + pointer
    assert survey_listing(listing).notes == ((note,) if note else ())
