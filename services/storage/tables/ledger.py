"""llm_call and ledger_entry: every model call, and every movement of a campaign's budget."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from services.core.protocol.roles import CallRole
from services.core.states import CallState
from services.storage.tables.naming import (
    METADATA,
    big,
    identity,
    moment,
    one_of,
    real,
    reference,
    rule,
    usd,
    whole,
    words,
)


class EntryKind(StrEnum):
    """A call reserves before it starts; when it ends the reservation is released and the real amount charged."""

    RESERVATION = "reservation"
    CHARGE = "charge"
    RELEASE = "release"


class LlmCallTable(SQLModel, table=True):
    """A kept reply that answered a call used no tokens; ``kept_*`` are those that it once took."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "llm_call"
    __table_args__ = (
        UniqueConstraint("episode_id", "attempt", "turn", "try"),
        ForeignKeyConstraint(["episode_id", "attempt"], ["attempt.episode_id", "attempt.number"]),
        Index("ix_llm_call_campaign_id", "campaign_id"),
        # The sweep looks for open calls that nobody will settle; open ones are few.
        Index("ix_llm_call_open", "episode_id", "attempt", postgresql_where=text("state = 'open'")),
        # What counts against a model's limits is what was allowed lately.
        Index("ix_llm_call_granted", "meter", "granted_at", postgresql_where=text("granted_at is not null")),
        one_of("state", CallState),
        one_of("role", CallRole),
        rule("numbers", "turn > 0 and try > 0 and agent >= 0"),
        rule("reserved", "reserved_usd >= 0 and reserved_tokens >= 0"),
        rule("used", "prompt_tokens >= 0 and completion_tokens >= 0 and cost_usd >= 0 and latency_seconds >= 0"),
        rule("settled", "(state = 'open') = (settled_at is null)"),
        rule("cost", "(state = 'open') = (cost_usd is null)"),
        rule(
            "kept",
            "(kept_prompt_tokens is null) = (kept_completion_tokens is null)"
            " and (kept_prompt_tokens is null or cache_hit and kept_prompt_tokens >= 0"
            " and kept_completion_tokens >= 0)",
        ),
        rule("hit", "not cache_hit or state = 'settled' and reserved_usd = 0 and reserved_tokens = 0 and cost_usd = 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    episode_id: int = Field(sa_column=big())
    attempt: int = Field(sa_column=whole())
    turn: int = Field(sa_column=whole())
    try_: int = Field(sa_column=Column("try", whole().type, nullable=False))
    agent: int = Field(sa_column=whole())
    model: str = Field(sa_column=words())
    role: str = Field(sa_column=words())
    state: str = Field(sa_column=words())
    reserved_usd: Decimal = Field(sa_column=usd())
    reserved_tokens: int = Field(sa_column=big())
    prompt_tokens: int | None = Field(sa_column=big(nullable=True))
    completion_tokens: int | None = Field(sa_column=big(nullable=True))
    estimated: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    cost_usd: Decimal | None = Field(sa_column=usd(nullable=True))
    latency_seconds: float | None = Field(sa_column=real(nullable=True))
    finish_reason: str | None = Field(sa_column=words(nullable=True))
    error_kind: str | None = Field(sa_column=words(nullable=True))
    cache_hit: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    kept_prompt_tokens: int | None = Field(sa_column=big(nullable=True))
    kept_completion_tokens: int | None = Field(sa_column=big(nullable=True))
    meter: str | None = Field(sa_column=words(nullable=True))
    granted_at: datetime | None = Field(sa_column=moment(nullable=True))
    asked: str | None = Field(sa_column=words(nullable=True))
    answer_key: str | None = Field(sa_column=words(nullable=True))
    opened_at: datetime = Field(sa_column=moment(now=True))
    settled_at: datetime | None = Field(sa_column=moment(nullable=True))


class LedgerEntryTable(SQLModel, table=True):
    """Append-only by trigger. Campaign totals: charged = charges, reserved = reservations less releases."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "ledger_entry"
    __table_args__ = (
        UniqueConstraint("llm_call_id", "kind"),
        Index("ix_ledger_entry_campaign_id", "campaign_id"),
        one_of("kind", EntryKind),
        rule("amount", "tokens >= 0 and usd >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    llm_call_id: int = Field(sa_column=reference("llm_call.id"))
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    kind: str = Field(sa_column=words())
    tokens: int = Field(sa_column=big())
    usd: Decimal = Field(sa_column=usd())
    at: datetime = Field(sa_column=moment(now=True))
