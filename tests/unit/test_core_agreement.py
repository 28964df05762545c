from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from services.core.baselines import smoothie_independent
from services.core.baselines.agreement import answer_distances, closest, diffs, same_text, squared_distances
from services.core.labels import Labels
from tests.support.labelled import grouped

EMBEDDINGS = arrays.arrays(np.float64, st.tuples(st.integers(3, 7), st.just(4)), elements=st.floats(-5, 5))


@given(EMBEDDINGS)
def test_diff_is_what_a_reply_adds_to_an_inner_product_of_differences(embeddings: np.ndarray) -> None:
    # (|a-b|^2 + |a-c|^2 - |b-c|^2) / 2 = (a-b).(a-c)
    i = len(embeddings) - 1
    pairs = [(embeddings[i] - embeddings[j]) @ (embeddings[i] - embeddings[k]) for j, k in combinations(range(i), 2)]
    assert diffs(squared_distances(embeddings))[i] == pytest.approx(np.mean(pairs), abs=1e-9)


@given(st.permutations(range(5)))
def test_replies_in_another_order_have_the_same_diffs(order: list[int]) -> None:
    distances = answer_distances(["a", "b", "a", None, "c"])
    np.testing.assert_allclose(diffs(distances[np.ix_(order, order)]), diffs(distances)[order])


def test_the_answer_that_most_give_is_the_closest() -> None:
    assert closest(answer_distances(["4", "5", "5", "6"])) == 1
    assert closest(answer_distances([None, None, "5", " 5"])) == 2
    assert closest(answer_distances(["1", "2", "3"])) == 0
    assert closest(answer_distances(["1", "2"])) == 0


def test_answers_are_compared_without_case_and_space_and_none_is_like_nothing() -> None:
    assert same_text(" New  York\n", "new york")
    assert not same_text("1", "2")
    assert not same_text(None, None)
    assert not same_text("", None)
    np.testing.assert_array_equal(answer_distances([None, None]), [[0, 1], [1, 0]])


def test_the_model_that_is_mostly_right_agrees_most_and_no_reward_is_read() -> None:
    rng = np.random.default_rng(1)
    right = rng.random((200, 4)) < [0.4, 0.5, 0.9, 0.5]
    answers = [[f"{k}" if ok else f"wrong {rng.integers(99)}" for ok in row] for k, row in enumerate(right)]
    labels = Labels(np.zeros((200, 3)), np.zeros((200, 4, 1)), ["f"] * 200, answers)
    parameters = smoothie_independent.fit(labels)
    found = smoothie_independent.ConstantRouter(parameters, 4, 3)
    assert found.agent(np.zeros(3), rng) == 2


def test_smoothie_needs_three_models() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        smoothie_independent.fit(grouped(models=2).labels)
