"""Which problems an episode gets and which seed it runs under. Nothing here depends on the attempt."""

from __future__ import annotations

import math
from functools import lru_cache

from services.core import seeds
from services.core.states import Purpose

COMMON = "common"  # one minibatch and one set of seeds for all candidates of a generation
FRESH = "fresh"  # each candidate its own, as the authors' code


def training_positions(
    seed: int, mode: str, generation: int, candidate: int, replicates: int, size: int
) -> tuple[int, ...]:
    """Return the position in the training split of each replicate's problem.

    ``common`` deals the split out like a deck of cards: every problem comes up once before any comes up twice, and
    never twice in one minibatch while the split is large enough. ``fresh`` draws with replacement.

    Raises:
        ValueError: an unknown mode, an empty split or no replicates.
    """
    if replicates < 1 or size < 1:
        raise ValueError(f"got {replicates} replicates over {size} problems; wanted at least one of each")
    if _is_common(mode):
        return _dealt(seed, generation, replicates, size)
    rng = seeds.generator(seed, "minibatch", generation, candidate)
    return tuple(int(position) for position in rng.integers(0, size, replicates))


def episode_seed(seed: int, mode: str, generation: int, candidate: int, replicate: int) -> int:
    """Return a training episode's seed; candidates share it under ``common`` (common random numbers)."""
    if _is_common(mode):
        return seeds.derive(seed, "episode", generation, replicate)
    return seeds.derive(seed, "episode", generation, candidate, replicate)


def fixed_positions(seed: int, purpose: Purpose, count: int, size: int) -> tuple[int, ...]:
    """Return the problems of a purpose's split that are used, the same throughout the campaign, without repeats.

    Raises:
        ValueError: more problems are wanted than there are.
    """
    if not 0 <= count <= size:
        raise ValueError(f"{purpose} wants {count} problems, its split has {size}")
    order = seeds.generator(seed, "problems", str(purpose)).permutation(size)
    return tuple(int(position) for position in order[:count])


def fixed_seed(seed: int, purpose: Purpose, replicate: int) -> int:
    """Return the seed of a validation or evaluation episode: the same for every policy that is compared."""
    return seeds.derive(seed, "episode", str(purpose), replicate)


def validates(generation: int, every: int) -> bool:
    """Tell whether the mean with which a generation opens is validated; the first one, at zero, is the base line."""
    return generation % every == 0


def _is_common(mode: str) -> bool:
    if mode not in (COMMON, FRESH):
        raise ValueError(f"got minibatch mode {mode!r}, wanted {COMMON!r} or {FRESH!r}")
    return mode == COMMON


@lru_cache(maxsize=64)  # all candidates of a generation ask for the same
def _dealt(seed: int, generation: int, replicates: int, size: int) -> tuple[int, ...]:
    """Deal from the last deck before the minibatch that began together with one: what came before has no influence."""
    start, stop = generation * replicates, (generation + 1) * replicates
    period = replicates // math.gcd(replicates, size)
    epoch = start // size // period * period
    before = epoch * size
    dealt: list[int] = []
    while before + len(dealt) < stop:
        deck: list[int] = seeds.generator(seed, "deck", epoch).permutation(size).tolist()
        dealt.extend(_behind(deck, dealt, replicates))
        epoch += 1
    return tuple(dealt[start - before : stop - before])


def _behind(deck: list[int], dealt: list[int], replicates: int) -> list[int]:
    """Return the deck with the cards moved back that the unfinished minibatch before it already holds."""
    unfinished = len(dealt) % replicates
    if not unfinished or replicates > len(deck):
        return deck
    held = set(dealt[-unfinished:])
    front = [card for card in deck if card not in held][: replicates - unfinished]
    chosen = set(front)
    return front + [card for card in deck if card not in chosen]
