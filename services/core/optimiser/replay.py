"""Rebuilding a search from what the database stores: its seed and the fitness vectors of closed generations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.errors import ReplayMismatch
from services.core.optimiser.ports import Search
from services.core.optimiser.sep_cma_es import SepCmaEs, library_version


def replay(
    seed: int,
    dimension: int,
    population: int,
    sigma0: float,
    fitness_vectors: Sequence[NDArray[np.float64]],
    checksums: Sequence[str],
    stored_version: str,
    start: NDArray[np.float64] | None = None,
) -> Search:
    """Return the search as it stood after the last fitness vector.

    Args:
        seed: the campaign's seed.
        dimension: n.
        population: lambda.
        sigma0: first step size.
        fitness_vectors: one per closed generation, in order, shape (population,).
        checksums: ``checksums[g]`` is the search's checksum when generation g was opened; as many as fitness vectors,
            or one more when a generation is open.
        stored_version: ``library_version()`` of the process that submitted the campaign.
        start: the mean a forked campaign started from; None for zero.

    Raises:
        ReplayMismatch: a checksum is not met.
        ValueError: the numbers of vectors and checksums do not fit together, or a vector is unfit.
    """
    if len(checksums) - len(fitness_vectors) not in (0, 1):
        raise ValueError(
            f"got {len(checksums)} checksums for {len(fitness_vectors)} fitness vectors; wanted as many or one more"
        )
    search = SepCmaEs(seed, dimension, population, sigma0, start)
    for generation, checksum in enumerate(checksums):
        _require_met(search, generation, checksum, stored_version)
        if generation < len(fitness_vectors):
            search.tell(fitness_vectors[generation])
    return search


def _require_met(search: Search, generation: int, checksum: str, stored_version: str) -> None:
    if search.checksum() == checksum:
        return
    raise ReplayMismatch(
        f"replaying the search, generation {generation} opens with checksum {search.checksum()[:12]} instead of "
        f"{checksum[:12]}: the campaign was written with {stored_version}, this process runs {library_version()}. "
        "Install the campaign's versions on a processor of the same kind, or continue from its stored mean with "
        "`manage.py campaign fork`"
    )
