"""Small resolved campaigns for tests."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    SearchSpec,
    ValidationSpec,
)
from services.core.ledger.price import Price
from services.core.problem import Problem, ScorerKind, Split

PRICE = Price(Decimal("0.5"), Decimal("1.5"))


def small_campaign(**changes: Any) -> Campaign:
    """Two models, hidden size 4, population 4 x 3 replicates, two generations; any field can be changed."""
    campaign = Campaign(
        name="small",
        seed=5,
        pool=tuple(ModelSpec(name, f"openai/{name}", PRICE, base_url="local:specialists") for name in ("ada", "bob")),
        encoder=EncoderSpec("smollm2-135m-instruct"),
        hidden_size=4,
        protocol=ProtocolSpec(max_turns=2, max_output_tokens=64),
        search=SearchSpec(population=4, replicates=3, generations=2, sigma0=0.1),
        validation=ValidationSpec(every=1, problems=2),
        evaluation=EvaluationSpec(problems=3),
        budget=BudgetLimits(episodes=1000),
    )
    return replace(campaign, **changes)


def small_problems(training: int = 6, validation: int = 2, heldout: int = 3) -> dict[Split, list[Problem]]:
    """Problems whose question names split and position."""
    sizes = {Split.TRAINING: training, Split.VALIDATION: validation, Split.HELDOUT: heldout}
    return {
        split: [
            Problem(
                f"{split}-{number}", "sums", f"What is {number} + 1? ({split})", ScorerKind.NUMERIC, str(number + 1)
            )
            for number in range(size)
        ]
        for split, size in sizes.items()
    }
