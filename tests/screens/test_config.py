"""The console follows the person's settings, also while it runs."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from console.connection_settings import Settings
from console.errors import BadInput
from console.metrics.alarm import AlarmKind
from console.settings_file import OwnCommand, config_path, load_config
from screens.__main__ import main
from screens.apply_settings import all_problems, fill_in, has_objects, known_names
from screens.pages.jobs import JobsScreen, JobTable
from screens.pages.node import NodeScreen
from screens.pages.pods import PodsScreen
from screens.theme import LIGHT
from screens.widgets.title_and_keys import KeyBar
from tests.console.test_config import BROKEN
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import console, press, screen_text, text_of, toasts, until, until_shown
from tests.screens.scene import jobset
from tests.web_server import server


def write(text: str) -> Path:
    file = config_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))
    return file


async def test_start_page_theme_keys_and_columns_are_the_persons() -> None:
    write(
        'start = "jobs"\ntheme = "solarized-light"\n[keys]\n"table.filter" = "f12"\n'
        '[lists.jobs]\ncolumns = ["STATE", "JOB"]\nsort = "JOB"\n'
    )
    async with console() as (app, pilot, _):
        assert isinstance(app.screen, JobsScreen)
        assert app.theme == "solarized-light"
        assert app.theme_variables["ink-text"] == LIGHT.variables["ink-text"], "what is drawn on a light ground is dark"
        titles = text_of(app.screen.table).split("\n")[0].split()
        assert titles == ["STATE", "JOB▲"]
        await press(pilot, "f12", then=lambda: "/" in screen_text(app))
        await press(pilot, "escape", "4", "t", then=lambda: app.theme == "a4-dark")
        await press(pilot, "t", then=lambda: app.theme == "solarized-light")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_columns_of_ones_own_without_room_are_named() -> None:
    names = "JOB", "NAMESPACE", "OWNER", "RECIPE", "STATE", "PODS", "GPUS", "ATTEMPT", "QUEUE", "STATUS", "AGE"
    write(f'start = "jobs"\n[lists.jobs]\ncolumns = {json.dumps(names)}\n')
    async with console(size=(80, 24)) as (app, pilot, _):
        assert isinstance(app.screen, JobsScreen)
        await until(pilot, lambda: "No room for " in toasts(app))
        shown = text_of(app.screen.table).split("\n")[0]
        hidden = [name for name in names if name not in shown]
        assert hidden
        assert f"No room for {', '.join(hidden)}: make the terminal wider" in toasts(app)
        app.clear_notifications()
        await pilot.resize_terminal(400, 50)

        def titles() -> str:
            return text_of(app.screen.query_one(JobTable)).split("\n")[0]

        await until(pilot, lambda: all(name in titles() for name in names))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not all(name in titles() for name in names))
        assert "No room for" not in toasts(app), "that was told already"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_changes_are_taken_over_while_it_runs_and_what_is_wrong_is_reported_with_its_line() -> None:
    async with console() as (app, pilot, _):
        assert toasts(app) == ""
        write('theme = "a4-light"\n[lists.jobs]\ncolumns = ["JOB"]\n')
        await until(pilot, lambda: app.theme == "a4-light")
        await press(
            pilot, "3", then=lambda: text_of(app.screen.query_one("JobTable")).split("\n")[0].split() == ["JOB"]
        )
        file = write('theme = "a4-dark"\nstart = 5\n')
        await until(pilot, lambda: f"{file}:2: start is 5" in toasts(app))
        assert app.theme == "a4-dark"
        assert "STATE" in text_of(app.screen.query_one("JobTable")).split("\n")[0]
        write('theme = "a4-dark"\n[lists.jobs]\nsort = "AGES"\n')
        await until(pilot, lambda: "List jobs has no column AGES" in toasts(app))
        assert "start is 5" not in toasts(app), "it was corrected"
        write('theme = "a4-dark"\n')
        await until(pilot, lambda: "Settings that do not hold" not in toasts(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_panes_have_the_persons_sizes_which_are_taken_over_while_it_runs() -> None:
    write('start = "jobs"\n[panes]\nright = 30\n')
    async with console(size=(200, 40)) as (app, pilot, _):
        assert isinstance(app.screen, JobsScreen)
        pane = app.screen.pane
        await until(pilot, lambda: pane.outer_size.width == 60)
        write("[panes]\nright = 50\n")
        await until(pilot, lambda: pane.outer_size.width == 100)
        await press(pilot, "z", then=lambda: pane.outer_size.width == 124)
        write('[panes]\nsize = "off"\n')
        await until(pilot, lambda: not pane.display)


@pytest.mark.slow(reason="many keys in a whole app, which waits for what it reads")
async def test_a_pane_below_a_long_list_has_the_persons_lines() -> None:
    write('start = "jobs"\n[panes]\nbelow = 17\n')
    fleet = fleet_of(*(jobset(f"job-{number}", 1) for number in range(40)))
    async with console(FakeSession(fleet), size=(100, 40)) as (app, pilot, _):
        assert isinstance(app.screen, JobsScreen)
        pane = app.screen.pane
        await until(pilot, lambda: pane.outer_size.height == 17)
        file = write("[panes]\nbelow = 90\n")
        said = f"{file}:2: panes.below is 90, and has to be a whole number from 4 to 60"
        await until(pilot, lambda: said in toasts(app))
        await until(pilot, lambda: pane.outer_size.height == 12)


OWN = '[[commands]]\nkey = "ctrl+y"\nname = "Top"\ncommand = "kubectl -n {namespace} top pod {pod}"\nchanges = false\n'
DRAIN = '[[commands]]\nkey = "ctrl+d"\nname = "Drain"\ncommand = "kubectl drain {node}"\n'


async def test_a_command_of_ones_own_is_about_the_row_under_the_cursor() -> None:
    write(OWN)
    async with console() as (app, pilot, _):
        assert "Top" not in text_of(app.screen.query_one(KeyBar)), "the fleet has no pod"
        await press(pilot, "4", then=lambda: "Top" in text_of(app.screen.query_one(KeyBar)))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: "The pod is called 'dpo-[b]-workload-0-0-x7k0': a command may" in toasts(app))
        await pilot.press("down", "down", "ctrl+y")  # a terminal of a test cannot be lent: the line itself is shown
        await until(pilot, lambda: "kubectl -n default top pod llama-70b-workload-0-0-x7k0" in toasts(app))


async def test_a_command_that_changes_the_cluster_asks_first_and_is_gone_in_read_only_mode() -> None:
    write(DRAIN)
    async with console() as (app, pilot, _):
        await press(pilot, "4", "ctrl+d", then=lambda: "Run Drain?" in screen_text(app))
        await until_shown(pilot, "kubectl drain")
        await press(pilot, "escape", then=lambda: "Run Drain?" not in screen_text(app))
        assert toasts(app) == ""
    async with console(settings=Settings(read_only=True)) as (app, pilot, _):
        await pilot.press("4", "ctrl+d")
        assert "Drain" not in screen_text(app)


PRINT = "printf '<%s>' "


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (PRINT + "{job} x{pod}y", "<j;$(touch own) '\"><xp * -ny>"),
        (PRINT + """\"job $A4_JOB\" "${A4_POD}" '{"a": 1}'""", """<job j;$(touch own) '"><p * -n><{"a": 1}>"""),
        (PRINT + '"$(' + PRINT + '{job})"', None),
        (PRINT + "$(" + PRINT + "'|'{pod}'|')", "<<|p><*><-n|>>"),
        (PRINT + r"\{job} ${HOME:+h} it\'s", "<{job}><h><it's>"),
        (PRINT + "a # it's {job}", "<a>"),
    ],
)
def test_a_name_is_the_value_of_a_variable_and_never_the_text_of_a_shell(
    text: str, shown: str | None, tmp_path: Path
) -> None:
    own = OwnCommand("x", "X", text)
    names = {"A4_JOB": "j;$(touch own) '\"", "A4_POD": "p * -n"}
    done = subprocess.run(["/bin/sh", "-c", own.script], env=os.environ | names, cwd=tmp_path, capture_output=True)
    assert list(tmp_path.iterdir()) == []
    assert shown is None or done.stdout.decode() == shown


@pytest.mark.parametrize("name", ["-n", "p; id", "$(id)", "a b", "~", "a\nb", "a=b", "*", "'", ""])
def test_a_command_is_given_no_name_that_some_program_takes_for_more_than_a_name(name: str) -> None:
    own = OwnCommand("x", "X", 'watch kubectl top pod {pod} --context "$A4_CONTEXT"')
    assert fill_in(own, {"pod": "p-0.1", "context": "arn:aws:eks/me@x_y"}) == (
        "watch kubectl top pod p-0.1 --context arn:aws:eks/me@x_y",
        {"A4_POD": "p-0.1", "A4_CONTEXT": "arn:aws:eks/me@x_y"},
    )
    assert has_objects(own, {"pod": "p", "context": "c"})
    assert not has_objects(own, {"pod": "p", "context": ""})
    with pytest.raises(BadInput, match="The context is called"):
        fill_in(own, {"pod": "p", "context": name})


def test_a_command_finds_the_context_in_the_file_that_the_console_was_given() -> None:
    own = OwnCommand("x", "X", "kubectl --context {context} get nodes")
    _, variables = fill_in(own, {"context": "practice"}, Path("/tmp/a4-practice/kubeconfig"))
    assert variables == {"A4_CONTEXT": "practice", "KUBECONFIG": "/tmp/a4-practice/kubeconfig"}


def test_a_check_says_on_which_pages_a_command_has_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    file = write(
        '[[commands]]\nkey = "f8"\nname = "Describe"\ncommand = "kubectl describe pod {pod}"\n'
        '[[commands]]\nkey = "f10"\nname = "Nodes"\ncommand = "kubectl get nodes"\n'
    )
    assert main(["config", "check"]) == 0
    pages = "Describe (f8) is on the pages that show pod: job, node, pod, pods.\n"
    assert capsys.readouterr().out == f"{pages}{file} has no errors.\n"
    assert main(["config", "check", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["commands"]
    assert (first["key"], first["uses"], first["pages"]) == ("f8", ["pod"], ["job", "node", "pod", "pods"])
    assert set(first["pages"]) < set(second["pages"])
    assert "jobs" in second["pages"]


def test_names_that_do_not_exist_are_reported_with_what_there_is() -> None:
    write(
        'theme = "draculaa"\n[keys]\n"table.filtr" = "f12"\n[lists.jobz]\n[lists.pods]\nsort = "AGES"\n'
        '[themes.mine.colors]\nink-okay = "#00ff00"\n[[commands]]\nkey = "f11"\nname = "X"\ncommand = "echo {rank}"\n'
    )
    problems = all_problems(load_config(), known_names())
    assert [each.line for each in problems] == [1, 3, 4, 6, 8, 12]
    assert "Is it table.filter" in problems[1].text
    assert "There are alarms, builds" in problems[2].text
    assert "It has NAMESPACE, NAME" in problems[3].text


def test_the_command_tells_settings_and_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 0
    assert "is not there: everything is at its default." in capsys.readouterr().out
    file = write('theme = "nord"\nstart = 5\n')
    assert main(["config", "check"]) == 2
    assert f"{file}:2: start is 5, and has to be one of fleet" in capsys.readouterr().out
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    assert ["theme", "nord", "line", "1"] in [line.split() for line in shown.splitlines()]
    assert ["start", "fleet", "default"] in [line.split() for line in shown.splitlines()]
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


def command(key: str, name: str, about: str) -> str:
    return f'[[commands]]\nkey = "{key}"\nname = "{name}"\ncommand = "echo {about}"\nchanges = false\n'


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_command_takes_no_key_of_a_page_its_list_or_the_console_and_leaves_none_behind() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("3")
        before = {key: each.binding for key, each in app.screen.active_bindings.items()}
        assert before["x"].description == "Stop"
        taken = "".join(command(key, f"Own {key}", "{job}") for key in ("x", "j", "q", "question_mark"))
        file = write(taken + command("ctrl+y,f12", "Peek", "{job}") + command("f12", "Second", "{job}"))
        await until(pilot, lambda: "Peek" in text_of(app.screen.query_one(KeyBar)))
        during = {key: each.binding for key, each in app.screen.active_bindings.items()}
        assert {key: during[key] for key in before} == before
        assert {during[key].description for key in during.keys() - before.keys()} == {"Peek"}
        await until(pilot, lambda: f"{file}:2: x is " in toasts(app))
        assert "x is Stop (job, jobs)" in toasts(app)
        assert "And 4 more: a4 config check." in toasts(app)
        write("")
        await until(pilot, lambda: "Peek" not in text_of(app.screen.query_one(KeyBar)))
        assert {key: each.binding for key, each in app.screen.active_bindings.items()} == before


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_page_is_about_what_its_class_says() -> None:
    async with console() as (app, pilot, _):
        for pressed in ("1", "2", "3", "4", "enter", "5", "6", "7"):
            await pilot.press(pressed)
            assert app.screen.subject().keys() == type(app.screen).SUBJECT  # type: ignore[attr-defined]
        for page in known_names().pages:
            assert all(vars(base).get("SUBJECT", frozenset()) <= page.SUBJECT for base in page.__mro__)
        assert "pod" in NodeScreen.SUBJECT


def faults(text: str) -> list[str]:
    file = write(text)
    return [f"{each.line} {each.text}" for each in all_problems(load_config(file), known_names())]


def test_keys_that_are_none_or_are_taken_are_named() -> None:
    keys = """[keys]
"jobs.stop" = "l"
"app.jobs" = ""
"table.filter" = "notakey"
"app.quit" = "x"
"app.theme" = "slash"
"log.top" = "up"
"table.sort" = "o, shift+f5,~,ctrl+alt+k"
"pods.log" = "s"
"pods.shell" = "l"
"""
    found = faults(keys + command("nokey+foo", "A", "x") + command("f12", "B", "{pod}") + command("f12", "C", "{job}"))
    begins = (
        "2 l is Log (jobs).",
        "3 A key is missing. A key is a character",
        "4 There is no key notakey. A key is a character",
        "5 x is ",
        "6 slash is Filter (every page).",
        "7 up is Up (",
        "12 There is no key nokey+foo.",
        "22 f12 is the key of B already, so C has none.",
    )
    assert len(found) == len(begins), found
    for each, begin in zip(found, begins, strict=True):
        assert each.startswith(begin), each


def test_a_color_that_does_not_exist_is_named_whatever_its_value() -> None:
    (said,) = faults('[themes.mine]\ncolors = { nothing = "#fff" }\n')
    assert said.startswith("2 There is no colour nothing. There are accent")


def test_what_is_wrong_is_not_listed_as_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["keys", "none", "default"] in rows
    assert not [row for row in rows if "line" in row]
    write(
        'theme = "draculaa"\n[keys]\n"table.filter" = "notakey"\n"table.sort" = "f12"\n"nothing" = "f11"\n'
        '[lists.jobs]\nsort = "AGES"\ndescending = true\n' + command("nokey+foo", "A", "x") + command("f10", "B", "x")
    )
    assert main(["config", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["theme"], settings["keys"]) == ("a4-dark", {"table.sort": "f12"})
    assert settings["lists"] == {"jobs": {"descending": True}}
    assert [each["name"] for each in settings["commands"]] == ["B"]
    assert main(["config", "keys", "--json"]) == 0
    keys = {each["id"]: each["keys"] for each in json.loads(capsys.readouterr().out)["items"]}
    assert keys["table.down"] == "down,j"


def test_a_command_is_named_by_its_own_line_after_one_that_is_left_out() -> None:
    found = faults('[[commands]]\nname = "A"\ncommand = "x"\n' + command("nokey+foo", "B", "x"))
    assert [each[:13] for each in found] == ["1 commands[1]", "5 There is no"]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_alarms_are_sent_to_the_addresses_and_what_fails_is_reported_once() -> None:
    with server() as (host, got):
        write(f'[notifications]\nto = ["json://u:secret-7@{host}", "nonsense://secret-7"]')
        async with console() as (app, pilot, session):
            session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no step for 76 s")
            await until(pilot, lambda: "Alarms are not sent" in toasts(app))
            session.alarms.sound("default", "llama-70b", AlarmKind.NAN, "no loss printed at 118")
            await until(pilot, lambda: len(got) == 2)
            assert toasts(app).count("Alarms are not sent") == 1
            assert "nonsense://… (number 2): apprise knows no such address" in toasts(app)
            assert "secret-7" not in toasts(app)
    assert [body["title"] for *_, body in got] == ["nccl-0412: stall", "llama-70b: NaN"]
    assert "no step for 76 s" in got[0][2]["message"]


@pytest.mark.slow(reason="many keys in a whole app")
def test_a_secret_of_an_address_is_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with server() as (host, got):
        write(f'[notifications]\nto = ["json://u:secret-7@{host}", "nonsense://secret-7"]')
        assert main(["config"]) == 0
        assert main(["config", "--json"]) == 0
        assert main(["config", "check"]) == 2
        assert got == []
        assert main(["config", "notify"]) == 1
    said = capsys.readouterr()
    assert "secret-7" not in said.out + said.err
    assert '["json://…", "nonsense://…"]' in said.out
    assert "config.toml:2: notifications.to: nonsense://… (number 2): apprise knows no such address." in said.out
    assert "json://… has taken a message" in said.out
    assert "nonsense://… failed: apprise knows no such address" in said.out
    assert len(got) == 1


NAMELESS = (
    ('refresh = 1\ntheme = "draculaa"', 2, "There is no theme draculaa"),
    ('[keys]\n"table.filtr" = "f12"', 2, "Is it table.filter"),
    ('[keys]\n"table.filter" = "notakey"', 2, "There is no key notakey"),
    ('[lists.pods]\nsort = "AGES"', 2, "List pods has no column AGES"),
    ('refresh = 1\n[lists.jobz]\nsort = "AGE"', 2, "There is no list jobz"),
    ('[themes.mine]\ncolors = { ink-okay = "#00ff00" }', 2, "There is no colour ink-okay"),
    ('[[commands]]\nkey = "f11"\nname = "X"\ncommand = "echo {rank}"', 4, "{rank}: nothing is put in for it"),
    *(
        (f"[[commands]]\nkey = \"f11\"\nname = \"X\"\nchanges = false\ncommand = '''{text}'''", 5, f"has {said}.")
        for text, said in (
            ('echo "job {job}"', "{job} in quotes: write $A4_JOB there"),
            ('echo "$(id {pod})"', "{pod} in quotes: write $A4_POD there"),
            ("sh -c 'echo {job}'", "{job} in quotes: write '…'{job}'…', which ends the quotes before it"),
            ("echo {node} ${job}", "${job}: write {job}, or $A4_JOB"),
            ("cat <<E\\n{job}\\nE", "{job} in a here-document: write $A4_JOB there"),
        )
    ),
    ('[alarms]\nstall = "long"', 2, "alarms.stall"),
    ('[notifications]\nto = ["nonsense://x"]', 2, "apprise knows no such address"),
    ("[[formats]]\nname = \"nova\"\npattern = '('", 3, "formats[1].pattern"),
)
"""Files whose form is right and whose words are not, the line, and what is said of it."""


@pytest.mark.parametrize(("text", "line", "said"), [*BROKEN, *NAMELESS])
def test_the_check_tells_each_broken_file_with_its_line(
    text: str, line: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(text)
    assert main(["config", "check"]) == 2
    (told,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith(f"{file}:")]
    assert told.startswith(f"{file}:{line}: ")
    assert said in told
