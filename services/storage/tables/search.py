"""generation and candidate: the checkpoints of the search and what it tries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from services.core.states import CandidateKind, GenerationKind, GenerationState
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


class GenerationTable(SQLModel, table=True):
    metadata = METADATA
    __tablename__: ClassVar[str] = "generation"
    __table_args__ = (
        UniqueConstraint("campaign_id", "number"),
        # The barrier: a second scheduler cannot open the next generation beside an open one.
        Index("uq_generation_open", "campaign_id", unique=True, postgresql_where=text("state = 'open'")),
        one_of("kind", GenerationKind),
        one_of("state", GenerationState),
        rule("number", "number >= 0"),
        rule("mean", "octet_length(mean) > 0 and octet_length(mean) % 8 = 0"),
        rule("sigma", "sigma > 0"),
        rule("fitness", "(fitness is not null) = (kind = 'training' and state = 'closed')"),
        rule("fitness_length", "octet_length(fitness) > 0 and octet_length(fitness) % 8 = 0"),
        rule("memory", "octet_length(memory) > 0 and octet_length(memory) % 8 = 0"),
        rule("closed", "(closed_at is null) = (state = 'open')"),
        rule("summary", "(summary is not null) = (state = 'closed')"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    number: int = Field(sa_column=whole())
    kind: str = Field(sa_column=words())
    state: str = Field(sa_column=words())
    epoch: int = Field(sa_column=big())
    mean: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sigma: float = Field(sa_column=real())
    checksum: str = Field(sa_column=words())
    fitness: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    memory: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    summary: dict[str, Any] | None = Field(sa_column=json_object(nullable=True))
    opened_at: datetime = Field(sa_column=moment(now=True))
    closed_at: datetime | None = Field(sa_column=moment(nullable=True))


class CandidateTable(SQLModel, table=True):
    metadata = METADATA
    __tablename__: ClassVar[str] = "candidate"
    __table_args__ = (
        UniqueConstraint("generation_id", "kind", "index"),
        one_of("kind", CandidateKind),
        rule("index", "index >= 0"),
        rule("theta", "octet_length(theta) > 0 and octet_length(theta) % 4 = 0"),
        rule("vectorless", "theta is null or kind in ('sample', 'mean', 'rival')"),
        rule("rank", "rank >= 0"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    generation_id: int = Field(sa_column=reference("generation.id"))
    kind: str = Field(sa_column=words())
    index: int = Field(sa_column=whole())
    theta: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    fitness: float | None = Field(sa_column=real(nullable=True))
    rank: int | None = Field(sa_column=whole(nullable=True))
