"""I14: the open generation is the one that a scheduler would open that starts now and knows the database alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from services.core.campaign import Campaign
from services.core.composition import MEAN, Key, Planned, planned_episodes, wanted_episodes
from services.core.ids import CampaignId
from services.core.optimiser.ports import Learner
from services.core.problem import Split
from services.core.states import CandidateKind, GenerationKind, Purpose
from services.storage.audit.findings import Finding, Judge, Scope
from services.storage.binary import pack32

OPEN = text("""
select id, campaign_id, number, kind from generation
where campaign_id = any(cast(:ids as bigint[])) and state = 'open' order by campaign_id
""")
SPLITS = text("""
select campaign_id, split, count(*) as size from problem
where campaign_id = any(cast(:ids as bigint[])) group by campaign_id, split
""")
VECTORS = text("""
select g.campaign_id, c.kind, c.index as place_in_kind, sha256(c.theta) as theta
from generation g join candidate c on c.generation_id = g.id
where g.campaign_id = any(cast(:ids as bigint[])) and g.state = 'open' and c.kind in ('sample', 'mean')
order by g.campaign_id, c.kind, c.index
""")
EPISODES = text("""
select g.campaign_id, c.kind, c.index as place_in_kind, e.purpose, e.replicate, e.seed, p.split, p.position
from generation g
join episode e on e.generation_id = g.id
join candidate c on c.id = e.candidate_id
join problem p on p.id = e.problem_id
where g.campaign_id = any(cast(:ids as bigint[])) and g.state = 'open'
order by g.campaign_id, e.id
""")


Told = tuple[str, str, str]


@dataclass(frozen=True)
class Opened:
    """A campaign's open generation as stored."""

    campaign_id: CampaignId
    number: int
    kind: GenerationKind
    sizes: dict[Split, int] = field(default_factory=dict)
    vectors: dict[tuple[CandidateKind, int], bytes | None] = field(default_factory=dict)
    episodes: dict[tuple[Key, int], Planned] = field(default_factory=dict)


def read(conn: Connection, scope: Scope) -> Judge:
    opened = {
        row.campaign_id: Opened(CampaignId(row.campaign_id), row.number, GenerationKind(row.kind))
        for row in conn.execute(OPEN, scope.ids)
    }
    for row in conn.execute(SPLITS, scope.ids):
        if row.campaign_id in opened:
            opened[row.campaign_id].sizes[Split(row.split)] = row.size
    for row in conn.execute(VECTORS, scope.ids):
        opened[row.campaign_id].vectors[CandidateKind(row.kind), row.place_in_kind] = row.theta
    for row in conn.execute(EPISODES, scope.ids):
        key = (CandidateKind(row.kind), row.place_in_kind, Purpose(row.purpose))
        opened[row.campaign_id].episodes[key, row.replicate] = Planned(Split(row.split), row.position, row.seed)
    return lambda: [finding for each in opened.values() for finding in _judge(scope, each)]


def _judge(scope: Scope, opened: Opened) -> list[Finding]:
    campaign = scope.specifications.get(opened.campaign_id)
    if campaign is None:
        return []
    search = scope.searches.get(opened.campaign_id)
    told = _episodes(campaign, opened)
    if search is not None:
        told += _vectors(campaign, opened, search)
    place = f"generation {opened.number}"
    name = scope.name(opened.campaign_id)
    return [Finding(name, f"{place}, {where}", wanted, found) for where, wanted, found in told]


def _vectors(campaign: Campaign, opened: Opened, search: Learner) -> list[Told]:
    """Compare the vectors with what the replayed search asks for."""
    wanted = {(CandidateKind.SAMPLE, index): _digest(theta) for index, theta in enumerate(search.ask())}
    if (*MEAN, Purpose.VALIDATION) in wanted_episodes(campaign, opened.kind, opened.number):
        wanted[MEAN] = _digest(search.mean)
    return [
        (f"{kind} {index}", _vector(wanted.get((kind, index))), "another vector, or none")
        for kind, index in sorted({*wanted, *opened.vectors})
        if wanted.get((kind, index)) != opened.vectors.get((kind, index))
    ]


def _episodes(campaign: Campaign, opened: Opened) -> list[Told]:
    """Compare problems and seeds with those that the campaign's seed leads to."""
    sizes = {split: opened.sizes.get(split, 0) for split in Split}
    try:
        wanted = planned_episodes(campaign, opened.kind, opened.number, sizes)
    except ValueError as error:
        return [("problems", "enough of them", str(error))]
    return [
        (f"{kind} {index}, {purpose} {replicate}", _problem(wanted.get(each)), _problem(opened.episodes.get(each)))
        for each in sorted({*wanted, *opened.episodes})
        for (kind, index, purpose), replicate in [each]
        if wanted.get(each) != opened.episodes.get(each)
    ]


def _problem(episode: Planned | None) -> str:
    return "none" if episode is None else f"{episode.split} problem {episode.position}, seed {episode.seed}"


def _vector(digest: bytes | None) -> str:
    return "none" if digest is None else "the vector of the replayed search"


def _digest(vector: npt.NDArray[np.float64]) -> bytes:
    return hashlib.sha256(pack32(vector)).digest()
