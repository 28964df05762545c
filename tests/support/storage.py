"""A submitted campaign with an open generation, for tests of what happens inside one."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

import numpy as np

from services.core.campaign import BudgetLimits
from services.core.ids import CampaignId, EpisodeId, GenerationId
from services.core.problem import Problem, ScorerKind, Split
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.states import CandidateKind, GenerationKind, Purpose
from services.storage import campaign_states, campaigns, episodes, generations, leadership, problems
from services.storage.engine import Connection, Database
from services.storage.records import ClaimedEpisode, NewCampaign, NewCandidate, NewEpisode

DIMENSION = 6
LIMITS = BudgetLimits(episodes=100_000, tokens=1_000_000, usd=Decimal(100))


@dataclass(frozen=True)
class Scene:
    """A running campaign; ``episodes`` are those of its open generation in the order of insertion."""

    database: Database
    campaign: CampaignId
    generation: GenerationId
    epoch: int
    episodes: tuple[EpisodeId, ...]

    def claim(self, place: int = 0, owner: str = "w1", lease_seconds: float = 60.0) -> ClaimedEpisode:
        with self.database.statement() as conn:
            claimed = episodes.claim(conn, self.episodes[place], owner, lease_seconds)
        assert claimed is not None
        return claimed


def problem(number: int, split: Split = Split.TRAINING) -> Problem:
    return Problem(f"{split}-{number}", "sums", f"What is {number} + 1?", ScorerKind.NUMERIC, str(number + 1))


def submit(conn: Connection, name: str = "", limits: BudgetLimits = LIMITS, max_attempts: int = 3) -> CampaignId:
    new = NewCampaign(
        name or f"campaign-{uuid4().hex[:8]}",
        {"seed": 1},
        "0" * 64,
        1,
        DIMENSION,
        {"cma": "4.5.0"},
        limits,
        max_attempts,
    )
    return campaigns.insert(conn, new, {split: [problem(number, split) for number in range(4)] for split in Split})


def open_next(
    conn: Connection, campaign: CampaignId, epoch: int, number: int, candidates: int, replicates: int
) -> GenerationId:
    (problem_id, _), *_ = problems.load(conn, campaign, Split.TRAINING)
    return generations.open_generation(
        conn,
        campaign,
        epoch=epoch,
        number=number,
        kind=GenerationKind.TRAINING,
        mean=np.zeros(DIMENSION),
        sigma=0.5,
        checksum="c" * 16,
        candidates=[
            NewCandidate(CandidateKind.SAMPLE, index, np.full(DIMENSION, index / 8)) for index in range(candidates)
        ],
        episodes=[
            NewEpisode(index, Purpose.TRAINING, replicate, problem_id, 17 + replicate)
            for index in range(candidates)
            for replicate in range(replicates)
        ],
    )


def scene(
    database: Database,
    *,
    candidates: int = 2,
    replicates: int = 2,
    limits: BudgetLimits = LIMITS,
    max_attempts: int = 3,
    name: str = "",
    epoch: int | None = None,
) -> Scene:
    with database.transaction() as conn:
        epoch = leadership.take_office(conn) if epoch is None else epoch
        campaign = submit(conn, name, limits, max_attempts)
        campaign_states.start(conn, campaign, epoch)
        generation = open_next(conn, campaign, epoch, 0, candidates, replicates)
        found = query(conn, f"select id from episode where generation_id = {generation} order by id")
    return Scene(database, campaign, generation, epoch, tuple(EpisodeId(row[0]) for row in found))


def query(conn: Connection, statement: str) -> list[tuple[Any, ...]]:
    """Run any SQL and return its rows, for what the public functions do not show."""
    result = conn.exec_driver_sql(statement)
    return [tuple(row) for row in result] if result.returns_rows else []


def worker_turn(number: int = 1, output: str = "<answer>2</answer>") -> Item:
    return Item(number, 0, Role.WORKER, RoleSource.POLICY, output, "idea", "2", None, (0.5, -1.25))
