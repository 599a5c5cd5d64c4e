"""Plain commands from the command line to the practice cluster and back: what they print, and their exit codes."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from console.connection_settings import login_name
from console.kube.objects.meta import short_name
from console.metrics.lost_work import CHECKPOINTS_IN_PODS
from screens.__main__ import main
from screens.cli.lists import LISTS, layout_of
from tests.screens.cli.commands import Commands, loaded


def listed(a4: Commands, *argv: str) -> list[dict[str, Any]]:
    """The items of a listing."""
    found: list[dict[str, Any]] = a4.json(*argv)["items"]
    return found


@pytest.mark.parametrize("name", LISTS)
def test_every_list_prints_its_documented_keys(name: str, a4: Commands) -> None:
    items = listed(a4, name, "-A") if name != "pools" else listed(a4, name)
    assert items
    assert all(list(item) == [column.key for column in layout_of(name).columns if column.key] for item in items)


def test_the_opening_scene_has_three_pools_and_two_queues_in_a_cohort(a4: Commands) -> None:
    assert [(pool["provisioning"], pool["nodes"]) for pool in listed(a4, "pools")] == [
        ("reservation", 16), ("spot", 4), ("on demand", 3),
    ]  # fmt: skip
    assert {(queue["name"], queue["cohort"]) for queue in listed(a4, "queues")} == {("a4", "lab"), ("research", "lab")}


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_namespace_that_is_not_there_is_no_empty_one(a4: Commands) -> None:
    code, out, told = a4.run("jobs", "-n", "nosuch")
    assert (code, out) == (1, "")
    assert "There is no namespace nosuch. There are jobs in default" in told
    assert a4.run("jobs", "-n", "kube-system")[:2] == (0, "No jobs.\n")
    assert a4.run("forecast", "-n", "kube-system")[:2] == (0, "Nothing waits.\n")
    for words in (
        ("forecast",),
        ("why", "x"),
        ("exec", "x", "0", "--", "ls"),
        ("stop", "x", "-y"),
        ("releases",),
        ("alarms",),
    ):
        code, out, told = a4.run(words[0], "-n", "nosuch", *words[1:])
        assert (code, out) == (1, "")
        assert told.startswith("a4: There is no namespace nosuch. ")


@pytest.mark.parametrize(
    "words",
    [
        ("logs",),
        ("exec", "--", "ls"),
        ("forward", "0", "8888"),
        ("stop",),
        ("why",),
        ("forecast",),
        ("wait", "--timeout", "60"),
    ],
)
def test_a_job_that_is_not_there_is_answered_with_the_nearest_name(
    a4: Commands, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("screens.cli.wait_and_alarms.JOB_APPEARS_SECONDS", 0.0)
    code, out, told = a4.run(words[0], "lama-70b", *words[1:])
    assert (code, out) == (1, "")
    assert "There is no job lama-70b in namespace default. Did you mean llama-70b? There are: " in told


def test_what_preflight_says_to_run_is_of_the_same_namespace_and_values(a4: Commands) -> None:
    _, out, _ = a4.run("preflight", "nccl-all-reduce", "--queue", "mine", "--check", "localqueue", "-n", "kube-system")
    assert "Run: a4 -n kube-system preflight nccl-all-reduce --queue mine --fix localqueue" in out


@pytest.mark.parametrize("command", ["why", "forecast", "logs", "wait", "stop", "training", "jobs"])
def test_every_command_says_that_a_namespace_is_not_there(
    a4: Commands, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "screens.cli.wait_and_alarms.JOB_APPEARS_SECONDS", math.inf
    )  # nothing appears in a namespace that is not there
    code, out, told = a4.run(command, *([] if command == "jobs" else ["nope"]), "-n", "nosuch")
    assert (code, out) == (1, "")
    assert told.startswith("a4: There is no namespace nosuch. ")
    if command != "jobs":
        _, _, told = a4.run(command, "llama-70b", "-n", "nosuch")
        assert told.startswith("a4: There is no namespace nosuch. ")
        monkeypatch.setattr("screens.cli.wait_and_alarms.JOB_APPEARS_SECONDS", 0.0)
        assert "a4: There is no job nope in namespace kube-system." in a4.run(command, "nope", "-n", "kube-system")[2]


def test_a_job_of_another_namespace_is_found_there(a4: Commands) -> None:
    _, _, told = a4.run("why", "llama-70b", "-n", "kube-system")
    assert "A job of that name is in namespace default: add -n default." in told
    _, _, told = a4.run("forward", "llama-70b", "0", "8888", "-n", "kube-system")
    assert "There is no job llama-70b in namespace kube-system. A job of that name is in namespace default" in told


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_forecast_has_the_position_in_the_queue(a4: Commands) -> None:
    table = a4.run("forecast")[1].splitlines()
    assert table[0].split() == ["JOB", "NAMESPACE", "QUEUE", "POSITION", "GPUS", "STARTS"]
    positions = {item["job"]: item["position"] for item in listed(a4, "forecast")}
    assert positions
    assert all(positions.values())
    assert {line.split()[0]: int(line.split()[3]) for line in table[1:]} == positions
    assert list(positions)[-1] == "sweep-7", "what has no latest time comes last"
    assert not any("when it starts" in line for line in table)
    code, out, told = a4.run("forecast", "llama-70b")
    assert (code, out) == (1, "")
    assert "llama-70b waits in no queue of namespace default." in told


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_the_record_of_forecasts_says_how_many_windows_held(a4: Commands) -> None:
    said = a4.json("forecast", "--record")
    assert said["kind"] == "forecast-record"
    assert said["judged"] + said["open"] == len(said["items"])
    assert said["held"] == sum(item["held"] is True for item in said["items"])
    out, _ = a4.outputs("forecast", "--record")
    assert out.startswith(("No window has been told yet", f"{said['held']} of {said['judged']} windows held the start"))
    found = a4.json("forecast", "-A")
    assert found["rollouts"] >= 0
    assert (found["kueue"], found["rules"]) == ("0.18.4", "0.18")
    assert all(item["window"] is None or item["window"][0] <= item["start"] <= item["window"][1]
               for item in found["items"])  # fmt: skip


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_what_would_follow_is_reported_and_nothing_is_changed(a4: Commands) -> None:
    before = {(item["name"], item["state"]) for item in listed(a4, "jobs", "-A") if item["name"] == "llama-70b"}
    code, out, _ = a4.run("whatif", "--stop", "llama-70b", "--submit", "a4:8")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert out.startswith("Nothing is changed on the cluster. If it were, now:\n")
    assert ["llama-70b", "default", "a4", "64", "stopped"] in lines
    assert ["new-1", "default", "a4", "8", "starts"] in lines
    assert [line[1:3] for line in lines if line[:1] == ["FLAVOR"]] == [["GPUS", "FREE"]]
    assert [line[:1] for line in lines].count(["a4-spot"]) == 1, "machines are counted once, whatever queues share them"
    said = a4.json("whatif", "--stop", "llama-70b")
    (stopped,) = (item for item in said["items"] if item["job"] == "llama-70b")
    assert stopped["what"] == "stopped"
    lost = re.compile(rf"up to [\d.]+ GPU-hours, as {CHECKPOINTS_IN_PODS}")
    assert lost.match(stopped["lost"])
    assert re.search(rf"\nLost of llama-70b: {lost.pattern}", out)
    assert lost.match(a4.json("stop", "llama-70b", "--dry-run")["lost"])
    assert not any(item["lost"] for item in said["items"] if item["what"] in {"starts", "waits"})
    assert all(each["then"] >= 0 and each["machines_then"] >= 0 for each in said["free"])
    assert {(item["name"], item["state"]) for item in listed(a4, "jobs", "-A")} >= before
    by_class, by_number = (a4.json("whatif", "--submit", f"a4:24:{each}")["items"] for each in ("high", "750"))
    assert by_class == by_number
    assert a4.run("whatif")[::2] == (2, "a4: Nothing to try. Name a change, as in a4 whatif --submit a4:32; a4 whatif "
                                        "--help has all.\n")  # fmt: skip


def test_what_one_has_launched_is_called_ones_own_and_programs_get_the_name(a4: Commands) -> None:
    _, table, _ = a4.run("jobs", "--mine")
    names = [line.split()[0] for line in table.splitlines()[1:]]
    assert names
    assert all(" you " in line for line in table.splitlines()[1:])
    owners = {item["name"]: item["owner"] for item in listed(a4, "jobs")}
    assert {owners[name] for name in names} == {short_name(login_name())}


def test_workloads_say_of_a_job_that_diverged_what_the_page_of_queues_says(a4: Commands) -> None:
    rows = {line.split()[2]: line for line in a4.run("workloads")[1].splitlines()[1:]}
    assert rows["dpo-a3b"].endswith("▲ diverged on a4")
    assert any(line.endswith("  running on a4") for line in rows.values())


@pytest.mark.slow(reason="hears a log until it was read up to now")
def test_why_tells_of_the_alarm_of_a_job_that_runs(a4: Commands) -> None:
    told = a4.json("why", "dpo-a3b", code=5)
    assert (told["state"], told["card"], [each["kind"] for each in told["alarms"]]) == ("diverged", None, ["nan"])
    assert told["why"].startswith("loss is NaN since step 118 (last good 7.113 at 117)")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_why_jobs_and_training_say_the_same_of_steps_that_take_longer(a4: Commands) -> None:
    words = a4.json("training", "llama-70b")["health"]["words"]
    assert re.fullmatch(r"steps take 3\d % longer since 4,06\d \(2\.\d+ to 3\.\d+ s a step\)", words)
    (row,) = (each for each in a4.json("jobs")["items"] if each["name"] == "llama-70b")
    # On a busy machine the few seconds of a look may be over before the log is read: then why says nothing of it.
    told = next(filter(lambda each: each["why"], (a4.json("why", "llama-70b") for _ in range(20))))
    assert row["why"] == told["why"] == words
    assert row["state"] == told["state"] == "running"
    assert 4060 < row["progress"]["step"] < row["progress"]["total"] == 10_000
    assert row["seconds_left"] > 60
    (waits,) = (each for each in a4.json("jobs")["items"] if each["name"] == "dpo-b")
    # Which of the two ends first depends on how many of the slower steps have been read.
    ends_first = {"llama-70b", "dpo-a3b"}
    assert (waits["expected_start"]["after"] in ends_first, waits["progress"]) == (True, None)
    assert re.search(r"^Start: .*, when (?:llama-70b|dpo-a3b) ends", a4.run("why", "dpo-b")[1], re.M)
    (queued,) = (each for each in a4.json("workloads")["items"] if each["job"] == "dpo-b")
    assert queued["expected_start"]["after"] in ends_first
    of_queue = {each["job"]: each["expected_start"] for each in a4.json("queues")["items"][0]["waiting"]}
    assert of_queue["dpo-b"]["after"] in ends_first
    _, said, _ = a4.run("why", "llama-70b")
    assert said == f"llama-70b runs, but {words}.\na4 training llama-70b shows its steps.\n"


def test_each_job_that_waits_has_its_start_or_what_is_not_known(a4: Commands) -> None:
    waiting = {each["job"] for each in a4.json("workloads", "-A")["items"] if each["state"] == "pending"}
    told = a4.json("forecast", "-A")
    assert waiting
    assert {each["job"] for each in told["items"]} == waiting
    for each in told["items"]:
        assert bool(each["start"]) != bool(each["unknown"])
        if each["window"]:
            first, last = each["window"]
            assert told["at"] < first <= each["start"] <= last


@pytest.mark.slow(reason="commands as processes on a practice cluster")
@pytest.mark.parametrize(("job", "code"), [("dpo-a3b", 5), ("sft-a3b", 1), ("nccl-0411", 0), ("llama-70b", 0)])
def test_why_and_training_exit_by_the_same_rule(a4: Commands, job: str, code: int) -> None:
    assert a4.run("why", job)[0] == code
    if job != "nccl-0411":
        assert a4.run("training", job)[0] == code


def test_why_says_whose_lines_it_prints(a4: Commands) -> None:
    _, said, _ = a4.run("why", "sft-a3b")
    head, lines = said.split("The last 12 lines of the log of pod 1:\n")
    assert head.startswith("sft-a3b failed after 1 restart: pod 1 ended first with exit code 137 (OOMKilled) on ")
    assert "\nPod 1 failed first: exit code 137 (SIGKILL), OOMKilled on " in head
    assert len(lines.splitlines()) == 12
    assert all(line.startswith("  ") for line in lines.splitlines())


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_why_begins_with_how_a_job_is_now(a4: Commands) -> None:
    code, said, _ = a4.run("why", "rag-eval", "-n", "team-b")
    lines = said.splitlines()
    assert code == 5
    assert re.match("rag-eval is stalled: no step for .* after step 289, usually one takes 4 s.", lines[0])
    assert lines[1].startswith("a4 -n team-b hang rag-eval shows which rank the others wait for; a4 -n team-b stop ")
    assert re.search(r" frees \d+ GPUs \(launched by \w+, not by you\)\.$", lines[1])
    assert lines[2] == "What ended badly before that:"
    assert lines[3].startswith("Pod 0 was deleted")


def test_why_tells_for_whom_a_job_was_preempted(a4: Commands) -> None:
    _, said, _ = a4.run("why", "sweep-7")
    assert "Kueue preempted it for llama-70b (ClusterQueue a4, priority 750): reclamation within the cohort." in said
    assert "sweep-7 is pending: was preempted by llama-70b (ClusterQueue a4, priority 750); needs 64 GPUs" in said


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_why_tells_the_step_and_the_line_that_failed(a4: Commands) -> None:
    wrong = ("--set", "gpus=8", "--set", "recipe.nccl.end=1", "--queue", "none", "--no-preflight")
    assert a4.run("launch", "nccl-all-reduce", "--name", "cli-wrong", *wrong, "--wait")[0] == 1
    _, said, _ = a4.run("why", "cli-wrong")
    assert "Stage 8 (all-reduce) failed with exit code 1: invalid size specified: 2097152 to 1 by 2." in said
    a4.run("stop", "cli-wrong")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_launch_runs_to_its_end_and_its_log_has_the_table(a4: Commands) -> None:
    code, _, told = a4.run("launch", "nccl-all-reduce", "--name", "cli-nccl", "--set", "gpus=8", "--set",
                           "queue=research", "--wait")  # fmt: skip
    assert code == 0
    assert "cli-nccl: succeeded" in told
    log, _ = a4.outputs("logs", "cli-nccl")
    assert "# Avg bus bandwidth" in log
    out, _ = a4.outputs("stop", "cli-nccl", "--json")
    assert "JobSet cli-nccl" in json.loads(out)["deleted"]
    assert a4.run("stop", "cli-nccl")[0] == 1


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_dry_run_prints_manifests_and_makes_nothing(a4: Commands) -> None:
    out, _ = a4.outputs("launch", "W03", "--name", "dry", "--set", "queue=research", "--dry-run", "--json")
    assert "JobSet" in {each["kind"] for each in json.loads(out)["manifests"]}
    assert "dry" not in {job["name"] for job in listed(a4, "jobs")}


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("launch", "nccl-all-reduce", "--set", "gpus=12"), 2, "12"),
        (("launch", "no-such-recipe"), 1, "There is no recipe no-such-recipe. There are: nccl-all-reduce"),
        (("launch", "no-such-recipe", "--read-only"), 3, "the console is in read-only mode"),
        (("values", "no-such-recipe"), 1, "There is no recipe no-such-recipe."),
        (("whatif", "--lose", "no-such-node"), 1, "There is no node, pool or host no-such-node."),
        (("whatif", "--submit", "no-such-queue:8"), 1, "there is no queue no-such-queue."),
        (
            ("whatif", "--submit", "a4:8:top"),
            1,
            "no WorkloadPriorityClass top. There are: very-high, high, med",
        ),
        (("whatif", "--stop", "ddp-ablation"), 1, "ddp-ablation has ended (succeeded) and holds no GPUs: nothing"),
        (
            ("rm", "llama-70b:/tmp/x"),
            2,
            "a4: llama-70b:/tmp/x names no pod of llama-70b. Write its index, such as llama-70b:0:/tmp/x\n",
        ),
        (("cp", "llama-70b:/etc/hosts", "here"), 2, "such as llama-70b:0:/etc/hosts\n"),
        (("logs", "no-such-job"), 1, "There is no job no-such-job in namespace default."),
        (("exec", "nccl-0412", "99", "--", "true"), 1, "nccl-0412 has no pod 99."),
        (("exec", "nccl-0412", "0"), 2, "No command was given."),
        (("exec", "ddp-smoke-3", "0", "--", "true"), 1, "Pod 0 of ddp-smoke-3 has ended (Completed)"),
        (("pods", "--context", "nowhere"), 2, "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_a_code(argv: tuple[str, ...], code: int, sentence: str, a4: Commands) -> None:
    found, out, told = a4.run(*argv)
    assert (found, out) == (code, "")
    assert sentence in told
    assert "Traceback" not in told
    assert told.count("\n") == 1


def test_exec_passes_on_output_and_exit_code(a4: Commands) -> None:
    code, out, err = a4.run("exec", "llama-70b", "0", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (code, out) == (3, "out\n")
    assert "err\n" in err


def test_an_unreachable_cluster_has_its_own_exit_code(
    kubeconfig: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = kubeconfig.read_text()
    start = text.index("https://127.0.0.1:") + len("https://127.0.0.1:")
    port = text[start : start + 5]
    dead = tmp_path / "kubeconfig"
    dead.write_text(text.replace(f":{port}", ":1"))
    assert main(["pods", "--kubeconfig", str(dead)]) == 4
    assert "Traceback" not in capfd.readouterr().err


def test_read_only_changes_nothing(a4: Commands) -> None:
    _, told = a4.outputs("stop", "nccl-0412", "--read-only", code=3)
    assert "read-only" in told
    assert "nccl-0412" in {job["name"] for job in listed(a4, "jobs")}


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_job_of_somebody_else_is_not_stopped_without_a_question(a4: Commands) -> None:
    (row,) = (each for each in listed(a4, "jobs") if each["name"] == "llama-70b")
    code, out, told = a4.run("stop", "llama-70b")
    assert (code, out) == (2, "")
    assert f"Stop llama-70b, launched by {row['owner']}, not by you?" in told
    assert "Add --yes" in told
    assert "llama-70b" in {job["name"] for job in listed(a4, "jobs")}
    assert a4.run("stop", "llama-70b", "--dry-run")[0] == 0


def test_a_job_that_is_not_there_is_reported(a4: Commands) -> None:
    _, told = a4.outputs("stop", "no-such-job", code=1)
    assert told.startswith("a4: There is no job no-such-job in namespace default. There are: ddp-ablation, ")


@pytest.mark.parametrize("words", ["pods", "nodes", "queues", "logs llama-70b --tail 1"])
def test_a_list_or_log_loads_one_http_library_and_no_parser_of_logs(a4: Commands, words: str) -> None:
    modules = loaded(*words.split(), "--kubeconfig", str(a4.kubeconfig))
    assert "console.kube.http" in modules
    assert ("ahocorasick_rs" in modules) is words.startswith("logs")
    assert not {each.partition(".")[0] for each in modules} & {"aiohttp", "kubernetes", "google", "paramiko", "textual"}
    assert not {"trainlog.training.parser", "console.launch.install", "console.logs.log_folder"} & modules
