"""What an episode needs from outside: something that decides, and something that answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from services.core.campaign import EncoderSpec
from services.core.fingerprint import Fingerprint
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
        drawn: whether chance stepped in, because what should have chosen named nothing that may be chosen.
    """

    agent: int
    role: Role
    logits: tuple[float, ...] | None = None
    drawn: bool = False


class Policy(Protocol):
    """Picks who acts next. One instance serves one episode's candidate; it must be safe to call from many threads."""

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        """Return the decision for the next turn, drawing only from ``rng``."""
        ...


class ReplyKind(StrEnum):
    """What a reply that came is worth; a call without one raises PoolError."""

    OK = "ok"
    EMPTY = "empty_reply"
    REASONING_ONLY = "reasoning_only"  # text in the field for reasoning and nowhere else
    TRUNCATED = "truncated"  # cut off at the limit of tokens, with text or without
    FILTERED = "filtered"  # cut off or emptied by the provider's filter


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    Attributes:
        text: the answer; what stood in a field for reasoning is never part of it.
        finish_reason: why it ended: ``stop``, ``length``, ``content_filter``, ...
        reasoned: there was text in a field for reasoning.
    """

    text: str
    finish_reason: str
    usage: Usage
    latency_seconds: float
    reasoned: bool = False

    @property
    def kind(self) -> ReplyKind:
        if self.finish_reason == "length":
            return ReplyKind.TRUNCATED
        if self.finish_reason == "content_filter":
            return ReplyKind.FILTERED
        if self.text.strip():
            return ReplyKind.OK
        return ReplyKind.REASONING_ONLY if self.reasoned else ReplyKind.EMPTY

    @property
    def fault(self) -> str | None:
        """Why there is nothing, or not all, to read; None when there is. A cut reply with text can be read."""
        whole = self.kind in (ReplyKind.OK, ReplyKind.TRUNCATED) and self.text.strip()
        return None if whole else self.kind.value


class ModelCall(Protocol):
    """Asks one pool model. Implementations reserve, call, settle; they raise PoolError, BudgetExhausted, LeaseLost."""

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply: ...


class ModelPool(Protocol):
    """The models of one campaign. It must be safe to call from many threads."""

    def complete(
        self,
        agent: int,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        temperature: float,
        timeout_seconds: float,
    ) -> Reply:
        """Ask one model once; raise PoolError when it gave no usable reply in time."""
        ...


@runtime_checkable
class LabelledPool(Protocol):
    """A pool that can tell which call of a campaign it makes; only local pools are told, no provider is."""

    def labelled(self, label: str) -> ModelPool:
        """Return the same models for one call."""
        ...


class StateEncoder(Protocol):
    """Reads the conversations of one campaign."""

    @property
    def hidden_size(self) -> int: ...

    def encode(self, transcript: Transcript, offsets: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the state the head acts on, float32 of shape (hidden_size,).

        Args:
            transcript: the conversation so far.
            offsets: the candidate's singular-value offsets, matrix by matrix, float32 of shape (svf,); empty when the
                campaign searches none. Equal conversations with equal offsets have equal states.
        """
        ...

    def fingerprint(self) -> Fingerprint:
        """Return what decides which state a conversation gets here; the same on every machine that reads alike."""
        ...


class Encoders(Protocol):
    """Has an encoder for every campaign."""

    def encoder(self, spec: EncoderSpec, pool_size: int) -> StateEncoder: ...

    def close(self) -> None: ...
