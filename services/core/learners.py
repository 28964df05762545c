"""How the learners that follow a gradient take their steps (paper, sections 4.8 and A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Baseline(StrEnum):
    """What an episode's reward is compared with before it counts."""

    BATCH = "batch"  # the mean of the generation's other episodes (authors' code: of all of them)
    PROBLEM = "problem"  # the mean of the other episodes on the same problem; as above where there is none


class Targets(StrEnum):
    """What a fit to labels aims at."""

    REWARD = "reward"  # the expected reward of the model that the head draws
    SOFT = "soft"  # the softmax of each model's mean reward
    HARD = "hard"  # one model per problem: the best in most repeats, ties at random (paper, A.2.2)
    TEAM = "team"  # the expected reward of a Worker, a Verifier and, after a REVISE, a second Worker, all drawn


@dataclass(frozen=True)
class ReinforceSpec:
    """Settings of REINFORCE.

    Attributes:
        rate: step size of Adam.
        clip: longest gradient; None leaves it as it is.
        entropy: weight of the entropy, in nats, of agents and of roles at every turn.
        weight_decay: weight of half the squared length of the parameters (L2).
        baseline: what rewards are compared with.
        plays: episodes on each problem of a generation.
        spread: standard deviation of the first weights where the search starts at zero.
    """

    rate: float = 1e-3
    clip: float | None = None
    entropy: float = 0.03
    weight_decay: float = 0.0
    baseline: Baseline = Baseline.PROBLEM
    plays: int = 4
    spread: float = 0.0


@dataclass(frozen=True)
class SupervisedSpec:
    """Settings of the fit to labels.

    Attributes:
        targets: what it aims at.
        temperature: tau of soft targets, in units of reward.
        rate: step size of Adam.
        batch: problems of a mini-batch.
        epochs: at most; how many are taken is chosen by cross-validation over the labelled problems.
        folds: of that cross-validation; 1 takes all epochs, as the paper does.
        weight_decay: weight of half the squared length of the standardised weights (L2).
    """

    targets: Targets = Targets.REWARD
    temperature: float = 0.2
    rate: float = 1e-3
    batch: int = 64
    epochs: int = 100
    folds: int = 5
    weight_decay: float = 0.0
