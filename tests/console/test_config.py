"""The person's settings: each thing that is wrong in the file is named with its line, and the rest holds."""

from pathlib import Path

import jsonschema
import pytest

from console.alarm_thresholds import Thresholds
from console.settings_file import Config, config_mtime, find_line, json_schema, load_config

GOOD = """\
theme = "dracula"
start = "jobs"

[keys]
"table.filter" = "f"

[lists.jobs]
columns = ["JOB", "STATE"]
sort = "JOB"

[themes.mine]
base = "a4-light"
colors = { ink-ok = "#00ff00" }

[[commands]]
key = "ctrl+t"
name = "Top"
command = "kubectl top pod {pod}"
changes = false
"""


def loaded(folder: Path, text: str | bytes):  # type: ignore[no-untyped-def]
    file = folder / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(file)


def test_a_file_without_a_mistake_is_taken_whole(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD)
    assert found.problems == ()
    config = found.config
    assert (config.theme, config.start, config.keys) == ("dracula", "jobs", {"table.filter": "f"})
    assert config.lists["jobs"].columns == ("JOB", "STATE")
    assert config.themes["mine"].colors == {"ink-ok": "#00ff00"}
    assert config.commands[0].uses == ("pod",)
    assert not config.commands[0].changes


def test_without_a_file_all_is_as_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = load_config()
    assert (found.config, found.problems, found.text) == (Config(), (), None)
    assert config_mtime() == 0


BROKEN = (
    ('theme = "a4-light"\nstart = "fleeet"', 2, "one of fleet, queues, jobs"),
    ('theme = "a4-light"\nrefresh = 0.01', 2, "a number from 0.25 to 60"),
    ('theme = "a4-light"\nrefresh = "fast"', 2, "a number from 0.25 to 60"),
    ('theme = "a4-light"\ntheem = "x"', 2, "There are theme, start"),
    ('theme = "a4-light"\nstart jobs', 2, "This is no TOML"),
    ('theme = "a4-light"\nstart = "jobs', 2, "This is no TOML"),
    ('theme = "a4-light"\ntheme = "a4-dark"', 2, "This is no TOML: cannot overwrite a value"),
    ('theme = "a4-light"\nkeys = 3', 2, "has to be a table"),
    ('theme = "a4-light"\n[keys]\n"table.sort" = 3', 3, "a text in quotes"),
    ('theme = "a4-light"\n[lists.jobs]\ncolums = []', 3, "There are columns, sort, descending"),
    ('theme = "a4-light"\n[lists.jobs]\ncolumns = "JOB"', 3, "a list of texts in quotes"),
    ('theme = "a4-light"\n[lists.jobs]\ncolumns = ["JOB", 3]', 3, "lists.jobs.columns[2] is 3"),
    ('theme = "a4-light"\n[lists.jobs]\ndescending = "yes"', 3, "true or false"),
    ('theme = "a4-light"\n[lists]\njobs = "all"', 3, "a table with columns, sort, descending"),
    ('theme = "a4-light"\n[[commands]]\nkey = "x"\nname = "X"', 2, "commands[1] lacks command"),
    ('theme = "a4-light"\n[[commands]]\nkey = "x"\nname = ""\ncommand = "ls"', 4, "a text of 1 to 40 characters"),
    ('theme = "a4-light"\n[[commands]]\nkey = "x"\nname = "X"\ncommand = ""', 5, "a text in quotes that is not empty"),
    ('theme = "a4-light"\n[commands]\nkey = "x"', 2, "has to be a list"),
    ('theme = "a4-light"\n[themes.mine]\nbase = "dark"', 3, "one of a4-dark, a4-light"),
    ('theme = "a4-light"\n[themes.mine.colors]\nink-ok = "green"', 3, 'a colour such as "#5fd38d"'),
    ('theme = "a4-light"\n[themes.mine]\ncolors = { ink-ok = "#12345" }', 3, "themes.mine.colors.ink-ok"),
)
"""What stands in the file, the line that is wrong, and what is said of it."""


@pytest.mark.parametrize(("text", "line", "said"), BROKEN)
def test_a_wrong_line_is_named_and_the_rest_holds(tmp_path: Path, text: str, line: int, said: str) -> None:
    found = loaded(tmp_path, text)
    assert [each.line for each in found.problems] == [line]
    assert said in found.problems[0].text
    assert found.config.theme == "a4-light"


def test_each_wrong_line_is_named_once(tmp_path: Path) -> None:
    found = loaded(tmp_path, f'{GOOD}\nkey = 5\n[lists.pods\nsort = "NAME"\n[keyz]\n')
    assert [each.line for each in found.problems] == [21, 22, 23, 24]
    assert found.config.start == "jobs"


@pytest.mark.parametrize(
    ("busbw", "variable", "line"), [(0.0, "", 250.0), (0.0, "300", 300.0), (320.0, "300", 320.0), (0.0, "-1", 250.0)]
)
def test_one_pass_line_for_alarms_and_tables(
    monkeypatch: pytest.MonkeyPatch, busbw: float, variable: str, line: float
) -> None:
    monkeypatch.setenv("A4_NCCL_PASS", variable)
    assert Thresholds(busbw=busbw).pass_line == line


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    found = loaded(tmp_path, b"\xff\xfe theme")
    assert "cannot be read" in found.problems[0].text
    assert found.config == Config()


def test_a_setting_is_found_on_its_line() -> None:
    assert find_line(GOOD, ("theme",)) == 1
    assert find_line(GOOD, ("keys", "table.filter")) == 5
    assert find_line(GOOD, ("lists", "jobs")) == 7
    assert find_line(GOOD, ("themes", "mine", "colors", "ink-ok")) == 13
    assert find_line(GOOD, ("commands", 0, "name")) == 17
    assert find_line(GOOD, ("commands",)) == 15


def test_the_schema_for_editors_is_valid_and_allows_what_is_right() -> None:
    import tomllib

    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(GOOD), schema)
    for wrong in ({"start": "fleeet"}, {"starts": "fleet"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
