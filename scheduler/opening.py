"""Composing a generation: who acts, on which problems, with which seeds. Pure but for the search's ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.core.campaign import Campaign
from services.core.minibatch import episode_seed, fixed_positions, fixed_seed, training_positions, validates
from services.core.states import CandidateKind, GenerationKind, Purpose
from services.storage.records import NewCandidate, NewEpisode

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Composition:
    """A generation about to open."""

    kind: GenerationKind
    candidates: tuple[NewCandidate, ...]
    episodes: tuple[NewEpisode, ...]


def compose_training(
    campaign: Campaign,
    number: int,
    population: Vector,
    mean: Vector,
    training: Sequence[int],
    validation: Sequence[int],
) -> Composition:
    """Samples x replicates on this generation's minibatch, plus the mean on the validation problems when it is due.

    Args:
        campaign: the specification.
        number: of the generation, from 0; it alone decides the minibatch and the seeds.
        population: (population, n) vectors of the search.
        mean: (n,) mean of the search distribution.
        training: problem ids of the training split, in order.
        validation: problem ids of the validation split, in order.
    """
    search = campaign.search
    candidates = [NewCandidate(CandidateKind.SAMPLE, index, theta) for index, theta in enumerate(population)]
    episodes = [
        NewEpisode(
            index,
            Purpose.TRAINING,
            replicate,
            training[position],
            episode_seed(campaign.seed, search.minibatch, number, index, replicate),
        )
        for index in range(search.population)
        for replicate, position in enumerate(
            training_positions(campaign.seed, search.minibatch, number, index, search.replicates, len(training))
        )
    ]
    if campaign.validation.problems and validates(number, campaign.validation.every):
        candidates.append(NewCandidate(CandidateKind.MEAN, 0, mean))
        episodes += measured(campaign, len(candidates) - 1, Purpose.VALIDATION, validation)
    return Composition(GenerationKind.TRAINING, tuple(candidates), tuple(episodes))


def compose_validation(campaign: Campaign, mean: Vector, validation: Sequence[int]) -> Composition:
    """The mean on the validation problems, after the search."""
    episodes = measured(campaign, 0, Purpose.VALIDATION, validation)
    return Composition(GenerationKind.VALIDATION, (NewCandidate(CandidateKind.MEAN, 0, mean),), tuple(episodes))


def compose_evaluation(campaign: Campaign, mean: Vector, heldout: Sequence[int]) -> Composition:
    """The released mean, every single model and the random policy on the same held-out problems."""
    candidates = [NewCandidate(CandidateKind.MEAN, 0, mean)]
    if "single" in campaign.evaluation.baselines:
        candidates += [NewCandidate(CandidateKind.SINGLE, index) for index in range(len(campaign.pool))]
    if "random" in campaign.evaluation.baselines:
        candidates.append(NewCandidate(CandidateKind.RANDOM, 0))
    episodes = [
        episode
        for position in range(len(candidates))
        for episode in measured(campaign, position, Purpose.EVALUATION, heldout)
    ]
    return Composition(GenerationKind.EVALUATION, tuple(candidates), tuple(episodes))


def measured(campaign: Campaign, candidate: int, purpose: Purpose, problems: Sequence[int]) -> list[NewEpisode]:
    """One episode per problem of a fixed set, with the same seeds for every policy that is measured on it."""
    count = campaign.validation.problems if purpose is Purpose.VALIDATION else campaign.evaluation.problems
    positions = fixed_positions(campaign.seed, purpose, count, len(problems))
    return [
        NewEpisode(candidate, purpose, replicate, problems[position], fixed_seed(campaign.seed, purpose, replicate))
        for replicate, position in enumerate(positions)
    ]
