from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot

from console.launch.field_choices import ChoicesState, FieldChoices
from console.launch.field_values import parse_changes
from console.launch.recipes import Field, FieldKind
from console.scheduling.launch_forecast import QueueChoice
from screens.theme import DARK
from screens.widgets.form.editors import LineEditor
from screens.widgets.form.form_lines import FormLines
from screens.widgets.form.form_model import FormModel, LaunchDraft, RowKind
from screens.widgets.form.launch_form import Form
from tests.screens.press import press, screen_text, until, until_shown
from tests.screens.queue_scene import FIELDS, RECIPE

QUEUES = FieldChoices("localqueues", ("a4", "research"), {"a4": "24 of 64 GPUs free"})


class Host(App[None]):
    """Just the form, and what it says."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,t,1,question_mark,colon,C", "command", "Command")]

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[str] = []
        self.edits: list[tuple[str, str]] = []
        self.entered: list[str] = []

    def compose(self) -> ComposeResult:
        yield Form()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name

    def action_command(self) -> None:
        self.commands.append("done")

    def on_form_changed(self, event: Form.Changed) -> None:
        self.edits.append((event.path, event.text))

    def on_form_entered(self, event: Form.Entered) -> None:
        self.entered.append(event.field.path if event.field else "")


@asynccontextmanager
async def form_of(*fields: Field, width: int = 110) -> AsyncIterator[tuple[Form, Pilot[Any], Host]]:
    app = Host()
    async with app.run_test(size=(width, 30)) as pilot:
        form = app.query_one(Form)
        form.set_choices({"localqueues": QUEUES})
        form.show(FormModel(fields or FIELDS))
        form.set_advanced(True)
        await pilot.pause()
        yield form, pilot, app


async def test_every_field_appears_with_title_section_and_default() -> None:
    async with form_of() as (form, _, app):
        text = screen_text(app)
        for word in ("── Job", "GPUs", "16", "── Placement", "●preferred", "Environment", "A=1", "[ ] no"):
            assert word in text
        assert form.texts["gpus"] == "16"
        assert parse_changes(FIELDS, form.texts) == ({}, ())


async def test_a_field_nobody_knew_appears_without_other_code() -> None:
    new = Field("new.thing", "New thing", "Made up.", FieldKind.NUMBER, 1.5, unit="furlongs", group="New")
    async with form_of(*FIELDS, new) as (form, pilot, app):
        assert "furlongs" in screen_text(app)
        form.go("new.thing")
        await pilot.press("end", "backspace", "7")
        await until(pilot, lambda: app.edits == [("new.thing", "1."), ("new.thing", "1.7")])
        assert parse_changes((*FIELDS, new), form.texts)[0] == {"new": {"thing": 1.7}}


async def test_typing_says_only_what_was_typed_and_marks_the_change() -> None:
    async with form_of() as (form, pilot, app):
        assert app.edits == []
        form.go("gpus")
        await press(pilot, "backspace", "backspace", "8", then=lambda: app.edits[-1:] == [("gpus", "8")])
        await until_shown(pilot, "• GPUs")
        await press(pilot, "ctrl+g", then=lambda: app.edits[-1:] == [("gpus", "16")])
        await until(pilot, lambda: "• GPUs" not in screen_text(app))


async def test_a_problem_stands_at_its_field_even_from_deep_inside() -> None:
    async with form_of() as (form, pilot, app):
        form.show_problems({"gpus": "GPUs must be 8; 12 was given.", "env.FOO": "Environment may not set FOO."})
        await until_shown(pilot, "✗ GPUs", "must be 8; 12 was given.", "may not set FOO")
        form.show_problems({})
        await until(pilot, lambda: "✗" not in screen_text(app))


async def test_the_cursor_is_seen_on_a_changed_and_on_a_wrong_field() -> None:
    async with form_of() as (form, pilot, app):
        form.go("gpus")
        await press(pilot, "8", then=lambda: "▸• GPUs" in screen_text(app))
        form.show_problems({"gpus": "GPUs must be 16; 8 was given."})
        await until_shown(pilot, "▸✗ GPUs")
        await press(pilot, "down", then=lambda: " ✗ GPUs" in screen_text(app))


async def test_arrows_go_through_fields_and_never_change_them() -> None:
    async with form_of() as (form, pilot, app):
        form.go("gpus")
        before = form.texts
        await press(pilot, *["down"] * 20, *["up"] * 5, then=lambda: form.texts == before)
        assert {"queue", "keepAlive", "topology.request", "env", "hub.token"} <= set(app.entered)


async def test_enter_drops_down_what_the_cluster_has() -> None:
    async with form_of() as (form, pilot, app):
        form.go("queue")
        await press(pilot, "enter", then=lambda: "24 of 64 GPUs free" in screen_text(app))
        await press(pilot, "down", "enter", then=lambda: form.texts["queue"] == "research")
        assert form.cursor_path == "keepAlive", "a choice that is made goes on"
        await press(pilot, "up", "enter", "escape", then=lambda: form.texts["queue"] == "research")
        assert form.cursor_path == "queue", "Esc closes the list only"


async def test_typing_narrows_the_choices() -> None:
    async with form_of() as (form, pilot, app):
        form.go("queue")
        await press(pilot, "r", "e", then=lambda: "▸research" in screen_text(app))
        await press(pilot, "enter", then=lambda: form.texts["queue"] == "research")


async def test_nothing_to_choose_from_says_why() -> None:
    claims = Field("claim", "Claim", "One.", FieldKind.TEXT, "", choices_from="pvcs", group="Storage")
    async with form_of(claims) as (form, pilot, app):
        form.set_choices({"pvcs": FieldChoices("pvcs", state=ChoicesState.NOT_ALLOWED, why="You may not list claims.")})
        form.go("claim")
        await press(pilot, "enter", then=lambda: "You may not list claims." in screen_text(app))
        form.set_choices({"pvcs": FieldChoices("pvcs", why="There are no claims.")})
        await press(pilot, "escape", "enter", then=lambda: "There are no claims." in screen_text(app))


async def test_words_and_switches_change_by_keys_and_first_letters() -> None:
    async with form_of() as (form, pilot, _):
        form.go("keepAlive")
        await press(pilot, "space", then=lambda: form.texts["keepAlive"] == "true")
        await press(pilot, "n", then=lambda: form.texts["keepAlive"] == "false")
        await press(pilot, "down", "right", "right", then=lambda: form.texts["topology.request"] == "none")
        await press(pilot, "r", then=lambda: form.texts["topology.request"] == "required")


async def test_entries_are_added_and_removed_by_a_key_each() -> None:
    async with form_of() as (form, pilot, _):
        form.go("env")
        await press(pilot, "ctrl+n", *"B=2", "enter", *"C=3", then=lambda: form.texts["env"] == "A=1\nB=2\nC=3")
        await until_shown(pilot, "2 added")
        await press(pilot, "up", "ctrl+d", then=lambda: form.texts["env"] == "A=1\nC=3")
        await pilot.press("ctrl+l", "ctrl+home", "enter", "up", *"Z=9")
        assert form.texts["env"].startswith("Z=9\nA=1"), "and all of them are one text too"
        await pilot.press("ctrl+l")
        await until(pilot, lambda: form.page.model.row_of("env").kind is RowKind.ENTRY)  # type: ignore[union-attr]


async def test_an_empty_entry_is_left_by_enter() -> None:
    async with form_of() as (form, pilot, _):
        form.go("env")
        await press(pilot, "enter", "enter", then=lambda: form.texts["env"] == "A=1")
        assert form.cursor_path == "hub.token"


async def test_several_pasted_lines_are_entries() -> None:
    async with form_of() as (form, pilot, app):
        form.go("env")
        app.post_message(events.Paste("B=2\nC=3\n"))
        await until(pilot, lambda: form.texts["env"] == "A=1\nB=2\nC=3")
        await press(pilot, "ctrl+z", then=lambda: form.texts["env"] == "A=1")


async def test_what_is_typed_first_takes_the_place_of_the_value() -> None:
    async with form_of() as (form, pilot, _):
        form.go("gpus")
        await press(pilot, "8", then=lambda: form.texts["gpus"] == "8")
        await press(pilot, "0", "down", "up", "right", "1", then=lambda: form.texts["gpus"] == "801")


async def test_undo_takes_back_step_by_step_and_redo_makes_it_again() -> None:
    async with form_of() as (form, pilot, _):
        form.go("gpus")
        await press(pilot, "end", "backspace", "8", "down", "x", "y", then=lambda: form.texts["queue"] == "xy")
        form.put_texts({"gpus": "32"})
        assert form.texts["queue"] == ""
        await press(pilot, "ctrl+z", then=lambda: (form.texts["gpus"], form.texts["queue"]) == ("18", "xy"))
        await press(pilot, "ctrl+z", then=lambda: (form.texts["gpus"], form.texts["queue"]) == ("18", ""))
        await press(pilot, "ctrl+z", then=lambda: form.texts["gpus"] == "16")
        await press(
            pilot, "ctrl+y", "ctrl+y", "ctrl+y", then=lambda: (form.texts["gpus"], form.texts["queue"]) == ("32", "")
        )


@pytest.mark.slow(reason="many keys in a whole app")
async def test_search_finds_by_title_path_and_help_and_escape_brings_all_back() -> None:
    async with form_of() as (form, pilot, app):
        form.go("gpus")
        await press(pilot, "ctrl+f", *"topo", then=lambda: form.page.model.shown() == ("topology.request",))
        # The value of the field that was left is not in sight on another's line.
        await until(pilot, lambda: "16" not in screen_text(app))
        await press(pilot, "enter", then=lambda: form.cursor_path == "topology.request")
        await pilot.press("slash")  # here a slash is no letter of a value
        await until(pilot, lambda: form.finder.input.has_focus)
        await press(pilot, *["backspace"] * 4, *"secret", then=lambda: form.page.model.shown() == ("hub.token",))
        await until_shown(pilot, "Mentioned in the help")
        await press(pilot, "enter", "escape", then=lambda: len(form.page.model.shown()) == len(FIELDS))
        assert form.cursor_path == "hub.token"


async def test_sections_fold_and_say_what_is_changed_in_them() -> None:
    async with form_of() as (form, pilot, app):
        form.go("gpus")
        await press(pilot, "8", "f7", then=lambda: "▸ Job  3 fields, 1 changed" in screen_text(app))
        assert "gpus" not in form.page.model.shown()
        await press(pilot, "enter", then=lambda: "gpus" in form.page.model.shown())


async def test_advanced_fields_are_out_of_sight_until_wanted_changed_or_wrong() -> None:
    async with form_of() as (form, pilot, app):
        form.set_advanced(False)
        assert "env" not in form.page.model.shown()
        assert "▸ Environment  2 fields" in screen_text(app)
        form.show_problems({"hub.token": "Token is wrong."})
        assert "hub.token" in form.page.model.shown()
        form.go("env")
        assert form.cursor_path == "env"
        await pilot.press("x")
        form.set_advanced(False)
        assert "env" in form.page.model.shown()


async def test_letters_in_a_form_are_never_commands() -> None:
    async with form_of() as (form, pilot, app):
        for path in ("gpus", "keepAlive", "topology.request", "env"):
            form.go(path)
            await pilot.press("q", "t", "question_mark", "colon", "C")
        assert form.cursor_path == "env"
        assert app.commands == []


async def test_a_digit_that_a_choice_begins_with_chooses_it() -> None:
    numbered = Field("racks", "Racks", "Racks.", FieldKind.CHOICE, "1 rack", choices=("1 rack", "2 racks"), group="Job")
    async with form_of(*FIELDS, numbered) as (form, pilot, app):
        form.go("racks")
        await until(pilot, lambda: isinstance(app.focused, LineEditor) and form.cursor_path == "racks")
        assert app.focused is not None
        assert app.focused.check_consume_key("2", "2")
        assert not app.focused.check_consume_key("3", "3")


async def test_secrets_are_never_on_the_screen() -> None:
    async with form_of() as (form, pilot, app):
        form.go("hub.token")
        await press(pilot, *"hush-hush", then=lambda: form.texts["hub.token"] == "hush-hush")
        assert "hush" not in screen_text(app)
        form.put_texts({"env": "HF_TOKEN=hf_hushhushhushhushhushhushhushhush01", "hub.token": "hush"})
        form.go("gpus")
        await until_shown(pilot, "HF_TOKEN=•")
        assert "hush" not in screen_text(app)


async def test_brackets_and_narrow_terminals() -> None:
    odd = replace(FIELDS[0], title="GPUs [all]", rule="must be [one]")
    async with form_of(odd, width=40) as (form, pilot, app):
        assert "GPUs [all]" in screen_text(app)
        form.show_problems({"gpus": "no [bold]room[/]"})
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert form.texts["gpus"] == "16"


async def test_words_beside_the_editors_follow_a_new_width() -> None:
    async with form_of(width=70) as (_, pilot, _):
        for width in (110, 140, 70, 110):
            await pilot.resize_terminal(width, 30)
            await until_shown(pilot, "▾ a4, research")


async def test_the_mouse_goes_to_a_field() -> None:
    async with form_of() as (form, pilot, app):
        lines = screen_text(app).splitlines()
        at = next(number for number, text in enumerate(lines) if "Topology" in text)
        await pilot.click(FormLines, offset=(5, at))
        await until(pilot, lambda: form.cursor_path == "topology.request")


async def test_a_form_with_very_many_fields_draws_only_what_is_in_view() -> None:
    many = [Field(f"f{number}", f"Field {number}", "One.", FieldKind.TEXT, "x", group="All") for number in range(900)]
    async with form_of(*many) as (form, pilot, app):
        form.go("f899")
        await press(pilot, "end", "y", then=lambda: form.texts["f899"] == "xy")
        await until_shown(pilot, "Field 899")
        assert "Field 1 " not in screen_text(app)
        assert len(app.query("*")) < 40


async def test_the_value_of_an_image_keeps_its_end_in_the_form() -> None:
    image = "us-central1-docker.pkg.dev/deeplearning-images/reproducibility/pytorch-gpu-nemo-nccl:nemo25.04-gib1.0.6-A4"
    field = Field("image", "Image", "Image.", FieldKind.TEXT, image, group="Job")
    async with form_of(FIELDS[0], field, width=80) as (_, pilot, _):
        await until_shown(pilot, "gib1.0.6-A4", "…")


@pytest.mark.parametrize(
    ("choice", "typed", "values", "problem"),
    [
        (QueueChoice(why_unknown="the queues are not known"), "", {},
         "Name one, or type none to bypass Kueue: the queues are not known."),
        (QueueChoice(why_unknown="the queues are not known"), "none", {"queue": ""}, ""),
        (QueueChoice(why_unknown="the queues are not known"), "a4", {"queue": "a4"}, ""),
        (QueueChoice("a4"), "", {"queue": "a4"}, ""),
        (QueueChoice("a4"), "none", {"queue": ""}, ""),
        (QueueChoice(), "", {}, ""),
    ],
)  # fmt: skip
def test_a_launch_past_kueue_is_never_the_default(
    choice: QueueChoice, typed: str, values: dict[str, str], problem: str
) -> None:
    draft = LaunchDraft(RECIPE, FIELDS, "mine")
    draft.follow_queue(choice)
    if typed:
        draft.model.texts["queue"] = typed
    plan, problems = draft.plan("team")
    assert plan.values == values
    assert [(each.path, each.message) for each in problems] == ([("queue", problem)] if problem else [])
