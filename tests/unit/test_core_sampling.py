from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core import seeds
from services.core.minibatch import (
    episode_seed,
    fixed_positions,
    fixed_seed,
    training_positions,
    validates,
)
from services.core.states import Purpose

SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(1, 12), st.integers(1, 30), st.integers(1, 12))
def test_common_minibatches_deal_the_split_out_evenly(seed: int, replicates: int, size: int, generations: int) -> None:
    batches = [training_positions(seed, "common", g, 0, replicates, size) for g in range(generations)]
    counts = Counter(position for batch in batches for position in batch)
    assert all(0 <= position < size for position in counts)
    seen = [counts[position] for position in range(size)]
    assert max(seen) - min(seen) <= 2
    if replicates <= size:
        assert all(len(set(batch)) == replicates for batch in batches)
        whole_decks = (generations * replicates) // size
        assert min(seen) >= whole_decks


@given(SEEDS, st.integers(1, 12), st.integers(1, 30), st.integers(0, 40))
def test_dealing_a_late_minibatch_alone_gives_what_dealing_all_gives(
    seed: int, replicates: int, size: int, generation: int
) -> None:
    dealt: list[int] = []
    for epoch in count():
        if len(dealt) >= (generation + 1) * replicates:
            break
        deck = seeds.generator(seed, "deck", epoch).permutation(size).tolist()
        held = set(dealt[len(dealt) - len(dealt) % replicates :]) if replicates <= size else set()
        front = [card for card in deck if card not in held][: replicates - len(held)] if held else []
        dealt += front + [card for card in deck if card not in front]
    wanted = dealt[generation * replicates : (generation + 1) * replicates]
    assert list(training_positions(seed, "common", generation, 0, replicates, size)) == wanted


@given(SEEDS, st.integers(1, 40), st.integers(1, 40))
def test_every_problem_comes_up_once_before_any_comes_up_twice(seed: int, replicates: int, size: int) -> None:
    stream: list[int] = []
    generation = 0
    while len(stream) < size:
        stream.extend(training_positions(seed, "common", generation, 0, replicates, size))
        generation += 1
    assert sorted(stream[:size]) == list(range(size))


def test_the_split_is_shuffled_anew_each_time_round() -> None:
    assert training_positions(1, "common", 0, 0, 50, 50) != training_positions(1, "common", 1, 0, 50, 50)


def test_common_minibatches_are_the_same_for_all_candidates_and_differ_between_generations() -> None:
    assert training_positions(1, "common", 2, 0, 16, 900) == training_positions(1, "common", 2, 31, 16, 900)
    assert training_positions(1, "common", 2, 0, 16, 900) != training_positions(1, "common", 3, 0, 16, 900)
    assert training_positions(1, "common", 2, 0, 16, 900) != training_positions(2, "common", 2, 0, 16, 900)


def test_fresh_minibatches_belong_to_one_candidate_and_may_repeat() -> None:
    batches = {candidate: training_positions(1, "fresh", 0, candidate, 16, 20) for candidate in range(30)}
    assert len(set(batches.values())) == 30
    assert any(len(set(batch)) < 16 for batch in batches.values())
    assert {position for batch in batches.values() for position in batch} == set(range(20))


def test_candidates_share_seeds_under_common_random_numbers_only() -> None:
    assert episode_seed(1, "common", 3, 0, 5) == episode_seed(1, "common", 3, 9, 5)
    assert episode_seed(1, "fresh", 3, 0, 5) != episode_seed(1, "fresh", 3, 9, 5)
    many = {episode_seed(1, "common", g, 0, r) for g in range(20) for r in range(20)}
    assert len(many) == 400
    assert all(0 <= seed < 2**63 for seed in many)


@given(SEEDS, st.integers(0, 50), st.integers(0, 50), st.sampled_from(list(Purpose)))
def test_fixed_positions_are_distinct_and_nested(seed: int, count: int, size: int, purpose: Purpose) -> None:
    if count > size:
        with pytest.raises(ValueError, match=f"wants {count} problems, its split has {size}"):
            fixed_positions(seed, purpose, count, size)
        return
    positions = fixed_positions(seed, purpose, count, size)
    assert len(set(positions)) == count
    assert set(positions) <= set(range(size))
    assert fixed_positions(seed, purpose, size, size)[:count] == positions


def test_fixed_seeds_tell_purposes_apart() -> None:
    assert fixed_seed(1, Purpose.VALIDATION, 0) != fixed_seed(1, Purpose.EVALUATION, 0)
    assert fixed_seed(1, Purpose.VALIDATION, 0) != fixed_seed(1, Purpose.VALIDATION, 1)


def test_validation_begins_with_the_start() -> None:
    assert [g for g in range(12) if validates(g, 5)] == [0, 5, 10]


@pytest.mark.parametrize(("mode", "replicates", "size"), [("shared", 4, 4), ("common", 0, 4), ("fresh", 4, 0)])
def test_nonsense_is_refused(mode: str, replicates: int, size: int) -> None:
    with pytest.raises(ValueError, match="wanted"):
        training_positions(1, mode, 0, 0, replicates, size)
