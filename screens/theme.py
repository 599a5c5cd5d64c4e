"""The named text styles, and the colours that the dark and the light theme give them.

Data never carries markup: a theme gives every style a colour as a variable of its own name. Glyphs say the same as
colours, so a terminal without colours loses nothing.
"""

from __future__ import annotations

from dataclasses import replace

from textual.theme import Theme

from screens.wording import JOB_COLOURS

BOLD_STYLES = frozenset({"strong", "head", "sorted", "bad", "key", "tab", "here"})

_COLOURS = {  # on dark and on light ground; distinct in 256 colours too, as tests/screens/test_styles.py measures
    "ink-text": ("#d5dbe6", "#24292f"),
    "ink-head": ("#8fa3bf", "#4c5b70"),
    "ink-sorted": ("#7cc7ff", "#0b5cad"),
    "ink-ok": ("#5fd38d", "#1d6b3a"),
    "ink-waits": ("#edc158", "#8a5a00"),
    "ink-bad": ("#ff6b6b", "#b3261e"),
    "ink-accent": ("#7cc7ff", "#0b5cad"),
    "ink-strong": ("#ffffff", "#000000"),
    "ink-dim": ("#97a2b5", "#505c6e"),
    "ink-faint": ("#707b93", "#727c89"),
    "ink-found": ("#d7d787", "#6b5a10"),
    "ink-key": ("#7cc7ff", "#0b5cad"),
    "ink-tab": ("#a9b4c6", "#3d4a5c"),
    "ink-here": ("#0e1420", "#ffffff"),
    "ground-cursor": ("#1f2e5c", "#cdedfb"),
    "ground-cursor-blurred": ("#20242b", "#e3edf2"),
    "ground-marked": ("#332f26", "#f7ecc4"),
    "ground-head": ("#161c28", "#e9edf2"),
    "ground-bar": ("#161c28", "#e9edf2"),
    "ground-here": ("#7cc7ff", "#0b5cad"),
}
# Eight job colours per ground, as far from each other and from the red and amber of states as quiet ones can be: whose
# a GPU is never shouts louder than what is wrong. All are of the palette of 256, so that they are the same there.
_DARK_JOBS = ("#0087af", "#afaf87", "#875f87", "#87afaf", "#5f875f", "#afafd7", "#008787", "#af8787")
_LIGHT_JOBS = ("#5f87af", "#af5f87", "#005f5f", "#5f875f", "#5f5f87", "#af8787", "#005f87", "#5f8787")


_SCROLLBAR_STYLES = {
    "": "ink-faint",
    "-hover": "ink-dim",
    "-active": "ink-accent",
    "-background": "ground-head",
    "-background-hover": "ground-head",
    "-background-active": "ground-head",
    "-corner-color": "ground-head",
}


def _theme(name: str, jobs: tuple[str, ...], *, secondary: str, background: str, surface: str, panel: str) -> Theme:
    dark = name == "a4-dark"
    colours = {style: each[0 if dark else 1] for style, each in _COLOURS.items()}
    numbered = {f"ink-job-{index}": jobs[index % len(jobs)] for index in range(JOB_COLOURS)}
    bars = {f"scrollbar{part}": colours[style] for part, style in _SCROLLBAR_STYLES.items()}
    return Theme(
        name=name,
        dark=dark,
        primary=colours["ink-accent"],
        secondary=secondary,
        accent=colours["ink-accent"],
        warning=colours["ink-waits"],
        error=colours["ink-bad"],
        success=colours["ink-ok"],
        foreground=colours["ink-text"],
        background=background,
        surface=surface,
        panel=panel,
        variables={**colours, **numbered, **bars},
    )


DARK = _theme("a4-dark", _DARK_JOBS, secondary="#b39ddb", background="#0e131b", surface="#131924", panel="#1e2228")
LIGHT = _theme("a4-light", _LIGHT_JOBS, secondary="#6a4fb0", background="#fbfcfd", surface="#f3f5f8", panel="#e4edf2")

_IN_256 = {"#1f2e5c": "#262626", "#20242b": "#121212", "#332f26": "#1c1c1c", "#e3edf2": "#eeeeee", "#e9edf2": "#f3f3f3"}


def in_256_colours(theme: Theme) -> Theme:
    """The theme for a 256-colour terminal, where dark blue would outshine faults and pale colours look alike."""
    return replace(theme, variables={name: _IN_256.get(each, each) for name, each in theme.variables.items()})
