"""Every view has its picture in the guide, which shows all of them."""

import re
from itertools import pairwise

from tests.docs.pages import DOCS
from tests.pictures.__main__ import FOLDER, SHOWN_IN_ALL_WAYS, SHOWN_WAYS, USUAL, file_name
from tests.pictures.moving import FIRST_JOB
from tests.pictures.views import VIEWS


def test_every_view_is_drawn_and_shown() -> None:
    wanted = {
        file_name(view, *way)
        for view in VIEWS
        if not view.of_here
        for way in (SHOWN_WAYS if view.name in SHOWN_IN_ALL_WAYS else (USUAL,))
    }
    wanted.add(f"{FIRST_JOB}.svg")
    assert {path.name for path in FOLDER.glob("*.svg")} == wanted, "run `make pictures`"
    assert set(re.findall(r"\(([\w-]+\.svg)\)", (FOLDER / "README.md").read_text())) == wanted


def test_no_picture_shows_the_machine_it_was_drawn_on() -> None:
    assert [path.name for path in FOLDER.glob("*.svg") if re.search("/tmp/|/home/|/root/", path.read_text())] == []


def test_the_guide_leads_to_the_pictures() -> None:
    assert "pictures/README.md" in (DOCS / "README.md").read_text()


def test_no_step_of_the_moving_picture_looks_like_the_one_before() -> None:
    _, *steps = (FOLDER / f"{FIRST_JOB}.svg").read_text().split('<g class="step"')
    shown = [re.findall(r"<text[^>]*>([^<]*)<", step)[1:] for step in steps]  # without its title
    assert len(steps) > 7
    assert all(before != after for before, after in pairwise(shown))
