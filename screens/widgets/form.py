"""A form made from descriptions of fields alone: whatever the schema describes appears, with help and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import Input, Static

from console.models.launch import Field, FieldKind, spell
from screens.widgets.ink import Inked
from screens.widgets.inputs import Choice, Edited, Line, Lines, Toggle
from screens.wording import Run, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

GAP = 2
_SEVERAL_LINES = (FieldKind.MAP, FieldKind.LIST, FieldKind.ROWS, FieldKind.BLOCK)


def make_editor(field: Field, choices: Sequence[str]) -> Widget:
    """The widget in which a value of that kind is typed."""
    text = spell(field, field.default)
    example = f"e.g. {field.examples[0]}" if field.examples else ""
    if field.kind is FieldKind.BOOLEAN:
        return Toggle(text)
    if field.kind is FieldKind.CHOICE:
        return Choice(text, field.choices)
    if field.kind in _SEVERAL_LINES:
        return Lines(text, placeholder=example)
    return Line(text, choices=choices, secret=field.secret, placeholder=example)


def brief(field: Field, choices: Sequence[str], changed: bool) -> str:
    """What stands beside a value that has no error: unit, choices, and the default once it is another."""
    words = [field.unit] if field.unit and field.unit.lower() != field.title.lower() else []
    default = spell(field, field.default).replace("\n", " ")
    if choices:
        words.append("↑↓ " + ", ".join(choices))
    elif changed:
        words.append(f"default {default}" if default else "default: none")
    elif field.rule and not field.advanced:
        words.append(field.rule.removeprefix("must be ").partition(", because")[0])
    return " · ".join(words)


class FieldRow(Inked):
    """One field: its title, its editor, and beside it the unit, the default or what is wrong."""

    DEFAULT_CSS: ClassVar[str] = """
    FieldRow { height: auto; layout: horizontal;
        & > Line, & > Choice, & > Toggle, & > Lines { margin-left: 22; width: 34; color: $text-muted; }
        &.-changed > * { color: $text; text-style: bold; }
    }
    """

    problem: reactive[str] = reactive("")
    changed: reactive[bool] = reactive(False)
    choices: reactive[tuple[str, ...]] = reactive(())

    def __init__(self, field: Field, choices: Sequence[str] = ()) -> None:
        super().__init__()
        self.field = field
        self.editor = make_editor(field, choices)
        self.known = spell(field, field.default)
        """The text last seen, so that only what differs counts as typed."""
        self.set_reactive(FieldRow.choices, tuple(choices))

    def compose(self) -> ComposeResult:
        """The editor alone; the words around it are drawn."""
        yield self.editor

    def watch_choices(self, choices: tuple[str, ...]) -> None:
        """The cluster offers others now."""
        if isinstance(self.editor, Line):
            self.editor.choices = choices

    @property
    def text(self) -> str:
        """What is typed."""
        editor = self.editor
        assert isinstance(editor, Line | Choice | Toggle | Lines)
        return editor.typed

    def type(self, text: str) -> None:
        """Puts text in, as if it was typed."""
        editor = self.editor
        assert isinstance(editor, Line | Choice | Toggle | Lines)
        editor.typed = text

    def watch_changed(self, changed: bool) -> None:
        """Changed values are bold, defaults grey."""
        self.set_class(changed, "-changed")

    def render_line(self, y: int) -> Strip:
        """The words of the first line; the lines of a higher editor have none."""
        ground = self.rich_style
        width = self.size.width
        if y:
            return Strip.blank(width, ground)
        left = self.editor.region.x - self.region.x
        right = self.editor.region.right - self.region.x + GAP
        runs = self._runs(left, right, width)
        return Strip([Segment(run.text, ground + self.ink(run.ink)) for run in runs]).adjust_cell_length(width, ground)

    def _runs(self, left: int, right: int, width: int) -> list[Run]:
        mark = Run("✗", "bad") if self.problem else Run("•", "accent") if self.changed else Run(" ")
        title_ink = "strong" if self.changed or self.editor.has_focus else "dim"
        title = Run(set_cell_size(f" {self.field.title}", max(0, left - 1)), title_ink)
        note = sentence(self.problem).removeprefix(self.field.title).lstrip() or brief(
            self.field, self.choices, self.changed
        )
        room = max(0, width - right)
        if cell_len(note) > room:
            note = set_cell_size(note, max(0, room - 1)) + "…" if room > 3 else ""
        return [mark, title, Run(" " * max(0, right - left)), Run(note, "bad" if self.problem else "dim")]


class Form(VerticalScroll):
    """Fields in sections; whoever shows it decides what is wrong and what may be chosen."""

    DEFAULT_CSS: ClassVar[str] = """
    Form { scrollbar-size-vertical: 1;
        .section { color: $text-muted; height: 1; margin-top: 1; }
        .section.-first { margin-top: 0; }
        &.-narrow FieldRow { & > Line, & > Choice, & > Toggle, & > Lines { margin-left: 22; width: 22; } }
        &.-wide FieldRow { & > Line, & > Choice, & > Toggle, & > Lines { width: 52; } }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "Previous field", show=False, id="form.previous"),
        Binding("down", "step(1)", "Next field", show=False, id="form.next"),
        Binding("ctrl+g", "reset", "Default", id="form.reset", tooltip="Put the default back into this field"),
    ]

    @dataclass
    class Changed(Message):
        """Somebody typed into the field of that path."""

        path: str
        text: str

    @dataclass
    class Entered(Message):
        """The field with the keys is another one now."""

        field: Field
        problem: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: dict[str, FieldRow] = {}
        self._choices: Mapping[str, Sequence[str]] = {}

    async def show(self, fields: Sequence[Field], texts: Mapping[str, str] | None = None) -> None:
        """Makes the form anew for these fields; `texts` are values by path that are not the default."""
        typed = texts or {}
        self._rows = {field.path: FieldRow(field, self._choices.get(field.choices_from, ())) for field in fields}
        widgets: list[Widget] = []
        group = None
        for field in fields:
            if field.group != group:
                group = field.group
                widgets.append(Static(f"── {group} ", classes="section -first" if not widgets else "section"))
            widgets.append(self._rows[field.path])
        async with self.batch():
            await self.remove_children()
            await self.mount_all(widgets)
        for path, text in typed.items():
            if path in self._rows:
                self._rows[path].type(text)
                self._rows[path].changed = text != spell(self._rows[path].field, self._rows[path].field.default)

    def offer(self, choices: Mapping[str, Sequence[str]]) -> None:
        """What the cluster has to choose from, by the name in `Field.choices_from`."""
        self._choices = choices
        for row in self._rows.values():
            row.choices = tuple(choices.get(row.field.choices_from, ()))

    @property
    def texts(self) -> dict[str, str]:
        """What stands in every field, by path."""
        return {path: row.text for path, row in self._rows.items()}

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Puts each sentence at its field, or at the field its path lies in, and takes all others away."""
        wrong: dict[str, str] = {}
        for path, sentence_ in problems.items():
            wrong.setdefault(self.field_of(path), sentence_)
        for path, row in self._rows.items():
            row.problem = wrong.get(path, "")
        self._tell_focused()

    def field_of(self, path: str) -> str:
        """The path of the field that holds this path; empty if none does."""
        while path and path not in self._rows:
            path = path.rpartition(".")[0]
        return path

    @property
    def here(self) -> str:
        """The path of the field that has the keys; empty if none has."""
        return next((path for path, row in self._rows.items() if row.editor.has_focus), "")

    def problem_of(self, path: str) -> str:
        """What is wrong with that field; empty if nothing is."""
        row = self._rows.get(path)
        return row.problem if row is not None else ""

    def go(self, path: str) -> None:
        """Gives the keys to that field."""
        row = self._rows.get(self.field_of(path))
        if row is not None:
            row.editor.focus()

    def action_step(self, step: int) -> None:
        """The field above or below."""
        paths = list(self._rows)
        at = next((index for index, path in enumerate(paths) if self._rows[path].editor.has_focus), None)
        if at is not None:
            self._rows[paths[(at + step) % len(paths)]].editor.focus()

    def action_reset(self) -> None:
        """The default again, in the field with the keys."""
        for row in self._rows.values():
            if row.editor.has_focus:
                row.type(spell(row.field, row.field.default))

    @on(Edited)
    def take_edit(self, event: Edited) -> None:
        """Says which field was typed into, once its mark is right."""
        event.stop()
        row = event.editor.parent
        if isinstance(row, FieldRow) and event.text != row.known:
            row.known = event.text
            row.changed = event.text != spell(row.field, row.field.default)
            self.post_message(self.Changed(row.field.path, event.text))

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        """Enter goes to the next field, as a form does."""
        event.stop()
        self.action_step(1)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Help follows the keys."""
        self._tell_focused()
        if isinstance(event.widget.parent, FieldRow):
            event.widget.parent.refresh()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """A field without the keys is drawn plainer."""
        if isinstance(event.widget.parent, FieldRow):
            event.widget.parent.refresh()

    def _tell_focused(self) -> None:
        for row in self._rows.values():
            if row.editor.has_focus:
                self.post_message(self.Entered(row.field, row.problem))

    def on_resize(self, event: events.Resize) -> None:
        """A narrow form has narrower columns."""
        self.set_class(event.size.width < 80, "-narrow")
        self.set_class(event.size.width > 130, "-wide")
        self.call_after_refresh(self._redraw_rows)

    def _redraw_rows(self) -> None:
        """A row is drawn around its editor, which has its new width only after the layout."""
        for row in self._rows.values():
            row.refresh()
