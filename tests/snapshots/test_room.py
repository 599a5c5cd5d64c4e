"""A larger terminal shows what a smaller one does: every list and page, and each size in the one after it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.pictures.frozen import still_console, stopped_clock
from tests.pictures.views import VIEWS

SIZES = (60, 20), (80, 24), (120, 35), (140, 40), (160, 45), (200, 50), (250, 70)
LISTS = {"fleet", "queues", "jobs", "pods", "runs-none", "tunnels", "alarms", "pool", "images", "storage", "nodepools"}
LEFT_OUT = {"job-gpus", "launched", "runs", "run"}
"""Views with figures that are other ones each time they are read, and of what the one before has launched."""
GIVES_WAY = {
    ("launch", "multiple"),  # the rule beside a value, to the preview; where the cursor is, the help has it
    ("tunnels", "CLUSTER"),  # a title over no rows
    *(("job-nccl-done", each) for each in ("out", "out-of-place", "in-place")),  # a curve beside its table names less
}
LONG = 5  # letters from which on a word is found again though a line broke it
NODE = re.compile(r"gke-practice-\S*?(a4-pool|a4-spot|system)-[0-9a-f]{8}-(\w{4})")
CHART = re.compile(r"\S*\s?[┤┴]\S*|[⠀-⣿]+")


def facts(text: str, width: int) -> set[str]:
    """The words and figures between title and keys, but of axes, and but those that are cut."""
    found, axis = set[str](), False
    for whole in text.split("\n")[1:-1]:
        line = CHART.sub(" ", NODE.sub(r"\1/\2", whole))
        for word in re.finditer(r"[^\s│╭╮╰╯─█░▒▕▏]+", line):
            fact = word[0].strip(".,:;()“”[]")
            cut = "…" in word[0] or word.end() >= width - 1
            if re.search(r"\w", fact) and not cut and not (axis and re.fullmatch(r"[\d.,]+\w?", fact)):
                found.add(fact)
        axis = "┴" in whole
    return found - {"shows", "more", "z"}  # what a pane says that has no room


def lost(small: str, width: int, large: str) -> list[str]:
    there, run = facts(large, 1 << 16), re.sub(r"[\s│]", "", large + NODE.sub(r"\1/\2", large))
    return sorted(each for each in facts(small, width) - there if len(each) <= LONG or each not in run)


@pytest.mark.slow(reason="opens each page and waits until it has come to rest in each of seven sizes")
@pytest.mark.parametrize("group", ["lists", "jobs", "others"])
async def test_a_larger_terminal_shows_what_a_smaller_one_does(group: str, tmp_path: Path) -> None:
    views = [view for view in VIEWS if not view.of_here and view.name not in LEFT_OUT]
    kinds = {each.name: "jobs" if each.page[0] == "job" else "others" for each in views} | dict.fromkeys(LISTS, "lists")
    found: list[str] = []
    with stopped_clock(tmp_path):
        async with still_console(size=SIZES[2]) as still:
            for view in views:
                if kinds[view.name] != group:
                    continue
                await view.open(still)
                shown = []
                for size in SIZES:
                    await still.resize(*size)
                    await still.settled()
                    shown.append(still.text())
                for (small, before), (large, after) in pairwise(zip(SIZES, shown, strict=True)):
                    gone = [each for each in lost(before, small[0], after) if (view.name, each) not in GIVES_WAY]
                    found += [f"{view.name} at {large} without {', '.join(gone)} of {small}"] if gone else []
    assert not found, "\n".join(found)
