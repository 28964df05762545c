"""From logits to an action: two independent softmaxes, agent and role, both sampled (authors' code)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import Output
from services.core.policy.layout import Layout
from services.core.protocol.roles import Role


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities along the last axis, shape as given.

    Logits are shifted by their maximum, so that huge ones neither overflow nor vanish.
    """
    exact = logits.astype(np.float64)
    scaled = np.exp(exact - exact.max(axis=-1, keepdims=True))
    probabilities: NDArray[np.float64] = scaled / scaled.sum(axis=-1, keepdims=True)
    return probabilities


def draw(probabilities: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return an index by inverting the cumulative distribution at one uniform number.

    Policies that share the generator's state and have similar probabilities then mostly choose alike, which is what
    common random numbers are for. An index of probability 0 is never returned.
    """
    cumulative = np.cumsum(probabilities)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def select(logits: NDArray[Any], layout: Layout, rng: np.random.Generator) -> tuple[int, Role]:
    """Return agent (pool index) and role for the head's logits, shape (rows,).

    Sampling always takes exactly two uniform numbers, also when one role only is allowed. ARGMAX takes none.
    """
    agents = softmax(logits[: len(layout.agents)])
    roles = softmax(logits[len(layout.agents) :]) if layout.role_rows else np.ones(1)
    if layout.spec.output is Output.ARGMAX:
        return layout.agents[int(np.argmax(agents))], layout.allowed[int(np.argmax(roles))]
    agent = draw(agents, rng)
    return layout.agents[agent], layout.allowed[draw(roles, rng)]
