"""Prices and the cost of a call, exact to the last token."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from services.core.ledger.usage import Usage

MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """USD per million tokens.

    Attributes:
        cached_input_per_million: for prompt tokens that the provider had in its cache; None: as other prompt tokens.
        reasoning_per_million: for completion tokens spent on reasoning; None: as other completion tokens.
    """

    input_per_million: Decimal
    output_per_million: Decimal
    cached_input_per_million: Decimal | None = None
    reasoning_per_million: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost in USD; exact because prices have at most six decimals (checked by the config).

        Estimated tokens are not known by kind; each costs what the dearer kind costs.
        """
        prompt, completion = self.input_per_million, self.output_per_million
        cached = prompt if self.cached_input_per_million is None else self.cached_input_per_million
        reasoning = completion if self.reasoning_per_million is None else self.reasoning_per_million
        if usage.estimated:
            prompt = cached = max(prompt, cached)
            completion = reasoning = max(completion, reasoning)
        return (
            (usage.prompt_tokens - usage.cached_prompt_tokens) * prompt
            + usage.cached_prompt_tokens * cached
            + (usage.completion_tokens - usage.reasoning_tokens) * completion
            + usage.reasoning_tokens * reasoning
        ) / MILLION
