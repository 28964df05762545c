"""How many calls every rival costs: as the paper counts them, as they are made, and as they are planned."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.baselines.calls import planned_calls
from services.core.baselines.coordinator_prompt import write_choice
from services.core.baselines.scaffold import Episode
from services.core.baselines.scaffolds import NAMES_MODEL, scaffold_of
from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    ScoringSpec,
    SearchSpec,
    ValidationSpec,
)
from services.core.errors import SpecError
from services.core.ledger.budget import bound_tokens, bound_usage
from services.core.ledger.plan import plan_of
from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.protocol.roles import CallRole, Role
from services.core.rivals import FITTED, RivalKind, RivalSpec
from services.core.scoring.judge import ASKS
from tests.support.scripted_calls import Asked, ScriptedCall, play, same

PAPER = ProtocolSpec(max_turns=5, max_output_tokens=4096)
NAMES = tuple(f"model{number}" for number in range(7))
KINDS = [kind for kind in RivalKind if kind not in FITTED]


def spec(kind: RivalKind, samples: int = 5) -> RivalSpec:
    return RivalSpec(kind, NAMES[1] if kind in NAMES_MODEL else None, samples)


def campaign(models: int = 7, **changes: object) -> Campaign:
    prices = [Price(Decimal(number + 1), Decimal(4 * number + 4)) for number in range(models)]
    whole = Campaign(
        name="c",
        seed=1,
        pool=tuple(ModelSpec(NAMES[at], f"openai/{at}", price) for at, price in enumerate(prices)),
        encoder=EncoderSpec("tiny"),
        hidden_size=8,
        protocol=ProtocolSpec(max_turns=5, max_output_tokens=100),
        search=SearchSpec(population=4, replicates=1, generations=1, sigma0=0.1),
        validation=ValidationSpec(1, 0),
        evaluation=EvaluationSpec(10, ()),
        budget=BudgetLimits(1000),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (RivalKind.RANDOM_WORKER, 1),
        (RivalKind.LONG, 1),
        (RivalKind.MAJORITY, 5),
        (RivalKind.SELF_REFLECTION, 5),
        (RivalKind.MIXTURE, 8),
        (RivalKind.SMOOTHIE, 7),
        (RivalKind.SMOOTHIE_INDEPENDENT, 1),
        (RivalKind.LLM_COORDINATOR, 10),
        (RivalKind.LOOKUP, 1),
        (RivalKind.LOGISTIC, 1),
        (RivalKind.ROUTER_DC, 1),
    ],
)
def test_the_papers_calls_per_question(kind: RivalKind, calls: int) -> None:
    assert len(planned_calls(spec(kind), 7, PAPER)) == calls


def test_models_that_may_not_be_chosen_take_no_part() -> None:
    masked = replace(PAPER, agents=NAMES[:3])
    assert len(planned_calls(spec(RivalKind.MIXTURE), 7, masked)) == 4
    assert len(planned_calls(spec(RivalKind.SMOOTHIE), 7, masked)) == 3


@given(st.sampled_from(KINDS), st.integers(3, 7), st.integers(2, 9), st.integers(1, 6))
def test_what_is_planned_is_what_is_asked(kind: RivalKind, models: int, samples: int, turns: int) -> None:
    def answers(asked: Asked) -> str:
        coordinates = asked.role is CallRole.COORDINATOR
        return write_choice(NAMES[2], Role.WORKER) if coordinates else "<answer>4</answer>"

    call, rival = ScriptedCall(answers), spec(kind, samples)
    whole = campaign(models, protocol=ProtocolSpec(max_turns=turns, max_output_tokens=100))
    scaffold = scaffold_of(rival, whole, same)
    result = play(scaffold, call, whole.protocol, pool_size=models, seed=1)

    planned = planned_calls(rival, models, whole.protocol)
    assert (result.calls, len(call.asked)) == (len(planned), len(planned))
    assert len({asked.turn for asked in call.asked}) == len(planned)
    assert [asked.role is CallRole.COORDINATOR for asked in call.asked] == [one.coordinates for one in planned]
    assert [asked.max_output_tokens or 100 for asked in call.asked] == [100 * one.multiple for one in planned]
    read = [len(asked.request.notes) for asked in call.asked if asked.role is Role.WORKER]
    assert read == [one.notes for one in planned if not one.coordinates]
    placed = [(asked.agent, one.place) for asked, one in zip(call.asked, planned, strict=True)]
    assert all(place is None or place == agent for agent, place in placed)


def larger(rivals: tuple[RivalSpec, ...], **changes: Any) -> tuple[int, int, int, Decimal, int]:
    """Return what rivals add to a plan: episodes, largest calls, tokens and dollars, and expected calls."""
    plain = campaign(**changes)
    with_rivals = replace(plain, evaluation=replace(plain.evaluation, rivals=rivals))
    before, after = plan_of(plain, [100]), plan_of(with_rivals, [100])
    return (
        after.episodes - before.episodes,
        after.largest_calls - before.largest_calls,
        after.largest_tokens - before.largest_tokens,
        after.largest_usd - before.largest_usd,
        after.expected_calls - before.expected_calls,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_holds_every_call_of_a_rival(kind: RivalKind) -> None:
    used: list[tuple[int, Usage]] = []

    def answers(asked: Asked) -> str:
        limit = asked.max_output_tokens or 100
        used.append((asked.agent, bound_usage(asked.messages, limit)))
        if asked.role is CallRole.COORDINATOR:
            return write_choice(NAMES[6], Role.WORKER)
        return f"<idea>{'i' * (limit * 4 - 60)}</idea><answer>4</answer>"

    whole = campaign()
    scaffold = scaffold_of(spec(kind), whole, same)
    question = "q" * 100
    scaffold.play(Episode(question, ScriptedCall(answers), whole.protocol, 7, np.random.default_rng(1)))
    episodes, calls, tokens, usd, expected = larger((spec(kind),))
    assert (episodes, calls) == (10, 10 * len(used))
    assert tokens >= 10 * sum(usage.total for _, usage in used)
    assert usd >= 10 * sum(whole.pool[agent].price.cost(usage) for agent, usage in used)
    assert expected == (60 if kind is RivalKind.LLM_COORDINATOR else calls)


def test_repeats_and_a_judge_count_for_rivals_too() -> None:
    rivals = (spec(RivalKind.MAJORITY), spec(RivalKind.MIXTURE))
    assert larger(rivals)[:2] == (20, 10 * 13)
    assert larger(rivals, evaluation=EvaluationSpec(10, (), repeats=3))[:2] == (60, 30 * 13)
    assert larger(rivals, scoring=ScoringSpec(NAMES[0]))[:2] == (20, 10 * 13 + 20 * ASKS)
    assert plan_of(campaign(evaluation=EvaluationSpec(10, ("single",), repeats=3)), [1]).evaluation_episodes == 30 * 8


def test_a_named_model_is_paid_at_its_own_price() -> None:
    dollars = []
    for name in (NAMES[0], NAMES[6]):
        tokens, usd = larger((RivalSpec(RivalKind.MAJORITY, name, 2),))[2:4]
        dollars.append((tokens, usd))
    assert dollars[0][0] == dollars[1][0]
    assert dollars[1][1] == 7 * dollars[0][1]
    proposals = larger((RivalSpec(RivalKind.SMOOTHIE),))[3]
    assert proposals == sum(larger((RivalSpec(RivalKind.LONG, name, 1),))[3] for name in NAMES), "one call of each"


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(SpecError, match="a name of the pool"):
        scaffold_of(RivalSpec(RivalKind.MAJORITY), campaign(), same)
    with pytest.raises(SpecError, match="a name of the pool"):
        scaffold_of(RivalSpec(RivalKind.LONG, "eve"), campaign(), same)
    with pytest.raises(SpecError, match="fitted to labels"):
        scaffold_of(RivalSpec(RivalKind.LOOKUP), campaign(), same)


def test_a_question_of_the_longest_bytes_bounds_all_others() -> None:
    assert larger((spec(RivalKind.LONG),))[2] >= 10 * bound_tokens([], 500)
