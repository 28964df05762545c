from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import Algorithm, Campaign, EvaluationSpec, LabelsSpec
from services.core.composition import MEAN, Actor, Planned, candidates_of, planned_episodes, wanted_episodes
from services.core.learners import ReinforceSpec
from services.core.problem import Split
from services.core.rivals import RivalKind, RivalSpec
from services.core.states import CandidateKind, GenerationKind, Purpose
from tests.support.campaigns import small_campaign

SIZES = {Split.TRAINING: 6, Split.VALIDATION: 2, Split.HELDOUT: 3}
RIVALS = (RivalSpec(RivalKind.MAJORITY, "ada"), RivalSpec(RivalKind.LOOKUP))


def campaign_of(algorithm: Algorithm, minibatch: str = "common", labelled: int = 4, repeats: int = 2) -> Campaign:
    plain = small_campaign(labels=LabelsSpec(labelled, repeats), evaluation=EvaluationSpec(3, rivals=RIVALS, repeats=2))
    return replace(plain, search=replace(plain.search, algorithm=algorithm, minibatch=minibatch))


@given(
    st.sampled_from(Algorithm),
    st.sampled_from(["common", "fresh"]),
    st.sampled_from(GenerationKind),
    st.integers(0, 20),
    st.integers(0, 5),
)
def test_the_plan_has_what_is_wanted(
    algorithm: Algorithm, minibatch: str, kind: GenerationKind, number: int, labelled: int
) -> None:
    campaign = campaign_of(algorithm, minibatch, labelled)
    number = max(number, campaign.first_training)
    wanted = wanted_episodes(campaign, kind, number)
    planned = planned_episodes(campaign, kind, number, SIZES)
    assert list(planned) == [(key, replicate) for key, count in wanted.items() for replicate in range(count)]
    assert all(0 <= episode.position < SIZES[episode.split] for episode in planned.values())
    assert candidates_of(campaign, kind, number) == list(dict.fromkeys(key[:2] for key in wanted))


def test_every_learner_trains_on_as_many_episodes() -> None:
    for algorithm in (Algorithm.SEP_CMA_ES, Algorithm.RANDOM_SEARCH, Algorithm.REINFORCE):
        wanted = wanted_episodes(campaign_of(algorithm), GenerationKind.TRAINING, 1)
        assert sum(count for key, count in wanted.items() if key[2] is Purpose.TRAINING) == 12


@pytest.mark.parametrize("minibatch", ["common", "fresh"])
@pytest.mark.parametrize("plays", [1, 2, 5])
def test_reinforce_plays_each_problem_so_often_with_seeds_of_their_own(plays: int, minibatch: str) -> None:
    campaign = replace(campaign_of(Algorithm.REINFORCE, minibatch), reinforce=ReinforceSpec(plays=plays))
    planned = planned_episodes(campaign, GenerationKind.TRAINING, 1, SIZES)
    episodes = [episode for (key, _), episode in planned.items() if key[2] is Purpose.TRAINING]
    assert len({episode.seed for episode in episodes}) == len(episodes) == 12
    groups = [episodes[begin : begin + plays] for begin in range(0, 12, plays)]
    assert all(len({episode.position for episode in group}) == 1 for group in groups)
    if minibatch == "common":
        seen = [group[0].position for group in groups]
        assert len(set(seen)) == min(len(groups), SIZES[Split.TRAINING])


def test_labelling_moves_training_by_one_generation_and_changes_nothing_else() -> None:
    plain, labelled = campaign_of(Algorithm.SEP_CMA_ES, labelled=0), campaign_of(Algorithm.SEP_CMA_ES)
    for place in range(3):
        first = planned_episodes(plain, GenerationKind.TRAINING, place, SIZES)
        assert planned_episodes(labelled, GenerationKind.TRAINING, place + 1, SIZES) == first


def test_all_models_label_the_same_problems_with_the_same_seeds() -> None:
    planned = planned_episodes(campaign_of(Algorithm.SFT), GenerationKind.LABELLING, 0, SIZES)
    models = [[episode for (key, _), episode in planned.items() if key[1] == model] for model in range(2)]
    assert models[0] == models[1]
    assert [episode.position for episode in models[0][:4]] == [episode.position for episode in models[0][4:]]
    assert len({episode.position for episode in models[0]}) == 4
    assert len({episode.seed for episode in models[0]}) == 8
    assert {key[2] for key, _ in planned} == {Purpose.TRAINING}


def test_rivals_stand_behind_the_baselines_and_every_policy_is_repeated_alike() -> None:
    campaign = campaign_of(Algorithm.SEP_CMA_ES)
    single, rival = CandidateKind.SINGLE, CandidateKind.RIVAL
    assert candidates_of(campaign, GenerationKind.EVALUATION, 4) == [
        MEAN, (single, 0), (single, 1), (CandidateKind.RANDOM, 0), (rival, 0), (rival, 1),
    ]  # fmt: skip
    planned = planned_episodes(campaign, GenerationKind.EVALUATION, 4, SIZES)
    by_actor: dict[Actor, list[Planned]] = {}
    for (key, _), episode in planned.items():
        by_actor.setdefault(key[:2], []).append(episode)
    first, *others = by_actor.values()
    assert all(other == first for other in others)
    assert sorted(episode.position for episode in first) == [0, 0, 1, 1, 2, 2]
    assert len({episode.seed for episode in first}) == 6


def test_more_labels_than_training_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="training wants 7 problems"):
        planned_episodes(campaign_of(Algorithm.SFT, labelled=7), GenerationKind.LABELLING, 0, SIZES)
