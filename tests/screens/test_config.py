"""The console follows the person's settings, also while it runs."""

from __future__ import annotations

import json
import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

from console.config import OwnCommand, config_path, load_config
from console.settings import Settings
from screens.__main__ import main
from screens.config import all_problems, applies, fill, known_names
from screens.pages.jobs import JobsScreen
from screens.pages.pods import PodsScreen
from screens.widgets.key_bar import KeyBar
from tests.screens.press import console, screen_text, text_of, toasts, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def write(text: str) -> Path:
    file = config_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))
    return file


async def test_start_page_theme_keys_and_columns_are_the_persons() -> None:
    write(
        'start = "jobs"\ntheme = "solarized-light"\n[keys]\n"table.filter" = "f"\n'
        '[lists.jobs]\ncolumns = ["STATE", "JOB"]\nsort = "JOB"\n'
    )
    async with console() as (app, pilot, _):
        assert isinstance(app.screen, JobsScreen)
        assert app.theme == "solarized-light"
        assert app.theme_variables["ink-text"] == "#1d2532", "what is drawn on a light ground is dark"
        titles = text_of(app.screen.table).split("\n")[0].split()
        assert titles == ["STATE", "JOB▲"]
        await pilot.press("f")
        await until(pilot, lambda: "/" in screen_text(app))
        await pilot.press("escape", "4", "t")
        assert app.theme == "a4-dark"
        await pilot.press("t")
        assert app.theme == "solarized-light"


async def test_changes_are_taken_over_while_it_runs_and_what_is_wrong_is_told_with_its_line() -> None:
    async with console() as (app, pilot, _):
        assert toasts(app) == ""
        write('theme = "a4-light"\n[lists.jobs]\ncolumns = ["JOB"]\n')
        await until(pilot, lambda: app.theme == "a4-light")
        await pilot.press("3")
        assert text_of(app.screen.query_one("JobTable")).split("\n")[0].split() == ["JOB"]
        file = write('theme = "a4-dark"\nstart = 5\n')
        await until(pilot, lambda: f"{file}:2: start is 5" in toasts(app))
        assert app.theme == "a4-dark"
        assert "STATE" in text_of(app.screen.query_one("JobTable")).split("\n")[0]
        write('theme = "a4-dark"\n[lists.jobs]\nsort = "AGES"\n')
        await until(pilot, lambda: "List jobs has no column AGES" in toasts(app))


OWN = '[[commands]]\nkey = "ctrl+y"\nname = "Top"\ncommand = "kubectl -n {namespace} top pod {pod}"\nchanges = false\n'
DRAIN = '[[commands]]\nkey = "ctrl+d"\nname = "Drain"\ncommand = "kubectl drain {node}"\n'


async def test_a_command_of_ones_own_is_about_the_row_under_the_cursor() -> None:
    write(OWN)
    async with console() as (app, pilot, _):
        assert "Top" not in text_of(app.screen.query_one(KeyBar)), "the fleet has no pod"
        await pilot.press("4")
        await until(pilot, lambda: "Top" in text_of(app.screen.query_one(KeyBar)))
        namespace, name = app.screen.query_one("PodTable").cursor  # type: ignore[attr-defined]
        await pilot.press("ctrl+y")  # a terminal of a test cannot be lent: the line itself is told
        await until(pilot, lambda: f"kubectl -n {namespace} top pod {shlex.quote(name)}" in toasts(app))


async def test_a_command_that_changes_the_cluster_asks_first_and_is_gone_in_read_only_mode() -> None:
    write(DRAIN)
    async with console() as (app, pilot, _):
        await pilot.press("4", "ctrl+d")
        await until(pilot, lambda: "Run Drain?" in screen_text(app))
        assert "kubectl drain" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "Run Drain?" not in screen_text(app))
        assert toasts(app) == ""
    async with console(settings=Settings(read_only=True)) as (app, pilot, _):
        await pilot.press("4", "ctrl+d")
        assert "Drain" not in screen_text(app)


def test_what_a_cluster_calls_its_objects_is_one_word_of_the_shell() -> None:
    own = OwnCommand("x", "X", "echo {pod} {job}")
    subject = {"pod": "p; rm -rf /", "job": "$(id)"}
    assert fill(own, subject) == "echo 'p; rm -rf /' '$(id)'"
    assert applies(own, subject)
    assert not applies(own, {"pod": "p", "job": ""})


def test_names_that_do_not_exist_are_told_with_what_there_is() -> None:
    write(
        'theme = "draculaa"\n[keys]\n"table.filtr" = "f"\n[lists.jobz]\n[lists.pods]\nsort = "AGES"\n'
        '[themes.mine.colors]\nink-okay = "#00ff00"\n[[commands]]\nkey = "x"\nname = "X"\ncommand = "echo {rank}"\n'
    )
    problems = all_problems(load_config(), known_names())
    assert [each.line for each in problems] == [1, 3, 4, 6, 8, 12]
    assert "Is it table.filter" in problems[1].text
    assert "There are alarms, builds" in problems[2].text
    assert "It has NAMESPACE, NAME" in problems[3].text


def test_the_command_tells_settings_and_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 0
    assert "is not there: everything is as usual." in capsys.readouterr().out
    file = write('theme = "nord"\nstart = 5\n')
    assert main(["config", "check"]) == 2
    assert f"{file}:2: start is 5, and has to be one of fleet" in capsys.readouterr().out
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    assert ["theme", "nord", "line", "1"] in [line.split() for line in shown.splitlines()]
    assert ["start", "fleet", "usual"] in [line.split() for line in shown.splitlines()]
    assert main(["config", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["settings"]["theme"], told["problems"][0]["line"]) == ("nord", 2)
    assert main(["config", "keys", "--json"]) == 0
    assert {"table.filter", "app.quit"} <= {each["id"] for each in json.loads(capsys.readouterr().out)["items"]}
    assert main(["config", "lists"]) == 0
    assert "OWNER" in capsys.readouterr().out
    assert main(["config", "schema"]) == 0
    assert "$ref" in capsys.readouterr().out


async def test_a_page_that_is_being_opened_has_no_object_for_a_command() -> None:
    """The key line may ask for the bindings of a page before its table is there."""
    write(OWN)
    async with console() as (app, pilot, _):
        for made in (JobsScreen, PodsScreen):
            page = made()
            assert page.present_subject == {}
            app.push_screen(page)
            assert app.check_action("own_command", (0,)) is None, "no row yet"
            await until(pilot, partial(page.query, "ResourceTable"))
            app.pop_screen()
        assert app.check_action("own_command", (7,)) is False, "it was taken out of the file"
