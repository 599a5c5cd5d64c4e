"""Inks: the named colours of text, so that data never carries markup and a theme decides what a name looks like.

A theme gives every ink a colour as a variable of its own name. Glyphs say the same as colours, so a terminal without
colours loses nothing.
"""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget

from screens.wording import JOB_INKS

BOLD = frozenset({"strong", "head", "sorted", "bad", "key", "tab", "here"})

_DARK = {
    "ink-text": "#d5dbe6",
    "ink-head": "#8fa3bf",
    "ink-sorted": "#7cc7ff",
    "ink-ok": "#5fd38d",
    "ink-waits": "#f2c14e",
    "ink-bad": "#ff6b6b",
    "ink-accent": "#7cc7ff",
    "ink-strong": "#ffffff",
    "ink-dim": "#8792a5",
    "ink-faint": "#465062",
    "ink-found": "#ffd75f",
    "ink-key": "#7cc7ff",
    "ink-tab": "#a9b4c6",
    "ink-here": "#0e1420",
    "ground-cursor": "#24395a",
    "ground-cursor-blurred": "#1c2433",
    "ground-marked": "#3a3217",
    "ground-head": "#161c28",
    "ground-bar": "#161c28",
    "ground-here": "#7cc7ff",
    "ground-practice": "#5a3d7a",
}
_LIGHT = {
    "ink-text": "#1d2532",
    "ink-head": "#4c5b70",
    "ink-sorted": "#0b5cad",
    "ink-ok": "#0f7a3d",
    "ink-waits": "#8a5a00",
    "ink-bad": "#b3261e",
    "ink-accent": "#0b5cad",
    "ink-strong": "#000000",
    "ink-dim": "#5b6778",
    "ink-faint": "#aab4c2",
    "ink-found": "#7a5200",
    "ink-key": "#0b5cad",
    "ink-tab": "#3d4a5c",
    "ink-here": "#ffffff",
    "ground-cursor": "#c9def7",
    "ground-cursor-blurred": "#e3e8ef",
    "ground-marked": "#f7e8b8",
    "ground-head": "#e9edf2",
    "ground-bar": "#e9edf2",
    "ground-here": "#0b5cad",
    "ground-practice": "#e2d1f5",
}
# Twelve job colours per ground, far from each other, for colour-blind eyes too, and from the red and amber of states.
# All are of the palette of 256 colours, so that they are the same there.
_DARK_JOBS = ("#5fafd7", "#ff5fd7", "#87ff87", "#5f5fff", "#d7ff5f", "#af5f87", "#5fffff", "#5f875f",
              "#afafff", "#af5fd7", "#ffd7ff", "#5f5faf")  # fmt: skip
_LIGHT_JOBS = ("#0087af", "#d700ff", "#00875f", "#000087", "#5f8700", "#d75faf", "#5f5fff", "#5f005f",
               "#0000ff", "#af00af", "#5f5faf", "#ff0087")  # fmt: skip


def _variables(colours: dict[str, str], jobs: tuple[str, ...]) -> dict[str, str]:
    numbered = {f"ink-job-{index}": jobs[index % len(jobs)] for index in range(JOB_INKS)}
    scrollbar = {
        "scrollbar": colours["ink-faint"],
        "scrollbar-hover": colours["ink-dim"],
        "scrollbar-active": colours["ink-accent"],
        "scrollbar-background": colours["ground-head"],
        "scrollbar-background-hover": colours["ground-head"],
        "scrollbar-background-active": colours["ground-head"],
        "scrollbar-corner-color": colours["ground-head"],
    }
    return {**colours, **numbered, **scrollbar}


DARK = Theme(
    name="a4-dark", dark=True, primary="#7cc7ff", secondary="#b39ddb", accent="#7cc7ff", warning="#f2c14e",
    error="#ff6b6b", success="#5fd38d", foreground="#d5dbe6", background="#0e131b", surface="#131924", panel="#1b2331",
    variables=_variables(_DARK, _DARK_JOBS),
)  # fmt: skip
LIGHT = Theme(
    name="a4-light", dark=False, primary="#0b5cad", secondary="#6a4fb0", accent="#0b5cad", warning="#8a5a00",
    error="#b3261e", success="#0f7a3d", foreground="#1d2532", background="#fbfcfd", surface="#f3f5f8", panel="#e4e9ef",
    variables=_variables(_LIGHT, _LIGHT_JOBS),
)  # fmt: skip


class Inked(Widget):
    """A widget that draws its lines itself, in inks of the present theme."""

    def ink(self, name: str) -> Style:
        """An ink's colour and weight, without a background; an unknown name is plain text."""
        return self._style(name, "ink-")

    def ground(self, name: str) -> Style:
        """A background: "cursor", "cursor-blurred", "marked", "head", "bar", "here", "practice"."""
        return self._style(name, "ground-")

    def notify_style_update(self) -> None:
        """Textual's call after a change of theme or class: colours are looked up again."""
        super().notify_style_update()
        self.__dict__.pop("_mixed", None)

    def _style(self, name: str, kind: str) -> Style:
        mixed: dict[str, Style] = self.__dict__.setdefault("_mixed", {})
        key = kind + name
        style = mixed.get(key)
        if style is None:
            style = mixed[key] = self._mix(name, kind)
        return style

    def _mix(self, name: str, kind: str) -> Style:
        colours = {**DARK.variables, **self.app.theme_variables}
        colour = colours.get(kind + name)
        if kind == "ground-":
            return Style(bgcolor=colour)
        return Style(color=colour or colours["ink-text"], bold=name in BOLD or None)
