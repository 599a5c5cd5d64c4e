"""Whether the numbers of a recipe fit each other, and what they come to: known before anything is launched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.models.launch import FieldProblem, Value
from console.models.values import look

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    Values = Mapping[str, Value]
    Found = Iterator[FieldProblem]

GPUS_PER_NODE = 8
_LAYERS = {"0.6B": 28, "1.7B": 28, "4B": 36, "8B": 36, "14B": 40, "32B": 64, "A3B": 48, "A22B": 94}
_NEXT_LAYERS = 96
_EXPERTS = {"A3B": 128, "A22B": 128}
_NEXT_EXPERTS = 512
_ONE_POD = {
    "nccl-one-pod": "measures the GPUs of one pod",
    "qwen3-eval": "evaluates on one node",
    "swift-export": "exports in one pod",
    "swift-dpo": "trains on one node; for more there is swift-dpo-multinode",
    "qwen3-download": "loads in one pod",
}


def fit_problems(recipe: str, paths: Collection[str], values: Values) -> tuple[FieldProblem, ...]:
    """What does not fit among complete values of a recipe whose form has these paths; the values obey the schema."""
    found: list[FieldProblem] = [*_pods(recipe, values), *_mounts(values), *_claims(values)]
    for path, rules in _RULES:
        if path in paths:
            found += rules(recipe, values)
    first: dict[str, FieldProblem] = {}
    for problem in found:
        first.setdefault(problem.path, problem)
    return tuple(first.values())


def fit_notes(paths: Collection[str], values: Values) -> tuple[str, ...]:
    """What the values come to, one sentence each: iterations, parallel sizes, and what has no effect."""
    notes: list[str] = []
    if "recipe.train.tp" in paths:
        notes += _training_notes(values)
    if "recipe.swift.tp" in paths:
        gpus, tp = _int(values, "gpus"), _int(values, "recipe.swift.tp")
        notes.append(f"Data parallel {gpus // tp} over {gpus} GPUs.")
    root = str(look(values, "recipe.workspace"))
    if "recipe.workspace" in paths and not _is_shared(root, values):
        notes.append(f"Workspace {root} lies in the pod alone: what is made there is lost with it.")
    return tuple(notes)


def iterations(values: Values) -> int:
    """Iterations that a Pai-Megatron-Patch training makes: its amount is tokens when it pretrains."""
    amount = _int(values, "recipe.train.amount")
    if look(values, "recipe.train.sft"):
        return amount
    return amount // _int(values, "recipe.train.globalBatch") // _int(values, "recipe.train.sequence")


def _training_notes(values: Values) -> Iterator[str]:
    gpus, size = _int(values, "gpus"), _model_parallel(values)
    batch, sequence = _int(values, "recipe.train.globalBatch"), _int(values, "recipe.train.sequence")
    warmup = _int(values, "recipe.train.warmup")
    if not look(values, "recipe.train.sft"):
        warmup = warmup // batch // sequence
    yield (
        f"{iterations(values):,} iterations (warm-up {warmup:,}) of {batch:,} samples of {sequence:,} tokens;"
        f" data parallel {gpus // size} over {gpus} GPUs."
    )
    if look(values, "recipe.train.sp") and _int(values, "recipe.train.tp") == 1:
        yield "Sequence parallel has no effect with tensor parallel 1."


def _pods(recipe: str, values: Values) -> Found:
    gpus = _int(values, "gpus")
    if gpus == 0 and recipe != "qwen3-download":
        yield FieldProblem("gpus", "GPUs must be 1 at least; only a download needs none.")
    if recipe in _ONE_POD and gpus > GPUS_PER_NODE:
        yield FieldProblem("gpus", f"GPUs must be {GPUS_PER_NODE} at most, because this recipe {_ONE_POD[recipe]}.")


def _mounts(values: Values) -> Found:
    taken: dict[str, str] = {}
    for path, folder in _mounted(values):
        if folder in taken:
            yield FieldProblem(path, f"{folder} is mounted twice: by {taken[folder]} and by {path}.")
        taken.setdefault(folder, path)


def _mounted(values: Values) -> Iterator[tuple[str, str]]:
    """Field and folder of everything that is mounted."""
    for path in ("storage.nfs", "storage.lustre"):
        if look(values, f"{path}.claim"):
            yield f"{path}.path", str(look(values, f"{path}.path"))
    if look(values, "storage.ssd"):
        yield "storage.ssd", str(look(values, "storage.ssd"))
    for path in ("storage.pvc", "storage.gcs", "storage.host"):
        mounts = look(values, path)
        assert isinstance(mounts, dict)
        for folder in mounts.values():
            yield path, str(folder).partition(":")[0]


def _claims(values: Values) -> Found:
    for path, title, needed in (
        ("storage.nfs", "NFS server", ()),
        ("storage.lustre", "Lustre address", ("instance", "project", "location")),
    ):
        if not look(values, f"{path}.server"):
            continue
        if not look(values, f"{path}.claim"):
            yield FieldProblem(f"{path}.claim", f"The claim needs a name when the {title} is given, such as nfs-pvc.")
        missing = [name for name in needed if not look(values, f"{path}.{name}")]
        if missing:
            yield FieldProblem(f"{path}.{missing[0]}", f"The volume needs {', '.join(missing)} beside the {title}.")


def _workspace(recipe: str, values: Values) -> Found:
    root = str(look(values, "recipe.workspace"))
    pods = _int(values, "gpus") // GPUS_PER_NODE
    if not _is_shared(root, values) and (pods > 1 or recipe == "qwen3-download"):
        where = ", ".join(_shared(values)) or "nothing"
        yield FieldProblem(
            "recipe.workspace",
            f"Workspace {root} must lie on shared storage, which all pods see; mounted is {where}.",
        )


def _is_shared(folder: str, values: Values) -> bool:
    return any(folder == mount or folder.startswith(f"{mount}/") for mount in _shared(values))


def _shared(values: Values) -> list[str]:
    """Mounts that every pod sees alike."""
    return [folder for path, folder in _mounted(values) if path not in ("storage.ssd", "storage.host")]


def _code(_: str, values: Values) -> Found:
    folder = str(look(values, "recipe.code.folder"))
    root = str(look(values, "recipe.workspace"))
    inside = not folder.startswith("/") or folder.startswith(f"{root}/")
    if not inside and not look(values, "recipe.skip.clone"):
        yield FieldProblem(
            "recipe.code.folder",
            f"Code folder {folder} lies outside the workspace {root}, where index 0 would clone it for itself alone;"
            " skip the clone when the image brings it.",
        )


def _training(recipe: str, values: Values) -> Found:
    gpus = _int(values, "gpus")
    tp, pp, cp, etp, ep = (_int(values, f"recipe.train.{name}") for name in ("tp", "pp", "cp", "etp", "ep"))
    size = _model_parallel(values)
    if not gpus:
        return
    if gpus % size:
        yield FieldProblem(
            "gpus", f"GPUs must be a multiple of TP x PP x CP = {tp} x {pp} x {cp} = {size}; {gpus} are not."
        )
        return
    yield from _batches("recipe.train", values, gpus // size)
    if gpus % (etp * ep * pp):
        yield FieldProblem(
            "recipe.train.ep",
            f"GPUs must be a multiple of ETP x EP x PP = {etp} x {ep} x {pp} = {etp * ep * pp}; {gpus} are not.",
        )
    yield from _model(recipe, values)
    if iterations(values) < 1:
        tokens = _int(values, "recipe.train.globalBatch") * _int(values, "recipe.train.sequence")
        yield FieldProblem("recipe.train.amount", f"Tokens must be {tokens:,} at least, which is one iteration.")


def _model(recipe: str, values: Values) -> Found:
    size, following = str(look(values, "recipe.model.size")), recipe.startswith("qwen3-next")
    if following and size != "A3B":
        yield FieldProblem(
            "recipe.model.size", f"Model size must be A3B, the only one of Qwen3-Next; {size} was given."
        )
        return
    ep, pp = _int(values, "recipe.train.ep"), _int(values, "recipe.train.pp")
    experts = _NEXT_EXPERTS if following else _EXPERTS.get(size, 0)
    if experts and experts % ep:
        yield FieldProblem(
            "recipe.train.ep", f"Expert parallel must divide the model's {experts} experts; {ep} does not."
        )
    layers = _NEXT_LAYERS if following else _LAYERS[size]
    if layers % pp and not _int(values, "recipe.train.firstStage"):
        yield FieldProblem(
            "recipe.train.pp",
            f"Pipeline parallel must divide the model's {layers} layers, or the first stage be given its own;"
            f" {pp} does not.",
        )
    step = _int(values, "recipe.train.recomputeLayers")
    if look(values, "recipe.train.recompute") == "full" and (layers // pp) % step:
        yield FieldProblem(
            "recipe.train.recomputeLayers",
            f"Recomputed layers must divide the {layers // pp} layers of a stage; {step} does not.",
        )


def _swift(recipe: str, values: Values) -> Found:
    gpus, tp = _int(values, "gpus"), _int(values, "recipe.swift.tp")
    if not gpus:
        return
    if gpus % tp:
        yield FieldProblem("gpus", f"GPUs must be a multiple of tensor parallel {tp}; {gpus} are not.")
        return
    yield from _batches("recipe.swift", values, gpus // tp)
    experts = _int(values, "recipe.swift.ep") * _int(values, "recipe.swift.etp")
    if recipe != "swift-sft" and gpus % experts:
        yield FieldProblem("recipe.swift.ep", f"GPUs must be a multiple of ETP x EP = {experts}; {gpus} are not.")


def _swift_image(_: str, values: Values) -> Found:
    """The tags of ModelScope's images name both versions; other images are taken at their word."""
    image, version = str(look(values, "image")), str(look(values, "recipe.swift.version"))
    cuda = re.search(r"cuda(\d+)\.(\d+)", image)
    if cuda and (int(cuda[1]), int(cuda[2])) < (12, 8) and look(values, "placement.accelerator") in ("", "nvidia-b200"):
        yield FieldProblem("image", f"Image must have CUDA 12.8 or newer for B200; its name says {cuda[1]}.{cuda[2]}.")
    tag = re.search(r"swift(\d+\.\d+(?:\.\d+)?)", image)
    if tag and tag[1] != version:
        yield FieldProblem(
            "recipe.swift.version", f"SWIFT version must be {tag[1]}, as the image's name says; {version} was given."
        )


def _batches(group: str, values: Values, data_parallel: int) -> Found:
    whole, each = _int(values, f"{group}.globalBatch"), _int(values, f"{group}.batch")
    if whole % (each * data_parallel):
        yield FieldProblem(
            f"{group}.globalBatch",
            f"Global batch must be a multiple of batch x data parallel = {each} x {data_parallel}"
            f" = {each * data_parallel}; {whole} is not.",
        )


def _model_parallel(values: Values) -> int:
    tp, pp, cp = (_int(values, f"recipe.train.{name}") for name in ("tp", "pp", "cp"))
    return tp * pp * cp


def _int(values: Values, path: str) -> int:
    found = look(values, path)
    assert isinstance(found, int)
    return found


_RULES: tuple[tuple[str, Callable[[str, Values], Found]], ...] = (
    ("recipe.workspace", _workspace),
    ("recipe.code.folder", _code),
    ("recipe.train.tp", _training),
    ("recipe.swift.version", _swift_image),
    ("recipe.swift.tp", _swift),
)
"""A field of the recipe's form, and the rules that hold when the form has it."""
