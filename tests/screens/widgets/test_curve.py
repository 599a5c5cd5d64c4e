from itertools import pairwise

import pytest

from console.metrics.export_results import format_message_size
from screens.widgets.charts.braille import DOTS_HIGH, Canvas, PlotBox, PlotFrame, round_step, round_ticks
from screens.widgets.charts.nccl_panel import CurvePoint, ExpectedRange, draw_curve, expected_at_size
from screens.widgets.charts.training_chart import MIN_SPEED_AXIS_SHARE, AxisRange, View, _axis_labels, widen_speed_axis

MIB = 1 << 20
POINTS = [CurvePoint(MIB << shift, 40.0 * shift, 40.0 * shift - 25) for shift in range(1, 13)]
BAND = (ExpectedRange(8 * MIB, 90, 110), ExpectedRange(512 * MIB, 500, 600))


def picture(points: list[CurvePoint], width: int, height: int, marked: int | None = None) -> list[str]:
    rows = draw_curve(points, BAND, width, height, marked).rows()
    return ["".join(run.text for run in row) for row in rows]


@pytest.mark.parametrize(("width", "height"), [(24, 6), (40, 10), (78, 18), (150, 40)])
def test_every_line_fills_the_width_exactly(width: int, height: int) -> None:
    lines = picture(POINTS, width, height)
    assert [len(line) for line in lines] == [width] * height


def test_halves_differ_without_colour_and_legend_explains_them() -> None:
    text = "\n".join(picture(POINTS, 78, 18))
    assert "● out-of-place" in text
    assert "○ in-place" in text
    assert text.count("●") > 3
    assert text.count("○") > 3
    assert "░ A4 reference" in text
    assert "busbw GB/s" in text


def test_equal_halves_share_one_mark() -> None:
    legend, *rows = picture([CurvePoint(MIB, 10.0, 10.0)], 40, 10)
    assert "\n".join(rows).count("◉") == 1
    assert "◉ both" in legend
    unlike, *rows = picture([CurvePoint(MIB, 500.0, 10.0)], 40, 10)
    assert not {"◉"} & {*unlike, *"".join(rows)}


def test_halves_that_are_alike_share_a_mark_wherever_a_line_ends() -> None:
    for value in range(40, 100):
        rows = picture([CurvePoint(MIB, float(value), value + 0.1), CurvePoint(2 * MIB, 200.0, 200.0)], 40, 10)[1:]
        assert "○" not in "".join(rows), value


def test_without_anything_measured_there_are_no_axes() -> None:
    assert not any(run.text.strip() for row in draw_curve([], (), 40, 10).rows() for run in row)


def test_axes_name_sizes_and_values() -> None:
    lines = [line for line in picture(POINTS, 100, 20) if line.strip()]
    assert "2M" in lines[-1]
    assert "4G" in lines[-1]
    assert lines[1].startswith("600 ┤") or lines[1].startswith("500 ┤")
    assert any(line.startswith("  0 ┤") for line in lines)


@pytest.mark.parametrize(("width", "height"), [(50, 26), (48, 23), (78, 18), (150, 40)])
def test_labels_of_both_axes_are_at_even_distances(width: int, height: int) -> None:
    *plot, axis, sizes = [line for line in picture(POINTS, width, height) if line.strip()]
    rows = [row for row, line in enumerate(plot) if "┤" in line]
    columns = [column for column, letter in enumerate(axis) if letter == "┴"]
    assert len({below - above for above, below in pairwise(rows)}) == 1
    apart = [right - left for left, right in pairwise(columns)]
    assert max(apart) - min(apart) <= 1, "sizes lie in whole cells"
    assert len(sizes.split()) == len(columns) > 2


def test_a_marked_size_has_a_line_through_the_plot() -> None:
    assert "┊" in "\n".join(picture(POINTS[:3], 78, 18, 8 * MIB))
    assert "┊" not in "\n".join(picture(POINTS[:3], 78, 18))


def test_too_small_says_so_instead_of_drawing_a_smudge() -> None:
    assert picture(POINTS, 23, 5)[0].startswith("too small for a curve")


def test_nothing_measured_and_missing_halves() -> None:
    assert len(picture([], 60, 12)) == 12
    text = "\n".join(picture([CurvePoint(MIB, None, None), CurvePoint(2 * MIB, 5.0, None)], 60, 12))
    assert text.count("●") == 2  # the point and the legend
    assert text.count("○") == 1  # only the legend


def test_expected_between_known_sizes() -> None:
    assert expected_at_size(BAND, 64 * MIB) == pytest.approx((295, 355))
    assert expected_at_size(BAND, 4 * MIB) is None


@pytest.mark.parametrize(
    ("amount", "text"), [(512, "512"), (64 << 10, "64K"), (2 * MIB, "2M"), (16 << 30, "16G"), (1.5 * MIB, "1.5M")]
)
def test_size_words(amount: float, text: str) -> None:
    assert format_message_size(amount) == text


@pytest.mark.parametrize("lines", [2, 3, 5, 8, 14, 30])
@pytest.mark.parametrize(("low", "high"), [(2.1, 5.6), (3.9, 11.2), (0.999, 1.001), (77.0, 77.0), (0.0, 1e-9)])
def test_an_axis_has_two_values_at_least_each_in_a_line_of_its_own(low: float, high: float, lines: int) -> None:
    frame = PlotFrame(PlotBox(0, 0, 60, lines + 1), low, high, lines_below=0)
    rows = [row // DOTS_HIGH for tick in frame.ticks if (row := frame.row(tick)) is not None]
    assert len(rows) == len(set(rows)) >= 2
    slack = 1e-9 * max(1.0, high)
    assert all(frame.low - slack <= tick <= frame.high + slack for tick in frame.ticks)


def test_ticks_are_round_and_reach_the_top() -> None:
    assert round_ticks(752, 4) == [0, 200, 400, 600, 800]
    assert round_ticks(0.9, 3)[-1] >= 0.9
    assert round_step(0, 3) == 1.0


@pytest.mark.parametrize(
    ("sight", "labels"), [((1.0, 2.0), "1 2"), ((0.0, 10.0), "0 3 6 9"), ((0.0, 1000.0), "0 250 500 750 1,000")]
)
def test_the_axis_of_steps_has_whole_ones(sight: tuple[float, float], labels: str) -> None:
    frame = PlotFrame(PlotBox(0, 0, 64, 10), 0.0, 1.0, lines_below=2)
    assert " ".join(label for _, label in _axis_labels(frame, AxisRange(*sight), View())) == labels


def test_canvas_keeps_what_lies_on_top() -> None:
    canvas = Canvas(3, 1)
    canvas.shade(0, 0)
    canvas.shade(1, 0)
    canvas.dot(2, 0, "accent")
    canvas.mark(2, 0, "●", "ok")
    canvas.mark(99, 0, "x")
    assert "".join(run.text for run in canvas.rows()[0]) == "░⠁●"


def test_noise_of_a_percent_fills_no_chart_of_a_speed() -> None:
    low, high = widen_speed_axis(3.70, 3.74)
    assert high - low == pytest.approx(MIN_SPEED_AXIS_SHARE * 3.72)
    assert (low + high) / 2 == pytest.approx(3.72)
    assert widen_speed_axis(2.0, 4.0) == (2.0, 4.0), "what differs by more has its own axis"
