"""Checks of a recipe's values against each other before a launch, and notes on their results.

Among the notes: whether a training saves before its end, and how long saving took in earlier runs of its recipe.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from console.durations import format_duration
from console.kube.nested_values import Value, get_path
from console.kube.objects.quantity import parse_quantity
from console.launch.recipes import FieldProblem
from console.metrics.time_spans import SpanKind, decode_recorded_spans

if TYPE_CHECKING:
    Values = Mapping[str, Value]
    FieldProblems = Iterator[tuple[str, str]]  # path of a field, and what is wrong with it
    from console.launch.run_record import RunRecord


GPUS_PER_NODE = 8
_LAYERS_BY_SIZE = {"0.6B": 28, "1.7B": 28, "4B": 36, "8B": 36, "14B": 40, "32B": 64, "A3B": 48, "A22B": 94}
_QWEN_NEXT_LAYERS = 96
_EXPERTS_BY_SIZE = {"A3B": 128, "A22B": 128}
_QWEN_NEXT_EXPERTS = 512
_FULL_SIZE_NAMES = {"A3B": "30B-A3B", "A22B": "235B-A22B"}  # as the model's name has them, where the scripts have less
_QWEN_NEXT_SIZE = "80B-A3B"
_SIZE_IN_NAME = re.compile(r"(?<![\w.])\d+(\.\d+)?B(-A\d+B)?(?!\w)", re.IGNORECASE)
_QWEN_FAMILY = re.compile(r"qwen-?(\d(?:\.\d)?)(-next)?(?![\w.])", re.IGNORECASE)
_RECIPES_OF_ANY_MODEL = ("qwen3-download", "qwen3-eval")  # recipes for which the model is no more than a name
_RECIPES_OF_ONE_POD = {
    "nccl-one-pod": "measures the GPUs of one pod",
    "qwen3-eval": "evaluates on one node",
    "swift-export": "exports in one pod",
    "swift-dpo": "trains on one node; for more there is swift-dpo-multinode",
    "qwen3-download": "loads in one pod",
}


def value_conflicts(recipe: str, paths: Collection[str], values: Values) -> tuple[FieldProblem, ...]:
    """The conflicts between valid values of a recipe; `paths` are the fields of its form."""
    rules = (_amount_problems, _mount_problems, _claim_problems, _log_problems)
    found = [*_pod_problems(recipe, values), *(each for rule in rules for each in rule(values))]
    for path, problems in _RULES_BY_FIELD:
        if path in paths:
            found += problems(recipe, values)
    first: dict[str, str] = {}
    for path, message in found:
        first.setdefault(path, message)
    return tuple(FieldProblem(path, message) for path, message in first.items())


def value_notes(paths: Collection[str], values: Values) -> tuple[str, ...]:
    """Sentences on the consequences of the values: iterations, parallel sizes, settings without effect."""
    notes: list[str] = []
    if "recipe.train.tp" in paths:
        notes += _training_notes(values)
    if "recipe.swift.tp" in paths:
        gpus, tp = _int_at(values, "gpus"), _int_at(values, "recipe.swift.tp")
        notes.append(f"Data parallel {gpus // tp} over {gpus} GPUs.")
    if "recipe.model.id" in paths:
        notes.append(f"Model {model_id(values)}.")
    if get_path(values, "network.hostNetwork") and 0 < _int_at(values, "gpus") < GPUS_PER_NODE:
        notes.append("With the host network no two pods fit on one node: both would listen on port 2222.")
    root = str(get_path(values, "recipe.workspace"))
    if "recipe.workspace" in paths and not _is_shared(root, values):
        notes.append(f"Workspace {root} lies in the pod alone: what is made there is lost with it.")
    return tuple(notes)


def model_id(values: Values) -> str:
    """The model of a Pai-Megatron-Patch recipe as the chart chooses it: the named one, else by size."""
    if named := get_path(values, "recipe.model.id"):
        return str(named)
    if str(get_path(values, "recipe.id")).startswith("qwen3-next-"):
        return f"Qwen/Qwen3-Next-{_QWEN_NEXT_SIZE}-Instruct"
    size = str(get_path(values, "recipe.model.size"))
    return f"Qwen/Qwen3-{_FULL_SIZE_NAMES.get(size, size)}"


def iterations(values: Values) -> int:
    """The iterations of a Pai-Megatron-Patch training: recipe.train.amount, which pretraining has in tokens."""
    amount = _int_at(values, "recipe.train.amount")
    if get_path(values, "recipe.train.sft"):
        return amount
    return amount // _int_at(values, "recipe.train.globalBatch") // _int_at(values, "recipe.train.sequence")


def _training_notes(values: Values) -> Iterator[str]:
    gpus, size = _int_at(values, "gpus"), _model_parallel(values)
    batch, sequence = _int_at(values, "recipe.train.globalBatch"), _int_at(values, "recipe.train.sequence")
    warmup = _int_at(values, "recipe.train.warmup")
    if not get_path(values, "recipe.train.sft"):
        warmup = warmup // batch // sequence
    yield (
        f"{iterations(values):,} iterations (warm-up {warmup:,}) of {batch:,} samples of {sequence:,} tokens;"
        f" data parallel {gpus // size} over {gpus} GPUs."
    )
    if get_path(values, "recipe.train.sp") and _int_at(values, "recipe.train.tp") == 1:
        yield "Sequence parallel has no effect with tensor parallel 1."


def _pod_problems(recipe: str, values: Values) -> FieldProblems:
    gpus = _int_at(values, "gpus")
    if gpus == 0 and recipe != "qwen3-download":
        yield "gpus", "GPUs must be 1 at least; only a download needs none."
    if recipe in _RECIPES_OF_ONE_POD and gpus > GPUS_PER_NODE:
        yield "gpus", f"GPUs must be {GPUS_PER_NODE} at most, because this recipe {_RECIPES_OF_ONE_POD[recipe]}."


def _amount_problems(values: Values) -> FieldProblems:
    """Problems with requests larger than their limits, for which pods are refused."""
    for name in ("cpu", "memory", "ephemeral-storage"):
        sidecar = f"storage.sidecar.{name}"
        for path, asked, most in (
            ("requests", f"requests.{name}", f"limits.{name}"),
            ("storage.sidecar", f"{sidecar}-request", f"{sidecar}-limit"),
        ):
            request, limit = str(get_path(values, asked) or "0"), str(get_path(values, most) or "0")
            # Of the sidecar a limit of 0 is none, and so is one that is not given.
            if 0 < parse_quantity(limit) < parse_quantity(request):
                yield path, f"A request of {request} {name} is more than the limit of {limit}."


def _mount_problems(values: Values) -> FieldProblems:
    taken: dict[str, str] = {}
    for path, name, folder in _iter_mounts(values):
        place = posixpath.normpath(folder)
        if reserved := next((each for each in _reserved_folders(values) if f"{place}/".startswith(f"{each}/")), ""):
            yield path, f"{folder} cannot be mounted: the pods have {reserved} for themselves."
        elif place in _SYSTEM_FOLDERS:
            yield path, f"{folder} cannot be mounted: it would hide what the image has there, which the pods need."
        elif place in taken:
            yield path, f"{folder} is mounted twice: by {taken[place]} and by {name}."
        taken.setdefault(place, name)


_SYSTEM_FOLDERS = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/etc/ssh", "/lib", "/lib32", "/lib64", "/opt", "/root", "/root/.ssh", "/run",
    "/run/secrets", "/run/sshd", "/sbin", "/tmp", "/usr", "/usr/bin", "/usr/include", "/usr/lib", "/usr/lib64",
    "/usr/libexec", "/usr/local", "/usr/local/bin", "/usr/local/cuda", "/usr/local/lib", "/usr/local/nvidia",
    "/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/run", "/var/run/secrets",
})  # fmt: skip
"""Folders of the image that programs, sshd and launchers need; most of their subfolders may be mount points."""


def _reserved_folders(values: Values) -> tuple[str, ...]:
    """Folders that the chart or the kernel mounts in every pod, so that no other mount may use them."""
    gib = ("/usr/local/gib", "/third_party") if get_path(values, "network.gib.enabled") else ()
    return ("/a4", "/dev/shm", "/proc", "/sys", *gib)


def _iter_mounts(values: Values) -> Iterator[tuple[str, str, str]]:
    """(path of the field, name of the mount, folder) of each mount: storage.gcs, storage.gcs.my-bucket, /gcs."""
    for path in ("storage.nfs", "storage.lustre"):
        if get_path(values, f"{path}.claim"):
            yield f"{path}.path", f"{path}.path", str(get_path(values, f"{path}.path"))
    if get_path(values, "storage.ssd"):
        yield "storage.ssd", "storage.ssd", str(get_path(values, "storage.ssd"))
    for path in ("storage.pvc", "storage.gcs", "storage.host"):
        mounts = get_path(values, path)
        assert isinstance(mounts, dict)
        for name, folder in mounts.items():
            yield path, f"{path}.{name}", str(folder).partition(":")[0]


def _claim_problems(values: Values) -> FieldProblems:
    mounts = get_path(values, "storage.pvc")
    assert isinstance(mounts, dict)
    named = {"storage.pvc": [*mounts]}
    for path in ("storage.nfs.claim", "storage.lustre.claim"):
        claim = str(get_path(values, path))
        by = next((other for other, claims in named.items() if claim in claims), "")
        if claim and by:
            yield path, f"The claim {claim} is mounted by {by} already: name it once."
        named[path] = [claim]
    for path, title, needed in (
        ("storage.nfs", "NFS server", ()),
        ("storage.lustre", "Lustre address", ("instance", "project", "location")),
    ):
        if not get_path(values, f"{path}.server"):
            continue
        if not get_path(values, f"{path}.claim"):
            yield f"{path}.claim", f"The claim needs a name when the {title} is given, such as nfs-pvc."
        missing = [name for name in needed if not get_path(values, f"{path}.{name}")]
        if missing:
            yield f"{path}.{missing[0]}", f"The volume needs {', '.join(missing)} beside the {title}."


def _workspace_problems(recipe: str, values: Values) -> FieldProblems:
    root = str(get_path(values, "recipe.workspace"))
    pods = _int_at(values, "gpus") // GPUS_PER_NODE
    if not _is_shared(root, values) and (pods > 1 or recipe == "qwen3-download"):
        where = ", ".join(_shared_folders(values)) or "nothing"
        words = f"Workspace {root} must lie on shared storage, which all pods see; mounted is {where}."
        yield "recipe.workspace", words


def _log_problems(values: Values) -> FieldProblems:
    folder = str(get_path(values, "storage.logs"))
    if folder and not _is_shared(folder, values):
        where = ", ".join(_shared_folders(values)) or "nothing"
        yield "storage.logs", f"Log folder {folder} must lie on a mount, or it goes with the pod; mounted is {where}."


def _is_shared(folder: str, values: Values) -> bool:
    return any(folder == mount or folder.startswith(f"{mount}/") for mount in _shared_folders(values))


def _shared_folders(values: Values) -> list[str]:
    return [folder for path, _, folder in _iter_mounts(values) if path not in ("storage.ssd", "storage.host")]


def _code_problems(_: str, values: Values) -> FieldProblems:
    folder = str(get_path(values, "recipe.code.folder"))
    root = str(get_path(values, "recipe.workspace"))
    inside = not folder.startswith("/") or folder.startswith(f"{root}/")
    if not inside and not get_path(values, "recipe.skip.clone"):
        yield (
            "recipe.code.folder",
            f"Code folder {folder} lies outside the workspace {root}, where index 0 would clone it for itself alone;"
            " skip the clone when the image brings it.",
        )


def _model_name_problems(recipe: str, values: Values) -> FieldProblems:
    """Problems if a model name contradicts the size or family; a name that shows neither is accepted."""
    if recipe in _RECIPES_OF_ANY_MODEL:
        return
    named, following = str(get_path(values, "recipe.model.id")), recipe.startswith("qwen3-next-")
    size = str(get_path(values, "recipe.model.size"))
    whole, wanted = (_QWEN_NEXT_SIZE, "Qwen3-Next") if following else (_FULL_SIZE_NAMES.get(size, size), "Qwen3")
    family, sized = _QWEN_FAMILY.search(named), _SIZE_IN_NAME.search(named)
    if family and f"Qwen{family[1]}{'-Next' if family[2] else ''}" != wanted:
        yield "recipe.model.id", f"Model must be a {wanted} for this recipe; {named} is not."
    elif sized and sized[0].upper() != whole:
        yield "recipe.model.id", f"Model must have the model size, {whole}; {named} has {sized[0]}: change one of them."


def _conversion_problems(_: str, values: Values) -> FieldProblems:
    """Problems with conversion: the largest model's script uses 16 GPUs unless configured otherwise."""
    gpus, given = _int_at(values, "gpus"), get_path(values, "recipe.convert.parallel")
    converts = get_path(values, "recipe.model.size") == "A22B" and not get_path(values, "recipe.skip.conversion")
    if converts and not given and gpus % 16:
        yield "gpus", f"GPUs must be a multiple of 16 to convert A22B; {gpus} are not."


def _training_problems(recipe: str, values: Values) -> FieldProblems:
    gpus = _int_at(values, "gpus")
    tp, pp, cp, etp, ep = (_int_at(values, f"recipe.train.{name}") for name in ("tp", "pp", "cp", "etp", "ep"))
    size = _model_parallel(values)
    if not gpus:
        return
    if gpus % size:
        yield "gpus", f"GPUs must be a multiple of TP x PP x CP = {tp} x {pp} x {cp} = {size}; {gpus} are not."
        return
    yield from _batch_problems("recipe.train", values, gpus // size)
    if str(get_path(values, "recipe.model.size")) not in _EXPERTS_BY_SIZE:
        ep = etp = 1  # the scripts pass neither for a model without experts
    if gpus % (etp * ep * pp):
        product = f"ETP x EP x PP = {etp} x {ep} x {pp} = {etp * ep * pp}"
        yield "recipe.train.ep", f"GPUs must be a multiple of {product}; {gpus} are not."
    yield from _model_problems(recipe, values)
    if iterations(values) < 1:
        tokens = _int_at(values, "recipe.train.globalBatch") * _int_at(values, "recipe.train.sequence")
        yield "recipe.train.amount", f"Tokens must be {tokens:,} at least, which is one iteration."


def _model_problems(recipe: str, values: Values) -> FieldProblems:
    size, following = str(get_path(values, "recipe.model.size")), recipe.startswith("qwen3-next")
    if following and size != "A3B":
        yield "recipe.model.size", f"Model size must be A3B, the only one of Qwen3-Next; {size} was given."
        return
    ep, pp = _int_at(values, "recipe.train.ep"), _int_at(values, "recipe.train.pp")
    experts = _QWEN_NEXT_EXPERTS if following else _EXPERTS_BY_SIZE.get(size, 0)
    if experts and experts % ep:
        yield "recipe.train.ep", f"Expert parallel must divide the model's {experts} experts; {ep} does not."
    layers = _QWEN_NEXT_LAYERS if following else _LAYERS_BY_SIZE[size]
    if layers % pp and not _int_at(values, "recipe.train.firstStage"):
        yield (
            "recipe.train.pp",
            f"Pipeline parallel must divide the model's {layers} layers, or the first stage be given its own;"
            f" {pp} does not.",
        )
    step = _int_at(values, "recipe.train.recomputeLayers")
    if get_path(values, "recipe.train.recompute") == "full" and (layers // pp) % step:
        words = f"Recomputed layers must divide the {layers // pp} layers of a stage; {step} does not."
        yield "recipe.train.recomputeLayers", words


def _swift_problems(recipe: str, values: Values) -> FieldProblems:
    gpus, tp = _int_at(values, "gpus"), _int_at(values, "recipe.swift.tp")
    if not gpus:
        return
    if gpus % tp:
        yield "gpus", f"GPUs must be a multiple of tensor parallel {tp}; {gpus} are not."
        return
    yield from _batch_problems("recipe.swift", values, gpus // tp)
    experts = _int_at(values, "recipe.swift.ep") * _int_at(values, "recipe.swift.etp")
    if recipe != "swift-sft" and gpus % experts:
        yield "recipe.swift.ep", f"GPUs must be a multiple of ETP x EP = {experts}; {gpus} are not."


def _swift_image_problems(_: str, values: Values) -> FieldProblems:
    """Problems if the tag of a ModelScope image contradicts the versions; other images are accepted."""
    image, version = str(get_path(values, "image")), str(get_path(values, "recipe.swift.version"))
    cuda = re.search(r"cuda(\d+)\.(\d+)", image)
    if (
        cuda
        and (int(cuda[1]), int(cuda[2])) < (12, 8)
        and get_path(values, "placement.accelerator") in ("", "nvidia-b200")
    ):
        yield "image", f"Image must have CUDA 12.8 or newer for B200; its name says {cuda[1]}.{cuda[2]}."
    tag = re.search(r"swift(\d+\.\d+(?:\.\d+)?)", image)
    if tag and tag[1] != version:
        yield "recipe.swift.version", f"SWIFT version must be {tag[1]}, as the image's name says; {version} was given."


def _batch_problems(group: str, values: Values, data_parallel: int) -> FieldProblems:
    whole, each = _int_at(values, f"{group}.globalBatch"), _int_at(values, f"{group}.batch")
    if whole % (each * data_parallel):
        yield (
            f"{group}.globalBatch",
            f"Global batch must be a multiple of batch x data parallel = {each} x {data_parallel}"
            f" = {each * data_parallel}; {whole} is not.",
        )


def _model_parallel(values: Values) -> int:
    tp, pp, cp = (_int_at(values, f"recipe.train.{name}") for name in ("tp", "pp", "cp"))
    return tp * pp * cp


def _int_at(values: Values, path: str) -> int:
    found = get_path(values, path)
    assert isinstance(found, int)
    return found


_RULES_BY_FIELD: tuple[tuple[str, Callable[[str, Values], FieldProblems]], ...] = (
    ("recipe.workspace", _workspace_problems),
    ("recipe.code.folder", _code_problems),
    ("recipe.model.id", _model_name_problems),
    ("recipe.convert.parallel", _conversion_problems),
    ("recipe.train.tp", _training_problems),
    ("recipe.swift.version", _swift_image_problems),
    ("recipe.swift.tp", _swift_problems),
)


MAX_SAVE_SHARE = 0.02  # share of the time that saving may take
SAVE_INTERVAL_FIELD = "recipe.train.saveInterval"  # of the recipes that say how many iterations they make
SWIFT_SAVE_INTERVAL_FIELD = "recipe.swift.saveInterval"  # of recipes that count epochs
_SAMPLE_COUNT = re.compile(r"#(\d{1,12})$")


@dataclass(frozen=True, slots=True)
class MeasuredSaves:
    """Average seconds of a checkpoint save and of a step in one earlier run."""

    run: str
    gpus: int
    save: float  # seconds
    step: float  # seconds

    @property
    def interval(self) -> int:
        """Steps between two saves, a round number, so that saving takes at most MAX_SAVE_SHARE of the time."""
        least = math.ceil(self.save * (1 - MAX_SAVE_SHARE) / MAX_SAVE_SHARE / self.step)
        unit: int = 10 ** max(0, len(str(least)) - 2) * (5 if least >= 10 else 1)
        return math.ceil(least / unit) * unit


def measure_saves(records: Iterable[RunRecord]) -> list[MeasuredSaves]:
    """Seconds per save and per step of each run, newest first; runs without a pause for a save are left out."""
    found = []
    for run in records:
        spans = decode_recorded_spans(run.seen).spans
        steady = [span for span in spans if span.kind is SpanKind.STEPS]
        counted = sum(span.steps for span in steady)
        if not counted:
            continue
        step = sum(span.end - span.start for span in steady) / counted
        saves = [span.end - span.start - span.steps * step for span in spans if span.kind is SpanKind.CHECKPOINT]
        took = median(saves) if saves else 0.0
        if took > 0 and step > 0:
            found.append(MeasuredSaves(run.name, run.gpus, took, step))
    return found


def _most_swift_iterations(values: Values) -> int | None:
    """The most iterations that SWIFT can make, packed or not; None if a data set's number of samples is not given."""
    datasets, batch = get_path(values, "recipe.swift.datasets"), _int_at(values, "recipe.swift.globalBatch")
    counted = [_SAMPLE_COUNT.search(str(each)) for each in datasets] if isinstance(datasets, list) else []
    if not counted or not all(counted) or batch < 1:
        return None
    samples = sum(int(each[1]) for each in counted if each)
    return math.ceil(samples * _int_at(values, "recipe.swift.epochs") / batch)


def save_note(paths: Collection[str], values: Mapping[str, Value], measured: Iterable[MeasuredSaves] = ()) -> str:
    """A warning if the first save comes after the last iteration, with an interval that would do; else empty."""
    field = next((each for each in (SAVE_INTERVAL_FIELD, SWIFT_SAVE_INTERVAL_FIELD) if each in paths), "")
    every, gpus = get_path(values, field) if field else None, get_path(values, "gpus")
    total = (
        None if not field else iterations(values) if field == SAVE_INTERVAL_FIELD else _most_swift_iterations(values)
    )
    if not isinstance(every, int) or total is None or every <= total:
        return ""
    words = f"Save every {every:,} is more than its {total:,} iterations: nothing is saved before the end."
    like = next((each for each in measured if each.gpus == gpus and each.interval < total), None)
    if like is None:
        return words
    took, pause = format_duration(like.save), format_duration(like.interval * like.step)
    costs = f"every {like.interval:,} ({pause}) it costs {MAX_SAVE_SHARE * 100:g} % at most"
    return f"{words} A save took {took} in {like.run}: {costs}."
