"""What each recipe starts, compared with the commands of the recipes, and how the pods of a job end."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from tests.launchers.conftest import Launch
from tests.launchers.sandbox import RECORDING, Sandbox

ETH0 = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
AGENT = "ssh -q -o LogLevel=ERROR -o StrictHostKeyChecking=no -p 2222"
HOSTFILE = "/etc/job-worker-services.txt"
CONNECTIVITY = [
    "--allow-run-as-root", "-np", "16", "-hostfile", HOSTFILE, "--mca", "orte_keep_fqdn_hostnames", "1",
    *ETH0, "--mca", "plm_rsh_agent", AGENT, "hostname",
]  # fmt: skip
ALL_REDUCE = [
    "--allow-run-as-root", "--hostfile", HOSTFILE, "-wdir", "/third_party/nccl-tests",
    "-mca", "plm_rsh_no_tree_spawn", "1", "--mca", "orte_keep_fqdn_hostnames", "1", *ETH0, "--map-by", "slot",
    "--mca", "plm_rsh_agent", AGENT, "bash", "-c",
    "source /tmp/export_init_env.sh && ./build/all_reduce_perf -b 2M -e 16G -f 2 -n 1 -g 1 -w 10",
]  # fmt: skip
TELL = "echo {code} >/tmp/a4-exit-code.part && mv /tmp/a4-exit-code.part /tmp/a4-exit-code && echo told"


def exit_code_calls(pod: Sandbox) -> list[str]:
    return [call[-1] for call in pod.calls("ssh") if "a4-exit-code" in call[-1]]


def test_nccl_runs_the_two_commands_of_the_recipe(launch: Launch) -> None:
    pod = launch("nccl-all-reduce")
    lines = pod.run("nccl-all-reduce.sh")
    assert pod.calls("mpirun") == [CONNECTIVITY, ALL_REDUCE]
    assert "# Avg bus bandwidth    : 480.5" in lines
    assert [line for line in lines if line.startswith("step")] == [
        "step 1 connectivity: run",
        "step 1 connectivity: done in 0 s",
        "step 2 all-reduce: run",
        "step 2 all-reduce: done in 0 s",
    ]


def test_nccl_sizes_are_the_charts(pod: Sandbox) -> None:
    pod.environment |= {
        "A4_NCCL_BEGIN": "8",
        "A4_NCCL_END": "1G",
        "A4_NCCL_FACTOR": "4",
        "A4_NCCL_ITERS": "20",
        "A4_NCCL_WARMUP": "5",
    }
    pod.run("nccl-all-reduce.sh")
    assert pod.calls("mpirun")[1][-1].endswith("all_reduce_perf -b 8 -e 1G -f 4 -n 20 -g 1 -w 5")


def test_without_a_default_route_mpi_is_not_tied_to_an_interface(launch: Launch) -> None:
    pod = launch("connectivity")
    (pod.root / "proc/net/route").write_text("Iface\tDestination\n")
    lines = pod.run("connectivity.sh")
    assert "this pod has no default route: Open MPI uses all of its interfaces" in lines
    assert pod.calls("mpirun") == [
        [word for word in CONNECTIVITY if word not in ETH0[1:3] + ETH0[4:5]][:-5] + CONNECTIVITY[-3:]
    ]


@pytest.mark.parametrize("code", [0, 3])
def test_index_0_tells_the_other_pods_how_it_ended(pod: Sandbox, code: int) -> None:
    pod.environment |= {"A4_TEST_CODE": str(code), "A4_RECIPE": "ddp-smoke"}
    (pod.root / "refuse" / "anna-workload-0-1").write_text("1\n")
    lines = pod.run("run.sh", code=code)
    assert exit_code_calls(pod) == [TELL.format(code=code)], "refused once, before it was found"
    assert lines[-1] == f"ddp-smoke ended with exit code {code}"


def test_a_pod_that_does_not_hear_how_index_0_ended_is_named(pod: Sandbox) -> None:
    pod.environment["A4_RECIPE"] = "ddp-smoke"
    pod.program(pod.root / "bin/torchrun", '#!/bin/bash\necho 100 >"$A4_ROOT/refuse/anna-workload-0-1"\n')
    lines = pod.run("run.sh")
    second = "anna-workload-0-1.anna.team.svc.cluster.local"
    assert f"{second} has not heard that index 0 ended with exit code 0" in lines


def test_a_pod_that_ends_before_the_connection_that_reported_it_is_reported_once(pod: Sandbox) -> None:
    pod.environment |= {"A4_RECIPE": "ddp-smoke", "A4_TEST_SSH_CODE": "255"}
    lines = pod.run("run.sh")
    assert exit_code_calls(pod) == [TELL.format(code=0)]
    assert not [line for line in lines if "has not heard" in line]


def test_nccl_does_not_measure_what_is_not_connected(pod: Sandbox) -> None:
    lines = pod.run("nccl-all-reduce.sh", code=1, A4_TEST_RANKS="8")
    assert "not all of the 16 ranks answered" in lines
    assert pod.calls("mpirun") == [CONNECTIVITY]


def test_nccl_says_when_its_program_is_missing(pod: Sandbox) -> None:
    (pod.root / "third_party/nccl-tests/build/all_reduce_perf").unlink()
    lines = pod.run("nccl-all-reduce.sh", code=1)
    assert "the gIB diagnostic image brings it" in lines[0]


def ends(worker: Sandbox, *, code: int | None) -> tuple[int, list[str]]:
    """Run index 1: index 0 finds it, and ends with this code, or goes away without a word."""
    with worker.start("run.sh") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line == "waiting for index 0\n":
                (worker.root / "tmp/a4-found").touch()
            elif line == "waiting for index 0 to end\n" and code is not None:
                assert process.poll() is None
                part = worker.root / "tmp/a4-exit-code.part"
                part.write_text(f"{code}\n")
                part.rename(worker.root / "tmp/a4-exit-code")
        return process.wait(timeout=20), lines


@pytest.mark.parametrize("recipe", ["nccl-all-reduce", "ddp-smoke"])
@pytest.mark.parametrize("code", [0, 7])
def test_other_pods_end_as_index_0_did(worker: Sandbox, recipe: str, code: int) -> None:
    worker.environment["A4_RECIPE"] = recipe
    assert ends(worker, code=code)[0] == code
    assert worker.calls("mpirun") == []


def test_a_pod_that_fails_does_not_wait_for_index_0(worker: Sandbox) -> None:
    worker.environment |= {"A4_RECIPE": "ddp-smoke", "A4_TEST_CODE": "5"}
    assert ends(worker, code=None)[0] == 5


@pytest.mark.slow(reason="runs a launcher as a process")
def test_a_pod_ends_without_index_0_when_that_is_lost(worker: Sandbox) -> None:
    worker.environment |= {"A4_RECIPE": "ddp-smoke", "A4_LOST_SECONDS": "1"}
    code, lines = ends(worker, code=None)
    assert code == 0, "what fails the job is the pod that is lost"
    assert "index 0 has not answered for 1 s: this pod ends without it" in lines


def test_ddp_runs_torchrun_as_the_recipe_does(launch: Launch) -> None:
    worker = launch("ddp-smoke", 1)
    worker.run("ddp-smoke.sh")
    assert worker.calls("torchrun") == [
        [
            "--nnodes=2",
            "--nproc_per_node=8",
            "--node_rank=1",
            "--master_addr=anna-workload-0-0.anna.team.svc.cluster.local",
            "--master_port=6002",
            "/tmp/ddp_test.py",
        ]
    ]
    assert "all_reduce" in worker.text("tmp/ddp_test.py")


def test_a_pod_prepares_then_runs_then_ends(pod: Sandbox) -> None:
    lines = pod.run("run.sh")
    assert lines[0] == "pod pod, index 0 of 2, recipe nccl-all-reduce"
    begun = [line.removesuffix(": run") for line in lines if line.endswith(": run")]
    assert begun == [
        f"step {number} {name}"
        for number, name in enumerate(
            ("libraries", "gpus", "ssh", "discovery", "order", "hostfile", "connectivity", "all-reduce"), 1
        )
    ]
    assert lines[-1] == "nccl-all-reduce ended with exit code 0"
    assert exit_code_calls(pod) == [TELL.format(code=0)]


def test_a_pod_ends_with_the_code_of_its_recipe(pod: Sandbox) -> None:
    pod.environment |= {"A4_RECIPE": "ddp-smoke", "A4_TEST_CODE": "5"}
    lines = pod.run("run.sh", code=5)
    assert lines[-2:] == ["step 7 ddp: failed with exit code 5", "ddp-smoke ended with exit code 5"]


def test_a_pod_that_cannot_be_prepared_runs_nothing(pod: Sandbox) -> None:
    (pod.root / "a4/ssh/id_pods").unlink()
    lines = pod.run("run.sh", code=1)
    assert lines[-1] == "nccl-all-reduce ended with exit code 1"
    assert pod.calls("mpirun") == []


@pytest.mark.parametrize("recipe", ["interactive", "nccl-all-reduce"])
def test_a_kept_pod_stays_until_it_is_stopped_and_then_goes_at_once(pod: Sandbox, recipe: str) -> None:
    pod.environment |= {"SLEEP_INFINITY": "true", "A4_RECIPE": recipe, "A4_TEST_CODE": "1"}
    with pod.start("run.sh") as process:
        assert process.stdout is not None
        last = next(line for line in process.stdout if "the pod is kept" in line)
        assert last.startswith(
            f"{recipe} {'has nothing to run' if recipe == 'interactive' else 'ended with exit code 1'};"
        )
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 128 + signal.SIGTERM


def test_connectivity_is_the_first_command_alone(launch: Launch) -> None:
    pod = launch("connectivity")
    lines = pod.run("connectivity.sh")
    assert pod.calls("mpirun") == [CONNECTIVITY]
    assert lines.count("node") == 16


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({}, "-b 1M -e 1M -i 1 -g 8"),  # all its GPUs; the document's step of one byte is for one size
        ({"gpus": 4, "recipe": {"nccl": {"begin": "1M", "end": "1G", "factor": 4}}}, "-b 1M -e 1G -f 4 -g 4"),
    ],
)
def test_nccl_in_one_pod(launch: Launch, values: dict[str, Any], flags: str) -> None:
    pod = launch("nccl-one-pod", **values)
    recording = RECORDING.format(name="all_reduce_perf", body="true")
    pod.program(pod.root / "third_party/nccl-tests/build/all_reduce_perf", recording)
    pod.run("nccl-one-pod.sh")
    assert pod.calls("all_reduce_perf") == [flags.split()]
    assert pod.calls("mpirun") == []


LACKING = {
    "mpirun": "connectivity", "torchrun": "ddp-smoke", "git": "qwen3-download", "wget": "qwen3-eval",
    "accelerate": "qwen3-eval", "megatron": "swift-dpo", "swift": "swift-export", "pip": "qwen3-30b-pretrain",
    "ssh": "interactive", "ssh-keygen": "interactive", "sshd": "interactive",
}  # fmt: skip
"""Program -> a recipe that needs it."""


@pytest.mark.slow(reason="runs a launcher as a process", fast_rows=2)
@pytest.mark.parametrize("program", LACKING)
def test_a_program_that_the_image_lacks_is_named(launch: Launch, program: str) -> None:
    pod = launch(LACKING[program], gpus=8 if LACKING[program] != "qwen3-download" else 0)
    (pod.root / "bin" / program).unlink()
    lines = pod.run("run.sh", code=1, SLEEP_INFINITY="false")
    assert [line for line in lines if line.startswith(f"this image has no {program}")]
    assert any(line.endswith("failed with exit code 1") for line in lines)


def test_a_script_that_names_its_interpreter_is_run_by_it(launch: Launch) -> None:
    pod = launch("own-script", gpus=8)
    own = pod.root / "a4/launchers"
    own.mkdir(parents=True)
    pod.program(own / "own-script-main", f"#!{sys.executable}\nimport sys\nprint('python', *sys.argv[1:])\n")
    lines = pod.run("own-script.sh", "--steps", "100", A4_OWN_FOLDER=str(own))
    assert "python --steps 100" in lines


OWN = """#!/bin/bash
echo "mine on $JOB_COMPLETION_INDEX of $NNODES: $*"
exit 4
"""


def test_your_own_script_runs_on_every_pod_with_its_arguments(launch: Launch) -> None:
    pod = launch("own-script", 1, gpus=16)
    own = pod.root / "a4/launchers"
    own.mkdir(parents=True)
    (own / "own-script-main").write_text(OWN)
    (own / "own-script-before").write_text("echo first\n")
    (own / "own-script-config").write_text("steps: 100\n")
    lines = pod.run("own-script.sh", "--steps", "100", code=4, A4_OWN_FOLDER=str(own))
    assert lines == [
        "step 1 config: run",
        "configuration in /workload/configs/config.yaml",
        "step 1 config: done in 0 s",
        "step 2 before: run",
        "first",
        "step 2 before: done in 0 s",
        "step 3 script: run",
        "arguments: --steps 100",
        "mine on 1 of 2: --steps 100",
        "step 3 script: failed with exit code 4",
    ]
    assert pod.text("workload/configs/config.yaml") == "steps: 100\n"


def test_arguments_pass_through_the_first_stage(launch: Launch) -> None:
    pod = launch("own-script", gpus=8)
    own = pod.root / "a4/launchers"
    own.mkdir(parents=True)
    (own / "own-script-main").write_text(OWN)
    lines = pod.run("run.sh", "two words", "", code=4, A4_OWN_FOLDER=str(own))
    assert "mine on 0 of 1: two words " in lines
