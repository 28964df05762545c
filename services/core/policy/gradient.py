"""How the linear head's weights move the probability of a decision: REINFORCE's one-step gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.policy.layout import Layout
from services.core.policy.selection import softmax
from services.core.protocol.roles import Role


def log_probability_gradient(
    logits: NDArray[Any], layout: Layout, agent: int, role: Role, state: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the gradient of log pi(agent, role | h) by the linear head's weights, (e_a - pi) h^T.

    Agent and role are drawn independently, so that the agents' rows and the roles' each have their own softmax. A
    campaign with one role has no role rows: that role is certain.

    Args:
        logits: shape (rows,), of the linear head at ``state``.
        layout: of the head; its output is taken to be drawn from the softmaxes.
        agent: pool index.
        role: the head's own choice, not the one that a Thinker put in its place.
        state: h, shape (d,).

    Returns:
        shape (rows, d), per unit of weight.

    Raises:
        ValueError: the layout has no such agent or role, or the logits are not ``rows`` many.
    """
    if agent not in layout.agents or role not in layout.allowed or logits.shape != (layout.rows,):
        raise ValueError(
            f"got agent {agent}, role {role}, logits of shape {logits.shape}; wanted an agent of {layout.agents}, "
            f"a role of {', '.join(layout.allowed)}, shape ({layout.rows},)"
        )
    count = len(layout.agents)
    error = np.zeros(layout.rows)
    error[:count] = _error(logits[:count], layout.agents.index(agent))
    if layout.role_rows:
        error[count:] = _error(logits[count:], layout.allowed.index(role))
    return np.outer(error, state.astype(np.float64))


def _error(logits: NDArray[Any], chosen: int) -> NDArray[np.float64]:
    error = -softmax(logits)
    error[chosen] += 1
    return error
