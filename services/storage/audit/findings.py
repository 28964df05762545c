"""What an audit works with and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, TextClause

from services.core.campaign import Campaign
from services.core.ids import CampaignId
from services.core.optimiser.ports import Learner
from services.storage.records import CampaignRecord


@dataclass(frozen=True)
class Finding:
    """One row, or a few, that are not as they must be; ``campaign`` is None where it concerns none."""

    campaign: str | None
    where: str
    wanted: str
    found: str


@dataclass(frozen=True)
class Patience:
    """How long the checks that look at the clock wait before they call something stuck, in seconds.

    Attributes:
        lease: a lease may be overdue for this long; the sweep takes it back.
        progress: an event, a finished generation, or the next one may wait for this long.
        republish: after this long the scheduler sends an unclaimed episode again; several of these may pass.
        reach: an unfinished episode has to be due within this time.
        idle: a transaction may be left open without a statement for this long.
    """

    lease: float = 10.0
    progress: float = 60.0
    republish: float = 60.0
    reach: float = 3600.0
    idle: float = 5.0


@dataclass(frozen=True)
class Scope:
    """What is audited.

    Attributes:
        campaigns: their records.
        specifications: of those whose specification can be read.
        unreadable: why the others' can not.
        patience: of the checks that look at the clock.
        searches: as replayed by I6, ready for the open training generation, which I14 compares with them.
    """

    campaigns: Mapping[CampaignId, CampaignRecord]
    specifications: Mapping[CampaignId, Campaign]
    unreadable: Mapping[CampaignId, str]
    patience: Patience
    searches: dict[CampaignId, Learner] = field(default_factory=dict)

    @property
    def ids(self) -> dict[str, list[CampaignId]]:
        """The campaigns as parameters of a statement."""
        return {"ids": list(self.campaigns)}

    def name(self, campaign_id: CampaignId | None) -> str | None:
        return None if campaign_id is None else self.campaigns[campaign_id].name


Judge = Callable[[], list[Finding]]


@dataclass(frozen=True)
class Invariant:
    """``read`` runs inside the snapshot and returns what judges the rows after it, so that no transaction waits."""

    id: str
    statement: str
    read: Callable[[Connection, Scope], Judge]


@dataclass(frozen=True)
class Verdict:
    """An invariant and everything that breaks it; nothing does when ``findings`` is empty."""

    id: str
    statement: str
    findings: Sequence[Finding]


def by_statements(*statements: TextClause) -> Callable[[Connection, Scope], Judge]:
    """Return a ``read`` for statements that select the findings themselves.

    Their columns are ``campaign_id``, ``place``, ``wanted`` and ``found``; their parameters ``ids`` and the fields of
    ``Patience``.
    """

    def read(conn: Connection, scope: Scope) -> Judge:
        rows = [row for statement in statements for row in conn.execute(statement, parameters(scope))]
        return lambda: [finding(scope, row) for row in rows]

    return read


def parameters(scope: Scope) -> dict[str, Any]:
    return {**scope.ids, **vars(scope.patience)}


def finding(scope: Scope, row: Row[Any]) -> Finding:
    return Finding(scope.name(row.campaign_id), row.place, row.wanted, row.found)
