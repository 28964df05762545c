"""Conversations of several turns, for readers of them."""

from __future__ import annotations

import numpy as np

from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript

_WORDS = ("add", "the", "tens", "carry", "one", "check", "again", "sum", "wrong", "right", "first", "seven", "forty")


def conversations(seed: int, turns: int, *, words: int = 24) -> list[Transcript]:
    """Return a conversation after each of ``turns`` decisions, the first with no turn yet."""
    rng = np.random.default_rng(seed)
    numbers = " + ".join(str(number) for number in rng.integers(10, 99, 6))
    found = [Transcript(f"How much is {numbers}?")]
    for number in range(1, turns):
        role = ROLE_ORDER[int(rng.integers(3))]
        text = " ".join(rng.choice(_WORDS, words))
        answer = str(rng.integers(1000)) if role is Role.WORKER else None
        item = Item(number, int(rng.integers(3)), role, RoleSource.POLICY, text, text, answer=answer)
        found.append(found[-1].with_item(item))
    return found
