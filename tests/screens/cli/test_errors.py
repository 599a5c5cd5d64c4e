"""What plain commands say on standard error with --json: objects, one a line, and the same exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from screens.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("jobs", "--kubeconfig", "{}/none"), 2),
        (("jobs", "--kubeconfig", "{}/away"), 4),
        (("releases", "--kubeconfig", "{}/away"), 4),
        (("launch", "nowhere", "--kubeconfig", "{}/away"), 1),
        (("ssh", "--forget"), 2),
        (("read", "{}/no-log"), 2),
    ],
)
def test_an_error_is_an_object_with_a_hint(
    argv: tuple[str, ...], code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    config = {"clusters": [server], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
              "current-context": "c", "users": [{"name": "u", "user": {}}]}  # fmt: skip
    (tmp_path / "away").write_text(json.dumps(config))
    assert main([*(word.format(tmp_path) for word in argv), "--json"]) == code
    said = capfd.readouterr()
    assert said.out == ""
    told = json.loads(said.err.splitlines()[-1])
    assert set(told) == {"error", "hint"}
    assert told["error"].endswith(".")


def test_a_mistake_on_the_command_line_too(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["jobs", "--json", "--colour"])
    assert ended.value.code == 2
    told = json.loads(capfd.readouterr().err)
    assert told == {"error": "jobs has no option --colour.", "hint": "a4 jobs --help says more."}


def test_a_program_of_the_person_may_be_told_json(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["exec", "--kubeconfig", "/none", "job", "0", "--", "tool", "--json"])
    assert (code, capfd.readouterr().err[:4]) == (2, "a4: ")
