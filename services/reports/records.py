"""What a report is made of: plain figures of one campaign, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any


class PolicyKind(StrEnum):
    """Who answered the held-out problems."""

    COORDINATOR = "coordinator"  # the mean of the search distribution
    SINGLE = "single"  # one pool model, one Worker turn
    RANDOM = "random"  # uniform agent and role at every turn
    FAMILY_BEST = "family_best"  # derived: per family the single model that is best on it
    ORACLE = "oracle"  # derived: per problem the best single model


@dataclass(frozen=True)
class Score:
    """The reward in [0, 1] of one held-out episode; ``policy`` is the model's name for single models."""

    kind: PolicyKind
    policy: str
    problem: str
    family: str
    reward: float


@dataclass(frozen=True)
class CurveFigure:
    """One closed training generation; shares by name, of the turns of its scored training episodes."""

    generation: int
    sigma: float
    mean_fitness: float
    best_fitness: float
    validation: float | None
    model_share: Mapping[str, float]
    role_share: Mapping[str, float]
    mean_turns: float | None
    usd: Decimal


@dataclass(frozen=True)
class CallFigure:
    """Calls of one model in one role; ``counted`` tells whether their attempts led to a reward."""

    model: str
    role: str
    counted: bool
    calls: int
    errors: int
    tokens: int
    usd: Decimal


@dataclass(frozen=True)
class OutcomeFigure:
    """Episodes of one purpose with one outcome; ``rewarded`` is False where nothing could be judged."""

    purpose: str
    outcome: str
    rewarded: bool
    episodes: int


@dataclass(frozen=True)
class CampaignFacts:
    """A campaign as its report tells it.

    Attributes:
        settings: headline figures of the specification, heading -> text.
        models: pool models in the campaign's order.
        roles: roles that the campaign allows, in the order of the head's logits.
        validation_problems: how many problems each validation point is the mean of.
        last_validation: score of the mean after the last training generation.
        replicates: how many episodes each candidate's fitness is the mean of.
        commands: how to get the same result again.
        specification: the resolved specification.
        shaped: whether the candidates' fitness is more than their mean reward.
        outcomes: why rewards are what they are.
    """

    name: str
    state: str
    reason: str | None
    seed: int
    settings: Mapping[str, str]
    models: tuple[str, ...]
    roles: tuple[str, ...]
    population: int
    replicates: int
    validation_problems: int
    curve: tuple[CurveFigure, ...]
    last_validation: float | None
    scores: tuple[Score, ...]
    calls: tuple[CallFigure, ...]
    commands: tuple[str, ...]
    specification: Mapping[str, Any]
    shaped: bool = False
    outcomes: tuple[OutcomeFigure, ...] = ()
