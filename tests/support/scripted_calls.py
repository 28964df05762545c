"""Pool models as functions, for scaffolds: what is asked is noted, what is answered is up to the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.core.baselines.scaffold import Episode, Scaffold
from services.core.campaign import ProtocolSpec
from services.core.ledger.usage import Usage
from services.core.protocol.answers import write_worker
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.ports import Message, Reply
from services.core.protocol.request import Request, read_request
from services.core.protocol.roles import CallRole, Role
from services.core.scoring.exact import normalise

QUESTION = "What is 2 + 2?"


@dataclass(frozen=True)
class Asked:
    turn: int
    agent: int
    role: Role | CallRole
    messages: Sequence[Message]
    max_output_tokens: int | None

    @property
    def request(self) -> Request:
        return read_request(self.messages)


@dataclass
class ScriptedCall:
    """``answers`` returns a model's whole text for a call."""

    answers: Callable[[Asked], str]
    finish_reason: str = "stop"
    asked: list[Asked] = field(default_factory=list)

    def __call__(
        self,
        *,
        turn: int,
        agent: int,
        role: Role | CallRole,
        messages: Sequence[Message],
        max_output_tokens: int | None = None,
    ) -> Reply:
        self.asked.append(Asked(turn, agent, role, messages, max_output_tokens))
        return Reply(self.answers(self.asked[-1]), self.finish_reason, Usage(1, 1), 0.0)


def by_turn(*answers: str | None) -> ScriptedCall:
    """Return models whose n-th call gives the n-th final answer."""
    return ScriptedCall(lambda asked: write_worker("thought", answers[asked.turn - 1]))


def by_agent(*answers: str | None) -> ScriptedCall:
    return ScriptedCall(lambda asked: write_worker("thought", answers[asked.agent]))


def same(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and normalise(a) == normalise(b)


def play(
    scaffold: Scaffold,
    call: ScriptedCall,
    protocol: ProtocolSpec | None = None,
    *,
    pool_size: int = 3,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> EpisodeResult:
    return scaffold.play(
        Episode(QUESTION, call, protocol or ProtocolSpec(), pool_size, np.random.default_rng(seed), check)
    )
