"""What an episode needs from outside: something that decides, and something that answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript


@dataclass(frozen=True)
class Message:
    """One chat message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True)
class Decision:
    """What the policy chose for one turn.

    Attributes:
        agent: index into the pool, in the campaign's order.
        role: chosen role.
        logits: the head's output (float32, one per agent then one per role), or None for policies without a head.
    """

    agent: int
    role: Role
    logits: tuple[float, ...] | None = None


class Policy(Protocol):
    """Picks who acts next. One instance serves one episode's candidate; it must be safe to call from many threads."""

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        """Return the decision for the next turn, drawing only from ``rng``."""
        ...


@dataclass(frozen=True)
class Reply:
    """A model's answer: its text, why it ended (``stop``, ``length``, ...), what it used, how long it took."""

    text: str
    finish_reason: str
    usage: Usage
    latency_seconds: float


class ModelCall(Protocol):
    """Asks one pool model. Implementations reserve, call, settle; they raise PoolError, BudgetExhausted, LeaseLost."""

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply: ...
