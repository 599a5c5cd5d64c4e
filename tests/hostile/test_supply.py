"""What others make and we install or promise: packages of pods and of ours, and the promises of SECURITY.md."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.advisories import NOT_KNOWN, judge
from tests.launchers.test_packages import INSTALLING, lists

ROOT = Path(__file__).parents[2]
BOUNDED = re.compile(r"[\w.-]+(?:\[[\w,]+\])?(?:==|~=|(?:>=[\d.]+,)?<)[\w.]+|git\+https://\S+@[0-9a-f]{40}")


def installed(program: str) -> dict[str, set[str]]:
    """What launchers, Dockerfiles and recipes install with pip or apt-get, and which of them do."""
    found: dict[str, set[str]] = {}
    for file in sorted([*ROOT.glob("launchers/**/*.sh"), *ROOT.glob("launchers/**/Dockerfile")]):
        text = file.read_text().replace("\\\n", " ")
        for words in re.findall(rf"\b{program} install ([^;&\n]+)", text):
            option = ""
            for word in shlex.split(words):
                if not word.startswith(("-", "$")) and option != "-c":
                    found.setdefault(word, set()).add(file.name if file.suffix else file.parent.name)
                option = word
    for recipe in INSTALLING if program == "pip" else ():
        for word in [each for several in lists(recipe) for each in several]:
            found.setdefault(word, set()).add("recipe.packages")
    return found


def test_everything_that_pods_install_is_bounded_and_listed() -> None:
    by_pip, by_apt = installed("pip"), installed("apt-get")
    assert not [each for each in by_pip if not BOUNDED.fullmatch(each)]
    text = (ROOT / "docs" / "launch.md").read_text().partition("## What pods install\n")[2].partition("\n## ")[0]
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    listed = {name.strip("`"): set(by.replace("`", "").split(", ")) for name, by in rows}
    assert listed == by_pip
    (apt,) = [line for line in text.splitlines() if line.startswith("| of the distribution")]
    assert set(re.findall(r"`([\w.-]+)`", apt.split("|")[1])) == by_apt.keys()


PACKAGE = {"name": "requests", "version": "2.19.0", "vulns": []}
FOUND = {**PACKAGE, "vulns": [{"id": "PYSEC-2023-74", "fix_versions": ["2.31.0"]}]}
LINE = "requests 2.19.0: PYSEC-2023-74, fixed in 2.31.0"
SKIPPED = {"name": "yarl", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "code", "lines"),
    [
        ([PACKAGE], 0, []),
        ([FOUND, PACKAGE], 1, [LINE]),
        ([PACKAGE, SKIPPED], NOT_KNOWN, ["not known: advisories of 1 of 2 packages"]),
        ([FOUND, SKIPPED], 1, [LINE, "not known: advisories of 1 of 2 packages"]),
        ([], NOT_KNOWN, ["not known: advisories of 0 of 0 packages"]),
        (None, NOT_KNOWN, ["not known: pip-audit gave no answer"]),
    ],
)  # fmt: skip
def test_what_no_index_tells_of_is_not_known_and_no_pass(
    packages: list[object] | None, code: int, lines: list[str]
) -> None:
    assert judge("" if packages is None else json.dumps({"dependencies": packages})) == (code, lines)


def test_every_promise_has_a_test_and_the_page_is_one() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert len(text.splitlines()) <= 115
    promises = re.split(r"\n- (?=\*\*)", text.partition("## What is promised\n")[2].partition("\n## ")[0])[1:]
    assert len(promises) > 9
    for promise in promises:
        held = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
        assert held, promise
        for file, name in held:
            tree = ast.parse((ROOT / file).read_text())
            assert name in {getattr(each, "name", "") for each in tree.body}, f"{file} has no {name}"
