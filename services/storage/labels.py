"""What the labelling generation of a campaign found out, as one table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.labels import Labels, Reviews
from services.core.problem import ScorerKind
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
select e.replicate as place, p.family, p.scorer, s.state
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single' and c.index = 0
join episode e on e.candidate_id = c.id and e.replicate < :problems
join problem p on p.id = e.problem_id
left join turn_state s on s.episode_id = e.id and s.attempt = e.attempt and s.number = 1
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
order by e.replicate
""")
REVIEWS = text("""
select e.replicate as place, c.index as model, s.number, s.state
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single'
join episode e on e.candidate_id = c.id and e.replicate < :problems
join turn_state s on s.episode_id = e.id and s.attempt = e.attempt and s.number in (2, 3)
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
""")
ANSWERS = text("""
select e.replicate as place, c.index as model, t.answer
from generation g
join candidate c on c.generation_id = g.id and c.kind = 'single'
join episode e on e.candidate_id = c.id and e.replicate < :problems
join turn t on t.episode_id = e.id and t.attempt = e.attempt and t.number = 1
where g.campaign_id = :campaign and g.kind = 'labelling' and g.state = 'closed'
""")


def read(conn: Connection, campaign_id: CampaignId, campaign: Campaign, *, reviews: bool = False) -> Labels:
    """Return the labels of a campaign, problems in the order in which they were drawn.

    Replicate ``repeat * problems + place`` of a model is one of its answers to a problem.

    Args:
        conn: an open transaction.
        campaign_id: whose.
        campaign: its specification.
        reviews: whether to read them, too; only a team is fitted to them, and they are many times the rest.

    Raises:
        TrinityError: the labelling generation is not closed, or a state is missing.
    """
    problems, repeats, models = campaign.labels.problems, campaign.labels.repeats, len(campaign.pool)
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
        raise incomplete(campaign_id)
    states = np.stack([unpack32(row.state) for row in rows]).astype(np.float64)
    found = Labels(states, rewards, [unescape(row.family) for row in rows], answers)
    if not reviews:
        return found
    answered, rejected = reviewed(conn, campaign_id, (problems, models, campaign.hidden_size))
    return replace(found, reviews=Reviews(answered, rejected, [ScorerKind(row.scorer) for row in rows]))


def reviewed(
    conn: Connection, campaign_id: CampaignId, shape: tuple[int, int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the states of every question with each model's answer, and of that with a review that rejects it.

    Raises:
        TrinityError: one is missing.
    """
    states = np.full((2, *shape), np.nan, dtype=np.float32)
    for row in conn.execute(REVIEWS, {"campaign": campaign_id, "problems": shape[0]}):
        states[row.number - 2, row.place, row.model] = unpack32(row.state)
    if np.isnan(states).any():
        raise incomplete(campaign_id)
    return states[0], states[1]


def incomplete(campaign_id: CampaignId) -> TrinityError:
    return TrinityError(f"the labels of campaign {campaign_id} are not complete: its labelling has not closed")
