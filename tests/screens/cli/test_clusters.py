"""The plain commands about Google's clusters, on the practice cluster."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from screens.wording import short_node
from tests.screens.cli.commands import Commands

SPEED = 100.0


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_clusters(a4: Commands) -> None:
    code, out, _ = a4.run("clusters", "--json")
    told = json.loads(out)
    assert code == 0
    assert [(each["context"], each["status"]) for each in told["items"]][-1] == (
        "gke_practice_us-central1_practice", "RUNNING",
    )  # fmt: skip
    assert set(told["unread"]) == {"practice-locked", "practice-new"}


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_project_without_the_service_gets_it(a4: Commands) -> None:
    assert "There is no terminal to confirm it" in a4.run("clusters", "enable", "practice-new")[2]
    assert a4.run("--read-only", "clusters", "enable", "practice-new", "--yes")[0] == 3
    code, out, _ = a4.run("clusters", "enable", "practice-new", "--yes", "--json")
    assert (code, json.loads(out)["service"]) == (0, "container.googleapis.com")
    assert a4.run("clusters", "enable", "practice-locked", "--yes")[0] == 3


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_project_that_may_not_be_read_is_an_error_of_its_own(a4: Commands) -> None:
    _, err = a4.outputs("clusters", "--project", "practice-locked", code=3)
    assert "Permission denied" in err


def test_connect(a4: Commands, tmp_path: Path) -> None:
    file = tmp_path / "config"
    out, _ = a4.outputs("clusters", "connect", "practice", "--write-kubeconfig", str(file), "--json")
    assert json.loads(out)["kubeconfig"] == str(file)
    assert "gke_practice_us-central1_practice" in file.read_text()


@pytest.mark.parametrize(
    ("name", "code", "words"), [("research-private", 4, "private"), ("sandbox", 2, "error"), ("x", 1, "no cluster x")]
)
def test_connect_to_what_cannot_be(a4: Commands, name: str, code: int, words: str) -> None:
    _, err = a4.outputs("clusters", "connect", name, code=code)
    assert words in err


def test_a_token_for_kubeconfigs(a4: Commands) -> None:
    code, out, _ = a4.run("clusters", "token")
    told = json.loads(out)
    assert code == 0
    assert told["kind"] == "ExecCredential"
    assert told["status"]["token"]


def test_nodepools_and_operations(a4: Commands) -> None:
    code, out, _ = a4.run("nodepools", "--json")
    told = json.loads(out)
    pools = {each["name"]: each for each in told["items"]}
    assert code == 0
    assert pools["a4-highgpu-8g-a4-pool"]["target"] == 16
    assert pools["a4-flex"]["how"] == "DWS, queued"
    assert [each["name"] for each in told["requests"]] == ["flex-sft-dws-prov-1"]
    code, out, _ = a4.run("operations", "--json")
    assert "UPGRADE_NODES" in {each["kind"] for each in json.loads(out)["items"]}


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_resize(a4: Commands) -> None:
    code, out, _ = a4.run("resize", "system", "4", "--yes", "--wait", "--json")
    assert (code, json.loads(out)["error"]) == (0, "")
    _, err = a4.outputs("resize", "a4-highgpu-8g-a4-pool", "20", "--yes", "--wait", code=1)
    assert "sufficient capacity" in err
    assert a4.run("resize", "system", "--limits", "1:9", "--yes", "--wait")[0] == 0


@pytest.mark.parametrize(
    ("argv", "expected", "words"),
    [
        (("resize", "nope", "3", "--yes"), 1, "no node pool nope"),
        (("resize", "system"), 2, "number of nodes"),
        (("resize", "system", "--limits", "9", "--yes"), 2, "not valid limits"),
        (("resize", "system", "9"), 2, "There is no terminal to confirm it"),
        (("report", "nope"), 1, "no node nope"),
        (("report", "nope", "--for", "noise", "--yes"), 2, "noise"),
    ],
)
def test_what_cannot_be_is_refused_in_words(a4: Commands, argv: tuple[str, ...], expected: int, words: str) -> None:
    """1: what was named is not there; 2: what was typed cannot be."""
    code, _, err = a4.run(*argv)
    assert (code, words in err) == (expected, True)


def test_read_only(a4: Commands) -> None:
    assert a4.run("--read-only", "resize", "system", "5", "--yes")[0] == 3


def node_facts(a4: Commands, name: str) -> dict[str, Any]:
    nodes = json.loads(a4.run("nodes", "--json")[1])["items"]
    return cast("dict[str, Any]", next(each for each in nodes if each["name"] == name))


def test_a_node_is_cordoned_with_a_reason_and_let_go(a4: Commands) -> None:
    name = next(each["name"] for each in json.loads(a4.run("nodes", "--json")[1])["items"] if each["used"])
    code, out, _ = a4.run("cordon", name, "--reason", "rank 9 is slow", "--dry-run")
    assert (code, out.startswith(f"{name} would be cordoned (rank 9 is slow); ")) == (0, True)
    assert not node_facts(a4, name)["cordoned"], "a dry run changes nothing"
    code, out, _ = a4.run("cordon", name, "--reason", "rank 9 is slow", "--json")
    (told,) = json.loads(out)["items"]
    assert (code, told["changed"], told["gpus_used"] > 0, bool(told["pods"])) == (0, True, True, True)
    found = node_facts(a4, name)
    assert (found["cordoned"], found["cordon_reason"]) == (True, "rank 9 is slow")
    assert a4.run("cordon", name)[1].startswith(f"{name} is cordoned already (rank 9 is slow)")
    assert a4.run("uncordon", name)[:2] == (0, f"{name} is uncordoned.\n")
    found = node_facts(a4, name)
    assert (found["cordoned"], found["cordon_reason"]) == (False, "")
    assert a4.run("uncordon", name)[:2] == (0, f"{name} is not cordoned.\n")
    short = short_node(name)
    assert a4.run("cordon", short, "--dry-run")[1].startswith(f"{name} would be cordoned")
    assert "/" in short
    code, _, err = a4.run("cordon", short.rpartition("/")[2])
    assert (code, "is the end of several nodes' names: " in err) == (2, True)


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_of_several_nodes_none_is_cordoned_if_one_is_not_there(a4: Commands) -> None:
    name = next(each["name"] for each in json.loads(a4.run("nodes", "--json")[1])["items"] if each["gpus"])
    code, _, err = a4.run("cordon", name, "nope")
    assert (code, "There is no node nope" in err) == (1, True)
    assert not node_facts(a4, name)["cordoned"]
    assert a4.run("--read-only", "cordon", name)[0] == 3
