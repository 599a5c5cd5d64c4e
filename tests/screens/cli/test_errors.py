"""What plain commands say on standard error with --json: objects, one a line, and the same exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from screens.__main__ import main
from tests.kubeconfigs import write_kubeconfig


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
    write_kubeconfig(tmp_path / "away", {"server": "http://127.0.0.1:9"}, {})
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


def test_a_program_of_the_person_may_be_reported_json(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["exec", "--kubeconfig", "/none", "job", "0", "--", "tool", "--json"])
    assert (code, capfd.readouterr().err[:4]) == (2, "a4: ")


@pytest.mark.parametrize(
    ("start", "code", "sentence"),
    [
        ("exec {} recipes >&-", 1, "The output could not be written: standard output is closed."),
        ("exec {} recipes 2>&- >/dev/null", 0, ""),
        ("exec {} nowhere 2>&-", 2, ""),
        ("ulimit -n 20; exec {} recipes", 2, "20 open files are allowed here, and 48 are needed."),
        ("ulimit -v 200000; exec {} recipes", 2, "195 MiB of memory are allowed here, and 288 MiB are needed."),
    ],
)
def test_a_start_with_too_little_ends_in_one_sentence(start: str, code: int, sentence: str) -> None:
    a4 = Path(sys.executable).with_name("a4")
    done = subprocess.run(["sh", "-c", start.format(a4)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", int(bool(sentence)))
    assert sentence in done.stderr
