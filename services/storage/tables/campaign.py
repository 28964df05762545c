"""campaign and problem: what was asked for, and what may be spent on it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from services.core.problem import ScorerKind, Split
from services.core.states import CampaignState
from services.storage.tables.naming import (
    METADATA,
    big,
    identity,
    json_object,
    moment,
    one_of,
    real,
    reference,
    rule,
    usd,
    whole,
    words,
)

__all__ = ["CampaignTable", "ProblemTable"]


class CampaignTable(SQLModel, table=True):
    """Budget columns come in threes: charged is real, reserved is held for open calls, overrun is what providers
    billed beyond a call's reservation. A limit can be passed by overruns only, and those stop the campaign.
    """

    metadata = METADATA
    __tablename__: ClassVar[str] = "campaign"
    __table_args__ = (
        UniqueConstraint("name"),
        one_of("state", CampaignState),
        rule("stop_reason", "(stop_reason is not null) = (state not in ('submitted', 'running'))"),
        rule("ended", "(ended_at is not null) = (state in ('completed', 'failed', 'cancelled'))"),
        rule("running_since", "(running_since is not null) = (state = 'running')"),
        rule("fork", "(forked_from_id is null) = (forked_from_generation is null)"),
        rule("dimension", "dimension > 0"),
        rule("max_attempts", "max_attempts > 0"),
        rule("weight", "weight > 0 and weight < 'infinity'"),
        rule("episodes", "episodes_reserved between 0 and episode_budget"),
        rule("calls", "calls_started <= call_budget"),
        rule("tokens", "tokens_charged + tokens_reserved - tokens_overrun <= token_budget"),
        rule("usd", "usd_charged + usd_reserved - usd_overrun <= usd_budget"),
        rule("tokens_positive", "tokens_charged >= 0 and tokens_reserved >= 0 and tokens_overrun >= 0"),
        rule("usd_positive", "usd_charged >= 0 and usd_reserved >= 0 and usd_overrun >= 0"),
        rule("calls_positive", "calls_started >= 0 and running_seconds >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    name: str = Field(sa_column=words())
    state: str = Field(sa_column=words())
    spec: dict[str, Any] = Field(sa_column=json_object())
    spec_sha256: str = Field(sa_column=words())
    seed: int = Field(sa_column=big())
    dimension: int = Field(sa_column=whole())
    versions: dict[str, Any] = Field(sa_column=json_object())
    reading: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
    problems_sha256: str | None = Field(sa_column=words(nullable=True))
    forked_from_id: int | None = Field(sa_column=reference("campaign.id", nullable=True))
    forked_from_generation: int | None = Field(sa_column=whole(nullable=True))
    max_attempts: int = Field(sa_column=whole())
    episode_budget: int = Field(sa_column=whole())
    token_budget: int | None = Field(sa_column=big(nullable=True))
    usd_budget: Decimal | None = Field(sa_column=usd(nullable=True))
    wall_clock_budget_seconds: float | None = Field(sa_column=real(nullable=True))
    call_budget: int | None = Field(sa_column=big(nullable=True))
    weight: float = Field(sa_column=real(default=1))
    episodes_reserved: int = Field(sa_column=whole(default=0))
    calls_started: int = Field(sa_column=big(default=0))
    tokens_charged: int = Field(sa_column=big(default=0))
    tokens_reserved: int = Field(sa_column=big(default=0))
    tokens_overrun: int = Field(sa_column=big(default=0))
    usd_charged: Decimal = Field(sa_column=usd(default=0))
    usd_reserved: Decimal = Field(sa_column=usd(default=0))
    usd_overrun: Decimal = Field(sa_column=usd(default=0))
    stop_reason: str | None = Field(sa_column=words(nullable=True))
    running_seconds: float = Field(sa_column=real(default=0))
    running_since: datetime | None = Field(sa_column=moment(nullable=True))
    created_at: datetime = Field(sa_column=moment(now=True))
    started_at: datetime | None = Field(sa_column=moment(nullable=True))
    ended_at: datetime | None = Field(sa_column=moment(nullable=True))


class ProblemTable(SQLModel, table=True):
    metadata = METADATA
    __tablename__: ClassVar[str] = "problem"
    __table_args__ = (
        UniqueConstraint("campaign_id", "key"),
        UniqueConstraint("campaign_id", "split", "position"),
        one_of("split", Split),
        one_of("scorer", ScorerKind),
        rule("scores", "(scores is not null) = (scorer = 'recorded')"),
        rule("answer", "scorer = 'judge' or (answer is not null) = (scorer not in ('recorded', 'program'))"),
        rule("checks", "(checks is not null) = (scorer in ('choice', 'program'))"),
        rule("position", "position >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    key: str = Field(sa_column=words())
    split: str = Field(sa_column=words())
    position: int = Field(sa_column=whole())
    family: str = Field(sa_column=words())
    question: str = Field(sa_column=words())
    scorer: str = Field(sa_column=words())
    answer: str | None = Field(sa_column=words(nullable=True))
    scores: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
    checks: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
