"""Each page in its states is as texts/ has it; after a change that is meant: `python -m tests.snapshots --renew`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pictures.frozen import stopped_clock
from tests.pictures.views import VIEWS
from tests.snapshots.pages import STATES, TEXTS, Kept, differences


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
