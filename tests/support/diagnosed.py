"""A small campaign with recorded scores, trained and stored without a worker, for tests of what is read from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.opening import compose, vectors_of
from services.config.document import sha256, to_json
from services.core.campaign import Campaign, EncoderSpec, EvaluationSpec, ProtocolSpec, SearchSpec, ValidationSpec
from services.core.ids import CampaignId, EpisodeId
from services.core.optimiser.sep_cma_es import SepCmaEs, library_version
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.problem import Problem, ScorerKind, Split
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.scoring.grade import graded
from services.core.states import GenerationKind
from services.storage import campaign_states, campaigns, episodes, generations, leadership, problems
from services.storage.engine import Database
from services.storage.records import NewCampaign
from tests.support.campaigns import small_campaign

WIDTH = 32
FAMILIES = ("sums", "words", "codes")


def recorded_campaign(encoder: Path, **changes: Any) -> Campaign:
    """Three Worker models, one turn, a minibatch of four; the tiny encoder in ``encoder``."""
    base = small_campaign()
    return small_campaign(
        name="recorded",
        pool=(*base.pool, replace(base.pool[0], name="cyd")),
        encoder=EncoderSpec(str(encoder)),
        hidden_size=WIDTH,
        protocol=ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64),
        search=SearchSpec(population=6, replicates=4, generations=4, sigma0=0.3),
        validation=ValidationSpec(every=10, problems=0),
        evaluation=EvaluationSpec(problems=0),
        **changes,
    )


def recorded_problems(sizes: dict[Split, int]) -> dict[Split, list[Problem]]:
    """Questions of three families; each model is good at one of them, as its recorded scores say."""
    found: dict[Split, list[Problem]] = {}
    for split, size in sizes.items():
        found[split] = []
        for number in range(size):
            kind = number % 3
            scores = {name: 0.9 if at == kind else 0.1 + 0.01 * number for at, name in enumerate(("ada", "bob", "cyd"))}
            text = (f"What is {number} + {number}?", f"Spell worker {number} backwards", f"thought {number * 7}")[kind]
            key = f"{split}-{number}"
            found[split].append(Problem(key, FAMILIES[kind], f"{text} ({split})", ScorerKind.RECORDED, scores=scores))
    return found


def submit_recorded(database: Database, campaign: Campaign) -> CampaignId:
    document = to_json(campaign)
    sizes = {Split.TRAINING: 24, Split.VALIDATION: 12, Split.HELDOUT: 18}
    new = NewCampaign(
        name=campaign.name,
        spec=document,
        spec_sha256=sha256(document),
        seed=campaign.seed,
        dimension=Layout.of_campaign(campaign).size,
        versions={"search": library_version()},
        budget=campaign.budget,
    )
    with database.transaction() as conn:
        return campaigns.insert(conn, new, recorded_problems(sizes))


def train_recorded(database: Database, campaign_id: CampaignId, campaign: Campaign, rounds: int) -> SepCmaEs:
    """Play ``rounds`` generations: the heads act on made-up states, rewards are the recorded ones."""
    search = SepCmaEs(
        campaign.seed, Layout.of_campaign(campaign).size, campaign.search.population, campaign.search.sigma0
    )
    with database.transaction() as conn:
        epoch = leadership.take_office(conn)
        campaign_states.start(conn, campaign_id, epoch)
        by_id = dict(problems.load(conn, campaign_id, Split.TRAINING))
    for number in range(rounds):
        _generation(database, campaign_id, campaign, search, by_id, epoch, number)
    return search


def _generation(
    database: Database,
    campaign_id: CampaignId,
    campaign: Campaign,
    search: SepCmaEs,
    by_id: dict[int, Problem],
    epoch: int,
    number: int,
) -> None:
    vectors = vectors_of(search.ask(), search.mean, {})
    composed = compose(campaign, GenerationKind.TRAINING, number, vectors, {Split.TRAINING: list(by_id)})
    with database.transaction() as conn:
        opened = generations.open_generation(
            conn, campaign_id, epoch=epoch, number=number, kind=GenerationKind.TRAINING, mean=search.mean,
            sigma=search.sigma, checksum=search.checksum(), candidates=composed.candidates, episodes=composed.episodes,
        )  # fmt: skip
        rows = conn.exec_driver_sql(f"select id from episode where generation_id = {opened} order by id").all()
    rewards = np.zeros((campaign.search.population, campaign.search.replicates))
    for row, new in zip(rows, composed.episodes, strict=True):
        item, reward = _acted(campaign, search.ask()[new.candidate], by_id[new.problem_id], new.seed)
        rewards[new.candidate, new.replicate] = reward
        with database.transaction() as conn:
            claim = episodes.claim(conn, EpisodeId(row.id), f"w#{row.id}", 60.0)
            assert claim is not None
            episodes.record_score(conn, claim, graded(reward), "turn_limit", [item])
    with database.transaction() as conn:
        generations.close(conn, opened, epoch=epoch, fitness=rewards.mean(axis=1), scores=[], summary={})
    search.tell(rewards.mean(axis=1))


def _acted(campaign: Campaign, theta: NDArray[np.float64], problem: Problem, seed: int) -> tuple[Item, float]:
    state = np.random.default_rng(len(problem.question)).standard_normal(WIDTH).astype(np.float32)
    policy = HeadPolicy(theta, Layout.of_campaign(campaign), lambda transcript, offsets: state)
    decision = policy.decide(Transcript(problem.question), np.random.default_rng(seed))
    item = Item(1, decision.agent, Role.WORKER, RoleSource.FIXED, "out", "out", "1", None, decision.logits)
    return item, problem.scores[campaign.pool[decision.agent].name]
