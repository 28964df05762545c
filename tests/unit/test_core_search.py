from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.campaign import StepSize
from services.core.errors import ReplayMismatch
from services.core.optimiser.ports import Search, population_size
from services.core.optimiser.replay import replay
from services.core.optimiser.sep_cma_es import SepCmaEs, library_version

Array = NDArray[np.float64]


def run(search: Search, generations: int, seed: int = 0) -> tuple[list[Array], list[str]]:
    """Tell noisy rewards in sixteenths, with ties, as a campaign would."""
    rng = np.random.default_rng(seed)
    slope = rng.standard_normal(search.dimension)
    vectors, checksums = [], [search.checksum()]
    for _ in range(generations):
        quality = 1 / (1 + np.exp(-(search.ask() @ slope)))
        vectors.append(rng.binomial(16, quality) / 16)
        search.tell(vectors[-1])
        checksums.append(search.checksum())
    return vectors, checksums


@pytest.mark.parametrize(("n", "population"), [(10_000, 32), (10_240, 32), (19_456, 34), (1_728, 27), (1, 4)])
def test_the_papers_population_sizes(n: int, population: int) -> None:
    assert population_size(n) == population


@pytest.mark.parametrize("step_size", list(StepSize))
@pytest.mark.parametrize(("population", "parents", "mu_eff"), [(32, 16, 9.18), (33, 16, 9.44), (34, 17, 9.71)])
def test_the_recombination_weights_are_the_published_ones(
    population: int, parents: int, mu_eff: float, step_size: StepSize
) -> None:
    weights = SepCmaEs(1, 50, population, 0.03, step_size=step_size)._strategy.sp.weights
    assert weights.mu == parents
    assert weights.mueff == pytest.approx(mu_eff, abs=0.005)
    wanted = math.log((population + 1) / 2) - np.log(np.arange(1, parents + 1))
    np.testing.assert_allclose(weights[:parents], wanted / wanted.sum(), rtol=1e-12)


def test_the_model_is_diagonal_and_starts_at_zero() -> None:
    search = SepCmaEs(1, 19_456, 34, 0.03)
    assert type(search._strategy.sm).__name__ == "GaussStandardConstant", "no n x n matrix"
    assert not search.mean.any()
    assert search.sigma == 0.03
    population = search.ask()
    assert population.shape == (34, 19_456)
    assert population.std() == pytest.approx(0.03, rel=0.01)
    assert np.corrcoef(population).ravel()[1:34] == pytest.approx(0, abs=0.05)


def test_asking_twice_changes_nothing() -> None:
    one, two = SepCmaEs(4, 20, 8, 0.1), SepCmaEs(4, 20, 8, 0.1)
    start = one.checksum()
    first = one.ask()
    first_again = one.ask()
    np.testing.assert_array_equal(first, first_again)
    assert one.checksum() == start
    first_again[:] = 7  # a caller's scribbling must not reach the search
    for search in (one, two):
        search.tell(np.arange(8.0))
    assert one.checksum() == two.checksum() != start


@pytest.mark.parametrize("step_size", list(StepSize))
@pytest.mark.parametrize("n", [12, 400])
@pytest.mark.parametrize("killed_after", [0, 1, 2, 5, 9])
def test_replay_is_bit_equal_at_any_kill_point(n: int, killed_after: int, step_size: StepSize) -> None:
    start = np.linspace(-0.1, 0.1, n)
    whole = SepCmaEs(11, n, 10, 0.05, start, step_size)
    vectors, checksums = run(whole, 9)
    told, met = vectors[:killed_after], checksums[: killed_after + 1]
    rebuilt = replay(SepCmaEs(11, n, 10, 0.05, start, step_size), told, met, library_version())
    assert rebuilt.generation == killed_after
    for vector in vectors[killed_after:]:
        rebuilt.ask()
        rebuilt.tell(vector)
    assert rebuilt.checksum() == whole.checksum()
    assert rebuilt.mean.tobytes() == whole.mean.tobytes()
    assert rebuilt.sigma.hex() == whole.sigma.hex()
    assert rebuilt.ask().tobytes() == whole.ask().tobytes()


@given(
    st.integers(3, 9),
    st.sampled_from(StepSize),
    st.floats(0.05, 1),
    st.booleans(),
    st.lists(st.lists(st.integers(0, 16), min_size=9, max_size=9), min_size=1, max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_every_setting_is_bit_equal_on_replay(
    population: int, step_size: StepSize, mean_rate: float, antithetic: bool, history: list[list[int]]
) -> None:
    """One search is asked between the tells, as a scheduler does; the other is told alone, as a replay does."""
    asked, replayed = (
        SepCmaEs(7, 310, population, 0.1, None, step_size, mean_rate, antithetic)  # TPA begins at 300 dimensions
        for _ in range(2)
    )
    for levels in history:
        assert asked.ask().tobytes() == asked.ask().tobytes()
        for search in (asked, replayed):
            search.tell(np.array(levels[:population]) / 16)
        assert asked.checksum() == replayed.checksum()
    assert asked.mean.tobytes() == replayed.mean.tobytes()
    assert asked.ask().tobytes() == replayed.ask().tobytes()


@pytest.mark.parametrize("population", [8, 9])
@pytest.mark.parametrize("step_size", list(StepSize))
def test_antithetic_samples_mirror_each_other_in_the_mean(population: int, step_size: StepSize) -> None:
    search = SepCmaEs(3, 400, population, 0.1, np.linspace(-1, 1, 400), step_size, antithetic=True)
    for _ in range(4):
        # Of an odd number the last is alone; under TPA the first two lie on the line of the last step.
        steps = search.ask() - search.mean
        paired = steps[: len(steps) // 2 * 2].reshape(-1, 2, 400)
        np.testing.assert_allclose(paired[:, 0], -paired[:, 1], rtol=0, atol=1e-12)
        assert len(np.unique(np.round(np.abs(paired[:, 0]), 9), axis=0)) == population // 2
        search.tell(np.arange(population, dtype=np.float64))


def test_the_mean_takes_a_part_of_the_step() -> None:
    whole, half = SepCmaEs(3, 50, 8, 0.1), SepCmaEs(3, 50, 8, 0.1, mean_rate=0.5)
    for search in (whole, half):
        search.tell(np.arange(8.0))
    np.testing.assert_allclose(half.mean, whole.mean / 2, rtol=1e-12)


def test_settings_that_first_campaigns_did_not_have_leave_their_checksums_alone() -> None:
    """Stored campaigns replay by them."""
    plain = SepCmaEs(1, 20, 8, 0.1)
    assert plain.checksum() == "0131ce8ce41efeb28df69a6580be273f94eef1e9800d4222ed3b458265175175"
    others = [SepCmaEs(1, 20, 8, 0.1, mean_rate=0.5), SepCmaEs(1, 20, 8, 0.1, antithetic=True)]
    others += [SepCmaEs(1, 20, 8, 0.1, mean_rate=0.5, antithetic=True)]
    assert len({search.checksum() for search in [plain, *others]}) == 4


@pytest.mark.parametrize("mean_rate", [0.0, -0.5, 1.5, math.nan])
def test_an_impossible_mean_rate_is_refused(mean_rate: float) -> None:
    with pytest.raises(ValueError, match="mean_rate"):
        SepCmaEs(1, 10, 8, 0.1, mean_rate=mean_rate)


@pytest.mark.parametrize("n", [12, 400])
def test_numpys_global_generator_is_neither_read_nor_moved(n: int) -> None:
    np.random.seed(1)
    quiet = SepCmaEs(3, n, 9, 0.1)
    before = repr(np.random.get_state())
    _, checksums = run(quiet, 8)
    assert repr(np.random.get_state()) == before
    noisy = SepCmaEs(3, n, 9, 0.1)
    np.random.seed(99)
    assert run(noisy, 8)[1] == checksums


@pytest.mark.parametrize("stored", list(StepSize))
def test_another_step_size_is_noticed_at_the_first_checksum(stored: StepSize) -> None:
    """Below 300 dimensions pycma adapts both in the same way; the vectors could not tell."""
    checksum = SepCmaEs(5, 30, 8, 0.1, step_size=stored).checksum()
    (other,) = set(StepSize) - {stored}
    with pytest.raises(ReplayMismatch, match="generation 0"):
        replay(SepCmaEs(5, 30, 8, 0.1, step_size=other), [], [checksum], "")


def test_zero_is_where_a_search_without_a_start_begins() -> None:
    assert SepCmaEs(5, 30, 8, 0.1, np.zeros(30)).checksum() == SepCmaEs(5, 30, 8, 0.1).checksum()


def test_seeds_give_different_searches() -> None:
    assert SepCmaEs(1, 10, 8, 0.1).ask().tobytes() != SepCmaEs(2, 10, 8, 0.1).ask().tobytes()


BAD = [
    np.arange(7.0),
    np.arange(9.0),
    np.zeros((8, 1)),
    np.array([0, 1, 2, 3, 4, 5, 6, np.nan]),
    np.array([0, 1, 2, 3, 4, 5, 6, np.inf]),
    np.array([0, 1, 2, 3, 4, 5, 6, "x"], dtype=object),
    np.array([0, 1, 2, 3, 4, 5, 6, None], dtype=object),
]


@pytest.mark.parametrize("fitness", BAD)
def test_unfit_fitness_is_refused_and_leaves_no_trace(fitness: Array) -> None:
    search, twin = SepCmaEs(2, 15, 8, 0.1), SepCmaEs(2, 15, 8, 0.1)
    asked = search.ask()
    with pytest.raises(ValueError, match="fitness"):
        search.tell(fitness)
    np.testing.assert_array_equal(search.ask(), asked)
    for each in (search, twin):
        each.tell(np.arange(8.0))
    assert search.checksum() == twin.checksum()


@pytest.mark.parametrize(
    ("n", "population", "sigma0", "start"),
    [(1, 8, 0.1, None), (10, 2, 0.1, None), (10, 8, 0.0, None), (10, 8, math.nan, None), (10, 8, 0.1, np.zeros(9))],
)
def test_impossible_searches_are_refused(n: int, population: int, sigma0: float, start: Array | None) -> None:
    with pytest.raises(ValueError, match="wanted"):
        SepCmaEs(1, n, population, sigma0, start)


def test_a_fork_starts_where_its_parent_stood() -> None:
    start = np.linspace(-1, 1, 30)
    fork = SepCmaEs(5, 30, 8, 0.1, start)
    np.testing.assert_array_equal(fork.mean, start)
    vectors, checksums = run(fork, 3)
    assert replay(SepCmaEs(5, 30, 8, 0.1, start), vectors, checksums, "").checksum() == fork.checksum()


def test_a_mismatch_names_both_versions_and_the_way_out() -> None:
    vectors, checksums = run(SepCmaEs(5, 30, 8, 0.1), 3)
    vectors[1] = vectors[1][::-1] + np.arange(8)
    with pytest.raises(ReplayMismatch) as caught:
        replay(SepCmaEs(5, 30, 8, 0.1), vectors, checksums, "cma 3.2.2, numpy 1.0")
    for part in ("generation 2", "cma 3.2.2, numpy 1.0", library_version(), "campaign fork"):
        assert part in str(caught.value)
    with pytest.raises(ValueError, match="5 checksums for 3"):
        replay(SepCmaEs(5, 30, 8, 0.1), vectors, [*checksums, "x"], "")


def improvement(n: int, reward: str, generations: int, step_size: StepSize) -> tuple[float, float]:
    """Return true quality of the mean at the start and at the end; rewards are 16 coin flips."""
    rng = np.random.default_rng(0)
    slope = rng.standard_normal(n) / math.sqrt(n)
    search = SepCmaEs(8, n, population_size(n), 0.3, step_size=step_size)

    def quality(x: Array) -> Array:
        far = -np.sum((x - 1) ** 2, axis=-1) / n
        return far if reward == "sphere" else 1 / (1 + np.exp(-4 * (x @ slope)))

    start = float(quality(search.mean))
    for _ in range(generations):
        values = quality(search.ask())
        search.tell(values if reward == "sphere" else rng.binomial(16, values) / 16)
    return start, float(quality(search.mean))


@pytest.mark.parametrize("step_size", list(StepSize))
def test_it_climbs_a_noisy_linear_function(step_size: StepSize) -> None:
    start, end = improvement(400, "linear", 40, step_size)
    assert start == 0.5
    assert end > 0.9


def test_it_climbs_a_sphere() -> None:
    start, end = improvement(60, "sphere", 150, StepSize.CSA)
    assert start == -1
    assert end > -0.05


def test_by_the_evolution_path_the_papers_search_is_a_walk_of_constant_steps() -> None:
    """61 generations on noise alone at the paper's size (trinity.md 5.4 and 5.5)."""
    search, luck = SepCmaEs(42, 19_456, 34, 0.03, step_size=StepSize.CSA), np.random.default_rng(42)
    for _ in range(61):
        search.tell(luck.random(34))
    assert search.mean.std() == pytest.approx(0.074, abs=0.001)
    assert search.sigma == pytest.approx(0.0291, abs=0.0001)


@pytest.mark.parametrize("step_size", list(StepSize))
def test_flat_fitness_is_a_bounded_walk_without_warnings(step_size: StepSize) -> None:
    search = SepCmaEs(1, 400, 12, 0.03, step_size=step_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            search.ask()
            search.tell(np.full(12, 0.5))
    assert 0.005 < search.sigma < 0.2
    assert np.isfinite(search.mean).all()


@given(st.lists(st.integers(0, 4), min_size=6, max_size=6), st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=40, deadline=None)
def test_only_the_order_of_fitness_counts(levels: list[int], scale: float, shift: float) -> None:
    one, two = SepCmaEs(6, 8, 6, 0.1), SepCmaEs(6, 8, 6, 0.1)
    one.tell(np.array(levels, dtype=np.float64))
    two.tell(np.exp(np.array(levels) * 1.0) * scale + shift)
    assert one.checksum() == two.checksum()


def test_ties_favour_no_position() -> None:
    search = SepCmaEs(1, 5, 6, 0.1)
    best = []
    for _ in range(600):
        best.append(int(np.argmin(search._loss_ranks(np.array([1.0, 1, 1, 1, 0, 0])))))
        search._generation += 1
    shares = np.bincount(best, minlength=6) / len(best)
    np.testing.assert_allclose(shares[:4], 0.25, atol=0.07)
    assert not shares[4:].any()


def test_fitness_is_maximised() -> None:
    search = SepCmaEs(1, 30, 12, 0.1)
    best = search.ask()[:, 0].argmax()
    search.tell(search.ask()[:, 0])
    assert search.mean[0] > 0
    assert best >= 0
