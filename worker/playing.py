"""What acts in an episode, by the kind of its candidate, and the conversation that comes of it."""

from __future__ import annotations

from functools import cache
from typing import assert_never

import numpy as np

from services.core.baselines.scaffold import Same
from services.core.baselines.scaffolds import scaffold_of
from services.core.baselines.smoothie import Embed
from services.core.campaign import Campaign, ProtocolSpec
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy, RandomPolicy, SinglePolicy
from services.core.problem import Problem, ScorerKind
from services.core.protocol.episode import EpisodeResult, run_episode, single_turn
from services.core.protocol.evidence import Evidence, Examine, examiner
from services.core.protocol.ports import Policy, StateEncoder
from services.core.protocol.transcript import Item, Transcript
from services.core.rivals import FITTED
from services.core.scoring.scorer import agree
from services.core.states import CandidateKind
from services.storage.records import ClaimedEpisode
from worker.calls import MeteredCalls
from worker.leases import Lease
from worker.runtime import Runtime

# Whose answers are hardly ever word for word the same, so that replies are compared by what they are about.
FREE_ANSWERS = frozenset({ScorerKind.PROGRAM, ScorerKind.JUDGE})


def play(runtime: Runtime, lease: Lease, campaign: Campaign, calls: MeteredCalls) -> EpisodeResult:
    """Play the episode with the claim's seed; the attempt number has no influence on it."""
    claim = lease.claim
    problem = runtime.problem(claim.problem_id)
    rng = np.random.Generator(np.random.PCG64(claim.seed))
    examine = examining(runtime, problem, calls)
    if claim.candidate_kind is CandidateKind.RIVAL:
        spec = campaign.evaluation.rivals[claim.candidate_index]
        if spec.kind not in FITTED:
            embed = embedding(runtime, claim, campaign, calls) if problem.scorer in FREE_ANSWERS else None
            scaffold = scaffold_of(spec, campaign, same_of(problem), embed=embed, examine=examine)
            size = len(campaign.pool)
            return scaffold.play(problem.question, calls, campaign.protocol, size, rng, lease.check)
    policy, protocol = acting(runtime, claim, campaign)
    return run_episode(
        problem.question, policy, calls, protocol, len(campaign.pool), rng, check=lease.check, examine=examine
    )


def acting(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> tuple[Policy, ProtocolSpec]:
    """Return the policy of the claim's candidate, and under which protocol it acts."""
    kind, protocol = claim.candidate_kind, campaign.protocol
    if kind is CandidateKind.SINGLE:
        return SinglePolicy(claim.candidate_index), single_turn(protocol)
    if kind is CandidateKind.RANDOM:
        return RandomPolicy(Layout.of_campaign(campaign)), protocol
    if kind is CandidateKind.RIVAL:
        raise SpecError("evaluation.rivals", campaign.evaluation.rivals[claim.candidate_index].kind, "a known rival")
    if kind is CandidateKind.SAMPLE or kind is CandidateKind.MEAN:
        explore = kind is CandidateKind.SAMPLE
        encode = reading(runtime, claim, campaign).encode
        return HeadPolicy(runtime.theta(claim), Layout.of_campaign(campaign), encode, explore=explore), protocol
    assert_never(kind)


def reading(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> StateEncoder:
    """Return the campaign's encoder; raise SpecError when its states have another width than the campaign's."""
    encoder = runtime.encoder(claim)
    if encoder.hidden_size != campaign.hidden_size:
        raise SpecError("encoder.hidden_size", campaign.hidden_size, f"the model's {encoder.hidden_size}")
    return encoder


def embedding(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign, calls: MeteredCalls) -> Embed:
    """Return what embeds a reply as the state in which the campaign's encoder reads it; its time is not the episode's.

    The states are those before any search: no singular value is changed.
    """
    offsets = np.zeros(Layout.of_campaign(campaign).svf, dtype=np.float32)

    def embed(reply: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        with calls.aside():
            return reading(runtime, claim, campaign).encode(Transcript(reply), offsets)

    return embed


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
