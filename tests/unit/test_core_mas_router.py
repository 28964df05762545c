from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.baselines import mas_router
from services.core.baselines.adam import Adam
from services.core.baselines.cascade import Actions, Cascade
from services.core.baselines.mas_router import MasRouterPolicy, Settings, Trial
from services.core.baselines.modes import Mode, Schedule, given_roles, playable
from services.core.errors import LayoutMismatch
from services.core.protocol.roles import Role

SMALL = Cascade(models=3, hidden=4, most_agents=3)
SEEDS = st.integers(0, 10**6)


def drawn(cascade: Cascade, seed: int, count: int) -> tuple[np.ndarray, np.ndarray, list[Actions]]:
    rng = np.random.default_rng(seed)
    parameters = 2 * cascade.first(rng) + 0.1 * rng.standard_normal(cascade.size)
    states = rng.standard_normal((count, cascade.hidden))
    blocks = cascade.blocks(parameters)
    return parameters, states, [cascade.sample(blocks, state, rng) for state in states]


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    parameters, states, chosen = drawn(SMALL, seed, 4)
    rng = np.random.default_rng(seed + 1)
    weights, direction = rng.standard_normal(4), rng.standard_normal(SMALL.size)

    def value(point: np.ndarray) -> float:
        return float(SMALL.score(SMALL.blocks(point), states, chosen, weights)[0] @ weights)

    slope = (value(parameters + 1e-6 * direction) - value(parameters - 1e-6 * direction)) / 2e-6
    found = SMALL.score(SMALL.blocks(parameters), states, chosen, weights)[1]
    assert found @ direction == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_the_probabilities_of_all_cascades_sum_to_one_and_are_those_of_the_draws() -> None:
    cascade = Cascade(2, 3, (Mode.IO, Mode.CHAIN, Mode.DEBATE), (Role.WORKER, Role.THINKER), 2)
    parameters, states, _ = drawn(cascade, 3, 1)
    blocks, state = cascade.blocks(parameters), states[0]
    every = [Actions(0, (), (m,)) for m in range(2)]
    every += [Actions(1, (r,), (m,)) for r in range(2) for m in range(2)]
    pairs = [(a, b) for a in range(2) for b in range(2)]
    every += [Actions(1, roles, models) for roles in pairs for models in pairs]
    every += [Actions(2, (), (m,)) for m in range(2)] + [Actions(2, (), models) for models in pairs]
    logs = cascade.score(blocks, np.tile(state, (len(every), 1)), every, np.zeros(len(every)))[0]
    assert np.exp(logs).sum() == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    counts = Counter(cascade.sample(blocks, state, rng) for _ in range(6000))
    for actions, log in zip(every, logs, strict=True):
        assert counts[actions] / 6000 == pytest.approx(np.exp(log), abs=0.025)


def test_the_same_generator_gives_the_same_schedule() -> None:
    parameters = np.concatenate([np.zeros(4), np.ones(4), SMALL.first(np.random.default_rng(1))])
    policy = MasRouterPolicy(parameters.astype(np.float32), SMALL)
    state = np.array([0.3, -1.0, 2.0, 0.1])
    first = [policy.sample(state, np.random.default_rng(seed)) for seed in range(50)]
    assert first == [policy.sample(state, np.random.default_rng(seed)) for seed in range(50)]
    assert len(set(first)) > 10
    assert policy.likeliest(state) == policy.likeliest(state)


def test_an_update_is_a_pure_function_that_makes_what_paid_likelier() -> None:
    parameters, states, _ = drawn(SMALL, 5, 1)
    good, bad = Actions(0, (), (2,)), Actions(0, (), (1,))
    trials = [Trial(states[0], good, 1.0, 0.0), Trial(states[0], bad, 0.0, 0.0)]
    before = Adam.start(parameters)
    first, again = (mas_router.update(SMALL, before, trials, Settings()) for _ in range(2))
    np.testing.assert_array_equal(first.point, again.point)
    np.testing.assert_array_equal(before.point, parameters)

    def logs(point: np.ndarray) -> np.ndarray:
        return SMALL.score(SMALL.blocks(point), np.tile(states[0], (2, 1)), [good, bad], np.zeros(2))[0]

    assert logs(first.point)[0] > logs(parameters)[0]
    assert logs(first.point)[1] < logs(parameters)[1]


def test_equal_utilities_change_nothing_and_cost_counts_at_its_rate() -> None:
    parameters, states, chosen = drawn(SMALL, 6, 2)
    dear = [Trial(states[0], chosen[0], 1.0, 0.01), Trial(states[1], chosen[1], 0.0, 0.0)]
    found = mas_router.update(SMALL, Adam.start(parameters), dear, Settings(cost_rate=100.0))
    np.testing.assert_allclose(found.point, parameters, atol=1e-12)
    cheap = mas_router.update(SMALL, Adam.start(parameters), dear, Settings(cost_rate=0.0))
    assert np.abs(cheap.point - parameters).max() > 1e-3


def outcome_of(groups: np.ndarray, price: float) -> mas_router.Outcome:
    """Group 0: model 1 alone is right. Group 1: only model 0 with a review by model 2 is; every turn has a price."""

    def outcome(problem: int, turns: Schedule) -> tuple[float, float]:
        roles = [turn.role for turn in turns]
        models = [turn.agent for turn in turns]
        if groups[problem] == 0:
            return float(models[-1] == 1), price * len(turns)
        reviewed = Role.VERIFIER in roles and models[roles.index(Role.VERIFIER)] == 2
        return float(models[-1] == 0 and reviewed), price * len(turns)

    return outcome


def earned(parameters: np.ndarray, states: np.ndarray, groups: np.ndarray, price: float) -> tuple[float, float]:
    policy = MasRouterPolicy(parameters.astype(np.float32), SMALL)
    outcome = outcome_of(groups, price)
    found = [outcome(place, policy.likeliest(state)) for place, state in enumerate(states)]
    rewards, costs = np.array(found).T
    return float(rewards.mean()), float(costs.mean())


def test_training_over_outcomes_finds_the_team_that_each_group_needs() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=200)
    states = rng.standard_normal((200, 4)) + np.outer(2 * groups - 1, [3, 0, -3, 0])
    chosen = replace(Settings(), cost_rate=0.0)
    parameters = mas_router.train(SMALL, states, outcome_of(groups, 1.0), 1, chosen)
    assert earned(parameters, states, groups, 1.0)[0] > 0.9


def test_a_price_on_turns_makes_teams_smaller() -> None:
    rng = np.random.default_rng(1)
    groups = rng.integers(2, size=160)
    states = rng.standard_normal((160, 4)) + np.outer(2 * groups - 1, [3, 0, -3, 0])
    costs = []
    for rate in (0.0, 1.0):
        chosen = replace(Settings(), cost_rate=rate)
        parameters = mas_router.train(SMALL, states, outcome_of(groups, 0.5), 1, chosen)
        costs.append(earned(parameters, states, groups, 0.5)[1])
    assert costs[1] < 0.6 < costs[0]  # about one turn each: what a review adds is worth less than its price


def test_a_cascade_has_no_mode_whose_roles_are_missing() -> None:
    assert playable({Role.WORKER}) == (Mode.IO, Mode.CHAIN, Mode.FULL_CONNECTED, Mode.DEBATE)
    assert playable(set(Role)) == tuple(Mode)
    assert Mode.COT not in playable({Role.WORKER, Role.VERIFIER})


def test_a_cascade_whose_agents_may_not_have_the_roles_of_its_modes_is_refused() -> None:
    for modes, roles in (((Mode.COT,), (Role.WORKER,)), ((Mode.IO,), (Role.THINKER,))):
        with pytest.raises(ValueError, match="do not do"):
            Cascade(2, 2, modes, roles)
    with pytest.raises(ValueError, match="choose"):
        given_roles(Mode.CHAIN, 2)


def test_parameters_of_another_cascade_are_refused() -> None:
    with pytest.raises(LayoutMismatch):
        MasRouterPolicy(np.zeros(8 + SMALL.size), replace(SMALL, modes=(Mode.IO,)))
