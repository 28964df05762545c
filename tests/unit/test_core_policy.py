from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import HeadKind, HeadSpec, Matrix, Output
from services.core.errors import LayoutMismatch
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy, RandomPolicy, SinglePolicy
from services.core.policy.selection import draw, select, softmax
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.protocol.transcript import Transcript

LAYOUTS = st.builds(
    Layout.of, st.integers(1, 9), st.lists(st.sampled_from(list(Role)), min_size=1, max_size=3), st.integers(1, 20)
)


def test_the_papers_head_has_10240_parameters() -> None:
    """Table 6."""
    assert Layout.of(7, ROLE_ORDER, 1024).size == 10_240


def test_roles_stand_in_head_order_and_a_single_role_has_no_rows() -> None:
    layout = Layout.of(3, [Role.VERIFIER, Role.WORKER], 4)
    assert (layout.allowed, layout.rows) == ((Role.WORKER, Role.VERIFIER), 5)
    assert Layout.of(3, [Role.WORKER], 4).blocks == {"svf": 0, "head": 12}


@given(LAYOUTS, st.integers(0, 30))
def test_splitting_loses_nothing(layout: Layout, svf: int) -> None:
    layout = replace(layout, matrices=(Matrix("one", svf + 1), Matrix("two", 3)))
    theta = np.arange(layout.size, dtype=np.float32)
    blocks = layout.split(theta)
    assert {name: block.size for name, block in blocks.items()} == layout.blocks
    np.testing.assert_array_equal(np.concatenate([blocks["svf"], blocks["head"]]), theta)


@given(LAYOUTS, st.sampled_from(list(HeadKind)), st.sampled_from(list(Output)), st.none() | st.integers(1, 40))
def test_layouts_survive_json(layout: Layout, kind: HeadKind, output: Output, rank: int | None) -> None:
    layout = replace(layout, spec=HeadSpec(kind, output, rank))
    assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout


def test_a_wrong_vector_is_refused_block_by_block() -> None:
    layout = replace(Layout.of(2, ROLE_ORDER, 4), matrices=(Matrix("one", 3),))
    with pytest.raises(LayoutMismatch, match=r"24 entries, its layout wants 23 \(svf 3 \+ head 20\)"):
        layout.split(np.zeros(24))
    with pytest.raises(LayoutMismatch):
        layout.split(np.zeros((23, 1)))


def test_a_layout_needs_something_to_choose() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Layout.of(0, ROLE_ORDER, 4)
    with pytest.raises(ValueError, match="at least one"):
        Layout.of(2, [], 4)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=10))
def test_softmax_is_a_distribution_at_any_scale(logits: list[float]) -> None:
    probabilities = softmax(np.array(logits, dtype=np.float32))
    assert np.isfinite(probabilities).all()
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities[int(np.argmax(logits))] == probabilities.max()


def test_softmax_ignores_a_common_shift() -> None:
    logits = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(softmax(logits), softmax(logits + 1000), rtol=1e-12)
    np.testing.assert_allclose(softmax(logits)[1] / softmax(logits)[0], np.e)


class Fixed(np.random.Generator):
    """A generator whose uniform numbers are chosen."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self._value = value

    def random(self) -> float:  # type: ignore[override]
        return self._value


@pytest.mark.parametrize("uniform", [0.0, 0.25, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("weights", [[0, 0.5, 0, 0.5, 0], [0, 0, 1], [1, 0], [0.1] * 10, [1 / 3] * 3])
def test_impossible_actions_are_never_drawn(uniform: float, weights: list[float]) -> None:
    assert weights[draw(np.array(weights), Fixed(uniform))] > 0


def test_sampling_follows_the_softmax() -> None:
    layout = Layout.of(2, ROLE_ORDER, 1)
    logits = np.log(np.array([0.8, 0.2, 0.5, 0.3, 0.2]))
    rng = np.random.default_rng(3)
    drawn = [select(logits, layout, rng) for _ in range(20_000)]
    assert np.mean([agent for agent, _ in drawn]) == pytest.approx(0.2, abs=0.015)
    assert np.mean([role is Role.THINKER for _, role in drawn]) == pytest.approx(0.3, abs=0.015)
    both = np.mean([agent == 1 and role is Role.THINKER for agent, role in drawn])
    assert both == pytest.approx(0.06, abs=0.01), "agent and role are independent"


@pytest.mark.parametrize("roles", [ROLE_ORDER, (Role.WORKER,)])
def test_sampling_takes_two_numbers_whatever_the_roles(roles: tuple[Role, ...]) -> None:
    layout = Layout.of(3, roles, 1)
    rng, twin = np.random.default_rng(1), np.random.default_rng(1)
    select(np.zeros(layout.rows), layout, rng)
    twin.random(2)
    assert rng.random() == twin.random()


def test_argmax_takes_the_first_of_the_best() -> None:
    layout = replace(Layout.of(3, ROLE_ORDER, 1), spec=HeadSpec(output=Output.ARGMAX))
    logits = np.array([0, 5, 5, 1, 1, 7])
    assert select(logits, layout, np.random.default_rng(0)) == (1, Role.VERIFIER)


def test_a_zero_head_is_uniform() -> None:
    layout = Layout.of(4, ROLE_ORDER, 8)
    policy = HeadPolicy(np.zeros(layout.size), layout, lambda *_: np.ones(8, dtype=np.float32))
    rng = np.random.default_rng(5)
    decisions = [policy.decide(Transcript("q"), rng) for _ in range(12_000)]
    shares = np.bincount([decision.agent for decision in decisions], minlength=4) / len(decisions)
    np.testing.assert_allclose(shares, 0.25, atol=0.02)
    for role in Role:
        assert np.mean([decision.role is role for decision in decisions]) == pytest.approx(1 / 3, abs=0.02)
    assert decisions[0].logits == (0.0,) * 7


def test_the_head_reads_the_state() -> None:
    layout = Layout.of(2, ROLE_ORDER, 2)
    weights = np.zeros((5, 2), dtype=np.float32)
    weights[0, 0] = weights[1, 1] = weights[4, 0] = weights[3, 1] = 100
    states = {"left": np.array([1, 0], np.float32), "right": np.array([0, 1], np.float32)}
    policy = HeadPolicy(weights.ravel(), layout, lambda transcript, _: states[transcript.query])
    rng = np.random.default_rng(0)
    left, right = policy.decide(Transcript("left"), rng), policy.decide(Transcript("right"), rng)
    assert (left.agent, left.role) == (0, Role.VERIFIER)
    assert (right.agent, right.role) == (1, Role.THINKER)
    assert left.logits == (100.0, 0.0, 0.0, 0.0, 100.0)


def test_a_head_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(LayoutMismatch):
        HeadPolicy(np.zeros(3), Layout.of(2, ROLE_ORDER, 2), lambda *_: np.zeros(2, np.float32))


def test_baselines() -> None:
    rng = np.random.default_rng(0)
    single = SinglePolicy(2).decide(Transcript("q"), rng)
    assert (single.agent, single.role, single.logits) == (2, Role.WORKER, None)
    chance = RandomPolicy(Layout.of(3, [Role.WORKER, Role.VERIFIER], 1))
    drawn = {(decision.agent, decision.role) for decision in (chance.decide(Transcript("q"), rng) for _ in range(300))}
    assert drawn == {(agent, role) for agent in range(3) for role in (Role.WORKER, Role.VERIFIER)}


def test_chance_is_the_zero_head() -> None:
    layout = Layout.of(5, ROLE_ORDER, 3)
    zero = HeadPolicy(np.zeros(layout.size), layout, lambda *_: np.ones(3, np.float32))
    chance = RandomPolicy(layout)
    one, two = np.random.default_rng(9), np.random.default_rng(9)
    for _ in range(50):
        a, b = zero.decide(Transcript("q"), one), chance.decide(Transcript("q"), two)
        assert (a.agent, a.role) == (b.agent, b.role)
