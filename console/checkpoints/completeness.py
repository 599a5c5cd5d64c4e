"""The complete ones of a run's saved states, judged by names, sizes and headers of files; nothing is loaded.

The layouts are in layouts.py. Wrong numbers in an intact file are not noticed, nor is a missing last file of a numbered
series if no index or other series has the count.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice, product, zip_longest
from posixpath import basename, dirname
from typing import Any, Protocol, TypeAlias

from console.checkpoints.layouts import (
    ORBAX_COMMIT_FILE,
    RANK_FILE,
    STEP_IN_NAME,
    WEIGHTS_FILE,
    CheckpointLayout,
    detect_layout,
    find_checkpoint_folder,
    parse_step,
)
from console.checkpoints.plain_pickle import PickledDict, UnbuiltObject, read_pickle
from console.decoding import check_json_cost, decode_apart
from console.errors import Unreadable

POINTER_FILES = ("latest_checkpointed_iteration.txt", "latest")  # Megatron's and DeepSpeed's: where to go on from
WRITING_SECONDS = 300.0  # seconds since the last change of an incomplete checkpoint in which it may still be written
JUDGING_SECONDS = 60.0  # after which judging 100,000 files is given up
MAX_METADATA_BYTES = 16 << 20  # bytes of the largest that is read: that of a model of some 100,000 shards has 10 MB
MAX_JSON_BYTES = 4 << 20
MAX_NAMED_MISSING = 1000  # files of all checkpoints together that are named as missing: names can announce 99,999 each
MAX_FILE_BYTES, MAX_PATH_CHARACTERS = 1 << 62, 4096  # bytes of a file, and characters of its name, that are believed
MAX_HEADER_BYTES = 8 << 20  # bytes of the header of a safetensors file; one tensor takes about 100
_UNFINISHED = re.compile(r"(?i)^tmp[-_.]|\.tmp$|[-_.](?:incomplete|unfinished|partial)$|\.orbax-checkpoint-tmp")
_UNFINISHED_MARK = "-unfinished"  # NeMo's empty file beside a checkpoint, until the save is done
_UNNAMED_RANK = re.compile(r"(?:^|/)mp_rank_\d{2}(?:_\d{3}){0,2}$")
_ZIP_SUFFIXES = re.compile(r"\.(?:pt|pth|bin|ckpt)(?:\.lora)?$")
_FILES_WITH_HEADERS = re.compile(  # files whose beginning is looked at, and of which none is empty
    r"\.(?:pt|pth|bin|ckpt|distcp|json|safetensors)(?:\.lora)?$|(?:^|/)\.metadata$"
)
_SAVED_BY_TORCH = re.compile(
    r"\.(?:pt|pth|ckpt|distcp)$|(?:^|/)(?:pytorch_model[^/]*|optimizer|scheduler|training_args)\.bin$"
)
_SHARD_FILE = re.compile(r"^(.*)-(\d{5})-of-(\d{5})(\.(?:safetensors|bin))$")
_TRAINING_STATE = re.compile(  # files of a training state that each checkpoint of a run has, if one has it
    r"(?:^|/)(?:optimizer|scheduler|scaler|common|model_optim_rng|distrib_optim|training_args|rng_state(?:_\d+)?)"
    r"\.(?:pt|pth|bin)$|(?:^|/)(?:trainer_state|config|metadata|args|adapter_config)\.json$"
    r"|(?:^|/)(?:adapter_)?model\.safetensors$|(?:^|/)\.metadata$"
)
_WORLD_SIZE = re.compile(r"_world_size_(\d{1,5})_rank_$")
_ZIP_END_BYTES = 22
_HEAD_BYTES = {".json": MAX_JSON_BYTES, ".safetensors": 8, ".distcp": 4}  # that are read
_FileMap: TypeAlias = "Mapping[str, StoredFile]"  # files by name, or by path below their checkpoint
_STORAGE_FIELDS = ("relative_path", "offset", "length")  # of a place in DCP's metadata


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str  # relative to the folder looked through
    size: int  # bytes
    modified_at: float  # seconds since the epoch


class FileReader(Protocol):
    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> Mapping[str, bytes]:
        """The first bytes of each readable file, as many as `bytes_by_path` requests."""

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> Mapping[str, bytes]:
        """The last bytes of each readable file, as many as `bytes_by_path` requests."""


class CheckpointState(StrEnum):
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    WRITING = "being written"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    path: str  # of its folder, relative to the one looked through; empty for that one itself
    format: str
    step: int | None  # as its folder is called; None if that names none
    state: CheckpointState
    bytes: int
    files: int
    modified: float  # when the last of its files was written
    problems: tuple[str, ...] = ()  # what is wrong, or why that is not known


@dataclass(frozen=True, slots=True)
class Survey:
    """All checkpoints below a folder, oldest step first."""

    checkpoints: tuple[Checkpoint, ...]
    notes: tuple[str, ...] = ()  # what is wrong with the files that name the latest checkpoint

    @property
    def last_complete(self) -> Checkpoint | None:
        return next((each for each in reversed(self.checkpoints) if each.state is CheckpointState.COMPLETE), None)


async def survey_checkpoints(
    files: Sequence[StoredFile], reader: FileReader, now: float, name: str = "", folders: Iterable[str] = ()
) -> Survey:
    """Judge the checkpoints of these files; `name`: the searched folder, `folders`: in that. Raises Unreadable."""
    what = "What the folder holds"
    if any(len(each.path) > MAX_PATH_CHARACTERS for each in files):
        raise Unreadable(f"The folder holds a file whose path has more than {MAX_PATH_CHARACTERS:,} characters.")
    homes = await decode_apart(what, lambda: _group_by_checkpoint(files, name, folders), JUDGING_SECONDS)
    head_by_path = await _read_heads_and_tails(homes, files, reader)
    return await decode_apart(what, lambda: _judge_checkpoints(homes, files, head_by_path, now, name), JUDGING_SECONDS)


def _judge_checkpoints(
    files_by_folder: Mapping[str, _FileMap],
    files: Sequence[StoredFile],
    head_by_path: Mapping[str, bytes],
    now: float,
    name: str,
) -> Survey:
    layouts = {home: detect_layout(held) for home, held in files_by_folder.items()}
    lacking, room = _files_others_have(files_by_folder, layouts), _NameBudget()
    marked = {file.path.removesuffix(_UNFINISHED_MARK) for file in files if file.path.endswith(_UNFINISHED_MARK)}
    committed = {dirname(home) for home, held in files_by_folder.items() if ORBAX_COMMIT_FILE in held}
    found = []
    for path, held in files_by_folder.items():
        reasons = (
            [f"{basename(path)}{_UNFINISHED_MARK} stands beside it: the save did not finish"] if path in marked else []
        )
        layout = layouts[path]
        is_orbax = layout is not None and layout.name == "Orbax"
        if dirname(path) in committed and ORBAX_COMMIT_FILE not in held and is_orbax:
            reasons.append(f"{ORBAX_COMMIT_FILE} is missing: it is written last, so the save did not finish")
        found.append(_judge_checkpoint(path, held, layout, head_by_path, lacking[path], room, now, name, reasons))
    found.sort(key=lambda each: (dirname(each.path), -1 if each.step is None else each.step, each.modified))
    return Survey(tuple(found), tuple(_pointer_notes(found, files, head_by_path)))


def _group_by_checkpoint(
    files: Sequence[StoredFile], name: str, folders: Iterable[str]
) -> dict[str, dict[str, StoredFile]]:
    """By checkpoint folder its files, keyed by their path in that folder."""
    all_of: dict[str, dict[str, StoredFile]] = defaultdict(dict)
    with_weights: set[str] = set()
    numbered = {found for file in files if (found := find_checkpoint_folder(file.path))}
    for file in files:
        home = _containing_folder(numbered, file.path) or _checkpoint_folder(file.path, name)
        if home is None:
            continue
        inside = file.path.removeprefix(f"{home}/") if file.path != home else basename(home)
        all_of[home][inside] = file
        if home in numbered or WEIGHTS_FILE.search(file.path):
            with_weights.add(home)
    families = {dirname(home) for home in with_weights if STEP_IN_NAME.search(basename(home) or name)}
    for folder in folders:
        if dirname(folder) in families and STEP_IN_NAME.search(basename(folder)):
            all_of.setdefault(folder, {})
    return {
        home: held
        for home, held in all_of.items()
        if home in with_weights or (dirname(home) in families and STEP_IN_NAME.search(basename(home)))
    }


def _containing_folder(folders: Collection[str], path: str) -> str | None:
    """The checkpoint folder among `folders` in which the file is; None if it is in none."""
    at = path.find("/") if folders else -1
    while at >= 0:
        if path[:at] in folders:
            return path[:at]
        at = path.find("/", at + 1)
    return None


def _checkpoint_folder(path: str, name: str) -> str | None:
    """The checkpoint folder of a file ("" is the root); None for a pointer file such as `latest`."""
    if STEP_IN_NAME.search(name):
        return ""
    at = path.find("/")
    while at >= 0:
        if STEP_IN_NAME.search(basename(path[:at])):
            return path[:at]
        at = path.find("/", at + 1)
    if basename(path) in POINTER_FILES:
        return None
    home = dirname(path)
    return find_checkpoint_folder(path) or (dirname(home) if _UNNAMED_RANK.search(home) else home)


async def _read_heads_and_tails(
    files_by_folder: Mapping[str, _FileMap], files: Sequence[StoredFile], reader: FileReader
) -> dict[str, bytes]:
    """By path the first bytes of files that are judged by content; the last bytes are under the path and `!`."""
    heads: dict[str, int] = {}
    tails: dict[str, int] = {}
    for file in (each for held in files_by_folder.values() for each in held.values()):
        end = basename(file.path)
        if end == ".metadata" and file.size <= MAX_METADATA_BYTES:
            heads[file.path] = file.size
        elif (suffix := end[end.rfind(".") :]) in _HEAD_BYTES:
            heads[file.path] = min(file.size, _HEAD_BYTES[suffix])
        elif _ZIP_SUFFIXES.search(end):
            heads[file.path], tails[file.path] = 4, _ZIP_END_BYTES
    for file in files:
        if basename(file.path) in POINTER_FILES:
            heads[file.path] = min(file.size, 200)
    found = dict(await reader.read_heads({path: size for path, size in heads.items() if size}))
    sizes = {file.path: file.size for file in files}
    longer = {
        path: 8 + length
        for path, head in found.items()
        if path.endswith(".safetensors")
        and (length := int.from_bytes(head[:8], "little")) <= min(MAX_HEADER_BYTES, sizes[path] - 8)
    }
    found.update(await reader.read_heads(longer))
    for path, data in (await reader.read_tails(tails)).items():
        found[f"{path}!"] = data
    return found


class _NameBudget:
    """The number of missing files that may still be named, for all checkpoints; each may name at least one."""

    def __init__(self) -> None:
        self.names_left = MAX_NAMED_MISSING

    def take_names(self, missing: Iterable[str], *, other_faults: Sequence[str]) -> list[str]:
        """Take the first missing names that the budget allows; at least one, unless there are `other_faults`."""
        found = list(islice(missing, max(self.names_left, not other_faults)))
        self.names_left = max(0, self.names_left - len(found))
        return found


def _files_others_have(
    files_by_folder: Mapping[str, _FileMap], layouts: Mapping[str, CheckpointLayout | None]
) -> dict[str, Sequence[str]]:
    """By checkpoint, the training state files that it lacks and that all others of its kind have."""
    kinds = {
        home: re.sub("Megatron torch_dist|torch DCP", "DCP", each.name) if each else ""
        for home, each in layouts.items()
    }
    beside: dict[str, set[str]] = defaultdict(set)
    for home, kind in kinds.items():
        beside[dirname(home)] |= {kind} - {""}
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for home, kind in kinds.items():
        of = beside[dirname(home)]
        families[dirname(home), kind or (min(of) if len(of) == 1 else "")].append(home)
    lacking: dict[str, Sequence[str]] = {}
    for members in families.values():
        states = {
            home: {path for path in files_by_folder[home] if _TRAINING_STATE.search(path) or RANK_FILE.match(path)}
            for home in members
        }
        counts = Counter(path for held in states.values() for path in held)
        filled = sum(map(bool, states.values()))
        everywhere = sorted(path for path, count in counts.items() if count == filled)
        but_one = sorted(path for path, count in counts.items() if count == filled - 1)
        for home, held in states.items():
            lacking[home] = [path for path in but_one if path not in held] if held else everywhere
    return lacking


def _judge_checkpoint(
    home: str,
    files: _FileMap,
    layout: CheckpointLayout | None,
    head_by_path: Mapping[str, bytes],
    missing_files: Sequence[str],
    name_budget: _NameBudget,
    now: float,
    name: str,
    reasons: Sequence[str],
) -> Checkpoint:
    problems: list[str] = [*reasons]
    unknown: list[str] = []
    if _UNFINISHED.search(basename(home) or name):
        problems.append("its name says that the save did not finish")
    if not files:
        problems.append("it is empty")
    parts = (path for path in files if path != ORBAX_COMMIT_FILE)
    full = [path for path in parts if _FILES_WITH_HEADERS.search(path) or WEIGHTS_FILE.search(path)]
    problems += [f"{path} is empty" for path in full if not files[path].size]
    folders: dict[str, dict[str, StoredFile]] = defaultdict(dict)
    for path, file in files.items():
        folders[dirname(path)][basename(path)] = file
    for folder, inside in sorted(folders.items()):
        _judge_dcp(folder, inside, head_by_path, problems, unknown, name_budget)
        _judge_shards(folder, inside, head_by_path, problems, name_budget)
    for path, file in files.items():
        too_large = path.endswith(".metadata") and file.size > MAX_METADATA_BYTES  # that is a reason already
        if file.size and file.path not in head_by_path and _FILES_WITH_HEADERS.search(path) and not too_large:
            unknown.append(f"{path} cannot be read")
        _judge_file(path, file, head_by_path, problems, unknown)
    problems += _missing_pointer_targets(files, head_by_path)
    problems += [f"{path} was not renamed: its save did not finish" for path in files if path.endswith(".dirty.pt")]
    families = _group_rank_numbers(files)
    each_rank = {len(seen): before for (before, _, _), seen in families.items() if not before.endswith("mp_rank_")}
    if len(each_rank) > 1:
        ranks = ", ".join(f"{count} {basename(before)}*" for count, before in sorted(each_rank.items()))
        unknown.append(f"each rank has a file of a kind, but there are {ranks}")
    if layout is not None and layout.unknown and ORBAX_COMMIT_FILE not in files:
        unknown.append(layout.unknown)
    named, known = {each.partition(" is ")[0] for each in problems} | files.keys(), frozenset(missing_files)
    gone = chain(missing_files, (each for each in _missing_numbered_files(families) if each not in known))
    absent = name_budget.take_names((each for each in gone if each not in named), other_faults=problems)
    problems += [f"{path} is missing" for path in absent]
    modified = max((file.modified_at for file in files.values()), default=0.0)
    if problems:
        state = CheckpointState.WRITING if now - modified < WRITING_SECONDS else CheckpointState.INCOMPLETE
    else:
        state = CheckpointState.UNKNOWN if unknown else CheckpointState.COMPLETE
    size = sum(file.size for file in files.values())
    return Checkpoint(
        home,
        layout.name if layout else "torch.save" if any(map(_ZIP_SUFFIXES.search, files)) else "not known",
        parse_step(basename(home) or name, layout),
        state,
        size,
        len(files),
        modified,
        tuple(problems or unknown),
    )


def _missing_pointer_targets(files: _FileMap, head_by_path: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the folder named by DeepSpeed's file `latest`, if it does not exist."""
    for path, file in files.items():
        target = head_by_path.get(file.path, b"").decode(errors="replace").strip() if basename(path) == "latest" else ""
        inner = _join(dirname(path), target) + "/"
        if re.fullmatch(r"global_step\d{1,12}", target) and not any(each.startswith(inner) for each in files):
            yield f"{path} names {target}, which is not there"


def _judge_dcp(
    folder: str,
    file_by_name: _FileMap,
    head_by_path: Mapping[str, bytes],
    problems: list[str],
    undecided: list[str],
    name_budget: _NameBudget,
) -> None:
    shards = [each for each in file_by_name if each.endswith(".distcp")]
    metadata = file_by_name.get(".metadata")
    if metadata is None:
        if shards:
            problems.append(f"{_join(folder, '.metadata')} is missing: it is written last, so the save did not finish")
        return
    megatron = file_by_name.keys() & {"common.pt", "metadata.json"}
    if len(megatron) == 1:
        problems.append(f"{_join(folder, min({'common.pt', 'metadata.json'} - megatron))} is missing")
    if metadata.size > MAX_METADATA_BYTES:
        undecided.append(
            f"{_join(folder, '.metadata')} has {metadata.size >> 20} MiB, at most {MAX_METADATA_BYTES >> 20} are read"
        )
        return
    if not metadata.size:
        return
    try:
        needed = read_needed_sizes(head_by_path[metadata.path]) if metadata.path in head_by_path else {}
    except Unreadable as error:
        problems.append(f"{_join(folder, '.metadata')}: {error.message}")
        return
    problems += [
        f"{_join(folder, path)} has {file_by_name[path].size:,} of {size:,} bytes"
        for path, size in needed.items()
        if path in file_by_name and file_by_name[path].size < size
    ]
    absent = name_budget.take_names((path for path in needed if path not in file_by_name), other_faults=problems)
    problems += [f"{_join(folder, path)} is missing" for path in absent]


def _judge_shards(
    folder: str, file_by_name: _FileMap, head_by_path: Mapping[str, bytes], problems: list[str], budget: _NameBudget
) -> None:
    """Find missing weight files, by the Hugging Face index or by the count in file names ("00001-of-00004")."""
    needed_names: dict[str, None] = {}
    indexes: dict[str, str] = {}  # by the stem of shards; another one may name them, as torchtune's does
    announced: dict[tuple[str, str, str], None] = {}  # stem, number and end of the names of shards
    for name in file_by_name:
        if shard := _SHARD_FILE.match(name):
            stem, _, count, end = shard.groups()
            announced[stem, count, end] = None
            indexes[stem] = f"{stem}{end}.index.json"
        if name.endswith(".index.json"):
            table = None
            with suppress(Unreadable):  # the file's own entry has the reason
                table = _parse_json(name, head_by_path.get(file_by_name[name].path, b""))
            named = table.get("weight_map") if isinstance(table, dict) else None
            if isinstance(named, dict):
                needed_names.update((each, None) for each in named.values() if isinstance(each, str))
    listed = {shard[1] for each in needed_names if (shard := _SHARD_FILE.match(each))}
    needed_names.update((index, None) for stem, index in indexes.items() if stem not in listed)
    numbered = (
        f"{stem}-{each:05}-of-{count}{end}" for stem, count, end in announced for each in range(1, int(count) + 1)
    )
    absent = (each for each in chain(numbered, needed_names) if each not in file_by_name)
    missing = dict.fromkeys(budget.take_names(absent, other_faults=problems))
    problems += [f"{_join(folder, each[:MAX_PATH_CHARACTERS])} is missing" for each in sorted(missing)]


def _judge_file(
    path: str, file: StoredFile, head_by_path: Mapping[str, bytes], problems: list[str], undecided: list[str]
) -> None:
    data = head_by_path.get(file.path)
    if not file.size or data is None:
        return
    if path.endswith((".json", ".safetensors")):
        try:
            if path.endswith(".safetensors"):
                _judge_safetensors(path, file, data, problems, undecided)
            elif file.size <= MAX_JSON_BYTES and _parse_json(path, data) is None:
                problems.append(f"{path} is no JSON: it is damaged or cut off")
        except Unreadable as error:
            undecided.append(error.message.rstrip("."))
    elif _SAVED_BY_TORCH.search(path) and not any(data):
        problems.append(f"{path} begins with zeros: its content was never written")
    elif _ZIP_SUFFIXES.search(path) and data.startswith(b"PK\3\4"):
        end = head_by_path.get(f"{file.path}!", b"")
        if not (end.startswith(b"PK\5\6") and len(end) == _ZIP_END_BYTES):
            problems.append(f"{path} is cut off: the end of a file of torch.save is missing")


def _judge_safetensors(path: str, file: StoredFile, head: bytes, problems: list[str], undecided: list[str]) -> None:
    length = int.from_bytes(head[:8], "little")
    if length + 8 > file.size:
        problems.append(f"{path} claims {length + 8:,} bytes up to the end of its header, the file has {file.size:,}")
        return
    if length > MAX_HEADER_BYTES:
        undecided.append(f"{path} has a header of {length >> 20} MiB, at most {MAX_HEADER_BYTES >> 20} are read")
        return
    table = _parse_json(path, head[8 : 8 + length])
    if not isinstance(table, dict):
        problems.append(f"{path} has a damaged header")
        return
    ends = [
        each["data_offsets"][1]
        for each in table.values()
        if isinstance(each, dict) and isinstance(each.get("data_offsets"), list) and len(each["data_offsets"]) == 2
    ]
    size = 8 + length + max((each for each in ends if isinstance(each, int)), default=0)
    if size > MAX_FILE_BYTES:
        problems.append(f"{path} has a damaged header")
    elif file.size != size:
        problems.append(f"{path} has {file.size:,} of {size:,} bytes")


def _group_rank_numbers(file_names: Iterable[str]) -> dict[tuple[str, str, str], set[tuple[int, ...]]]:
    """The rank numbers in file names that are otherwise alike; the key is prefix, number format and suffix."""
    families: dict[tuple[str, str, str], set[tuple[int, ...]]] = defaultdict(set)
    for path in file_names:
        if found := RANK_FILE.match(path):
            before, numbers, after = (each for each in found.groups() if each is not None)
            form = re.sub(r"\d+", lambda digits: f"{{:0{len(digits[0])}}}", numbers)
            families[before, form, after].add(tuple(map(int, re.findall(r"\d+", numbers))))
    return families


def _missing_numbered_files(families: Mapping[tuple[str, str, str], Collection[tuple[int, ...]]]) -> Iterator[str]:
    """Yield the files missing from each family of numbered names; several numbers in a name form a grid."""
    grids: dict[tuple[str, str], tuple[int, ...]] = {}  # of all that is in the folders of ranks
    for (before, form, _), present in families.items():
        seen = [max(column) + 1 for column in zip(*present, strict=True)]
        known = grids.get((before, form), ())
        grids[before, form] = tuple(max(pair) for pair in zip_longest(seen, known, fillvalue=0))
    for (before, form, after), present in families.items():
        sizes = grids[before, form]
        if world := _WORLD_SIZE.search(before):
            sizes = (int(world[1]),)
        elif len(present) < 2:
            continue
        yield from (
            f"{before}{form.format(*each)}{after}" for each in product(*map(range, sizes)) if each not in present
        )


def _pointer_notes(
    checkpoints: Sequence[Checkpoint], files: Sequence[StoredFile], head_by_path: Mapping[str, bytes]
) -> Iterable[str]:
    by_folder: dict[str, list[Checkpoint]] = defaultdict(list)
    for each in checkpoints:
        if each.step is not None and each.path:
            by_folder[dirname(each.path)].append(each)
    for file in files:
        beside = by_folder.get(dirname(file.path)) if basename(file.path) in POINTER_FILES else None
        if not beside:
            continue
        text = head_by_path.get(file.path, b"").decode(errors="replace").strip()
        number = re.fullmatch(r"(?:global_step)?(\d{1,12})", text)
        if number is None:
            if text != "release":
                yield f"{file.path} names no step: {text[:40]!r}"
            continue
        step = int(number[1])
        meant = next((each for each in beside if each.step == step), None)
        last = max((each.step or 0 for each in beside if each.state is CheckpointState.COMPLETE), default=None)
        if meant is None:
            yield f"{file.path} names step {step}, which is not there"
        elif meant.state in {CheckpointState.INCOMPLETE, CheckpointState.WRITING}:
            yield f"{file.path} names step {step}, which is {meant.state}"
        elif last is not None and last > step:
            yield f"{file.path} names step {step}, but step {last} is complete"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _parse_json(path: str, data: bytes) -> Any:
    """The content of a JSON file; None if it is no JSON, Unreadable if decoding takes too much memory."""
    check_json_cost(data, path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_needed_sizes(data: bytes) -> dict[str, int]:
    """Minimum bytes of each file of a DCP, by its `.metadata` pickle, which is not executed. Raises Unreadable."""
    whole = read_pickle(data)
    places = whole.find("storage_data") if isinstance(whole, UnbuiltObject) else None
    if not isinstance(places, PickledDict) or not places:
        raise Unreadable("It names no files.")
    sizes: dict[str, int] = {}
    for place in places.values():
        path, offset, length = (
            place.find(name) if isinstance(place, UnbuiltObject) else None for name in _STORAGE_FIELDS
        )
        if not (isinstance(path, str) and isinstance(offset, int) and isinstance(length, int)):
            raise Unreadable("It names no files in a form that is known here.")
        if not (0 <= offset + length <= MAX_FILE_BYTES and len(path) <= MAX_PATH_CHARACTERS):
            raise Unreadable("It is damaged: no file has such a name or size.")
        sizes[path] = max(sizes.get(path, 0), offset + length)
    return sizes
