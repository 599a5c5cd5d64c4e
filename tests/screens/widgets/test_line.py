import pytest
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from screens.widgets.styled_text import PaintedLines, changed_columns, fit_spans, merge_segments
from screens.wording import Span

RED, BLUE, ON_BLUE = Style(color="red"), Style(color="blue"), Style(bgcolor="blue")


def style_of(name: str) -> Style:
    return {"red": RED, "blue": BLUE}.get(name, Style())


def test_blanks_join_the_text_beside_them() -> None:
    assert fit_spans([Span("ab", "red")], 4, style_of, blanks_after=2) == [Segment("ab    ", RED)]
    assert fit_spans([Span("ab", "red")], 4, style_of, right=True, blanks_after=1) == [Segment("  ab ", RED)]
    assert fit_spans([], 3, style_of, blanks_after=2) == [Segment("     ", Style())]
    assert [each.text for each in fit_spans([Span("abc", "red"), Span("def", "blue")], 5, style_of)] == ["abc", "d…"]


def test_joined_lines_look_the_same() -> None:
    apart = [Segment("a", RED), Segment("b", RED), Segment("  ", BLUE), Segment("c", BLUE), Segment(" ", ON_BLUE)]
    assert merge_segments(apart) == [Segment("ab  ", RED), Segment("c", BLUE), Segment(" ", ON_BLUE)]


def test_a_widget_that_draws_no_line_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="draw_line"):
        type("Empty", (PaintedLines,), {})()


def test_only_the_columns_that_differ_are_reported() -> None:
    def strip(age: str) -> Strip:
        return Strip([Segment("name  ", RED), Segment(age, BLUE), Segment(" x", RED)])

    assert changed_columns(strip("41s"), strip("42s")) == (6, 9)
    left, end = changed_columns(strip("41s"), strip("41s"))
    assert left == end
    assert changed_columns(Strip([Segment("ab", RED)]), Strip([Segment("cd", RED)])) == (0, 2)
