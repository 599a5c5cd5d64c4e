from trainlog.redaction import CUT_BYTES, MAX_SEARCHED_BYTES, MAX_SECRET_WORDS, Redactor


def test_a_long_line_that_may_hold_a_secret_is_looked_through_in_part() -> None:
    """What is not looked through is not shown either."""
    token = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk"
    for word, most in ((b"x ", MAX_SEARCHED_BYTES), (b"key: ", 5 * MAX_SECRET_WORDS)):
        for before in (0, most - 2000, most - CUT_BYTES - 20, most - 20, most + 20):
            line = b"2026 " + word * (before // len(word)) + token + b" " + word * MAX_SEARCHED_BYTES
            (clean,) = Redactor().redact_lines([line])
            assert b"eyJ" not in clean
            assert len(clean) < most + 100
            assert b"bytes more, which may hold a secret)" in clean
