from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    EvidenceUse,
    ModelSpec,
    ProtocolSpec,
    ScoringSpec,
    SearchSpec,
    ValidationSpec,
    VerifierWithoutAnswer,
)
from services.core.errors import SpecError
from services.core.ledger.budget import bound_tokens, bound_usage, largest_call_cost
from services.core.ledger.plan import episode_usd, plan_of, with_cost_unit
from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.protocol.evidence import LONGEST
from services.core.protocol.ports import Message
from services.core.protocol.roles import Role
from services.core.scoring.judge import ASKS
from tests.support.campaigns import small_campaign

CHEAP, DEAR = Price(Decimal("0.1"), Decimal("0.4")), Price(Decimal(3), Decimal(15))
COUNTS = st.integers(0, 10**6)
PRICES = st.builds(Price, *[st.decimals(0, 100, places=6)] * 2)


def campaign(**changes: object) -> Campaign:
    whole = Campaign(
        name="c",
        seed=1,
        pool=(ModelSpec("a", "openai/a", CHEAP), ModelSpec("b", "openai/b", DEAR)),
        encoder=EncoderSpec("tiny"),
        hidden_size=576,
        protocol=ProtocolSpec(max_output_tokens=100),
        search=SearchSpec(population=4, replicates=3, generations=6, sigma0=0.03),
        validation=ValidationSpec(every=4, problems=10),
        evaluation=EvaluationSpec(problems=20),
        budget=BudgetLimits(episodes=10_000),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_a_bound_counts_bytes_and_overhead() -> None:
    usage = bound_usage([Message("user", "é€\U0001f600")], 50)
    assert usage == Usage(9 + 64 + 16, 50, estimated=True)
    assert bound_tokens([Message("user", "")], 50) == 130


def test_half_surrogates_can_be_bounded() -> None:
    assert bound_tokens([Message("user", "\ud800")], 0) == 83


@given(st.text(max_size=50), st.text(max_size=50), COUNTS)
def test_bounds_grow_with_text_and_cover_its_characters(text: str, more: str, output: int) -> None:
    short = bound_tokens([Message("user", text)], output)
    assert short >= len(text) + output
    assert bound_tokens([Message("user", text + more)], output) >= short + len(more)


@given(PRICES, COUNTS, COUNTS, COUNTS, COUNTS)
def test_costs_are_exact_and_additive(price: Price, a: int, b: int, c: int, d: int) -> None:
    together = price.cost(Usage(a + c, b + d))
    assert price.cost(Usage(a, b)) + price.cost(Usage(c, d)) == together
    assert together * 10**12 == int(together * 10**12), "twelve decimals hold every cost"


@given(PRICES, st.text(max_size=40), COUNTS, st.data())
def test_no_call_within_its_bound_costs_more(price: Price, text: str, output: int, data: st.DataObject) -> None:
    messages = [Message("user", text)]
    bound = bound_usage(messages, output)
    used = Usage(data.draw(st.integers(0, bound.prompt_tokens)), data.draw(st.integers(0, output)))
    assert price.cost(used) <= largest_call_cost(price, messages, output)


def test_a_plan_counts_episodes_and_calls() -> None:
    plan = plan_of(campaign(), [100, 200])
    assert (plan.dimension, plan.population) == (5 * 576, 4)
    assert plan.training_episodes == 4 * 3 * 6
    assert plan.validation_episodes == 3 * 10, "generations 0 and 4, and the last mean"
    assert plan.evaluation_episodes == 20 * (1 + 1 + 2)
    assert plan.episodes == 72 + 30 + 80
    assert plan.largest_calls == (72 + 30 + 40) * 5 + 40
    assert plan.expected_calls == (72 + 30 + 40) * 3 + 40
    assert 0 < plan.expected_tokens < plan.largest_tokens
    assert 0 < plan.expected_usd < plan.largest_usd


@pytest.mark.parametrize(
    ("protocol", "turns"),
    [
        (ProtocolSpec(max_turns=1), 1),
        (ProtocolSpec(max_turns=2), 2),  # a Verifier needs a Worker's turn before its own
        (ProtocolSpec(max_turns=6), 4),
        (ProtocolSpec(max_turns=2, verifier_without_answer=VerifierWithoutAnswer.END_ZERO), 1),
        (ProtocolSpec(max_turns=6, roles=(Role.WORKER,)), 6),  # nobody ends it earlier
        (ProtocolSpec(max_turns=6, roles=(Role.WORKER, Role.THINKER)), 6),
    ],
)
def test_turns_are_expected_where_an_episode_can_end(protocol: ProtocolSpec, turns: int) -> None:
    plan = plan_of(campaign(protocol=protocol, evaluation=EvaluationSpec(0)), [100])
    assert plan.expected_calls == plan.episodes * turns
    assert plan.expected_calls <= plan.largest_calls


def test_switched_off_parts_cost_nothing() -> None:
    off = campaign(validation=ValidationSpec(1, 0), evaluation=EvaluationSpec(0))
    plan = plan_of(off, [])
    assert (plan.validation_episodes, plan.evaluation_episodes) == (0, 0)
    no_baselines = plan_of(campaign(evaluation=EvaluationSpec(20, ())), [10])
    assert no_baselines.evaluation_episodes == 20


def test_a_single_role_has_no_role_logits() -> None:
    worker_only = campaign(protocol=ProtocolSpec(roles=(Role.WORKER,), max_turns=1))
    assert plan_of(worker_only, [10]).dimension == 2 * 576


def test_masked_agents_have_no_logits_and_only_single_model_baselines_pay_their_price() -> None:
    whole, masked = campaign(), campaign(protocol=ProtocolSpec(max_output_tokens=100, agents=("a",)))
    assert plan_of(masked, [100]).dimension == 4 * 576
    assert plan_of(masked, [100]).largest_tokens == plan_of(whole, [100]).largest_tokens
    singles = EvaluationSpec(20, ("single",))
    cheap = plan_of(replace(masked, evaluation=EvaluationSpec(20, ())), [100])
    mixed = plan_of(replace(masked, evaluation=singles), [100])
    dear = plan_of(replace(whole, evaluation=singles), [100])
    assert cheap.largest_usd == CHEAP.cost(Usage(cheap.largest_tokens - 122 * 500, 122 * 500))
    turns = Usage(mixed.largest_tokens - cheap.largest_tokens - 40 * 100, 40 * 100)
    assert mixed.largest_usd - cheap.largest_usd == DEAR.cost(turns)
    assert mixed.expected_usd < dear.expected_usd


def test_a_judge_rates_every_answer_and_may_be_asked_three_times() -> None:
    plain, judged = (plan_of(campaign(scoring=ScoringSpec(judge)), [100]) for judge in (None, "a"))
    episodes = 72 + 30 + 80
    assert judged.expected_calls - plain.expected_calls == episodes
    assert judged.largest_calls - plain.largest_calls == ASKS * episodes
    assert judged.largest_tokens - plain.largest_tokens > ASKS * episodes * (100 + 100)
    dear = plan_of(campaign(scoring=ScoringSpec("b")), [100])
    assert plain.expected_usd < judged.expected_usd < dear.expected_usd
    assert plain.largest_usd < judged.largest_usd < dear.largest_usd


def test_the_largest_figures_hold_with_the_longest_evidence() -> None:
    uses = (EvidenceUse.NONE, EvidenceUse.SHOW)
    plain, shown = (plan_of(campaign(protocol=ProtocolSpec(evidence=use)), [100]) for use in uses)
    assert shown.largest_tokens - plain.largest_tokens >= 142 * 5 * LONGEST
    alone = ProtocolSpec(roles=(Role.WORKER,), evidence=EvidenceUse.SHOW)
    without = plan_of(campaign(protocol=replace(alone, evidence=EvidenceUse.NONE)), [100])
    assert plan_of(campaign(protocol=alone), [100]) == without, "nobody is there to read it"


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (ProtocolSpec(max_turns=2), ProtocolSpec(max_turns=5)),
        (ProtocolSpec(max_output_tokens=20), ProtocolSpec(max_output_tokens=300)),
    ],
)
def test_larger_limits_cost_more(small: ProtocolSpec, large: ProtocolSpec) -> None:
    less, more = plan_of(campaign(protocol=small), [100]), plan_of(campaign(protocol=large), [100])
    assert less.largest_usd < more.largest_usd
    assert less.expected_tokens < more.expected_tokens


def test_the_unit_of_cost_is_what_an_episode_is_expected_to_cost() -> None:
    plain = small_campaign()
    assert with_cost_unit(plain, (40, 60)) is plain
    counting = replace(plain, search=replace(plain.search, cost_weight=0.1))
    unit = with_cost_unit(counting, (40, 60)).search.cost_unit_usd
    assert unit == pytest.approx(float(episode_usd(counting, (40, 60))), rel=1e-5)
    alone = replace(plain, validation=ValidationSpec(1, 0), evaluation=EvaluationSpec(0))
    plan = plan_of(alone, (40, 60))
    assert float(episode_usd(alone, (40, 60))) == pytest.approx(float(plan.expected_usd / plan.episodes))
    named = replace(plain, search=replace(plain.search, cost_weight=0.1, cost_unit_usd=0.5))
    assert with_cost_unit(named, (40,)) is named
    free = replace(counting, pool=tuple(replace(model, price=Price(Decimal(0), Decimal(0))) for model in plain.pool))
    with pytest.raises(
        SpecError, match=r"search\.cost_weight: got 0\.1, wanted 0, as no model of the pool has a price"
    ):
        with_cost_unit(free, (40,))
