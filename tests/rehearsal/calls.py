"""How programs were called in every pod, compared with the commands of the documents, and the environment they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.launchers import documents
from tests.rehearsal.cases import JSON_AFTER, MADE_ONCE, STAYS, Case
from tests.rehearsal.pods import TOKEN

Call = dict[str, Any]
GIB = {
    "NCCL_NET": "gIB", "NCCL_IB_TC": "52", "NCCL_SOCKET_IFNAME": "eth0,eth1", "HF_TOKEN": TOKEN,
    "NCCL_TUNER_CONFIG_PATH": "/usr/local/gib/configs/tuner_config_a4.txtpb",
    "LD_LIBRARY_PATH": "/usr/local/gib/lib64:/usr/local/nvidia/lib64",
}  # fmt: skip
"""What a program that trains or tests has in its environment."""
SMALL = {"HF_TOKEN": TOKEN, "NCCL_SOCKET_IFNAME": "eth0,eth1"}
WHOLE_NODE = 8
TRAINS = ("run_mcore_qwen3.sh", "run_8xH20.sh", "megatron", "torchrun", "all_reduce_perf", "swift", "accelerate")


def problems_of_calls(case: Case, attempt: dict[str, Any], *, first: bool) -> list[str]:
    """What differs, a sentence each; of a repeated attempt only the environment is looked at."""
    found = made_twice(case, attempt)
    first = first and case.expected[0].outcome != STAYS
    for index, calls in enumerate(attempt["calls"]):
        for call in calls:
            if call["program"] in TRAINS:
                found += [f"pod {index}: {problem}" for problem in environment(case, call, index)]
        if first and case.recipe in EXPECTED:
            program, arguments = EXPECTED[case.recipe]
            never = [] if len(case.releases) > 1 and program in MADE_ONCE else [["never called"]]
            seen = [call["arguments"] for call in calls if call["program"] == program] or never
            if case.fault == JSON_AFTER:
                del seen[1:]  # the second training has other data
            for words in seen:
                wanted = [word.format(**numbers(case, index)) for word in arguments]
                found += [f"pod {index}: {program}: {problem}" for problem in differences(wanted, words)]
            if program == "all_reduce_perf" and not found:
                break  # mpirun starts it on index 0's word; every process writes into its own pod
    if first and case.recipe == "nccl-all-reduce" and not found:
        processes = sum(call["program"] == "all_reduce_perf" for calls in attempt["calls"] for call in calls)
        if processes != case.nodes * numbers(case, 0)["gpus"]:
            found.append(f"{processes} processes of all_reduce_perf")
    return found[:12]


def made_twice(case: Case, attempt: dict[str, Any]) -> list[str]:
    """Which programs more than one job has called, of those that make what all jobs share."""
    if len(case.releases) == 1:
        return []
    called = {
        (" ".join([call["program"], *call["arguments"][:1]]) if call["program"] == "git" else call["program"], job)
        for job, calls in ((number // case.nodes, calls) for number, calls in enumerate(attempt["calls"]))
        for call in calls
    }
    jobs = {program: sorted(job for each, job in called if each == program) for program in MADE_ONCE}
    return [f"{program} is called in jobs {found}" for program, found in jobs.items() if len(found) > 1]


def numbers(case: Case, index: int) -> dict[str, Any]:
    """What differs from pod to pod and with the number of nodes."""
    gpus = int(case.values["gpus"])
    job, index = divmod(index, case.nodes)
    name, _, namespace = case.releases[job].partition(".")
    recipe = case.values.get("recipe", {})
    batch = recipe.get("train", {}).get("globalBatch", 8)
    return {
        "master": f"{name}-workload-0-0.{name}.{namespace}.svc.cluster.local",
        "index": index, "nodes": case.nodes, "gpus": gpus // case.nodes, "batch": batch,
        "swift": recipe.get("swift", {}).get("globalBatch", 4 if "dpo" in case.recipe else 16),
    }  # fmt: skip


def environment(case: Case, call: Call, index: int) -> list[str]:
    """What a program's environment lacks."""
    # Fewer GPUs than a node has need no RDMA, and their pods no gIB.
    pod = numbers(case, index)
    wanted = {"MASTER_ADDR": pod["master"]} | (GIB if pod["gpus"] == WHOLE_NODE else SMALL)
    if call["program"] in ("run_mcore_qwen3.sh", "run_8xH20.sh"):
        wanted |= {"WORLD_SIZE": str(case.nodes), "RANK": str(pod["index"]), "MASTER_PORT": "6002"}
        wanted |= {"KUBERNETES_CONTAINER_RESOURCE_GPU": str(pod["gpus"])}
    elif call["program"] == "megatron":
        wanted |= {
            "NNODES": str(case.nodes),
            "NODE_RANK": str(pod["index"]),
            "NPROC_PER_NODE": str(pod["gpus"]),
        }
    given = call["env"]
    return [
        f"{call['program']} has {name}={given.get(name, 'not set')}, not {value}"
        for name, value in wanted.items()
        if given.get(name) != value
    ]


def differences(wanted: Sequence[str], seen: Sequence[str]) -> list[str]:
    """Where two command lines differ."""
    if len(wanted) != len(seen):
        return [f"{len(seen)} arguments, not {len(wanted)}: {' '.join(seen)}"]
    return [
        f"argument {number} is {there!r}, not {word!r}"
        for number, (word, there) in enumerate(zip(wanted, seen, strict=True), 1)
        if word != there
    ]


def _training(recipe: str) -> tuple[str, list[str]]:
    decided = documents.DECIDED.get(recipe, {})
    words = [decided.get(number, word) for number, word in enumerate(documents.TRAINING[recipe], 1)]
    words[3] = "{batch}"
    return "run_mcore_qwen3.sh", words


_LUSTRE = [word.replace("/mnt/", "/lustre/") for word in _training("qwen3-next-pretrain")[1]]
EXPECTED: dict[str, tuple[str, list[str]]] = {
    **{recipe: _training(recipe) for recipe in documents.TRAINING},
    "qwen3-next-lustre": ("run_mcore_qwen3.sh", _LUSTRE),
    **{recipe: ("run_8xH20.sh", words) for recipe, words in documents.CONVERSION.items()},
    "swift-export": ("swift", documents.EXPORT),
    "qwen3-eval": ("accelerate", documents.EVALUATION),
    "nccl-one-pod": ("all_reduce_perf", ["-b", "1M", "-e", "1M", "-i", "1", "-g", "{gpus}"]),
    "nccl-all-reduce": ("all_reduce_perf", ["-b", "2M", "-e", "16G", "-f", "2", "-n", "1", "-g", "1", "-w", "10"]),
    "ddp-smoke": (
        "torchrun",
        [
            "--nnodes={nodes}", "--nproc_per_node={gpus}", "--node_rank={index}", "--master_addr={master}",
            "--master_port=6002", "/tmp/ddp_test.py",
        ],
    ),
}  # fmt: skip
"""Recipe -> the program it is for, and its arguments."""
