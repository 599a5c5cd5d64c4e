"""Layouts of checkpoints: an entry per program, with patterns of its file names, per-rank files and step folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import basename

ORBAX_COMMIT_FILE = "commit_success.txt"  # Orbax writes it last, in buckets alone
STEP_IN_NAME = re.compile(r"(?i)(?:^|[^a-z])(iter|checkpoint|ckpt|global_step|step|epoch)[-_=]?(\d{1,12})(?!\d)")


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    name: str
    files: str  # pattern of names of files that make a folder a checkpoint; whose comes first here is its layout
    also: str = ""  # pattern of further files of which it has one
    ranks: str = ""  # pattern of paths that each rank has: what is before its numbers, these, what is behind them
    home: str = ""  # pattern of what is before these files where no folder is called by its step; groups name it
    unknown: str = ""  # why it is not known whether one is whole


LAYOUTS = (
    CheckpointLayout("Orbax", rf"{ORBAX_COMMIT_FILE}|_(?:CHECKPOINT_)?METADATA",
           home=r"((?:.*/)?\d{1,12}(?:\.orbax-checkpoint-tmp[^/]*)?)/(?:\w+/)?",
           unknown=f"it has no {ORBAX_COMMIT_FILE}, which is written in buckets alone"),
    CheckpointLayout("nanotron", r"[^/]*pp-rank-\d+-of-\d+_tp-rank-\d+-of-\d+\.safetensors",
           home=r"((?:.*/)?\d{1,12})/model/(?:.*/)?", unknown="which files belong to this layout is not known here"),
    CheckpointLayout("NVRx local", r"(iter_\d{7})_\d+_local(?:\.dirty)?\.pt", home=r"((?:.*/)?)\d{1,6}/",
           unknown="a machine has the files of its own ranks alone"),
    CheckpointLayout("Megatron torch_dist", r"\.metadata|[^/]+\.distcp", also=r"common\.pt|metadata\.json"),
    CheckpointLayout("torch DCP", r"\.metadata|[^/]+\.distcp", ranks=r"((?:.*/)?train/rank)(\d{1,5})(\.pt)"),  # OLMo's
    CheckpointLayout("Megatron torch", r"model_optim_rng\.pt",
           ranks=r"((?:(?!zero_pp).)*mp_rank_)(\d{1,5}(?:_\d{1,5}){0,2})((?:_model_states\.pt)?(?:/[^/]*)?)"),
    CheckpointLayout("safetensors", r"[^/]+\.safetensors", ranks=r"(.*rng_state_)(\d{1,5})(\.pth)"),
    CheckpointLayout("verl FSDP", r"model_world_size_\d+_rank_\d+\.pt",
                     ranks=r"(.*_world_size_\d{1,5}_rank_)(\d{1,5})(\.pt)"),
    CheckpointLayout("DeepSpeed", r"[^/]*mp_rank_\d{2}_model_states\.pt",
           ranks=r"(.*zero_pp_rank_)(\d{1,5}_mp_rank_\d{1,5})(_(?:model|optim)_states\.pt)"),
    CheckpointLayout("litgpt", r"lit_model\.pth(?:\.lora)?"),
    CheckpointLayout("Lightning", r"([^/]+\.ckpt)", home=r"((?:.*/)?)"),
    CheckpointLayout("torch.save", r"(?:pytorch_model[^/]*|adapter_model)\.bin"),
)  # fmt: skip
WEIGHTS_FILE = re.compile(rf"(?:^|/)(?:{'|'.join(each.files for each in LAYOUTS)})$")
RANK_FILE = re.compile(rf"^(?:{'|'.join(each.ranks for each in LAYOUTS if each.ranks)})$")
_STEPLESS_CHECKPOINT = re.compile("|".join(f"{each.home}(?:{each.files})" for each in LAYOUTS if each.home))


def detect_layout(paths: Iterable[str]) -> CheckpointLayout | None:
    names = [basename(path) for path in paths]
    for each in LAYOUTS:
        if all(any(map(re.compile(wanted).fullmatch, names)) for wanted in (each.files, each.also or each.files)):
            return each
    return None


def find_checkpoint_folder(path: str) -> str:
    """The checkpoint's folder in a path whose step is only in the file name; empty if the path has none."""
    found = _STEPLESS_CHECKPOINT.fullmatch(path)
    return "".join(each for each in found.groups() if each) if found else ""


def parse_step(name: str, layout: CheckpointLayout | None) -> int | None:
    """The training step in the name of a checkpoint folder, or file where the layout has one; None for epochs."""
    steps = [number for word, number in STEP_IN_NAME.findall(name) if word.lower() != "epoch"]
    if layout is not None and layout.home:
        steps += re.findall(r"^(\d{1,12})(?:$|\.orbax-checkpoint-tmp)", name)
    return int(steps[0]) if steps else None
