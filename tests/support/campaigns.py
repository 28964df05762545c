"""Small resolved campaigns for tests, and submitting them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from services.config.document import sha256, to_json
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
from services.core.ids import CampaignId
from services.core.ledger.price import Price
from services.core.optimiser.sep_cma_es import library_version
from services.core.policy.layout import Layout
from services.core.problem import Problem, ScorerKind, Split
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import Fork, NewCampaign

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


def submit(database: Database, campaign: Campaign, fork: Fork | None = None) -> CampaignId:
    """Insert a campaign with the small problems and two attempts per episode."""
    document = to_json(campaign)
    layout = Layout.of_campaign(campaign)
    with database.transaction() as conn:
        return campaigns.insert(
            conn,
            NewCampaign(
                name=campaign.name,
                spec=document,
                spec_sha256=sha256(document),
                seed=campaign.seed,
                dimension=layout.size,
                versions={"search": library_version()},
                budget=campaign.budget,
                max_attempts=2,
                forked_from=fork,
            ),
            small_problems(),
        )
