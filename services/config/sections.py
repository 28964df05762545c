"""The campaign file as people write it: every field and its limits.

A field without a default here has one in every preset (``services.config.presets``).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from services.config.encoder_section import EncoderSection, HeadSection
from services.config.fields import AutoOrPositive, Count, Money, Positive, Seconds, Section, Seed, Share, Weight, Whole
from services.config.model_section import ModelSection
from services.config.presets import RECOMMENDED_NAME
from services.config.problems_section import ProblemsSection
from services.core.campaign import Algorithm, EvidenceUse, Notes, Reuse, Start, StepSize, VerifierWithoutAnswer
from services.core.learners import Baseline, Targets
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.rivals import RivalKind

LONGEST_HOURS = 87_600

_CAMPAIGN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _campaign_name(value: str) -> str:
    if not _CAMPAIGN_NAME.fullmatch(value):
        raise ValueError("at most 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
    return value


def _roles(value: tuple[Role, ...]) -> tuple[Role, ...]:
    if len(set(value)) != len(value) or Role.WORKER not in value:
        raise ValueError("each role at most once, worker among them: only a Worker answers")
    return tuple(role for role in ROLE_ORDER if role in value)


def _agents(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) != len(value):
        raise ValueError("each model of the pool at most once")
    return value


Sigma = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Bonus = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class ProtocolSection(Section):
    roles: Annotated[
        tuple[Annotated[Role, Field(strict=False)], ...], Field(min_length=1, strict=False), AfterValidator(_roles)
    ] = ROLE_ORDER
    agents: Annotated[tuple[str, ...], Field(max_length=100, strict=False), AfterValidator(_agents)] = ()
    notes: Notes = Field(strict=False)
    max_turns: int = Field(ge=1, le=100)
    max_output_tokens: Annotated[Positive, Field(le=1_000_000)]
    temperature: float = Field(ge=0, le=2, allow_inf_nan=False)
    thinker_sets_role: bool
    verifier_without_answer: VerifierWithoutAnswer = Field(strict=False)
    call_timeout_seconds: Seconds = 120.0
    episode_timeout_seconds: Seconds = 900.0
    evidence: EvidenceUse = Field(default=EvidenceUse.NONE, strict=False)

    @model_validator(mode="after")
    def _episode_holds_a_call(self) -> Self:
        if self.episode_timeout_seconds < self.call_timeout_seconds:
            raise ValueError("an episode_timeout_seconds of at least call_timeout_seconds")
        return self


class EvolutionSection(Section):
    """What the file and the record both have."""

    population: AutoOrPositive
    replicates: Annotated[Positive, Field(le=100_000)]
    generations: Annotated[Positive, Field(le=1_000_000)]
    minibatch: Literal["common", "fresh"]
    step_size: StepSize = Field(strict=False)
    mean_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    antithetic: bool
    entropy_bonus: Bonus
    turn_bonus: Bonus
    algorithm: Algorithm = Field(default=Algorithm.SEP_CMA_ES, strict=False)
    start: Start = Field(default=Start.ZERO, strict=False)
    half_width: Sigma = 0.5
    cost_weight: Bonus = 0.0
    cost_unit_usd: Sigma | None = None
    coordinator: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class SearchSection(EvolutionSection):
    """In the file the first step size may be given in units of a logit instead."""

    sigma0: Sigma | None = None
    logit_sigma0: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_step_size(self) -> Self:
        if (self.sigma0 is None) == (self.logit_sigma0 is None):
            raise ValueError("one of `sigma0` and `logit_sigma0`")
        return self


class RecordedSearch(EvolutionSection):
    sigma0: Sigma


class ValidationSection(Section):
    every: Positive
    problems: Count = 0


class LabelsSection(Section):
    problems: Count = 0
    repeats: Annotated[Positive, Field(le=1000)] = 1


class ReinforceSection(Section):
    rate: Rate
    clip: Sigma | None
    entropy: Bonus
    weight_decay: Bonus
    baseline: Baseline = Field(strict=False)
    plays: Annotated[Positive, Field(le=100_000)]
    spread: Bonus


class SupervisedSection(Section):
    targets: Targets = Field(strict=False)
    temperature: Sigma
    rate: Rate
    batch: Annotated[Positive, Field(le=100_000)]
    epochs: Annotated[Positive, Field(le=100_000)]
    folds: Annotated[Positive, Field(le=100)]
    weight_decay: Bonus


class RivalSection(Section):
    kind: RivalKind = Field(strict=False)
    model: Annotated[str, Field(min_length=1)] | None = None
    samples: Annotated[Positive, Field(ge=2, le=100)] = 5


class EvaluationSection(Section):
    problems: Count = 0
    baselines: tuple[Literal["single", "random"], ...] = Field(default=("single", "random"), strict=False)
    rivals: tuple[RivalSection, ...] = Field(default=(), max_length=100, strict=False)
    repeats: Annotated[Positive, Field(le=1000)] = 1


class ScoringSection(Section):
    judge: Annotated[str, Field(min_length=1)] | None = None


class AnswersSection(Section):
    reuse: Reuse = Field(default=Reuse.NEVER, strict=False)


class SpendSection(Section):
    """Limits that the file and the record both have; None is unlimited."""

    calls: Annotated[Whole, Field(ge=1, lt=2**62)] | None = None
    tokens: Annotated[Whole, Field(ge=1, lt=2**62)] | None = None
    usd: Money | None = None


class BudgetSection(SpendSection):
    episodes: AutoOrPositive = None
    hours: Annotated[float, Field(gt=0, le=LONGEST_HOURS, allow_inf_nan=False)] | None = None


class TopSection(Section):
    """Fields that stand in no section, the same in the file and in the record."""

    seed: Seed = 0
    max_attempts: int = Field(default=5, ge=1, le=100)
    max_failure_share: Share = 0.5
    weight: Weight = 1.0


class CampaignFile(TopSection):
    """A whole campaign file; ``services.config.across_sections`` checks what spans sections."""

    name: Annotated[str, AfterValidator(_campaign_name)]
    preset: Literal["paper", "authors_code", "recommended"] = RECOMMENDED_NAME
    problems: ProblemsSection
    pool: tuple[ModelSection, ...] = Field(min_length=1, max_length=100, strict=False)
    encoder: EncoderSection
    head: HeadSection
    protocol: ProtocolSection
    search: SearchSection
    validation: ValidationSection
    evaluation: EvaluationSection = EvaluationSection()
    scoring: ScoringSection = ScoringSection()
    answers: AnswersSection = AnswersSection()
    labels: LabelsSection = LabelsSection()
    reinforce: ReinforceSection
    supervised: SupervisedSection
    budget: BudgetSection = BudgetSection()
