"""A writer without a database, for tests of what happens around one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from services.core.errors import DatabaseUnavailable
from services.core.ids import CampaignId, EpisodeId
from services.storage.engine import Connection, Database
from services.storage.operations import Claim, Operation, Result
from services.storage.records import ClaimedEpisode
from services.telemetry import logs
from worker.writer import Writer


@dataclass
class NoDatabase:
    """Counts transactions; while ``away`` is positive each one fails and takes one off."""

    away: int = 0
    begun: int = 0

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self.begun += 1
        if self.away > 0:
            self.away -= 1
            raise DatabaseUnavailable("the database is away", "wait")
        yield None


@dataclass
class Carrier:
    """Carries out claims by returning their episode's number; keeps every batch it was given."""

    batches: list[list[int]] = field(default_factory=list)
    poison: frozenset[int] = frozenset()
    refused: dict[int, BaseException] = field(default_factory=dict)

    def __call__(self, conn: Connection, operations: Sequence[Operation]) -> list[Result]:
        numbers = [operation.episode_id for operation in operations if isinstance(operation, Claim)]
        self.batches.append(list(numbers))
        if found := self.poison & set(numbers):
            raise ValueError(f"poison {sorted(found)}")
        return [cast(Any, self.refused.get(number, number)) for number in numbers]


def claiming(number: int) -> Claim:
    return Claim(EpisodeId(number), f"token {number}", "test", 60.0)


def writer_of(database: NoDatabase, apply: Any, *, lease_seconds: float = 60.0, largest: int = 128) -> Writer:
    return Writer(cast(Database, database), lease_seconds, logs.logger("test"), apply=apply, largest=largest)


def claimed(number: int, attempt: int = 1) -> ClaimedEpisode:
    """A claim that is in no database."""
    plain: dict[str, Any] = {"campaign_id": CampaignId(1), "label": f"test e{number}", "episode_id": EpisodeId(number)}
    rest = dict.fromkeys(set(ClaimedEpisode.__dataclass_fields__) - set(plain), None)
    return ClaimedEpisode(**{**rest, **plain, "attempt": attempt, "owner": "test#1"})
