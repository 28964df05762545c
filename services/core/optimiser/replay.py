"""Rebuilding a search from what the database stores: its seed and the fitness vectors of closed generations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import StepSize
from services.core.errors import ReplayMismatch
from services.core.optimiser.ports import Search
from services.core.optimiser.sep_cma_es import SepCmaEs, library_version


class Replay:
    """A search on its way back to where it stood, one generation at a time: a long history takes its time."""

    def __init__(
        self,
        seed: int,
        dimension: int,
        population: int,
        sigma0: float,
        fitness_vectors: Sequence[NDArray[np.float64]],
        checksums: Sequence[str],
        stored_version: str,
        start: NDArray[np.float64] | None = None,
        step_size: StepSize = StepSize.TPA,
    ) -> None:
        """See ``replay``."""
        if len(checksums) - len(fitness_vectors) not in (0, 1):
            raise ValueError(
                f"got {len(checksums)} checksums for {len(fitness_vectors)} fitness vectors; wanted as many or one more"
            )
        self.search: Search = SepCmaEs(seed, dimension, population, sigma0, start, step_size)
        self._fitness_vectors = fitness_vectors
        self._checksums = checksums
        self._stored_version = stored_version

    def step(self) -> bool:
        """Check and tell the next generation; return whether the search stands where it stood.

        Raises:
            ReplayMismatch, ValueError: see ``replay``.
        """
        place = self.search.generation
        if place < len(self._checksums):
            _require_met(self.search, place, self._checksums[place], self._stored_version)
        if place < len(self._fitness_vectors):
            self.search.tell(self._fitness_vectors[place])
        return place == len(self._fitness_vectors)


def replay(
    seed: int,
    dimension: int,
    population: int,
    sigma0: float,
    fitness_vectors: Sequence[NDArray[np.float64]],
    checksums: Sequence[str],
    stored_version: str,
    start: NDArray[np.float64] | None = None,
    step_size: StepSize = StepSize.TPA,
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
        start: the first mean, of the layout or of a fork's origin; None for zero.
        step_size: how sigma adapts.

    Raises:
        ReplayMismatch: a checksum is not met.
        ValueError: the numbers of vectors and checksums do not fit together, or a vector is unfit.
    """
    again = Replay(seed, dimension, population, sigma0, fitness_vectors, checksums, stored_version, start, step_size)
    while not again.step():
        pass
    return again.search


def _require_met(search: Search, generation: int, checksum: str, stored_version: str) -> None:
    if search.checksum() == checksum:
        return
    raise ReplayMismatch(
        f"replaying the search, generation {generation} opens with checksum {search.checksum()[:12]} instead of "
        f"{checksum[:12]}: the campaign was written with {stored_version}, this process runs {library_version()}. "
        "Install the campaign's versions on a processor of the same kind, or continue from its stored mean with "
        "`manage.py campaign fork`"
    )
