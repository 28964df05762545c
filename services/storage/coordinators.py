"""Released coordinators: what a campaign was run for. Once written they never change.

The search of a campaign releases one, under its leadership and the campaign's name. People release other means beside
it and import checkpoints: no epoch protects those, but they write no row that a scheduler reads, a campaign's row lock
makes them take turns with its search, and the search passes over a name that they took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import SpecError
from services.core.events import EventType
from services.core.ids import CampaignId
from services.core.states import CoordinatorOrigin, GenerationKind
from services.storage import campaigns, events, leadership
from services.storage.binary import pack32, pack_json, unpack32, unpack64, unpack_json
from services.storage.records import CoordinatorRecord, Float64, Json, NewCoordinator

INSERT = text("""
insert into coordinator (campaign_id, name, generation, theta, layout, encoder, pool, validation, origin, reading,
    description)
values (:campaign, :name, :generation, :theta, cast(:layout as jsonb), cast(:encoder as jsonb), cast(:pool as jsonb),
    :validation, :origin, coalesce(cast(:reading as jsonb), (select reading from campaign where id = :campaign)),
    cast(:description as jsonb))
on conflict (name) do nothing
returning id
""")

SELECT = """
select id, campaign_id, name, generation, theta, layout, encoder, pool, validation, released_at, origin, reading,
    description
from coordinator
"""
BY_NAME = text(SELECT + "where name = :name")
OF_CAMPAIGN = text(SELECT + "where campaign_id = :campaign order by origin = 'search' desc, id desc limit 1")
ALL = text(SELECT + "order by id")
NAMES = text("select name from coordinator order by id desc limit 20")
CAMPAIGN_NAMED = text("select id from campaign where name = :name")
OPENINGS = text("""
select number, kind, mean,
    case when state = 'closed' and kind <> 'evaluation'
        then cast(summary ->> 'mean_score' as double precision) end as score
from generation where campaign_id = :campaign and number = coalesce(:number, number)
order by number
""")


@dataclass(frozen=True)
class Opening:
    """A generation as it opened: the mean, float64 (dimension,), and the mean's validation score if it has one."""

    number: int
    kind: GenerationKind
    mean: Float64
    validation: float | None


def release(conn: Connection, new: NewCoordinator, *, epoch: int) -> str:
    """Store the coordinator of a campaign's search with its event, and return its name.

    A name that somebody else's coordinator has is passed over: the campaign must not wait for a person to rename it.

    Raises:
        LeadershipLost: another scheduler took office.
    """
    leadership.require(conn, epoch)
    name = next(name for name in _names(new.name) if _insert(conn, new, name, CoordinatorOrigin.SEARCH) is not None)
    _tell(conn, new, name)
    return name


def release_by_hand(conn: Connection, new: NewCoordinator) -> int:
    """Store a coordinator that a person chose, beside that of the campaign's search; return its number.

    Raises:
        SpecError: the name is taken, or is a campaign's, whose search releases under it.
    """
    if new.campaign_id is None:
        raise ValueError("a coordinator that is released by hand comes from a campaign")
    campaigns.lock(conn, [new.campaign_id])
    number = _insert_free(conn, new, CoordinatorOrigin.HAND)
    _tell(conn, new, new.name)
    return number


def add_imported(conn: Connection, new: NewCoordinator) -> int:
    """Store a coordinator that comes from a checkpoint and return its number. Raises as ``release_by_hand`` does."""
    return _insert_free(conn, new, CoordinatorOrigin.IMPORT)


def by_name(conn: Connection, name: str) -> CoordinatorRecord:
    """Return a coordinator.

    Raises:
        SpecError: there is none of that name; lists the newest that there are.
    """
    row = conn.execute(BY_NAME, {"name": name}).one_or_none() if "\x00" not in name else None
    if row is None:
        known = ", ".join(conn.execute(NAMES).scalars()) or "none yet: they are released by completed campaigns"
        raise SpecError("coordinator", name, f"the name of a coordinator ({known})")
    return _record(row)


def of_campaign(conn: Connection, campaign_id: CampaignId) -> CoordinatorRecord | None:
    """Return the coordinator of a campaign's search; without one the newest that was released by hand, if any."""
    row = conn.execute(OF_CAMPAIGN, {"campaign": campaign_id}).one_or_none()
    return None if row is None else _record(row)


def list_all(conn: Connection) -> list[CoordinatorRecord]:
    """Return every coordinator, oldest first."""
    return [_record(row) for row in conn.execute(ALL)]


def openings(conn: Connection, campaign_id: CampaignId, number: int | None = None) -> list[Opening]:
    """Return the generations of a campaign as they opened, whatever became of them, by number; or only one of them."""
    rows = conn.execute(OPENINGS, {"campaign": campaign_id, "number": number})
    return [Opening(row.number, GenerationKind(row.kind), unpack64(row.mean), row.score) for row in rows]


def _names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _insert(conn: Connection, new: NewCoordinator, name: str, origin: CoordinatorOrigin) -> int | None:
    """Return the new row's number; None when the name is taken."""
    values = {
        "campaign": new.campaign_id,
        "name": name,
        "generation": new.generation,
        "theta": pack32(new.theta),
        "layout": pack_json(new.layout),
        "encoder": pack_json(new.encoder),
        "pool": pack_json(new.pool),
        "validation": new.validation,
        "origin": origin.value,
        "reading": _packed(new.reading),
        "description": _packed(new.description),
    }
    return conn.execute(INSERT, values).scalar_one_or_none()


def _insert_free(conn: Connection, new: NewCoordinator, origin: CoordinatorOrigin) -> int:
    if conn.execute(CAMPAIGN_NAMED, {"name": new.name}).one_or_none() is not None:
        raise SpecError("coordinator", new.name, "a name that no campaign has: its search releases under it")
    number = _insert(conn, new, new.name, origin)
    if number is None:
        raise SpecError("coordinator", new.name, "a name that no other coordinator has")
    return number


def _tell(conn: Connection, new: NewCoordinator, name: str) -> None:
    if new.campaign_id is not None:
        events.append(conn, new.campaign_id, EventType.COORDINATOR_RELEASED, {"coordinator": name})


def _packed(value: Json | None) -> str | None:
    return None if value is None else pack_json(value)


def _unpacked(value: Any) -> Json | None:
    return None if value is None else unpack_json(value)


def _record(row: Row[Any]) -> CoordinatorRecord:
    return CoordinatorRecord(
        id=row.id,
        campaign_id=None if row.campaign_id is None else CampaignId(row.campaign_id),
        name=row.name,
        generation=row.generation,
        theta=unpack32(row.theta),
        layout=unpack_json(row.layout),
        encoder=unpack_json(row.encoder),
        pool=unpack_json(row.pool),
        validation=row.validation,
        released_at=row.released_at,
        origin=CoordinatorOrigin(row.origin),
        reading=_unpacked(row.reading),
        description=_unpacked(row.description),
    )
