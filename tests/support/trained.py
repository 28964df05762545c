"""A submitted campaign with a closed generation, brought into any state, for tests of the commands."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from services.core.errors import BudgetExhausted
from services.core.ids import EpisodeId
from services.core.ledger.usage import Usage
from services.core.problem import Split
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.core.states import CampaignState, CandidateKind, GenerationKind, Purpose
from services.storage import campaign_states, campaigns, episodes, generations, leadership, ledger, problems
from services.storage.engine import Connection, Database
from services.storage.records import (
    CampaignRecord,
    CandidateScore,
    ClaimedEpisode,
    NewCandidate,
    NewEpisode,
    Settlement,
)
from tests.support.storage import worker_turn

EXHAUSTED = BudgetExhausted("USD", Decimal(10), Decimal("9.5"), Decimal("0.25"), Decimal("0.5"))
SIGMA = 0.25


def mean_of(record: CampaignRecord) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The mean with which every generation here opens."""
    return np.linspace(-1, 1, record.dimension)


def start(database: Database, name: str) -> int:
    """Start a submitted campaign as a new leader and return its epoch."""
    with database.transaction() as conn:
        epoch = leadership.take_office(conn)
        campaign_states.start(conn, campaigns.by_name(conn, name).id, epoch)
    return epoch


def open_generation(database: Database, name: str, epoch: int, number: int) -> list[EpisodeId]:
    """Open a training generation of two samples with an episode each, and return the episodes."""
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        (problem_id, _), *_ = problems.load(conn, record.id, Split.TRAINING)
        opened = generations.open_generation(
            conn,
            record.id,
            epoch=epoch,
            number=number,
            kind=GenerationKind.TRAINING,
            mean=mean_of(record),
            sigma=SIGMA,
            checksum="c" * 64,
            candidates=[NewCandidate(CandidateKind.SAMPLE, index, np.zeros(record.dimension)) for index in range(2)],
            episodes=[NewEpisode(index, Purpose.TRAINING, 0, problem_id, 7) for index in range(2)],
        )
        rows = conn.exec_driver_sql(f"select id from episode where generation_id = {opened} order by id")
        return [EpisodeId(row[0]) for row in rows]


def close_generation(database: Database, name: str, epoch: int, numbers: list[EpisodeId]) -> None:
    """Score the open generation's episodes with 0 and 1, and close it."""
    for number, reward in zip(numbers, (0.0, 1.0), strict=True):
        with database.statement() as conn:
            claim = episodes.claim(conn, number, "w1", 60.0)
        assert claim is not None
        call_once(database, claim)
        with database.statement() as conn:
            episodes.record_score(conn, claim, graded(reward), "turn_limit", [worker_turn()])
    with database.transaction() as conn:
        opened = generations.open_of(conn, campaigns.by_name(conn, name).id)
        assert opened is not None
        scores = [CandidateScore(CandidateKind.SAMPLE, index, float(index), 2 - index) for index in range(2)]
        generations.close(conn, opened.id, epoch=epoch, fitness=np.array([0.0, 1.0]), scores=scores, summary={})


def call_once(database: Database, claim: ClaimedEpisode) -> None:
    """Make the one call of the episode's one turn: 30 tokens, a tenth of a cent."""
    with database.statement() as conn:
        call = ledger.reserve_call(
            conn,
            claim,
            turn=1,
            try_=1,
            agent=0,
            model="ada",
            role=Role.WORKER,
            tokens=100,
            usd=Decimal("0.01"),
            lease_seconds=60.0,
        )
    with database.statement() as conn:
        ledger.settle_call(conn, call, Settlement(Usage(20, 10), Decimal("0.001"), 0.1, finish_reason="stop"))


def train(database: Database, name: str, closed: int = 1) -> int:
    """Start a submitted campaign and close its first generations; return the leader's epoch."""
    epoch = start(database, name)
    for number in range(closed):
        close_generation(database, name, epoch, open_generation(database, name, epoch, number))
    return epoch


def bring_to(database: Database, name: str, state: CampaignState) -> CampaignRecord:
    """Bring a submitted campaign to a state; all but a submitted one have closed generation 0.

    Unless it is complete, generation 1 is open, with one episode under way and one pending, when the state is entered.
    """
    if state is not CampaignState.SUBMITTED:
        epoch = train(database, name)
        if state is not CampaignState.COMPLETED:
            first, _ = open_generation(database, name, epoch, 1)
            with database.statement() as conn:
                assert episodes.claim(conn, first, "w1", 60.0) is not None
        with database.transaction() as conn:
            _enter(conn, campaigns.by_name(conn, name), state, epoch)
    with database.transaction() as conn:
        return campaigns.by_name(conn, name)


def _enter(conn: Connection, record: CampaignRecord, state: CampaignState, epoch: int) -> None:
    if state is CampaignState.PAUSED:
        campaign_states.pause(conn, record.id, "lunch")
    elif state is CampaignState.BUDGET_EXHAUSTED:
        campaign_states.exhaust(conn, record.id, EXHAUSTED)
    elif state is CampaignState.COMPLETED:
        campaign_states.complete(conn, record.id, epoch, "all generations closed")
    elif state is CampaignState.FAILED:
        campaign_states.fail(conn, record.id, "ReplayMismatch: another version")
    elif state is CampaignState.CANCELLED:
        campaign_states.cancel(conn, record.id, "not needed")
