"""Fitness that counts what episodes cost, through worker, scheduler and audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.core.campaign import (
    AnswersSpec,
    Campaign,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    Reuse,
    SearchSpec,
    ValidationSpec,
)
from services.core.errors import CallTimedOut
from services.core.ids import CampaignId
from services.core.ledger.price import Price
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.states import CampaignState, GenerationKind
from services.storage import generations, replies
from services.storage.engine import Database
from tests.support.auditing import assert_clean, findings
from tests.support.campaigns import small_campaign
from tests.support.fault_doubles import StubEncoder, StubEncoders, submit, tiny_campaign
from tests.support.faults import Stage, hurry
from tests.support.recorded import recorded
from tests.support.storage import query

__all__ = ["hurry"]

DEAR, CHEAP = Price(Decimal("50"), Decimal("150")), Price(Decimal("0.5"), Decimal("1.5"))
UNIT = 0.001


class ConstantEncoder(StubEncoder):
    """Reads nothing: what is learnt is whom to ask always."""

    def encode(self, transcript: Transcript, offsets: object) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.ones(self.hidden_size, dtype=np.float32)


class ConstantEncoders(StubEncoders):
    def encoder(self, spec: object, pool_size: int) -> StubEncoder:
        return ConstantEncoder(self.hidden_size)


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


def counting(name: str, weight: float, reuse: Reuse = Reuse.NEVER, campaign: Campaign | None = None) -> Campaign:
    """Return a campaign with a dear model that is mostly right and a cheap one that is mostly wrong."""
    plain = campaign or tiny_campaign()
    pool = tuple(
        ModelSpec(model, f"openai/{model}", price, base_url="local:specialists")
        for model, price in (("ada", DEAR), ("bob", CHEAP))
    )
    search = replace(plain.search, cost_weight=weight, cost_unit_usd=UNIT)
    return replace(plain, name=name, pool=pool, search=search, answers=AnswersSpec(reuse))


def play(stage: Stage, campaign: Campaign) -> CampaignId:
    campaign_id = submit(stage.look, campaign)
    assert stage.play(campaign_id) is CampaignState.COMPLETED, (stage.stops, stage.notes.lines[-3:])
    return campaign_id


def fitness(database: Database, campaign_id: CampaignId) -> list[list[float]]:
    with database.transaction() as conn:
        history = generations.history(conn, campaign_id, GenerationKind.TRAINING)
    return [generation.fitness.tolist() for generation in history if generation.fitness is not None]


def by_hand(database: Database, campaign: Campaign, campaign_id: CampaignId) -> list[float]:
    """Return the fitness of the first generation from single rows: reward less weight x cost over unit, on average."""
    with database.transaction() as conn:
        rewards = query(
            conn,
            "select c.index, e.id, e.reward from episode e join candidate c on c.id = e.candidate_id"
            f" where e.campaign_id = {campaign_id} and c.kind = 'sample' order by c.index, e.replicate",
        )
        calls = query(
            conn,
            "select l.episode_id, l.agent, l.prompt_tokens + coalesce(l.kept_prompt_tokens, 0),"
            " l.completion_tokens + coalesce(l.kept_completion_tokens, 0) from llm_call l"
            " join episode e on e.id = l.episode_id and e.attempt = l.attempt"
            f" where l.campaign_id = {campaign_id} and l.error_kind is null",
        )
    cost: dict[int, Decimal] = defaultdict(Decimal)
    for episode, agent, prompt, completion in calls:
        price = campaign.pool[agent].price
        cost[episode] += (prompt * price.input_per_million + completion * price.output_per_million) / 1_000_000
    weight, found = campaign.search.cost_weight, defaultdict(list)
    for candidate, episode, reward in rewards:
        found[candidate].append(reward - weight * float(cost[episode]) / UNIT)
    return [sum(own) / len(own) for _, own in sorted(found.items())]


def test_stored_fitness_is_reward_less_weighted_cost(stage: Stage) -> None:
    campaign = counting("counting", 0.5)
    campaign_id = play(stage, campaign)
    (stored,) = fitness(stage.look, campaign_id)
    assert stored == pytest.approx(by_hand(stage.look, campaign, campaign_id), abs=1e-11)
    with stage.look.transaction() as conn:
        rest = query(conn, "select fitness from candidate where kind <> 'sample'")
        rewards = query(conn, "select distinct reward from episode")
    assert min(stored) < 0.5
    assert {value for (value,) in rest} <= {value for (value,) in rewards}, "what is measured is reward alone"
    assert_clean(stage.look)


def test_the_audit_sees_a_cost_that_does_not_lead_to_the_stored_fitness(stage: Stage) -> None:
    play(stage, counting("counting", 0.5))
    with stage.look.transaction() as conn:
        query(
            conn,
            "update llm_call set agent = 1 - agent where id = (select min(l.id) from llm_call l"
            " join episode e on e.id = l.episode_id where e.purpose = 'training') returning id",
        )
    assert "I1" in findings(stage.look)


def test_kept_replies_count_as_if_they_had_been_paid_for(stage: Stage) -> None:
    """A model that always says the same to the same: whoever asks first pays, and all are judged alike."""
    found = {}
    for reuse in Reuse:
        campaign = counting(f"counting-{reuse.value}".replace("_", "-"), 0.5, reuse)
        campaign_id = play(stage, campaign)
        found[reuse] = fitness(stage.look, campaign_id)
        assert found[reuse][0] == pytest.approx(by_hand(stage.look, campaign, campaign_id), abs=1e-11)
    assert found[Reuse.WITHIN_GENERATION] == found[Reuse.NEVER]
    assert found[Reuse.ALWAYS] == found[Reuse.NEVER]
    with stage.look.transaction() as conn:
        ((hits,),) = query(conn, "select count(*) from llm_call where cache_hit")
        replies.delete(conn, replies.Choice())
    assert hits > 0
    assert_clean(stage.look)


def test_a_recording_with_its_prices_plays_back_to_the_bit(stage: Stage, tmp_path: Path) -> None:
    paid = play(stage, counting("paid", 0.5, Reuse.WITHIN_GENERATION))
    playback = recorded(stage, "paid", tmp_path / "paid.jsonl")
    stage.runtime.make_pool = lambda campaign: playback
    again = play(stage, counting("again", 0.5))
    assert fitness(stage.look, again) == fitness(stage.look, paid)


def test_tries_that_failed_are_no_candidates_cost(stage: Stage) -> None:
    undisturbed = play(stage, counting("undisturbed", 0.5))
    wanted = fitness(stage.look, undisturbed)
    calm = stage.pool.asked

    def trouble(number: int) -> None:
        if number % 3 == 0:
            raise CallTimedOut("no answer", billed_unknown=True)

    stage.pool.trouble = trouble
    disturbed = play(stage, counting("disturbed", 0.5))
    with stage.look.transaction() as conn:
        ((failed,),) = query(
            conn, f"select count(*) from llm_call where campaign_id = {disturbed} and state = 'unknown'"
        )
    assert failed > 0
    assert stage.pool.asked > 2 * calm
    assert fitness(stage.look, disturbed) == wanted
    assert_clean(stage.look)


def test_a_large_weight_teaches_to_ask_the_cheap_model(stage: Stage) -> None:
    stage.runtime.encoders = ConstantEncoders()
    plain = small_campaign(
        protocol=ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64),
        search=SearchSpec(population=8, replicates=4, generations=8, sigma0=0.5),
        validation=ValidationSpec(every=10, problems=0),
        evaluation=EvaluationSpec(problems=3, baselines=()),
    )
    shares = {}
    for weight in (0.0, 1.0):
        campaign_id = play(stage, counting(f"weight-{weight:g}", weight, Reuse.ALWAYS, plain))
        with stage.look.transaction() as conn:
            ((shares[weight],),) = query(
                conn,
                "select avg(t.agent)::float from turn t join episode e on e.id = t.episode_id"
                " join generation g on g.id = e.generation_id"
                f" where g.campaign_id = {campaign_id} and g.kind = 'training' and g.number = 7",
            )
    assert shares[0.0] < 0.3, "without weight the model that is mostly right"
    assert shares[1.0] > 0.7, "with weight the cheap one, number 1"
    assert_clean(stage.look)
