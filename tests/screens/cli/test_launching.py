"""`a4 launch`, `a4 values`, `a4 recipes` as they are typed, on the practice cluster."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from practice.child import PracticeProcess
from tests.chart.plans import CATALOGUE
from tests.chart.typed import Typist

TOKEN = "hf_" + "b" * 34


@pytest.fixture(scope="module")
def typist() -> Iterator[Typist]:
    practice = PracticeProcess.start(speed=20.0)
    try:
        yield Typist(practice.kubeconfig())
    finally:
        practice.stop()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of a launch are given the time that they need on a busy machine."""
    monkeypatch.setattr("console.preflight.all_checks.LAUNCH_CHECKS_TIMEOUT", 60.0)


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_dry_run_says_whether_it_fits(typist: Typist) -> None:
    told = typist.worked("launch", "W03", "--name", "fit", "--set", "queue=a4", "--dry-run", "--json").data
    assert told["forecast"]["verdict"] in {"fits now", "fits split over blocks", "waits"}
    assert told["forecast_is"] == "an estimate"
    assert (told["forecast"]["need"], told["recipe"]) == (16, "nccl-all-reduce")
    never = typist.a4("launch", "W03", "--name", "fit", "--set", "queue=a4", "--set", "gpus=4096", "--dry-run")
    assert never.code == 0
    assert never.err.startswith("a4: never: needs 4096 GPUs, but a4 can have at most ")
    why, fewer = never.err.splitlines()
    assert why.endswith("(an estimate).")
    gpus = int(re.fullmatch(r"a4: It would fit now with (\d+) GPUs: --set gpus=\1\.", fewer)[1])  # type: ignore[index]
    fits = typist.worked("launch", "W03", "--name", "fit", "--set", "queue=a4", "--set", f"gpus={gpus}", "--dry-run",
                         "--json").data  # fmt: skip
    assert fits["forecast"]["verdict"].startswith("fits")
    assert fits["would_fit_now"] == []
    assert "kind: JobSet" in never.out


def test_a_node_to_stay_away_from_goes_by_its_short_name(typist: Typist) -> None:
    values = ("launch", "W03", "--name", "away", "--set", "queue=a4", "--dry-run")
    told = typist.a4(*values, "--set", "placement.avoidNodes=a4-pool/0011")
    assert (told.code, "-a4-pool-79c66879-0011" in told.out) == (0, True), told.err
    several = typist.a4(*values, "--set", "placement.avoidNodes=0001")
    assert (several.code, "0001 is the end of several nodes' names: " in several.err) == (2, True)


def test_a_fault_that_never_happens_is_reported(typist: Typist) -> None:
    values = ("--set", "queue=a4", "--set", "env.PRACTICE_FAULT=nan:20\\,boom:3")
    told = typist.a4("launch", "qwen3-30b-pretrain", "--name", "fault", *values, "--helm")
    assert told.code == 0
    assert "a4: PRACTICE_FAULT: nan:20 never happens: the training has 9 iterations." in told.err
    assert "a4: PRACTICE_FAULT: there is no fault boom; there are nan, spike, slow, " in told.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--set", "gpus=12"], 2, "gpus: GPUs must be 1 to 8, or a multiple of 8"),
        (["--set", "gpus=many"], 2, "GPUs must be a whole number; many was given."),
        (["--set", "ttl=soon"], 2, "must be a whole number; soon was given."),
        (["--set", f"ttl={TOKEN}"], 2, "must be a whole number"),
        (["--set", f"env.HF_TOKEN={TOKEN}"], 2, "env: "),
        (["--set", "storage.gcs=gs://data=/gcs"], 2, "without gs://"),
        (["--set", "queue=nowhere"], 1, "default has no LocalQueue nowhere. There are: "),
        (["--name", "n" * 60], 2, "Name may have 43 characters at most"),
        (["--name", "Anna"], 2, "Name must begin with a letter"),
        (
            ["--name", "taken"],
            1,
            "A release named taken exists already in default (deployed). Choose another name (taken-2 is free), or",
        ),
        (["--set", "colour=blue"], 2, "colour is not a value of this recipe"),
        (["-f", "/nowhere/values.yaml"], 2, "/nowhere/values.yaml cannot be read: no such file or directory."),
        (["--like", "nobody"], 1, "nobody"),
        (["--profile", "nobody"], 1, "nobody"),
    ],
)
def test_bad_input_is_one_sentence_and_makes_nothing(
    typist: Typist, taken: None, words: list[str], code: int, said: str
) -> None:
    found = typist.a4("launch", "W03", "--dry-run", *(() if "--name" in words else ("--name", "bad")), *words)
    assert (found.code, found.out) == (code, ""), found.err
    assert said in found.err
    assert len([line for line in found.err.splitlines() if not line.startswith("a4: Queue ")]) == 1
    assert TOKEN not in found.err


def test_the_queue_that_the_form_fills_in_is_taken_and_named(typist: Typist) -> None:
    told = typist.worked("launch", "W05", "--name", "queued", "--set", "gpus=1", "--helm")
    chosen, other = ("a4", "research") if "Queue a4" in told.err else ("research", "a4")
    assert f"--set-string queue={chosen}" in told.out
    assert told.err.startswith(f"a4: Queue {chosen}: the ")
    assert " of the 2 LocalQueues " in told.err
    assert f"--queue NAME chooses another ({other}), --queue none bypasses Kueue." in told.err
    named = typist.worked("launch", "W05", "--name", "queued", "--set", "gpus=1", "--queue", other, "--helm")
    assert (f"--set-string queue={other}" in named.out, named.err) == (True, "")
    for past in (("--queue", "none"), ("--set", "queue=")):
        alone = typist.worked("launch", "W05", "--name", "queued", "--set", "gpus=1", *past, "--helm")
        assert "--set-string queue=a4" not in alone.out
        assert "--set-string queue=research" not in alone.out
        assert alone.err == (
            "a4: No queue, as requested: Kueue is bypassed: the pods start without its quota and topology.\n"
        )


def test_a_namespace_without_a_queue_says_so_and_what_to_do(typist: Typist) -> None:
    told = typist.worked("-n", "kube-system", "launch", "W05", "--name", "unqueued", "--set", "gpus=1", "--helm")
    assert "queue=" not in told.out
    assert (
        "kube-system has no LocalQueue. Name one with --queue, or create one: a4 -n kube-system preflight" in told.err
    )


@pytest.fixture(scope="module")
def taken(typist: Typist) -> None:
    typist.worked("launch", "W05", "--name", "taken", "--set", "gpus=1", "--set", "queue=a4")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: 8\nque: a4\n", ", line 2: que is not a value of the chart; did you mean queue?"),
        ("env:\n\tA: b\n", ", line 2: it is indented with a tab; YAML takes spaces only."),
        ("a: &a [1]\nb: [*a, *a]\n", ", line 1: references (&name, *name) are not allowed."),
        ("placement:\n  tolerations:\n  - {operator: Exists}\n  - {operator: No}\n", ", line 4: Tolerations, entry 2,"),
        ("recipe: {id: swift-dpo}\n", ", line 1: These are values of swift-dpo, and this is nccl-all-reduce."),
        (f"env:\n  HF_TOKEN: {TOKEN}\n", ", line 2: "),
    ],
)  # fmt: skip
def test_a_bad_values_file_is_named_with_its_line(typist: Typist, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "v.yaml"
    file.write_text(text)
    found = typist.a4("launch", "W03", "-f", str(file), "--dry-run")
    assert (found.code, found.out) == (2, "")
    assert f"{file}{said}" in found.err
    assert TOKEN not in found.err


@pytest.mark.parametrize("recipe", ["nccl-all-reduce", "swift-dpo"])
def test_the_values_of_a_recipe_are_explained(typist: Typist, recipe: str) -> None:
    text = typist.worked("values", recipe).out
    fields = typist.worked("values", recipe, "--json").data
    assert {field["path"] for field in fields} == {field.path for field in CATALOGUE.fields(recipe)}
    assert all(f"# {field['title']}" in text for field in fields)


def test_files_are_laid_over_each_other_and_settings_over_them(
    typist: Typist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(typist.worked("values", "W01").out.replace("gpus: 8", "gpus: 32"))
    two.write_text("recipe: {id: interactive}\nenv: {A: from-two}\nkeepAlive: false\n")
    words = ["launch", "-f", str(one), "-f", str(two), "--set", "env.B=set", "--name", "laid", "--helm"]
    line = typist.worked(*words).out
    for part in ("--set gpus=32", "env.A=from-two", "env.B=set", "--set keepAlive=false", "recipe.id=interactive"):
        assert part in line
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"gpus: 64\n")))
    assert "--set gpus=64" in typist.worked("launch", "W01", "-f", "-", "--helm").out


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_what_differs(typist: Typist) -> None:
    words = ["launch", "W03", "--name", "other", "--queue", "none", "--set", "restarts=3", "--diff"]
    assert "-    maxRestarts: 0\n+    maxRestarts: 3\n" in typist.worked(*words).out
    (jobset,) = (each for each in typist.worked(*words, "--json").data["objects"] if each["kind"] == "JobSet")
    assert jobset["change"] == "changed"
    assert (
        typist.worked("launch", "W03", "--name", "other", "--queue", "none", "--diff").out
        == "The objects are the same.\n"
    )


def test_the_helm_command(typist: Typist) -> None:
    told = typist.worked("launch", "W03", "--name", "mine", "--helm", "--json").data
    assert told["with_file"].startswith("helm install mine ")
    assert told["file_name"] == "mine.values.yaml"
    assert told["needs"] == []


def test_a_recipe_has_to_be_named(typist: Typist) -> None:
    found = typist.a4("launch", "--dry-run")
    assert found.code == 2
    assert "No recipe was named." in found.err
    assert "There is no recipe W99." in typist.a4("values", "W99").err


def test_recipes_are_listed_with_their_numbers(typist: Typist) -> None:
    codes = {each["code"] for each in json.loads(typist.worked("recipes", "--json").out)}
    assert codes == {f"W{number:02}" for number in range(1, 25)} - {"W23"}


def test_a_launch_that_lacks_something_is_refused_and_says_what_mends_it(typist: Typist) -> None:
    lacks = (
        "--set",
        "storage.gcs=nowhere=/gcs",
        "--set",
        "serviceAccount=trainer",
        "--set",
        "secrets.HF_TOKEN=hub/token",
    )
    told = typist.a4("launch", "W03", "--name", "lacks", "--set", "queue=a4", *lacks)
    assert (told.code, told.out) == (1, "")
    assert "a4: Bucket in the same region: The bucket gs://nowhere does not exist." in told.err
    assert "a4: Fix: Name one that is there (a4 buckets lists them), or make it." in told.err
    assert "There is no ServiceAccount trainer in default." in told.err
    assert "There is no Secret hub in default." in told.err
    assert "lacks was not launched: 3 checks failed (Bucket" in told.err
    assert not [job for job in typist.worked("jobs", "--json").data["items"] if job["name"] == "lacks"]


def test_a_launch_is_refused_whose_checks_had_no_answer(typist: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.preflight.all_checks.LAUNCH_CHECKS_TIMEOUT", 0.0)
    done = typist.a4("launch", "W03", "--name", "unlooked", "--set", "queue=a4")
    assert (done.code, done.out) == (1, "")
    assert "Multi-network" in re.search(r"unlooked was not launched: \d+ checks had no answer \((.*)\)\.", done.err)[1]  # type: ignore[index]
    assert "--no-preflight" in done.err
    assert not [job for job in typist.worked("jobs", "--json").data["items"] if job["name"] == "unlooked"]


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_without_a_look_it_is_launched_as_it_is(typist: Typist) -> None:
    words = ("launch", "interactive", "--set", "gpus=1", "--set", "queue=a4", "--set", "secrets.HF_TOKEN=hub/token")
    assert "Objects it names" in typist.a4(*words, "--name", "unseen").err
    told = typist.a4(*words, "--name", "unseen", "--no-preflight")
    assert (told.code, told.err) == (0, "")
