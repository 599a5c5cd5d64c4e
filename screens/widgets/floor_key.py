"""Words of the floor: who holds what, and the largest free stretch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.reactive import reactive
from textual.strip import Strip

from console.models.places import sum_words
from screens.widgets.column import cell_width
from screens.widgets.ink import Inked
from screens.widgets.line import fit_runs
from screens.wording import Run, count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.places import Floor, Holder


def legend(
    holders: Sequence[tuple[Holder, int]],
    width: int,
    ink_of: Callable[[str], str],
    glyph_of: Callable[[str], str],
    whose: Callable[[str], str],
) -> list[Run]:
    """One line naming the holders and whose they are, most GPUs first; those that do not fit are counted."""
    runs: list[Run] = []
    left = width
    for number, (holder, gpus) in enumerate(holders):
        owner = f"{whose(holder.owner)}, " if holder.owner else ""
        entry = [Run(f"{glyph_of(holder.uid)} ", ink_of(holder.uid)), Run(holder.name, "text"),
                 Run(f" ({owner}{gpus})   ", "dim")]  # fmt: skip
        need = cell_width(entry)
        rest = len(holders) - number
        if need > left - (12 if rest > 1 else 0):
            return [*runs, Run(f"+ {rest} more", "dim")]
        runs += entry
        left -= need
    return runs


def stretch_words(floor: Floor) -> list[Run]:
    """The largest free stretches as a sentence."""
    if not floor.total:
        return []
    largest = floor.largest
    if not largest.in_all:
        loose = f"; {count(floor.free, 'GPU')} free on shared hosts" if floor.free else ""
        return [Run(f"{sum_words(floor)}. No host is wholly free{loose}.", "dim")]
    runs = [
        Run("Largest free: ", "dim"),
        Run(f"{largest.in_subblock} GPUs", "strong"),
        Run(" in one subblock", "dim"),
    ]
    if largest.subblock:
        runs.append(Run(f" ({largest.subblock})", "dim"))
    if largest.in_block > largest.in_subblock:
        runs += [Run(", ", "dim"), Run(f"{largest.in_block}", "strong"), Run(" in one block", "dim")]
    if largest.in_all > largest.in_block:
        runs += [Run(", ", "dim"), Run(f"{largest.in_all}", "strong"), Run(" in all", "dim")]
    return [*runs, Run(f". {sum_words(floor)}.", "dim")]


class FloorKey(Inked):
    """Two lines."""

    DEFAULT_CSS = """
    FloorKey { height: 2; }
    """
    lines: reactive[tuple[tuple[Run, ...], ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        """One of them."""
        back = self.rich_style.background_style
        runs = self.lines[y] if y < len(self.lines) else ()
        return Strip(fit_runs([Run("  "), *runs], self.size.width, lambda ink: back + self.ink(ink)))
