"""One episode: claim, decide, call, score, record. Every way it can end is one database transaction."""

from __future__ import annotations

import time
from typing import assert_never

import numpy as np

from services.core.campaign import Campaign, ProtocolSpec
from services.core.errors import (
    AttemptInterrupted,
    BudgetExhausted,
    LeaseLost,
    PermanentPoolError,
    SpecError,
    Unscorable,
)
from services.core.ids import EpisodeId
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy, RandomPolicy, SinglePolicy
from services.core.protocol.episode import EpisodeResult, run_episode, single_turn
from services.core.protocol.ports import Policy
from services.core.scoring.scorer import score
from services.core.states import CandidateKind
from services.storage import campaign_states, episodes
from services.storage.records import ClaimedEpisode
from worker.calls import MeteredCalls
from worker.runtime import Runtime

# Trying again changes nothing about these; everything else may be the network's or the machine's fault.
PERMANENT = (PermanentPoolError, Unscorable, SpecError)


def run(runtime: Runtime, episode_id: EpisodeId) -> None:
    """Run one episode if it can be claimed; return quietly if not (a duplicate, paused or finished episode)."""
    if runtime.stopping.is_set():
        return
    with runtime.database.statement() as conn:
        claim = episodes.claim(conn, episode_id, runtime.owner, runtime.lease_seconds)
    if claim is None:
        return
    runtime.held.hold(claim)
    try:
        attempt(runtime, claim)
    except LeaseLost as error:
        runtime.log.info("a late result is not counted", reason=str(error))
    finally:
        runtime.held.drop(claim)


def attempt(runtime: Runtime, claim: ClaimedEpisode) -> None:
    """Play and score the episode, and record how it ended; raises LeaseLost when that is no longer ours to say."""
    try:
        result = play(runtime, claim)
        campaign = runtime.campaign(claim)
        answered_by = None if result.answered_by is None else campaign.pool[result.answered_by].name
        reward = score(runtime.problem(claim.problem_id), result.answer, answered_by)
    except LeaseLost:
        raise
    except AttemptInterrupted:
        with runtime.database.statement() as conn:
            episodes.give_back(conn, claim)
    except BudgetExhausted as error:
        exhausted(runtime, claim, error)
    except Exception as error:  # noqa: BLE001 - the boundary of the task: whatever happens ends as a recorded attempt
        failed(runtime, claim, error)
    else:
        with runtime.database.statement() as conn:
            episodes.record_score(conn, claim, reward, result.termination, result.transcript.items)


def play(runtime: Runtime, claim: ClaimedEpisode) -> EpisodeResult:
    """Run the tri-role conversation with the claim's seed; the attempt number has no influence on it."""
    campaign = runtime.campaign(claim)
    policy, protocol = acting(runtime, claim, campaign)
    calls = MeteredCalls(
        runtime.database,
        runtime.pool(claim),
        campaign,
        claim,
        runtime.lease_seconds,
        time.monotonic() + campaign.protocol.episode_timeout_seconds,
        runtime.retries,
        runtime.wait,
    )
    return run_episode(
        runtime.problem(claim.problem_id).question,
        policy,
        calls,
        protocol,
        len(campaign.pool),
        np.random.Generator(np.random.PCG64(claim.seed)),
        check=runtime.check_going_on,
    )


def acting(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> tuple[Policy, ProtocolSpec]:
    """Return what acts in the claim's candidate, and under which protocol."""
    kind, protocol = claim.candidate_kind, campaign.protocol
    if kind is CandidateKind.SINGLE:
        return SinglePolicy(claim.candidate_index), single_turn(protocol)
    if kind is CandidateKind.RANDOM:
        return RandomPolicy(len(campaign.pool), protocol.roles), protocol
    if kind is CandidateKind.SAMPLE or kind is CandidateKind.MEAN:
        encoder = runtime.encoders.encoder(campaign.encoder, len(campaign.pool))
        if encoder.hidden_size != campaign.hidden_size:
            raise SpecError("encoder.hidden_size", campaign.hidden_size, f"the model's {encoder.hidden_size}")
        layout = Layout.of(len(campaign.pool), protocol.roles, campaign.hidden_size)
        return HeadPolicy(runtime.theta(claim), layout, encoder.encode), protocol
    assert_never(kind)


def failed(runtime: Runtime, claim: ClaimedEpisode, error: Exception) -> None:
    """Record a failed attempt: never a reward. It is repeated unless repeating cannot help."""
    retry = not isinstance(error, PERMANENT)
    with runtime.database.statement() as conn:
        state = episodes.record_failure(conn, claim, type(error).__name__, str(error), retry=retry)
    runtime.log.warning("attempt failed", episode=claim.label, error=f"{type(error).__name__}: {error}", now=state)


def exhausted(runtime: Runtime, claim: ClaimedEpisode, error: BudgetExhausted) -> None:
    """Hand the episode back and pause its campaign; both in one transaction."""
    with runtime.database.transaction() as conn:
        campaign_states.exhaust(conn, claim.campaign_id, error)
        episodes.give_back(conn, claim)
