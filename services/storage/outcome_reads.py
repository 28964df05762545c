"""What single models are worth on the questions of a campaign: labelled ones, or those they were evaluated on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from services.core.ids import CampaignId
from services.core.states import GenerationKind
from services.storage.text_codec import unescape

SINGLES = text("""
select p.key, p.family, c.index as model, e.reward
from generation g
join episode e on e.generation_id = g.id and e.state = 'scored'
join candidate c on c.id = e.candidate_id and c.kind = 'single'
join problem p on p.id = e.problem_id
where g.campaign_id = :campaign and g.kind = :kind
order by p.split, p.position, c.index, e.replicate
""")

# Every model reads the same question before its first turn, so that one of them tells the state.
STATES = text("""
select distinct on (p.key) p.key, s.state
from generation g
join episode e on e.generation_id = g.id and e.state = 'scored'
join turn_state s on s.episode_id = e.id and s.attempt = e.attempt and s.number = 1
join problem p on p.id = e.problem_id
where g.campaign_id = :campaign and g.kind = :kind
order by p.key, e.id
""")


@dataclass(frozen=True)
class SingleReward:
    """What one answer of a model, named by its place in the pool, was worth."""

    key: str
    family: str
    model: int
    reward: float


def singles(conn: Connection, campaign_id: CampaignId, kind: GenerationKind) -> list[SingleReward]:
    """Return every scored answer of single models in generations of a kind, question by question."""
    rows = conn.execute(SINGLES, {"campaign": campaign_id, "kind": kind.value})
    return [SingleReward(unescape(row.key), unescape(row.family), row.model, row.reward) for row in rows]


def states(conn: Connection, campaign_id: CampaignId, kind: GenerationKind) -> Mapping[str, NDArray[np.float32]]:
    """Return what the encoder read of each question where that was kept: key of the problem -> (d,)."""
    rows = conn.execute(STATES, {"campaign": campaign_id, "kind": kind.value})
    return {unescape(row.key): np.frombuffer(bytes(row.state), dtype="<f4") for row in rows}
