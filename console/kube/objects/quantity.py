"""Parses Kubernetes quantities, such as 500m, 64Gi or 1e3."""

from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from console.errors import Unreadable

_QUANTITY_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


_QUANTITY_LIMIT = Decimal(10**40)  # Kubernetes promises numbers up to 2**63


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Decimal:
    """The exact value of a Kubernetes quantity; raises Unreadable if the text is not a quantity."""
    written = str(text).strip()
    number = written.rstrip("KMGTPEkmnui")
    suffix = written[len(number) :]
    try:
        value = Decimal(number) * _QUANTITY_SUFFIXES[suffix]
    except (ArithmeticError, KeyError) as error:
        raise Unreadable(f"{written!r} is not a quantity.") from error
    if not value.is_finite() or abs(value) >= _QUANTITY_LIMIT:
        raise Unreadable(f"{written!r} is not a quantity.")
    return value


@lru_cache(maxsize=4096)
def parse_amount(resource: str, text: str | int | float) -> int:
    """The amount of a resource, rounded up: CPU in millicores, memory in bytes, other resources as a count."""
    value = parse_quantity(text)
    return int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))
