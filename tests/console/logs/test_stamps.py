"""Timestamps in front of lines."""

from hypothesis import example, given, strategies as st

from console.logs.log_line import decode_line, decode_lines

WHOLE = "2026-11-21T07:00:00.123456789Z"
PIECES = st.sampled_from([WHOLE, WHOLE[:-3] + "Z", WHOLE.replace("T0", "T "), "2026", " ", "Z ", "text", "\r", ":"])


@given(st.lists(PIECES, max_size=5).map("".join))
@example(f"{WHOLE} text\r")
@example(f"{WHOLE}")
def test_many_lines_have_the_texts_that_each_has(line: str) -> None:
    assert decode_lines([line.encode()]) == [decode_line(line.encode())]
