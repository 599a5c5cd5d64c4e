"""Draws the pictures of the guide: `python -m tests.pictures`, or with `all` every view in every size and both themes.

They show one moment of the practice cluster, so that a picture changes only with what it shows. What `all` draws
goes into docs/pictures/all, which git ignores; names of views after it draw only those.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import DOCS
from tests.pictures.frozen import THEMES, Still, still_console, stopped_clock, without_ports
from tests.pictures.moving import FIRST_JOB, draw_first_job
from tests.pictures.views import VIEWS, View

FOLDER = DOCS / "pictures"
SIZES = (120, 35), (80, 24), (200, 55)
USUAL = SIZES[0], "dark"
SHOWN_IN_ALL_WAYS = {"fleet", "jobs", "job-training"}
"""Views of which the guide has more than one picture: the small and the large screen, and the light theme."""
SHOWN_WAYS = USUAL, ((120, 35), "light"), ((80, 24), "dark"), ((200, 55), "dark")
EVERY_WAY = tuple((size, theme) for theme in THEMES for size in SIZES)


def file_name(view: View, size: tuple[int, int], theme: str) -> str:
    ending = "" if (size, theme) == USUAL else f"-{size[0]}x{size[1]}-{theme}"
    return f"{view.name}{ending}.svg"


async def draw(still: Still, view: View, ways: tuple[tuple[tuple[int, int], str], ...], folder: Path) -> None:
    await view.open(still)
    for size, theme in ways:
        if still.app.theme != THEMES[theme]:
            still.app.theme = THEMES[theme]
            if view.then and not view.once:  # what is open over a page keeps the colours that it was opened with
                await view.open(still)
        await still.resize(*size)
        await still.settled()
        picture = still.app.export_screenshot(title=f"a4: {view.name}", simplify=True)
        (folder / file_name(view, size, theme)).write_text(without_ports(picture) + "\n")
    still.app.theme = THEMES["dark"]
    await still.resize(*SIZES[0])


async def draw_all(folder: Path, names: list[str], *, every: bool) -> None:
    with tempfile.TemporaryDirectory() as home, stopped_clock(Path(home)):
        wanted = [view for view in VIEWS if (view.name in names if names else every or not view.of_here)]
        async with still_console(size=SIZES[0]) as still:
            for view in wanted:
                usual = SHOWN_WAYS if view.name in SHOWN_IN_ALL_WAYS else (USUAL,)
                await draw(still, view, EVERY_WAY if every else usual, folder)
                sys.stdout.write(f"{view.name}\n")
        if not every and (not names or FIRST_JOB in names):
            await draw_first_job(folder)


def main(words: list[str]) -> int:
    every = words[:1] == ["all"]
    names = words[1:] if every else words
    if unknown := set(names) - {FIRST_JOB, *(view.name for view in VIEWS)}:
        sys.stderr.write(f"No such view: {', '.join(sorted(unknown))}. There are: {', '.join(v.name for v in VIEWS)}\n")
        return 2
    folder = FOLDER / "all" if every else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw_all(folder, names, every=every))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
