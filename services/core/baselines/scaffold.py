"""The port of the methods that answer a question by a fixed scheme of calls, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from services.core.campaign import Notes, ProtocolSpec
from services.core.protocol.answers import parse_worker
from services.core.protocol.episode import EpisodeResult, Termination, run_episode
from services.core.protocol.evidence import Examine
from services.core.protocol.ports import Message, Policy, Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import CallRole, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript

# Tells whether two final answers to the question at hand are the same; None, no answer, is the same as nothing.
Same = Callable[[str | None, str | None], bool]


class ScaffoldCall(Protocol):
    """Asks one pool model as ``ModelCall`` does, also as a coordinator and with another limit of tokens.

    No two calls of an episode have the same turn.
    """

    def __call__(
        self,
        *,
        turn: int,
        agent: int,
        role: Role | CallRole,
        messages: Sequence[Message],
        max_output_tokens: int | None = None,
    ) -> Reply:
        """Return the reply; None takes the protocol's limit of tokens."""
        ...


@dataclass(frozen=True)
class Episode:
    """One question, and what may be asked about it.

    Attributes:
        question: the problem's question.
        call: asks one pool model.
        protocol: the campaign's, for its limits and prompts.
        pool_size: number of pool models.
        rng: the episode's own generator.
        check: runs before every call; raises when the episode must not go on.
    """

    question: str
    call: ScaffoldCall
    protocol: ProtocolSpec
    pool_size: int
    rng: np.random.Generator
    check: Callable[[], None] = lambda: None

    def draw(self, agents: Sequence[int]) -> int:
        """Return one of them, drawn uniformly."""
        return agents[int(self.rng.integers(len(agents)))]

    def ask_worker(
        self,
        notes: Sequence[Item] = (),
        *,
        turn: int,
        agent: int,
        added: str = "",
        max_output_tokens: int | None = None,
    ) -> Item:
        """Return the turn of a model that works on the question.

        Args:
            notes: earlier answers that it reads, with their proposed answers whatever ``protocol.notes`` says.
            turn: number of the call and of the item.
            agent: pool index.
            added: paragraph at the end of the Worker's instruction.
            max_output_tokens: None for the protocol's limit.
        """
        self.check()
        shown = replace(self.protocol, notes=Notes.ALL)
        messages = messages_for(Role.WORKER, Transcript(self.question, tuple(notes)), shown, added=added)
        reply = self.call(
            turn=turn, agent=agent, role=Role.WORKER, messages=messages, max_output_tokens=max_output_tokens
        )
        text, answer = parse_worker(reply.text)
        return Item(
            number=turn,
            agent=agent,
            role=Role.WORKER,
            role_source=RoleSource.FIXED,
            output=reply.text,
            text=text,
            answer=answer,
            truncated=reply.finish_reason == "length",
        )

    def ask_each(self, agents: Sequence[int]) -> list[Item]:
        """Return an answer of each in order; they read the question alone."""
        return [self.ask_worker(turn=turn, agent=agent) for turn, agent in enumerate(agents, start=1)]

    def converse(self, policy: Policy, examine: Examine) -> EpisodeResult:
        """Return the conversation that a policy leads; see ``run_episode``."""
        return run_episode(
            self.question, policy, self.call, self.protocol, self.pool_size, self.rng, check=self.check, examine=examine
        )

    def result(self, items: Sequence[Item], returned: Item) -> EpisodeResult:
        """Return the episode whose answer is that of one of its turns, each of which was one call."""
        found = returned.answer is not None
        return EpisodeResult(
            Transcript(self.question, tuple(items)),
            Termination.TURN_LIMIT if found else Termination.NO_ANSWER,
            returned.answer,
            returned.agent if found else None,
            len(items),
            returned.truncated,
        )


class Scaffold(Protocol):
    """Answers one question. One instance serves one episode."""

    def play(self, episode: Episode) -> EpisodeResult:
        """Play it to the end, one item of the transcript for every Worker's call, numbered as the call.

        Raises:
            TrinityError: whatever its ``check`` and ``call`` raise; the episode then has no result at all.
        """
        ...
