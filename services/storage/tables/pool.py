"""meter and answer: what workers share about models, and the replies that may count again."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from sqlalchemy import Boolean, Column, Index, Text, text
from sqlmodel import Field, SQLModel

from services.storage.tables.naming import METADATA, big, identity, moment, reference, rule, whole, words


class MeterTable(SQLModel, table=True):
    """A model behind a key: the row to lock when its limits are counted, and its breaker. None means healthy.

    ``rest_until`` is when the provider, which asked for a pause, may be asked again.
    """

    metadata = METADATA
    __tablename__: ClassVar[str] = "meter"
    __table_args__ = (
        rule("breaker", "failures >= 0 and openings >= 0 and (openings = 0) = (open_until is null)"),
        rule("probe", "probe_until is null or open_until is not null"),
    )

    key: str = Field(sa_column=Column(Text, primary_key=True))
    label: str = Field(sa_column=words())
    failures: int = Field(sa_column=whole(default=0))
    openings: int = Field(sa_column=whole(default=0))
    open_until: datetime | None = Field(sa_column=moment(nullable=True))
    probe_until: datetime | None = Field(sa_column=moment(nullable=True))
    rest_until: datetime | None = Field(sa_column=moment(nullable=True))


class AnswerTable(SQLModel, table=True):
    """A reply, kept once; ``campaign_id`` is the one that paid for it."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "answer"
    __table_args__ = (
        Index("ix_answer_campaign_id", "campaign_id"),
        rule("used", "prompt_tokens >= 0 and completion_tokens >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    key: str = Field(sa_column=Column(Text, nullable=False, unique=True))
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    model: str = Field(sa_column=words())
    output: str = Field(sa_column=words())
    finish_reason: str = Field(sa_column=words())
    prompt_tokens: int = Field(sa_column=big())
    completion_tokens: int = Field(sa_column=big())
    estimated: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    created_at: datetime = Field(sa_column=moment(now=True))
