"""What episodes ask of the database while they run; many of them are carried out together by ``batch``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from services.core.errors import TrinityError
from services.core.ids import CallId, CampaignId, EpisodeId
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.transcript import Item
from services.core.scoring.grade import Grade
from services.storage.records import ClaimedEpisode, Settlement


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


@dataclass(frozen=True)
class Settle:
    """Charge what a call really cost; the result is False when it was settled or booked before."""

    call_id: CallId
    campaign_id: CampaignId
    settlement: Settlement


@dataclass(frozen=True)
class Score:
    """Settle an episode with its grade; LeaseLost when the attempt is no longer this worker's.

    Attributes:
        claim: as the claim gave it.
        grade: the reward, in [0, 1], and why.
        termination: why the episode ended.
        turns: the transcript's items.
    """

    claim: ClaimedEpisode
    grade: Grade
    termination: str
    turns: Sequence[Item]


Operation = Claim | Reserve | Settle | Score
Result = ClaimedEpisode | CallId | bool | TrinityError | None
