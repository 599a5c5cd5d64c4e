"""The list of what can be launched."""

from __future__ import annotations

from typing import ClassVar

from console.models.launch import Recipe
from screens.widgets.column import Column
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable


class RecipeTable(ResourceTable[Recipe]):
    """Recipes; the filter also looks at what each does, needs and gives, and at its code."""

    NOUN = "recipe"
    EMPTY = Notice("No recipes.", "The chart lists them.")
    COLUMNS: ClassVar = (Column("RECIPE", lambda recipe: recipe.title, least=12, fill=True),)

    def row_text(self, row: Recipe) -> str:
        """All that is known of it."""
        return " ".join((row.title, row.code, row.id, row.summary, row.needs, row.gives))
