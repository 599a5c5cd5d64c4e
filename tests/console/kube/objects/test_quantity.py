from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from console.errors import Unreadable
from console.kube.objects.quantity import parse_amount, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        (8, 8),
        ("500m", "0.5"),
        ("1Ti", 2**40),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("3968Gi", 3968 * 2**30),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("-1", -1),
        ("+2k", 2000),
        ("100n", "1e-7"),
        ("1Ki", 1024),
        (1.5, "1.5"),
        ("12e-1", "1.2"),
    ],
)
def test_every_spelling(text: str, value: object) -> None:
    assert parse_quantity(text) == Decimal(str(value))


@pytest.mark.parametrize("text", ["", "eight", "1X", "Ki", "1 2", "NaN", "inf", "--1", "1e999999999", "9e400E", "1e40"])
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(Unreadable, match="is not a quantity"):
        parse_quantity(text)


def test_cpu_is_in_millicores_and_everything_is_rounded_up() -> None:
    assert parse_amount("cpu", "223370m") == 223370
    assert parse_amount("cpu", "0.0001") == 1
    assert parse_amount("memory", "1.5Ki") == 1536
    assert parse_amount("nvidia.com/gpu", "8") == 8


@given(st.integers(min_value=0, max_value=10**18))
def test_whole_numbers_stay_as_they_are(number: int) -> None:
    assert parse_amount("nvidia.com/gpu", str(number)) == number
