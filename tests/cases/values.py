"""Listings of checkpoints and lines of Helm."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import sys
import zipfile
from types import ModuleType
from typing import TYPE_CHECKING, Any

from console.checkpoints.judge import StoredFile, survey_checkpoints
from console.errors import BadInput
from console.launch.helm_command import parse_helm_line
from tests.corpus.verdict import Case, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOW = 1.8e9
Rows = list[tuple[str, int | None, str, str]]
# beginning of the file's name: end of the path, step and state of each checkpoint, and a word of what is wrong
CHECKPOINTS: dict[str, Rows] = {
    "p01": [("iter_0000050", 50, "complete", ""), ("iter_0000050-hf", 50, "complete", "")],
    "p03": [("checkpoint-100", 100, "incomplete", "bf16_zero_pp_rank_5_mp_rank_00_optim_states.pt is missing")],
    "p05": [("iter_0000500", 500, "incomplete", "mp_rank_01_000")],
    "p07": [("consumed_samples=51200.0-last", 199, "incomplete", "-unfinished")],
    "p09": [("100", 100, "complete", ""), ("150", 150, "incomplete", "commit_success.txt")],
    "p11": [],
    "p12": [("release", None, "incomplete", "mp_rank_00_002")],
}
OTHERWISE: dict[str, Rows] = {"p11": [("10", 10, "cannot tell", ""), ("10", 10, "complete", "")]}
# beginning of the file's name: values by path, or a word of the refusal
HELM: dict[str, dict[str, Any] | str] = {
    "h01": {"a": True, "b": True, "c": False, "d": None},
    "h03": "list",
    "h05": {"a": [""]},
}


def helm(folder: Path) -> list[Case]:
    return [_helm_case(path) for path in sorted(folder.glob("h*"))]


def _helm_case(path: Path) -> Case:
    wanted: Any = HELM.get(path.name[:3])
    try:
        found: Any = {each.path: each.value for each in parse_helm_line(path.read_text(), {}).settings}
    except BadInput as refused:
        found = str(refused)
    right = repr(found) == repr(wanted) if isinstance(wanted, dict) else isinstance(found, str) and wanted in found
    return Case(path.name, Verdict.RIGHT if right else Verdict.WRONG, "" if right else repr(found))


def checkpoints(folder: Path) -> list[Case]:
    return [_checkpoint_case(path) for path in sorted(folder.glob("p*.files"))]


def _checkpoint_case(path: Path) -> Case:
    lines = (line.partition(" ") for line in path.read_text().splitlines() if line.strip())
    data = {file: _content(file, what) for file, _, what in lines}
    files = [StoredFile(file, len(content), NOW - 3600) for file, content in data.items()]
    found = asyncio.run(survey_checkpoints(files, _Reader(data), NOW, "ck"))
    wanted = CHECKPOINTS.get(path.name[:3])
    seen = [(each.path, each.step, each.state.value, "; ".join(each.problems)) for each in found.checkpoints]
    allowed = [wanted, *([each] for each in OTHERWISE.get(path.name[:3], ()))]
    right = any(rows is not None and _are_same(rows, seen) for rows in allowed)
    verdict = Verdict.RIGHT if right else Verdict.WRONG if seen else Verdict.NOTHING
    return Case(path.name, verdict, "" if right else repr(seen)[:400])


def _are_same(wanted: Rows, seen: Rows) -> bool:
    return len(wanted) == len(seen) and all(
        one[0].endswith(end) and one[1:3] == (step, state) and word in one[3]
        for (end, step, state, word), one in zip(wanted, sorted(seen), strict=True)
    )


class _Reader:
    def __init__(self, data: Mapping[str, bytes]) -> None:
        self._data = data

    async def read_heads(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._data[path][:size] for path, size in wanted.items() if path in self._data}

    async def read_tails(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._data[path][-size:] for path, size in wanted.items() if path in self._data}


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
    if path.endswith((".pt", ".pth", ".bin", ".ckpt")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr("archive/data.pkl", b"x" * 2000)
        return out.getvalue()
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
