"""Some of the days that `python -m tests.bench forecast_days` simulates 500 of."""

from statistics import median

import pytest

from console.scheduling.forecast_record import RecordedWindow, correct_windows
from console.scheduling.start_windows import MIN_ROLLOUTS, StartWindow
from tests.bench.forecast_days import Days

KEY = ("default", "job")


def promise(started: float, *, late: bool = False) -> RecordedWindow:
    """Of a window from 80 to 140 minutes that was told 100 minutes before its middle."""
    return RecordedWindow("s", f"wl-{started}", "default", "job", 0.0, 80.0, 100.0, 140.0, started=started, late=late)


@pytest.mark.slow(reason="simulates days of a queue")
def test_windows_of_simulated_days_hold_most_starts() -> None:
    days = Days(known=True, rollouts=MIN_ROLLOUTS)
    days.simulate(3, warm_up=1)
    told = days.arrived
    assert len(told.sides) > 10
    assert days.preempted
    assert 0.6 <= told.share() <= 0.95
    assert median(told.errors) < 0.15


def test_bounds_move_to_where_earlier_windows_would_have_held_four_of_five() -> None:
    window = StartWindow(1080.0, 1100.0, 1140.0)
    spread = [promise(60.0 + 4 * number) for number in range(25)]  # 60 to 156
    few, enough = (correct_windows({KEY: window}, spread[:count], "s", 1000.0)[KEY] for count in (19, 25))
    assert few == window
    assert 1060 <= enough.start <= 1072
    assert enough.middle == 1100.0
    assert 1144 <= enough.end <= 1156
    assert correct_windows({KEY: window}, spread, "another", 1000.0)[KEY] == window


def test_a_window_twice_as_wide_is_corrected_by_twice_as_much() -> None:
    late = [promise(180.0)] * 30  # a whole half behind the end
    found = correct_windows({KEY: StartWindow(1060.0, 1100.0, 1180.0)}, late, "s", 1000.0)[KEY]
    assert found == StartWindow(1260.0, 1260.0, 1260.0)


def test_nothing_starts_before_now_and_those_that_still_wait_are_behind_the_end() -> None:
    early = [promise(1.0)] * 5 + [promise(100.0)] * 25
    assert correct_windows({KEY: StartWindow(1005.0, 1010.0, 1015.0)}, early, "s", 1000.0)[KEY].start == 1000.0
    waiting = [promise(0.0, late=True)] * 10 + [promise(150.0)] * 20
    assert correct_windows({KEY: StartWindow(1080.0, 1100.0, 1140.0)}, waiting, "s", 1000.0)[KEY].end == 1150.0
