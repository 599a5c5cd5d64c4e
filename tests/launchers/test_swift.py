"""What the recipes on Megatron-SWIFT start, compared with the document."""

from __future__ import annotations

import pytest

from console.kube.nested_values import Value
from tests.launchers import documents
from tests.launchers.conftest import Launch


def flags(words: list[str]) -> dict[str, str]:
    """Flag -> its words."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            assert word not in found, f"{word} is given twice"
            found[word] = []
            last = word
        else:
            found[last].append(word)
    return {flag: " ".join(values) for flag, values in found.items()}


@pytest.mark.parametrize("recipe", ["swift-dpo", "swift-dpo-multinode"])
def test_dpo_gets_the_documents_flags(launch: Launch, recipe: str) -> None:
    pod = launch(recipe)
    pod.run(f"{recipe}.sh")
    ((command, *words),) = pod.calls("megatron")
    assert command == "rlhf"
    assert flags(words) == documents.DPO | documents.AT_SIGTERM
    given = pod.environment_of("megatron")
    assert given["in"].endswith("/mnt")
    assert (given["NPROC_PER_NODE"], given["NODE_RANK"]) == ("8", "0")
    assert given["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert given["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert (given["MEGATRON_LM_PATH"], given["MODELSCOPE_CACHE"]) == ("/mnt/Megatron-LM", "/mnt/shared")


def test_several_nodes_meet_at_index_0_with_names_that_stay(launch: Launch) -> None:
    first, second = launch("swift-dpo-multinode"), launch("swift-dpo-multinode", 1)
    with second.start("swift-dpo-multinode.sh") as waiting:
        first.run("swift-dpo-multinode.sh")
        assert waiting.wait(timeout=30) == 0
    assert [call[0] for call in first.calls("git")] == ["clone"]
    assert second.calls("git") == []
    assert first.calls("megatron") == second.calls("megatron")
    for pod, rank in ((first, "0"), (second, "1")):
        given = pod.environment_of("megatron")
        assert (given["NNODES"], given["NODE_RANK"]) == ("2", rank)
        assert (given["MASTER_ADDR"], given["MASTER_PORT"]) == (
            "anna-workload-0-0.anna.team.svc.cluster.local",
            "29500",
        )
        # RDMA of A4 comes from gIB, and NCCL says so.
        assert (given["NCCL_NET"], given["NCCL_DEBUG"]) == ("gIB", "INFO")


def test_megatron_lm_is_cloned_once(launch: Launch) -> None:
    pod = launch("swift-dpo")
    pod.run("swift-dpo.sh")
    lines = pod.run("swift-dpo.sh")
    assert "megatron skip" in pod.steps(lines)
    assert [call for call in pod.calls("git") if call[0] == "clone"] == [
        [
            "clone",
            "--branch",
            "core_r0.14.0",
            "https://github.com/NVIDIA/Megatron-LM.git",
            "/mnt/Megatron-LM.part",
        ]
    ]


def test_a_megatron_lm_of_another_version_is_named(launch: Launch) -> None:
    pod = launch("swift-dpo")
    pod.run("swift-dpo.sh")
    lines = pod.run("swift-dpo.sh", A4_TEST_BRANCH="heads/core_r0.13.0")
    told = "at core_r0.13.0: SWIFT 3.10.3 goes with core_r0.14.0, which another folder would get"
    assert f"step 4 megatron: skip: /mnt/Megatron-LM is there already, {told}" in lines
    pod.environment["A4_TEST_BRANCH"] = "heads/core_r0.14.0"
    assert not any("another folder" in line for line in pod.run("swift-dpo.sh"))


def test_a_folder_that_is_no_megatron_lm_is_not_taken_for_one(launch: Launch) -> None:
    pod = launch("swift-dpo")
    (pod.root / "mnt/Megatron-LM/notes").mkdir(parents=True)
    lines = pod.run("swift-dpo.sh", code=1)
    assert lines[-1] == "/mnt/Megatron-LM is there and is no Megatron-LM: name another folder, or move it away"
    (pod.root / "mnt/Megatron-LM/megatron").mkdir()
    pod.run("swift-dpo.sh")
    assert pod.calls("git") == []


@pytest.mark.parametrize(("version", "packs"), [("3.7.1", False), ("3.8.0", True), ("3.10.3", True)])
def test_packing_is_left_out_where_it_cannot_be(launch: Launch, version: str, packs: bool) -> None:
    pod = launch("swift-dpo", image="registry.example/swift:1", recipe={"swift": {"version": version}})
    pod.run("swift-dpo.sh")
    assert ("--packing" in pod.calls("megatron")[0]) is packs


def test_version_4_has_other_names(launch: Launch) -> None:
    pod = launch("swift-dpo", image="registry.example/swift:4", recipe={"swift": {"version": "4.3.2"}})
    pod.run("swift-dpo.sh")
    renamed = {
        "--load": "--model",
        "--save": "--output_dir",
        "--max_epochs": "--num_train_epochs",
        "--eval_interval": "--eval_steps",
        "--save_interval": "--save_steps",
        "--num_workers": "--dataloader_num_workers",
    }
    expected = {renamed.get(flag, flag): value for flag, value in documents.DPO.items()}
    assert flags(pod.calls("megatron")[0][1:]) == expected


def test_every_dpo_setting_reaches_the_command(launch: Launch) -> None:
    swift: dict[str, Value] = {
        "beta": "0.3",
        "loss": "ipo",
        "datasets": ["a/b#10", "c/d"],
        "offload": False,
        "saveOptimizer": True,
        "recompute": "selective",
        "extra": ["--log_interval", "1"],
        "packing": False,
    }
    pod = launch("swift-dpo", recipe={"swift": swift})
    pod.run("swift-dpo.sh")
    given = flags(pod.calls("megatron")[0][1:])
    assert (given["--beta"], given["--loss_type"], given["--dataset"], given["--log_interval"]) == (
        "0.3",
        "ipo",
        "a/b#10 c/d",
        "1",
    )
    assert not {"--packing", "--no_save_optim", "--optimizer_cpu_offload", "--recompute_num_layers"} & set(given)


def test_fine_tuning_gets_the_documents_flags(launch: Launch) -> None:
    pod = launch("swift-sft")
    pod.run("swift-sft.sh")
    ((command, *words),) = pod.calls("megatron")
    assert command == "sft"
    assert flags(words) == documents.SWIFT_SFT | documents.AT_SIGTERM
    given = pod.environment_of("megatron")
    assert (given["NPROC_PER_NODE"], given["CUDA_VISIBLE_DEVICES"]) == ("2", "0,1")


def test_the_export_is_the_documents(launch: Launch) -> None:
    pod = launch("swift-export")
    lines = pod.run("swift-export.sh")
    assert pod.calls("swift") == [documents.EXPORT]
    assert pod.environment_of("swift")["CUDA_VISIBLE_DEVICES"] == "0"
    assert pod.steps(lines) == ["megatron done", "sync done", "export done"]


def test_a_training_that_fails_fails_the_pod(launch: Launch) -> None:
    pod = launch("swift-sft")
    pod.run("swift-sft.sh", code=9, A4_TEST_CODE="9")
