"""Campaigns with everything that can happen to them, played step by step: no threads, no broker, no model."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from scheduler.generation import advance
from scheduler.memory import Memory
from services.core.campaign import BudgetLimits, SearchSpec
from services.core.ids import CampaignId, EpisodeId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.protocol.verdict import Verdict
from services.core.scoring.grade import graded
from services.storage import campaign_states, episodes, events, leadership, leases, ledger
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode, Fork, Settlement
from tests.support.campaigns import small_campaign, submit
from tests.support.storage import query, worker_turn

LIMITS = BudgetLimits(episodes=1000, calls=1000, tokens=1_000_000, usd=Decimal(10), wall_clock_seconds=3600.0)
LEASE_SECONDS = 3000.0  # the story may be looked at for a while


@dataclass
class Stage:
    """A scheduler and a worker in one thread.

    Attributes:
        claims: how many there were, for names of owners.
    """

    database: Database
    epoch: int = 0
    claims: int = 0

    def take_office(self) -> None:
        with self.database.transaction() as conn:
            self.epoch = leadership.take_office(conn)

    def advance(self, campaign_id: CampaignId) -> None:
        """Act on a campaign's events, as a scheduler does that has just started."""
        with self.database.transaction() as conn:
            leadership.require(conn, self.epoch)
            found = [event.id for event in events.unprocessed(conn) if event.campaign_id == campaign_id]
            advance(conn, self.epoch, campaign_id, Memory())
            events.mark_processed(conn, found)

    def due(self, campaign_id: CampaignId) -> list[EpisodeId]:
        with self.database.transaction() as conn:
            rows = query(
                conn, f"select id from episode where campaign_id = {campaign_id} and state = 'pending' order by id"
            )
        return [EpisodeId(row[0]) for row in rows]

    def claim(self, episode_id: EpisodeId, lease_seconds: float = LEASE_SECONDS) -> ClaimedEpisode:
        self.claims += 1
        with self.database.statement() as conn:
            claim = episodes.claim(conn, episode_id, f"w1#{self.claims}", lease_seconds)
        assert claim is not None
        return claim

    def call(self, claim: ClaimedEpisode, *, settled: bool = True, turn: int = 1, agent: int = 0) -> None:
        with self.database.statement() as conn:
            call = ledger.reserve_call(
                conn,
                claim,
                turn=turn,
                try_=1,
                agent=agent,
                model=("ada", "bob")[agent],
                role=Role.WORKER,
                tokens=100,
                usd=Decimal("0.001"),
                lease_seconds=LEASE_SECONDS if settled else 0.0,
            )
            if settled:
                ledger.settle_call(conn, call, Settlement(Usage(20, 10), Decimal("0.0003"), 0.1))

    def score(self, claim: ClaimedEpisode) -> None:
        self.call(claim)
        reward = float((claim.candidate_index + claim.replicate + claim.generation_number) % 2)
        with self.database.statement() as conn:
            episodes.record_score(conn, claim, graded(reward), "turn_limit", [worker_turn()])

    def score_after_nothing_to_check(self, episode_id: EpisodeId) -> None:
        """The first turn is a Verifier's, for which no model is asked."""
        claim = self.claim(episode_id)
        self.call(claim, turn=2)
        silent = Item(1, 1, Role.VERIFIER, RoleSource.POLICY, "", "nothing to check", None, Verdict.REVISE)
        with self.database.statement() as conn:
            episodes.record_score(conn, claim, graded(1.0), "turn_limit", [silent, worker_turn(2)])

    def play(self, campaign_id: CampaignId, most: int = 1000) -> None:
        """Score what is due and take the step that follows."""
        for episode_id in self.due(campaign_id)[:most]:
            self.score(self.claim(episode_id))
        self.advance(campaign_id)

    def lose(self, episode_id: EpisodeId) -> None:
        """A worker falls silent in the middle of a call."""
        self.call(self.claim(episode_id), settled=False)
        with self.database.transaction() as conn:
            assert leases.expire(conn, epoch=self.epoch) == 1

    def fail(self, episode_id: EpisodeId) -> None:
        """An attempt ends with an error in the middle of a call, and the episode is due again at once."""
        claim = self.claim(episode_id)
        self.call(claim, settled=False)
        with self.database.statement() as conn:
            episodes.record_failure(conn, claim, "ProviderError", "503", retry=True, backoff_seconds=0.0)

    def give_back(self, episode_id: EpisodeId) -> None:
        claim = self.claim(episode_id)
        with self.database.statement() as conn:
            assert episodes.give_back(conn, claim)


def tell_story(database: Database) -> None:
    """Leave a completed campaign ``done``, a running ``fork`` of it, a paused and a cancelled one.

    ``done`` had an attempt lost, one failed and one given back, and a pause. The open generation of ``fork`` has one
    episode running, one queued, one scored and the others pending.
    """
    stage = Stage(database)
    stage.take_office()
    done = submit(database, small_campaign(name="done", budget=LIMITS))
    stage.advance(done)
    first, second, third, fourth, *_ = stage.due(done)
    stage.lose(first)
    stage.fail(second)
    stage.give_back(third)
    stage.score_after_nothing_to_check(fourth)
    _pause_and_resume(stage, done)
    for _ in range(4):
        stage.play(done)
        stage.take_office()
    fork = submit(
        database,
        small_campaign(name="fork", budget=LIMITS, search=SearchSpec(4, 3, 4, sigma0=0.1, minibatch="fresh")),
        Fork(done, 1),
    )
    stage.advance(fork)
    stage.play(fork)
    running, queued, scored, *_ = stage.due(fork)
    stage.call(stage.claim(running))
    stage.score(stage.claim(scored))
    with database.transaction() as conn:
        conn.exec_driver_sql(f"update episode set state = 'queued', published_at = now() where id = {queued}")
    _cancelled(stage)
    _paused(stage)
    for campaign_id in (done, fork):
        stage.advance(campaign_id)


def _pause_and_resume(stage: Stage, campaign_id: CampaignId) -> None:
    with stage.database.transaction() as conn:
        campaign_states.pause(conn, campaign_id, "for a while")
    with stage.database.transaction() as conn:
        campaign_states.resume(conn, campaign_id)
    stage.advance(campaign_id)


def _cancelled(stage: Stage) -> None:
    campaign_id = submit(stage.database, small_campaign(name="cancelled"))
    stage.advance(campaign_id)
    first, second, *_ = stage.due(campaign_id)
    stage.score(stage.claim(first))
    stage.claim(second)
    with stage.database.transaction() as conn:
        campaign_states.cancel(conn, campaign_id, "no longer wanted")
    stage.advance(campaign_id)


def _paused(stage: Stage) -> None:
    campaign_id = submit(stage.database, small_campaign(name="paused", budget=LIMITS))
    stage.advance(campaign_id)
    stage.play(campaign_id, most=3)
    with stage.database.transaction() as conn:
        campaign_states.pause(conn, campaign_id, "for the night")
    stage.advance(campaign_id)
