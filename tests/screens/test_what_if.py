"""What if: typed changes, and the text of the command."""

import pytest
from textual.widgets import Input

from console.errors import BadInput
from console.scheduling.what_if import Changes, what_if
from screens.cli.forecast_and_what_if import result_lines
from screens.pages.what_if import WhatIfScreen, read_changes
from tests.fakes import FakeSession
from tests.screens.press import console, press, screen_text, until, until_shown


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_follows_is_shown_as_the_command_prints_it(session: FakeSession) -> None:
    session.answers["unsaved"] = "the work since step 40 was saved 9 min ago: 2.4 GPU-hours"
    async with console(session, size=(140, 45)) as (app, pilot, _):
        await press(pilot, "2", then=lambda: "dpo-b" in screen_text(app))
        await press(pilot, "W", then=lambda: isinstance(app.screen, WhatIfScreen))
        assert app.screen.query_one(Input).value == "stop dpo-b", "the job under the cursor"
        lines = result_lines(what_if(session.fleet, "default", Changes(stop=("dpo-b",))), session.fleet)
        await until(pilot, lambda: all(line in screen_text(app) for line in lines))
        await until_shown(pilot, "Lost of dpo-b: the work since step 40 was saved 9 min ago: 2.4 GPU-hours.")
        app.screen.query_one(Input).value = "stop llama submit a4:24"
        await press(pilot, "enter", then=lambda: "new-1" in screen_text(app))
        await until(pilot, lambda: "dpo-b default a4 32 starts" in " ".join(screen_text(app).split()))
        app.screen.query_one(Input).value = "submit a4:24:high priority dpo-b:top"
        await press(pilot, "enter", then=lambda: "no WorkloadPriorityClass top. There are: high." in screen_text(app))
        app.screen.query_one(Input).value = "stop nobody"
        await press(pilot, "enter", then=lambda: "nobody" in screen_text(app) and "new-1" not in screen_text(app))
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, WhatIfScreen))
        await press(pilot, "3", "W", then=lambda: isinstance(app.screen, WhatIfScreen))
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, WhatIfScreen))
        app.open_page("job", "default", "llama", "pods")
        await press(pilot, "W", then=lambda: isinstance(app.screen, WhatIfScreen))
        assert app.screen.query_one(Input).value == "stop llama", "the job of the page"


def test_changes_are_typed_as_the_options_of_the_command() -> None:
    assert read_changes("stop a --submit a4:8 drain n1 lose h1 quota a4:a4:64 priority b:5") == Changes(
        stop=("a",), submit=("a4:8",), drain=("n1", "h1"), quota=("a4:a4:64",), priority=("b:5",)
    )
    for wrong, words in (("halt a", "halt is no change"), ("stop", "stop has to be stop JOB"), (" ", "Nothing to try")):
        with pytest.raises(BadInput, match=words):
            read_changes(wrong)
