from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.campaign import HeadKind, HeadSpec, Matrix
from services.core.errors import SpecError
from services.core.labels import Labels, Reviews
from services.core.learners import SupervisedSpec, Targets
from services.core.optimiser.objectives import Likelihood, Objective, SingleTurn, Team, rewards_of_teams
from services.core.optimiser.supervised import chosen_by_folds, fit_head, hard_labels, targets_of
from services.core.policy.layout import Layout
from services.core.problem import ScorerKind
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.statistics.answer_table import AnswerTable

Array = NDArray[np.float64]

LAYOUT = Layout.of(3, [Role.WORKER], 6)
SPEC = SupervisedSpec(rate=0.02, epochs=60)
SINGLE_TURNS = [aim for aim in Targets if aim is not Targets.TEAM]
SOFT = SupervisedSpec(targets=Targets.SOFT)


def labelled(problems: int = 90, repeats: int = 1, seed: int = 0, certain: float = 1.0) -> Labels:
    """Problems of three kinds, each with one model that answers it; units of very different size."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, problems)
    centres = np.random.default_rng(77).standard_normal((3, 6))
    states = (centres[kinds] + 0.1 * rng.standard_normal((problems, 6))) * np.logspace(-2, 2, 6)
    chances = np.where(np.eye(3)[kinds] == 1, certain, 1 - certain)
    rewards = (rng.random((problems, 3, repeats)) < chances[:, :, np.newaxis]).astype(np.float64)
    return Labels(states, rewards, ["all"] * problems, [[None] * 3] * problems)


def value(theta: Array, labels: Labels) -> float:
    """The share of problems that go to a model which answers them."""
    return float(AnswerTable(labels.states, labels.means).choices(theta.reshape(3, 6)).mean())


@pytest.mark.parametrize("aim", SINGLE_TURNS)
def test_it_learns_to_route(aim: Targets) -> None:
    theta = fit_head(labelled(), LAYOUT, replace(SPEC, targets=aim), 1)
    assert value(theta, labelled(500, seed=9)) == 1.0


@pytest.mark.parametrize("aim", SINGLE_TURNS)
def test_uncertain_labels_lead_to_the_better_model(aim: Targets) -> None:
    theta = fit_head(labelled(300, 3, certain=0.8), LAYOUT, replace(SPEC, targets=aim), 1)
    assert value(theta, labelled(500, seed=9)) > 0.97


def test_the_same_seed_gives_the_same_head() -> None:
    labels = labelled(60, 3, certain=0.7)
    one, two = (fit_head(labels, LAYOUT, replace(SPEC, targets=Targets.HARD), 5) for _ in range(2))
    assert one.tobytes() == two.tobytes()


def test_only_the_agents_rows_are_fitted() -> None:
    layout = Layout((0, 2), ROLE_ORDER, 6, (Matrix("layers.0.self_attn.q_proj", 4),))
    theta = fit_head(labelled(), layout, SPEC, 1)
    assert theta.shape == (4 + 5 * 6,)
    assert not theta[:4].any()
    assert theta[4:16].any()
    assert not theta[16:].any()


def test_the_papers_labels() -> None:
    """Per repeat the best model, then the majority; both ties are drawn."""
    rewards = np.array([[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]])
    assert hard_labels(rewards, np.random.default_rng(0)).tolist() == [0, 1]
    tied = np.zeros((4000, 4, 1))
    counts = np.bincount(hard_labels(tied, np.random.default_rng(0)), minlength=4)
    assert counts == pytest.approx(1000, abs=120)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_a_label_is_best_in_as_many_repeats_as_any_other(seed: int, repeats: int, models: int) -> None:
    rewards = np.random.default_rng(seed).random((20, models, repeats))  # no ties within a repeat
    votes = np.stack([(rewards.argmax(axis=1) == model).sum(axis=1) for model in range(models)], axis=1)
    chosen = hard_labels(rewards, np.random.default_rng(seed + 1))
    assert (votes[np.arange(20), chosen] == votes.max(axis=1)).all()


def test_soft_targets_are_the_softmax_of_mean_rewards() -> None:
    rewards = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    odds = np.exp(0.5 / 0.25)
    np.testing.assert_allclose(
        targets_of(rewards, replace(SOFT, temperature=0.25), 0), [[odds / (odds + 1), 1 / (odds + 1)]]
    )


def objectives(seed: int) -> list[Objective]:
    """One of each kind: five problems, two models, states of width 3."""
    rng = np.random.default_rng(seed)
    states, rewards = rng.standard_normal((5, 3)), rng.random((5, 2))
    targets = rng.dirichlet(np.ones(2), 5)
    answered, rejected = rng.standard_normal((2, 5, 2, 3))
    return [
        Likelihood(states, targets),
        SingleTurn(states, rewards),
        Team(states, rng.random((5, 2, 2, 2)), answered, rejected),
    ]


@given(st.integers(0, 10_000), st.integers(0, 2))
@settings(max_examples=30, deadline=None)
def test_the_slope_is_that_of_finite_differences(seed: int, kind: int) -> None:
    objective = objectives(seed)[kind]
    weights = np.random.default_rng(seed + 1).standard_normal(objective.shape)
    found, step = objective.slope(weights), 1e-6
    for place in np.ndindex(weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = step
        ahead, behind = (objective.loss(weights + sign * moved) for sign in (1, -1))
        assert found[place] == pytest.approx(-(ahead - behind) / (2 * step), abs=1e-7)


@given(st.integers(0, 10_000), st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_a_loss_is_the_mean_of_those_of_its_problems(seed: int, kind: int) -> None:
    objective = objectives(seed)[kind]
    weights = np.random.default_rng(seed + 1).standard_normal(objective.shape)
    each = [objective.rows(np.array([place])).loss(weights) for place in range(objective.problems)]
    assert objective.loss(weights) == pytest.approx(np.mean(each))


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_teams_loss_is_the_sum_over_all_that_may_be_drawn(seed: int) -> None:
    team = objectives(seed)[2]
    assert isinstance(team, Team)
    weights = np.random.default_rng(seed + 1).standard_normal(team.shape)

    def chances(state: Array) -> Array:
        odds: Array = np.exp(weights @ state)
        shares: Array = odds / odds.sum()
        return shares

    worth: float = 0.0
    for problem, first, verifier, second in np.ndindex(5, 2, 2, 2):
        chance = (
            chances(team.states[problem])[first]
            * chances(team.answered[problem, first])[verifier]
            * chances(team.rejected[problem, first])[second]
        )
        worth += float(chance * team.goals[problem, first, verifier, second] / 5)
    assert -team.loss(weights) == pytest.approx(worth)


def test_what_a_team_is_worth() -> None:
    rewards, agree = np.array([[1.0, 0.25]]), np.array([[[True, False], [False, True]]])
    assert rewards_of_teams(rewards, agree).tolist() == [[[[1.0, 1.0], [1.0, 0.25]], [[1.0, 0.25], [0.25, 0.25]]]]


@given(st.integers(0, 10_000), st.integers(0, 2), st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_shrinking_keeps_the_mean_of_a_family_and_takes_its_share_of_the_differences(
    seed: int, kind: int, share: float
) -> None:
    objective, families = objectives(seed)[kind], np.array([0, 0, 2, 2, 2])
    goals = objective.shrunk(families, share).goals
    for family in (0, 2):
        before, after = objective.goals[families == family], goals[families == family]
        np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0))
        np.testing.assert_allclose(after - after.mean(axis=0), (1 - share) * (before - before.mean(axis=0)), atol=1e-12)


def test_labels_that_say_nothing_stop_the_fit_early() -> None:
    rng = np.random.default_rng(0)
    noise = Likelihood(rng.standard_normal((60, 40)), np.eye(3)[rng.integers(0, 3, 60)])
    states = rng.standard_normal((600, 40))
    signal = Likelihood(states, np.eye(3)[states[:, :3].argmax(axis=1)])
    spec = SupervisedSpec(rate=0.02, epochs=40)

    def chosen(objective: Objective, spec: SupervisedSpec) -> tuple[float, int]:
        return chosen_by_folds(objective, np.zeros(objective.problems, np.intp), spec, 1)

    assert chosen(noise, spec)[1] < 3
    share, epochs = chosen(signal, spec)
    assert share == 0.0, "all there is to learn differs within the family"
    assert epochs > 10
    assert chosen(signal, replace(spec, folds=1)) == (0.0, 40)
    assert chosen(signal.rows(np.arange(1)), spec) == (0.0, 40)


def test_what_is_the_familys_is_learnt_from_the_family() -> None:
    """Rewards are coins whose odds depend on the family, which the state tells; own rewards of a problem are noise."""
    rng = np.random.default_rng(3)
    families = rng.integers(0, 2, 200)
    states = np.concatenate([np.eye(2)[families], rng.standard_normal((200, 60))], axis=1)
    odds = np.array([[0.6, 0.4], [0.4, 0.6]])[families]
    noisy = SingleTurn(states, (rng.random((200, 2)) < odds).astype(np.float64))
    share, _ = chosen_by_folds(noisy, families, SupervisedSpec(rate=0.01, epochs=40), 1)
    assert share > 0


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(SpecError, match=r"head\.kind: got 'sparse', wanted linear"):
        fit_head(labelled(), replace(LAYOUT, spec=HeadSpec(HeadKind.SPARSE)), SPEC, 1)
    with pytest.raises(ValueError, match="width 6"):
        fit_head(labelled(), replace(LAYOUT, hidden=7), SPEC, 1)
    with pytest.raises(ValueError, match="3 models"):
        fit_head(labelled(), Layout.of(4, [Role.WORKER], 6), SPEC, 1)


def reviewed(problems: int = 90, seed: int = 0) -> Labels:
    """Problems of two kinds that nobody can tell apart; models 0 and 1 are right on one kind alone, 2 on the other.

    Wrong answers differ. Nobody alone is right on more than half, but 1 finds all mistakes of 0, and 2 mends them.
    """
    rng = np.random.default_rng(seed)
    kinds = np.arange(problems) % 2
    states = 0.05 * rng.standard_normal((3, problems, 3, 6))
    states += np.eye(3, 6)[:, np.newaxis, np.newaxis]  # a unit for each turn
    rewards = np.stack([kinds == 0, kinds == 0, kinds == 1], axis=1).astype(np.float64)
    answers = [["right" if right else f"wrong {model}" for model, right in enumerate(row)] for row in rewards]
    answered, rejected = states[1].astype(np.float32), states[2].astype(np.float32)
    reviews = Reviews(answered, rejected, [ScorerKind.EXACT] * problems)
    return Labels(states[0, :, 0], rewards[:, :, np.newaxis], ["all"] * problems, answers, reviews)


def test_a_team_learns_who_is_next_and_in_which_role() -> None:
    theta = fit_head(reviewed(), Layout.of(3, ROLE_ORDER, 6), replace(SPEC, targets=Targets.TEAM), 1).reshape(6, 6)
    fresh = reviewed(300, seed=9)
    assert fresh.reviews is not None
    turns = (fresh.states, fresh.reviews.answered[:, 0], fresh.reviews.rejected[:, 0])
    roles = [{ROLE_ORDER[place] for place in (turn @ theta[3:].T).argmax(axis=1)} for turn in turns]
    assert roles == [{Role.WORKER}, {Role.VERIFIER}, {Role.WORKER}]
    first, verifier, second = ((turn @ theta[:3].T).argmax(axis=1) for turn in turns)
    accepted = fresh.agreement()[np.arange(300), first, verifier]
    assert fresh.means[np.arange(300), np.where(accepted, first, second)].mean() == 1.0


def test_a_team_of_those_that_have_a_row() -> None:
    layout = Layout((0, 2), ROLE_ORDER, 6)
    theta = fit_head(reviewed(), layout, replace(SPEC, targets=Targets.TEAM), 1)
    assert theta.shape == (5 * 6,)


def test_a_team_needs_reviews() -> None:
    with pytest.raises(ValueError, match="labels without reviews"):
        fit_head(labelled(), Layout.of(3, ROLE_ORDER, 6), replace(SPEC, targets=Targets.TEAM), 1)


def test_no_answer_agrees_with_none() -> None:
    unread = np.zeros((1, 3, 6), dtype=np.float32)
    reviews = Reviews(unread, unread, [ScorerKind.NUMERIC])
    labels = Labels(np.zeros((1, 6)), np.zeros((1, 3, 1)), ["all"], [["7", "7.0", None]], reviews)
    assert labels.agreement().tolist() == [[[True, True, False], [True, True, False], [False, False, False]]]
