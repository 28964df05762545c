from __future__ import annotations

import numpy as np
import pytest

from services.core.statistics import geometry
from services.core.statistics.gradients import ratio, signal


def test_noise_alone_has_no_signal() -> None:
    rng = np.random.default_rng(1)
    found = [ratio(rng.normal(size=(100, 50))) for _ in range(50)]
    assert abs(np.mean(found)) < 0.08
    one = signal(rng.normal(size=(400, 2000)), seed=1)
    assert one.beyond == pytest.approx(one.chance, abs=0.015)
    assert one.chance == pytest.approx(0.0462, abs=0.003)
    assert abs(one.cosine) < 0.1


def test_the_ratio_is_the_squared_length_of_the_mean_over_that_of_its_error() -> None:
    rng = np.random.default_rng(2)
    gradients = rng.normal(size=(400, 100)) + 0.1
    found = signal(gradients, seed=1)
    assert found.snr == pytest.approx(0.01 * 400, rel=0.2)  # |mean|^2 = 100 * 0.01, error 100 / 400
    assert found.low < 4.0 < found.high
    assert found.cosine == pytest.approx(2 / 3, abs=0.08)  # halves have a ratio of 2: 2 / (2 + 1)


def test_too_few_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        signal(np.ones((3, 2)), seed=1)


def test_states_with_a_large_common_part_have_a_cosine_near_one() -> None:
    rng = np.random.default_rng(3)
    common = np.full(64, 1.0)
    alike = geometry.mean_cosine(common + 0.1 * rng.normal(size=(60, 64)), seed=1)
    apart = geometry.mean_cosine(rng.normal(size=(60, 64)), seed=1)
    assert alike.estimate == pytest.approx(1 / 1.01, abs=0.005)
    assert apart.low < 0 < apart.high
    assert apart.high - apart.low < 0.05


def test_entropies_of_known_softmaxes() -> None:
    found = geometry.entropies(np.array([[0.0, 0.0, 0.0], [1e4, 0.0, 0.0], [1e4, 1e4, 0.0]]))
    assert found == pytest.approx([np.log(3), 0.0, np.log(2)])


def test_the_principal_plane_holds_the_largest_variances() -> None:
    rng = np.random.default_rng(4)
    states = rng.normal(size=(500, 4)) * np.array([1.0, 8.0, 4.0, 0.1])
    plane, shares = geometry.principal_plane(states)
    assert plane.std(axis=0) == pytest.approx([8, 4], rel=0.15)
    assert shares[0] == pytest.approx(64 / 81, abs=0.05)
    assert geometry.principal_plane(np.ones((3, 1)))[1] == (0.0, 0.0)
