"""What the recipes on Pai-Megatron-Patch start, compared with the documents, and how they skip, share and resume."""

from __future__ import annotations

import shutil
import signal

import pytest

from console.kube.nested_values import Value
from tests.launchers import documents
from tests.launchers.conftest import Launch
from tests.launchers.sandbox import Sandbox

IN_CODE = ["-c", "safe.directory=*", "-C", "/mnt/Pai-Megatron-Patch"]
ENVIRONMENT = ["environment done"]
PRETRAIN = ["clone done", "download done", "sync done", "convert done", "train done"]
SFT = ["clone done", "download done", "build-data done", "sync done", "convert done", "train done"]
STEPS = {
    "qwen3-30b-pretrain-pai": PRETRAIN,
    "qwen3-30b-pretrain": ENVIRONMENT + PRETRAIN,
    "qwen3-next-pretrain": ENVIRONMENT + PRETRAIN,
    "qwen3-next-sft": ENVIRONMENT + SFT,
    "qwen3-next-sft-json": ENVIRONMENT + PRETRAIN,
    "qwen3-sft": SFT,
    "qwen3-sft-json": PRETRAIN,
}
ONE_NODE: dict[str, Value] = {"gpus": 8}


def expected(recipe: str) -> list[str]:
    decided = documents.DECIDED.get(recipe, {})
    return [decided.get(number, word) for number, word in enumerate(documents.TRAINING[recipe], 1)]


@pytest.mark.slow(reason="runs a launcher as a process", fast_rows=2)
@pytest.mark.parametrize("recipe", documents.TRAINING)
def test_training_gets_the_documents_27_arguments(launch: Launch, recipe: str) -> None:
    pod = launch(recipe, **ONE_NODE)
    lines = pod.run(f"{recipe}.sh")
    assert pod.steps(lines) == STEPS[recipe]
    (arguments,) = pod.calls("run_mcore_qwen3.sh")
    assert len(arguments) == 27
    assert arguments == expected(recipe)
    given = pod.environment_of("run_mcore_qwen3.sh")
    family = "qwen3_next" if "next" in recipe else "qwen3"
    assert given["in"].endswith(f"/mnt/Pai-Megatron-Patch/examples/{family}")
    # The scripts' WORLD_SIZE is nodes and their RANK the node's.
    assert (given["WORLD_SIZE"], given["RANK"], given["KUBERNETES_CONTAINER_RESOURCE_GPU"]) == ("1", "0", "8")
    assert (given["OMP_NUM_THREADS"], given["MASTER_PORT"]) == ("12", "6002")
    assert given["MP_DATASET_TYPE"] == ("raw" if "json" in recipe else "idxmap")


def test_lustre_moves_everything_with_the_workspace(launch: Launch) -> None:
    pod = launch("qwen3-next-lustre")
    pod.run("qwen3-next-lustre.sh")
    (arguments,) = pod.calls("run_mcore_qwen3.sh")
    assert arguments == [word.replace("/mnt/", "/lustre/") for word in expected("qwen3-next-pretrain")]
    assert pod.environment_of("run_mcore_qwen3.sh")["in"].endswith("/lustre/Pai-Megatron-Patch/examples/qwen3_next")


@pytest.mark.parametrize("recipe", documents.CONVERSION)
def test_conversion_gets_the_documents_arguments(launch: Launch, recipe: str) -> None:
    pod = launch(recipe)
    pod.run(f"{recipe}.sh")
    assert pod.calls("run_8xH20.sh") == [documents.CONVERSION[recipe]]
    given = pod.environment_of("run_8xH20.sh")
    assert given["in"].endswith("toolkits/distributed_checkpoints_convertor")
    assert (given["WORLD_SIZE"], given["RANK"], given["KUBERNETES_CONTAINER_RESOURCE_GPU"]) == ("1", "0", "8")
    target = documents.CONVERSION[recipe][2]
    assert (pod.root / target[1:] / ".a4-complete").exists()


def test_conversion_settings_reach_the_script(launch: Launch) -> None:
    convert: dict[str, Value] = {"cuda": False, "precision": "fp32", "parallel": "--tensor-model-parallel-size 2"}
    pod = launch("qwen3-to-mcore", recipe={"convert": convert, "model": {"size": "4B"}})
    pod.run("qwen3-to-mcore.sh")
    ((size, *_, direction, cuda, precision),) = pod.calls("run_8xH20.sh")
    assert (size, direction, cuda, precision) == ("4B", "false", "false", "fp32")
    assert pod.environment_of("run_8xH20.sh")["MODEL_PARALLEL_ARGS"] == "--tensor-model-parallel-size 2"


@pytest.mark.slow(reason="runs a launcher as a process", fast_rows=2)
@pytest.mark.parametrize("size", ["0.6B", "1.7B", "4B", "8B", "14B", "32B", "A3B", "A22B"])
def test_all_model_sizes_reach_the_scripts(launch: Launch, size: str) -> None:
    pod = launch("qwen3-30b-pretrain-pai", gpus=16, recipe={"model": {"size": size}})
    pod.run("qwen3-30b-pretrain-pai.sh", SKIP_CHECKPOINT_CONVERSION="true")
    assert pod.calls("run_mcore_qwen3.sh")[0][1] == size


def test_the_largest_model_has_a_script_of_its_own(launch: Launch) -> None:
    pod = launch("qwen3-to-mcore", recipe={"model": {"size": "A22B"}}, gpus=16)
    pod.run("qwen3-to-mcore.sh")
    assert [call[0] for call in pod.calls("run_A22B_16xH20.sh")] == ["A22B"]


@pytest.mark.slow(reason="runs a launcher as a process")
@pytest.mark.parametrize("recipe", documents.BUILD_DATA)
def test_fine_tuning_data_are_built_once(launch: Launch, recipe: str) -> None:
    pod = launch(recipe, **ONE_NODE)
    pod.run(f"{recipe}.sh")
    assert pod.calls("run_build_idxmap_sft_dataset.sh") == [documents.BUILD_DATA[recipe]]
    # What is built is what is trained on.
    assert pod.calls("run_mcore_qwen3.sh")[0][21] == f"{documents.BUILD_DATA[recipe][3]}_text_document"
    lines = pod.run(f"{recipe}.sh")
    assert "build-data skip" in pod.steps(lines)
    pod.run(f"{recipe}.sh", A4_SEQ_LEN="256")
    assert [call[2] for call in pod.calls("run_build_idxmap_sft_dataset.sh")][-1] == "256"


@pytest.mark.parametrize("built", ["", "bin"])
def test_data_that_were_not_built_stop_the_job_and_are_built_the_next_time(launch: Launch, built: str) -> None:
    """The upstream script ends well when its Python failed."""
    pod = launch("qwen3-sft", **ONE_NODE)
    lines = pod.run("qwen3-sft.sh", code=1, A4_TEST_BUILT=built)
    assert lines[-1] == "step 3 build-data: failed with exit code 1"
    assert "has built no /mnt/qwen-datasets/mmap_qwen3_datasets_sft_text_document.bin and .idx" in "".join(lines)
    assert pod.calls("run_mcore_qwen3.sh") == []
    del pod.environment["A4_TEST_BUILT"]
    lines = pod.run("qwen3-sft.sh")
    assert "build-data done" in pod.steps(lines)


@pytest.mark.slow(reason="runs a launcher as a process")
def test_data_that_are_gone_are_built_again(launch: Launch) -> None:
    pod = launch("qwen3-sft", **ONE_NODE)
    pod.run("qwen3-sft.sh")
    (pod.root / "mnt/qwen-datasets/mmap_qwen3_datasets_sft_text_document.idx").unlink()
    assert "build-data done" in pod.steps(pod.run("qwen3-sft.sh"))


def flags(pod: Sandbox) -> list[str]:
    return sorted(path.name for path in (pod.root / "mnt").glob("sync_flags_*"))


def test_the_last_pod_takes_the_flags_of_its_job_away(launch: Launch) -> None:
    first, second = (launch("qwen3-to-mcore", index, gpus=16) for index in (0, 1))
    first.run("qwen3-to-mcore.sh")
    assert flags(first) == ["sync_flags_team.anna-1"], "the other pod has to read them"
    second.run("qwen3-to-mcore.sh")
    assert flags(first) == []


def test_flags_of_an_earlier_run_go_and_those_of_other_jobs_stay(launch: Launch) -> None:
    pod = launch("qwen3-to-mcore", **ONE_NODE)
    uid = "5e0c6f1a-0000-4000-8000-000000000001"
    others = [f"other.anna-{uid}", f"team.anna-2-{uid}", f"team.bob-{uid}"]
    for name in (f"team.anna-{uid}", *others):
        (pod.root / "mnt" / f"sync_flags_{name}").mkdir()
    pod.run("qwen3-to-mcore.sh")
    assert flags(pod) == [f"sync_flags_{name}" for name in others]


@pytest.mark.slow(reason="runs a launcher as a process")
def test_evaluation_uses_the_archives_that_it_loads(launch: Launch) -> None:
    """The harness of that revision reads /workspace/ceval, /workspace/cmmlu and /workspace/evaluate."""
    pod = launch("qwen3-eval")
    lines = pod.run("qwen3-eval.sh")
    assert pod.steps(lines) == ["clone done", "download done", "harness done", "evaluate done"]
    harness = "/mnt/LM-Evaluation-Harness-240310"
    assert pod.calls("git")[0] == ["clone", "--recurse-submodules", documents.HARNESS, f"{harness}.part"]
    in_code = ["-c", "safe.directory=*", "-C", harness]
    assert [*in_code, "checkout", "7d9bc88e5192eaaada656c5a361984ac4b63e65a"] in pod.calls("git")
    assert pod.calls("accelerate") == [documents.EVALUATION]
    store = f"{documents.STORE}/evaluation-datasets"
    assert [call[-1] for call in pod.calls("wget")] == [
        f"{store}/{name}.tgz" for name in ("evaluate", "cmmlu", "ceval")
    ]
    for name in ("evaluate", "cmmlu", "ceval"):
        assert str((pod.root / "workspace" / name).readlink()).endswith(f"/mnt/evaluation/{name}")
    assert pod.calls("pip") == []
    given = pod.environment_of("accelerate")
    assert (given["HF_HUB_OFFLINE"], given["HF_DATASETS_OFFLINE"], given["HF_DATASETS_TRUST_REMOTE_CODE"]) == (
        "1", "1", "1",
    )  # fmt: skip
    assert given["PYTHONPATH"].endswith(harness)
    # Again: the links stay, and a folder that the image brings is left alone.
    (pod.root / "workspace/cmmlu").unlink()
    (pod.root / "workspace/cmmlu").mkdir()
    pod.run("qwen3-eval.sh")
    assert not (pod.root / "workspace/cmmlu").is_symlink()


def test_evaluation_installs_what_the_harness_imports_where_the_image_lacks_it(launch: Launch) -> None:
    pod = launch("qwen3-eval", recipe={"eval": {"tasks": ["mmlu"], "batch": 4, "trustCode": False}})
    pod.run("qwen3-eval.sh", A4_TEST_IMPORT="1")
    assert pod.calls("pip") == [["install", "/mnt/LM-Evaluation-Harness-240310"]]
    (arguments,) = pod.calls("accelerate")
    assert arguments[-4:] == ["--tasks", "mmlu", "--batch_size", "4"]
    assert arguments[8].endswith("trust_remote_code=False")
    assert "HF_DATASETS_TRUST_REMOTE_CODE" not in pod.environment_of("accelerate")


def test_evaluation_with_a_folder_that_is_no_harness_says_so(launch: Launch) -> None:
    pod = launch("qwen3-eval", recipe={"code": {"folder": "Pai-Megatron-Patch"}})
    (pod.root / "mnt/Pai-Megatron-Patch/examples").mkdir(parents=True)
    lines = pod.run("qwen3-eval.sh", code=1, SKIP_CLONE_REPO="true")
    assert any("/mnt/Pai-Megatron-Patch has no lm_eval: name the repository" in line for line in lines)


def test_evaluation_from_the_hub_loads_nothing_else(launch: Launch) -> None:
    pod = launch("qwen3-eval", recipe={"eval": {"source": "hub"}})
    lines = pod.run("qwen3-eval.sh")
    assert pod.steps(lines) == ["clone skip", "download skip", "harness done", "evaluate done"]
    assert pod.calls("git") == pod.calls("wget") == pod.calls("tar") == []
    assert pod.calls("pip") == [["install", "lm_eval~=0.4.9"]]
    assert pod.calls("accelerate") == [documents.EVALUATION]
    assert "HF_HUB_OFFLINE" not in pod.environment_of("accelerate")


def test_a_download_clones_and_loads_and_does_nothing_else(launch: Launch) -> None:
    pod = launch("qwen3-download")
    lines = pod.run("qwen3-download.sh")
    assert pod.steps(lines) == ["clone done", "download done"]
    clone = pod.calls("git")[0]
    assert clone == ["clone", "--recurse-submodules", documents.REPOSITORY, "/mnt/Pai-Megatron-Patch.part"]
    assert pod.calls("huggingface-cli") == [
        ["download", "Qwen/Qwen3-30B-A3B", "--local-dir", "/mnt/qwen-ckpts/Qwen3-30B-A3B"]
    ]
    assert [call[-1] for call in pod.calls("wget")] == documents.FILES
    assert {call[3] for call in pod.calls("wget")} == {"/mnt/qwen-datasets"}
    # Files with their sizes.
    assert len([line for line in lines if "mmap_qwen3_datasets_text_document" in line]) == 2


def test_the_other_hub(launch: Launch) -> None:
    pod = launch("qwen3-next-pretrain")
    pod.run("qwen3-next-pretrain.sh")
    folder = "/mnt/ckpts/huggingface/Qwen3-Next-80B-A3B-Instruct"
    assert pod.calls("modelscope") == [
        ["download", "--model", "Qwen/Qwen3-Next-80B-A3B-Instruct", "--local_dir", folder]
    ]


def test_the_environment_is_prepared_on_every_pod(launch: Launch) -> None:
    for index in (0, 1):
        pod = launch("qwen3-30b-pretrain", index)
        driver = pod.root / documents.TRITON[1:]
        driver.parent.mkdir(parents=True)
        driver.write_text('    libs = subprocess.check_output(["ldconfig", "-p"]).decode()\n')
        pod.environment |= dict.fromkeys(
            ("SKIP_CLONE_REPO", "SKIP_DOWNLOAD_DATA", "SKIP_CHECKPOINT_CONVERSION", "SKIP_TRAINING"), "true"
        )
        lines = pod.run("qwen3-30b-pretrain.sh")
        assert "environment done" in pod.steps(lines)
        fixed = '    libs = subprocess.check_output(["/sbin/ldconfig", "-p"]).decode(errors="ignore")\n'
        assert driver.read_text() == fixed
        assert pod.calls("pip") == [["install", "--upgrade", "nvidia-nccl-cu12~=2.28"], documents.PACKAGES]


def test_packages_that_are_compiled_come_last_and_one_by_one(launch: Launch) -> None:
    pod = launch("qwen3-next-to-mcore")
    lines = pod.run("qwen3-next-to-mcore.sh")
    assert pod.calls("pip") == [
        ["install", "--upgrade", "nvidia-nccl-cu12~=2.28"],
        ["install", documents.TRANSFORMERS, *documents.PACKAGES[2:], *documents.NEXT],
        ["uninstall", "-y", "transformer-engine", "transformer-engine-cu12", "transformer-engine-torch"],
        ["list", "--format=freeze"],
        *(["install", "--no-build-isolation", "-c", "/tmp/a4-held.txt", package] for package in documents.BUILT),
    ]
    given = pod.environment_of("pip")
    assert (given["NVTE_FRAMEWORK"], given["CAUSAL_CONV1D_FORCE_BUILD"]) == ("pytorch", "TRUE")
    assert "mamba-ssm==2.2.6.post3 is compiled in every pod; an image that has it saves this" in lines


def test_an_image_that_has_them_compiles_nothing(launch: Launch) -> None:
    pod = launch("qwen3-next-to-mcore", recipe={"packages": {"built": [], "upgradeNccl": False, "plain": []}})
    pod.run("qwen3-next-to-mcore.sh")
    assert pod.calls("pip") == []


SWITCHES = {
    "environment": "environment",
    "clone": "clone",
    "download": "download",
    "data": "build-data",
    "conversion": "convert",
    "training": "train",
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_skips_its_step_alone(launch: Launch, switch: str) -> None:
    pod = launch("qwen3-next-sft", recipe={"skip": {switch: True}})
    if switch == "clone":
        shutil.copytree(pod.root / "scripts", pod.root / "mnt/Pai-Megatron-Patch")
    lines = pod.run("qwen3-next-sft.sh")
    skipped = f"{SWITCHES[switch]} skip"
    assert pod.steps(lines) == [
        skipped if step == skipped.replace("skip", "done") else step for step in STEPS["qwen3-next-sft"]
    ]


@pytest.mark.parametrize("recipe", ["qwen3-30b-pretrain-pai", "qwen3-30b-pretrain", "qwen3-next-sft"])
def test_with_every_switch_on_the_pods_are_for_shells(launch: Launch, recipe: str) -> None:
    pod = launch(recipe, recipe={"skip": dict.fromkeys(SWITCHES, True)})
    lines = pod.run(f"{recipe}.sh")
    assert {step for step in pod.steps(lines) if step != "sync done"} <= {f"{step} skip" for step in SWITCHES.values()}
    assert (pod.root / "tmp/a4-keep").exists()


def test_with_one_switch_off_the_pods_end(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain-pai", recipe={"skip": {"clone": True, "download": True, "training": True}})
    shutil.copytree(pod.root / "scripts", pod.root / "mnt/Pai-Megatron-Patch")
    pod.nodes = 1
    pod.run("qwen3-30b-pretrain-pai.sh")
    assert not (pod.root / "tmp/a4-keep").exists()


def test_run_keeps_pods_that_have_nothing_to_do(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain-pai", recipe={"skip": dict.fromkeys(SWITCHES, True)})
    with pod.start("run.sh") as process:
        assert process.stdout is not None
        assert any("has nothing to run; the pod is kept" in line for line in process.stdout)
        process.terminate()
        assert process.wait(timeout=20) == 128 + signal.SIGTERM


@pytest.mark.slow(reason="runs a launcher as a process")
def test_a_second_run_finds_what_the_first_has_made(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain", **ONE_NODE)
    pod.run("qwen3-30b-pretrain.sh")
    lines = pod.run("qwen3-30b-pretrain.sh", JOB_IDENTIFIER="anna-2")
    assert "convert skip" in pod.steps(lines)
    assert {
        "/mnt/Pai-Megatron-Patch is there already",
        "Qwen/Qwen3-30B-A3B is in /mnt/qwen-ckpts/Qwen3-30B-A3B already",
        "the data are in /mnt/qwen-datasets already",
    } <= set(lines)
    assert (len(pod.calls("huggingface-cli")), len(pod.calls("wget")), len(pod.calls("run_8xH20.sh"))) == (1, 4, 1)
    assert [call[0] for call in pod.calls("git")].count("clone") == 1
    assert len(pod.calls("run_mcore_qwen3.sh")) == 2


def test_a_download_that_broke_off_goes_on(launch: Launch) -> None:
    pod = launch("qwen3-download")
    lines = pod.run("qwen3-download.sh", code=1, A4_TEST_HUB="1")
    assert lines[-1].endswith("download: failed with exit code 1")
    pod.run("qwen3-download.sh", A4_TEST_HUB="0")
    assert len(pod.calls("huggingface-cli")) == 4, "three tries, and the next launch"
    assert all(call[0] == "-c" for call in pod.calls("wget")), "wget goes on with a part"


def test_half_a_conversion_is_made_again_and_a_foreign_one_is_used(launch: Launch) -> None:
    pod = launch("qwen3-to-mcore")
    lines = pod.run("qwen3-to-mcore.sh", code=3, A4_TEST_CONVERT="3")
    assert lines[-1] == "step 3 convert: failed with exit code 3"
    target = pod.root / "mnt/qwen-ckpts/Qwen3-30B-A3B-to-mcore"
    assert target.is_dir()
    assert not (target / ".a4-complete").exists()
    pod.environment |= {"A4_TEST_CONVERT": "0", "JOB_IDENTIFIER": "anna-2"}
    assert "convert done" in pod.steps(pod.run("qwen3-to-mcore.sh"))
    (target / ".a4-complete").unlink()
    (target / "latest_checkpointed_iteration.txt").write_text("release")
    pod.environment["JOB_IDENTIFIER"] = "anna-3"
    assert "convert skip" in pod.steps(pod.run("qwen3-to-mcore.sh"))


def test_a_training_that_fails_fails_the_pod(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain-pai", **ONE_NODE)
    lines = pod.run("qwen3-30b-pretrain-pai.sh", code=7, A4_TEST_CODE="7")
    assert lines[-1] == "step 5 train: failed with exit code 7"


@pytest.mark.slow(reason="runs a launcher as a process")
def test_other_pods_wait_for_index_0_and_take_part(launch: Launch) -> None:
    first, second = launch("qwen3-30b-pretrain-pai"), launch("qwen3-30b-pretrain-pai", 1)
    with second.start("qwen3-30b-pretrain-pai.sh") as waiting:
        assert waiting.stdout is not None
        seen = [next(waiting.stdout) for _ in range(4)]
        assert [line.strip() for line in seen] == [
            "step 1 clone: skip: index 0 does this",
            "step 2 download: skip: index 0 does this",
            "step 3 sync: run",
            "waiting for index 0",
        ]
        assert waiting.poll() is None
        first.run("qwen3-30b-pretrain-pai.sh")
        assert waiting.wait(timeout=30) == 0
    assert second.calls("git") == []
    # Both convert and train: the scripts join them by the node's rank.
    for pod, rank in ((first, "0"), (second, "1")):
        assert len(pod.calls("run_8xH20.sh")) == len(pod.calls("run_mcore_qwen3.sh")) == 1
        given = pod.environment_of("run_mcore_qwen3.sh")
        assert (given["WORLD_SIZE"], given["RANK"]) == ("2", rank)


@pytest.mark.slow(reason="runs a launcher as a process")
def test_flags_of_an_earlier_run_are_not_this_runs(launch: Launch) -> None:
    first, second = launch("qwen3-30b-pretrain-pai"), launch("qwen3-30b-pretrain-pai", 1)
    first.environment |= {"JOB_IDENTIFIER": "anna-0", "SKIP_TRAINING": "true"}
    first.run("qwen3-30b-pretrain-pai.sh")
    with second.start("qwen3-30b-pretrain-pai.sh") as waiting:
        assert waiting.stdout is not None
        assert "waiting for index 0\n" in iter(waiting.stdout.readline, "")
        assert waiting.poll() is None
        waiting.kill()


def test_json_fine_tuning_can_follow(launch: Launch) -> None:
    pod = launch("qwen3-next-pretrain", recipe={"train": {"alsoJson": True}})
    lines = pod.run("qwen3-next-pretrain.sh")
    assert pod.steps(lines)[-2:] == ["train done", "train-json done"]
    assert pod.calls("run_mcore_qwen3.sh") == [expected("qwen3-next-pretrain"), expected("qwen3-next-sft-json")]
    assert pod.environment_of("run_mcore_qwen3.sh")["MP_DATASET_TYPE"] == "raw"


def test_settings_outside_the_27_arguments(launch: Launch) -> None:
    train: dict[str, Value] = {
        "dataType": "raw",
        "recompute": "full",
        "recomputeLayers": 4,
        "packing": True,
        "virtualStage": 6,
        "firstStage": 22,
    }
    pod = launch("qwen3-30b-pretrain", gpus=8, recipe={"train": train})
    pod.run("qwen3-30b-pretrain.sh")
    given = pod.environment_of("run_mcore_qwen3.sh")
    names = ("MP_DATASET_TYPE", "MP_AC_LAYERS", "MP_SFT_PACKING", "MP_VP", "MP_PP0_LAYERS")
    assert [given[name] for name in names] == ["raw", "4", "true", "6", "22"]


def test_a_pinned_revision_is_checked_out(launch: Launch) -> None:
    pod = launch("qwen3-download", recipe={"code": {"revision": "v1.2"}})
    pod.run("qwen3-download.sh")
    assert [*IN_CODE, "checkout", "v1.2"] in pod.calls("git")
    assert [*IN_CODE, "submodule", "update", "--init", "--recursive"] in pod.calls("git")


def test_code_that_cannot_be_updated_stays_as_it_is(launch: Launch) -> None:
    pod = launch("qwen3-download")
    pod.run("qwen3-download.sh")
    lines = pod.run("qwen3-download.sh", A4_TEST_PULL="1")
    assert [*IN_CODE, "pull", "--ff-only"] in pod.calls("git")
    assert "git pull failed: the code stays as it is" in lines


def test_code_that_is_no_clone_is_used_as_it_is(launch: Launch) -> None:
    pod = launch("qwen3-download")
    (pod.root / "mnt/Pai-Megatron-Patch/examples").mkdir(parents=True)
    lines = pod.run("qwen3-download.sh")
    assert "/mnt/Pai-Megatron-Patch is there, though not from git: it is used as it is" in lines
    assert pod.calls("git") == []
    lines = pod.run("qwen3-download.sh", code=1, A4_CODE_REVISION="v1.2")
    assert any("revision v1.2 cannot be had of it" in line for line in lines)


def test_a_newer_client_of_the_hub_will_do(launch: Launch) -> None:
    pod = launch("qwen3-download")
    (pod.root / "bin/huggingface-cli").unlink()
    pod.run("qwen3-download.sh")
    assert pod.calls("hf") == [["download", "Qwen/Qwen3-30B-A3B", "--local-dir", "/mnt/qwen-ckpts/Qwen3-30B-A3B"]]
    assert pod.calls("pip") == []


@pytest.mark.slow(reason="runs a launcher as a process")
def test_two_models_never_meet_in_one_folder(launch: Launch) -> None:
    folders: dict[str, Value] = {"folder": "weights", "mcore": "weights-to-mcore"}
    pod = launch("qwen3-30b-pretrain-pai", **ONE_NODE, recipe={"model": folders})
    pod.run("qwen3-30b-pretrain-pai.sh")
    pod.environment |= {"A4_MODEL_ID": "Qwen/Qwen3-4B", "A4_MODEL_SIZE": "4B", "JOB_IDENTIFIER": "anna-2"}
    lines = pod.run("qwen3-30b-pretrain-pai.sh", code=1)
    other = "holds the weights of Qwen/Qwen3-30B-A3B, not of Qwen/Qwen3-4B: name another folder, or delete it"
    assert f"/mnt/weights {other}" in lines
    lines = pod.run("qwen3-30b-pretrain-pai.sh", code=1, SKIP_DOWNLOAD_DATA="true")
    assert f"/mnt/weights-to-mcore {other}" in lines
    assert [call[1] for call in pod.calls("huggingface-cli")] == ["Qwen/Qwen3-30B-A3B"]
    assert [call[0] for call in pod.calls("run_8xH20.sh")] == ["A3B"]


@pytest.mark.slow(reason="runs a launcher as a process")
def test_another_size_brings_its_model_and_folders(launch: Launch) -> None:
    """With the folders of the first model its finished conversion would be taken for the second's."""
    first = launch("qwen3-30b-pretrain-pai", **ONE_NODE)
    first.run("qwen3-30b-pretrain-pai.sh")
    pod = launch("qwen3-30b-pretrain-pai", 2, **ONE_NODE, recipe={"model": {"size": "8B"}})
    pod.environment |= {"JOB_COMPLETION_INDEX": "0", "JOB_IDENTIFIER": "anna-2"}
    lines = pod.run("qwen3-30b-pretrain-pai.sh")
    assert "convert done" in pod.steps(lines)
    assert pod.calls("huggingface-cli") == [["download", "Qwen/Qwen3-8B", "--local-dir", "/mnt/qwen-ckpts/Qwen3-8B"]]
    target = "/mnt/qwen-ckpts/Qwen3-8B-to-mcore"
    assert pod.calls("run_8xH20.sh") == [["8B", "/mnt/qwen-ckpts/Qwen3-8B", target, "false", "true", "bf16"]]
    assert pod.calls("run_mcore_qwen3.sh")[0][23] == target
    assert pod.text(f"{target[1:]}/.a4-complete") == "Qwen/Qwen3-8B\n"
