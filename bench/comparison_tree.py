"""The conversations that recorded models can have about a question, as a tree.

Recorded models are deterministic: what one says depends on its role and on the answer under review alone. Conversations
whose texts are equal are one node, whoever spoke, as neither router nor model reads names. Every edge is an episode of
the product itself, played with a script in place of the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.comparison_set import RecordedSet
from services.core.ledger.usage import Usage
from services.core.problem import Problem, ScorerKind
from services.core.protocol.episode import EpisodeResult, run_episode
from services.core.protocol.ports import Decision, Message, Reply
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.protocol.verdict import Verdict, VerdictSource
from services.core.scoring.scorer import Graders, grade

Action = tuple[int, Role]

_UNUSED = np.random.default_rng(0)  # nothing here draws


@dataclass(frozen=True)
class Edge:
    """What follows when an agent acts in a role.

    Attributes:
        child: the node that follows, None where the episode ends here whatever the limit of turns.
        reward: of the episode if it ends here.
        prompt_bytes: what the agent is asked to read, 0 where nobody is asked.
    """

    child: int | None
    reward: float
    prompt_bytes: int


@dataclass(frozen=True)
class Tree:
    """All conversations of a question, the empty one first, parents before children.

    Attributes:
        problem: with the question.
        actions: agents within roles, in the order of each node's edges.
        transcripts: one for each node.
        edges: likewise.
    """

    problem: Problem
    actions: tuple[Action, ...]
    transcripts: tuple[Transcript, ...]
    edges: tuple[tuple[Edge, ...], ...]


class Script:
    """Decides what it is told."""

    def __init__(self, path: Sequence[Action]) -> None:
        self._path = iter(path)

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        return Decision(*next(self._path))


class Recorder:
    """Asks recorded models in this process, and keeps what the last call read."""

    def __init__(self, recorded: RecordedSet) -> None:
        self._replay, self._models = recorded.replay, recorded.served
        self.calls: list[int] = []

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply:
        self.calls.append(sum(len(message.content.encode()) for message in messages))
        return Reply(self._replay.reply(self._models[agent], messages), "stop", Usage(0, 0, estimated=True), 0.0)


def grow(recorded: RecordedSet, problem: Problem) -> Tree:
    """Return the tree of a question down to the campaign's limit of turns."""
    protocol = recorded.campaign.protocol
    actions = tuple((agent, role) for role in protocol.roles for agent in range(len(recorded.models)))
    alike = _alike(recorded, problem)
    root = Transcript(problem.question)
    known, transcripts, edges = {texts(root): 0}, [root], []
    paths: list[tuple[Action, ...]] = [()]
    for path in paths:  # which grow on the way
        found: dict[Action, Edge] = {}
        for agent, role in actions:
            action = (alike[agent], role)
            if action not in found:
                result, prompt_bytes = play(recorded, problem, (*path, action))
                child = None
                if not accepted(result) and len(path) + 1 < protocol.max_turns:
                    child = known.setdefault(texts(result.transcript), len(transcripts))
                    if child == len(transcripts):
                        transcripts.append(result.transcript)
                        paths.append((*path, action))
                found[action] = Edge(child, reward_of(recorded, problem, result), prompt_bytes)
        edges.append(tuple(found[alike[agent], role] for agent, role in actions))
    return Tree(problem, actions, tuple(transcripts), tuple(edges))


def _alike(recorded: RecordedSet, problem: Problem) -> list[int]:
    """Return for each agent the first one that says the same in every role: that recorded the same answer."""
    if problem.scorer is ScorerKind.RECORDED:
        return list(range(len(recorded.models)))
    answers = [recorded.index[problem.question].answers[served] for served in recorded.served]
    return [answers.index(answer) for answer in answers]


def play(recorded: RecordedSet, problem: Problem, path: Sequence[Action]) -> tuple[EpisodeResult, int]:
    """Play an episode of exactly these actions; return it and the bytes its last turn read, 0 where none was asked."""
    call = Recorder(recorded)
    protocol = replace(recorded.campaign.protocol, max_turns=len(path))
    result = run_episode(problem.question, Script(path), call, protocol, len(recorded.models), _UNUSED)
    last = result.transcript.items[-1]
    return result, call.calls[-1] if last.verdict_source is not VerdictSource.RULE else 0


def answers(tree: Tree) -> list[Transcript]:
    """Return the conversation after each agent's answer; none where it ends there."""
    firsts = [edge.child for edge, (_, role) in zip(tree.edges[0], tree.actions, strict=True) if role is Role.WORKER]
    return [tree.transcripts[child] for child in firsts if child is not None]


def accepted(result: EpisodeResult) -> bool:
    """Tell whether a Verifier ended the episode, also one without an answer."""
    return result.transcript.items[-1].verdict is Verdict.ACCEPT


def reward_of(recorded: RecordedSet, problem: Problem, result: EpisodeResult) -> float:
    """Return the reward of a finished episode, as a worker grades it."""
    answered_by = None if result.answered_by is None else recorded.models[result.answered_by]
    return grade(problem, result.answer, answered_by, Graders()).reward


def texts(transcript: Transcript) -> tuple[tuple[object, ...], ...]:
    """Return all that routers and models read of the turns."""
    return tuple((item.role, item.text, item.answer, item.verdict) for item in transcript.items)
