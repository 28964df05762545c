"""What a finished generation amounts to: fitness per sample, scores of the measured policies, figures to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

from services.core.campaign import Campaign
from services.core.fitness import Effort, Incomplete, fitness_of, ranks, shaped
from services.core.fitness import Outcome as Observation
from services.core.states import CandidateKind, GenerationKind
from services.storage.records import CandidateScore, Outcome

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """A generation ready to be closed; ``fitness`` is present exactly for training generations."""

    fitness: Vector | None
    scores: tuple[CandidateScore, ...]
    summary: dict[str, Any]


def result_of(
    campaign: Campaign,
    kind: GenerationKind,
    outcomes: Sequence[Outcome],
    effort: Effort,
) -> Result | Incomplete:
    """Reduce a generation's episodes, whatever the order they ended in; Incomplete when rewards are missing.

    Args:
        campaign: the specification.
        kind: of the generation.
        outcomes: of all its episodes.
        effort: what the samples' training episodes took; read only where fitness depends on it.

    Raises:
        ValueError: as ``shaped`` does.
    """
    fitness: Vector | None = None
    scores: list[CandidateScore] = []
    if kind is GenerationKind.TRAINING:
        samples = [
            Observation(outcome.candidate_index, outcome.replicate, outcome.reward)
            for outcome in outcomes
            if outcome.candidate_kind is CandidateKind.SAMPLE
        ]
        reduced = fitness_of(samples, campaign.search.candidates, campaign.search.trials)
        if isinstance(reduced, Incomplete):
            return reduced
        fitness = shaped(reduced, effort, campaign)
        scores += [
            CandidateScore(CandidateKind.SAMPLE, index, float(value), rank)
            for index, (value, rank) in enumerate(zip(fitness, ranks(fitness), strict=True))
        ]
    measured = [outcome for outcome in outcomes if outcome.candidate_kind is not CandidateKind.SAMPLE]
    missing = tuple((outcome.candidate_index, outcome.replicate) for outcome in measured if outcome.reward is None)
    if missing:
        return Incomplete(missing)
    scores += mean_rewards(measured)
    return Result(fitness, tuple(scores), summary_of(fitness, scores))


def mean_rewards(outcomes: Sequence[Outcome]) -> list[CandidateScore]:
    """The mean reward of every measured policy."""
    rewards: dict[tuple[CandidateKind, int], list[float]] = {}
    for outcome in outcomes:
        if outcome.reward is not None:
            rewards.setdefault((outcome.candidate_kind, outcome.candidate_index), []).append(outcome.reward)
    return [
        CandidateScore(kind, index, fsum(sorted(values)) / len(values)) for (kind, index), values in rewards.items()
    ]


def summary_of(fitness: Vector | None, scores: Sequence[CandidateScore]) -> dict[str, Any]:
    """Figures kept with the generation; ``validation`` is the mean's score, on whichever problems it was measured."""
    summary: dict[str, Any] = {}
    if fitness is not None:
        summary |= {"mean_fitness": float(fitness.mean()), "best_fitness": float(fitness.max())}
    mean = [score.fitness for score in scores if score.kind is CandidateKind.MEAN]
    return summary | ({"mean_score": mean[0]} if mean else {})
