"""Everything that decides which state a conversation gets. A head works only with the encoder it was trained with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from services.core.errors import SpecError


@dataclass(frozen=True)
class Fingerprint:
    """What a trained head must meet again. What differs between machines (device, number format) is no part of it.

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
        norm: what is done to the state's length, ``none`` or ``rms``.
        singular_values: names of the matrices whose singular values are searched, in the order of theta.
        cutting_rule: version of the rule by which long conversations are cut; 1 for records older than this field.
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
    norm: str
    singular_values: tuple[str, ...]
    cutting_rule: int = 1

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

    def require(self, found: Fingerprint, owner: str) -> None:
        """Make sure that ``found``, the encoder at hand, reads as this one does, which is what ``owner`` was read with.

        Raises:
            SpecError: it does not; the path names every field that differs.
        """
        names = self.differences(found)
        if names:
            got, wanted = (
                ", ".join(f"{name} {_short(getattr(each, name))}" for name in names) for each in (found, self)
            )
            path = ", ".join(f"encoder.{name}" for name in names)
            raise SpecError(path, got, f"{wanted}: what {owner} was read with")

    def to_json(self) -> dict[str, Any]:
        """Return plain data that ``from_json`` reads back."""
        return asdict(self) | {"singular_values": list(self.singular_values)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fingerprint:
        """Read back what ``to_json`` wrote. A field that is added later needs a default: records lack it."""
        return cls(**{**data, "singular_values": tuple(data["singular_values"])})


def _short(value: object) -> str:
    """Return a value as an error shows it: twelve digits tell hashes apart."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)[:12] or "none"
