"""`a4 preflight` against the practice cluster."""

import json

import pytest

from screens.cli.command_line import parse_command_line
from tests.console.preflight.ground import ground
from tests.screens.cli.commands import perform

KEYS = {
    "id", "title", "area", "result", "evidence", "reason", "fix", "command", "repair", "looks", "at", "seconds",
}  # fmt: skip


async def a4(here: object, *argv: str) -> int:
    place = str(here.cluster.kubeconfig)  # type: ignore[attr-defined]
    return await perform(parse_command_line([*argv, "--kubeconfig", place]))


async def test_json_has_every_check_with_evidence_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    async with ground() as here:
        assert await a4(here, "preflight", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in told["items"]] == [f"P{number:02d}" for number in range(1, 37)]
    for each in told["items"]:
        assert set(each) == KEYS
        assert each["evidence"]
        assert each["fix"]
    assert "ok" in told["summary"]


async def test_a_recipe_that_fails_says_which_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    async with ground() as here:
        code = await a4(
            here, "preflight", "W11", "--set", "queue=a4-high", "--check", "localqueue", "--check", "P21", "--log"
        )
    text = capsys.readouterr().out
    assert code == 1
    assert "fail  Lustre CSI driver" in text.replace("   ", "  ")
    assert " --fix lustre-csi-driver-legacy-port" in text
    assert "$ gcloud container clusters update practice" in text
    assert "[Google, " in text
    assert text.splitlines()[-1].startswith("2 fails: LocalQueue; Lustre")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
async def test_a_fix_is_done_when_it_is_agreed_to(capsys: pytest.CaptureFixture[str]) -> None:
    async with ground() as here:
        assert await a4(here, "preflight", "W03", "--set", "queue=a4-high", "--fix", "P16", "--yes") == 0
        text = capsys.readouterr().out
        assert "Created LocalQueue a4-high in namespace default." in text
        assert await a4(here, "preflight", "--fix", "P21", "--yes", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert told["done"] == "Enabled the Lustre CSI driver with the legacy port in cluster practice."
        assert [(each["id"], each["result"]) for each in told["items"]] == [("P21", "ok")]
        assert await a4(here, "preflight", "W03", "--set", "queue=a4-high", "--fix", "P16") == 0
        text = capsys.readouterr().out
        assert "LocalQueue: nothing to fix." in text
