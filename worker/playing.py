"""What acts in an episode, by the kind of its candidate, and the conversation that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import assert_never

import numpy as np

from services.core.baselines.fitting import router
from services.core.baselines.routed import RoutedPolicy
from services.core.baselines.scaffold import Episode, Same
from services.core.baselines.scaffolds import scaffold_of
from services.core.baselines.smoothie import Embed
from services.core.campaign import Campaign, ProtocolSpec
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy, RandomPolicy, SinglePolicy
from services.core.problem import Problem, ScorerKind
from services.core.protocol.episode import EpisodeResult, run_episode, single_turn
from services.core.protocol.evidence import Evidence, Examine, examiner
from services.core.protocol.ports import Policy
from services.core.protocol.transcript import Item, Transcript
from services.core.rivals import FITTED, RivalSpec
from services.core.scoring.scorer import agree
from services.core.states import CandidateKind
from services.storage.records import ClaimedEpisode, Float32
from worker.calls import MeteredCalls
from worker.leases import Lease
from worker.reading import Recorder, encode_of, is_learnt_from, labelling, plainly
from worker.runtime import Runtime

# Whose answers are hardly ever word for word the same, so that replies are compared by what they are about.
FREE_ANSWERS = frozenset({ScorerKind.PROGRAM, ScorerKind.JUDGE})


def play(
    runtime: Runtime, lease: Lease, campaign: Campaign, calls: MeteredCalls
) -> tuple[EpisodeResult, Sequence[Float32]]:
    """Play the episode with the claim's seed; the attempt number has no influence on it.

    Returns:
        The conversation, and the states that something learns from.
    """
    claim = lease.claim
    problem = runtime.problem(claim.problem_id)
    rng = np.random.Generator(np.random.PCG64(claim.seed))
    examine = examining(runtime, problem, calls)
    size = len(campaign.pool)
    rival = rival_of(claim, campaign)
    if rival is not None and rival.kind not in FITTED:
        embed = embedding(runtime, claim, campaign, calls) if problem.scorer in FREE_ANSWERS else None
        scaffold = scaffold_of(rival, campaign, same_of(problem), embed=embed, examine=examine)
        return scaffold.play(Episode(problem.question, calls, campaign.protocol, size, rng, lease.check)), ()
    policy, protocol, states = acting(runtime, claim, campaign)
    read = labelling(runtime, claim, campaign)
    result = run_episode(problem.question, policy, calls, protocol, size, rng, check=lease.check, examine=examine)
    if read is not None:
        with calls.aside():
            states = read(result.transcript)
    return result, states


def rival_of(claim: ClaimedEpisode, campaign: Campaign) -> RivalSpec | None:
    """Return the rival that is the claim's candidate; None for a candidate of another kind."""
    if claim.candidate_kind is not CandidateKind.RIVAL:
        return None
    return campaign.evaluation.rivals[claim.candidate_index]


def acting(
    runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign
) -> tuple[Policy, ProtocolSpec, Sequence[Float32]]:
    """Return what acts in the claim's candidate, under which protocol, and the states to keep, which it may add to."""
    kind, protocol = claim.candidate_kind, campaign.protocol
    if kind is CandidateKind.SINGLE:
        return SinglePolicy(claim.candidate_index), single_turn(protocol), ()
    if kind is CandidateKind.RANDOM:
        return RandomPolicy(Layout.of_campaign(campaign)), protocol, ()
    if kind is CandidateKind.RIVAL:
        return routed(runtime, claim, campaign), single_turn(protocol), ()
    if kind is CandidateKind.SAMPLE or kind is CandidateKind.MEAN:
        encode = Recorder(encode_of(runtime, claim, campaign))
        explore = kind is CandidateKind.SAMPLE
        policy = HeadPolicy(runtime.theta(claim), Layout.of_campaign(campaign), encode, explore=explore)
        return policy, protocol, encode.states if is_learnt_from(claim, campaign) else ()
    assert_never(kind)


def routed(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> Policy:
    """Return a fitted rival with the parameters that its candidate was stored with."""
    spec, agents = campaign.evaluation.rivals[claim.candidate_index], Layout.of_campaign(campaign).agents
    fitted = router(spec, runtime.theta(claim), len(agents), campaign.hidden_size)
    return RoutedPolicy(fitted, reading_alone(runtime, claim, campaign), agents)


def embedding(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign, calls: MeteredCalls) -> Embed:
    """Return what embeds a reply as the state the campaign's encoder reads it in; its time is not the episode's."""

    def embed(reply: str) -> Float32:
        with calls.aside():
            return reading_alone(runtime, claim, campaign)(reply)

    return embed


def reading_alone(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> Callable[[str], Float32]:
    """Return what reads one text as labelled questions are read: alone, by the encoder before any search."""
    return lambda text: plainly(encode_of(runtime, claim, campaign), campaign)(Transcript(text))


def same_of(problem: Problem) -> Same:
    """Return the problem's own comparison of answers."""
    return lambda a, b: agree(problem.scorer, a, b)


def examining(runtime: Runtime, problem: Problem, calls: MeteredCalls) -> Examine:
    """Return what finds evidence on an answer, once for each; the time it takes is not the episode's."""
    examine = cache(examiner(problem, runtime.graders.programs))

    def aside(work: Item) -> Evidence | None:
        with calls.aside():
            return examine(work)

    return aside
