from __future__ import annotations

from decimal import Decimal

import pytest

from services.core.errors import BudgetExhausted, DatabaseUnavailable, IllegalTransition, LeadershipLost, SpecError
from services.core.events import EventType
from services.core.problem import Problem, ScorerKind, Split
from services.core.states import CampaignState, EpisodeState
from services.storage import campaign_states, campaigns, episodes, events, generations, leadership, problems
from services.storage.engine import Database
from tests.support.storage import DIMENSION, LIMITS, open_next, query, scene, submit


def test_a_submission_is_one_fact_with_its_problems_and_event(database: Database) -> None:
    with database.listen() as listener:
        listener.wait(5)
        with database.transaction() as conn:
            campaign = submit(conn, "first")
        assert listener.wait(5)
    with database.transaction() as conn:
        record = campaigns.by_name(conn, "first")
        assert (record.id, record.state, record.dimension) == (campaign, CampaignState.SUBMITTED, DIMENSION)
        assert record.budget == LIMITS
        assert [event.type for event in events.unprocessed(conn)] == [EventType.CAMPAIGN_SUBMITTED]
        loaded = problems.load(conn, campaign, Split.HELDOUT)
        assert [found.key for _, found in loaded] == [f"heldout-{number}" for number in range(4)]
        assert problems.by_id(conn, loaded[2][0]) == loaded[2][1]


def test_a_used_name_is_refused_and_nothing_is_written(database: Database) -> None:
    with database.transaction() as conn:
        submit(conn, "same")
    with pytest.raises(SpecError, match=r"name: got 'same'"), database.transaction() as conn:
        submit(conn, "same")
    with database.transaction() as conn:
        assert query(conn, "select count(*) from campaign") == [(1,)]


def test_an_unknown_name_lists_the_known_ones(database: Database) -> None:
    with database.transaction() as conn:
        with pytest.raises(SpecError, match="none yet"):
            campaigns.by_name(conn, "nope")
        submit(conn, "known")
        with pytest.raises(SpecError, match="known"):
            campaigns.by_name(conn, "no\x00pe")


def test_problems_survive_as_they_were(database: Database) -> None:
    odd = Problem("k\x00", "f", "a half \ud800 question \x00", ScorerKind.RECORDED, None, {"gpt": 0.5, "m\x00": 1.0})
    with database.transaction() as conn:
        campaign = submit(conn)
        problems.insert(conn, campaign, {Split.TRAINING: []})
        conn.exec_driver_sql("delete from problem")
        problems.insert(conn, campaign, {Split.TRAINING: [odd]})
        ((_, found),) = problems.load(conn, campaign, Split.TRAINING)
    assert found == odd


def test_two_problems_with_one_key_are_refused(database: Database) -> None:
    twin = Problem("k", "f", "q", ScorerKind.EXACT, "a")
    with database.transaction() as conn:
        campaign = submit(conn)
        with pytest.raises(SpecError, match="key"):
            problems.insert(conn, campaign, {Split.TRAINING: [twin], Split.HELDOUT: [twin]})


def test_the_life_of_a_campaign(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        assert not campaign_states.start(conn, made.campaign, made.epoch)
        assert campaign_states.pause(conn, made.campaign, "look\x00")
        assert not campaign_states.pause(conn, made.campaign, "again")
        paused = campaigns.by_id(conn, made.campaign)
        assert (paused.state, paused.ended_at) == (CampaignState.PAUSED, None)
        assert campaign_states.resume(conn, made.campaign)
        assert not campaign_states.resume(conn, made.campaign)
        assert campaigns.by_id(conn, made.campaign).stop_reason is None
        assert campaign_states.complete(conn, made.campaign, made.epoch, "done")
        ended = campaigns.by_id(conn, made.campaign)
        assert (ended.stop_reason, ended.ended_at is not None) == ("done", True)
        for change in (campaign_states.pause, campaign_states.cancel, campaign_states.fail):
            with pytest.raises(IllegalTransition, match="it has ended"):
                change(conn, made.campaign, "late")
        with pytest.raises(IllegalTransition):
            campaign_states.resume(conn, made.campaign)
        with pytest.raises(IllegalTransition):
            campaigns.add_budget(conn, made.campaign, episodes=1)
        types = [event.type for event in events.history(conn, made.campaign)]
    assert types[:3] == [EventType.CAMPAIGN_COMPLETED, EventType.CAMPAIGN_RESUMED, EventType.CAMPAIGN_PAUSED]


def test_only_the_leader_starts_a_campaign(database: Database) -> None:
    with database.transaction() as conn:
        campaign = submit(conn)
        epoch = leadership.take_office(conn)
        with pytest.raises(LeadershipLost):
            campaign_states.start(conn, campaign, epoch - 1)
        with pytest.raises(IllegalTransition, match="not started"):
            campaign_states.resume(conn, campaign)
        assert campaign_states.start(conn, campaign, epoch)


@pytest.mark.parametrize("change", [campaign_states.cancel, campaign_states.fail])
def test_ending_early_leaves_nothing_unfinished(database: Database, change: object) -> None:
    made = scene(database)
    made.claim(0)
    with database.transaction() as conn:
        assert callable(change)
        assert change(conn, made.campaign, "enough")
        assert not change(conn, made.campaign, "enough")
        assert generations.open_of(conn, made.campaign) is None
        assert generations.counts(conn, made.generation) == {EpisodeState.CANCELLED: 4}
        assert query(conn, "select outcome from attempt") == [("returned",)]
        assert campaigns.by_id(conn, made.campaign).spend.episodes_reserved == 1


def test_resuming_gives_failed_episodes_new_attempts(database: Database) -> None:
    made = scene(database, max_attempts=1)
    claim = made.claim()
    with database.transaction() as conn:
        assert episodes.record_failure(conn, claim, "E", "", retry=True) is EpisodeState.FAILED
        campaign_states.pause(conn, made.campaign, "incomplete")
        campaign_states.resume(conn, made.campaign)
    again = made.claim()
    assert again.attempt == 2
    with database.transaction() as conn:
        assert episodes.record_failure(conn, again, "E", "", retry=True) is EpisodeState.FAILED


def test_resuming_counts_the_attempts_of_an_outage_anew(database: Database) -> None:
    made = scene(database, max_attempts=2)
    with database.transaction() as conn:
        for place in (0, 1):
            claim = made.claim(place)
            episodes.record_failure(conn, claim, "E", "", retry=True, backoff_seconds=3600)
        campaign_states.pause(conn, made.campaign, "outage")
        campaign_states.resume(conn, made.campaign)
    for _ in range(2):
        again = made.claim(0)
        with database.transaction() as conn:
            state = episodes.record_failure(conn, again, "E", "", retry=True, backoff_seconds=0)
    assert (again.attempt, state) == (3, EpisodeState.FAILED)


def test_a_used_up_budget_is_a_state_of_its_own(database: Database) -> None:
    made = scene(database)
    error = BudgetExhausted("calls", 5, 5, 0, 1)
    with database.transaction() as conn:
        assert campaign_states.exhaust(conn, made.campaign, error)
        assert not campaign_states.exhaust(conn, made.campaign, error)
        stopped = campaigns.by_id(conn, made.campaign)
        assert (stopped.state, stopped.stop_reason) == (CampaignState.BUDGET_EXHAUSTED, str(error))
        assert campaign_states.resume(conn, made.campaign)
        campaign_states.pause(conn, made.campaign, "by hand")
        assert not campaign_states.exhaust(conn, made.campaign, error), "somebody stopped it already"
        campaign_states.cancel(conn, made.campaign, "enough")
        assert not campaign_states.exhaust(conn, made.campaign, error), "it has ended"
        told = [event for event in events.history(conn, made.campaign) if event.type is EventType.BUDGET_EXHAUSTED]
    assert [event.payload["scope"] for event in told] == ["calls"]


def test_a_weight_can_be_changed_while_it_matters(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        campaigns.set_weight(conn, made.campaign, 2.5)
        assert campaigns.by_id(conn, made.campaign).weight == 2.5
        for wrong in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(SpecError, match="above 0"):
                campaigns.set_weight(conn, made.campaign, wrong)
        campaign_states.cancel(conn, made.campaign, "enough")
        with pytest.raises(IllegalTransition, match="has ended"):
            campaigns.set_weight(conn, made.campaign, 1.0)


def test_pauses_do_not_count_as_running_time(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        conn.exec_driver_sql("update campaign set running_since = now() - interval '10 minutes'")
        campaign_states.pause(conn, made.campaign, "a rest")
        conn.exec_driver_sql("update campaign set started_at = now() - interval '1 day'")
        assert 599 < campaigns.by_id(conn, made.campaign).running_seconds < 630


def test_a_budget_can_be_raised(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        campaigns.add_budget(
            conn, made.campaign, episodes=5, calls=3, tokens=7, usd=Decimal("0.5"), wall_clock_seconds=9
        )
        budget = campaigns.by_id(conn, made.campaign).budget
        assert (budget.episodes, budget.tokens, budget.usd) == (100_005, 1_000_007, Decimal("100.5"))
        assert budget.wall_clock_seconds is None
        with pytest.raises(ValueError, match="raised only"):
            campaigns.add_budget(conn, made.campaign, episodes=-1)


def test_episodes_are_reserved_before_a_generation_opens(database: Database) -> None:
    with database.transaction() as conn:
        epoch = leadership.take_office(conn)
        campaign = submit(conn, limits=type(LIMITS)(episodes=5))
        with pytest.raises(IllegalTransition, match="only a running one"):
            open_next(conn, campaign, epoch, 0, 2, 2)
        campaign_states.start(conn, campaign, epoch)
        with pytest.raises(BudgetExhausted) as caught:
            open_next(conn, campaign, epoch, 0, 2, 3)
        assert (caught.value.scope, caught.value.limit, caught.value.wanted) == ("episodes", 5, 6)
        open_next(conn, campaign, epoch, 0, 5, 1)


def test_a_command_does_not_wait_for_ever_for_a_lock(database: Database) -> None:
    made = scene(database)

    def pause_now() -> None:
        with database.transaction() as conn:
            conn.exec_driver_sql("set local lock_timeout = '50ms'")
            campaign_states.pause(conn, made.campaign, "now")

    with database.transaction() as holder:
        generations.open_of(holder, made.campaign)
        with pytest.raises(DatabaseUnavailable, match=r"lock timeout; another process holds it"):
            pause_now()
