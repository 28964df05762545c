"""Rebuilding a search from what the database stores: its seed and the fitness vectors of closed generations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.errors import ReplayMismatch
from services.core.optimiser.ports import Learner, Search
from services.core.optimiser.sep_cma_es import library_version


class Replay:
    """A search on its way back to where it stood, one generation at a time: a long history takes its time."""

    def __init__(
        self,
        search: Search,
        fitness_vectors: Sequence[NDArray[np.float64]],
        checksums: Sequence[str],
        stored_version: str,
    ) -> None:
        """See ``replay``."""
        if len(checksums) - len(fitness_vectors) not in (0, 1):
            raise ValueError(
                f"got {len(checksums)} checksums for {len(fitness_vectors)} fitness vectors; wanted as many or one more"
            )
        self.search = search
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
            require_met(self.search, place, self._checksums[place], self._stored_version)
        if place < len(self._fitness_vectors):
            self.search.tell(self._fitness_vectors[place])
        return place == len(self._fitness_vectors)


def replay(
    search: Search, fitness_vectors: Sequence[NDArray[np.float64]], checksums: Sequence[str], stored_version: str
) -> Search:
    """Return the search as it stood after the last fitness vector.

    Args:
        search: as it began, before its first generation; it is told what follows.
        fitness_vectors: one per closed generation, in order, shape (population,).
        checksums: ``checksums[g]`` is the search's checksum when generation g was opened; as many as fitness vectors,
            or one more when a generation is open.
        stored_version: ``library_version()`` of the process that submitted the campaign.

    Raises:
        ReplayMismatch: a checksum is not met.
        ValueError: the numbers of vectors and checksums do not fit together, or a vector is unfit.
    """
    again = Replay(search, fitness_vectors, checksums, stored_version)
    while not again.step():
        pass
    return again.search


def require_met(learner: Learner, generation: int, checksum: str, stored_version: str) -> None:
    """Raise ReplayMismatch unless the learner is the one that opened this generation."""
    if learner.checksum() == checksum:
        return
    raise ReplayMismatch(
        f"replaying the search, generation {generation} opens with checksum {learner.checksum()[:12]} instead of "
        f"{checksum[:12]}: the campaign was written with {stored_version}, this process runs {library_version()}. "
        "Install the campaign's versions on a processor of the same kind, or continue from its stored mean with "
        "`manage.py campaign fork`"
    )
