"""What a campaign is read with: the fingerprint of its first worker's encoder binds all others."""

from __future__ import annotations

from sqlalchemy import Connection, text

from services.core.fingerprint import Fingerprint
from services.core.ids import CampaignId
from services.storage.binary import pack_json, unpack_json

READING = text("select reading from campaign where id = :campaign")
RECORD = text("update campaign set reading = cast(:reading as jsonb) where id = :campaign and reading is null")


def of_campaign(conn: Connection, campaign_id: CampaignId) -> Fingerprint | None:
    """Return what the campaign is read with; None before its first worker, and for campaigns older than this record."""
    stored = conn.execute(READING, {"campaign": campaign_id}).scalar_one_or_none()
    return None if stored is None else Fingerprint.from_json(unpack_json(stored))


def bind(conn: Connection, campaign_id: CampaignId, reading: Fingerprint) -> None:
    """Record what a campaign has to be read with before its first worker; what is recorded already stays."""
    conn.execute(RECORD, {"campaign": campaign_id, "reading": pack_json(reading.to_json())})


def settle(conn: Connection, campaign_id: CampaignId, own: Fingerprint) -> None:
    """Record a worker's fingerprint if it is the campaign's first one, else hold it against the recorded one.

    Raises:
        SpecError: this worker reads otherwise than the campaign was read so far; names every field that differs.
    """
    stored = of_campaign(conn, campaign_id)
    if stored is None:
        # Of two first workers one waits here for the other's row and then changes nothing.
        bind(conn, campaign_id, own)
        stored = of_campaign(conn, campaign_id)
    if stored is not None:
        stored.require(own, "the campaign")
