"""The trees of many questions as arrays: an episode is a few look-ups, and its expectation a sum.

What is looked up was played by the product's own episode; tests/unit/test_bench_comparison.py plays both side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.comparison_tree import Tree
from services.core.campaign import Output
from services.core.policy.layout import Layout
from services.core.policy.selection import softmax

Float64 = NDArray[np.float64]
Indices = NDArray[np.intp]

ENDS = -1


@dataclass(frozen=True)
class Game:
    """Questions side by side; ``n`` nodes in all, actions by role and agent in the campaign's order.

    Attributes:
        states: what the head acts on, float32 of shape (n, d).
        depth: turns before each node, (n,).
        roots: the node of each question, (questions,).
        question: of each node, (n,).
        child: the node after each action, ENDS where the episode ends there, (n, roles, agents).
        reward: of the episode if it ends after each action, likewise.
        prompt_bytes: what is read by who is asked, 0 where nobody is, likewise.
        rejected: the state of each question with each agent's answer and a review that rejects it, whether or not any
            agent would; (questions, agents, d), none where there are single turns.
    """

    states: NDArray[np.float32]
    depth: Indices
    roots: Indices
    question: Indices
    child: Indices
    reward: Float64
    prompt_bytes: Float64
    rejected: NDArray[np.float32]

    @property
    def questions(self) -> int:
        return len(self.roots)

    @property
    def turns(self) -> int:
        return int(self.depth.max()) + 1

    @property
    def singles(self) -> Float64:
        """Reward of every model on its own, (questions, agents): the Worker is the first role."""
        found: Float64 = self.reward[self.roots, 0]
        return found

    @property
    def answered(self) -> NDArray[np.float32]:
        """State of each question with each agent's answer, likewise: the Worker is the first role."""
        found: NDArray[np.float32] = self.states[self.child[self.roots, 0]]
        return found

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **{one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def load(cls, file: Path) -> Game:
        with np.load(file) as found:
            return cls(**{one.name: found[one.name] for one in fields(cls)})


def game_of(
    trees: Sequence[Tree], states: Sequence[NDArray[np.float32]], rejected: NDArray[np.float32], agents: int
) -> Game:
    """Return the arrays of trees, of the states of their nodes and of those after a review."""
    starts = np.cumsum([0, *(len(tree.transcripts) for tree in trees)])
    child, reward, read = [], [], []
    for start, tree in zip(starts, trees, strict=False):
        for edges in tree.edges:
            child.append([ENDS if edge.child is None else start + edge.child for edge in edges])
            reward.append([edge.reward for edge in edges])
            read.append([edge.prompt_bytes for edge in edges])
    shape = (int(starts[-1]), -1, agents)
    return Game(
        states=np.concatenate(states),
        depth=np.array([len(one.items) for tree in trees for one in tree.transcripts]),
        roots=starts[:-1],
        question=np.repeat(np.arange(len(trees)), np.diff(starts)),
        child=np.array(child).reshape(shape),
        reward=np.array(reward, dtype=np.float64).reshape(shape),
        prompt_bytes=np.array(read, dtype=np.float64).reshape(shape),
        rejected=rejected,
    )


@dataclass(frozen=True)
class Played:
    """Episodes of several candidates on the same questions and seeds.

    Attributes:
        rewards: (candidates, episodes).
        nodes: where each turn was decided, ENDS after the end, (candidates, episodes, turns).
        agents: who acted, likewise.
        roles: in which of the layout's roles, likewise.
    """

    rewards: Float64
    nodes: Indices
    agents: Indices
    roles: Indices


def uniforms(seeds: Sequence[int], turns: int) -> Float64:
    """Return the numbers that episodes with these seeds draw, two a turn, (episodes, turns, 2)."""
    drawn = [np.random.Generator(np.random.PCG64(seed)).random(2 * turns) for seed in seeds]
    return np.array(drawn).reshape(len(seeds), turns, 2)


def play(
    game: Game, layout: Layout, thetas: Float64, questions: Indices, numbers: Float64, turns: int | None = None
) -> Played:
    """Play candidates (c, n) on ``questions`` (e,) with the draws ``numbers`` (e, turns, 2), as HeadPolicy would."""
    limit = turns or game.turns
    shape = (len(thetas), len(questions), limit)
    nodes, agents, roles = (np.full(shape, ENDS) for _ in range(3))
    rewards = np.zeros(shape[:2])
    at = np.broadcast_to(game.roots[questions], shape[:2]).copy()
    for turn in range(limit):
        going = at != ENDS
        logits = _logits(layout, thetas, game.states[np.maximum(at, 0)])
        agent = _chosen(layout, logits[..., : len(layout.agents)], numbers[:, turn, 0])
        role = (
            _chosen(layout, logits[..., len(layout.agents) :], numbers[:, turn, 1]) if layout.role_rows else 0 * agent
        )
        rewards = np.where(going, game.reward[at, role, agent], rewards)
        for kept, now in ((nodes, at), (agents, agent), (roles, role)):
            kept[..., turn] = np.where(going, now, ENDS)
        at = np.where(going, game.child[at, role, agent], ENDS)
    return Played(rewards, nodes, agents, roles)


def choices(game: Game, layout: Layout, theta: Float64) -> Float64:
    """Return the probability of every action at every node, (n, roles, agents)."""
    logits = _logits(layout, theta[None], game.states[None])[0]
    agents, roles = logits[:, : len(layout.agents)], logits[:, len(layout.agents) :]
    if layout.spec.output is Output.ARGMAX:
        agents, roles = (np.eye(part.shape[1])[part.argmax(axis=1)] if part.size else part for part in (agents, roles))
    else:
        agents, roles = (softmax(part) if part.size else part for part in (agents, roles))
    roles = roles if layout.role_rows else np.ones((len(agents), 1))
    found: Float64 = roles[:, :, None] * agents[:, None, :]
    return found


def expected(game: Game, chosen: Float64, worth: Float64, turns: int | None = None) -> Float64:
    """Return what every question is worth to a policy, (questions, k): the mean over its draws, without any noise.

    Args:
        game: the recorded game.
        chosen: the policy, (n, roles, agents).
        worth: what an action adds when it is taken, (n, roles, agents, k).
        turns: the limit of turns; the game's by default.
    """
    limit = turns or game.turns
    value = np.zeros((len(game.depth), worth.shape[-1]))
    for depth in reversed(range(limit)):
        rows = np.flatnonzero(game.depth == depth)
        after = game.child[rows]
        later = np.where((after != ENDS)[..., None] & (depth + 1 < limit), value[after], 0.0)
        value[rows] = np.einsum("nra,nrak->nk", chosen[rows], worth[rows] + later)
    found: Float64 = value[game.roots]
    return found


def rewards_at_end(game: Game, turns: int | None = None) -> Float64:
    """Return an action's reward where it ends the episode, else 0, (n, roles, agents)."""
    last = (game.depth + 1 >= (turns or game.turns))[:, None, None]
    return np.where((game.child == ENDS) | last, game.reward, 0.0)


def _logits(layout: Layout, thetas: Float64, states: NDArray[np.float32]) -> Float64:
    """Return logits (c, e, rows) of states (c, e, d), rounded to float32 as the head does."""
    weights = thetas.astype(np.float32).astype(np.float64).reshape(len(thetas), layout.rows, layout.hidden)
    products = states.astype(np.float64) @ weights.transpose(0, 2, 1)
    return products.astype(np.float32).astype(np.float64)


def _chosen(layout: Layout, logits: Float64, numbers: Float64) -> Indices:
    """Return indices (c, e) as ``selection.select`` finds them, with ``numbers`` (e,) where it draws."""
    if layout.spec.output is Output.ARGMAX:
        largest: Indices = logits.argmax(axis=-1)
        return largest
    cumulative = np.cumsum(softmax(logits), axis=-1)
    drawn: Indices = (cumulative <= (numbers * cumulative[..., -1])[..., None]).sum(axis=-1)
    return drawn
