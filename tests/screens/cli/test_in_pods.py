"""Plain commands that reach into pods of the practice cluster: exec in many ranks, cp, facts, shell."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from console.attach.exec_many import OutputGroup
from console.metrics.lost_work import CHECKPOINTS_IN_PODS
from screens.cli.exec import show_group
from tests.screens.cli.commands import Commands
from tests.terminals import run_on_terminal

ROOT = Path(__file__).resolve().parents[3]
JOB = "llama-70b"
LIMIT = 60
SPEED = 1.0


def test_each_rank_says_its_lines_and_the_worst_code_is_passed_on(a4: Commands) -> None:
    script = "echo one; echo two >&2; case $(hostname) in *-0-3) exit 5;; esac"
    out, err = a4.outputs("exec", JOB, "--ranks", "2-3", "--", "sh", "-c", script, code=5)
    assert sorted(out.splitlines()) == ["2: one", "3: one"]
    assert sorted(err.splitlines()) == ["2: two", "3: exit code 5", "3: two"]


def test_equal_outputs_stand_together(a4: Commands) -> None:
    code, out, _ = a4.run(
        "exec", JOB, "--all", "--grouped", "--", "sh", "-c", "case $(hostname) in *-0-3) echo odd;; esac"
    )
    assert (code, out) == (0, "pods 0-2, 4-7: (no output)\n≠ pod 3: odd\n")


def test_a_quick_nccl_test_prints_its_rows_and_their_average(a4: Commands) -> None:
    out, err = a4.outputs("nccl-quick", JOB, "1", "--first", "1M", "--last", "4M")
    sizes = [line.split()[0] for line in out.splitlines() if line.split()[0].isdigit()]
    assert sizes == ["1048576", "2097152", "4194304"]
    assert "average bus bandwidth" in out
    assert "all_reduce_perf on the GPUs of pod 1" in err
    assert "nothing was measured" in err
    code, out, _ = a4.run("nccl-quick", JOB, "--first", "1M", "--last", "1M", "--json")
    (test,) = json.loads(out)["nccl"]
    assert (code, [row["size"] for row in test["rows"]], test["finished"]) == (0, [1 << 20], True)


def test_a_quick_nccl_test_with_sizes_that_cannot_be_is_refused(a4: Commands) -> None:
    code, out, err = a4.run("nccl-quick", JOB, "--first", "2M", "--last", "1M")
    assert (code, out) == (2, "")
    assert "The first size 2M is above the last, 1M." in err


def test_a_group_of_many_lines_has_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show_group(OutputGroup((0, 1), 3, "a\nb"), bold=False)
    assert capsys.readouterr().out == "✗ pods 0-1, exit code 3:\n  a\n  b\n"


def test_ranks_as_json(a4: Commands) -> None:
    code, out, _ = a4.run("exec", JOB, "--ranks", "0,7", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 2")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["code"], [each["rank"] for each in found["ranks"]]) == (2, 2, [0, 7])
    assert found["ranks"][0]["errors"] == "err\n"
    assert "out\n" in found["ranks"][0]["output"]


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("exec", JOB, "--ranks", "6-9", "--", "true"), 1, "There is no pod 8. Its pods are 0-7."),
        (("exec", JOB, "1", "--all", "--", "true"), 2, "Both pod 1 and several pods were named."),
        (("exec", JOB, "--all", "-i", "--", "true"), 2, "Standard input cannot go to many pods."),
        (("exec", JOB, "0", "-c", "nope", "--", "true"), 1, "has no container nope."),
        (("exec", JOB, "launcher/0", "--", "true"), 1, "has no replicated job launcher. It has workload."),
        (("exec", "pod/nope", "--", "true"), 1, "There is no pod nope in namespace default."),
        (("exec", JOB, "0", "--limit", "0.2", "--", "sleep", "9"), 124, "given up after 0.2 s"),
        (("cp", "a", "b"), 2, "Both sides are on this machine."),
        (("cp", f"{JOB}:0:a", f"{JOB}:1:b"), 2, "Both sides are in pods."),
        (("cp", f"{JOB}:0:nope", "."), 1, f"There is no nope in pod 0 of {JOB}."),
        (("cp", f"{JOB}:99:nope", "."), 1, f"{JOB} has no pod 99."),
        (("cp", "./no-such-file", f"{JOB}:0:"), 2, "There is no no-such-file on this machine."),
        (("cp", "./README.md", f"{JOB}:0:", "--read-only"), 3, "read-only"),
        (("shell", JOB, "0"), 2, "A shell needs a terminal."),
        (("facts", "ddp-smoke-3", "0"), 1, "has ended (Completed)"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_code(
    argv: tuple[str, ...], code: int, sentence: str, a4: Commands
) -> None:
    found, out, told = a4.run(*argv)
    assert (found, out) == (code, "")
    assert sentence in told
    assert "Traceback" not in told
    assert told.count("\n") == 1


def test_a_folder_goes_to_every_rank_and_comes_back_from_each(a4: Commands, tmp_path: Path) -> None:
    (tmp_path / "src/sub").mkdir(parents=True)
    (tmp_path / "src/sub/a b").write_text("told")
    code, out, err = a4.run("cp", "-r", str(tmp_path / "src"), f"{JOB}:all:", "--ranks", "1-2")
    assert (code, err, len(out.splitlines())) == (0, "", 2)
    assert f"pod 1 of {JOB}: " in out
    assert "1 file, 4 B in " in out
    assert "by exec; sha256 equal" in out
    code, out, _ = a4.run("cp", f"{JOB}:all:src", str(tmp_path / "back"), "--ranks", "1-2", "--json")
    reports = json.loads(out)
    assert [(each["rank"], each["files"], each["proof"]) for each in reports] == [(1, 1, "sha256"), (2, 1, "sha256")]
    assert (tmp_path / "back/pod-2/src/sub/a b").read_text() == "told"
    code, out, err = a4.run("cp", f"{JOB}:all:src", str(tmp_path / "back"), "--ranks", "0-1")
    assert (code, err) == (1, f"a4: There is no src in pod 0 of {JOB}.\n")
    assert "4 B of it resumed" in out


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_facts_of_a_rank(a4: Commands) -> None:
    code, out, _ = a4.run("facts", JOB, "workload/1", "--json")
    found = json.loads(out)
    assert (code, found["rank"], len(found["gpus"])) == (0, 1, 8)
    facts = {each["name"]: each for each in found["facts"]}
    assert "NCCL_NET=gIB" in facts["environment"]["text"]
    assert facts["gpus"]["words"].startswith("8 × NVIDIA")
    code, out, _ = a4.run("facts", JOB, "1")
    assert "── GPUs: 8 × NVIDIA" in out


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_shell_on_a_terminal_names_the_window_and_passes_its_code_on(kubeconfig: Path) -> None:
    command = [sys.executable, "-m", "screens", "shell", "--kubeconfig", str(kubeconfig), JOB, "2", "--no-tmux"]
    code, shown = run_on_terminal(command, typed=b"hostname; exit 7\r", cwd=ROOT)
    assert code == 7
    assert f"\x1b]2;a4: pod 2 of {JOB}\x07" in shown
    assert "llama-70b-workload-0-2" in shown


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_folder_of_a_rank_is_listed_and_deleted_only_after_a_question(a4: Commands, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kept").write_text("mine")
    out, _ = a4.outputs("exec", JOB, "2", "--", "sh", "-c", "mkdir -p old && printf 123 > old/tmp && pwd -P")
    place = f"{JOB}:2:{out.strip()}/old"
    code, out, _ = a4.run("ls", place, "--json")
    found = json.loads(out)
    assert (code, found["kind"], found["rank"]) == (0, "files", 2)
    assert [(each["path"], each["kind"], each["size"]) for each in found["items"]] == [("tmp", "file", 3)]
    assert found["total"] > found["free"]
    code, _, err = a4.run("rm", place)
    assert (code, "There is no terminal to confirm it. Add --yes." in err) == (2, True)
    code, _, err = a4.run("--read-only", "rm", place, "--yes")
    assert (code, "read-only" in err) == (3, True)
    assert a4.run("ls", place)[0] == 0, "it is still there"
    a4.run("exec", JOB, "2", "--", "sh", "-c", f"ln -sfn {mine} old/link && ln -sfn {mine}/kept old/file")
    up = "/.." * (out.count("/") + 1)
    for outside in (
        "/usr/share/is-not-there",
        f"{mine}/kept",
        f"{mine}",
        f"{out.strip()}{up}{mine}/kept",
        f"{out.strip()}/old/link/kept",
    ):
        code, _, err = a4.run("rm", f"{JOB}:2:{outside}", "--yes")
        assert (code, "run on your own machine" in err) == (2, True), outside
    assert (mine / "kept").read_text() == "mine"
    code, out, _ = a4.run("rm", place, "--yes", "--json")
    assert (code, json.loads(out)["kind"]) == (0, "deleted")
    assert (mine / "kept").read_text() == "mine", "links are not followed"
    code, _, err = a4.run("ls", place)
    assert (code, "There is no" in err) == (1, True)


def test_nothing_is_copied_over_files_of_this_machine(a4: Commands, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for place in ("/usr/share/a4-test", "/usr/share/doc"):
        code, _, err = a4.run("cp", str(tmp_path / "mine"), f"{JOB}:0:{place}")
        assert (code, "run on your own machine" in err) == (2, True), place
    assert not Path("/usr/share/a4-test").exists()


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_checkpoints_of_a_folder_in_a_pod(a4: Commands) -> None:
    packed = Path(__file__).parents[2] / "fixtures/checkpoints.tar.gz"
    cut = "saved/ck/dcp/step-200/.metadata"
    make = f"mkdir -p saved && tar xzf {packed} -C saved && truncate -s 9 {cut} && touch -d @1795400000 {cut} && pwd -P"
    out, _ = a4.outputs("exec", JOB, "1", "--", "sh", "-c", make)
    place = f"{JOB}:1:{out.strip()}/saved"
    code, out, _ = a4.run("checkpoints", place, "--json")
    found = json.loads(out)
    assert (code, found["kind"], len(found["items"]), found["gpu_hours_at_risk"] > 0) == (1, "checkpoints", 7, True)
    wrong = [(each["path"], each["problems"]) for each in found["items"] if each["state"] != "complete"]
    assert wrong == [("ck/dcp/step-200", [".metadata: It is damaged or cut off."])]
    code, out, _ = a4.run("checkpoints", f"{place}/ck/megatron")
    assert (
        code,
        "The last complete one is step 200, " in out,
        re.search(rf"Lost if the job ended now: up to .*, as {CHECKPOINTS_IN_PODS}", out) is not None,
    ) == (0, True, True)
    a4.run("exec", JOB, "1", "--", "sh", "-c", f"find {place.rpartition(':')[2]} -exec touch -d '3 days ago' {{}} +")
    code, out, _ = a4.run("checkpoints", f"{place}/ck/megatron")
    assert "3 d old." in out
    lost = json.loads(a4.run("checkpoints", f"{place}/ck/megatron", "--json")[1])["gpu_hours_at_risk"]
    assert 0 < lost < 16 * 24, "never more than the job did"
    code, _, err = a4.run("checkpoints", f"{place}/nowhere")
    assert (code, "There is no" in err) == (1, True)
    code, _, err = a4.run("checkpoints", "no-such-job")
    assert (code, "no-such-job" in err) == (1, True)
