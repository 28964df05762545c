"""Smoothie, independent: one model for the whole set, the one that agrees best with the others; no reward is used.

The variant per question is a scaffold, for it asks every model first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.agreement import Same, disagreement, distances, exactly
from services.core.baselines.router import join, read_state, split
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


def fit(labels: Labels, same: Same = exactly) -> NDArray[np.float64]:
    """Return each model's agreement with the others, -diff, shape (models,); the order is that of theta."""
    table = np.stack([distances(answers, same) for answers in labels.answers])
    return join(-disagreement(table).round(9))
