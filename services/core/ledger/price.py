"""Prices and the cost of a call, exact to the last token."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from services.core.ledger.usage import Usage

MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """USD per million prompt and completion tokens."""

    input_per_million: Decimal
    output_per_million: Decimal

    def cost(self, usage: Usage) -> Decimal:
        """Return the exact cost in USD; exact because prices have at most six decimals (checked by the config)."""
        return (
            usage.prompt_tokens * self.input_per_million + usage.completion_tokens * self.output_per_million
        ) / MILLION
