from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import App, ComposeResult

from console.models.launch import Field, FieldKind, changed
from screens.widgets.form import Form
from screens.widgets.ink import DARK
from tests.screens.press import screen_text, until
from tests.screens.queue_scene import FIELDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot


class Host(App[None]):
    """Just the form, and what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[tuple[str, str]] = []
        self.entered: list[str] = []

    def compose(self) -> ComposeResult:
        yield Form()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name

    def on_form_changed(self, event: Form.Changed) -> None:
        self.edits.append((event.path, event.text))

    def on_form_entered(self, event: Form.Entered) -> None:
        self.entered.append(event.field.path)


@asynccontextmanager
async def form_of(*fields: Field, width: int = 110) -> AsyncIterator[tuple[Form, Pilot[Any], Host]]:
    app = Host()
    async with app.run_test(size=(width, 30)) as pilot:
        form = app.query_one(Form)
        form.offer({"localqueues": ("a4", "research")})
        await form.show(fields or FIELDS)
        await pilot.pause()
        yield form, pilot, app


async def test_every_field_appears_with_title_section_and_default() -> None:
    async with form_of() as (form, _, app):
        text = screen_text(app)  # type: ignore[arg-type]
        for word in ("── Job", "GPUs", "16", "── Placement", "●preferred", "Environment", "A=1", "[ ] no"):
            assert word in text
        assert form.texts["gpus"] == "16"
        assert changed(FIELDS, form.texts) == ({}, ())


async def test_a_field_nobody_knew_appears_without_other_code() -> None:
    new = Field("new.thing", "New thing", "Made up.", FieldKind.NUMBER, 1.5, unit="furlongs", group="New")
    async with form_of(*FIELDS, new) as (form, pilot, app):
        assert "furlongs" in screen_text(app)  # type: ignore[arg-type]
        form.go("new.thing")
        await pilot.press("backspace", "7")
        await until(pilot, lambda: app.edits == [("new.thing", "1."), ("new.thing", "1.7")])
        assert changed((*FIELDS, new), form.texts)[0] == {"new": {"thing": 1.7}}


async def test_typing_says_only_what_was_typed_and_marks_the_change() -> None:
    async with form_of() as (form, pilot, app):
        assert app.edits == []
        form.go("gpus")
        await pilot.press("backspace", "backspace", "8")
        await until(pilot, lambda: app.edits[-1:] == [("gpus", "8")])
        assert "• GPUs" in screen_text(app)  # type: ignore[arg-type]
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.edits[-1:] == [("gpus", "16")])
        await until(pilot, lambda: "• GPUs" not in screen_text(app))  # type: ignore[arg-type]


async def test_a_problem_stands_at_its_field_even_from_deep_inside() -> None:
    async with form_of() as (form, pilot, app):
        form.show_problems({"gpus": "GPUs must be 8; 12 was given.", "env.FOO": "Environment may not set FOO."})
        await until(pilot, lambda: "✗ GPUs" in screen_text(app))  # type: ignore[arg-type]
        text = screen_text(app)  # type: ignore[arg-type]
        assert "must be 8; 12 was given." in text
        assert "may not set FOO" in text
        form.show_problems({})
        await until(pilot, lambda: "✗" not in screen_text(app))  # type: ignore[arg-type]


async def test_keys_go_through_fields_and_choices() -> None:
    async with form_of() as (form, pilot, app):
        form.go("gpus")
        await pilot.press("down")
        await until(pilot, lambda: app.entered[-1:] == ["queue"])
        await pilot.press("down")
        assert form.texts["queue"] == "a4"
        await pilot.press("down")
        assert form.texts["queue"] == "research"
        await pilot.press("enter", "space")
        assert form.texts["keepAlive"] == "true"
        await pilot.press("down", "right", "right")
        assert form.texts["topology.request"] == "none"
        await pilot.press("tab", "enter", *"B=2")
        await until(pilot, lambda: "B=2" in form.texts["env"])


async def test_secrets_are_never_on_the_screen() -> None:
    async with form_of() as (form, pilot, app):
        form.go("hub.token")
        await pilot.press(*"hush-hush")
        await until(pilot, lambda: form.texts["hub.token"] == "hush-hush")
        assert "hush" not in screen_text(app)  # type: ignore[arg-type]


async def test_brackets_and_narrow_terminals() -> None:
    odd = replace(FIELDS[0], title="GPUs [all]", rule="must be [one]")
    async with form_of(odd, width=40) as (form, pilot, app):
        assert "GPUs [all]" in screen_text(app)  # type: ignore[arg-type]
        form.show_problems({"gpus": "no [bold]room[/]"})
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert form.texts["gpus"] == "16"


async def test_words_beside_the_editors_follow_a_new_width() -> None:
    async with form_of(width=70) as (_, pilot, app):
        for width in (110, 140, 70, 110):
            await pilot.resize_terminal(width, 30)
            await until(pilot, lambda: "  ↑↓ a4, research" in screen_text(app))  # type: ignore[arg-type]
