"""Colours of jobs are told apart, and from those of states, in true colour and in 256 colours."""

from __future__ import annotations

from itertools import combinations
from math import dist
from typing import TYPE_CHECKING

import pytest
from rich.color import Color, ColorSystem

from screens.widgets.line import DARK, LIGHT
from screens.wording import JOB_INKS

if TYPE_CHECKING:
    from textual.theme import Theme

APART = 24.0
"""Distance in CIE L*a*b* (1976) of colours that nobody takes for each other; 2.3 is just to be seen."""
FROM_STATES = 38.0


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


@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_jobs_look_like_each_other_and_like_states_nowhere(theme: Theme, system: ColorSystem) -> None:
    variables = theme.variables
    jobs = [seen(variables[f"ink-job-{number}"], system) for number in range(JOB_INKS)]
    assert min(dist(one, other) for one, other in combinations(jobs, 2)) > APART
    states = [seen(variables[f"ink-{name}"], system) for name in ("bad", "waits")]
    assert min(dist(job, state) for job in jobs for state in states) > FROM_STATES
