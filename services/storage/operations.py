"""What episodes ask of the database while they run; many of them are carried out together by ``batch``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from services.core.campaign import UNLIMITED, ModelLimits
from services.core.errors import TrinityError
from services.core.ids import CallId, CampaignId, EpisodeId
from services.core.limits.meter import Meter
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.transcript import Item
from services.core.scoring.grade import Grade
from services.storage.records import Answer, ClaimedEpisode, Float32, Settlement


@dataclass(frozen=True)
class Claim:
    """Take an episode under a new attempt number; the result is a ClaimedEpisode, or None when it may not run now.

    Attributes:
        episode_id: which.
        token: unique to this claim; asking again with it returns the same claim, should the first answer be lost.
        worker: who claims, for people.
        lease_seconds: the lease from now.
    """

    episode_id: EpisodeId
    token: str
    worker: str
    lease_seconds: float


@dataclass(frozen=True)
class Reserve:
    """Reserve a model call's largest cost and extend the lease; the result is a CallId, and the call may start.

    Asking again for the same turn and try returns the same call. See ``ledger.reserve_call`` for the errors.

    Attributes:
        claim: the attempt that calls.
        turn: 1-based turn.
        try_: 1-based try within the turn; each try reserves anew.
        agent: place of the model in the pool.
        model: the campaign's name for it.
        role: what it acts as.
        tokens: most tokens it can use, prompt and completion.
        usd: most it can cost.
        lease_seconds: the lease from now.
        meter: what the provider counts and limits together; None for nothing known.
        limits: those of the meter; a call that has to wait for one gets Throttled.
        asked: digest of the messages.
        answer_key: under which the reply is going to be kept, if it is.
    """

    claim: ClaimedEpisode
    turn: int
    try_: int
    agent: int
    model: str
    role: Role | CallRole
    tokens: int
    usd: Decimal
    lease_seconds: float
    meter: Meter | None = None
    limits: ModelLimits = UNLIMITED
    asked: str | None = None
    answer_key: str | None = None


@dataclass(frozen=True)
class Settle:
    """Charge what a call really cost; the result is False when it was settled or booked before.

    Attributes:
        meter: as the call was reserved.
        answered: whether the provider answered at all, be it with a refusal; its breaker counts those that it did not.
            None when nobody can say.
        rest_seconds: how long the provider asks to be left in peace, by everybody; None when it does not.
    """

    call_id: CallId
    campaign_id: CampaignId
    settlement: Settlement
    meter: Meter | None = None
    answered: bool | None = True
    rest_seconds: float | None = None


@dataclass(frozen=True)
class Recall:
    """Take a kept reply instead of calling; the result is an Answer, or None when there is none or nothing may run.

    It is noted as a call that was never made: try 1 of its turn, without tokens and cost. The lease is extended.
    """

    claim: ClaimedEpisode
    turn: int
    agent: int
    model: str
    role: Role | CallRole
    asked: str
    answer_key: str
    lease_seconds: float
    meter: Meter | None = None


@dataclass(frozen=True)
class Keep:
    """Keep a reply; the result is the Answer that is kept under its key, which is the first one."""

    campaign_id: CampaignId
    key: str
    model: str
    answer: Answer


@dataclass(frozen=True)
class Score:
    """Settle an episode with its grade; LeaseLost when the attempt is no longer this worker's.

    Attributes:
        claim: as the claim gave it.
        grade: the reward, in [0, 1], and why.
        termination: why the episode ended.
        turns: the transcript's items.
        states: what was read before turn 1, 2, ... where something learns from it.
    """

    claim: ClaimedEpisode
    grade: Grade
    termination: str
    turns: Sequence[Item]
    states: Sequence[Float32] = ()


Operation = Claim | Reserve | Settle | Score | Recall | Keep
Result = ClaimedEpisode | CallId | Answer | bool | TrinityError | None
