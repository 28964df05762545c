"""What the storage functions take and return: frozen records of plain values, no rows, no sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from services.core.campaign import BudgetLimits
from services.core.events import EventType
from services.core.ids import CampaignId, CandidateId, EpisodeId, EventId, GenerationId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.verdict import VerdictSource
from services.core.states import (
    AttemptOutcome,
    CampaignState,
    CandidateKind,
    CoordinatorOrigin,
    EpisodeState,
    GenerationKind,
    GenerationState,
    Purpose,
)

Float64 = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Fork:
    """Where a campaign branched off: the other campaign and the last of its generations that is shared."""

    campaign_id: CampaignId
    generation: int


@dataclass(frozen=True)
class NewCampaign:
    """A campaign about to be submitted; ``spec`` is the resolved specification, ``dimension`` the size of theta."""

    name: str
    spec: Json
    spec_sha256: str
    seed: int
    dimension: int
    versions: Mapping[str, str]
    budget: BudgetLimits
    max_attempts: int = 5
    weight: float = 1.0
    forked_from: Fork | None = None


@dataclass(frozen=True)
class Spend:
    """Running totals of a campaign. ``charged`` is real, ``reserved`` is held for calls under way.

    ``*_overrun`` is the part of the charges by which providers billed more than was reserved for the call.
    """

    episodes_reserved: int
    calls_started: int
    tokens_charged: int
    tokens_reserved: int
    tokens_overrun: int
    usd_charged: Decimal
    usd_reserved: Decimal
    usd_overrun: Decimal


@dataclass(frozen=True)
class CampaignRecord:
    """One campaign. ``running_seconds`` counts the time spent in state running, pauses excluded, up to now."""

    id: CampaignId
    name: str
    state: CampaignState
    spec: Json
    spec_sha256: str
    seed: int
    dimension: int
    versions: Mapping[str, str]
    forked_from: Fork | None
    budget: BudgetLimits
    max_attempts: int
    weight: float
    spend: Spend
    running_seconds: float
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class NewCandidate:
    """Something that will act in episodes; ``theta`` (any float array) is stored as float32, None without a vector."""

    kind: CandidateKind
    index: int
    theta: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class NewEpisode:
    """One episode of a generation about to open; ``candidate`` is a position in the list of its candidates."""

    candidate: int
    purpose: Purpose
    replicate: int
    problem_id: int
    seed: int


@dataclass(frozen=True)
class GenerationRecord:
    """A full checkpoint of the search at the opening, and what came of it once closed.

    Attributes:
        epoch: the leadership under which it was opened.
        mean: float64, (dimension,).
        checksum: of the search state at the opening, before its ask.
        fitness: float64, one entry per sample candidate in index order; present exactly for closed training ones.
        summary: figures the scheduler wants to keep, present once closed.
    """

    id: GenerationId
    campaign_id: CampaignId
    number: int
    kind: GenerationKind
    state: GenerationState
    epoch: int
    mean: Float64
    sigma: float
    checksum: str
    fitness: Float64 | None
    summary: Json | None
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True)
class Outcome:
    """One episode of a generation as the closing step needs it; ``reward`` is present exactly when it is scored."""

    candidate_kind: CandidateKind
    candidate_index: int
    purpose: Purpose
    replicate: int
    problem_id: int
    state: EpisodeState
    reward: float | None
    turns: int | None


@dataclass(frozen=True)
class CandidateScore:
    """Fitness (mean reward; of samples with bonuses and costs) and rank (1 is best; None for others) at the closing."""

    kind: CandidateKind
    index: int
    fitness: float
    rank: int | None = None


@dataclass(frozen=True)
class ClaimedEpisode:
    """A lease on one attempt of an episode and everything a worker needs to run it.

    ``owner`` is unique to this claim. Together with ``attempt`` it is the fence: every later write repeats both.
    """

    episode_id: EpisodeId
    attempt: int
    owner: str
    campaign_id: CampaignId
    spec_sha256: str
    generation_id: GenerationId
    generation_number: int
    candidate_id: CandidateId
    candidate_kind: CandidateKind
    candidate_index: int
    purpose: Purpose
    replicate: int
    problem_id: int
    seed: int
    label: str


@dataclass(frozen=True)
class Publishable:
    """An episode that the broker should hear about; ``attempt`` is the number of attempts so far."""

    episode_id: EpisodeId
    attempt: int
    purpose: Purpose
    label: str


@dataclass(frozen=True)
class Settlement:
    """How a model call ended.

    Attributes:
        usage: tokens as counted or bounded; None when there is no reply.
        cost: exact USD; ``Decimal(0)`` for a failure known to be free; None when unknown (the provider may have billed
            it): the call is then booked at its reservation, tokens and USD, and marked estimated.
        error_kind: class name of the error, or the fault of a reply; None for a reply that can be read.
    """

    usage: Usage | None
    cost: Decimal | None
    latency_seconds: float
    finish_reason: str | None = None
    error_kind: str | None = None


@dataclass(frozen=True)
class Answer:
    """A kept reply: its text, why it ended, and what it once used."""

    text: str
    finish_reason: str
    usage: Usage


@dataclass(frozen=True)
class CallTotals:
    """Calls of one model for one purpose, apart by how their attempt ended: only ``done`` ones led to a reward.

    ``hits`` are not among the calls: a kept reply answered them.
    """

    model: str
    role: CallRole
    outcome: AttemptOutcome
    calls: int
    errors: int
    tokens: int
    usd: Decimal
    hits: int = 0


@dataclass(frozen=True)
class OutcomeCount:
    """Episodes of one purpose with one outcome: why the reward was what it was, or the failure if there is none."""

    purpose: Purpose
    outcome: str
    failed: bool
    episodes: int


@dataclass(frozen=True)
class VerdictCount:
    """Verdicts of one source; ``agent`` is the model's place, and ``accepted_reward`` the mean of what it accepted."""

    source: VerdictSource
    agent: int | None
    accepts: int
    revises: int
    unclear: int
    accepted_reward: float | None


@dataclass(frozen=True)
class EventRecord:
    id: EventId
    campaign_id: CampaignId
    type: EventType
    payload: Json
    created_at: datetime
    processed_at: datetime | None
    failures: int


@dataclass(frozen=True)
class NewCoordinator:
    """A trained coordinator about to be released; ``theta`` is stored as float32 and can never change again.

    Attributes:
        campaign_id: whose search it comes from; None for an imported one.
        generation: the one that opened with this mean.
        reading: fingerprint of its encoder, of an imported one; of others the campaign's is taken.
        description: what its checkpoint says, of an imported one.
    """

    campaign_id: CampaignId | None
    name: str
    generation: int
    theta: npt.NDArray[Any]
    layout: Json
    encoder: Json
    pool: Json
    validation: float | None = None
    reading: Json | None = None
    description: Json | None = None


@dataclass(frozen=True)
class CoordinatorRecord:
    id: int
    campaign_id: CampaignId | None
    name: str
    generation: int
    theta: Float32
    layout: Json
    encoder: Json
    pool: Json
    validation: float | None
    released_at: datetime
    origin: CoordinatorOrigin
    reading: Json | None
    description: Json | None


@dataclass(frozen=True)
class CampaignRow:
    """One line of ``campaign list``."""

    id: CampaignId
    name: str
    state: CampaignState
    stop_reason: str | None
    generation: int | None
    episodes_scored: int
    episode_budget: int
    calls_started: int
    call_budget: int | None
    weight: float
    usd_charged: Decimal
    created_at: datetime


@dataclass(frozen=True)
class Progress:
    """The newest generation of a campaign at this moment; counts are of that generation's episodes by state."""

    campaign: CampaignRecord
    generation: int | None
    generation_kind: GenerationKind | None
    generation_state: GenerationState | None
    episodes: Mapping[EpisodeState, int]
    agents: Mapping[int, int]
    roles: Mapping[Role, int]
    failures: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.episodes.values())

    @property
    def done(self) -> int:
        return self.episodes.get(EpisodeState.SCORED, 0)


@dataclass(frozen=True)
class CurvePoint:
    """One closed training generation. Shares count the turns of its sample candidates' scored episodes."""

    generation: int
    sigma: float
    mean_fitness: float
    best_fitness: float
    validation: float | None
    agent_share: Mapping[int, float]
    role_share: Mapping[Role, float]
    mean_turns: float | None
    usd: Decimal
    closed_at: datetime
