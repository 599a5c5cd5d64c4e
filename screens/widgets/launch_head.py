"""What stands over a form: the recipe, the fit light, and what the values come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from screens.widgets.launch_words import fit_words, note_words, recipe_words
from screens.widgets.sentence_line import SentenceLine, folded_runs
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

    from console.models.fleet import Fleet
    from console.models.forecast import Ask
    from console.models.launch import Recipe

READ_ONLY = Run("Read-only: nothing can be launched from here. ", "waits")


class AboutLine(SentenceLine):
    """What a recipe is, as high as the longest of all these sentences: nothing below moves from one to the next."""

    all: tuple[tuple[Run, ...], ...] = ()
    _highest: tuple[int, int] = (0, 0)
    """Width, and the lines of the longest sentence at it."""

    def tell_all(self, sentences: Sequence[tuple[Run, ...]]) -> None:
        """What it may say."""
        if self.all != sentences:
            self.all, self._highest = tuple(sentences), (0, 0)
            self.refresh(layout=True)

    def lines_at(self, width: int) -> int:
        """As many as the longest needs."""
        if self._highest[0] != width:
            highest = max((len(folded_runs(each, width)) for each in self.all), default=0)
            self._highest = width, highest
        return max(self._highest[1], super().lines_at(width))


class LaunchHead(Vertical):
    """Three sentences."""

    DEFAULT_CSS: ClassVar[str] = """
    LaunchHead { height: auto; background: $surface;
        & > #about { max-height: 4; color: $text-muted; }
        & > #fit { height: 2; }
        & > #notes { height: 2; display: none; }
        &.-brief > #about { max-height: 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._about, self._fit, self._notes = AboutLine(id="about"), SentenceLine(id="fit"), SentenceLine(id="notes")

    def compose(self) -> ComposeResult:
        """One over the other."""
        yield from (self._about, self._fit, self._notes)

    def tell_recipes(self, recipes: Iterable[Recipe]) -> None:
        """All that can be launched."""
        self._about.tell_all(tuple(tuple(recipe_words(recipe)) for recipe in recipes))

    def tell_recipe(self, recipe: Recipe, *, brief: bool, read_only: bool) -> None:
        """What it does, needs and gives; brief, while somebody types."""
        self.set_class(brief, "-brief")
        first = (READ_ONLY,) if read_only else ()
        self._about.runs = (*first, *recipe_words(recipe, brief=brief))

    def tell_fit(self, fleet: Fleet, ask: Ask | None) -> None:
        """Whether it fits; nothing is asked while the values say nothing that can be."""
        words = [Run("○ Whether it fits is known once what is wrong is corrected.", "dim")]
        self._fit.runs = tuple(fit_words(fleet, ask) if ask is not None else words)

    def tell_notes(self, notes: Sequence[str], *, sound: bool) -> None:
        """What the values come to; where there was something to say, its place stays while they are not sound.

        It also stays from one recipe of the list to the next: the form below would jump.
        """
        self._notes.runs = tuple(note_words(notes))
        stays = not sound or not self.has_class("-brief")
        self._notes.display = bool(notes) or (bool(self._notes.display) and stays)
