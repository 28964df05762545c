"""Everything that decides which state a conversation gets. A head works only with the encoder it was trained with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields


@dataclass(frozen=True)
class Fingerprint:
    """What a released coordinator must meet again.

    Attributes:
        model: as the campaign names it; for people only, since a folder may move.
        weights: sha256 over the weight files.
        tokenizer: sha256 of the tokenizer's own description.
        template: sha256 of the chat template.
        prompt: sha256 of the router prompt, built for a fixed conversation.
        position: which token's state is taken, ``penultimate`` or ``last``.
        max_tokens: cap of the whole conversation.
        item_tokens: cap of one transcript item.
        center: sha256 of the questions whose mean state is subtracted; empty when none is.
    """

    model: str = field(compare=False)
    weights: str
    tokenizer: str
    template: str
    prompt: str
    position: str
    max_tokens: int
    item_tokens: int
    center: str

    def digest(self) -> str:
        """Return one sha256 over all fields that count."""
        counted = {name: value for name, value in asdict(self).items() if name != "model"}
        return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """Return the names of the fields in which ``other`` differs; empty if both read alike."""
        return tuple(
            entry.name
            for entry in fields(self)
            if entry.compare and getattr(self, entry.name) != getattr(other, entry.name)
        )
