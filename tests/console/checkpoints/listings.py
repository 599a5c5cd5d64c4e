"""Checkpoints as lists of files with what they hold, a file a line."""

import asyncio
import io
import json
import pickle
import sys
import zipfile
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from console.checkpoints.completeness import StoredFile, Survey, survey_checkpoints

NOW = 1.8e9


def survey_listing(listing: str) -> Survey:
    """Judge the files of a listing: paths, and DCP:, INDEX:, TEXT:, CUT or EMPTY behind what is not sound."""
    lines = (line.partition(" ") for line in listing.splitlines() if line.strip())
    data = {file: _content(file, what) for file, _, what in lines}
    files = [StoredFile(file, len(content), NOW - 3600) for file, content in data.items()]
    return asyncio.run(survey_checkpoints(files, _Reader(data), NOW, "ck"))


class _Reader:
    def __init__(self, data: Mapping[str, bytes]) -> None:
        self._data = data

    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._data[path][:size] for path, size in bytes_by_path.items() if path in self._data}

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._data[path][-size:] for path, size in bytes_by_path.items() if path in self._data}


def _content(path: str, what: str) -> bytes:
    """What the file holds, as a line of a listing tells it; a sound file of its kind where it tells nothing."""
    kind, _, rest = what.partition(":")
    if kind == "DCP":
        return _dcp(rest.split(","))
    if kind == "INDEX":
        return json.dumps({"weight_map": dict(enumerate(rest.split(",")))}).encode()
    if kind in {"TEXT", "EMPTY"}:
        return rest.encode()
    if path.endswith(".safetensors"):
        head = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        return len(head).to_bytes(8, "little") + head + bytes(16)
    if path.endswith((".pt", ".pth", ".bin", ".ckpt", ".lora")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr("archive/data.pkl", b"x" * 2000)
        return out.getvalue()[: -30 if kind == "CUT" else None]
    return b"{}" if path.endswith(".json") else b"x" * 100


def _dcp(files: list[str]) -> bytes:
    """The metadata of torch.distributed.checkpoint that needs these files, pickled as torch does."""
    for name in ("torch", "torch.distributed", "torch.distributed.checkpoint"):
        sys.modules.setdefault(name, ModuleType(name))
    metadata, index, place = (
        _make_class(name, f"torch.distributed.checkpoint.{module}")
        for name, module in (("Metadata", "metadata"), ("MetadataIndex", "metadata"), ("_StorageInfo", "filesystem"))
    )
    whole = metadata()
    whole.state_dict_metadata, whole.storage_data = {}, {}
    for number, file in enumerate(files):
        key, info = index(), place()
        key.fqn, key.offset, key.index = f"w{number}", None, None
        info.relative_path, info.offset, info.length = file, 0, 50
        whole.storage_data[key] = info
    return pickle.dumps(whole, protocol=4)


def _make_class(name: str, module: str) -> Any:
    where = sys.modules.setdefault(module, ModuleType(module))
    if not hasattr(where, name):
        setattr(where, name, type(name, (), {"__module__": module, "__qualname__": name}))
    return getattr(where, name)
