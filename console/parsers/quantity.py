"""Kubernetes quantities: "8", "500m", "1Ti", "1e3"."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache

from console.errors import Unreadable

_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Decimal:
    """The exact value of a quantity; Unreadable if it is none."""
    written = str(text).strip()
    number = written.rstrip("KMGTPEkmnui")
    suffix = written[len(number) :]
    try:
        value = Decimal(number) * _SUFFIXES[suffix]
    except (InvalidOperation, KeyError) as error:
        raise Unreadable(f"{written!r} is no quantity.") from error
    if not value.is_finite():
        raise Unreadable(f"{written!r} is no quantity.")
    return value


@lru_cache(maxsize=4096)
def parse_amount(resource: str, text: str | int | float) -> int:
    """How much of a resource, rounded up: CPU in millicores, memory in bytes, everything else counted."""
    value = parse_quantity(text)
    return int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))
