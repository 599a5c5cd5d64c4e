"""`a4 view FILE`."""

from pathlib import Path

import pytest
from textual.widgets import Static

from console.logs.log_text import FileText
from screens.pages.log import LogFileApp
from tests.screens.press import press, text_of, until
from tests.screens.test_key_order import type_at_once


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_file_is_searched_filtered_and_grows(tmp_path: Path) -> None:
    place = tmp_path / "train.log"
    lines = [f"iteration {number}/ 9999 | lm loss: 2.1" for number in range(5000)]
    place.write_text("\n".join([*lines[:3000], "RuntimeError: broken", *lines[3000:]]) + "\n")
    text = FileText(place)
    app = LogFileApp(text)
    async with app.run_test(size=(80, 20)) as pilot:
        view = app.view.lines
        await until(pilot, lambda: "iteration 0/" in text_of(view))
        assert not view.follow
        await press(pilot, "E", then=lambda: "RuntimeError: broken" in text_of(view))
        assert view.match_line == 3000
        await press(pilot, "slash", *"4999/", "enter", then=lambda: "iteration 4999/" in text_of(view))
        await press(pilot, "F", *"!iteration", "enter", then=lambda: view.shown == 1)
        await until(pilot, lambda: "RuntimeError: broken" in text_of(view))
        await press(pilot, "escape", "escape", then=lambda: view.shown == 5001)
        with place.open("a") as file:
            file.write("one more\n")
        await press(pilot, "G", then=lambda: "one more" in text_of(view))
        await press(pilot, "W", "home", then=lambda: text_of(view).startswith("iteration 0/"))
        await pilot.press("q")
    text.close()


async def test_letters_right_after_the_slash_are_the_search(tmp_path: Path) -> None:
    place = tmp_path / "train.log"
    place.write_text("".join(f"line {number} of the log\n" for number in range(3000)))
    text = FileText(place)
    app = LogFileApp(text)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "line 0 " in text_of(app.view.lines))
        type_at_once(app, "/", *"line 1999 ", "enter")
        await until(pilot, lambda: app.view.lines.wanted == "line 1999 ")
        await until(pilot, lambda: "line 1999 " in text_of(app.view.lines))
    text.close()


async def test_an_empty_file_is_shown_as_empty_until_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("screens.pages.log.FILE_POLL_SECONDS", 0.02)
    place = tmp_path / "train.log"
    place.touch()
    text = FileText(place)
    app = LogFileApp(text)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: app.query("#head"))
        head = app.query_one("#head", Static)
        await until(pilot, lambda: str(head.content).startswith("The file is empty; what is written to it"))
        place.write_text("line 0\n")
        await until(pilot, lambda: "line 0" in text_of(app.view.lines))
        await until(pilot, lambda: str(head.content) == f"{place}  7 B")
    text.close()
