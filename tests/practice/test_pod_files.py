"""What programs of pods leave: checkpoints and logs, where the pod writes them; figures that follow their values."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.checkpoints.completeness import CheckpointState, StoredFile, Survey, survey_checkpoints
from practice.cluster import PracticeCluster
from practice.node.pod_volumes import find_on_machine, write_files
from practice.objects.api_error import ApiError
from practice.programs.choose_program import RECIPES, choose_program
from practice.programs.steps import Program, ProgramContext
from tests.practice.test_programs import iterations, place, printed
from tests.practice.test_shells import pod, run

BARE = "nvcr.io/nvidia/pytorch:25.06-py3"
BUCKET = {"csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "runs"}}}
CLAIM = {"persistentVolumeClaim": {"claimName": "nfs-pvc"}}


def mounted(where: ProgramContext, source: dict[str, Any], path: str, image: str = "busybox:1") -> ProgramContext:
    container = {"image": image, "volumeMounts": [{"name": "v", "mountPath": path}]}
    where.pod = {
        "metadata": {"namespace": "default", "uid": "1"},
        "spec": {"volumes": [{"name": "v", **source}], "containers": [container]},
    }
    return where


def of_claim(where: ProgramContext) -> Mapping[str, Any]:
    return where.volumes.files("claim", "default", "nfs-pvc")


class Files:
    def __init__(self, files: Mapping[str, Any]) -> None:
        self._files = files

    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._files[path].content[:size] for path, size in bytes_by_path.items()}

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: self._files[path].content[-size:] for path, size in bytes_by_path.items()}


async def survey(files: Mapping[str, Any]) -> Survey:
    stored = [StoredFile(path, len(file.content), file.updated) for path, file in files.items()]
    return await survey_checkpoints(stored, Files(files), 10.0**9)


@pytest.mark.parametrize(
    ("recipe", "env", "folder"),
    [
        ("qwen3-30b-pretrain", {"A4_OUTPUT_BASEPATH": "/mnt/out", "A4_SAVE_INTERVAL": "10"}, "out/checkpoint"),
        ("swift-sft", {"A4_SWIFT_SAVE": "out", "PAI_WORKSPACE_ROOT": "/mnt", "A4_SWIFT_SAVE_INTERVAL": "40"}, "out"),
    ],
)
async def test_a_training_leaves_complete_checkpoints_in_its_volume(
    recipe: str, env: dict[str, Any], folder: str
) -> None:
    where = mounted(place(A4_TRAIN_ITERATIONS="20", **env), CLAIM, "/mnt")
    lines, _ = printed(RECIPES[recipe], where)
    found = await survey(of_claim(where))
    interval, last = (10, 20) if recipe.startswith("qwen3") else (40, 100)
    steps = sorted({*range(interval, last + 1, interval), last})
    assert [(each.step, each.state, each.format) for each in found.checkpoints] == [
        (step, CheckpointState.COMPLETE, "Megatron torch_dist") for step in steps
    ]
    assert {each.path for each in found.checkpoints} == {f"{folder}/iter_{step:07}" for step in steps}
    assert not found.notes
    assert sum(f"to /mnt/{folder} in torch_dist format" in line for line in lines) == len(steps)


async def test_a_save_that_is_cut_off_is_incomplete() -> None:
    where = mounted(place(A4_TRAIN_ITERATIONS="20", A4_OUTPUT_BASEPATH="/mnt/out"), CLAIM, "/mnt")
    for step in RECIPES["qwen3-30b-pretrain"](where):
        if "saving checkpoint" in getattr(step, "text", ""):
            continue
        if of_claim(where):
            break
    (found,) = (await survey(of_claim(where))).checkpoints
    assert (found.step, found.state) == (20, CheckpointState.INCOMPLETE)


def test_what_lies_in_the_pod_lies_in_pod_0() -> None:
    first = place(A4_TRAIN_ITERATIONS="5", NNODES="2", JOB_COMPLETION_INDEX="0")
    last = place(A4_TRAIN_ITERATIONS="5", NNODES="2", JOB_COMPLETION_INDEX="1")
    for number, where in enumerate((first, last)):
        where.pod, where.room, where.volumes = {"metadata": {"uid": str(number)}}, first.room, first.volumes
    for fact in ("sshd 0", "found 1", "sync over", "download over", "train started 0", "train started 1", "exit code"):
        first.room.post(fact, 0)
    first.room.post("pod 0", first)
    printed(RECIPES["qwen3-30b-pretrain"], last)
    assert "mnt/logs/checkpoint/iter_0000005/.metadata" in first.volumes.files("pod", "0", "/")
    assert not first.volumes.files("pod", "1", "/")


def logged(recipe: str, **env: Any) -> tuple[ProgramContext, Program]:
    where = place(A4_RECIPE=recipe, A4_LOG_FOLDER="/gcs/logs", JOB_IDENTIFIER="anna-1", **env)
    mounted(where, BUCKET, "/gcs").argv = ["bash", "/a4/launchers/logged.sh"]
    return where, choose_program(where.argv, where.env, is_init=False)


def test_a_job_whose_log_is_kept_runs_as_its_twin_and_its_log_is_in_the_bucket() -> None:
    where, program = logged("nccl-all-reduce")
    lines, code = printed(program, where)
    twin = printed(RECIPES["nccl-all-reduce"], place(A4_RECIPE="nccl-all-reduce"))
    assert ([re.sub(r"in \d+ s$", "", each) for each in lines], code) == (
        [re.sub(r"in \d+ s$", "", each) for each in twin[0]], 0,
    )  # fmt: skip
    found = {name: file.content.decode() for name, file in where.volumes.files("bucket", "runs").items()}
    assert sorted(found) == [
        f"logs/anna-1/{name}" for name in ("connectivity-test.log", "nccl-test-results.txt", "pod-logs/coordinator.log")
    ]
    assert found["logs/anna-1/pod-logs/coordinator.log"].splitlines() == lines
    assert found["logs/anna-1/nccl-test-results.txt"].count(" float ") == 14
    test = found["logs/anna-1/connectivity-test.log"].splitlines()
    assert (test[0], len(test)) == ("step 7 connectivity: run", 10)


def test_the_log_of_a_pod_that_is_stopped_is_kept() -> None:
    where, program = logged("qwen3-30b-pretrain", A4_TRAIN_ITERATIONS="20")
    steps = program(where)
    while "] iteration " not in getattr(next(steps), "text", ""):
        pass
    del steps
    kept = where.volumes.files("bucket", "runs")["logs/anna-1/pod-logs/coordinator.log"].content.decode()
    assert "] iteration " in kept.splitlines()[-1]


@pytest.mark.parametrize("rank", [0, 1])
def test_pods_without_sshd_do_not_look_for_each_other(rank: int) -> None:
    where = mounted(place(A4_SSH="optional", NNODES="2", JOB_COMPLETION_INDEX=str(rank)), CLAIM, "/mnt", BARE)
    for fact in ("train started 0", "train started 1", "sync over", "convert over", "train ended"):
        where.room.post(fact, 0)
    lines, code = printed(RECIPES["qwen3-30b-pretrain"], where)
    assert code == 0
    assert sum("skip: no sshd in this image" in line for line in lines) == 3
    assert not [line for line in lines if "waiting for index 0 to end" in line or line.startswith("pong")]


def figures(**env: Any) -> tuple[float, float]:
    """Seconds of a usual step, and TFLOP/s of each GPU."""
    lines, _ = printed(RECIPES["qwen3-30b-pretrain"], place(A4_TRAIN_ITERATIONS="3", **env))
    found = re.search(r"iteration \(ms\): (\S+) \| throughput per GPU \(TFLOP/s/GPU\): (\S+) ", iterations(lines)[-1])
    assert found is not None
    return float(found[1]) / 1000, float(found[2])


def values(batch: int, sequence: int, size: str = "A3B", gpus: int = 8, **more: str) -> dict[str, str]:
    sizes = {"A4_GLOBAL_BATCH_SIZE": str(batch), "A4_SEQ_LEN": str(sequence), "A4_MODEL_SIZE": size}
    return {**sizes, "GPUS_PER_NODE": str(gpus), **more}


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (values(8, 128), values(64, 4096)),
        (values(256, 4096), values(1024, 4096)),
        (values(256, 4096), values(256, 4096, "A22B")),
        (values(256, 4096, "0.6B"), values(256, 4096, "8B")),
        (values(256, 4096), values(256, 4096, gpus=4)),
    ],
)
def test_more_work_takes_longer_and_uses_the_gpus_better(small: dict[str, str], large: dict[str, str]) -> None:
    (before, idle), (after, busy) = figures(**small), figures(**large)
    assert before * 1.02 < after
    assert idle < busy < 0.6 * 2250


@pytest.mark.parametrize("pace", ["0.01", "0.3", "60"])
@pytest.mark.parametrize("batch", [8, 4096])
def test_a_pace_never_makes_a_gpu_faster_than_it_is(pace: str, batch: int) -> None:
    seconds, tflops = figures(**values(batch, 4096, PRACTICE_PACE=pace))
    assert seconds == pytest.approx(float(pace), rel=0.1)
    assert 0 < tflops < 0.6 * 2250


@pytest.mark.parametrize(("path", "mine"), [("/mnt/nfs", True), ("/mnt/nfs/../nfs/a", True), ("/etc", False),
                                            ("/", False), ("a", False), ("/mnt/other", False)])  # fmt: skip
def test_only_what_the_pod_wrote_is_looked_for_in_its_folder(tmp_path: Path, path: str, mine: bool) -> None:
    for name in ("etc/hosts", "mnt/nfs/a"):
        (tmp_path / ".root" / name).parent.mkdir(parents=True)
        (tmp_path / ".root" / name).touch()
    assert (find_on_machine(tmp_path, path) != path) is mine


@pytest.mark.parametrize("name", ["../../up", "/whole", "a/../../up", "folder/", "zero\0byte", "x" * 300])
def test_no_name_of_an_object_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    where = mounted(place(), BUCKET, "/gcs")
    where.volumes.put(("bucket", "runs"), name, b"x", 1.0)
    where.volumes.put(("bucket", "runs"), "good", b"x", 1.0)
    write_files(tmp_path / "pod", where, {})
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["good"]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[PracticeCluster]:
    async with PracticeCluster(scene=False, speed=1000, folder=tmp_path) as made:
        yield made


async def test_whoever_looks_into_the_pod_sees_what_it_wrote(cluster: PracticeCluster) -> None:
    await pod(cluster)
    where = cluster.kubelets.find_container("default", "a", "").place
    assert where is not None
    where.volumes.put(("pod", where.pod["metadata"]["uid"], "/"), "mnt/logs/checkpoint/one", b"1", 1234.0)
    assert await run(cluster, "find", "/mnt/logs", "-type", "f", "-printf", "%P %T@") == (
        0, b"checkpoint/one 1234.0000000000", b"",
    )  # fmt: skip
    script = 'cd "$1" && cat *; cat /mnt/logs/checkpoint/one'
    assert (await run(cluster, "sh", "-c", script, "sh", "/mnt/logs/checkpoint"))[:2] == (0, b"11")


async def test_the_launcher_brings_sshd_into_an_image_without(cluster: PracticeCluster) -> None:
    await pod(cluster, command=("bash", "/a4/launchers/run.sh"), image=BARE, A4_SSH="optional")
    where = cluster.kubelets.find_container("default", "a", "").place
    assert where is not None
    lines: list[str] = []
    for step in RECIPES["qwen3-30b-pretrain"](where):
        lines.append(getattr(step, "text", ""))
        if "openssh-server" in lines[-1]:
            with pytest.raises(ApiError, match="connection refused"):
                await cluster.runtime.dial("default", "a", 2222)
        if "step 7" in lines[-1]:
            break
    shown = [line for line in lines if "sshd" in line]
    assert shown[:2] == ["no sshd in this image: openssh-server is installed", "sshd listens on port 2222"]
    assert [line.partition(" ")[2] for line in shown[2:]] == [
        f"{number} {name}: skip: no sshd in this image, and the recipe needs none"
        for number, name in ((4, "discovery"), (5, "order"), (6, "hostfile"))
    ]
    _, writer = await cluster.runtime.dial("default", "a", 2222)
    writer.close()
    script = "for p in sshd mpirun torchrun; do command -v $p >/dev/null || echo $p; done"
    assert (await run(cluster, "sh", "-c", script))[1] == b""
