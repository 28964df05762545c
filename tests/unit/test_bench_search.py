"""The objectives that searches are compared on, and how they are compared."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import search_adaptive, search_levers
from bench.search_adaptive import RULES, UNIFORM, Rule
from bench.search_objectives import KINDS, BlockSeparable, Common, SyntheticHead
from bench.search_report import compared
from bench.search_runs import settings_for

SHARED = Path(__file__).resolve().parents[3] / "shared" / "search" / "objectives.py"
N = 400


@pytest.fixture(scope="module")
def published() -> Any:
    """Return the definition that others measure by; it is no part of the product."""
    if not SHARED.is_file():
        pytest.skip(f"{SHARED} is not there: nothing to compare the objectives with")
    spec = importlib.util.spec_from_file_location("published_objectives", SHARED)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_block_separable_objective_is_the_published_one(published: Any, seed: int) -> None:
    own, other = BlockSeparable(N, seed), published.BlockSeparable(N, seed)
    x = np.random.default_rng(seed).normal(size=(6, N))
    np.testing.assert_array_equal(own.probabilities(x), other.value(x))
    assert own.value(x[0]) == other.value(x)[0]
    noise, again = np.random.default_rng(3), np.random.default_rng(3)
    np.testing.assert_array_equal(own.fitness(x, 16, noise, Common.NOTHING), other.evaluate(x, 16, again))


@pytest.mark.parametrize("common", [Common.NOTHING, Common.STATES])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_head_objective_is_the_published_one(published: Any, seed: int, common: Common) -> None:
    own, other = SyntheticHead(N, seed), published.SyntheticHead(N, seed)
    x = np.random.default_rng(seed).normal(size=(6, N))
    assert own.value(x[0]) == other.value(x[0])
    noise, again = np.random.default_rng(3), np.random.default_rng(3)
    rewards = other.evaluate(x, 16, again, common is Common.STATES)
    np.testing.assert_array_equal(own.fitness(x, 16, noise, common), rewards)


def test_with_seeds_in_common_equal_candidates_choose_alike() -> None:
    objective = SyntheticHead(N, 0)
    luck = np.random.default_rng(1)
    context, states = objective.states(luck, 200)
    numbers = luck.random((2, 3, 200))
    x = np.random.default_rng(2).normal(size=(1, N)) * 0.1
    (agent, role), _ = objective.play(np.repeat(x, 2, axis=0), context, states, numbers)
    assert not np.array_equal(agent[0], agent[1])
    numbers[1, :2] = numbers[0, :2]
    (agent, role), _ = objective.play(np.repeat(x, 2, axis=0), context, states, numbers)
    np.testing.assert_array_equal(agent[0], agent[1])
    np.testing.assert_array_equal(role[0], role[1])


@pytest.mark.parametrize("kind", [BlockSeparable, SyntheticHead])
def test_validation_estimates_what_is_played_and_scores_a_vector_always_alike(
    kind: type[BlockSeparable] | type[SyntheticHead],
) -> None:
    objective = kind(N, 2)
    x = np.random.default_rng(5).normal(size=N) * 0.3
    score = objective.validation(20_000, np.random.default_rng(0))
    assert score(x) == score(x) == pytest.approx(objective.played(x), abs=0.015)


def test_a_rule_counts_what_it_draws_and_ranks_the_dropped_below_the_rest() -> None:
    objective = BlockSeparable(N, 0)
    samples = np.random.default_rng(0).normal(size=(32, N))
    for name, draws in {
        UNIFORM: 32 * 16,
        "11 replicates for all": 32 * 11,
        "4, 8, 16: keep 24, 16": 32 * 4 + 24 * 4 + 16 * 8,
        "4, 16: keep 16": 32 * 4 + 16 * 12,
        "4, 8, 16: keep 16, 8": 32 * 4 + 16 * 4 + 8 * 8,
    }.items():
        told, drawn = search_adaptive.fitness(objective, samples, RULES[name], np.random.default_rng(1))
        assert drawn == draws
        last = len(RULES[name].rounds) - 1
        assert (told >= last).sum() == (RULES[name].keep[-1] if last else 32)
        assert told.shape == (32,)


def test_a_margin_drops_the_clearly_worse_alone() -> None:
    """Two candidates that never succeed among thirty that always do, with room for sixteen: the thirty stay."""

    class Certain(BlockSeparable):
        def fitness(self, x: Any, replicates: int, noise: np.random.Generator, common: Common) -> Any:
            return (x[:, 0] > 0).astype(float)

    samples = np.ones((32, N))
    samples[:2, 0] = -1
    rule = Rule((4, 8), (16,), 1.0)
    told, draws = search_adaptive.fitness(Certain(N, 0), samples, rule, np.random.default_rng(1))
    assert draws == 32 * 4 + 30 * 4
    assert (told >= 1).tolist() == [False, False] + [True] * 30


def test_weights_of_all_ranks_are_as_long_and_sum_to_nothing() -> None:
    log, every = search_levers.log_weights(), search_levers.all_ranks()
    assert log.sum() == pytest.approx(1)
    assert not log[16:].any()
    assert every.sum() == pytest.approx(0, abs=1e-12)
    assert (every**2).sum() == pytest.approx((log**2).sum())


def test_levers_change_one_thing_of_the_recommended_settings() -> None:
    names = [name for name, _ in search_levers.changes(SyntheticHead(N, 0))]
    assert names[0] == search_levers.DEFAULT
    assert len(names) == len(set(names)) == 15
    assert settings_for(SyntheticHead(N, 0)).sigma0 == 0.5
    assert settings_for(BlockSeparable(N, 0)).sigma0 == 0.3


def test_every_figure_of_a_small_comparison() -> None:
    result = compared([0], N, KINDS)
    assert {"block_separable_j", "head_j", "reported_minus_true", "rivals"} <= set(result)
    assert result["block_separable_j"] > 0.8, "400 dimensions are easier than 10,240"
    assert {"pycma", "random search"} <= set(result["rivals"]["block_separable"])
    assert result["rivals"]["head"]["reinforce"]["mean"] > result["rivals"]["head"]["random search"]["mean"]
