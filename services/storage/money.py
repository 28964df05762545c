"""USD amounts at the precision of the tables: twelve decimals, a millionth of the finest price per million tokens."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

QUANTUM = Decimal("0.000000000001")
LARGEST = Decimal(10) ** 8


def amount(value: Decimal) -> Decimal:
    """Return ``value`` in whole quanta, rounded up: a limit must never be passed by rounding.

    Raises:
        ValueError: it is negative, not finite, or too large for the tables.
    """
    if not (value.is_finite() and 0 <= value < LARGEST):
        raise ValueError(f"an amount of USD must be between 0 and {LARGEST}, got {value}")
    return value.quantize(QUANTUM, rounding=ROUND_CEILING)
