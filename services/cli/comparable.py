"""Whether a coordinator that was released before can act in a campaign that compares it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from services.config.changes import Change
from services.core.campaign import Algorithm, Campaign
from services.core.errors import SpecError
from services.core.fingerprint import Fingerprint
from services.core.ids import CampaignId
from services.core.policy.layout import Layout
from services.storage import coordinators, problems, readings
from services.storage.engine import Connection, Database
from services.storage.records import CoordinatorRecord

FIELD = "search.coordinator"


def changes(coordinator: str) -> list[Change]:
    """Return what makes a campaign file one that compares a released coordinator and trains nothing."""
    return [
        Change("search.algorithm", Algorithm.GIVEN.value),
        Change(FIELD, coordinator),
        Change("search.start", "zero"),
        Change("search.cost_weight", 0),
        Change("validation.problems", 0),
        Change("search.replicates", 1),  # of no meaning here; a file may have few training problems
    ]


def coordinator_of(conn: Connection, campaign: Campaign) -> CoordinatorRecord | None:
    """Return the released coordinator that a campaign compares, None for one that trains its own.

    Raises:
        SpecError: there is none of that name, or its numbers would mean something else in this campaign.
    """
    name = campaign.search.coordinator
    if name is None:
        return None
    row = coordinators.by_name(conn, name)
    require_fit(row, campaign)
    return row


def require_fit(row: CoordinatorRecord, campaign: Campaign) -> None:
    """Raise SpecError unless the campaign has the coordinator's layout, encoder and pool.

    Its rows stand for models by their places, so that the names have to be the same in the same order; what a name
    stands for at its provider may change.
    """
    theirs, ours = Layout.from_json(row.layout), Layout.of_campaign(campaign)
    for field, wanted, got in (
        ("pool", [model["name"] for model in row.pool["models"]], [model.name for model in campaign.pool]),
        ("protocol.agents", list(theirs.agents), list(ours.agents)),
        ("protocol.roles", [role.value for role in theirs.allowed], [role.value for role in ours.allowed]),
        ("encoder.singular_values", [each.name for each in theirs.matrices], [each.name for each in ours.matrices]),
        ("head", theirs.to_json(), ours.to_json()),
        *encoder_fields(row.encoder, campaign),
    ):
        if wanted != got:
            raise SpecError(field, got, f"{wanted}, as coordinator {row.name} was trained with")


def encoder_fields(theirs: Mapping[str, Any], campaign: Campaign) -> list[tuple[str, object, object]]:
    """Return the encoder's fields that were recorded with the coordinator, theirs and ours."""
    ours = json.loads(json.dumps(asdict(campaign.encoder)))
    return [(f"encoder.{name}", value, ours.get(name)) for name, value in theirs.items()]


def seen_in_training(database: Database, campaign_id: CampaignId, name: str) -> int | None:
    """Return how many held-out questions of a campaign the coordinator was trained on or chosen by.

    None where its own campaign is not in this database.
    """
    with database.transaction() as conn:
        origin = coordinators.by_name(conn, name).campaign_id
        return None if origin is None else problems.seen(conn, campaign_id, origin)


def bind_reading(conn: Connection, campaign_id: CampaignId, row: CoordinatorRecord) -> None:
    """Let only workers take part that read as the coordinator was trained with, where that was recorded."""
    if row.reading is not None:
        readings.bind(conn, campaign_id, Fingerprint.from_json(row.reading))
