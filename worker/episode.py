"""One episode: claim, decide, call, score, record. Every way it can end is one database transaction."""

from __future__ import annotations

import time
from dataclasses import replace

from services.core.errors import (
    AttemptInterrupted,
    BudgetExhausted,
    CircuitOpen,
    DatabaseUnavailable,
    LeaseLost,
    PermanentPoolError,
    SpecError,
    TrinityError,
    Unscorable,
)
from services.core.ids import EpisodeId
from services.core.scoring.scorer import grade
from services.storage import campaign_states, episodes, outbox
from services.storage.engine import Connection
from services.storage.operations import Claim, Score
from services.storage.records import ClaimedEpisode
from worker.calls import MeteredCalls
from worker.grading import EpisodeJudge, require
from worker.leases import Lease
from worker.playing import play
from worker.runtime import Runtime

# Trying again changes nothing about these; everything else may be the network's or the machine's fault.
PERMANENT = (PermanentPoolError, Unscorable, SpecError)
STOPPING = "the worker is stopping"
LONGEST_DELAY_SECONDS = 60.0


def run(runtime: Runtime, episode_id: EpisodeId) -> None:
    """Run one episode if it can be claimed; return quietly if not (a duplicate, paused or finished episode)."""
    if runtime.stopping.is_set():
        runtime.ask(lambda conn: outbox.refuse(conn, episode_id))
        return
    asked_at = time.monotonic()
    claim = runtime.writer.do(Claim(episode_id, runtime.token(), runtime.owner, runtime.lease_seconds))
    if claim is None:
        return
    lease = runtime.held.hold(claim, asked_at)
    if runtime.stopping.is_set():
        lease.interrupt(STOPPING)
    try:
        attempt(runtime, lease)
    except LeaseLost as error:
        runtime.log.info("a late result is not counted", reason=str(error))
    finally:
        runtime.held.drop(lease)


def attempt(runtime: Runtime, lease: Lease) -> None:
    """Play and score the episode, and record how it ended; raises LeaseLost when that is no longer ours to say."""
    claim = lease.claim
    try:
        lease.check()
        play_and_score(runtime, lease)
    except LeaseLost:
        raise
    except (AttemptInterrupted, DatabaseUnavailable) as error:
        give_back(runtime, claim, error)
    except BudgetExhausted as error:
        exhausted(runtime, claim, error)
    except CircuitOpen as error:
        left_alone(runtime, claim, error)
    except BaseException as error:  # noqa: BLE001 - the boundary of the task: whatever happens ends as a recorded attempt
        failed(runtime, claim, error)


def play_and_score(runtime: Runtime, lease: Lease) -> None:
    claim = lease.claim
    campaign = runtime.campaign(claim)
    require(runtime.problem(claim.problem_id), runtime.graders)
    deadline = time.monotonic() + campaign.protocol.episode_timeout_seconds
    calls = MeteredCalls(
        runtime.writer, runtime.pool(claim), campaign, lease, deadline, runtime.retries, runtime.counts
    )
    try:
        result, states = play(runtime, lease, campaign, calls)
        answered_by = None if result.answered_by is None else campaign.pool[result.answered_by].name
        problem = runtime.problem(claim.problem_id)
        graders = replace(runtime.graders, judge=EpisodeJudge.of(campaign, calls, result.turns))
        given = grade(problem, result.answer, answered_by, graders, truncated=result.truncated)
        runtime.writer.do(Score(claim, given, result.termination, result.transcript.items, states))
    finally:
        calls.settled()  # recording another end would book a call that is still open at its largest cost


def failed(runtime: Runtime, claim: ClaimedEpisode, error: BaseException) -> None:
    """Record a failed attempt: never a reward. It is repeated unless repeating cannot help."""
    kind, retry = type(error).__name__, not isinstance(error, PERMANENT)
    state = runtime.ask(lambda conn: episodes.record_failure(conn, claim, kind, str(error), retry=retry))
    runtime.log.warning("attempt failed", episode=claim.label, error=f"{kind}: {error}", now=state)


def left_alone(runtime: Runtime, claim: ClaimedEpisode, error: CircuitOpen) -> None:
    """Wait a short outage out, without a slot: the episode may run again when its model may be tried.

    A lasting one is a failure like any other, so that the campaign's own rules stop it.
    """
    if error.lasting:
        failed(runtime, claim, error)
    else:
        give_back(runtime, claim, error, min(error.seconds, LONGEST_DELAY_SECONDS))


def give_back(runtime: Runtime, claim: ClaimedEpisode, error: TrinityError, seconds: float = 0.0) -> None:
    """Hand the episode back, to run again after so long; that is no failure."""
    returned = runtime.ask(lambda conn: episodes.give_back(conn, claim, seconds))
    runtime.log.info("attempt handed back" if returned else "attempt was taken away", reason=str(error))


def exhausted(runtime: Runtime, claim: ClaimedEpisode, error: BudgetExhausted) -> None:
    """Hand the episode back and stop its campaign; both in one transaction."""

    def step(conn: Connection) -> None:
        campaign_states.exhaust(conn, claim.campaign_id, error)
        episodes.give_back(conn, claim)

    runtime.ask(step)
