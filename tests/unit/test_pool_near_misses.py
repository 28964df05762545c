"""Wrong answers of simulated models are wrong, look right, and are few."""

from __future__ import annotations

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st

from services.core.families import FAMILIES
from services.core.problem import ScorerKind
from services.core.scoring.scorer import agree
from services.pool.local.near_misses import near_misses


@pytest.mark.parametrize("name", FAMILIES)
def test_near_misses_of_real_answers(name: str) -> None:
    family = FAMILIES[name]
    for problem in reasoning_gym.create_dataset(name, size=100, seed=11, **family.config):
        misses = near_misses(family.scorer, problem["answer"])

        assert 1 <= len(misses) <= 3
        assert len(set(misses)) == len(misses)
        assert not any(agree(family.scorer, miss, problem["answer"]) for miss in misses)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_a_number_is_missed_by_a_step_of_its_last_place(number: object) -> None:
    misses = near_misses(ScorerKind.NUMERIC, str(number))

    assert 1 <= len(misses) <= 3
    assert not any(agree(ScorerKind.NUMERIC, miss, str(number)) for miss in misses)


@given(st.text(st.characters(categories=["L"]), min_size=1, max_size=20))
def test_every_word_can_be_missed(word: str) -> None:
    misses = near_misses(ScorerKind.EXACT, word)

    assert misses
    assert not any(agree(ScorerKind.EXACT, miss, word) for miss in misses)


@pytest.mark.parametrize("answer", ["[]", "['1']", "['1', '1']", "['2', '1']"])
def test_every_list_can_be_missed(answer: str) -> None:
    misses = near_misses(ScorerKind.LITERAL, answer)

    assert misses
    assert not any(agree(ScorerKind.LITERAL, miss, answer) for miss in misses)
