"""What the labelling generation of a campaign found out, as one table."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Connection, text

from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.labels import Labels
from services.storage.binary import unpack32
from services.storage.text_codec import unescape

REWARDS = text("""
select c.index as model, e.replicate, e.reward
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single'
join episode e on e.candidate_id = c.id and e.state = 'scored'
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
""")
PROBLEMS = text("""
select e.replicate as place, p.family, s.state
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single' and c.index = 0
join episode e on e.candidate_id = c.id and e.replicate < :problems
join problem p on p.id = e.problem_id
left join turn_state s on s.episode_id = e.id and s.attempt = e.attempt and s.number = 1
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
order by e.replicate
""")
ANSWERS = text("""
select e.replicate as place, c.index as model, t.answer
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single'
join episode e on e.candidate_id = c.id and e.replicate < :problems
join turn t on t.episode_id = e.id and t.attempt = e.attempt and t.number = 1
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
""")


def read(conn: Connection, campaign_id: CampaignId, problems: int, repeats: int, models: int) -> Labels:
    """Return the labels of a campaign, problems in the order in which they were drawn.

    Args:
        conn: an open transaction.
        campaign_id: whose.
        problems: how many were labelled, as its specification says.
        repeats: answers of every model to each; replicate ``repeat * problems + place`` is one of them.
        models: in its pool.

    Raises:
        TrinityError: the labelling generation is not closed, or a state is missing.
    """
    values = {"campaign": campaign_id, "problems": problems}
    rewards = np.full((problems, models, repeats), np.nan)
    for row in conn.execute(REWARDS, {"campaign": campaign_id}):
        repeat, place = divmod(row.replicate, problems)
        rewards[place, row.model, repeat] = row.reward
    answers: list[list[str | None]] = [[None] * models for _ in range(problems)]
    for row in conn.execute(ANSWERS, values):
        answers[row.place][row.model] = None if row.answer is None else unescape(row.answer)
    rows = conn.execute(PROBLEMS, values).all()
    if len(rows) != problems or np.isnan(rewards).any() or any(row.state is None for row in rows):
        raise TrinityError(f"the labels of campaign {campaign_id} are not complete: its labelling has not closed")
    states = np.stack([unpack32(row.state) for row in rows]).astype(np.float64)
    return Labels(states, rewards, [unescape(row.family) for row in rows], answers)
