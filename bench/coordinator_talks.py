"""Conversations of a wanted length in tokens, for a reader that counts them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from services.core.protocol.roles import ROLE_ORDER, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.coordinator import Encoder

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "and", "the", "then", "so")


def talk(encoder: Encoder, seed: int, turns: int, tokens: int) -> list[Transcript]:
    """Return a conversation as it stands at each of ``turns`` decisions, ``tokens`` longer each time."""
    words = np.random.default_rng(seed).choice(WORDS, turns * tokens).tolist()
    found = [_grown(encoder, lambda text: Transcript(f"{seed}: {text}"), words, tokens)]
    for number in range(1, turns):
        role, rest = ROLE_ORDER[number % 3], words[number * tokens :]

        def longer(text: str, before: Transcript = found[-1], number: int = number) -> Transcript:
            return before.with_item(Item(number, 0, role, RoleSource.POLICY, text, text))  # noqa: B023 - called at once

        found.append(_grown(encoder, longer, rest, tokens * (number + 1)))
    return found


def _grown(encoder: Encoder, make: Callable[[str], Transcript], words: list[str], tokens: int) -> Transcript:
    """Return the conversation with as many of the words as ``tokens`` tokens hold."""
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(encoder.token_ids(make(" ".join(words[:middle])))) <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return make(" ".join(words[:low]))
