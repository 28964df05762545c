"""Checking every invariant on one consistent view of a database, which may be in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import text

from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.storage import campaigns
from services.storage.audit import attempts, chain, clock, money, replays, scores, succession
from services.storage.audit.findings import Invariant, Judge, Patience, Scope, Verdict
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord, Json

PATIENT = Patience()
SNAPSHOT = text("set transaction isolation level repeatable read, read only")

INVARIANTS = (
    Invariant(
        "I1",
        "a closed generation has exactly its episodes, each scored once, and the fitness that they amount to",
        scores.read,
    ),
    Invariant("I2", "a scored episode has one attempt that is done, the newest; no other has any", attempts.one_score),
    Invariant("I3", "campaign totals, calls and ledger entries balance to the last digit", money.balance),
    Invariant("I4", "no budget was passed at any moment, overruns of providers apart", money.limits),
    Invariant("I5", "no call was opened after its attempt or its campaign had ended", money.after_the_end),
    Invariant("I6", "replaying the search gives every stored mean and step size, bit for bit", replays.read),
    Invariant("I7", "no lease outlives its expiry by more than the sweep takes", clock.leases),
    Invariant("I8", "whatever is due happens: events, messages, the turn of generations", clock.stuck),
    Invariant("I9", "epochs of leaders never decrease along the generations", chain.epochs),
    Invariant("I10", "generations follow one another without gaps, and what has ended is finished", chain.read_chain),
    Invariant("I11", "no episode is tried more often than its campaign allows", attempts.bounded),
    Invariant("I12", "every unfinished episode is in reach without any message", attempts.in_reach),
    Invariant("I13", "no session of ours leaves a transaction open", clock.idle),
    Invariant("I14", "a scheduler that started now would go on with exactly what is stored", succession.read),
)


def silent(line: str) -> None:
    """Tell nobody about the progress."""


def audit(
    database: Database,
    read_specification: Callable[[Json], Campaign],
    *,
    name: str | None = None,
    patience: Patience = PATIENT,
    progress: Callable[[str], None] = silent,
) -> list[Verdict]:
    """Check every invariant and return what came out, in their order.

    All rows are of one moment. They are judged after the transaction has ended, as replaying may take a while.

    Args:
        database: may be in use.
        read_specification: turns a stored specification into the rules' record.
        name: of the one campaign to look at; None for all.
        patience: of the checks that look at the clock.
        progress: told each invariant before its rows are read and before they are judged.

    Raises:
        SpecError: there is no such campaign.
        DatabaseUnavailable: see ``Database.transaction``.
    """
    with database.transaction() as conn:
        conn.execute(SNAPSHOT)
        judges = read(conn, read_specification, name=name, patience=patience, progress=progress)
    return judge(judges, progress=progress)


def read(
    conn: Connection,
    read_specification: Callable[[Json], Campaign],
    *,
    name: str | None = None,
    patience: Patience = PATIENT,
    progress: Callable[[str], None] = silent,
) -> list[tuple[Invariant, Judge]]:
    """Read what every invariant needs, in the caller's transaction; see ``audit``."""
    scope = _scope(conn, read_specification, name, patience)
    judges = []
    for invariant in INVARIANTS:
        progress(f"reading {invariant.id}")
        judges.append((invariant, invariant.read(conn, scope)))
    return judges


def judge(judges: Sequence[tuple[Invariant, Judge]], *, progress: Callable[[str], None] = silent) -> list[Verdict]:
    """Judge what was read; needs no connection."""
    verdicts = []
    for invariant, findings in judges:
        progress(f"judging {invariant.id}")
        verdicts.append(Verdict(invariant.id, invariant.statement, findings()))
    return verdicts


def _scope(
    conn: Connection, read_specification: Callable[[Json], Campaign], name: str | None, patience: Patience
) -> Scope:
    records: list[CampaignRecord] = campaigns.list_all(conn) if name is None else [campaigns.by_name(conn, name)]
    readable: dict[CampaignId, Campaign] = {}
    unreadable: dict[CampaignId, str] = {}
    for record in records:
        try:
            readable[record.id] = read_specification(record.spec)
        except TrinityError as error:
            unreadable[record.id] = str(error)
    return Scope({record.id: record for record in records}, readable, unreadable, patience)
