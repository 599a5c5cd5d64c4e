"""Runs of each format that torch and transformers saved, and what may befall them: harmless things, and damages."""

import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

PACKED = Path(__file__).parents[2] / "fixtures/checkpoints.tar.gz"
FORMATS = {"dcp": "torch DCP", "megatron": "Megatron torch_dist", "legacy": "Megatron torch", "hf": "safetensors"}
SWIFT = {"swift": "safetensors", "swift-megatron": "Megatron torch_dist"}  # adapters by SWIFT, and Megatron-SWIFT
OPTIONAL = {"generation_config.json", "additional_config.json"}
POINTER = "latest_checkpointed_iteration.txt"


def unpack(folder: Path) -> Path:
    """The runs as they were saved."""
    with tarfile.open(PACKED) as packed:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.2 has none yet, and 3.12 warns without
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder)
    older, legacy = folder / "ck/legacy/iter_0000100", folder / "ck/legacy/iter_0000200"
    shutil.copytree(older, legacy)  # so that each has one beside it
    (folder / "ck/legacy" / POINTER).write_text("200")
    return folder / "ck"


def make_runs(whole: Path, folder: Path) -> dict[str, Path]:
    """A run of each format with two checkpoints; those of ms-swift have the files that it adds."""
    made = {kind: folder / kind / "v0-20260901-120000" for kind in SWIFT}
    for step in (whole / "hf").iterdir():
        adapter = made["swift"] / step.name
        adapter.mkdir(parents=True)
        shutil.copy2(step / "model-00001-of-00010.safetensors", adapter / "adapter_model.safetensors")
        for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "trainer_state.json",
                     "training_args.bin"):  # fmt: skip
            shutil.copy2(step / name, adapter / name)
        (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')
        (adapter / "additional_config.json").write_text('{"lora_dtype": null}')
        (adapter / "args.json").write_text('{"model": "Qwen/Qwen2.5-7B-Instruct"}')
    shutil.copytree(whole / "megatron", made["swift-megatron"])
    for step in made["swift-megatron"].iterdir():
        if step.is_dir():
            (step / "args.json").write_text('{"save": "megatron_output"}')
    (made["swift-megatron"] / "args.json").write_text("{}")
    return {**{kind: whole / kind for kind in FORMATS}, **made}


def vary(run: Path, kind: str, number: int) -> list[str]:  # noqa: C901  # a branch for each thing
    """Do to a run what leaves its checkpoints whole; their names."""
    chance = random.Random(number)
    steps = sorted(each for each in run.iterdir() if each.is_dir())
    if chance.random() < 0.4:
        shutil.rmtree(steps.pop(0))
    if chance.random() < 0.4:
        (run / "events.out.tfevents.1").write_bytes(b"")
        (run / "runs").mkdir()
        (run / "runs/step-7.png").write_bytes(b"png")
    for step in steps:
        if chance.random() < 0.3:
            (step / ".lock").write_bytes(b"")
            (step / "merges.txt").write_text("")
            (step / "tokenizer.bin").write_bytes(b"no archive at all")
            (step / "lookup.bin").write_bytes(bytes(64))
    if kind in {"hf", "swift"} and chance.random() < 0.3:
        for step in steps:
            (step / "optimizer.pt").unlink()  # save_only_model
    if kind == "hf" and chance.random() < 0.3:
        for step in steps:
            for shard in step.glob("*.safetensors"):
                _rewrite_header(shard, lambda head: {"__metadata__": {"format": "pt"}, **head})
    if chance.random() < 0.3:
        steps[-1] = steps[-1].rename(steps[-1].with_name(f"step_{30_000 + number}"))
        (run / POINTER).unlink(missing_ok=True)
    return [each.name for each in steps]


def _rewrite_header(shard: Path, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    data = shard.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.dumps(change(json.loads(data[8 : 8 + length]))).encode()
    shard.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])


def _further(head: dict[str, object]) -> dict[str, object]:
    """With a tensor behind the end of the file."""
    last = max(each["data_offsets"][1] for each in head.values() if isinstance(each, dict) and "data_offsets" in each)
    return {**head, "lm_head.weight": {"dtype": "F32", "shape": [8], "data_offsets": [last, last + 32]}}


ANYWHERE = "missing", "empty", "cut", "half", "zeros", "nothing", "unfinished"
OF_SHARDS = "header beyond the end", "header is no JSON", "offsets beyond the end", "header of zeros"
DAMAGES = {
    "dcp": (*ANYWHERE, "no metadata", "metadata half written", "shard missing", "metadata names another"),
    "megatron": (*ANYWHERE, "no metadata", "metadata half written", "shard missing", "metadata names another", "marker",
                 "stale pointer", "pointer to nothing"),
    "legacy": (*ANYWHERE, "rank missing", "stale pointer", "pointer to nothing"),
    "hf": (*ANYWHERE, *OF_SHARDS, "index names another", "shard missing", "no index"),
    "swift": (*ANYWHERE, *OF_SHARDS, "shard missing"),
}  # fmt: skip
DAMAGES["swift-megatron"] = DAMAGES["megatron"]
POINTER_DAMAGES = {"stale pointer": "but step 200 is complete", "pointer to nothing": "which is not there"}


def spoil(run: Path, kind: str, number: int) -> tuple[str, str]:  # noqa: C901, PLR0912  # a branch for each damage
    """Damage the last checkpoint of a run, or its pointer: how, and the checkpoint's name."""
    chance, how = random.Random(number), DAMAGES[kind][number % len(DAMAGES[kind])]
    step = max((each for each in run.iterdir() if each.is_dir()), key=lambda each: int(each.name.rpartition("-")[2])
               if "-" in each.name else int(each.name.rpartition("_")[2]))  # fmt: skip
    files = sorted(each for each in step.rglob("*") if each.is_file() and each.name not in OPTIONAL)
    shards = [each for each in files if each.suffix in {".safetensors", ".distcp"}]
    file = chance.choice(shards or files) if how not in ANYWHERE else chance.choice(files)
    match how:
        case "missing" | "shard missing":
            file.unlink()
        case "empty":
            os.truncate(file, 0)
        case "cut":
            os.truncate(file, len(file.read_bytes().rstrip(b"\n")) - 1)  # without the end of a line it is whole
        case "half":
            os.truncate(file, file.stat().st_size // 2)
        case "zeros":
            file.write_bytes(bytes(file.stat().st_size))
        case "nothing":
            for each in step.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        case "unfinished":
            step = step.rename(step.with_name(f"tmp-{step.name}"))
        case "header beyond the end":
            length = chance.choice((1 << 63, 1 << 40, file.stat().st_size, (1 << 64) - 1))
            file.write_bytes(length.to_bytes(8, "little") + file.read_bytes()[8:])
        case "header is no JSON":
            data = file.read_bytes()
            file.write_bytes(data[:8] + chance.choice((b"\xff" * 9, b"{{{{{{{{{", b"[1, 2, 3]")) + data[17:])
        case "header of zeros":
            file.write_bytes(bytes(64) + file.read_bytes()[64:])
        case "offsets beyond the end":
            _rewrite_header(file, _further)
        case "index names another":
            index = step / "model.safetensors.index.json"
            table = json.loads(index.read_text())
            table["weight_map"]["lm_head.weight"] = "model-lm-head.safetensors"
            index.write_text(json.dumps(table))
        case "no index":
            (step / "model.safetensors.index.json").unlink()
        case "no metadata":
            (step / ".metadata").rename(step / ".metadata.tmp")
            (step / "common.pt").unlink(missing_ok=True)
        case "metadata half written":
            os.truncate(step / ".metadata", chance.randrange(1, (step / ".metadata").stat().st_size))
        case "metadata names another":
            data = (step / ".metadata").read_bytes()
            (step / ".metadata").write_bytes(data.replace(b"__3_0.distcp", b"__9_0.distcp"))
        case "marker":
            (step / "metadata.json").unlink()
        case "rank missing":
            shutil.rmtree(step / "mp_rank_01")
        case "stale pointer":
            (run / POINTER).write_text("100")
        case "pointer to nothing":
            (run / POINTER).write_text(str(300 + number))
    return how, step.name


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/a4-evil-was-run",)
