"""Checkpoints as Megatron saves them with torch.distributed.checkpoint: names and order are right, contents tiny."""

from __future__ import annotations

import json
import posixpath

from practice.node.pod_volumes import write_file
from practice.programs.steps import ProgramContext

FIRST_FACT = "pod 0"
"""Name of the fact with the context of pod 0, whose files include checkpoints saved to no volume."""
_SHARD = (
    b"PK\3\4" + b"practice cluster: these weights are made up" + b"PK\5\6" + bytes(18)
)  # as torch.save begins, ends
_BACKEND = {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}


def checkpoint_folder(context: ProgramContext) -> str:
    """Return the folder that a training saves to; SWIFT makes a relative one absolute."""
    if swift := context.env.get("A4_SWIFT_SAVE"):
        return posixpath.join(context.env.get("PAI_WORKSPACE_ROOT", "/"), swift)
    return f"{context.env.get('A4_OUTPUT_BASEPATH') or '/mnt/logs'}/checkpoint"


def save_shards(context: ProgramContext, number: int) -> None:
    for name in _shard_names(context):
        _write_file(context, f"iter_{number:07}/{name}", _SHARD)


def finish_checkpoint(context: ProgramContext, number: int) -> None:
    """Write the last files of a checkpoint, which rank 0 writes and without which it is incomplete."""
    _write_file(context, f"iter_{number:07}/common.pt", _SHARD)
    _write_file(context, f"iter_{number:07}/.metadata", _pickled_metadata(_shard_names(context)))
    _write_file(context, f"iter_{number:07}/metadata.json", json.dumps(_BACKEND).encode())
    _write_file(context, "latest_checkpointed_iteration.txt", str(number).encode())


def _shard_names(context: ProgramContext) -> list[str]:
    return [f"__{rank}_{part}.distcp" for rank in range(context.nodes * context.gpus) for part in range(2)]


def _write_file(context: ProgramContext, name: str, content: bytes) -> None:
    write_file(context.room.facts.get(FIRST_FACT, context), f"{checkpoint_folder(context)}/{name}", content)


def _pickled_metadata(shards: list[str]) -> bytes:
    """Return the pickle of DCP's Metadata with a _StorageInfo for each shard."""
    info = b"ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n)\x81"
    places = b"".join(
        _text(name)
        + info
        + b"}("
        + _text("relative_path")
        + _text(name)
        + _text("offset")
        + b"K\0"
        + _text("length")
        + b"K"
        + bytes([len(_SHARD)])
        + b"ub"
        for name in shards
    )
    made = b"ctorch.distributed.checkpoint.metadata\nMetadata\n)\x81}("
    return b"\x80\x02" + made + _text("state_dict_metadata") + b"}" + _text("storage_data") + b"}(" + places + b"uub."


def _text(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()
