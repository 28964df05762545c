"""Smoothie's estimate of who is closest to the truth (trinity.md 6.2)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from services.core.baselines.agreement import answer_distances, closest, diffs, squared_distances
from services.core.baselines.smoothie import Smoothie
from services.core.protocol.answers import write_worker
from tests.support.scripted_calls import ScriptedCall, by_agent, play, same

EMBEDDINGS = st.integers(3, 7).flatmap(
    lambda count: arrays(np.float64, (count, 4), elements=st.floats(-10, 10, allow_nan=False))
)


@given(EMBEDDINGS)
def test_diff_is_the_mean_over_pairs_of_others(embeddings: np.ndarray) -> None:
    distances = squared_distances(embeddings)
    count = len(embeddings)
    for i in range(count):
        pairs = combinations([k for k in range(count) if k != i], 2)
        found = [
            0.5
            * (
                np.sum((embeddings[i] - embeddings[j]) ** 2)
                + np.sum((embeddings[i] - embeddings[k]) ** 2)
                - np.sum((embeddings[j] - embeddings[k]) ** 2)
            )
            for j, k in pairs
        ]
        assert diffs(distances)[i] == pytest.approx(np.mean(found), abs=1e-7)


def test_diff_estimates_the_variance_of_a_models_own_noise() -> None:
    rng, scales = np.random.default_rng(3), np.array([0.5, 1.0, 2.0, 3.0])
    truth = rng.standard_normal(2000)
    distances = squared_distances(truth + scales[:, None] * rng.standard_normal((4, 2000)))
    assert diffs(distances) / 2000 == pytest.approx(scales**2, rel=0.15, abs=0.15)
    assert closest(distances) == 0


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        (["a", "b", "b"], 1),
        (["a", "b", "c"], 0),
        (["a", "b"], 0),
        (["a"], 0),
        (["x", "a", "b", "b", "a", "b"], 2),
        (["x", "y", " B", "b"], 2),
    ],
)
def test_by_answers_it_is_the_plurality(answers: list[str], place: int) -> None:
    assert closest(answer_distances(answers, same)) == place


def test_a_reply_without_an_answer_is_never_returned() -> None:
    result = play(Smoothie((0, 1, 2), same), by_agent(None, "a", "b"))
    assert (result.answer, result.answered_by, result.calls) == ("a", 1, 3)


def test_with_embeddings_the_reply_in_the_middle_counts_whatever_the_answers_say() -> None:
    at = {"left": 0.0, "middle": 1.0, "right": 2.5}
    words = list(at)
    call = ScriptedCall(lambda asked: write_worker(words[asked.agent], "same" if asked.agent != 1 else "other"))

    def embed(reply: str) -> np.ndarray:
        return np.array([next(place for word, place in at.items() if word in reply), 0.0])

    result = play(Smoothie((0, 1, 2), same, embed), call)
    assert (result.answer, result.answered_by) == ("other", 1)
