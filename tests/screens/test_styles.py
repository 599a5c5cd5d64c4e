"""Text is read on what it stands on, and colours are told apart, in true colour and in 256 colours."""

import re
from itertools import combinations
from math import dist, hypot
from pathlib import Path

import pytest
import textual
from rich.color import Color, ColorSystem
from textual.theme import Theme

from screens.theme import DARK, LIGHT, in_256_colours
from screens.wording import JOB_COLOURS

APART = 18.0
"""Distance in CIE L*a*b* (1976) of colours that nobody takes for each other; 2.3 is just to be seen."""
FROM_STATES = 30.0
LEAST_SEEN = 4.0
QUIET = 0.6
"""The most chroma of a job's colour, of that of a fault."""


TEXT = ("text", "head", "sorted", "ok", "waits", "bad", "accent", "strong", "dim", "found", "key")
PLAIN = ("text", "strong")
"""Styles of text that is not muted and says no state: AAA of WCAG; of all others AA."""
GROUNDS = ("cursor", "cursor-blurred", "marked", "head", "bar")


def contrast(one: str, other: str, system: ColorSystem) -> float:
    """The contrast of two colours by WCAG 2, as a terminal of that system shows them: 1 to 21."""

    def luminance(colour: str) -> float:
        parts = (each / 255 for each in Color.parse(colour).downgrade(system).get_truecolor())
        red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


THEMES = pytest.mark.parametrize(
    ("theme", "system"),
    [
        *(pytest.param(theme, ColorSystem.TRUECOLOR, id=theme.name) for theme in (DARK, LIGHT)),
        *(pytest.param(in_256_colours(each), ColorSystem.EIGHT_BIT, id=f"{each.name}-256") for each in (DARK, LIGHT)),
    ],
)


@THEMES
def test_text_is_read_on_every_ground_and_what_is_drawn_is_seen(theme: Theme, system: ColorSystem) -> None:
    colours = theme.variables
    plain = [str(each) for each in (theme.background, theme.surface, theme.panel)]
    every = [*plain, *(colours[f"ground-{name}"] for name in GROUNDS)]
    pairs = [(f"ink-{style}", ground, 7.0 if style in PLAIN else 4.5) for style in TEXT for ground in every]
    pairs += [("ink-tab", colours["ground-bar"], 4.5), ("ink-here", colours["ground-here"], 4.5)]
    pairs += [("ink-faint", ground, 3.0) for ground in every]
    pairs += [(f"ink-job-{number}", plain[0], 3.0) for number in range(JOB_COLOURS)]
    weak = {
        f"{style} on {ground}": round(found, 2) for style, ground, least in pairs
        if (found := contrast(colours[style], ground, system)) < least
    }  # fmt: skip
    assert not weak
    named = {name for name in colours if name.startswith(("ink-", "ground-")) and "-job-" not in name}
    known = {*TEXT, "tab", "here", "faint"}
    assert named == {f"ink-{name}" for name in known} | {f"ground-{name}" for name in (*GROUNDS, "here")}


def seen(colour: str, system: ColorSystem) -> tuple[float, float, float]:
    """The colour as a terminal of that system shows it, in L*a*b*."""
    red, green, blue = (
        ((each / 255 + 0.055) / 1.055) ** 2.4 if each > 10 else each / 255 / 12.92
        for each in Color.parse(colour).downgrade(system).get_truecolor()
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0891
    fx, fy, fz = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def chroma(colour: str, system: ColorSystem) -> float:
    return hypot(*seen(colour, system)[1:])


@THEMES
def test_jobs_look_like_each_other_and_like_states_nowhere(theme: Theme, system: ColorSystem) -> None:
    variables = theme.variables
    jobs = [seen(variables[f"ink-job-{number}"], system) for number in range(JOB_COLOURS)]
    assert min(dist(one, other) for one, other in combinations(jobs, 2)) > APART
    assert len({seen(variables[f"ground-{name}"], system) for name in GROUNDS[:3]}) == 3
    states = [seen(variables[f"ink-{name}"], system) for name in ("bad", "waits")]
    assert min(dist(job, state) for job in jobs for state in states) > FROM_STATES

    inks = {name: chroma(colour, system) for name, colour in variables.items() if name.startswith("ink-")}
    bad, waits = inks.pop("ink-bad"), inks.pop("ink-waits")
    assert max(hypot(*job[1:]) for job in jobs) <= QUIET * bad
    assert {name: each for name, each in inks.items() if each >= min(bad, waits) + LEAST_SEEN} == {}
    assert bad >= max(waits, *inks.values())


def test_every_widget_that_styles_name_is_there() -> None:
    """A rule for a class that has another name by now applies to nothing, and nothing says so."""
    rule = re.compile(r"(?m)^ *(?:[^\s\"]+[ >]+)*?([A-Z]\w+)[^\s{]* \{(?: [a-z-]+: |$)")
    library = Path(textual.__file__).parent.rglob("*.py")
    sources = [each for each in (Path(__file__).parents[2] / "screens").rglob("*.*") if each.suffix in {".py", ".tcss"}]
    classes = {name for each in (*library, *sources) for name in re.findall(r"(?m)^ *class (\w+)", each.read_text())}
    named = {(each.name, name) for each in sources for name in rule.findall(each.read_text())}
    assert len(named) > 40
    assert {each for each in named if each[1] not in classes} == set()
