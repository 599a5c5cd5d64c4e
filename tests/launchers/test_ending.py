"""Pods that are told to end: the training gets SIGTERM, may save, and the log says what came of it."""

from __future__ import annotations

import signal

import pytest

from console.assets import launchers_folder
from tests.launchers.conftest import Launch
from tests.launchers.sandbox import LIMIT, Sandbox

WAITS = "echo begun; while true; do sleep 0.05; done\n"
SAVES = "trap 'echo saved >\"$A4_ROOT/saved\"; exit 0' TERM\n"
RANK = f"""#!/bin/bash
{SAVES}{WAITS}"""
STARTER = """#!/bin/bash
# As torchrun: its rank is in a session of its own, and is killed soon after the starter is told to end.
LOCAL_RANK=0 setsid "$A4_ROOT/rank" &
rank=$!
trap 'kill -KILL $rank' TERM
wait $rank
"""
SAVES_A_STEP = """#!/bin/bash
folder="$A4_ROOT/mnt/megatron_output/Qwen2.5-7B-Instruct/v0-20260101"
mkdir -p "$folder"
step() {
    mkdir -p "$folder/iter_00000$1"
    echo weight >"$folder/iter_00000$1/.metadata"
    echo "$1" >"$folder/latest_checkpointed_iteration.txt"
}
trap 'if [[ "$A4_TEST_SAVES" == after ]]; then step 20; fi; exit 0' TERM
if [[ "$A4_TEST_SAVES" != never ]]; then step 15; fi
"""


def ended(pod: Sandbox) -> tuple[int, list[str]]:
    """Tell a pod to end when its program has begun; its exit code and lines."""
    with pod.start("run.sh") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if lines[-1] == "begun":
                process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=LIMIT)
    return code, lines


def own_script(launch: Launch, text: str) -> Sandbox:
    pod = launch("own-script", gpus=8, keepAlive=False)
    (pod.root / "own").mkdir()
    (pod.root / "own/own-script-main").write_text(text)
    pod.environment["A4_OWN_FOLDER"] = str(pod.root / "own")
    return pod


def test_an_own_script_gets_sigterm_and_saves(launch: Launch) -> None:
    pod = own_script(launch, SAVES + WAITS)
    code, lines = ended(pod)
    assert (code, lines[-2:]) == (143, ["step 7 script: ended by SIGTERM", "own-script ended with exit code 143"])
    assert pod.text("saved") == "saved\n"


def test_ranks_get_sigterm_before_what_has_started_them(launch: Launch) -> None:
    pod = own_script(launch, '"$A4_ROOT/starter"\necho never\n')
    pod.program(pod.root / "starter", STARTER)
    pod.program(pod.root / "rank", RANK)
    (pod.root / "bin/setsid").symlink_to("/usr/bin/setsid")
    code, lines = ended(pod)
    assert (code, lines[-2]) == (143, "step 7 script: ended by SIGTERM")
    assert pod.text("saved") == "saved\n"


@pytest.mark.slow(reason="waits until the grace period is over")
def test_what_does_not_end_is_left_when_the_grace_period_is_over(launch: Launch) -> None:
    pod = own_script(launch, f"trap '' TERM\n{WAITS.replace('while true', 'for i in {1..50}')}")
    pod.environment["A4_GRACE_SECONDS"] = "2"
    code, lines = ended(pod)
    assert (code, lines[-2]) == (143, "step 7 script: did not end in the grace period of 2 s")


@pytest.mark.parametrize(
    ("saves", "line"),
    [
        ("after", "ended by SIGTERM after saving step 20"),
        ("before", "ended by SIGTERM; the newest checkpoint is of step 15"),
        ("never", "ended by SIGTERM; no checkpoint"),
    ],
)
def test_the_line_says_what_is_saved(launch: Launch, saves: str, line: str) -> None:
    pod = launch("swift-sft", keepAlive=False)
    pod.environment["A4_TEST_SAVES"] = saves
    pod.program(pod.root / "bin/megatron", SAVES_A_STEP + WAITS)
    code, lines = ended(pod)
    assert (code, lines[-2:]) == (143, [f"step 9 train: {line}", "swift-sft ended with exit code 143"])


def test_a_training_that_saves_for_another_pods_signal_is_not_done(launch: Launch) -> None:
    pod = launch("swift-dpo-multinode", gpus=16)
    flags = pod.root / "mnt/sync_flags_team.anna-1"
    pod.program(pod.root / "bin/megatron", f'#!/bin/bash\ntouch "{flags}/sigterm-1"\n')
    assert pod.run("swift-dpo-multinode.sh", code=143)[-1] == "step 3 train: ended by the SIGTERM of another pod"
    assert not list((pod.root / "mnt").glob("**/.a4-over")), "it is not at its end"


def test_no_step_begins_in_a_pod_after_sigterm(launch: Launch) -> None:
    pod = launch("qwen3-download")
    (pod.root / "tmp/a4-ending").touch()
    assert pod.run("qwen3-download.sh", code=143) == []


def test_a_kept_pod_ends_without_another_word(launch: Launch) -> None:
    pod = launch("interactive", gpus=8)
    pod.environment["A4_GRACE_SECONDS"] = "8"
    with pod.start("run.sh") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "the pod is kept" in line:
                break
        process.send_signal(signal.SIGTERM)
        # A busy shell may say of the sleep that it was ended: Terminated.
        assert "exit code" not in process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 143


@pytest.mark.parametrize("begun", ["", "sleep infinity &"], ids=["nothing", "a program without a name yet"])
def test_sigterm_may_come_at_any_moment(launch: Launch, begun: str) -> None:
    pod = launch("interactive", gpus=8)
    pod.environment["A4_GRACE_SECONDS"] = "8"
    file = pod.root / "early.sh"
    file.write_text(f"set -euo pipefail\nsource {launchers_folder()}/ending.sh\n{begun}\nend_by_signal\n")
    with pod.start(str(file)) as process:
        output = process.communicate(timeout=LIMIT / 5)[0]  # its end would hold what has not ended
    assert (process.returncode, output.splitlines()[-1:]) == (143, ["interactive ended with exit code 143"])
