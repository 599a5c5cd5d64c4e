import pytest
from hypothesis import given, strategies as st

from console.errors import Unreadable
from console.kube.objects.meta import format_time, parse_time


def test_every_precision() -> None:
    assert parse_time("2026-11-21T07:00:00Z") == 1795244400.0
    assert parse_time("2026-11-21T07:00:00.5Z") == 1795244400.5
    assert parse_time("2026-11-21T07:00:00.123456789Z") == pytest.approx(1795244400.123456, abs=1e-6)
    assert parse_time("2026-11-21T08:00:00+01:00") == 1795244400.0


def test_none_is_never() -> None:
    assert parse_time(None) == 0.0
    assert parse_time("") == 0.0


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", "12"])
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(Unreadable, match="is not a timestamp"):
        parse_time(text)


@given(st.integers(min_value=0, max_value=4_000_000_000))
def test_what_is_written_can_be_read(second: int) -> None:
    assert parse_time(format_time(float(second))) == float(second)
