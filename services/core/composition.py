"""What a generation consists of: who acts, on which problems, with which seeds; campaign and seed alone decide.

The scheduler opens generations by it, and the audit compares what is stored with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from services.core.campaign import Algorithm, Campaign
from services.core.minibatch import FRESH, episode_seed, fixed_positions, fixed_seed, training_positions, validates
from services.core.problem import Split
from services.core.states import CandidateKind, GenerationKind, Purpose

Actor = tuple[CandidateKind, int]
Key = tuple[CandidateKind, int, Purpose]

MEAN = (CandidateKind.MEAN, 0)
SPLITS = {Purpose.TRAINING: Split.TRAINING, Purpose.VALIDATION: Split.VALIDATION, Purpose.EVALUATION: Split.HELDOUT}


@dataclass(frozen=True)
class Planned:
    """An episode's problem, by split and position, and its seed."""

    split: Split
    position: int
    seed: int


def wanted_episodes(campaign: Campaign, kind: GenerationKind, number: int) -> dict[Key, int]:
    """Return how many episodes every candidate of a generation has, by purpose, in the order in which they are sent.

    Args:
        campaign: the specification.
        kind: of the generation.
        number: of the generation in its campaign, from 0.
    """
    match kind:
        case GenerationKind.LABELLING:
            count = campaign.labels.problems * campaign.labels.repeats
            return {(*single, Purpose.TRAINING): count for single in singles(campaign)}
        case GenerationKind.TRAINING:
            samples = ((CandidateKind.SAMPLE, index) for index in range(campaign.search.candidates))
            wanted: dict[Key, int] = {(*sample, Purpose.TRAINING): campaign.search.trials for sample in samples}
            due = validates(number - campaign.first_training, campaign.validation.every)
            if campaign.validation.problems and due:
                wanted[*MEAN, Purpose.VALIDATION] = campaign.validation.problems
            return wanted
        case GenerationKind.VALIDATION:
            return {(*MEAN, Purpose.VALIDATION): campaign.validation.problems}
        case GenerationKind.EVALUATION:
            count = campaign.evaluation.problems * campaign.evaluation.repeats
            return {(*policy, Purpose.EVALUATION): count for policy in compared(campaign)}
    assert_never(kind)


def planned_episodes(
    campaign: Campaign, kind: GenerationKind, number: int, sizes: Mapping[Split, int]
) -> dict[tuple[Key, int], Planned]:
    """Return problem and seed of every episode of a generation, by candidate, purpose and replicate, in order.

    Args:
        campaign: the specification.
        kind: of the generation.
        number: of the generation in its campaign, from 0; it alone decides a training generation's problems.
        sizes: how many problems each split has.

    Raises:
        ValueError: a split has too few problems.
    """
    planned: dict[tuple[Key, int], Planned] = {}
    for key in wanted_episodes(campaign, kind, number):
        purpose = key[2]
        size = sizes[SPLITS[purpose]]
        if kind is GenerationKind.TRAINING and purpose is Purpose.TRAINING:
            each = _training(campaign, number - campaign.first_training, key[1], size)
        else:
            each = _measured(campaign, purpose, size)
        planned |= {(key, replicate): episode for replicate, episode in enumerate(each)}
    return planned


def candidates_of(campaign: Campaign, kind: GenerationKind, number: int) -> list[Actor]:
    """Return who acts in a generation, in order."""
    return list(dict.fromkeys(key[:2] for key in wanted_episodes(campaign, kind, number)))


def compared(campaign: Campaign) -> list[Actor]:
    """Return what is compared on the held-out problems: the released mean, the baselines, the rivals."""
    policies: list[Actor] = [MEAN]
    if "single" in campaign.evaluation.baselines:
        policies += singles(campaign)
    if "random" in campaign.evaluation.baselines:
        policies.append((CandidateKind.RANDOM, 0))
    return policies + [(CandidateKind.RIVAL, index) for index in range(len(campaign.evaluation.rivals))]


def singles(campaign: Campaign) -> list[Actor]:
    """Return every pool model on its own."""
    return [(CandidateKind.SINGLE, index) for index in range(len(campaign.pool))]


def _training(campaign: Campaign, place: int, candidate: int, size: int) -> list[Planned]:
    """Return the episodes of one candidate of the training generation at ``place``, counted from 0.

    REINFORCE's one candidate plays each problem several times, with seeds of their own, and so fewer times more
    problems than the population of a search: it learns from what differs between episodes, not between candidates.
    """
    seed, search = campaign.seed, campaign.search
    alone = search.algorithm is Algorithm.REINFORCE
    plays = campaign.reinforce.plays if alone else 1
    mode = FRESH if alone else search.minibatch
    positions = training_positions(seed, search.minibatch, place, candidate, -(-search.trials // plays), size)
    return [
        Planned(Split.TRAINING, positions[problem], episode_seed(seed, mode, place, candidate + play, problem))
        for problem, play in (divmod(replicate, plays) for replicate in range(search.trials))
    ]


def _measured(campaign: Campaign, purpose: Purpose, size: int) -> list[Planned]:
    """Return a fixed set of problems, as often as they repeat, with the same seeds for every policy measured on it."""
    count, repeats = _measures(campaign)[purpose]
    positions = fixed_positions(campaign.seed, purpose, count, size)
    return [
        Planned(SPLITS[purpose], position, fixed_seed(campaign.seed, purpose, repeat * count + place))
        for repeat in range(repeats)
        for place, position in enumerate(positions)
    ]


def _measures(campaign: Campaign) -> Mapping[Purpose, tuple[int, int]]:
    """Return the problems and repeats of what is measured on a fixed set of each split."""
    return {
        Purpose.TRAINING: (campaign.labels.problems, campaign.labels.repeats),
        Purpose.VALIDATION: (campaign.validation.problems, 1),
        Purpose.EVALUATION: (campaign.evaluation.problems, campaign.evaluation.repeats),
    }
