from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.closing import Result, result_of
from scheduler.opening import Composition, compose, vectors_of
from services.core.campaign import Campaign
from services.core.fitness import Effort, Incomplete, bonus_of
from services.core.problem import Split
from services.core.states import CandidateKind, EpisodeState, GenerationKind, Purpose
from services.storage.records import Outcome
from tests.support.campaigns import small_campaign

HELDOUT_IDS = [31, 32, 33]
IDS = {Split.TRAINING: [11, 12, 13, 14, 15, 16], Split.VALIDATION: [21, 22], Split.HELDOUT: HELDOUT_IDS}


def composed(campaign: Campaign, kind: GenerationKind, number: int = 0) -> Composition:
    return compose(campaign, kind, number, vectors_of(np.ones((4, 24)), np.zeros(24), {}), IDS)


def test_all_samples_of_a_generation_meet_the_same_problems_with_the_same_seeds() -> None:
    campaign = small_campaign()
    composition = composed(campaign, GenerationKind.TRAINING)
    samples = [episode for episode in composition.episodes if episode.purpose is Purpose.TRAINING]
    assert len(samples) == 12
    by_candidate = [[(e.replicate, e.problem_id, e.seed) for e in samples if e.candidate == c] for c in range(4)]
    assert all(rows == by_candidate[0] for rows in by_candidate)
    assert len({seed for _, _, seed in by_candidate[0]}) == 3


def test_fresh_minibatches_differ_between_samples() -> None:
    campaign = small_campaign()
    campaign = replace(campaign, search=replace(campaign.search, minibatch="fresh"))
    composition = composed(campaign, GenerationKind.TRAINING)
    seeds = [episode.seed for episode in composition.episodes if episode.purpose is Purpose.TRAINING]
    assert len(set(seeds)) == 12


def test_the_mean_is_validated_when_it_is_due() -> None:
    campaign = small_campaign()
    campaign = replace(campaign, validation=replace(campaign.validation, every=2))
    kinds = [
        {candidate.kind for candidate in composed(campaign, GenerationKind.TRAINING, number).candidates}
        for number in range(3)
    ]
    assert kinds == [
        {CandidateKind.SAMPLE, CandidateKind.MEAN},
        {CandidateKind.SAMPLE},
        {CandidateKind.SAMPLE, CandidateKind.MEAN},
    ]


def test_an_evaluation_compares_all_policies_on_the_same_problems() -> None:
    composition = composed(small_campaign(), GenerationKind.EVALUATION)
    assert [candidate.kind for candidate in composition.candidates] == [
        CandidateKind.MEAN,
        CandidateKind.SINGLE,
        CandidateKind.SINGLE,
        CandidateKind.RANDOM,
    ]
    problems = [[e.problem_id for e in composition.episodes if e.candidate == c] for c in range(4)]
    assert sorted(problems[0]) == HELDOUT_IDS
    assert all(row == problems[0] for row in problems)


def test_validation_alone_measures_the_mean() -> None:
    composition = composed(small_campaign(), GenerationKind.VALIDATION)
    assert [candidate.kind for candidate in composition.candidates] == [CandidateKind.MEAN]
    assert len(composition.episodes) == 2


def outcome(
    candidate: int, replicate: int, reward: float | None, kind: CandidateKind = CandidateKind.SAMPLE
) -> Outcome:
    purpose = Purpose.TRAINING if kind is CandidateKind.SAMPLE else Purpose.VALIDATION
    state = EpisodeState.FAILED if reward is None else EpisodeState.SCORED
    return Outcome(kind, candidate, purpose, replicate, 1, state, reward, 1)


def test_fitness_is_the_mean_reward_whatever_the_order() -> None:
    outcomes = [outcome(c, r, float((c + r) % 2)) for c in range(4) for r in range(3)]
    outcomes += [outcome(0, r, 1.0, CandidateKind.MEAN) for r in range(2)]
    first = result_of(small_campaign(), GenerationKind.TRAINING, outcomes, Effort())
    second = result_of(small_campaign(), GenerationKind.TRAINING, outcomes[::-1], Effort())
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    assert first.fitness is not None
    assert second.fitness is not None
    assert first.fitness.tolist() == second.fitness.tolist() == pytest.approx([1 / 3, 2 / 3, 1 / 3, 2 / 3])
    assert first.summary == second.summary
    assert first.summary["mean_score"] == 1.0


@pytest.mark.parametrize("kind", [CandidateKind.SAMPLE, CandidateKind.MEAN])
def test_a_missing_reward_is_never_a_number(kind: CandidateKind) -> None:
    outcomes = [outcome(c, r, 1.0) for c in range(4) for r in range(3)] + [outcome(0, 0, 1.0, CandidateKind.MEAN)]
    outcomes = [
        replace(row, reward=None) if row.candidate_kind is kind and row.replicate == 0 else row for row in outcomes
    ]
    assert isinstance(result_of(small_campaign(), GenerationKind.TRAINING, outcomes, Effort()), Incomplete)


def test_bonuses_count_in_training_and_nowhere_else() -> None:
    campaign = small_campaign()
    shaped = replace(campaign, search=replace(campaign.search, entropy_bonus=0.15, turn_bonus=0.1))
    outcomes = [outcome(c, r, 1.0) for c in range(4) for r in range(3)]
    outcomes += [outcome(0, r, 0.5, CandidateKind.MEAN) for r in range(2)]
    chosen = {0: {0: 3}, 1: {0: 2, 1: 1}, 2: {0: 4, 1: 2}, 3: {1: 6}}
    plain = result_of(campaign, GenerationKind.TRAINING, outcomes, Effort(chosen))
    found = result_of(shaped, GenerationKind.TRAINING, outcomes, Effort(chosen))
    assert isinstance(plain, Result)
    assert isinstance(found, Result)
    assert plain.fitness is not None
    assert found.fitness is not None
    assert plain.fitness.tolist() == [1.0] * 4
    assert found.fitness.tolist() == [1 + bonus_of(chosen[index].values(), shaped) for index in range(4)]
    assert [score.rank for score in found.scores] == [3, 1, 2, 4, None]
    assert found.scores[-1] == plain.scores[-1]
    assert found.summary["mean_score"] == 0.5
