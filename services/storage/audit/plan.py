"""Which episodes a generation must have, with their problems and seeds, as campaign and seed alone decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.core.campaign import Campaign
from services.core.minibatch import episode_seed, fixed_positions, fixed_seed, training_positions, validates
from services.core.problem import Split
from services.core.states import CandidateKind, GenerationKind, Purpose

Key = tuple[CandidateKind, int, Purpose]


@dataclass(frozen=True)
class Planned:
    """An episode's problem, by split and position, and its seed."""

    split: str
    position: int
    seed: int


def wanted_episodes(campaign: Campaign, kind: GenerationKind, number: int) -> dict[Key, int]:
    """Return how many episodes every candidate of a generation must have, by purpose."""
    mean = (CandidateKind.MEAN, 0)
    if kind is GenerationKind.VALIDATION:
        return {(*mean, Purpose.VALIDATION): campaign.validation.problems}
    if kind is GenerationKind.EVALUATION:
        return {(*policy, Purpose.EVALUATION): campaign.evaluation.problems for policy in _compared(campaign)}
    search = campaign.search
    wanted: dict[Key, int] = {
        (CandidateKind.SAMPLE, index, Purpose.TRAINING): search.replicates for index in range(search.population)
    }
    if campaign.validation.problems and validates(number, campaign.validation.every):
        wanted[*mean, Purpose.VALIDATION] = campaign.validation.problems
    return wanted


def planned_episodes(
    campaign: Campaign, kind: GenerationKind, number: int, sizes: Mapping[Split, int]
) -> dict[tuple[Key, int], Planned]:
    """Return problem and seed of every episode of a generation, by candidate, purpose and replicate.

    Raises:
        ValueError: a split has too few problems.
    """
    planned: dict[tuple[Key, int], Planned] = {}
    for key, count in wanted_episodes(campaign, kind, number).items():
        if key[2] is Purpose.TRAINING:
            each = _training(campaign, number, key[1], sizes[Split.TRAINING])
        else:
            each = _measured(campaign, key[2], count, sizes)
        planned |= {(key, replicate): episode for replicate, episode in enumerate(each)}
    return planned


def _compared(campaign: Campaign) -> list[tuple[CandidateKind, int]]:
    policies = [(CandidateKind.MEAN, 0)]
    if "single" in campaign.evaluation.baselines:
        policies += [(CandidateKind.SINGLE, index) for index in range(len(campaign.pool))]
    if "random" in campaign.evaluation.baselines:
        policies.append((CandidateKind.RANDOM, 0))
    return policies


def _training(campaign: Campaign, number: int, candidate: int, size: int) -> list[Planned]:
    seed, search = campaign.seed, campaign.search
    positions = training_positions(seed, search.minibatch, number, candidate, search.replicates, size)
    return [
        Planned(Split.TRAINING.value, position, episode_seed(seed, search.minibatch, number, candidate, replicate))
        for replicate, position in enumerate(positions)
    ]


def _measured(campaign: Campaign, purpose: Purpose, count: int, sizes: Mapping[Split, int]) -> list[Planned]:
    split = Split.VALIDATION if purpose is Purpose.VALIDATION else Split.HELDOUT
    positions = fixed_positions(campaign.seed, purpose, count, sizes[split])
    return [
        Planned(split.value, position, fixed_seed(campaign.seed, purpose, replicate))
        for replicate, position in enumerate(positions)
    ]
