"""Smoothie, the independent form: one model for the whole set, the one whose answers agree best with the others'.

It is estimated on the labelled training problems, of which it uses the answers and no reward; the original estimates it
on the questions that it is then judged by. The form per question asks every model first and is no router.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.agreement import answer_distances, diffs, same_text
from services.core.baselines.router import join, read_state, split
from services.core.baselines.scaffold import Same
from services.core.labels import Labels


class ConstantRouter:
    """The model with the largest value, whatever the question; of equal ones the first."""

    def __init__(self, parameters: NDArray[Any], models: int, hidden: int) -> None:
        """Read one value per model.

        Raises:
            LayoutMismatch: there are more or fewer.
        """
        self._agent = int(split(parameters, {"values": (models,)})["values"].argmax())
        self._hidden = hidden

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """See ``Router``; draws nothing."""
        read_state(state, self._hidden)
        return self._agent


def fit(labels: Labels, same: Same = same_text) -> NDArray[np.float64]:
    """Return each model's agreement with the others, -diff, shape (models,): it ranks as theta does.

    Raises:
        ValueError: fewer than three models; each is judged by pairs of others.
    """
    if labels.models < 3:
        raise ValueError(f"Smoothie judges a model by pairs of others: got {labels.models} models, wanted at least 3")
    total = sum(answer_distances(answers, same) for answers in labels.answers)
    return join(-diffs(np.asarray(total) / len(labels.answers)))
