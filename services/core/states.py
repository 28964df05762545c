"""The state machines, each with its transitions beside it. The database repeats them as CHECK constraints."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class CampaignState(StrEnum):
    SUBMITTED = "submitted"
    RUNNING = "running"
    PAUSED = "paused"
    BUDGET_EXHAUSTED = "budget_exhausted"  # goes on by `resume` once more is granted
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class GenerationState(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    CANCELLED = "cancelled"


class GenerationKind(StrEnum):
    """A training generation feeds the search, the others only measure."""

    LABELLING = "labelling"  # every model on its own on training problems, before the search
    TRAINING = "training"
    VALIDATION = "validation"  # the last mean on the validation problems
    EVALUATION = "evaluation"  # the released mean and the baselines on held-out problems


class CandidateKind(StrEnum):
    """What acts in the candidate's episodes."""

    SAMPLE = "sample"  # a vector drawn by the search
    MEAN = "mean"  # the mean of the search distribution
    SINGLE = "single"  # one pool model, one Worker turn, no coordinator; `index` is its place in the pool
    RANDOM = "random"  # uniform agent and role at every turn
    RIVAL = "rival"  # what else is compared; `index` is its place in ``evaluation.rivals``


class Purpose(StrEnum):
    TRAINING = "training"
    VALIDATION = "validation"
    EVALUATION = "evaluation"


class EpisodeState(StrEnum):
    PENDING = "pending"  # the row is the outbox: not yet sent to the broker
    QUEUED = "queued"  # sent; the message may get lost, so it is sent again after a while
    RUNNING = "running"  # leased to one worker under one attempt number
    SCORED = "scored"
    FAILED = "failed"  # out of attempts, or permanently unscorable: no reward, never a zero
    CANCELLED = "cancelled"


class AttemptOutcome(StrEnum):
    RUNNING = "running"
    DONE = "done"  # its reward is the episode's
    FAILED = "failed"  # ended with an error of its own
    RETURNED = "returned"  # handed back by a stopping worker
    LOST = "lost"  # its lease expired


class CallState(StrEnum):
    OPEN = "open"  # reserved, the provider may be working
    SETTLED = "settled"  # cost known
    UNKNOWN = "unknown"  # nobody can say what it cost: booked at the reservation


class CoordinatorOrigin(StrEnum):
    """Where a released coordinator comes from."""

    SEARCH = "search"  # a completed campaign; each has one
    HAND = "hand"  # a mean of some campaign that a person released
    IMPORT = "import"  # a checkpoint folder


UNFINISHED = frozenset({EpisodeState.PENDING, EpisodeState.QUEUED, EpisodeState.RUNNING})

CAMPAIGN_TRANSITIONS: Mapping[CampaignState, frozenset[CampaignState]] = {
    CampaignState.SUBMITTED: frozenset(
        {CampaignState.RUNNING, CampaignState.PAUSED, CampaignState.FAILED, CampaignState.CANCELLED}
    ),
    CampaignState.RUNNING: frozenset(
        {
            CampaignState.PAUSED,
            CampaignState.BUDGET_EXHAUSTED,
            CampaignState.COMPLETED,
            CampaignState.FAILED,
            CampaignState.CANCELLED,
        }
    ),
    CampaignState.PAUSED: frozenset({CampaignState.RUNNING, CampaignState.FAILED, CampaignState.CANCELLED}),
    CampaignState.BUDGET_EXHAUSTED: frozenset(
        {CampaignState.RUNNING, CampaignState.PAUSED, CampaignState.FAILED, CampaignState.CANCELLED}
    ),
    CampaignState.COMPLETED: frozenset(),
    CampaignState.FAILED: frozenset(),
    CampaignState.CANCELLED: frozenset(),
}

EPISODE_TRANSITIONS: Mapping[EpisodeState, frozenset[EpisodeState]] = {
    EpisodeState.PENDING: frozenset({EpisodeState.QUEUED, EpisodeState.RUNNING, EpisodeState.CANCELLED}),
    EpisodeState.QUEUED: frozenset({EpisodeState.RUNNING, EpisodeState.PENDING, EpisodeState.CANCELLED}),
    EpisodeState.RUNNING: frozenset(
        {EpisodeState.SCORED, EpisodeState.FAILED, EpisodeState.PENDING, EpisodeState.CANCELLED}
    ),
    EpisodeState.SCORED: frozenset(),
    EpisodeState.FAILED: frozenset({EpisodeState.PENDING}),  # a person resumes the campaign
    EpisodeState.CANCELLED: frozenset(),
}
