"""event, leader and coordinator: what happened, who schedules, and what came out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Column, Index, Integer, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from services.core.states import CoordinatorOrigin
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
    whole,
    words,
)


class EventTable(SQLModel, table=True):
    metadata = METADATA
    __tablename__: ClassVar[str] = "event"
    __table_args__ = (
        # What the scheduler still has to act on, oldest first; the history behind it does not slow it down.
        Index("ix_event_unprocessed", "id", postgresql_where=text("processed_at is null")),
        Index("ix_event_campaign_id_id", "campaign_id", "id"),
        rule("failures", "failures >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    type: str = Field(sa_column=words())
    payload: dict[str, Any] = Field(sa_column=json_object())
    created_at: datetime = Field(sa_column=moment(now=True))
    processed_at: datetime | None = Field(sa_column=moment(nullable=True))
    failures: int = Field(sa_column=whole(default=0))
    next_attempt_at: datetime = Field(sa_column=moment(now=True))
    error: str | None = Field(sa_column=words(nullable=True))


class LeaderTable(SQLModel, table=True):
    """One row. Every scheduler that takes office raises the epoch; every write of a scheduler reads it again."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "leader"
    __table_args__ = (rule("single", "id = 1"), rule("epoch", "epoch >= 0"))

    id: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    epoch: int = Field(sa_column=big())
    beat_at: datetime = Field(sa_column=moment(now=True))
    holder: str | None = Field(sa_column=words(nullable=True))


class CoordinatorTable(SQLModel, table=True):
    """A released coordinator; a trigger refuses any change. ``description`` is the checkpoint's of an imported one."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "coordinator"
    __table_args__ = (
        UniqueConstraint("name"),
        Index("uq_coordinator_search", "campaign_id", unique=True, postgresql_where=text("origin = 'search'")),
        one_of("origin", CoordinatorOrigin),
        rule("campaign", "(campaign_id is null) = (origin = 'import')"),
        rule("description", "(description is not null) = (origin = 'import')"),
        rule("theta", "octet_length(theta) > 0 and octet_length(theta) % 4 = 0"),
        rule("generation", "generation >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int | None = Field(sa_column=reference("campaign.id", nullable=True))
    name: str = Field(sa_column=words())
    generation: int = Field(sa_column=whole())
    theta: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    layout: dict[str, Any] = Field(sa_column=json_object())
    encoder: dict[str, Any] = Field(sa_column=json_object())
    pool: dict[str, Any] = Field(sa_column=json_object())
    validation: float | None = Field(sa_column=real(nullable=True))
    released_at: datetime = Field(sa_column=moment(now=True))
    origin: str = Field(sa_column=words(default=CoordinatorOrigin.SEARCH))
    reading: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
    description: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
