"""Whole campaigns with every rival on a simulated pool: calls per question, the provider's own bill, repeatability."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from services.benchmarks import generated
from services.cli import comparing, recording
from services.cli.heldout import scores
from services.config import pool_file
from services.config.document import sha256, to_json
from services.core.baselines.calls import planned_calls
from services.core.baselines.coordinator_prompt import read_choosing
from services.core.campaign import (
    AnswersSpec,
    Campaign,
    EvaluationSpec,
    LabelsSpec,
    ModelSpec,
    ProtocolSpec,
    Reuse,
    ScoringSpec,
)
from services.core.ids import CampaignId
from services.core.ledger.plan import plan_of
from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.local_pool import RecordingPool, SimulatedModel, SimulatedPool, Skill
from services.core.optimiser.sep_cma_es import library_version
from services.core.policy.layout import Layout
from services.core.problem import ScorerKind, Split
from services.core.problem_source import GeneratedFamily, GeneratedProblems
from services.core.protocol.ports import Message, Reply
from services.core.rivals import RivalKind, RivalSpec
from services.core.scoring.judge import OPENING, write_rating
from services.core.states import CampaignState, CandidateKind
from services.pool.local.recorded import RecordedCalls
from services.pool.local.simulated import Simulated
from services.pool.local.wire import ChatRequest, ServedPool, completion
from services.reports.comparison import compare
from services.storage import campaigns, evaluations, replies
from services.storage.engine import Database
from services.storage.records import NewCampaign
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign
from tests.support.outcomes import irregularities, outcome_of
from tests.support.rehearsal import rehearsal
from tests.support.storage import query

NAMES = ("ada", "bob", "cyd")
ABLE = {"ada": Skill(0.8, 0.5, 0.8), "bob": Skill(0.5, 0.5, 0.6), "cyd": Skill(0.3, 0.5, 0.9)}
POOL = SimulatedPool("sim", 4, tuple(SimulatedModel(name, {}, ABLE[name]) for name in NAMES))
RIVALS = (
    RivalSpec(RivalKind.RANDOM_WORKER),
    RivalSpec(RivalKind.LONG, "bob", 5),
    RivalSpec(RivalKind.MAJORITY, "bob", 5),
    RivalSpec(RivalKind.SELF_REFLECTION, "bob", 5),
    RivalSpec(RivalKind.MIXTURE),
    RivalSpec(RivalKind.SMOOTHIE),
    RivalSpec(RivalKind.LLM_COORDINATOR, "cyd"),
)
FITTED = (
    RivalSpec(RivalKind.LOOKUP),
    RivalSpec(RivalKind.LOGISTIC),
    RivalSpec(RivalKind.SMOOTHIE_INDEPENDENT),
    RivalSpec(RivalKind.ROUTER_DC),
    RivalSpec(RivalKind.MAS_ROUTER),
)
PROBLEMS, REPEATS = 4, 2

CALLS = """
select c.index, e.replicate, count(*) filter (where not l.cache_hit), count(*)
from llm_call l join episode e on e.id = l.episode_id join candidate c on c.id = e.candidate_id
where c.kind = 'rival' and l.campaign_id = {} group by 1, 2 order by 1, 2
"""
# A Verifier with nothing to check asks nobody: what its episode could have cost it did not.
SPOKEN = """
select e.replicate, count(*), count(*) filter (where t.verdict_source = 'rule')
from turn t join episode e on e.id = t.episode_id join candidate c on c.id = e.candidate_id
where c.kind = 'rival' and c.index = {} and e.campaign_id = {} group by 1 order by 1
"""


@dataclass
class Provider:
    """The models with an account of their own of what they were asked."""

    pool: ServedPool
    billed: list[tuple[str, Usage]] = field(default_factory=list)
    label: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def labelled(self, label: str) -> Provider:
        return replace(self, label=label)

    def complete(self, agent: int, messages: Sequence[Message], *, max_output_tokens: int, **settings: float) -> Reply:
        request = ChatRequest(NAMES[agent], tuple(messages), max_output_tokens, self.label)
        answer = self.pool.complete(request)
        usage = Usage(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        with self.lock:
            self.billed.append((NAMES[agent], usage))
        (choice,) = answer["choices"]
        return Reply(choice["message"]["content"], choice["finish_reason"], usage, 0.01)


def campaign(name: str, **changes: Any) -> Campaign:
    prices = (Price(Decimal(2), Decimal(8)), Price(Decimal("0.5"), Decimal(2)), Price(Decimal("0.1"), Decimal("0.4")))
    plain = small_campaign(
        name=name,
        pool=tuple(ModelSpec(name, f"openai/{name}", price) for name, price in zip(NAMES, prices, strict=True)),
        protocol=ProtocolSpec(max_turns=3, max_output_tokens=128),
        evaluation=EvaluationSpec(PROBLEMS, rivals=RIVALS, repeats=REPEATS),
    )
    return replace(plain, search=replace(plain.search, generations=1), **changes)


@pytest.fixture(scope="module")
def problems() -> dict[Split, list[Any]]:
    families = tuple(GeneratedFamily(name) for name in ("chain_sum", "letter_counting"))
    return generated.load(GeneratedProblems(9, families, 12, 4, PROBLEMS))


def submit(database: Database, spec: Campaign, problems: dict[Split, list[Any]]) -> CampaignId:
    document = to_json(spec)
    new = NewCampaign(
        name=spec.name,
        spec=document,
        spec_sha256=sha256(document),
        seed=spec.seed,
        dimension=Layout.of_campaign(spec).size,
        versions={"search": library_version()},
        budget=spec.budget,
        max_attempts=2,
    )
    with database.transaction() as conn:
        return campaigns.insert(conn, new, problems)


def play(database: Database, spec: Campaign, problems: dict[Split, list[Any]], provider: Provider) -> CampaignId:
    campaign_id = submit(database, spec, problems)
    with rehearsal(database) as at:
        at.runtime.make_pool = lambda _: provider
        at.run(campaign_id)
        assert at.state(campaign_id) is CampaignState.COMPLETED
    assert irregularities(database, campaign_id) == []
    return campaign_id


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.transaction() as conn:
        return query(conn, statement)


def test_every_rival_makes_exactly_its_calls_for_every_question(
    database: Database, problems: dict[Split, list[Any]]
) -> None:
    spec, provider = campaign("rivals"), Provider(Simulated(POOL))
    campaign_id = play(database, spec, problems, provider)

    made = {(index, replicate): calls for index, replicate, calls, _ in rows(database, CALLS.format(campaign_id))}
    for index, rival in enumerate(RIVALS):
        most = len(planned_calls(rival, len(NAMES), spec.protocol))
        wanted = dict.fromkeys(range(PROBLEMS * REPEATS), most)
        if rival.kind is RivalKind.LLM_COORDINATOR:
            said = rows(database, SPOKEN.format(index, campaign_id))
            wanted = {replicate: 2 * turns - silent for replicate, turns, silent in said}
            assert max(wanted.values()) <= most
        assert {replicate: made[index, replicate] for replicate in wanted} == wanted, rival.label

    with database.transaction() as conn:
        compared = evaluations.read(conn, campaign_id).episodes
    told = {(each.candidate_index, each.replicate): each.calls for each in compared if each.candidate_kind == "rival"}
    assert told == made, "and that is what the comparison says"

    # The ledger against the provider's own account, to the token and the last digit of a dollar.
    ((started, tokens, usd),) = rows(database, "select calls_started, tokens_charged, usd_charged from campaign")
    own = {model.name: model.price for model in spec.pool}
    assert (started, tokens) == (len(provider.billed), sum(usage.total for _, usage in provider.billed))
    assert usd == sum((own[name].cost(usage) for name, usage in provider.billed), Decimal(0))
    by_model = dict(rows(database, "select model, count(*) from llm_call group by 1"))
    assert by_model == Counter(name for name, _ in provider.billed)

    plan = plan_of(spec, [max(len(one.question.encode()) for split in problems.values() for one in split)])
    assert rows(database, "select count(*) from episode") == [(plan.episodes,)]
    assert started <= plan.largest_calls
    assert tokens <= plan.largest_tokens
    assert usd <= plan.largest_usd
    assert_clean(database)


def test_fitted_rivals_play_one_turn_of_the_model_they_name(
    database: Database, problems: dict[Split, list[Any]]
) -> None:
    evaluation = EvaluationSpec(PROBLEMS, rivals=FITTED, repeats=REPEATS)
    spec = campaign("fitted", evaluation=evaluation, labels=LabelsSpec(problems=10))
    campaign_id = play(database, spec, problems, Provider(Simulated(POOL)))
    made = rows(database, CALLS.format(campaign_id))
    assert {(index, replicate): calls for index, replicate, calls, _ in made} == {
        (index, replicate): 1 for index in range(len(FITTED)) for replicate in range(PROBLEMS * REPEATS)
    }
    named = rows(
        database,
        "select c.index, count(distinct t.agent) from turn t join episode e on e.id = t.episode_id"
        " join candidate c on c.id = e.candidate_id where c.kind = 'rival' group by 1",
    )
    assert dict(named)[2] == 1, "the independent form names one model for all"
    assert_clean(database)


def test_nobody_uses_a_model_that_may_not_be_chosen(database: Database, problems: dict[Split, list[Any]]) -> None:
    rivals = (RivalSpec(RivalKind.RANDOM_WORKER), RivalSpec(RivalKind.MIXTURE), *RIVALS[6:], *FITTED[:2])
    spec = campaign(
        "masked",
        protocol=ProtocolSpec(max_turns=3, max_output_tokens=128, agents=("bob", "cyd")),
        evaluation=EvaluationSpec(PROBLEMS, rivals=rivals),
        labels=LabelsSpec(problems=10),
    )
    play(database, spec, problems, Provider(Simulated(POOL)))
    used = rows(
        database,
        "select c.index, array_agg(distinct t.agent) from turn t join episode e on e.id = t.episode_id"
        " join candidate c on c.id = e.candidate_id where c.kind = 'rival' group by 1 order by 1",
    )
    assert [index for index, _ in used] == list(range(len(rivals)))
    assert {agent for _, agents in used for agent in agents} == {1, 2}
    assert_clean(database)


def test_shared_replies_are_asked_for_once(database: Database, problems: dict[Split, list[Any]]) -> None:
    spec, provider = campaign("shared", answers=AnswersSpec(Reuse.WITHIN_GENERATION)), Provider(Simulated(POOL))
    campaign_id = play(database, spec, problems, provider)
    made: Counter[int] = Counter()
    for index, _, calls, _ in rows(database, CALLS.format(campaign_id)):
        made[index] += calls
    questions = PROBLEMS * REPEATS
    single = rows(database, "select count(*) from llm_call l join episode e on e.id = l.episode_id"
                            " join candidate c on c.id = e.candidate_id where c.kind = 'single'"
                            " and not l.cache_hit")  # fmt: skip
    first = made[0] + single[0][0] + made[4] + made[5] + made[2] + made[3]
    # Three first answers, four further samples and four reflections of one model, one aggregation. The coordinator and
    # the random policy may have asked for some of the first answers before.
    assert questions * (4 + 4 + 1) <= first <= questions * (3 + 4 + 4 + 1)
    assert made[1] == questions, "a longer answer is nobody else's"
    assert_clean(database)


@dataclass
class Nonsense:
    """Simulated models that cannot coordinate."""

    inner: Simulated

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        chooses = read_choosing(request.messages) is not None
        return completion(request, "let me see") if chooses else self.inner.complete(request)


def test_a_comparison_tells_how_often_a_coordinator_named_nothing(
    database: Database, problems: dict[Split, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    unable: Any = Nonsense(Simulated(POOL))
    spec = campaign("nonsense", evaluation=EvaluationSpec(PROBLEMS, rivals=RIVALS[5:]))
    campaign_id = play(database, spec, problems, Provider(unable))
    with database.transaction() as conn:
        found = evaluations.read(conn, campaign_id)
    drawn = {(each.candidate_kind, each.candidate_index, each.drawn == each.turns) for each in found.episodes}
    assert {(kind, index) for kind, index, every in drawn if every} == {(CandidateKind.RIVAL, 1)}
    assert sum(each.drawn for each in found.episodes if each.candidate_index != 1) == 0
    comparing.show(compare(scores(found.episodes, spec), seed=1))
    assert "llm coordinator cyd: 100% of its turns were drawn" in " ".join(capsys.readouterr().out.split())


@dataclass
class Judging:
    """Simulated models that also rate answers, readably at the second time of asking."""

    inner: Simulated
    ratings: Iterator[int]

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        if not request.messages[0].content.startswith(OPENING):
            return self.inner.complete(request)
        unreadable = next(self.ratings) % 2 == 0
        return completion(request, "fine" if unreadable else write_rating("fine", 7))


def test_free_answers_are_rated_beside_every_kind_of_call(database: Database, problems: dict[Split, list[Any]]) -> None:
    free = {split: [replace(one, scorer=ScorerKind.JUDGE) for one in found] for split, found in problems.items()}
    judging: Any = Judging(Simulated(POOL), iter(range(10**6)))
    spec, provider = campaign("free", scoring=ScoringSpec("ada")), Provider(judging)
    campaign_id = play(database, spec, free, provider)
    rated = rows(
        database,
        "select distinct e.outcome_detail from episode e join candidate c on c.id = e.candidate_id"
        " where c.kind = 'rival'",
    )
    assert rated == [("rated 7 of 10",)]
    plan = plan_of(spec, [max(len(one.question.encode()) for split in free.values() for one in split)])
    ((started, usd),) = rows(database, f"select calls_started, usd_charged from campaign where id = {campaign_id}")
    assert started == len(provider.billed) <= plan.largest_calls
    assert usd <= plan.largest_usd
    assert_clean(database)


@dataclass
class Moody:
    """Models that never say the same twice, as real ones do."""

    inner: Simulated
    asked: Iterator[int]
    name: str = "moody"

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        answer = self.inner.complete(request)
        message = answer["choices"][0]["message"]
        if message["content"].startswith("<idea>"):
            message["content"] = message["content"].replace("<idea>", f"<idea>{next(self.asked)} ", 1)
        return answer


def test_a_recorded_comparison_plays_back_to_the_bit(
    database: Database, problems: dict[Split, list[Any]], tmp_path: Path
) -> None:
    moody: Any = Moody(Simulated(POOL), iter(range(10**6)))
    paid = play(database, campaign("paid"), problems, Provider(moody))
    written = recording.record(database, "paid", tmp_path / "paid-run.jsonl")
    assert written.missing == 0
    pool = pool_file.load(tmp_path / "paid-run.yaml")
    assert isinstance(pool, RecordingPool)
    with database.transaction() as conn:
        replies.delete(conn, replies.Choice())
    free = play(database, campaign("free"), problems, Provider(RecordedCalls(pool)))
    mine, theirs = outcome_of(database, free), outcome_of(database, paid)
    assert (mine.generations, mine.episodes, mine.turns) == (theirs.generations, theirs.episodes, theirs.turns)
    assert_clean(database)
