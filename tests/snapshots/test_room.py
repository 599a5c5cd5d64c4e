"""The same page never shows less on a larger terminal: columns, rows, headings and panes over one frozen snapshot."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from textual.widget import Widget

from screens.widgets.side_pane import SidePane
from screens.widgets.table.table import ResourceTable
from screens.widgets.title_and_keys import KeyBar, TabStrip
from tests.pictures.frozen import Still, still_console, stopped_clock
from tests.pictures.views import VIEWS
from tests.snapshots.pages import JOB, MAIN, OF_OBJECTS

SIZES = (80, 24), (120, 35), (160, 45), (200, 50)
LISTS = (*MAIN, "pool", "alarms", "images", "storage", "nodepools")
INSTEAD = {"#reason", "#explanation"}
"""What a pane says instead, where there is one."""


def parts_of(still: Still) -> dict[str, int]:
    """Each column, heading and widget that is seen of the page in front, and of each list how many of its rows."""
    found: dict[str, int] = {}
    for widget in still.app.screen.walk_children(Widget):
        if not widget.region.area or not all(each.display for each in widget.ancestors_with_self if each.is_attached):
            continue
        name = f"#{widget.id}" if widget.id else type(widget).__name__
        if isinstance(widget, ResourceTable):
            found |= {f"{name}: column {column.name}": 1 for column, wide in widget._painter.columns_now() if wide}
            found[f"{name}: rows"] = min(len(widget.shown_keys), widget.size.height - 1)
        elif isinstance(widget, SidePane):  # which pane is where depends on the room
            heads = (run.text.split(",")[0].strip() for runs in widget.lines for run in runs if run.style == "head")
            found |= {f"heading {each}": 1 for head in heads for each in re.split(r"\s{2,}|(?<=/s) ", head) if each}
        elif isinstance(widget, TabStrip):
            found |= {f"tab {tab.name}": 1 for tab in widget.tabs}
        elif not widget.children and not isinstance(widget, KeyBar) and name not in INSTEAD:
            found[name] = 1
    return found


@pytest.mark.slow(reason="opens each page and waits until it has come to rest in each of four sizes")
@pytest.mark.parametrize("names", [LISTS, (*OF_OBJECTS, *JOB)], ids=["lists", "objects"])
async def test_a_page_never_shows_less_on_a_larger_terminal(names: tuple[str, ...], tmp_path: Path) -> None:
    lost: list[str] = []
    with stopped_clock(tmp_path):
        async with still_console(size=SIZES[0]) as still:
            for view in VIEWS:
                if view.name not in names:
                    continue
                await still.resize(*SIZES[-1])  # where all that a view waits for has room
                await view.open(still)
                seen = []
                for size in SIZES:
                    await still.resize(*size)
                    await still.settled()
                    seen.append(parts_of(still))
                assert len(seen[0]) > 2, view.name
                for (small, before), (large, after) in pairwise(zip(SIZES, seen, strict=True)):
                    less = sorted(f"{part} {many}" for part, many in before.items() if after.get(part, 0) < many)
                    lost += [f"{view.name} at {large} has less of {', '.join(less)} than at {small}"] if less else []
    assert not lost, "\n".join(lost)
