from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.campaign import HeadKind, HeadSpec, Matrix, Output
from services.core.errors import SpecError
from services.core.policy.gradient import log_probability_gradient
from services.core.policy.head import Head
from services.core.policy.heads import elu, halves, head_of, singles
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.policy.sparsity import hard_mask, kept, training_mask
from services.core.protocol.ports import Decision
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.protocol.transcript import Transcript

Array = NDArray[np.float64]
KINDS = st.sampled_from(list(HeadKind))
SMALL = settings(max_examples=40, deadline=None)


def head(kind: HeadKind, rows: int = 10, hidden: int = 1024, rank: int | None = None) -> Head:
    return head_of(HeadSpec(kind, rank=rank), rows, hidden)


def some(kind: HeadKind, rows: int, hidden: int, seed: int) -> tuple[Head, Array, NDArray[np.float32]]:
    """Return a head with float32 parameters and a state as large as an encoder's."""
    made, rng = head(kind, rows, hidden), np.random.default_rng(seed)
    parameters = rng.standard_normal(made.size).astype(np.float32).astype(np.float64)
    return made, parameters, (30 * rng.standard_normal(hidden)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "rank", "size"),
    [
        (HeadKind.LINEAR, None, 10_240),
        (HeadKind.LOW_RANK, None, 20_680),
        (HeadKind.LOW_RANK, 14, 14_476),
        (HeadKind.SPARSE, None, 11_266),
        (HeadKind.BLOCK_DIAGONAL_2, None, 5_120),
        (HeadKind.BLOCK_DIAGONAL_10, None, 1_024),
    ],
)
def test_the_numbers_of_parameters_are_those_of_table_6(kind: HeadKind, rank: int | None, size: int) -> None:
    """And rank 14, which the appendix's text has instead of the table's 20."""
    layout = replace(Layout.of(7, ROLE_ORDER, 1024), spec=HeadSpec(kind, rank=rank), matrices=(Matrix("one", 9_216),))
    assert layout.blocks == {"svf": 9_216, "head": size}
    assert layout.size == 9_216 + size
    assert sum(part.size for part in layout.head.split(np.zeros(size)).values()) == size


@given(KINDS, st.integers(1, 9), st.integers(9, 40))
@SMALL
def test_parts_are_views_in_the_order_of_the_vector(kind: HeadKind, rows: int, hidden: int) -> None:
    made = head(kind, rows, hidden)
    vector = np.arange(made.size)
    parts = made.split(vector)
    assert {name: part.shape for name, part in parts.items()} == made.shapes
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in parts.values()]), vector)
    assert all(np.shares_memory(part, vector) for part in parts.values())


def test_all_start_at_zero_but_the_low_rank_head() -> None:
    for kind in set(HeadKind) - {HeadKind.LOW_RANK}:
        assert not Layout.of(7, ROLE_ORDER, 64).start(1).any(), kind


def test_the_low_rank_head_starts_at_the_glorot_point() -> None:
    """Equation 8, after the zeros of the singular values."""
    spec, matrices = HeadSpec(HeadKind.LOW_RANK), (Matrix("one", 5),)
    layout = replace(Layout.of(7, ROLE_ORDER, 1024), spec=spec, matrices=matrices)
    start = layout.start(3)
    parts = layout.head.split(start[5:])
    assert not start[:5].any()
    for part, bound in ((parts["down"], (6 / 1044) ** 0.5), (parts["up"], (18 / 30) ** 0.5)):
        assert 0.97 * bound < np.abs(part).max() < bound
        assert part.std() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert start.tobytes() == layout.start(3).tobytes() != layout.start(4).tobytes()


def test_at_zero_no_single_step_moves_the_low_rank_head() -> None:
    made, _, state = some(HeadKind.LOW_RANK, 5, 20, 0)
    at_zero, at_start = np.zeros(made.size), made.start(np.random.default_rng(0))
    for place in (0, made.size - 1):
        step = np.zeros(made.size)
        step[place] = 0.5
        assert not made.logits(at_zero + step, state).any()
        assert made.logits(at_start + step, state).tolist() != made.logits(at_start, state).tolist()


def plain(kind: HeadKind, parameters: Array, state: Array, rows: int) -> list[float]:
    """The formulas of appendix A.4 with loops over single numbers, at rank 2 and without noise."""
    d = len(state)
    if kind is HeadKind.LINEAR:
        return [sum(parameters[i * d + j] * state[j] for j in range(d)) for i in range(rows)]
    if kind is HeadKind.LOW_RANK:
        inner = [sum(parameters[i * d + j] * state[j] for j in range(d)) for i in range(2)]
        bent = [value if value >= 0 else 0.1 * (np.exp(value) - 1) for value in inner]
        return [3 * sum(parameters[2 * d + i * 2 + j] * bent[j] for j in range(2)) for i in range(rows)]
    if kind is HeadKind.SPARSE:
        scores, rho = parameters[rows * d : rows * d + d], parameters[rows * d + d]
        count = max(1, int(d * (1 - 1 / (1 + np.exp(-rho)))))
        best = sorted(range(d), key=lambda j: -scores[j])[:count]
        return [sum(parameters[i * d + j] * state[j] for j in best) for i in range(rows)]
    if kind is HeadKind.BLOCK_DIAGONAL_2:
        first = (rows + 1) // 2
        cut = first * d // rows
        blocks = [(0, cut)] * first + [(cut, d)] * (rows - first)
    else:
        widths = [d // rows + (1 if i < d % rows else 0) for i in range(rows)]
        blocks = [(sum(widths[:i]), sum(widths[: i + 1])) for i in range(rows)]
    out, at = [], 0
    for begin, end in blocks:
        out.append(sum(parameters[at + j] * state[begin + j] for j in range(end - begin)))
        at += end - begin
    return out


@given(KINDS, st.integers(1, 10), st.integers(10, 33), st.integers(0, 2**32))
@SMALL
def test_logits_are_the_papers_formulas(kind: HeadKind, rows: int, hidden: int, seed: int) -> None:
    made = head(kind, rows, hidden, rank=2)
    rng = np.random.default_rng(seed)
    parameters = rng.standard_normal(made.size)
    state = rng.standard_normal(hidden).astype(np.float32)
    logits = made.logits(parameters, state)
    assert logits.dtype == np.float32
    assert logits.shape == (rows,)
    np.testing.assert_allclose(logits, plain(kind, parameters, state.astype(float), rows), rtol=1e-6, atol=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 300))
@settings(deadline=None)
def test_logits_do_not_depend_on_the_order_of_summation(seed: int, rows: int, hidden: int) -> None:
    made, parameters, state = some(HeadKind.LINEAR, rows, hidden, seed)
    order = np.random.default_rng(seed).permutation(hidden)
    shuffled = parameters.reshape(rows, hidden)[:, order].ravel()
    np.testing.assert_array_max_ulp(made.logits(parameters, state), made.logits(shuffled, state[order]), maxulp=1)


@pytest.mark.parametrize("kind", list(HeadKind))
@pytest.mark.parametrize("state", [np.zeros(3), np.zeros((4, 1)), np.array([0, np.nan, 0, 0]), np.full(4, np.inf)])
def test_unfit_states_are_refused(kind: HeadKind, state: Array) -> None:
    made = head(kind, 2, 4)
    with pytest.raises(ValueError, match="the encoder's state"):
        made.logits(np.zeros(made.size), state)


def test_the_blocks_are_those_of_the_appendix() -> None:
    assert halves(10, 1024) == ((5, 512), (5, 512))
    assert halves(7, 10) == ((4, 5), (3, 5))
    assert halves(1, 4) == ((1, 4),)
    assert [inputs for _, inputs in singles(10, 1024)] == [103] * 4 + [102] * 6


@given(st.integers(1, 12), st.integers(0, 60))
def test_blocks_cover_logits_and_inputs_once(rows: int, more: int) -> None:
    for partition in (halves(rows, rows + more), singles(rows, rows + more)):
        assert sum(outputs for outputs, _ in partition) == rows
        assert sum(inputs for _, inputs in partition) == rows + more
        assert all(outputs > 0 and inputs > 0 for outputs, inputs in partition)


@pytest.mark.parametrize("kind", [HeadKind.BLOCK_DIAGONAL_2, HeadKind.BLOCK_DIAGONAL_10])
def test_blocks_need_an_input_each(kind: HeadKind) -> None:
    with pytest.raises(SpecError, match="every logit needs an input"):
        head(kind, 5, 4)
    with pytest.raises(SpecError, match=r"head\.rank: got 0"):
        head(HeadKind.LOW_RANK, 5, 4, rank=0)


def test_elu_neither_overflows_nor_jumps() -> None:
    np.testing.assert_allclose(elu(np.array([-1e9, -1, 0, 1e-9, 1e9])), [-0.1, 0.1 * (np.exp(-1) - 1), 0, 1e-9, 1e9])


@pytest.mark.parametrize(("rho", "count"), [(0.0, 512), (-40, 1024), (40, 1), (1e30, 1), (-1e30, 1024), (-1, 748)])
def test_the_sparsity_sets_how_many_inputs_are_kept(rho: float, count: int) -> None:
    assert kept(rho, 1024) == count


SCORES = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(SCORES, st.data())
@SMALL
def test_the_hard_mask_takes_the_highest(scores: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(scores)))
    mask = hard_mask(np.array(scores), count)
    assert sorted(mask) == [0.0] * (len(scores) - count) + [1.0] * count
    chosen = np.array(scores)[mask == 1]
    assert (np.array(scores)[mask == 0] <= chosen.min()).all()


@given(SCORES, st.data(), st.floats(-5, 40), st.integers(0, 2**32))
@SMALL
def test_training_weighs_the_highest_noised_scores(
    scores: list[float], data: st.DataObject, temperature: float, seed: int
) -> None:
    s, count = np.array(scores), data.draw(st.integers(1, len(scores)))
    mask = training_mask(s, count, temperature, np.random.default_rng(seed))
    noised = s + np.random.default_rng(seed).gumbel(size=len(s))
    chosen = hard_mask(noised, count) == 1
    assert mask.sum() == pytest.approx(count)
    assert not mask[~chosen].any()
    weights = np.exp((s - s.max()) / min(max(temperature, 1), 20))
    softmax = weights / weights.sum()
    np.testing.assert_allclose(mask * softmax[chosen].sum(), count * np.where(chosen, softmax, 0), rtol=1e-9, atol=0)


def test_every_input_may_be_selected_in_training() -> None:
    masks = [training_mask(np.zeros(6), 3, 0.0, np.random.default_rng(seed)) for seed in range(2_000)]
    np.testing.assert_allclose(np.mean(masks, axis=0), 0.5, atol=0.04)
    assert set(np.concatenate(masks)) == {0.0, 1.0}


def decisions(kind: HeadKind, explore: bool, theta: Sequence[float] | None = None) -> list[tuple[Decision, float]]:
    """Return what a policy decides in five turns, and the numbers that its generator gives after each."""
    layout = replace(Layout.of(3, ROLE_ORDER, 12), spec=HeadSpec(kind))
    vector = np.random.default_rng(2).standard_normal(layout.size) if theta is None else np.array(theta)
    policy = HeadPolicy(vector, layout, lambda *_: np.linspace(-1, 1, 12, dtype=np.float32), explore=explore)
    rng = np.random.Generator(np.random.PCG64(7))
    return [(policy.decide(Transcript("q"), rng), rng.random()) for _ in range(5)]


@pytest.mark.parametrize("kind", list(HeadKind))
def test_the_same_seed_gives_the_same_decisions(kind: HeadKind) -> None:
    assert decisions(kind, True) == decisions(kind, True)


def test_only_the_sparse_head_explores_with_noise_and_only_in_training() -> None:
    for kind in HeadKind:
        logits = {explore: [d.logits for d, _ in decisions(kind, explore)] for explore in (True, False)}
        assert len(set(logits[False])) == 1
        assert (logits[True] != logits[False]) == (kind is HeadKind.SPARSE)
        assert (len(set(logits[True])) > 1) == (kind is HeadKind.SPARSE), "noise is new at every turn"


@pytest.mark.parametrize("explore", [True, False])
def test_the_uniform_numbers_of_a_decision_are_the_same_whatever_the_head(explore: bool) -> None:
    """Common random numbers: what differs between candidates is what they learnt, not their luck."""
    streams = {kind: [after for _, after in decisions(kind, explore)] for kind in HeadKind}
    twin = np.random.Generator(np.random.PCG64(7))
    wanted = [twin.random(3)[2] for _ in range(5)]
    assert all(stream == wanted for stream in streams.values())


def test_sparse_candidates_of_one_seed_meet_the_same_noise() -> None:
    """With all scores zero the selection shows the noise: two weight matrices see the same inputs at every turn."""
    layout = replace(Layout.of(3, ROLE_ORDER, 12), spec=HeadSpec(HeadKind.SPARSE))
    one, two = np.zeros(layout.size), np.zeros(layout.size)
    one[:12], two[:12] = 2.0 ** np.arange(12), 3 * 2.0 ** np.arange(12)
    ones, twos = [np.array([d.logits for d, _ in decisions(HeadKind.SPARSE, True, list(v))]) for v in (one, two)]
    assert len(set(ones[:, 0])) > 1
    np.testing.assert_allclose(twos, 3 * ones, rtol=1e-5)


@given(st.integers(1, 4), st.sampled_from([ROLE_ORDER, (Role.WORKER,), (Role.WORKER, Role.VERIFIER)]), st.data())
@SMALL
def test_the_gradient_is_the_slope_of_the_log_probability(
    agents: int, roles: tuple[Role, ...], data: st.DataObject
) -> None:
    layout = Layout(tuple(range(2, 2 + 3 * agents, 3)), roles, 5)
    agent, role = data.draw(st.sampled_from(layout.agents)), data.draw(st.sampled_from(layout.allowed))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    weights, state = rng.standard_normal((layout.rows, 5)), rng.standard_normal(5)

    def log_probability(w: Array) -> float:
        agent_part, role_part = np.split(w @ state, [agents])
        log = agent_part[layout.agents.index(agent)] - np.log(np.exp(agent_part).sum())
        if layout.role_rows:
            log += role_part[layout.allowed.index(role)] - np.log(np.exp(role_part).sum())
        return float(log)

    slope = np.zeros_like(weights)
    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = 1e-5
        slope[place] = (log_probability(weights + step) - log_probability(weights - step)) / 2e-5
    gradient = log_probability_gradient(weights @ state, layout, agent, role, state)
    np.testing.assert_allclose(gradient, slope, atol=1e-7)


def test_the_gradient_wants_a_possible_decision() -> None:
    layout = Layout((0, 2), (Role.WORKER, Role.VERIFIER), 3)
    for agent, role, rows in ((1, Role.WORKER, 4), (0, Role.THINKER, 4), (0, Role.WORKER, 5)):
        with pytest.raises(ValueError, match="wanted an agent"):
            log_probability_gradient(np.zeros(rows), layout, agent, role, np.zeros(3))


def test_argmax_output_goes_with_any_head() -> None:
    """Table 3 has it with one block per logit."""
    layout = replace(Layout.of(2, ROLE_ORDER, 5), spec=HeadSpec(HeadKind.BLOCK_DIAGONAL_10, Output.ARGMAX))
    policy = HeadPolicy(np.array([1, 2, 3, 5, 4]), layout, lambda *_: np.ones(5, np.float32))
    decision = policy.decide(Transcript("q"), np.random.default_rng(0))
    assert (decision.agent, decision.role) == (1, ROLE_ORDER[1])
    assert decision.logits == (1, 2, 3, 5, 4)
