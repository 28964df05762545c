"""Seeds derived from the campaign's one seed, so that every draw can be repeated from the database alone."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed that depends on the campaign's seed and on the whole path.

    Paths are separated by type and length, so ``(1, 23)`` and ``(12, 3)`` and ``("1", 23)`` give different seeds.
    63 bits fit a signed Postgres bigint.
    """
    digest = hashlib.sha256(str(int(seed)).encode())
    for part in path:
        text = str(part).encode()
        digest.update(f"|{type(part).__name__}:{len(text)}:".encode() + text)
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """Return a private generator for ``derive(seed, *path)``; numpy's global one is never used."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))
