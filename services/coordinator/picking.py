"""Who acts next, by a loaded coordinator: the very policy that the campaign's episodes ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from services.checkpoint.description import Description
from services.checkpoint.folder import Checkpoint
from services.coordinator.chat import as_transcript
from services.core.policy.policies import HeadPolicy
from services.core.policy.selection import softmax
from services.core.protocol.ports import Decision, StateEncoder
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.protocol.visibility import router_view


@dataclass(frozen=True)
class Probabilities:
    """The two softmaxes over the logits: by name of the model, and by role. They do not depend on each other."""

    models: Mapping[str, float]
    roles: Mapping[Role, float]


@dataclass(frozen=True)
class Choice:
    """Who acts next.

    Attributes:
        model: the pool model's name.
        agent: its place in the pool.
        role: in which it acts.
        probabilities: of every choice. A head whose output is argmax takes the likeliest.
        logits: the head's output, one per model that may be chosen, then one per role if there are several.
    """

    model: str
    agent: int
    role: Role
    probabilities: Probabilities
    logits: tuple[float, ...]


class Coordinator:
    """A checkpoint with its encoder. Safe to use from many threads; close it, or use it as a context manager."""

    def __init__(self, checkpoint: Checkpoint, encoder: StateEncoder, close: Callable[[], None]) -> None:
        """Take what ``load`` has checked; ``close`` frees the encoder."""
        self.description: Description = checkpoint.description
        self._policy = HeadPolicy(checkpoint.theta, checkpoint.description.layout, encoder.encode)
        self._close = close

    def pick(
        self,
        conversation: Sequence[Mapping[str, Any]] | Transcript,
        rng: np.random.Generator | int | None = None,
    ) -> Choice:
        """Return who acts next.

        Args:
            conversation: a chat, see ``services.coordinator.chat``; or a transcript, read as it is.
            rng: a generator or a seed; None draws differently each time. A generator gives the choice that a campaign's
                episode makes from the same state.

        Raises:
            SpecError: the chat has no question, or a message that is no text.
            AttemptInterrupted: the coordinator was closed.
        """
        whole = conversation if isinstance(conversation, Transcript) else as_transcript(conversation)
        transcript = router_view(whole, self.description.protocol.notes)
        return self._choice(self._policy.decide(transcript, np.random.default_rng(rng)))

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _choice(self, decision: Decision) -> Choice:
        layout, pool = self.description.layout, self.description.pool
        logits = np.asarray(decision.logits, dtype=np.float32)
        agents, roles = logits[: len(layout.agents)], logits[len(layout.agents) :]
        models = zip((pool[agent].name for agent in layout.agents), softmax(agents), strict=True)
        chances = zip(layout.allowed, softmax(roles) if layout.role_rows else (1.0,), strict=True)
        return Choice(
            model=pool[decision.agent].name,
            agent=decision.agent,
            role=decision.role,
            probabilities=Probabilities(
                {name: float(chance) for name, chance in models}, {role: float(chance) for role, chance in chances}
            ),
            logits=tuple(float(value) for value in logits),
        )
