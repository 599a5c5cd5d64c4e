"""Each page in its states is as texts/ has it; after a change that is meant: `python -m tests.snapshots --renew`."""

import re
from pathlib import Path

import pytest

from tests.pictures.frozen import stopped_clock
from tests.pictures.views import VIEWS
from tests.snapshots.pages import STATES, TEXTS, Kept, differences

USED = 0.3
"""Share of the cells of a large screen that are not blank."""
SENTENCE = 8
"""Words in a row that nobody says twice by chance."""


@pytest.mark.slow(reason="opens every page of a state and waits until each has come to rest")
@pytest.mark.parametrize("kept", STATES, ids=lambda kept: kept.name)
async def test_pages_are_as_they_are_kept(kept: Kept, tmp_path: Path) -> None:
    with stopped_clock(tmp_path):
        wrong = await differences(kept)
    told = "If that is meant: python -m tests.snapshots --renew, and look at what git says has changed."
    assert not wrong, "\n\n".join([*wrong, told])


def test_nothing_else_is_kept() -> None:
    known = {f"{kept.name}/{name}.txt" for kept in STATES for name in kept.views}
    assert {str(path.relative_to(TEXTS)) for path in TEXTS.glob("*/*")} == known
    assert {name for kept in STATES for name in kept.views} <= {view.name for view in VIEWS}


def drawn_lines(state: str, name: str) -> list[str]:
    return (TEXTS / state / f"{name}.txt").read_text().split("\n\n── colours")[0].split("\n")


@pytest.mark.parametrize("name", next(kept.views for kept in STATES if kept.name == "wide"))
def test_a_large_screen_is_used(name: str) -> None:
    width, height = next(kept.size for kept in STATES if kept.name == "wide")
    filled = sum(not letter.isspace() for line in drawn_lines("wide", name) for letter in line)
    assert filled / (width * height) >= USED


@pytest.mark.parametrize(("state", "name"), [(kept.name, name) for kept in STATES for name in kept.views])
def test_no_page_says_a_sentence_twice(state: str, name: str) -> None:
    """But one of two rows of a table, which begins in the same column, and one of which a row has the beginning."""
    begins: dict[tuple[str, ...], int] = {}
    twice = set()
    for line in drawn_lines(state, name):
        words = list(re.finditer(r"\S+", line))
        for at in range(len(words) - SENTENCE + 1):
            phrase = tuple(word[0].strip(".,;:()") for word in words[at : at + SENTENCE])
            if "│" not in phrase and "…" not in line and sum(word.isalpha() for word in phrase) >= SENTENCE // 2:
                column = begins.setdefault(phrase, words[at].start())
                twice |= {" ".join(phrase)} if column != words[at].start() else set()
    assert not twice
