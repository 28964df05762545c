from __future__ import annotations

import pytest

from services.core.errors import LeaseLost
from services.core.events import EventType
from services.core.scoring.grade import graded
from services.core.states import EpisodeState
from services.storage import campaign_states, episodes, events, generations, leases, outbox
from services.storage.engine import Database
from services.storage.text_codec import escape
from tests.support.storage import query, scene, worker_turn
from tests.support.threads import at_once


def test_one_of_many_claims_wins(database: Database) -> None:
    made = scene(database)

    def claim(number: int) -> bool:
        with database.statement() as conn:
            return episodes.claim(conn, made.episodes[0], f"w{number}", 60) is not None

    assert sum(at_once(16, claim)) == 1
    with database.transaction() as conn:
        assert query(conn, "select count(*) from attempt") == [(1,)]


def test_a_claim_tells_everything_a_worker_needs(database: Database) -> None:
    made = scene(database, name="demo")
    claim = made.claim(3)
    assert (claim.label, claim.attempt, claim.seed, claim.owner) == ("demo g0 c1 r1", 1, 18, "w1")
    with database.statement() as conn:
        theta = episodes.candidate_theta(conn, claim.candidate_id)
    assert theta is not None
    assert theta.dtype.name == "float32"
    assert theta.tolist() == [0.125] * 6


@pytest.mark.parametrize("change", ["pause", "cancel"])
def test_nothing_is_claimed_in_a_campaign_that_does_not_run(database: Database, change: str) -> None:
    made = scene(database)
    with database.transaction() as conn:
        getattr(campaign_states, change)(conn, made.campaign, "a test")
    with database.statement() as conn:
        assert episodes.claim(conn, made.episodes[0], "w1", 60) is None


def test_a_score_settles_the_episode_with_its_turns_and_event(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    nasty = "half \ud83d, NUL \x00, mark \x1a0000"
    with database.statement() as conn:
        episodes.record_score(conn, claim, graded(0.75), "accepted", [worker_turn(1, nasty), worker_turn(2)])
    with database.transaction() as conn:
        assert query(conn, "select state, reward, turns, lease_owner from episode where state = 'scored'") == [
            ("scored", 0.75, 2, None)
        ]
        stored = query(conn, "select output, logits from turn where number = 1")
        assert escape(nasty) == stored[0][0]
        assert stored[0][1] == [0.5, -1.25]
        assert query(conn, "select outcome from attempt") == [("done",)]
        (event,) = [e for e in events.unprocessed(conn) if e.type is EventType.EPISODE_SCORED]
        assert event.payload == {"episode": claim.episode_id, "generation": 0, "attempt": 1}


def test_the_fence_refuses_a_late_worker(database: Database) -> None:
    made = scene(database)
    late = made.claim(owner="slow", lease_seconds=0.0)
    with database.transaction() as conn:
        assert leases.expire(conn, epoch=made.epoch) == 1
    current = made.claim(owner="slow")  # the same name, another attempt
    with database.statement() as conn:
        with pytest.raises(LeaseLost):
            episodes.record_score(conn, late, graded(1.0), "accepted", [worker_turn()])
        with pytest.raises(LeaseLost):
            episodes.record_failure(conn, late, "E", "late", retry=True)
        assert not episodes.give_back(conn, late)
        episodes.record_score(conn, current, graded(0.25), "accepted", [worker_turn()])
        episodes.record_score(conn, current, graded(1.0), "accepted", [worker_turn()])  # repeated: it changes nothing
    with database.transaction() as conn:
        assert query(conn, "select reward, attempt from episode where state = 'scored'") == [(0.25, 2)]
        assert query(conn, "select number, outcome from attempt order by number") == [(1, "lost"), (2, "done")]
        assert query(conn, "select count(*) from turn") == [(1,)]


def test_failures_are_retried_up_to_the_limit_and_never_become_a_reward(database: Database) -> None:
    made = scene(database, max_attempts=2)
    states = []
    for _ in range(2):
        claim = made.claim()
        with database.statement() as conn:
            states.append(
                episodes.record_failure(conn, claim, "CallTimedOut", "no\x00 reply", retry=True, backoff_seconds=0)
            )
    assert states == [EpisodeState.PENDING, EpisodeState.FAILED]
    with database.transaction() as conn:
        assert query(conn, "select reward, failure_kind from episode where state = 'failed'") == [
            (None, "CallTimedOut")
        ]
        assert [e.type for e in events.unprocessed(conn)].count(EventType.EPISODE_FAILED) == 1


def test_a_hopeless_failure_is_not_retried(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    with database.statement() as conn:
        assert episodes.record_failure(conn, claim, "Unscorable", "", retry=False) is EpisodeState.FAILED


def test_a_retry_waits_for_its_back_off(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    with database.statement() as conn:
        episodes.record_failure(conn, claim, "RateLimited", "", retry=True, backoff_seconds=30)
        assert episodes.claim(conn, claim.episode_id, "w2", 60) is None
    with database.transaction() as conn:
        ready = outbox.take(conn, {made.campaign: 100}, window=100, republish_seconds=60)
        assert claim.episode_id not in {row.episode_id for row in ready}
        assert len(ready) == 3
        (row,) = query(conn, "select extract(epoch from available_at - now()) from episode where attempt = 1")
    assert 25 < float(row[0]) <= 30


def test_giving_back_is_no_failure_and_its_attempt_number_is_spent(database: Database) -> None:
    made = scene(database, max_attempts=1)
    for number in (1, 2, 3):
        claim = made.claim()
        assert claim.attempt == number
        with database.statement() as conn:
            assert episodes.give_back(conn, claim)
    claim = made.claim()
    with database.statement() as conn:
        assert episodes.record_failure(conn, claim, "E", "", retry=True) is EpisodeState.FAILED


def test_only_the_last_settle_notifies(database: Database) -> None:
    made = scene(database, candidates=1, replicates=3)
    with database.listen() as listener:
        assert listener.wait(5)  # the new connection itself
        heard = []
        for place in range(3):
            claim = made.claim(place)
            with database.statement() as conn:
                if place == 1:
                    episodes.record_failure(conn, claim, "E", "", retry=False)
                else:
                    episodes.record_score(conn, claim, graded(1.0), "accepted", [])
            heard.append(listener.wait(5 if place == 2 else 0.05))
    assert heard == [False, False, True]
    with database.transaction() as conn:
        assert generations.counts(conn, made.generation) == {EpisodeState.SCORED: 2, EpisodeState.FAILED: 1}


def test_a_reward_outside_its_range_is_refused(database: Database) -> None:
    made = scene(database)
    with database.statement() as conn, pytest.raises(ValueError, match=r"\[0, 1\]"):
        episodes.record_score(conn, made.claim(), graded(1.01), "accepted", [])


def test_a_megabyte_of_output_is_kept(database: Database) -> None:
    made = scene(database)
    with database.statement() as conn:
        episodes.record_score(conn, made.claim(), graded(0.0), "turn_limit", [worker_turn(1, "x\x00" * 500_000)])
    with database.transaction() as conn:
        (row,) = query(conn, "select output from turn")
    assert row[0] == escape("x\x00" * 500_000)
