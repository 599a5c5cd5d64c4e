"""What a change of a release does, object by object, as coloured lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.launch.releases import Fate
from screens import wording
from screens.widgets.yaml import YamlText, yaml_runs
from screens.wording import Run

if TYPE_CHECKING:
    from console.launch.releases import ReleaseChange

_INKS = {"+": "ok", "-": "bad", "@": "faint", "=": "head"}


def change_lines(change: ReleaseChange) -> list[str]:
    """A head for each object that does not stay as it is, and its lines."""
    lines: list[str] = []
    for each in change.objects:
        if each.fate in {Fate.SAME, Fate.KEPT}:
            continue
        lines.append(f"== {each.kind} {each.name} {each.fate}{', but must not' if each.refused else ''}")
        lines += [line if line[:1] in "+-@" else f" {line[1:]}" for line in each.lines]
    return lines


def change_words(change: ReleaseChange) -> list[Run]:
    """The same in a sentence."""
    if change.idle:
        return [Run("Nothing would change.", "dim")]
    if change.refused:
        why = " ".join(f"{each.kind} {each.name}: {wording.sentence(each.refused)}" for each in change.refused)
        again = "Launching it again (n on the job) takes any values."
        return [Run("✗ ", "bad"), Run(f"The cluster does not let it happen. {why} {again}", "bad")]
    told = {fate: [each for each in change.objects if each.fate is fate] for fate in Fate}
    counts = [wording.count(len(told[fate]), "object") + f" {words}" for fate, words in
              ((Fate.CHANGED, "changed"), (Fate.ADDED, "new"), (Fate.REMOVED, "gone")) if told[fate]]  # fmt: skip
    return [Run("✓ ", "ok"), Run(f"The API server accepts it: {', '.join(counts)}.")]


class ChangeText(YamlText):
    """The lines; the mark says it, the colour says it again."""

    def paint(self, text: str, whole: str) -> list[Run]:
        """Lines that came and went, and heads; all else is YAML."""
        ink = _INKS.get(whole[:1], "")
        return [Run(text, ink)] if ink else yaml_runs(text)

    def show_change(self, change: ReleaseChange) -> None:
        self.show("\n".join(change_lines(change)))
