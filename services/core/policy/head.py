"""The linear head without bias: z = W h (paper, appendix A.4, equation 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def head_logits(weights: NDArray[Any], state: NDArray[Any]) -> NDArray[np.float32]:
    """Return the logits of one state.

    Products of float32 numbers are exact in float64, and summing there leaves an error far below float32's last digit:
    the result does not depend on how the sum is ordered on this machine or the next, bar the rarest rounding tie.

    Args:
        weights: shape (rows, d); float32 values.
        state: shape (d,), float32, the encoder's hidden state.

    Raises:
        ValueError: the state has another width than the head, or holds NaN or infinity.
    """
    if state.shape != (weights.shape[1],):
        raise ValueError(f"the encoder's state has shape {state.shape}, the head wants ({weights.shape[1]},)")
    if not np.isfinite(state).all():
        raise ValueError("the encoder's state holds NaN or infinity")
    logits: NDArray[np.float32] = (weights.astype(np.float64) @ state.astype(np.float64)).astype(np.float32)
    return logits
