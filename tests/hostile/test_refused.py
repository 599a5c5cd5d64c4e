"""Whoever may not look is told so, with exit code 3: never that nothing is there."""

from pathlib import Path

import pytest
import yaml

from console.errors import NotAllowed, NotFound, Unreachable
from console.kube.find_job import find_job, require_listed
from console.kube.objects.jobset import JobSet
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from screens.cli.command_line import parse_command_line
from tests.console.preflight.ground import ground
from tests.fakes import fleet_of
from tests.screens.cli.commands import perform

COMMANDS = {
    "all that a launch needs": ("preflight",),
    "one check": ("preflight", "--check", "P14"),
    "the way to a pod": ("doctor", "llama-70b", "0"),
    "a host": ("report", "node-1", "--yes"),
    "jobs": ("jobs",),
    "one job": ("why", "llama-70b"),
    "alarms": ("alarms",),
    "releases": ("releases",),
    "a log": ("logs", "llama-70b", "0"),
    "a folder of a pod": ("ls", "llama-70b:0:/"),
    "node pools": ("nodepools",),
    "buckets": ("buckets",),
}
"""What an account without any right may ask for."""

FORBIDDEN = WatchStatus(
    "jobsets", WatchState.FORBIDDEN, why="Could not list jobsets: no.", hint="Ask for `list jobsets`."
)


def test_a_job_that_may_not_be_seen_is_not_called_absent() -> None:
    with pytest.raises(NotAllowed, match="llama-70b in namespace default is not known: Could not list") as told:
        find_job(Fleet(links={"jobsets": FORBIDDEN}), "default", "llama-70b")
    assert told.value.exit_code == 3
    assert told.value.hint == "Ask for `list jobsets`."


def test_a_cluster_that_cannot_be_reached_has_no_jobs_known() -> None:
    lost = WatchStatus("jobsets", WatchState.STALE, why="The API server cannot be reached.")
    with pytest.raises(Unreachable):
        find_job(Fleet(links={"jobsets": lost}), "default", "llama-70b")


def test_a_job_that_is_not_there_is_called_so() -> None:
    with pytest.raises(NotFound, match="There is no job llama-70b"):
        find_job(Fleet(links={"jobsets": WatchStatus("jobsets", WatchState.LIVE)}), "default", "llama-70b")
    require_listed(Fleet(), "jobsets", "Which jobs run")


def test_a_job_that_is_in_another_namespace_is_found_there() -> None:
    fleet = fleet_of(JobSet("team-b", "train"), JobSet("team-a", "train"), JobSet("default", "other"))
    with pytest.raises(NotFound) as told:
        find_job(fleet, "default", "train")
    assert str(told.value) == (
        "There is no job train in namespace default. A job of that name is in namespaces team-a, team-b: add -n team-a."
    )


def test_a_node_that_may_not_be_seen_is_not_called_absent() -> None:
    fleet = Fleet(links={"nodes": WatchStatus("nodes", WatchState.FORBIDDEN, why="Could not list nodes: no.")})
    with pytest.raises(NotAllowed, match="Whether there is a node n is not known"):
        require_listed(fleet, "nodes", "Whether there is a node n")


@pytest.mark.slow(reason="every page and command on a practice cluster")
async def test_whoever_may_see_nothing_gets_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ended = {}
    async with ground() as here:
        content = yaml.safe_load(here.cluster.kubeconfig.read_text())
        content["users"] = [{"name": each["name"], "user": {}} for each in content["users"]]
        anonymous = tmp_path / "kubeconfig"
        anonymous.write_text(yaml.safe_dump(content))
        for name, argv in COMMANDS.items():
            try:
                ended[name] = await perform(parse_command_line([*argv, "--kubeconfig", str(anonymous)]))
            except NotAllowed as error:
                ended[name] = error.exit_code
    assert ended == dict.fromkeys(COMMANDS, 3)
    assert "By a certificate" not in capsys.readouterr().out
