"""Releasing the trained coordinator: the row that serving and export read."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from services.core.campaign import Campaign
from services.core.policy.layout import Layout
from services.storage import coordinators
from services.storage.engine import Connection
from services.storage.records import NewCoordinator
from services.storage.turns import Brief


def release(
    conn: Connection,
    epoch: int,
    brief: Brief,
    campaign: Campaign,
    generation: int,
    theta: npt.NDArray[np.float64],
    validation: float | None,
) -> str:
    """Insert the coordinator under the campaign's name, or the next one that is free; return its name."""
    return coordinators.release(
        conn,
        NewCoordinator(
            campaign_id=brief.id,
            name=brief.name,
            generation=generation,
            theta=theta,
            layout=Layout.of_campaign(campaign).to_json(),
            encoder=asdict(campaign.encoder),
            pool={"models": [{"name": model.name, "model": model.litellm_model} for model in campaign.pool]},
            validation=validation,
        ),
        epoch=epoch,
    )
