"""`a4 hang`, `a4 gpus`, `a4 alarms` and `a4 wait` on the practice cluster: what they print and what they end with."""

import json
import re
import stat
import tarfile
from pathlib import Path

import pytest

from console.errors import Unreadable
from console.metrics.alarm import AlarmCoverage
from console.metrics.diagnosis import Diagnoses
from screens.cli.wait_and_alarms import show_alarms
from tests.screens.cli.commands import Commands


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_hang_names_the_rank(a4: Commands) -> None:
    code, out, _ = a4.run("hang", "rag-eval", "-n", "team-b", "--json")
    told = json.loads(out)
    assert code == 1
    assert [(group["in"], group["ranks"]) for group in told["groups"] if group["suspect"]] == [("data loader", [1])]
    assert [each["where"]["doing"] for each in told["processes"]] == ["not asked", "data", *["not asked"] * 6]
    code, out, _ = a4.run("hang", "rag-eval", "-n", "team-b", "--json", "--all")
    whole = json.loads(out)
    assert [(each["rank"], each["where"]["doing"]) for each in whole["processes"]] == [
        (rank, "data" if rank == 1 else "collective") for rank in range(8)
    ], whole
    out, _ = a4.outputs("hang", "llama-70b")
    assert out.startswith("64 ranks compute (backward): this is not a hang, unless it stays like this.\n")
    assert "── ● 64 in backward\n" in out


@pytest.mark.parametrize("command", [("hang",), ("slow", "--recorder")])
def test_where_no_pod_runs_halting_ranks_are_not_mentioned(a4: Commands, command: tuple[str, ...]) -> None:
    code, out, err = a4.run(command[0], "ddp-ablation", *command[1:])
    assert (code, out) == (1, "")
    assert err.startswith("a4: No pod of ddp-ablation runs (succeeded): there is nothing to inspect.")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_hang_writes_all_that_is_known_to_one_archive(a4: Commands, tmp_path: Path) -> None:
    _, out, err = a4.run("hang", "rag-eval", "-n", "team-b")
    assert "The flight recorders of rag-eval are not asked without --yes: " in err
    assert "── Flight recorder: not asked, which would halt ranks of a job that may be another person's" in out
    _, out, err = a4.run("hang", "rag-eval", "-n", "team-b", "--yes")
    assert "The first dump of its flight recorders halts each rank for 2 to 5 s." in err
    assert "── Flight recorder: not asked" not in out
    place = tmp_path / "hang.tar.gz"
    _, err = a4.outputs("hang", "rag-eval", "-n", "team-b", "--bundle", str(place), code=1)
    assert f"{place}: {place.stat().st_size:,} bytes" in err
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with tarfile.open(place) as archive:
        texts = {name: _read(archive, name) for name in archive.getnames()}
    assert sorted(texts) == [f"rag-eval-hang/{name}" for name in (
        "events.json", "last-lines.txt", "nccl-lines.txt", "nodes.json", "ras.txt", "recorder.json", "report.json",
        "report.txt", "torch-analyser.txt",
    )]  # fmt: skip
    assert "MISMATCH" in texts["rag-eval-hang/ras.txt"]
    assert "data loader" in texts["rag-eval-hang/report.txt"]
    (node,) = json.loads(texts["rag-eval-hang/nodes.json"])
    assert node["name"] == json.loads(texts["rag-eval-hang/report.json"])["processes"][0]["node"]
    assert {each["kind"] for each in json.loads(texts["rag-eval-hang/events.json"])} >= {"JobSet", "Pod"}
    assert texts["rag-eval-hang/nccl-lines.txt"].startswith("── pod 0 rag-eval-")
    before = place.read_bytes()
    code, _, err = a4.run("hang", "rag-eval", "-n", "team-b", "--bundle", str(place))
    assert (code, f"{place} already exists" in err) == (2, True)
    assert "halts each rank" not in err, "it is refused before anything is asked"
    assert place.read_bytes() == before
    code, out, err = a4.run("--read-only", "hang", "rag-eval", "-n", "team-b", "--yes")
    assert (code, out, "read-only" in err, "halts" in err) == (3, "", True, False)


def _read(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(name)
    assert file is not None
    return file.read().decode()


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_slow_gives_no_verdict_after_a_moment(a4: Commands) -> None:
    code, out, _ = a4.run("slow", "llama-70b", "--seconds", "0.3", "--json")
    told = json.loads(out)
    assert (code, told["told"], told["ranks"], told["form"], told["late"]) == (1, False, 64, "json", [])
    assert told["words"] == [told["problem"]]
    assert "times only, 100 are needed" in told["problem"]
    code, _, err = a4.run("slow", "llama-70b", "--read-only")
    assert (code, "read-only mode" in err) == (3, True)


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_slow_shows_on_a_terminal_for_how_long_it_still_asks(a4: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    _, out, err = a4.run("slow", "llama-70b", "--seconds", "0.3")
    shown = err.split("\r\x1b[K")
    assert shown[1:3] == [
        "Reading in the log how long a step takes…", "Asking NCCL for which rank the others wait: 1 s more…"
    ]  # fmt: skip
    assert shown[-1] == ""
    assert out.count("\n") == 2


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_gpus_worst_first(a4: Commands) -> None:
    out, _ = a4.outputs("gpus", "rag-eval", "-n", "team-b")
    assert out.splitlines()[2].split()[:3] == ["0", "1", "0"]
    code, out, _ = a4.run("gpus", "rag-eval", "-n", "team-b", "--source", "dcgm", "--read-only", "--json")
    (rank,) = json.loads(out)["ranks"]
    assert (code, rank["source"], rank["gpus"][1]["utilization"]) == (0, "dcgm", 0.0)


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_what_goes_over_the_network(a4: Commands) -> None:
    told = a4.json("gpus", "llama-70b")
    assert len(told["pods"]) == 8
    for pod in told["pods"]:
        assert [each["name"] for each in pod["rdma"]] == [f"mlx5_{card}/1" for card in range(8)]
        assert all(0 < each["received"] < 50e9 for each in pod["rdma"])
        assert all(0 < gpu["nvlink_received"] < 900e9 for gpu in pod["gpus"])
    assert "RDMA" in told["words"]


def test_where_the_loss_is_no_number_the_grad_norm_is_not_that_of_an_earlier_step(a4: Commands) -> None:
    _, out, _ = a4.run("training", "dpo-a3b")
    found = {line[:17].strip(): line[17:].strip() for line in out.splitlines()}
    assert (found["loss"], found["grad norm"]) == ("nan", "nan")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_steps_that_take_longer_than_before_are_reported(a4: Commands) -> None:
    _, out, _ = a4.run("training", "llama-70b")
    (told,) = [line for line in out.splitlines() if line.startswith("  slower ")]
    assert "% longer since" in told
    assert re.search(r"since 4,06\d \(2\.77 to 3\.\d+ s a step\), ", told), told


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_alarms_of_all_running_jobs(a4: Commands) -> None:
    code, out, _ = a4.run("alarms", "--listen", "4", "--json")
    told = json.loads(out)
    assert code == 5
    assert [(each["job"], each["words"]) for each in told["alarms"] if each["kind"] == "nan"] == [
        ("dpo-a3b", "loss is NaN since step 118 (last good 7.113 at 117)")
    ]
    coverage = told["coverage"]
    assert coverage["heard"] == coverage["running"] >= 3
    assert coverage["words"] == f"Alarms watch {coverage['heard']} of {coverage['heard']} running jobs."
    assert coverage["read"] == coverage["running"]


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_job_that_hung_before_is_reported_with_what_an_inspection_found_however_short_the_look(a4: Commands) -> None:
    a4.run("hang", "rag-eval", "-n", "team-b", "--yes")
    found = "Rank 1 (pod 0, GPU 1) is in the data loader while 7 others wait"
    told = a4.json("alarms", "-A", "--listen", "0.5", code=5)
    (stall,) = [each for each in told["alarms"] if each["kind"] == "stall"]
    assert (stall["job"], stall["verdict"]) == ("rag-eval", found)
    assert re.fullmatch(r"no step for \d+ min after step 289, usually one takes 4 s \(by its log\)", stall["words"])
    assert stall["time"] - stall["began"] > 60
    (job,) = [each for each in a4.json("jobs", "-n", "team-b")["items"] if each["name"] == "rag-eval"]
    assert (job["state"], job["verdict"]) == ("stalled", found)
    why = a4.json("why", "rag-eval", "-n", "team-b", code=5)
    assert (why["state"], why["health"]["verdict"]) == ("stalled", found)
    assert a4.run("why", "rag-eval", "-n", "team-b")[1].count(f"{found}.") == 1


def test_a_history_that_cannot_be_read_costs_no_list(a4: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(_: Diagnoses) -> None:
        raise Unreadable("The history of runs cannot be read: disk I/O error.")

    monkeypatch.setattr(Diagnoses, "refresh", unreadable)
    code, out, err = a4.run("jobs")
    assert (code, "llama-70b" in out) == (0, True)
    assert "The history of runs cannot be read: disk I/O error." in err


@pytest.mark.parametrize(("read", "more"), [(1, True), (3, False)])
def test_without_alarms_what_was_followed_is_named(read: int, more: bool, capsys: pytest.CaptureFixture[str]) -> None:
    show_alarms([], 1.0, AlarmCoverage(running=3, heard=3, most=8, read=read), "default")
    said = capsys.readouterr()
    assert said.out == f"No alarms in 1 s, in which lines of the log of {read} of 3 running jobs were read.\n"
    assert ("--listen SECONDS watches longer" in said.err) is more
    assert "Alarms watch 3 of 3 running jobs. These are of namespace default; -A is for all." in said.err


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_run_that_diverged_is_an_alarm_after_its_end_too(a4: Commands) -> None:
    values = ("gpus=8", "queue=research", "env.PRACTICE_FAULT=nan:3", "env.PRACTICE_PACE=0.05")
    words = [word for value in values for word in ("--set", value)]
    code, _, errors = a4.run("launch", "swift-dpo", "--name", "diverges", *words, "--no-preflight", "--wait")
    assert "diverges: succeeded" in errors
    assert code == 5
    code, out, _ = a4.run("wait", "diverges", "--json")
    told = json.loads(out)
    assert (code, told["code"], told["result"]) == (5, 5, "alarm")
    assert [(each["kind"], each["held"]) for each in told["alarms"]] == [("nan", 0)]
    assert "frees" not in told["words"]
    for more in ("--ignore-alarms",), ("--without", "nan"):
        assert a4.run("wait", "diverges", *more)[0] == 0


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_step_of_the_log_of_before_is_not_the_step_of_now(a4: Commands) -> None:
    reached = a4.json("wait", "llama-70b", "--until", "step=100")
    assert reached["step"] > 4000


@pytest.mark.slow(reason="commands as processes on a practice cluster")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("llama-70b", "--until", "step=10", "--until", "loss<0"), 0, "step=10 reached"),
        (("ddp-smoke-3",), 0, "ddp-smoke-3: done."),
        (("sft-a3b",), 1, "failed before done was reached: failed after 1 restart: pod 1"),
        (("dpo-a3b", "--without", "gpu,behind"), 5, "NaN alarm: loss is NaN since step 118"),
        (
            ("llama-70b", "--until", "loss<0", "--timeout", "1", "--ignore-alarms"),
            6,
            "not reached within 1 s; it is running",
        ),
        (("dpo-b", "--timeout", "1"), 6, "dpo-b: done not reached within 1 s; it is pending: needs 32 GPUs"),
        (("ddp-ablation", "--until", "busbw>9"), 7, "is done, and busbw>9 was not reached"),
        (("llama-70b", "--until", "nix"), 2, "cannot be waited for"),
        (("llama-70b", "--stall", "0"), 2, "stall is 0.0, and has to be a number of at least 1"),
    ],
)
def test_wait(a4: Commands, words: tuple[str, ...], code: int, said: str) -> None:
    ended, out, errors = a4.run("wait", *words)
    assert said in out + errors
    assert ended == code
