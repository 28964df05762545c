"""The decisions of training episodes with the states that led to them; the states are kept for one generation only."""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, text

from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.optimiser.batch import Batch
from services.core.policy.layout import Layout
from services.core.protocol.roles import Role, RoleSource
from services.storage.binary import unpack32

DECISIONS = text("""
select e.replicate, e.problem_id, e.reward, t.number, t.agent, t.role, t.role_source, s.state
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'sample'
join episode e on e.candidate_id = c.id and e.purpose = 'training' and e.state = 'scored'
join turn t on t.episode_id = e.id and t.attempt = e.attempt
left join turn_state s on s.episode_id = t.episode_id and s.attempt = t.attempt and s.number = t.number
where g.campaign_id = :campaign and g.number = :number
order by e.replicate, t.number
""")
FORGET = text("""
delete from turn_state where episode_id in (
    select e.id from generation g join episode e on e.generation_id = g.id
    where g.campaign_id = :campaign and g.number = :number and g.kind = 'training')
""")


def batch_of(conn: Connection, campaign_id: CampaignId, number: int, layout: Layout) -> Batch:
    """Return a training generation's decisions in the order of replicates and turns.

    Raises:
        TrinityError: there are none, or a state is not stored any more.
    """
    rows = conn.execute(DECISIONS, {"campaign": campaign_id, "number": number}).all()
    if not rows or any(row.state is None for row in rows):
        raise TrinityError(f"the states of generation {number} of campaign {campaign_id} are not stored (any more)")
    first = {row.replicate: row for row in reversed(rows)}
    places = {replicate: place for place, replicate in enumerate(sorted(first))}
    episodes = [first[replicate] for replicate in places]
    agents = {agent: row for row, agent in enumerate(layout.agents)}
    return Batch(
        states=np.stack([unpack32(row.state) for row in rows]),
        agents=np.array([agents[row.agent] for row in rows], dtype=np.intp),
        roles=np.array([_role(row, layout) for row in rows], dtype=np.intp),
        episodes=np.array([places[row.replicate] for row in rows], dtype=np.intp),
        rewards=np.array([row.reward for row in episodes], dtype=np.float64),
        problems=np.array([row.problem_id for row in episodes], dtype=np.intp),
    )


def forget(conn: Connection, campaign_id: CampaignId, number: int) -> None:
    """Delete the states of a training generation that everybody has learnt from."""
    conn.execute(FORGET, {"campaign": campaign_id, "number": number})


def _role(row: Row[Any], layout: Layout) -> int:
    """Return the role's row, -1 where a rule or a Thinker chose it."""
    return layout.allowed.index(Role(row.role)) if RoleSource(row.role_source) is RoleSource.POLICY else -1
