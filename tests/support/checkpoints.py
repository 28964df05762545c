"""A description of a coordinator that nobody trained, and its checkpoint."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from services.checkpoint.description import (
    Description,
    Origin,
    PoolModel,
    Score,
    Scores,
    Training,
    prompts_digest,
)
from services.checkpoint.folder import Checkpoint
from services.core.campaign import EncoderSpec, HeadSpec, Matrix, ProtocolSpec
from services.core.policy.layout import Layout
from services.core.protocol.roles import ROLE_ORDER
from tests.support.stub_models import fingerprint

MATRICES = (Matrix("layers.2.self_attn.q_proj", 3), Matrix("layers.2.mlp.up_proj", 5))


def describe(**changes: Any) -> Description:
    """Two models, all roles, hidden size 4, two small matrices; any field can be changed."""
    encoder = EncoderSpec("smollm2-135m-instruct", singular_values=MATRICES)
    fields: dict[str, Any] = {
        "name": "small-g1",
        "encoder": encoder,
        "reading": fingerprint(singular_values=tuple(matrix.name for matrix in MATRICES)),
        "layout": Layout((0, 1), ROLE_ORDER, 4, MATRICES, HeadSpec()),
        "pool": (PoolModel("ada", "openai/ada"), PoolModel("bob", "openai/bob")),
        "protocol": ProtocolSpec(max_turns=3),
        "prompts": prompts_digest(),
        "origin": Origin("small", "a" * 64, 5, 1, {"search": "cma 4.5.0"}),
        "training": Training(1, 4, 3, 40, 70, 9000, Decimal("0.125"), "nearest to paper, but search.generations 2"),
        "scores": Scores(
            Score("coordinator", "trained coordinator", 2, 0.5, 0.1, 0.9), (Score("single", "ada", 3, 1.0, 0.4, 1.0),)
        ),
        "product": "0.1.0",
    }
    return Description(**(fields | changes))


def checkpoint(description: Description | None = None, seed: int = 0) -> Checkpoint:
    """Return a checkpoint with random parameters."""
    description = description or describe()
    theta = np.random.default_rng(seed).standard_normal(description.layout.size).astype(np.float32)
    return Checkpoint(description, theta)
