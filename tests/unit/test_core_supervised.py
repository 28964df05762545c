from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.campaign import HeadKind, HeadSpec, Matrix
from services.core.errors import SpecError
from services.core.labels import Labels
from services.core.learners import SupervisedSpec, Targets
from services.core.optimiser.supervised import Examples, epochs_of, fit_head, goals_of, hard_labels
from services.core.policy.layout import Layout
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.statistics.answer_table import AnswerTable

Array = NDArray[np.float64]

LAYOUT = Layout.of(3, [Role.WORKER], 6)
SPEC = SupervisedSpec(rate=0.02, epochs=60)
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


@pytest.mark.parametrize("aim", list(Targets))
def test_it_learns_to_route(aim: Targets) -> None:
    theta = fit_head(labelled(), LAYOUT, replace(SPEC, targets=aim), 1)
    assert value(theta, labelled(500, seed=9)) == 1.0


@pytest.mark.parametrize("aim", list(Targets))
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


def test_goals_may_be_the_mean_rewards() -> None:
    rewards = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    assert goals_of(rewards, SupervisedSpec(), 0).tolist() == [[0.5, 0.0]]


def test_soft_targets_are_the_softmax_of_mean_rewards() -> None:
    rewards = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    odds = np.exp(0.5 / 0.25)
    np.testing.assert_allclose(
        goals_of(rewards, replace(SOFT, temperature=0.25), 0), [[odds / (odds + 1), 1 / (odds + 1)]]
    )


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_slope_is_that_of_finite_differences(seed: int, rewarded: bool) -> None:
    rng = np.random.default_rng(seed)
    examples = Examples(rng.standard_normal((5, 3)), rng.dirichlet(np.ones(2), 5), rewarded)
    weights = rng.standard_normal((2, 3))
    found, step = examples.slope(weights), 1e-6
    for place in np.ndindex(weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = step
        ahead, behind = (examples.loss(weights + sign * moved) for sign in (1, -1))
        assert found[place] == pytest.approx(-(ahead - behind) / (2 * step), abs=1e-7)


def test_labels_that_say_nothing_stop_the_fit_early() -> None:
    rng = np.random.default_rng(0)
    noise = Examples(rng.standard_normal((60, 40)), np.eye(3)[rng.integers(0, 3, 60)])
    states = rng.standard_normal((600, 40))
    signal = Examples(states, np.eye(3)[states[:, :3].argmax(axis=1)])
    spec = SupervisedSpec(rate=0.02, epochs=40)
    assert epochs_of(noise, spec, 1) < 3
    assert epochs_of(signal, spec, 1) > 10
    assert epochs_of(signal, replace(spec, folds=1), 1) == 40
    assert epochs_of(signal.rows(np.arange(1)), spec, 1) == 40


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(SpecError, match=r"head\.kind: got 'sparse', wanted linear"):
        fit_head(labelled(), replace(LAYOUT, spec=HeadSpec(HeadKind.SPARSE)), SPEC, 1)
    with pytest.raises(ValueError, match="width 6"):
        fit_head(labelled(), replace(LAYOUT, hidden=7), SPEC, 1)
    with pytest.raises(ValueError, match="3 models"):
        fit_head(labelled(), Layout.of(4, [Role.WORKER], 6), SPEC, 1)
