"""episode, attempt and turn: the work, who did it when, and what was said."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    REAL,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.verdict import Verdict, VerdictSource
from services.core.states import AttemptOutcome, EpisodeState, Purpose
from services.storage.tables.naming import (
    METADATA,
    big,
    identity,
    moment,
    one_of,
    real,
    reference,
    rule,
    whole,
    words,
)


class EpisodeTable(SQLModel, table=True):
    """The queue itself: the row is job, outbox, lease and result in one."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "episode"
    __table_args__ = (
        UniqueConstraint("candidate_id", "purpose", "replicate"),
        # The outbox, the count in flight and the sweep of leases read unfinished rows only, few however long the
        # history. The expiry is left out on purpose: a heartbeat then changes no index.
        Index(
            "ix_episode_unfinished",
            "campaign_id",
            "state",
            "id",
            postgresql_where=text("state in ('pending', 'queued', 'running')"),
        ),
        # The barrier and the counts by state.
        Index("ix_episode_generation_id_state", "generation_id", "state"),
        one_of("purpose", Purpose),
        one_of("state", EpisodeState),
        rule("replicate", "replicate >= 0"),
        rule("attempt", "attempt >= 0 and attempt_floor between 0 and attempt"),
        rule("lease", "(state = 'running') = (lease_owner is not null and lease_expires_at is not null)"),
        rule("lease_pair", "(lease_owner is null) = (lease_expires_at is null)"),
        rule("reward", "(state = 'scored') = (reward is not null)"),
        rule("reward_range", "reward between 0 and 1"),
        rule(
            "scored", "(state = 'scored') = (scored_at is not null and termination is not null and turns is not null)"
        ),
        rule("outcome", "outcome is null or state = 'scored'"),
        rule("failure", "(state = 'failed') = (failure_kind is not null)"),
    )

    id: int | None = Field(default=None, sa_column=identity())
    campaign_id: int = Field(sa_column=reference("campaign.id"))
    generation_id: int = Field(sa_column=reference("generation.id"))
    candidate_id: int = Field(sa_column=reference("candidate.id"))
    purpose: str = Field(sa_column=words())
    replicate: int = Field(sa_column=whole())
    problem_id: int = Field(sa_column=reference("problem.id"))
    seed: int = Field(sa_column=big())
    state: str = Field(sa_column=words())
    attempt: int = Field(sa_column=whole(default=0))
    attempt_floor: int = Field(sa_column=whole(default=0))
    available_at: datetime = Field(sa_column=moment(now=True))
    published_at: datetime | None = Field(sa_column=moment(nullable=True))
    lease_owner: str | None = Field(sa_column=words(nullable=True))
    lease_expires_at: datetime | None = Field(sa_column=moment(nullable=True))
    reward: float | None = Field(sa_column=real(nullable=True))
    outcome: str | None = Field(sa_column=words(nullable=True))
    outcome_detail: str | None = Field(sa_column=words(nullable=True))
    decided_by: str | None = Field(sa_column=words(nullable=True))
    termination: str | None = Field(sa_column=words(nullable=True))
    failure_kind: str | None = Field(sa_column=words(nullable=True))
    failure_detail: str | None = Field(sa_column=words(nullable=True))
    turns: int | None = Field(sa_column=whole(nullable=True))
    scored_at: datetime | None = Field(sa_column=moment(nullable=True))


class AttemptTable(SQLModel, table=True):
    metadata = METADATA
    __tablename__: ClassVar[str] = "attempt"
    __table_args__ = (
        PrimaryKeyConstraint("episode_id", "number"),
        # An episode is scored once: the database refuses a second success whatever the code does.
        Index("uq_attempt_done", "episode_id", unique=True, postgresql_where=text("outcome = 'done'")),
        one_of("outcome", AttemptOutcome),
        rule("number", "number > 0"),
        rule("ended", "(ended_at is null) = (outcome = 'running')"),
        rule("error", "error_kind is null or outcome not in ('running', 'done')"),
    )

    episode_id: int = Field(sa_column=reference("episode.id", primary_key=True))
    number: int = Field(sa_column=Column(Integer, primary_key=True))
    worker: str = Field(sa_column=words())
    outcome: str = Field(sa_column=words())
    started_at: datetime = Field(sa_column=moment(now=True))
    ended_at: datetime | None = Field(sa_column=moment(nullable=True))
    error_kind: str | None = Field(sa_column=words(nullable=True))
    error_detail: str | None = Field(sa_column=words(nullable=True))


class TurnTable(SQLModel, table=True):
    """``text``, ``output`` and ``answer`` are written in the coding of ``text_codec``."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "turn"
    __table_args__ = (
        PrimaryKeyConstraint("episode_id", "attempt", "number"),
        ForeignKeyConstraint(["episode_id", "attempt"], ["attempt.episode_id", "attempt.number"]),
        one_of("role", Role),
        one_of("role_source", RoleSource),
        one_of("verdict", Verdict),
        one_of("verdict_source", VerdictSource),
        rule("number", "number > 0"),
        rule("agent", "agent >= 0"),
        rule("verdict_role", "verdict is null or role = 'verifier'"),
    )

    episode_id: int = Field(sa_column=Column(big().type, primary_key=True))
    attempt: int = Field(sa_column=Column(Integer, primary_key=True))
    number: int = Field(sa_column=Column(Integer, primary_key=True))
    agent: int = Field(sa_column=whole())
    role: str = Field(sa_column=words())
    role_source: str = Field(sa_column=words())
    verdict: str | None = Field(sa_column=words(nullable=True))
    verdict_source: str | None = Field(sa_column=words(nullable=True))
    text: str = Field(sa_column=words())
    output: str = Field(sa_column=words())
    answer: str | None = Field(sa_column=words(nullable=True))
    logits: Any = Field(sa_column=Column(ARRAY(REAL), nullable=True))


class TurnStateTable(SQLModel, table=True):
    """What the encoder read before a turn, for what learns from states: float32, little-endian."""

    metadata = METADATA
    __tablename__: ClassVar[str] = "turn_state"
    __table_args__ = (
        PrimaryKeyConstraint("episode_id", "attempt", "number"),
        ForeignKeyConstraint(["episode_id", "attempt"], ["attempt.episode_id", "attempt.number"]),
        rule("number", "number > 0"),
        rule("state", "octet_length(state) > 0 and octet_length(state) % 4 = 0"),
    )

    episode_id: int = Field(sa_column=Column(big().type, primary_key=True))
    attempt: int = Field(sa_column=Column(Integer, primary_key=True))
    number: int = Field(sa_column=Column(Integer, primary_key=True))
    state: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
