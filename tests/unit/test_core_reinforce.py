from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.campaign import HeadKind, HeadSpec, Matrix, Output
from services.core.errors import SpecError
from services.core.learners import Baseline, ReinforceSpec
from services.core.optimiser.batch import Batch
from services.core.optimiser.reinforce import Reinforce, advantages, clipped, gradient
from services.core.policy.gradient import log_probability_gradient
from services.core.policy.layout import Layout
from services.core.policy.selection import softmax
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.statistics.answer_table import AnswerTable

Array = NDArray[np.float64]

LAYOUT = Layout.of(3, ROLE_ORDER, 5)
PLAIN = ReinforceSpec(entropy=0.0)
WORKERS = Layout.of(3, [Role.WORKER], 5)


def drawn(layout: Layout, episodes: int, seed: int, longest: int = 4) -> Batch:
    """A generation of random decisions, some of which a Thinker took the role of."""
    rng = np.random.default_rng(seed)
    turns = rng.integers(1, longest + 1, episodes)
    decisions = int(turns.sum())
    roles = rng.integers(-1, layout.role_rows, decisions) if layout.role_rows else np.full(decisions, -1)
    return Batch(
        rng.standard_normal((decisions, layout.hidden)).astype(np.float32),
        rng.integers(0, len(layout.agents), decisions),
        roles,
        np.repeat(np.arange(episodes), turns),
        rng.integers(0, 2, episodes).astype(np.float64),
        rng.integers(0, max(1, episodes // 3), episodes),
    )


def surrogate(weights: Array, layout: Layout, batch: Batch, spec: ReinforceSpec) -> float:
    """What a step improves, written down decision by decision."""
    total, count = 0.0, len(layout.agents)
    worth, turns = advantages(batch, spec.baseline), batch.turns
    for state, agent, role, episode in zip(batch.states, batch.agents, batch.roles, batch.episodes, strict=True):
        logits = weights @ state.astype(np.float64)
        policies = [(softmax(logits[:count]), agent)] + ([(softmax(logits[count:]), role)] if role >= 0 else [])
        for policy, chosen in policies:
            entropy = -float((policy * np.log(policy)).sum())
            value = worth[episode] * np.log(policy[chosen]) + spec.entropy * entropy
            total += value / turns[episode] / len(batch.rewards)
    return total - spec.weight_decay / 2 * float((weights**2).sum())


@pytest.mark.parametrize("layout", [LAYOUT, WORKERS], ids=["roles", "workers"])
@given(seed=st.integers(0, 10_000), baseline=st.sampled_from(Baseline))
@settings(max_examples=10, deadline=None)
def test_the_gradient_is_that_of_finite_differences(layout: Layout, seed: int, baseline: Baseline) -> None:
    spec = ReinforceSpec(entropy=0.3, weight_decay=0.2, baseline=baseline)
    batch = drawn(layout, 7, seed)
    weights = 0.5 * np.random.default_rng(seed + 1).standard_normal((layout.rows, layout.hidden))
    found, step = gradient(weights, layout, batch, spec), 1e-5
    for place in np.ndindex(weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = step
        ahead, behind = (surrogate(weights + sign * moved, layout, batch, spec) for sign in (1, -1))
        assert found[place] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)


def test_one_decision_has_the_papers_gradient() -> None:
    """(e_a - pi) h^T, for agents and roles apart, as diagnosis computes it."""
    rng = np.random.default_rng(3)
    weights, states = rng.standard_normal((6, 5)), rng.standard_normal((2, 5)).astype(np.float32)
    batch = Batch(states, np.array([2, 0]), np.array([1, 2]), np.array([0, 1]), np.array([1.0, 0.0]), np.array([0, 1]))
    parts = [
        log_probability_gradient(weights @ state.astype(np.float64), LAYOUT, agent, role, state)
        for state, agent, role in zip(states, (2, 0), (ROLE_ORDER[1], ROLE_ORDER[2]), strict=True)
    ]
    wanted = (parts[0] - parts[1]) / 2
    np.testing.assert_allclose(gradient(weights, LAYOUT, batch, PLAIN), wanted, rtol=1e-12)


def test_over_all_actions_the_gradient_is_that_of_the_expected_reward() -> None:
    rng = np.random.default_rng(5)
    table = AnswerTable(rng.standard_normal((1, 5)).astype(np.float32).astype(np.float64), np.array([[1.0, 0.0, 0.5]]))
    weights = rng.standard_normal((3, 5))
    policy = softmax(weights @ table.states[0])
    expected = float(policy @ table.rewards[0])
    total = np.zeros((3, 5))
    for one in range(3):  # two episodes: what each is compared with is the other's reward
        for two in range(3):
            batch = Batch(
                np.repeat(table.states, 2, axis=0).astype(np.float32),
                np.array([one, two]),
                np.full(2, -1),
                np.arange(2),
                table.rewards[0, [one, two]],
                np.zeros(2, dtype=np.intp),
            )
            total += policy[one] * policy[two] * gradient(weights, WORKERS, batch, PLAIN)
    np.testing.assert_allclose(total, table.gradient(weights), atol=1e-12)
    assert expected > 0


def test_a_role_that_a_thinker_chose_moves_no_role() -> None:
    batch = replace(drawn(LAYOUT, 6, 1), roles=np.full(len(drawn(LAYOUT, 6, 1).roles), -1))
    found = gradient(np.ones((6, 5)), LAYOUT, batch, ReinforceSpec(entropy=0.5))
    assert found[:3].any()
    assert not found[3:].any()


def test_baselines() -> None:
    batch = Batch(
        np.zeros((5, 5), dtype=np.float32),
        np.zeros(5, dtype=np.intp),
        np.full(5, -1),
        np.arange(5),
        np.array([1.0, 0.0, 0.0, 1.0, 1.0]),
        np.array([7, 7, 7, 2, 9]),
    )
    np.testing.assert_allclose(advantages(batch, Baseline.BATCH), [0.5, -0.75, -0.75, 0.5, 0.5])
    np.testing.assert_allclose(advantages(batch, Baseline.PROBLEM), [1.0, -0.5, -0.5, 0.5, 0.5])


def test_clipping_keeps_the_direction() -> None:
    slope = np.array([[3.0, 4.0]])
    np.testing.assert_allclose(clipped(slope, 1.0), [[0.6, 0.8]])
    assert clipped(slope, 6.0) is slope
    assert clipped(slope, None) is slope


def play(learner: Reinforce, layout: Layout, table: AnswerTable, rng: np.random.Generator) -> Batch:
    """One generation of single turns with recorded rewards."""
    questions = rng.integers(0, len(table.states), 64)
    logits = table.states[questions] @ learner.ask()[0].reshape(layout.rows, layout.hidden).T
    agents = np.array([rng.choice(3, p=softmax(row[:3])) for row in logits])
    rewards = table.rewards[questions, agents]
    states = table.states[questions].astype(np.float32)
    return Batch(states, agents, np.full(64, -1), np.arange(64), rewards, questions)


def routing(questions: int = 30, seed: int = 0) -> AnswerTable:
    """Questions of three kinds, each with one model that answers it."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, questions)
    states = rng.standard_normal((3, 5))[kinds] + 0.05 * rng.standard_normal((questions, 5))
    return AnswerTable(states, np.eye(3)[kinds])


@pytest.mark.parametrize("baseline", list(Baseline))
def test_it_learns_to_route(baseline: Baseline) -> None:
    table, rng = routing(), np.random.default_rng(1)
    learner = Reinforce(1, WORKERS, ReinforceSpec(rate=0.05, baseline=baseline))
    for _ in range(200):
        learner.tell_batch(play(learner, WORKERS, table, rng))
    assert table.values(learner.mean.reshape(3, 5)).mean() > 0.97


def test_it_continues_to_the_bit() -> None:
    table, spec = routing(), ReinforceSpec(rate=0.05, clip=0.1, entropy=0.01, weight_decay=1e-3, spread=0.1)
    whole, rng = Reinforce(4, WORKERS, spec), np.random.default_rng(2)
    batches = []
    for _ in range(6):
        batches.append(play(whole, WORKERS, table, rng))
        whole.tell_batch(batches[-1])
    half = Reinforce(4, WORKERS, spec)
    for batch in batches[:3]:
        half.tell_batch(batch)
    again = Reinforce(99, WORKERS, replace(spec, spread=0.0))
    again.restore(3, half.mean, half.memory)
    assert again.checksum() == half.checksum()
    for batch in batches[3:]:
        again.tell_batch(batch)
    assert (again.mean.tobytes(), again.checksum()) == (whole.mean.tobytes(), whole.checksum())
    assert again.generation == 6


def test_it_is_one_vector_whose_start_may_be_drawn() -> None:
    learner = Reinforce(4, LAYOUT, ReinforceSpec(spread=1e-3))
    assert learner.ask().tobytes() == learner.mean.tobytes()
    assert learner.ask().shape == (1, 30)
    assert 3e-4 < learner.mean.std() < 3e-3
    assert not Reinforce(4, LAYOUT, ReinforceSpec()).mean.any()
    start = np.arange(30.0)
    assert Reinforce(4, LAYOUT, ReinforceSpec(spread=1.0), start).mean.tobytes() == start.tobytes()


def test_a_bad_batch_leaves_it_as_it_was() -> None:
    learner = Reinforce(4, WORKERS, ReinforceSpec())
    before, batch = learner.checksum(), drawn(WORKERS, 4, 0)
    with pytest.raises(ValueError, match="width 4"):
        learner.tell_batch(replace(batch, states=batch.states[:, :4]))
    with pytest.raises(ValueError, match="3 agents"):
        learner.tell_batch(replace(batch, agents=batch.agents + 1))
    with pytest.raises(ValueError, match="roles"):
        learner.tell_batch(replace(batch, roles=batch.roles + 2))
    with pytest.raises(ValueError, match="at least one decision"):
        replace(batch, rewards=np.ones(9), problems=np.zeros(9, dtype=np.intp))
    with pytest.raises(ValueError, match="finite"):
        replace(batch, rewards=batch.rewards * np.nan)
    with pytest.raises(ValueError, match="one entry for each"):
        replace(batch, agents=batch.agents[1:])
    with pytest.raises(ValueError, match="finite"):
        learner.restore(1, learner.mean + np.inf, learner.memory)
    with pytest.raises(ValueError, match="shape"):
        learner.restore(1, learner.mean, learner.memory[1:])
    assert learner.checksum() == before


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (replace(LAYOUT, spec=HeadSpec(HeadKind.SPARSE)), "head.kind"),
        (replace(LAYOUT, spec=HeadSpec(output=Output.ARGMAX)), "head.output"),
        (replace(LAYOUT, matrices=(Matrix("layers.0.self_attn.q_proj", 4),)), "encoder.singular_values"),
    ],
)
def test_only_a_drawn_linear_head_has_this_gradient(layout: Layout, path: str) -> None:
    with pytest.raises(SpecError) as caught:
        Reinforce(1, layout, ReinforceSpec())
    assert caught.value.path == path
