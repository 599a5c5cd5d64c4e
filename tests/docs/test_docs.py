"""The guide: generated pages are current, links lead somewhere, and every command line in it is one that a4 takes."""

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from console.alarm_thresholds import Thresholds
from console.metrics.alarm import AlarmKind
from console.settings_file import PLACEHOLDERS
from screens.cli import command_line
from tests.docs.commands import commands
from tests.docs.keys import titles_without_a_class
from tests.docs.markdown import anchor
from tests.docs.pages import DOCS, ROOT, generated

GENERATED = generated()
PARSER = command_line.whole_parser()
COMMANDS = commands(PARSER)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("parts/*/*.md"), *DOCS.glob("**/*.md")])
WRITTEN = [page for page in PAGES if page.name not in GENERATED]
README_LINES = 110
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
COMMAND = r"(?:\w+=\S+ )*a4"
ENDS_A_COMMAND = {"|", ">", "&", "&&", ";", ">>", "<"}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The text without blocks of code."""
    return FENCE.sub("", page.read_text())


def spans(page: Path) -> list[str]:
    """What stands between backquotes in the text."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def command_lines(page: Path) -> Iterator[str]:
    """Whole command lines, as they stand in blocks of code."""
    for block in FENCE.finditer(page.read_text()):
        if block["language"] != "text":  # what a program prints
            lines = block["body"].replace("\\\n", " ").splitlines()
            yield from (line.strip() for line in lines if re.match(rf"\s*{COMMAND}( |$)", line))


def mentions(page: Path) -> Iterator[str]:
    """Commands and options as sentences name them."""
    yield from (span for span in spans(page) if re.match(f"{COMMAND} ", span))


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_current(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED[name], f"docs/{name} is stale: run `make docs`"


def test_every_title_of_the_keys_page_is_used() -> None:
    assert titles_without_a_class() == set()


def headings(page: Path) -> set[str]:
    return {anchor(each) for each in re.findall(r"^#+ (.+)$", prose(page), re.M)}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert broken == []


def arguments(line: str) -> list[str]:
    """The words after `a4`, up to a pipe or a redirection."""
    cut = shlex.shlex(line, posix=True, punctuation_chars=True)
    cut.whitespace_split = True
    words = list(cut)
    words = words[words.index("a4") + 1 :]
    return words[: next((at for at, word in enumerate(words) if word in ENDS_A_COMMAND), len(words))]


def usages(found: Callable[[Path], Iterator[str]]) -> list[object]:
    return [pytest.param(line, id=f"{named(page)}: {line}") for page in WRITTEN for line in dict.fromkeys(found(page))]


@pytest.mark.parametrize("line", usages(command_lines))
def test_command_lines_are_taken(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = 0
    try:
        command_line.parse_command_line(arguments(line))
    except SystemExit as ended:  # 0: it asks for help
        code = int(ended.code or 0)
    assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize("line", usages(mentions))
def test_commands_and_options_that_are_mentioned_exist(line: str) -> None:
    words = arguments(line)
    command = next((word for word in words if word in (*COMMANDS, "COMMAND")), "")
    assert command or all(word.startswith("-") for word in words), f"{line}: no such command"
    known = COMMANDS.get(command, PARSER)._option_string_actions
    words = words[: words.index("--")] if "--" in words else words
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_the_guide_has_command_lines() -> None:
    assert len({line for page in WRITTEN for line in command_lines(page)}) > 50


def test_every_command_is_in_the_guide() -> None:
    used = {
        word
        for page in WRITTEN
        for found in (command_lines, mentions)
        for line in found(page)
        for word in arguments(line)
    }
    assert set(COMMANDS) - used == set()


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_files_and_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    text = page.read_text()
    made = {
        target for target in re.findall(r"\bmake ([a-z-]+)$|`make ([a-z-]+)", text, re.M) for target in target if target
    }
    assert made - targets == set()
    tops = "|".join(sorted(each.name for each in ROOT.iterdir() if each.is_dir() and not each.name.startswith(".")))
    paths = [span for span in spans(page) if re.fullmatch(rf"({tops})/[\w./-]*", span)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_guide_has_each_alarm_and_the_limits_that_hold() -> None:
    blocks = [each["body"] for each in FENCE.finditer((DOCS / "settings.md").read_text())]
    (limits,) = (tomllib.loads(each)["alarms"] for each in blocks if each.startswith("[alarms]"))
    assert limits.keys() == set(Thresholds.__struct_fields__)
    assert msgspec.convert(limits, Thresholds) == Thresholds()
    rows = re.findall(r"^\| ([a-z, ]+) \|", (DOCS / "hangs.md").read_text(), re.M)
    assert {name for row in rows for name in row.split(", ")} >= {*AlarmKind}


def test_variables_that_are_named_exist() -> None:
    sources = "\n".join(
        path.read_text() for top in ("console", "screens", "tests") for path in (ROOT / top).glob("**/*.py")
    ) + " ".join(f"A4_{each.upper()}" for each in PLACEHOLDERS)
    missing = {
        (named(page), name)
        for page in WRITTEN
        for name in re.findall(r"\b(?:A4|PRACTICE)_[A-Z_]+\b", page.read_text())
        if name not in sources
    }
    assert missing == set()


def test_the_readme_is_short_and_its_keys_exist() -> None:
    readme = ROOT / "README.md"
    assert len(readme.read_text().splitlines()) <= README_LINES
    keys = set(re.findall(r"`([^`]+)`", "".join(line.split(" | ")[0] for line in GENERATED["keys.md"].splitlines())))
    table = readme.read_text().partition("## Twelve keys")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.M)[1:]
    assert len(rows) == 12
    assert {key for row in rows for key in re.findall(r"`([^`]+)`", row)} <= keys


def test_the_license_is_whole_and_packed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_manual_page_has_every_command_and_goes_where_man_looks() -> None:
    lines = GENERATED["a4.1"].splitlines()
    assert [line for line in lines if line.startswith(".SS")] == [
        f'.SS "a4 {each}"'.replace("-", r"\-") for each in COMMANDS
    ]
    controls = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert controls <= {'.\\"', ".TH", ".SH", ".SS", ".B", ".TP", ".PP", ".nf", ".fi"}, "text is taken for a macro"
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["shared-data"] == {"docs/a4.1": "share/man/man1/a4.1"}
