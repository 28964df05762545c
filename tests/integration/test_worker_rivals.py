"""Rivals' episodes through the real worker code: calls, limits, reservations, answers that count again, failures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from services.core.baselines.coordinator_prompt import read_choosing, write_choice
from services.core.baselines.llm_coordinator import FIRST_COORDINATOR_CALL
from services.core.campaign import AnswersSpec, BudgetLimits, EvaluationSpec, ModelSpec, ProtocolSpec, Reuse
from services.core.errors import ProviderUnavailable
from services.core.ids import EpisodeId
from services.core.ledger.usage import Usage
from services.core.protocol.answers import write_worker
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import Role
from services.core.rivals import RivalKind, RivalSpec
from services.core.states import CampaignState
from services.storage.engine import Database
from tests.support.campaigns import PRICE, small_campaign
from tests.support.fault_doubles import StubEncoders
from tests.support.worker import Bench, bench_of

NAMES = ("ada", "bob", "cyd")
RIVALS = (
    RivalSpec(RivalKind.RANDOM_WORKER),
    RivalSpec(RivalKind.LONG, "bob", 5),
    RivalSpec(RivalKind.MAJORITY, "bob", 5),
    RivalSpec(RivalKind.SELF_REFLECTION, "bob", 4),
    RivalSpec(RivalKind.MIXTURE),
    RivalSpec(RivalKind.SMOOTHIE),
    RivalSpec(RivalKind.LLM_COORDINATOR, "cyd"),
)
# One training problem, so that every rival's episode asks about the same.
EPISODES = """
with made as (
    insert into candidate (generation_id, kind, index)
    select id, 'rival', n from generation, generate_series(0, {rivals} - 1) n where state = 'open' returning id, index
)
insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state)
select g.campaign_id, g.id, m.id, 'evaluation', 0, (select min(id) from problem), 7, 'pending'
from made m, generation g where g.state = 'open' order by m.index returning id
"""
CALLS = """
select c.index, l.turn, l.agent, l.role, l.reserved_tokens, l.prompt_tokens, l.cost_usd, l.cache_hit, l.answer_key
from llm_call l join episode e on e.id = l.episode_id join candidate c on c.id = e.candidate_id
where c.kind = 'rival' order by l.id
"""


@dataclass
class Pool:
    """Bills 10 prompt and 2 completion tokens a call; Workers say 1, 2, 3, ... as they are asked.

    Attributes:
        before: called with the number of each call, from 1; may raise.
    """

    before: Callable[[int], None] = lambda number: None
    asked: list[tuple[int, int, float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(
        self,
        agent: int,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        temperature: float,
        timeout_seconds: float,
    ) -> Reply:
        with self._lock:
            self.asked.append((agent, max_output_tokens, timeout_seconds))
            number = len(self.asked)
        self.before(number)
        text = write_worker("", str(number))
        choosing = read_choosing(messages)
        if choosing is not None:
            text = "no idea" if choosing.notes else write_choice("bob", Role.WORKER)
        return Reply(text, "stop", Usage(10, 2), 0.01)


def played(database: Database, pool: Pool, *, passes: int = 1, **changes: Any) -> tuple[Bench, list[EpisodeId]]:
    """Play one episode of every rival, so often unless it is scored, and return the bench and the episodes."""
    campaign = small_campaign(
        pool=tuple(ModelSpec(name, f"openai/{name}", PRICE) for name in NAMES),
        protocol=ProtocolSpec(max_turns=3, max_output_tokens=64, call_timeout_seconds=30.0),
        evaluation=EvaluationSpec(problems=1, rivals=RIVALS),
    )
    with bench_of(database, replace(campaign, **changes), StubEncoders(), lambda spec: pool) as at:
        with database.transaction() as conn:
            statement = EPISODES.format(rivals=len(RIVALS))
            episodes = [EpisodeId(row[0]) for row in conn.exec_driver_sql(statement).all()]
        at.episodes = episodes
        for place in [*range(len(episodes))] * passes:
            with database.transaction() as conn:
                conn.exec_driver_sql("update episode set available_at = now() where state = 'pending'")
            at.run(place)
    return at, episodes


def test_every_rival_makes_its_calls_and_each_is_booked(database: Database) -> None:
    pool = Pool()
    at, _ = played(database, pool)

    assert at.query("select failure_kind, failure_detail from episode where failure_kind is not null") == []
    assert at.query("select distinct state from episode where purpose = 'evaluation'") == [("scored",)]
    calls = at.query(CALLS)
    assert Counter(call[0] for call in calls) == {0: 1, 1: 1, 2: 5, 3: 4, 4: 4, 5: 3, 6: 6}
    assert len(calls) == len(pool.asked)
    assert {call[6] for call in calls} == {PRICE.cost(Usage(10, 2))}
    spend = at.campaign().spend
    assert (spend.calls_started, spend.tokens_charged) == (len(pool.asked), 12 * len(pool.asked))
    assert (spend.usd_charged, spend.usd_reserved) == (PRICE.cost(Usage(10, 2)) * len(calls), Decimal(0))
    turns = at.query("select c.index, t.number, t.agent, t.role from turn t join episode e on e.id = t.episode_id"
                     " join candidate c on c.id = e.candidate_id order by t.episode_id, t.number")  # fmt: skip
    asked = sorted((index, turn, agent, role) for index, turn, agent, role, *_ in calls if role != "coordinator")
    assert sorted(turns) == asked, "what was said is what was asked for"


def test_a_long_answer_is_reserved_timed_and_asked_for_with_its_own_limit(database: Database) -> None:
    pool = Pool()
    at, _ = played(database, pool)
    calls = at.query(CALLS)
    (long,) = [call for call in calls if call[0] == 1]
    (short,) = [call for call in calls if call[0] == 0]
    assert long[4] - short[4] == 4 * 64
    limits = [(tokens, seconds) for _, tokens, seconds in pool.asked]
    assert limits[0] == (64, 30.0)
    assert limits[1] == (5 * 64, 150.0)
    assert {tokens for tokens, _ in limits[2:]} == {64}


def test_a_prompted_coordinator_is_booked_apart_and_its_nonsense_is_counted(database: Database) -> None:
    at, episodes = played(database, Pool())
    chosen = [(turn, agent) for index, turn, agent, role, *_ in at.query(CALLS) if role == "coordinator"]
    assert chosen == [(FIRST_COORDINATOR_CALL + number, 2) for number in range(3)]
    sources = at.query(f"select role_source from turn where episode_id = {episodes[6]} order by number")
    assert sources == [("policy",), ("chance",), ("chance",)]
    kept = at.query("select count(*) from llm_call l join answer a on a.key = l.answer_key where role = 'coordinator'")
    assert kept == [(3,)], "recordings need what stands in no transcript"


def test_samples_are_different_answers_and_proposals_the_same(database: Database) -> None:
    pool = Pool()
    at, _ = played(database, pool, answers=AnswersSpec(Reuse.WITHIN_GENERATION))
    calls = at.query(CALLS)
    keys = {index: [call[8] for call in calls if call[0] == index] for index in range(len(RIVALS))}
    assert len(set(keys[2])) == 5, "five samples"
    assert keys[4][:3] == keys[5], "the mixture's proposals are Smoothie's"
    assert keys[4][1] == keys[2][0] == keys[3][0], "and a model's own answer is its first sample"
    assert keys[1][0] not in {*keys[2], *keys[3]}, "a longer answer is another one"
    hits = [call for call in calls if call[7]]
    assert len(calls) - len(hits) == len(pool.asked)
    assert len(hits) >= 5


@pytest.mark.parametrize("broken", [4, 12])
def test_an_outage_in_the_middle_is_no_reward_and_the_episode_is_played_again(database: Database, broken: int) -> None:
    def before(number: int) -> None:
        if number in (broken, broken + 1):
            raise ProviderUnavailable("away")

    at, _ = played(database, Pool(before), passes=2)
    assert at.query("select distinct state from episode where purpose = 'evaluation'") == [("scored",)]
    ends = at.query("select outcome, count(*) from attempt where number = 1 group by 1 order by 1")
    assert ends == [("done", len(RIVALS) - 1), ("failed", 1)]
    assert at.query("select count(*) from attempt where number = 2 and outcome = 'done'") == [(1,)]
    tries = at.query("select turn, try from llm_call where error_kind is not null order by id")
    assert tries == [(tries[0][0], 1), (tries[0][0], 2)], "one call, tried twice"


def test_a_budget_that_ends_between_two_calls_ends_the_episode_without_a_score(database: Database) -> None:
    pool = Pool()
    at, _ = played(database, pool, budget=BudgetLimits(episodes=1000, calls=4))
    assert len(pool.asked) == 4
    assert at.campaign().state is CampaignState.BUDGET_EXHAUSTED
    states = Counter(row[0] for row in at.query("select state from episode where purpose = 'evaluation'"))
    assert states == {"scored": 2, "pending": 5}
    assert at.query("select count(*) from turn t join episode e on e.id = t.episode_id where e.state = 'pending'") == [
        (0,)
    ]
