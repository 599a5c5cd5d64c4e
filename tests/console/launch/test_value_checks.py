"""Numbers that do not fit each other are refused before the launch, in a sentence at the field."""

import pytest

from console.kube.nested_values import Value, set_path
from console.launch.install import ChartCatalog
from console.launch.recipes import LaunchPlan
from console.launch.run_record import RunRecord
from console.launch.value_checks import measure_saves
from console.metrics.time_spans import RecordedSpans, SpanKind, TimeSpan

CATALOGUE = ChartCatalog.from_chart()
NO_CLAIM: dict[str, Value] = {"storage.nfs.claim": ""}
CUDA_12_6 = "modelscope:ubuntu22.04-cuda12.6.3-py311-torch2.7.1-vllm0.10.0-modelscope1.28.2-swift3.7.1"


def plan(recipe: str, changes: dict[str, Value]) -> LaunchPlan:
    values: dict[str, Value] = {}
    for path, value in changes.items():
        set_path(values, path, value)
    return LaunchPlan(recipe, "anna", "team", values)


def problems(recipe: str, changes: dict[str, Value]) -> dict[str, str]:
    return {problem.path: problem.message for problem in CATALOGUE.plan_problems(plan(recipe, changes))}


@pytest.mark.parametrize("gpus", [8, 16, 32, 64])
def test_qwen3_fits_where_the_documents_say(gpus: int) -> None:
    assert problems("qwen3-30b-pretrain", {"gpus": gpus}) == {}


@pytest.mark.parametrize(
    ("recipe", "changes", "path", "words"),
    [
        ("W07", {"gpus": 4}, "gpus", "multiple of TP x PP x CP = 4 x 2 x 1 = 8; 4 are not"),
        ("W07", {"gpus": 24}, "recipe.train.globalBatch", "batch x data parallel = 1 x 3 = 3; 8 is not"),
        ("W07", {"gpus": 128}, "recipe.train.globalBatch", "= 1 x 16 = 16; 8 is not"),
        ("W07", {"gpus": 16, "recipe.train.cp": 4}, "gpus", "4 x 2 x 4 = 32"),
        ("W07", {"gpus": 8, "recipe.train.ep": 8}, "recipe.train.ep", "ETP x EP x PP = 1 x 8 x 2 = 16; 8 are not"),
        ("W07", {"gpus": 24, "recipe.train.globalBatch": 24, "recipe.train.ep": 3}, "recipe.train.ep", "128 experts"),
        ("W07", {"gpus": 40, "recipe.train.pp": 5, "recipe.train.tp": 1}, "recipe.train.pp", "48 layers"),
        (
            "W07",
            {"recipe.train.recompute": "full", "recipe.train.recomputeLayers": 7},
            "recipe.train.recomputeLayers",
            "24 layers of a stage; 7 does not",
        ),
        ("W07", {"recipe.train.amount": 1000}, "recipe.train.amount", "1,024 at least, which is one iteration"),
        ("W08", {"gpus": 16}, "recipe.train.globalBatch", "= 1 x 16 = 16; 8 is not"),
        ("W08", {"recipe.train.ep": 3}, "recipe.train.ep", "multiple of ETP x EP x PP"),
        ("W08", {"recipe.model.size": "A22B"}, "recipe.model.size", "must be A3B"),
        (
            "W12",
            {"recipe.model.size": "8B", "recipe.model.id": "Qwen/Qwen3-30B-A3B"},
            "recipe.model.id",
            "must have the model size, 8B; Qwen/Qwen3-30B-A3B has 30B-A3B: change one of them",
        ),
        ("W12", {"recipe.model.id": "Qwen/Qwen3-8B"}, "recipe.model.id", "30B-A3B; Qwen/Qwen3-8B has 8B"),
        ("W12", {"recipe.model.id": "Qwen/Qwen2.5-7B"}, "recipe.model.id", "must be a Qwen3 for this recipe"),
        ("W08", {"recipe.model.id": "Qwen/Qwen3-30B-A3B"}, "recipe.model.id", "must be a Qwen3-Next for this"),
        ("W07", {"recipe.model.id": "Qwen/Qwen3-Next-80B-A3B-Instruct"}, "recipe.model.id", "must be a Qwen3 for"),
        ("W14", {"recipe.model.size": "A22B"}, "gpus", "multiple of 16 to convert A22B; 8 are not"),
        ("W06", {"gpus": 8, "recipe.model.size": "A22B"}, "gpus", "multiple of 16 to convert A22B; 8 are not"),
        (
            "W03",
            {"storage.logs": "/gcs/logs"},
            "storage.logs",
            "must lie on a mount, or it goes with the pod; mounted is",
        ),
        ("W13", {"gpus": 48}, "recipe.train.globalBatch", "= 1 x 6 = 6; 8 is not"),
        ("W19", {"gpus": 16}, "gpus", "8 at most, because this recipe trains on one node"),
        ("W19", {"gpus": 2}, "gpus", "multiple of tensor parallel 4"),
        ("W20", {"gpus": 32}, "recipe.swift.globalBatch", "= 1 x 8 = 8; 4 is not"),
        ("W20", {"gpus": 16, "recipe.swift.etp": 4}, "recipe.swift.ep", "ETP x EP = 32; 16 are not"),
        ("W19", {"image": CUDA_12_6, "recipe.swift.version": "3.7.1"}, "image", "CUDA 12.8 or newer for B200"),
        ("W19", {"recipe.swift.version": "3.7.1"}, "recipe.swift.version", "must be 3.10.3, as the image"),
        ("W21", {"recipe.swift.globalBatch": 12}, "recipe.swift.globalBatch", "= 16 x 1 = 16; 12 is not"),
        ("W22", {"gpus": 16}, "gpus", "evaluates on one node"),
        ("W04", {"gpus": 16}, "gpus", "measures the GPUs of one pod"),
        ("W17", {"gpus": 16}, "gpus", "loads in one pod"),
        ("W17", NO_CLAIM, "recipe.workspace", "must lie on shared storage"),
        ("W03", {"gpus": 0}, "gpus", "only a download needs none"),
        ("W07", {"gpus": 0}, "gpus", "only a download needs none"),
        ("W19", {"gpus": 0}, "gpus", "only a download needs none"),
        ("W07", NO_CLAIM, "recipe.workspace", "mounted is nothing"),
        (
            "W11",
            {"recipe.workspace": "/mnt", "gpus": 16, "recipe.train.globalBatch": 16},
            "recipe.workspace",
            "/lustre",
        ),
        (
            "W07",
            {"recipe.code.folder": "/workspace/Pai"},
            "recipe.code.folder",
            "skip the clone when the image brings it",
        ),
        ("W07", {"storage.pvc": {"other": "/mnt"}}, "storage.pvc", "mounted twice"),
        ("W07", {"storage.gcs": {"bucket": "/mnt:implicit-dirs"}}, "storage.gcs", "mounted twice"),
        ("W03", {"storage.ssd": "/usr/local/gib"}, "storage.ssd", "the pods have /usr/local/gib for themselves"),
        ("W03", {"storage.gcs": {"bucket": "/dev/shm:implicit-dirs"}}, "storage.gcs", "the pods have /dev/shm"),
        ("W03", {"storage.pvc": {"other": "/third_party/nccl-tests"}}, "storage.pvc", "have /third_party for"),
        ("W03", {"storage.host": {"/data": "/a4/launchers"}}, "storage.host", "the pods have /a4 for themselves"),
        ("W03", {"storage.pvc": {"other": "/mnt/../dev/shm"}}, "storage.pvc", "the pods have /dev/shm"),
        ("W03", {"storage.pvc": {"a": "/data", "b": "/data"}}, "storage.pvc", "by storage.pvc.a and by storage.pvc.b."),
        (
            "W03",
            {"storage.gcs": {"one": "/gcs", "two": "/gcs:ro"}},
            "storage.gcs",
            "storage.gcs.one and by storage.gcs.two.",
        ),
        *(
            ("W03", {"storage.pvc": {"nfs-pvc": folder}}, "storage.pvc", f"{folder} cannot be mounted: ")
            for folder in (
                "/root",
                "/root/.ssh",
                "/tmp",
                "/etc",
                "/usr",
                "/run",
                "/dev",
                "/proc",
                "/proc/1",
                "/sys/fs",
                "/var/run/secrets",
                "/lib",
                "/opt/../tmp",
            )
        ),
        ("W03", {"requests": {"memory": "2Ti"}, "limits": {"memory": "1T"}}, "requests", "2Ti memory is more than the"),
        (
            "W03",
            {"storage.sidecar": {"cpu-request": "2"}},
            "storage.sidecar",
            "A request of 2 cpu is more than the limit",
        ),
        ("W03", {"storage.ssd": "/tmp"}, "storage.ssd", "it would hide what the image has there"),
        ("W07", {"storage.nfs.path": "/root"}, "storage.nfs.path", "it would hide what the image has there"),
        ("W03", {"storage.pvc": {"a": "/data"}, "storage.host": {"/b": "/data/."}}, "storage.host", "mounted twice"),
        ("W07", {"storage.pvc": {"nfs-pvc": "/data"}}, "storage.nfs.claim", "mounted by storage.pvc already"),
        ("W03", {"storage.nfs.server": "10.0.0.2"}, "storage.nfs.claim", "needs a name when the NFS server is given"),
        (
            "W11",
            {"storage.lustre.server": "10.0.0.2", "storage.lustre.instance": "my-lustre"},
            "storage.lustre.project",
            "project, location",
        ),
    ],
)
def test_what_does_not_fit_is_named_at_its_field(recipe: str, changes: dict[str, Value], path: str, words: str) -> None:
    found = problems(recipe, changes)
    assert path in found, found
    assert words in found[path]
    assert found[path].endswith(".")


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        (
            "W07",
            {
                "gpus": 40,
                "recipe.train.pp": 5,
                "recipe.train.tp": 1,
                "recipe.train.ep": 2,
                "recipe.train.firstStage": 8,
            },
        ),
        ("W07", {"recipe.train.recompute": "full", "recipe.train.recomputeLayers": 6}),
        ("W08", {"gpus": 16, "recipe.train.globalBatch": 16}),
        ("W12", {"recipe.model.size": "8B"}),
        ("W03", {"storage.gcs": {"bucket": "/gcs"}, "storage.logs": "/gcs/logs"}),
        ("W12", {"gpus": 8, "recipe.model.size": "8B", "recipe.train.ep": 16}),
        ("W12", {"recipe.model.size": "8B", "recipe.model.id": "Qwen/Qwen3-8B-Base"}),
        ("W12", {"recipe.model.id": "Qwen/Qwen3-30B-A3B-Instruct-2507"}),
        ("W12", {"recipe.model.id": "anna/my-own", "recipe.model.size": "0.6B"}),
        ("W08", {"recipe.model.id": "Qwen/Qwen3-Next-80B-A3B-Thinking"}),
        ("W06", {"gpus": 8, "recipe.model.size": "A22B", "recipe.skip.conversion": True}),
        ("W17", {"recipe.model.id": "Qwen/Qwen3-Next-80B-A3B-Instruct"}),
        ("W06", {"gpus": 8, **NO_CLAIM}),
        ("W06", {"recipe.workspace": "/mnt/anna"}),
        ("W06", {"storage.nfs.claim": "", "storage.gcs": {"bucket": "/mnt"}}),
        ("W19", {"image": CUDA_12_6, "recipe.swift.version": "3.7.1", "placement.accelerator": "nvidia-tesla-a100"}),
        ("W19", {"image": "registry.example/own:1", "recipe.swift.version": "4.3.2"}),
        ("W17", {}),
        ("W03", {"network.gib.enabled": False, "storage.ssd": "/third_party"}),
        ("W03", {"storage.pvc": {"a": "/a4-data"}, "storage.gcs": {"bucket": "/usr/local/gibbon"}}),
        ("W12", {"recipe.code.folder": "/workspace/Pai", "recipe.skip.clone": True}),
        ("W12", {"recipe.code.folder": "/mnt/code/Pai"}),
    ],
)
def test_what_fits_is_not_refused(recipe: str, changes: dict[str, Value]) -> None:
    assert problems(recipe, changes) == {}


def test_values_are_held_against_each_other_only_when_each_is_sound() -> None:
    assert list(problems("W07", {"gpus": 12, "recipe.train.tp": 3})) == ["gpus"]
    assert list(problems("W07", {"recipe.train.tp": 0})) == ["recipe.train.tp"]


@pytest.mark.parametrize(
    ("recipe", "changes", "note"),
    [
        ("W06", {}, "9 iterations (warm-up 0) of 8 samples of 128 tokens; data parallel 2 over 16 GPUs."),
        ("W07", {}, "9 iterations (warm-up 0) of 8 samples of 128 tokens; data parallel 4 over 32 GPUs."),
        ("W08", {}, "122,070 iterations (warm-up 1) of 8 samples of 1,024 tokens; data parallel 8 over 8 GPUs."),
        (
            "W08",
            {"gpus": 16, "recipe.train.globalBatch": 16, "recipe.train.amount": 100000},
            "6 iterations (warm-up 0) of 16 samples of 1,024 tokens; data parallel 16 over 16 GPUs.",
        ),
        ("W13", {}, "10,000 iterations (warm-up 100) of 8 samples of 128 tokens; data parallel 2 over 16 GPUs."),
        ("W20", {}, "Data parallel 4 over 16 GPUs."),
    ],
)
def test_what_the_values_come_to_is_reported(recipe: str, changes: dict[str, Value], note: str) -> None:
    assert CATALOGUE.plan_notes(plan(recipe, changes))[0] == note


def test_what_has_no_effect_is_reported() -> None:
    assert "Sequence parallel has no effect with tensor parallel 1." in CATALOGUE.plan_notes(plan("W08", {}))


def test_small_pods_on_the_host_network_are_reported_to_stay_alone() -> None:
    alone = "With the host network no two pods fit on one node: both would listen on port 2222."
    assert alone in CATALOGUE.plan_notes(plan("W05", {"gpus": 3, "network.hostNetwork": True}))
    assert alone not in CATALOGUE.plan_notes(plan("W05", {"gpus": 3}))
    assert alone not in CATALOGUE.plan_notes(plan("W05", {"network.hostNetwork": True}))


def test_results_that_are_lost_with_the_pod_are_reported() -> None:
    lost = "Workspace /mnt lies in the pod alone: what is made there is lost with it."
    assert lost in CATALOGUE.plan_notes(plan("W14", NO_CLAIM))
    assert lost not in CATALOGUE.plan_notes(plan("W14", {}))


def test_nothing_is_reported_what_cannot_be_launched() -> None:
    assert CATALOGUE.plan_notes(plan("W07", {"gpus": 24})) == ()
    assert CATALOGUE.plan_notes(plan("W03", {})) == ()


def seen_run(name: str, gpus: int, save: float, step: float) -> RunRecord:
    """A run of 100 steps with a save of so many seconds in the middle."""
    steps, half = SpanKind.STEPS, 50 * step
    spans = (
        TimeSpan(1000.0, 1000.0 + half, steps, 0, 50),
        TimeSpan(1000.0 + half, 1000.0 + half + save + step, SpanKind.CHECKPOINT, 50, 51),
        TimeSpan(1000.0 + half + save + step, 1000.0 + 2 * half + save, steps, 51, 100),
    )
    return RunRecord("qwen3-30b-pretrain", name, "team", gpus=gpus, seen=RecordedSpans(spans=spans).encode())


def test_a_run_that_would_save_nothing_before_its_end_is_warned_of_with_an_interval_that_was_measured() -> None:
    wanted = plan("qwen3-sft", {})
    warning = "iterations: nothing is saved before the end."
    (told,) = (each for each in CATALOGUE.plan_notes(wanted) if warning in each)
    assert told.startswith("Save every 100,000 is more than its ")
    gpus = CATALOGUE.values(wanted)["gpus"]
    assert isinstance(gpus, int)
    saves = measure_saves([seen_run("other-size", gpus + 8, 5.0, 1.0), seen_run("before", gpus, 41.0, 3.7)])
    assert [(each.run, round(each.save), round(each.step, 1)) for each in saves] == [
        ("other-size", 5, 1.0), ("before", 41, 3.7),
    ]  # fmt: skip
    assert saves[1].interval == 550
    assert 0.015 < saves[1].save / (saves[1].save + saves[1].interval * saves[1].step) <= 0.02
    (told,) = (each for each in CATALOGUE.plan_notes(wanted, earlier_saves=saves) if warning in each)
    assert told.endswith(" A save took 41 s in before: every 550 (33 min) it costs 2 % at most.")


def test_a_run_that_saves_before_its_end_is_not_warned_of_and_a_run_that_never_saved_tells_nothing() -> None:
    often = plan("qwen3-sft", {"recipe.train.saveInterval": 10})
    assert not any("nothing is saved" in each for each in CATALOGUE.plan_notes(often))
    assert measure_saves([seen_run("none", 8, 0.0, 1.0), RunRecord("r", "unseen", "team")]) == []
    assert measure_saves([seen_run("quick", 8, 0.001, 10.0)])[0].interval == 1


@pytest.mark.parametrize(
    ("datasets", "every", "said"),
    [
        (["a/b#500", "c/d#300"], 51, "Save every 51 is more than its 50 iterations: nothing is saved before the end."),
        (["a/b#500", "c/d#300"], 50, ""),
        (["a/b#500", "c/d"], 100_000, ""),  # how much that has is not known
    ],
)
def test_swift_is_warned_of_where_its_samples_are_counted(datasets: list[Value], every: int, said: str) -> None:
    values: dict[str, Value] = {
        "recipe.swift.datasets": datasets,
        "recipe.swift.saveInterval": every,
        "recipe.swift.globalBatch": 16,
    }
    notes = CATALOGUE.plan_notes(plan("swift-sft", values))
    assert [each for each in notes if "nothing is saved" in each] == ([said] if said else [])
