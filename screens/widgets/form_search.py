"""The line in which a form is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from screens import wording

if TYPE_CHECKING:
    from textual.app import ComposeResult


class Searched(Protocol):
    """What the line asks of its form."""

    def search(self, wanted: str) -> None:
        """Leave only what has these words in sight."""

    def leave_search(self, *, drop: bool) -> None:
        """The keys go back to the fields."""


class SearchInput(Input):
    """The words; Enter goes to what was found, Esc to where one was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "All fields", id="form-search.drop"),
        Binding("enter,down,tab", "leave(False)", "To the fields", key_display="⏎", id="form-search.keep"),
    ]

    def __init__(self, form: Searched) -> None:
        super().__init__(placeholder="words in a field's title, path or help", compact=True)
        self._form = form

    def action_leave(self, drop: bool) -> None:
        """Back to the fields; the last letters' own message may still be on its way."""
        self._form.search("" if drop else self.value)
        self._form.leave_search(drop=drop)


class FormSearch(Horizontal):
    """A slash, the words, and how many fields they leave."""

    DEFAULT_CSS: ClassVar[str] = """
    FormSearch {
        height: 1; display: none; background: $surface;
        & > .slash { width: 3; color: $accent; padding: 0 1; }
        & > .found { width: auto; color: $text-muted; padding: 0 1; }
        & > SearchInput { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, form: Searched) -> None:
        super().__init__()
        self._form = form
        self.input = SearchInput(form)
        self._found = Static("", classes="found", markup=False)

    def compose(self) -> ComposeResult:
        """The three parts."""
        yield Static("/", classes="slash")
        yield self.input
        yield self._found

    def open(self) -> None:
        """Takes the keys; the words of the last search are still there."""
        self.display = True
        self.input.focus()

    def close(self) -> None:
        """Forgets the words."""
        self.display = False
        with self.input.prevent(Input.Changed):
            self.input.value = ""

    def rest(self) -> None:
        """Stays in sight only while it holds words."""
        if not self.input.value.strip():
            self.close()

    def tell(self, found: int) -> None:
        """How many fields are left."""
        self._found.update(wording.count(found, "field"))

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Searches as the words are typed."""
        event.stop()
        if self.input.has_focus:
            self._form.search(event.value)
