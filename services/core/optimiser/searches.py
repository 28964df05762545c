"""Which learner a campaign has: the one place that knows them all."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import Algorithm, Campaign
from services.core.optimiser.given import Given
from services.core.optimiser.ports import Search
from services.core.optimiser.random_search import RandomSearch
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.sep_cma_es import SepCmaEs
from services.core.policy.layout import Layout

AnyLearner = Search | Reinforce | Given


def search_of(
    campaign: Campaign,
    seed: int,
    dimension: int,
    start: NDArray[np.float64] | None = None,
    sigma0: float | None = None,
) -> AnyLearner:
    """Return a campaign's learner before its first generation.

    Args:
        campaign: the specification.
        seed: the campaign's.
        dimension: n.
        start: the first mean, shape (n,): of a fork's origin, fitted to labels, or of a released coordinator; None for
            the algorithm's own.
        sigma0: the first step size of a fork; None for the specification's.

    Raises:
        SpecError: the algorithm does not go with the head or with singular values.
        ValueError: the start does not fit.
    """
    search, layout = campaign.search, Layout.of_campaign(campaign)
    if search.algorithm is Algorithm.REINFORCE:
        return Reinforce(seed, layout, campaign.reinforce, start)
    first = layout.start(seed) if start is None else start
    sigma = search.sigma0 if sigma0 is None else sigma0
    match search.algorithm:
        case Algorithm.SEP_CMA_ES:
            rate, pairs = search.mean_rate, search.antithetic
            return SepCmaEs(seed, dimension, search.population, sigma, first, search.step_size, rate, pairs)
        case Algorithm.RANDOM_SEARCH:
            return RandomSearch(seed, dimension, search.population, search.half_width, first)
        case Algorithm.SFT | Algorithm.GIVEN:
            return Given(first, sigma)
    assert_never(search.algorithm)
