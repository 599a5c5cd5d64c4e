import time
from email.utils import formatdate
from pathlib import Path

import pytest

import screens
from console.kube.snapshot import Store
from console.kube.stream_completeness import SERVER_CLOCK
from screens.columns.column import age_column as since_column
from screens.sanitize import one_line
from screens.wording import (
    JOB_COLOURS,
    JobColors,
    Span,
    age,
    bar,
    count,
    duration,
    first_names,
    format_freshness,
    moment,
    percent,
    percents,
    pod_glyph,
    sentence,
    short_nodes,
    since,
    size,
    sparkline,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (-5, "0s"), (59.9, "59s"), (125, "2m05s"), (3599, "59m"), (11520, "3h12m"), (86400 * 4 + 7300, "4d2h"),
     (86400 * 97, "97d")],
)  # fmt: skip
def test_ages_are_narrow(seconds: float, said: str) -> None:
    assert age(seconds) == said
    assert len(said) <= 6


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (41.9, "41 s"),
        (119, "119 s"),
        (120, "2 min"),
        (299, "4 min"),
        (3600, "1 h"),
        (11520, "3 h 12 min"),
        (86400 * 4, "4 d"),
    ],
)
def test_durations_read_as_words(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_moments_are_relative_up_to_a_day_and_absolute_after() -> None:
    now = 1_700_000_000.0
    assert moment(0.0, now) == ""
    assert moment(now - 120, now) == "2 min ago"
    assert moment(now + 6 * 3600, now) == "in 6 h"
    assert moment(now - 86400 * 3, now).startswith("2023-11-1")


def test_of_many_names_the_first_stand_for_all() -> None:
    assert first_names([]) == ""
    assert first_names(["a", "b", "c"]) == "a, b, c"
    assert first_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_numbers() -> None:
    assert format_freshness(0.44) == "0.4 s"
    assert format_freshness(14.2) == "14 s"
    assert size(512) == "512 B"
    assert size(512 * 1024**2) == "512 MiB"
    assert size(1.5 * 1024**3) == "1.5 GiB"
    assert count(1, "node") == "1 node"
    assert count(1016, "node") == "1,016 nodes"
    assert percent(41, 100) == "41 %"
    assert percent(1, 0) == ""


@pytest.mark.parametrize(("part", "whole", "filled"), [(0, 8, 0), (1, 1000, 1), (999, 1000, 9), (8, 8, 10), (9, 8, 10)])
def test_bars_show_the_little_and_the_nearly_full(part: int, whole: int, filled: int) -> None:
    runs = bar(part, whole, 10)
    assert runs[0].text == "█" * filled
    assert sum(len(run.text) for run in runs) == 10


def test_nothing_moves_the_cursor() -> None:
    assert one_line("a\nb\tc\x1b[31md") == "a⏎b c·[31md"
    assert one_line("rocket 🚀 [red]") == "rocket 🚀 [red]"
    assert sentence("two\n  lines ") == "two lines"


def test_jobs_differ_in_colour_until_there_are_too_many() -> None:
    styles, last = JobColors(), str(JOB_COLOURS)
    first = {str(number): styles.of(str(number)) for number in range(JOB_COLOURS)}
    assert len({*first.values()}) == JOB_COLOURS
    assert styles.of(last) in first.values()
    assert {uid: styles.of(uid) for uid in first} == first
    styles.keep_only({last})
    assert len({styles.of(each) for each in (last, *"abcdefghijk"[: JOB_COLOURS - 1])}) == JOB_COLOURS


def test_a_share_is_never_more_nor_nothing_where_there_is_something() -> None:
    assert percents([60, 40, 1040, 400, 0]) == ["4 %", "3 %", "67 %", "26 %", "0 %"], "each alone: 101"
    assert percents([997, 3]) == ["99 %", "< 1 %"]
    assert (percents([1, 1, 1]), percents([5]), percents([])) == (["34 %", "33 %", "33 %"], ["100 %"], [])
    said = [percent(part, 1000) for part in (0, 1, 5, 414, 764, 765, 994, 999, 1000, 1200)]
    assert said == ["0 %", "< 1 %", "< 1 %", "41 %", "76 %", "76 %", "99 %", "99 %", "100 %", "120 %"]
    assert percent(1, 0) == ""


def test_nodes_in_a_text_have_their_short_names() -> None:
    said = "rank 1 on gke-prod-a4-highgpu-8g-a4-pool-79c66879-0010, rank 2 on gke-prod-a4-spot-5f1d02ab-x0y1 and n-7"
    assert short_nodes(said) == "rank 1 on a4-pool/0010, rank 2 on a4-spot/x0y1 and n-7"


def test_marks_of_pods() -> None:
    assert pod_glyph("Running", is_ready=True).text == "●"
    assert pod_glyph("Running", is_ready=False).text == "◐"
    assert pod_glyph("CrashLoopBackOff", is_ready=False).text == "✗"
    assert pod_glyph("Completed", is_ready=False).text == "✓"


def test_a_sparkline_is_as_high_as_its_values() -> None:
    assert sparkline([10, 5, 2.5, 1, 0]) == "█▅▃▂▁"
    assert sparkline([3.0]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([0.0, 0.0]) == "▁▁"


def test_the_rounding_of_means_is_no_trend() -> None:
    loss = 0.000702
    assert loss + 1e-18 != loss
    assert sparkline([loss, loss + 1e-18, loss - 1e-18]) == "▁▁▁"
    assert sparkline([-loss, 1e-18 - loss]) == "▁▁"
    assert sparkline([2.0, 2.00001]) == "▁█"


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 3.2e8, -3.2e8])
def test_ages_follow_the_clock_of_the_api_server_whatever_that_of_this_machine_does(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)
    SERVER_CLOCK.set_from_header(formatdate(now, usegmt=True))
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert since(now - 630) == "10m"
    assert since_column("AGE", float).cell(now - 630) == Span("10m", "dim")
    assert Store().fleet.at == pytest.approx(now, abs=2)


def test_no_page_and_no_command_has_another_now() -> None:
    here = Path(screens.__file__).parent
    assert not [file for file in here.rglob("*.py") if "time.time" in file.read_text()]
