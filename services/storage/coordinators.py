"""Released coordinators: what a campaign was run for. Once written they never change."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import SpecError
from services.core.events import EventType
from services.core.ids import CampaignId
from services.storage import events, leadership
from services.storage.binary import pack32, pack_json, unpack32, unpack_json
from services.storage.records import CoordinatorRecord, NewCoordinator

INSERT = text("""
insert into coordinator (campaign_id, name, generation, theta, layout, encoder, pool, validation)
values (:campaign, :name, :generation, :theta, cast(:layout as jsonb), cast(:encoder as jsonb), cast(:pool as jsonb),
    :validation)
on conflict (name) do nothing
returning id
""")

SELECT = """
select id, campaign_id, name, generation, theta, layout, encoder, pool, validation, released_at from coordinator
"""
BY_NAME = text(SELECT + "where name = :name")
OF_CAMPAIGN = text(SELECT + "where campaign_id = :campaign order by id desc limit 1")
ALL = text(SELECT + "order by id")
NAMES = text("select name from coordinator order by id desc limit 20")


def release(conn: Connection, new: NewCoordinator, *, epoch: int) -> int:
    """Store a coordinator with its event and return its number.

    Raises:
        SpecError: the name is taken.
        LeadershipLost: another scheduler took office.
    """
    leadership.require(conn, epoch)
    values = {
        "campaign": new.campaign_id,
        "name": new.name,
        "generation": new.generation,
        "theta": pack32(new.theta),
        "layout": pack_json(new.layout),
        "encoder": pack_json(new.encoder),
        "pool": pack_json(new.pool),
        "validation": new.validation,
    }
    inserted = conn.execute(INSERT, values).scalar_one_or_none()
    if inserted is None:
        raise SpecError("coordinator", new.name, "a name that no other coordinator has")
    events.append(conn, new.campaign_id, EventType.COORDINATOR_RELEASED, {"coordinator": new.name})
    return int(inserted)


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
    """Return the newest coordinator that a campaign released, if any."""
    row = conn.execute(OF_CAMPAIGN, {"campaign": campaign_id}).one_or_none()
    return None if row is None else _record(row)


def list_all(conn: Connection) -> list[CoordinatorRecord]:
    """Return every coordinator, oldest first."""
    return [_record(row) for row in conn.execute(ALL)]


def _record(row: Row[Any]) -> CoordinatorRecord:
    return CoordinatorRecord(
        id=row.id,
        campaign_id=CampaignId(row.campaign_id),
        name=row.name,
        generation=row.generation,
        theta=unpack32(row.theta),
        layout=unpack_json(row.layout),
        encoder=unpack_json(row.encoder),
        pool=unpack_json(row.pool),
        validation=row.validation,
        released_at=row.released_at,
    )
