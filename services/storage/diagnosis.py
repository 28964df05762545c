"""What a diagnosis reads: single rewards, choices counted by problem, and whole conversations with their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.ids import CampaignId
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.protocol.verdict import Verdict
from services.core.states import CandidateKind, Purpose
from services.storage.text_codec import unescape

REWARDS = text("""
select g.number, c.index as candidate, e.replicate, e.reward
from generation g
join episode e on e.generation_id = g.id and e.purpose = 'training' and e.state = 'scored'
join candidate c on c.id = e.candidate_id and c.kind = 'sample'
where g.campaign_id = :campaign and g.kind = 'training' and g.state = 'closed'
order by g.number, c.index, e.replicate
""")
CHOICES = text("""
select g.number, e.purpose, c.kind, p.id as problem, p.family, t.agent, t.role, count(*) as turns
from generation g
join episode e on e.generation_id = g.id and e.state = 'scored'
join candidate c on c.id = e.candidate_id and c.kind in ('sample', 'mean')
join problem p on p.id = e.problem_id
join turn t on t.episode_id = e.id and t.attempt = e.attempt
where g.campaign_id = :campaign and g.state = 'closed'
group by g.number, e.purpose, c.kind, p.id, p.family, t.agent, t.role
order by g.number, p.id, t.agent, t.role
""")
EPISODES = text("""
select g.number as generation, e.id, e.problem_id, p.question, p.family, e.reward, t.number, t.agent, t.role,
    t.role_source, t.verdict, t.text, t.output, t.answer, t.logits
from generation g
join episode e on e.generation_id = g.id and e.purpose = 'training' and e.state = 'scored'
join candidate c on c.id = e.candidate_id and c.kind = 'sample'
join problem p on p.id = e.problem_id
join turn t on t.episode_id = e.id and t.attempt = e.attempt
where g.campaign_id = :campaign and g.kind = 'training' and g.state = 'closed'
    and g.number = any(cast(:numbers as integer[]))
order by e.id, t.number
""")


@dataclass(frozen=True)
class RewardRow:
    """The reward of one training episode of a sample."""

    generation: int
    candidate: int
    replicate: int
    reward: float


@dataclass(frozen=True)
class ChoiceRow:
    """How many turns on one problem went to one agent in one role."""

    generation: int
    purpose: Purpose
    kind: CandidateKind
    problem: int
    family: str
    agent: int
    role: Role
    turns: int


@dataclass(frozen=True)
class PlayedEpisode:
    """A training episode of a sample with its whole conversation, logits included."""

    generation: int
    problem: int
    family: str
    question: str
    reward: float
    items: tuple[Item, ...]


def rewards(conn: Connection, campaign_id: CampaignId) -> list[RewardRow]:
    """Return the samples' rewards of all closed training generations in order."""
    rows = conn.execute(REWARDS, {"campaign": campaign_id})
    return [RewardRow(row.number, row.candidate, row.replicate, row.reward) for row in rows]


def choices(conn: Connection, campaign_id: CampaignId) -> list[ChoiceRow]:
    """Return what heads chose in closed generations, counted by problem, agent and role."""
    return [
        ChoiceRow(
            row.number,
            Purpose(row.purpose),
            CandidateKind(row.kind),
            row.problem,
            unescape(row.family),
            row.agent,
            Role(row.role),
            row.turns,
        )
        for row in conn.execute(CHOICES, {"campaign": campaign_id})
    ]


def played(conn: Connection, campaign_id: CampaignId, numbers: Sequence[int]) -> list[PlayedEpisode]:
    """Return the samples' scored episodes of these training generations in the order of their insertion."""
    rows = conn.execute(EPISODES, {"campaign": campaign_id, "numbers": list(numbers)})
    return [_episode(list(group)) for _, group in groupby(rows, key=lambda row: row.id)]


def _episode(rows: list[Row[Any]]) -> PlayedEpisode:
    first = rows[0]
    return PlayedEpisode(
        first.generation,
        first.problem_id,
        unescape(first.family),
        unescape(first.question),
        first.reward,
        tuple(_item(row) for row in rows),
    )


def _item(row: Row[Any]) -> Item:
    return Item(
        number=row.number,
        agent=row.agent,
        role=Role(row.role),
        role_source=RoleSource(row.role_source),
        output=unescape(row.output),
        text=unescape(row.text),
        answer=None if row.answer is None else unescape(row.answer),
        verdict=None if row.verdict is None else Verdict(row.verdict),
        logits=None if row.logits is None else tuple(row.logits),
    )
