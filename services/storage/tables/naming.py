"""Names of constraints and the column types that the tables share."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Integer,
    MetaData,
    Numeric,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def identity(**options: Any) -> Column[int]:
    """A bigint primary key that only the database hands out."""
    return Column(BigInteger, Identity(always=True), primary_key=True, **options)


def reference(target: str, *, nullable: bool = False, primary_key: bool = False) -> Column[int]:
    """A bigint foreign key to ``table.column``."""
    return Column(BigInteger, ForeignKey(target), nullable=nullable, primary_key=primary_key)


def words(*, nullable: bool = False, default: str | None = None) -> Column[str]:
    return Column(Text, nullable=nullable, server_default=None if default is None else text(f"'{default}'"))


def whole(*, nullable: bool = False, default: int | None = None) -> Column[int]:
    return Column(Integer, nullable=nullable, server_default=None if default is None else text(str(default)))


def big(*, nullable: bool = False, default: int | None = None) -> Column[int]:
    return Column(BigInteger, nullable=nullable, server_default=None if default is None else text(str(default)))


def usd(*, nullable: bool = False, default: int | None = None) -> Column[Any]:
    return Column(Numeric(20, 12), nullable=nullable, server_default=None if default is None else text(str(default)))


def real(*, nullable: bool = False, default: int | None = None) -> Column[float]:
    return Column(Double, nullable=nullable, server_default=None if default is None else text(str(default)))


def moment(*, nullable: bool = False, now: bool = False) -> Column[Any]:
    return Column(DateTime(timezone=True), nullable=nullable, server_default=text("now()") if now else None)


def json_object(*, nullable: bool = False) -> Column[Any]:
    return Column(JSONB, nullable=nullable)


def one_of(column: str, states: type[StrEnum]) -> CheckConstraint:
    """A CHECK that a text column holds a member of an enum."""
    members = ", ".join(f"'{member.value}'" for member in states)
    return CheckConstraint(f"{column} in ({members})", name=column)


def rule(name: str, condition: str) -> CheckConstraint:
    return CheckConstraint(condition, name=name)
