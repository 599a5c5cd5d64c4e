from __future__ import annotations

from trainlog.redaction import CUT, LOOKED_THROUGH, Redactor


def test_a_long_line_that_may_hold_a_secret_is_looked_through_in_part() -> None:
    """What is not looked through is not shown either."""
    token = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk"
    for before in (0, LOOKED_THROUGH - 2000, LOOKED_THROUGH - CUT - 20, LOOKED_THROUGH - 20, LOOKED_THROUGH + 20):
        line = b"2026 " + b"x " * (before // 2) + token + b" y" * LOOKED_THROUGH
        (clean,) = Redactor().redact_lines([line])
        assert b"eyJ" not in clean
        assert len(clean) < LOOKED_THROUGH + 100
        assert b"bytes more, which may hold a secret)" in clean
