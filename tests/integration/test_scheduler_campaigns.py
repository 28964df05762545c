"""The scheduler against a real Postgres and a real broker; episodes are scored by a fixed rule instead of models."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from services.core.campaign import BudgetLimits
from services.core.ids import CampaignId
from services.core.ledger.plan import plan_of
from services.core.states import CampaignState, EpisodeState, GenerationKind
from services.queue.app import make_app
from services.queue.publish import queue_lengths
from services.storage import campaign_states, campaigns, coordinators, events, generations
from services.storage.engine import Database
from services.storage.records import Fork
from tests.support.campaigns import small_campaign, submit
from tests.support.player import Player
from tests.support.scheduling import scheduling, wait_for_state
from tests.support.waiting import wait_for


def checkpoints(database: Database, campaign_id: CampaignId) -> list[tuple[bytes, float, str, bytes | None]]:
    """Return what every generation stored, to the bit."""
    with database.transaction() as conn:
        return [
            (g.mean.tobytes(), g.sigma, g.checksum, None if g.fitness is None else g.fitness.tobytes())
            for g in generations.history(conn, campaign_id)
        ]


def test_a_campaign_runs_from_submission_to_a_released_coordinator(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign())
    with scheduling(database_url, broker_url), Player(database) as player:
        done = wait_for_state(database, campaign_id, CampaignState.COMPLETED)
    assert player.played == 2 * (4 * 3 + 2) + 2 + (1 + 2 + 1) * 3
    assert done.spend.episodes_reserved == player.played
    with database.transaction() as conn:
        history = generations.history(conn, campaign_id)
        released = coordinators.by_name(conn, "small")
        unprocessed = events.unprocessed(conn)
    assert [generation.kind for generation in history] == [
        GenerationKind.TRAINING,
        GenerationKind.TRAINING,
        GenerationKind.VALIDATION,
        GenerationKind.EVALUATION,
    ]
    assert unprocessed == []
    assert released.theta.tolist() == history[released.generation].mean.astype(np.float32).tolist()
    assert history[-1].mean.tolist() == history[released.generation].mean.tolist()


def test_pending_episodes_reach_the_broker(database: Database, database_url: str, broker_url: str) -> None:
    submit(database, small_campaign())
    app = make_app(broker_url)
    with scheduling(database_url, broker_url):
        wait_for(lambda: sum(queue_lengths(app).values()) == 14, seconds=10, what="14 messages")
    app.close()


def test_a_scheduler_that_is_replaced_at_every_step_reaches_the_same_vectors(
    database: Database, database_url: str, broker_url: str
) -> None:
    calm = submit(database, small_campaign(name="calm"))
    with scheduling(database_url, broker_url), Player(database):
        wait_for_state(database, calm, CampaignState.COMPLETED)
    stormy = submit(database, small_campaign(name="stormy"))
    with Player(database):
        for number in range(4):
            with scheduling(database_url, broker_url):
                wait_for(partial(has_closed, database, stormy, number + 1), seconds=20, what="a closed generation")
        with scheduling(database_url, broker_url):
            wait_for_state(database, stormy, CampaignState.COMPLETED)
    assert checkpoints(database, stormy) == checkpoints(database, calm)


def has_closed(database: Database, campaign_id: CampaignId, count: int) -> bool:
    return closed(database, campaign_id) >= count


def closed(database: Database, campaign_id: CampaignId) -> int:
    with database.transaction() as conn:
        return len(generations.history(conn, campaign_id))


def test_a_failed_episode_pauses_its_campaign_and_resuming_repeats_it(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign())
    broken = threading.Event()
    broken.set()

    def plays(claim: object) -> bool:
        if broken.is_set():
            raise RuntimeError("the provider is down")
        return True

    with scheduling(database_url, broker_url), Player(database, plays=plays):
        paused = wait_for_state(database, campaign_id, CampaignState.PAUSED)
        assert paused.stop_reason is not None
        assert "failed for good" in paused.stop_reason
        broken.clear()
        with database.transaction() as conn:
            campaign_states.resume(conn, campaign_id)
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_a_campaign_out_of_episodes_stops_and_goes_on_after_more_are_granted(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign(budget=BudgetLimits(episodes=20)))
    with scheduling(database_url, broker_url), Player(database) as player:
        stopped = wait_for_state(database, campaign_id, CampaignState.BUDGET_EXHAUSTED)
        assert stopped.stop_reason is not None
        assert stopped.stop_reason.startswith("budget of ")
        assert player.played == 14, "only whole generations run"
        with database.transaction() as conn:
            campaigns.add_budget(conn, campaign_id, episodes=100)
            campaign_states.resume(conn, campaign_id)
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_a_campaign_whose_history_was_altered_fails_with_the_reason_and_others_go_on(
    database: Database, database_url: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.handlers.FAILURES_BEFORE_GIVING_UP", 1)
    altered = submit(database, replace(small_campaign(name="altered"), seed=6))
    with scheduling(database_url, broker_url), Player(database):
        wait_for(lambda: closed(database, altered) >= 1, seconds=20, what="a closed generation")
        with database.transaction() as conn:
            campaign_states.pause(conn, altered, "to alter it")
    with database.transaction() as conn:
        conn.exec_driver_sql("UPDATE generation SET checksum = repeat('0', 64) WHERE number = 0")
        campaign_states.resume(conn, altered)
    healthy = submit(database, small_campaign(name="healthy"))
    with scheduling(database_url, broker_url), Player(database):
        failed = wait_for_state(database, altered, CampaignState.FAILED)
        assert failed.stop_reason is not None
        assert "ReplayMismatch" in failed.stop_reason
        wait_for_state(database, healthy, CampaignState.COMPLETED)


def test_two_schedulers_one_leads_and_the_other_takes_over(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign())
    with scheduling(database_url, broker_url) as first, scheduling(database_url, broker_url), Player(database):
        wait_for(lambda: closed(database, campaign_id) >= 1, seconds=20, what="a closed generation")
        first.stop.set()
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_expired_leases_are_returned_and_the_campaign_completes(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign())
    with (
        scheduling(database_url, broker_url),
        Player(database, plays=lambda claim: claim.attempt > 1, lease_seconds=0.2),
    ):
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)
    with database.transaction() as conn:
        for generation in generations.history(conn, campaign_id):
            assert set(generations.counts(conn, generation.id)) == {EpisodeState.SCORED}


def test_a_fork_starts_from_the_mean_of_its_origin(database: Database, database_url: str, broker_url: str) -> None:
    origin = submit(database, small_campaign(name="origin"))
    with scheduling(database_url, broker_url), Player(database):
        wait_for_state(database, origin, CampaignState.COMPLETED)
        fork = submit(database, small_campaign(name="fork"), Fork(origin, 1))
        wait_for_state(database, fork, CampaignState.COMPLETED)
    with database.transaction() as conn:
        before, after = generations.history(conn, origin), generations.history(conn, fork)
    assert after[0].mean.tolist() == before[1].mean.tolist()
    assert after[0].sigma == before[1].sigma


def test_the_plan_counts_every_episode_that_the_scheduler_opens(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign = small_campaign()
    episodes = plan_of(campaign, [20]).episodes
    campaign_id = submit(database, replace(campaign, budget=BudgetLimits(episodes=episodes)))
    with scheduling(database_url, broker_url), Player(database):
        done = wait_for_state(database, campaign_id, CampaignState.COMPLETED)
    assert done.spend.episodes_reserved == episodes
