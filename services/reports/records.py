"""What a report is made of: plain figures of one campaign, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any


class PolicyKind(StrEnum):
    """Who answered the held-out problems."""

    COORDINATOR = "coordinator"  # the mean of the search distribution
    PEER = "peer"  # another campaign's coordinator
    SINGLE = "single"  # one pool model, one Worker turn
    RANDOM = "random"  # uniform agent and role at every turn
    RIVAL = "rival"  # what else the campaign compares
    FAMILY_BEST = "family_best"  # derived: per family the single model that is best on it
    ORACLE = "oracle"  # derived: per problem the best single model


@dataclass(frozen=True)
class Effort:
    """What the attempt that led to a reward took; a judge's calls are no part of it.

    Attributes:
        calls: what the policy asked for, repeated tries and kept replies included.
        hits: of these, answered by kept replies.
        errors: of these, tries that failed or brought no readable reply.
        estimated: of these, tokens that no provider counted.
        tokens_in, tokens_out: those of kept replies included; None where a kept reply was deleted since.
        usd: what was paid; kept replies cost nothing.
        usd_without_reuse: with kept replies at their list price, so that policies can be compared; None as for tokens.
        latency_seconds: the calls' added up, kept replies with what they once took; None where that is not known.
        stop: why the episode ended.
        outcome: why the reward was what it was, where that was recorded.
        drawn: turns whose action was drawn, because a prompted coordinator named none that is possible.
    """

    calls: int
    hits: int
    errors: int
    estimated: int
    tokens_in: int | None
    tokens_out: int | None
    usd: Decimal
    usd_without_reuse: Decimal | None
    latency_seconds: float | None
    turns: int
    stop: str
    outcome: str | None = None
    drawn: int = 0


@dataclass(frozen=True)
class Score:
    """The reward in [0, 1] of one held-out episode; ``policy`` is the model's name for single models."""

    kind: PolicyKind
    policy: str
    problem: str
    family: str
    reward: float
    effort: Effort | None = None


@dataclass(frozen=True)
class LeftOut:
    """What a policy's held-out episodes took without a reward: failed attempts, and the grading of answers.

    Attributes:
        unscored: episodes that have no reward, so far or for good.
        failures: attempts that failed, were lost or were given back.
        usd: what those attempts cost.
        grading_usd: what a judge took for this policy's answers.
    """

    policy: str
    unscored: int
    failures: int
    usd: Decimal
    grading_usd: Decimal


@dataclass(frozen=True)
class ChoiceFigure:
    """How often a policy's turns with this number were a model's in a role."""

    policy: str
    turn: int
    model: str
    role: str
    turns: int


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
        family_choice: family -> the model that was best on labelled training problems; empty without labels.
        left_out: what held-out episodes took without a reward.
        choices: who acted in held-out episodes.
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
    family_choice: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    choices: tuple[ChoiceFigure, ...] = ()
