from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.optimiser.random_search import RandomSearch

Array = NDArray[np.float64]

# Rewards in sixteenths, three candidates, up to six generations.
HISTORIES = st.lists(st.lists(st.integers(0, 16), min_size=3, max_size=3), max_size=6)


def told(search: RandomSearch, history: list[list[int]]) -> RandomSearch:
    for levels in history:
        search.tell(np.array(levels) / 16)
    return search


def test_samples_fill_the_papers_box_around_the_start() -> None:
    population = RandomSearch(1, 20_000, 32).ask()
    assert population.shape == (32, 20_000)
    assert np.abs(population).max() <= 0.5
    assert population.std() == pytest.approx(0.5 / math.sqrt(3), rel=0.01)
    assert population.mean() == pytest.approx(0, abs=0.002)
    start = np.full(20_000, 7.0)
    moved = RandomSearch(1, 20_000, 32, 0.1, start).ask()
    assert np.abs(moved - 7).max() <= 0.1
    assert RandomSearch(1, 20_000, 32, 0.1, start).sigma == pytest.approx((moved - 7).std(), rel=0.01)


def test_every_generation_and_every_seed_has_vectors_of_its_own() -> None:
    one, other = RandomSearch(1, 50, 4), RandomSearch(2, 50, 4)
    first = one.ask()
    one.tell(np.zeros(4))
    vectors = np.concatenate([first, one.ask(), other.ask()])
    assert len(np.unique(vectors, axis=0)) == 12


@given(HISTORIES, st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_the_same_seed_and_history_give_the_same_bits(history: list[list[int]], seed: int) -> None:
    """One search is asked before every ``tell`` and thrown away in the middle, as a scheduler may be; one never is."""
    start = np.linspace(-1, 1, 9)
    asked = RandomSearch(seed, 9, 3, 0.5, start)
    for place, levels in enumerate(history):
        before = asked.checksum()
        first = asked.ask()
        first[:] = 7  # a caller's scribbling must not reach the search
        assert asked.ask().tobytes() == told(RandomSearch(seed, 9, 3, 0.5, start), history[:place]).ask().tobytes()
        assert asked.checksum() == before
        asked.tell(np.array(levels) / 16)
        assert asked.checksum() != before
    rebuilt = told(RandomSearch(seed, 9, 3, 0.5, start), history)
    assert (rebuilt.generation, rebuilt.checksum()) == (len(history), asked.checksum())
    assert rebuilt.mean.tobytes() == asked.mean.tobytes()
    assert rebuilt.ask().tobytes() == asked.ask().tobytes()


@given(HISTORIES)
@settings(max_examples=60, deadline=None)
def test_the_mean_is_the_vector_with_the_largest_excess_over_its_generation(history: list[list[int]]) -> None:
    search = RandomSearch(3, 6, 3)
    seen: list[tuple[float, Array]] = [(-math.inf, np.zeros(6))]
    for levels in history:
        fitness = np.array(levels) / 16
        population = search.ask()
        seen += [(value - fitness.mean(), vector) for value, vector in zip(fitness, population, strict=True)]
        search.tell(fitness)
    best = max(excess for excess, _ in seen)
    assert search.excess == pytest.approx(best, abs=1e-12) or not history
    assert any(np.array_equal(search.mean, vector) for excess, vector in seen if excess >= best - 1e-12)


def test_an_easy_minibatch_makes_no_champion() -> None:
    search = RandomSearch(3, 6, 3)
    hard = search.ask()
    search.tell(np.array([0.1, 0.5, 0.1]))
    search.tell(np.array([0.9, 1.0, 0.9]))
    np.testing.assert_array_equal(search.mean, hard[1])


def test_before_the_first_tell_the_centre_stands_in() -> None:
    start = np.arange(4.0)
    search = RandomSearch(1, 4, 3, 0.5, start)
    np.testing.assert_array_equal(search.mean, start)
    search.mean[:] = 9
    np.testing.assert_array_equal(search.mean, start)


@pytest.mark.parametrize("change", [{"seed": 2}, {"population": 4}, {"half_width": 0.4}, {"start": np.ones(5)}])
def test_another_search_is_noticed_at_the_first_checksum(change: dict[str, object]) -> None:
    usual: dict[str, Any] = {"seed": 1, "dimension": 5, "population": 3, "half_width": 0.5, "start": None}
    assert RandomSearch(**usual).checksum() != RandomSearch(**usual | change).checksum()


@pytest.mark.parametrize("fitness", [np.zeros(2), np.zeros((3, 1)), np.array([0, 1, np.nan]), np.array([0, 1, "x"])])
def test_unfit_fitness_is_refused_and_leaves_no_trace(fitness: Array) -> None:
    search = RandomSearch(2, 5, 3)
    before, asked = search.checksum(), search.ask()
    with pytest.raises(ValueError, match="fitness"):
        search.tell(fitness)
    assert (search.checksum(), search.generation) == (before, 0)
    np.testing.assert_array_equal(search.ask(), asked)


@pytest.mark.parametrize(
    ("n", "population", "half_width", "start"),
    [(0, 3, 0.5, None), (5, 1, 0.5, None), (5, 3, 0.0, None), (5, 3, math.inf, None), (5, 3, 0.5, np.zeros(4))],
)
def test_impossible_searches_are_refused(n: int, population: int, half_width: float, start: Array | None) -> None:
    with pytest.raises(ValueError, match="wanted"):
        RandomSearch(1, n, population, half_width, start)


def test_it_finds_the_better_half_of_a_clear_case() -> None:
    """Reward is certain where the first coordinate is positive: any champion but the centre must be there."""
    search = RandomSearch(5, 10, 8)
    for _ in range(4):
        search.tell((search.ask()[:, 0] > 0).astype(np.float64))
    assert search.mean[0] > 0
