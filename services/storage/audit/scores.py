"""I1: a closed generation rests on exactly the episodes it must have, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.campaign import Campaign
from services.core.composition import Key, wanted_episodes
from services.core.fitness import Effort, Incomplete, Outcome, fitness_of, is_shaped, ranks, shaped
from services.core.ids import CampaignId, GenerationId
from services.core.states import CandidateKind, GenerationKind, Purpose
from services.storage import efforts
from services.storage.audit.findings import Finding, Judge, Scope
from services.storage.binary import pack64

CLOSED = text("""
select id, campaign_id, number, kind, fitness from generation
where campaign_id = any(cast(:ids as bigint[])) and state = 'closed'
order by campaign_id, number
""")

# One row per candidate and purpose: an episode that is not scored stands as null among the rewards.
SCORES = text("""
select g.id as generation_id, c.kind, c.index as place_in_kind, e.purpose, c.fitness, c.rank,
    array_agg(e.replicate order by e.replicate, e.id) as replicates,
    array_agg(case when e.state = 'scored' then e.reward end order by e.replicate, e.id) as rewards
from generation g
join episode e on e.generation_id = g.id
join candidate c on c.id = e.candidate_id
where g.campaign_id = any(cast(:ids as bigint[])) and g.state = 'closed'
group by g.id, c.id, e.purpose
order by g.id, c.kind, c.index, e.purpose
""")


@dataclass(frozen=True)
class Group:
    """The episodes of one candidate and purpose."""

    replicates: Sequence[int]
    rewards: Sequence[float | None]
    fitness: float | None
    rank: int | None


@dataclass(frozen=True)
class Closed:
    """A closed generation with its episodes by candidate and purpose, and what those of samples took."""

    campaign_id: CampaignId
    number: int
    kind: GenerationKind
    fitness: bytes | None
    groups: dict[Key, Group] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)


def read(conn: Connection, scope: Scope) -> Judge:
    closed = {GenerationId(row.id): _closed(row) for row in conn.execute(CLOSED, scope.ids)}
    for row in conn.execute(SCORES, scope.ids):
        key = (CandidateKind(row.kind), row.place_in_kind, Purpose(row.purpose))
        closed[row.generation_id].groups[key] = Group(row.replicates, row.rewards, row.fitness, row.rank)
    for campaign_id, campaign in scope.specifications.items():
        if is_shaped(campaign):
            own = [number for number, generation in closed.items() if generation.campaign_id == campaign_id]
            for number, effort in efforts.of(conn, own, campaign).items():
                closed[number] = replace(closed[number], effort=effort)
    return lambda: [finding for generation in closed.values() for finding in _judge(scope, generation)]


def _closed(row: Row[Any]) -> Closed:
    return Closed(CampaignId(row.campaign_id), row.number, GenerationKind(row.kind), row.fitness)


def _judge(scope: Scope, generation: Closed) -> list[Finding]:
    campaign = scope.specifications.get(generation.campaign_id)
    if campaign is None:
        return []
    wanted = wanted_episodes(campaign, generation.kind, generation.number)
    return [
        Finding(scope.name(generation.campaign_id), f"generation {generation.number}, {place}", expected, seen)
        for place, expected, seen in _episodes(wanted, generation) or _fitness(campaign, generation)
    ]


def _episodes(wanted: dict[Key, int], generation: Closed) -> list[tuple[str, str, str]]:
    found = []
    for key in sorted({*wanted, *generation.groups}):
        group = generation.groups.get(key, Group((), (), None, None))
        count = wanted.get(key, 0)
        if list(group.replicates) == list(range(count)) and None not in group.rewards:
            continue
        scored = sum(reward is not None for reward in group.rewards)
        numbers = ", ".join(str(replicate) for replicate in group.replicates) or "none"
        expected = f"replicates 0 to {count - 1}, each scored once" if count else "no episodes"
        found.append((_place(key), expected, f"{scored} scored of the replicates {numbers}"))
    return found


def _fitness(campaign: Campaign, generation: Closed) -> list[tuple[str, str, str]]:
    """Compare stored fitness to the bit with what the rewards amount to; the episodes are known to be complete."""
    found: list[tuple[str, str, str]] = []
    amounts: dict[int, tuple[float, int]] = {}
    if generation.kind is GenerationKind.TRAINING:
        rewards = fitness_of(_outcomes(generation), campaign.search.candidates, campaign.search.trials)
        if isinstance(rewards, Incomplete):
            return [("fitness", "a reward for every sample", f"{len(rewards.missing)} are missing")]
        try:
            vector = shaped(rewards, generation.effort, campaign)
        except ValueError as error:
            return [("fitness", "turns and costs of every sample", str(error))]
        amounts = dict(enumerate(zip(vector.tolist(), ranks(vector), strict=True)))
        if generation.fitness != pack64(vector):
            found.append(
                ("fitness", "the mean rewards of its samples with bonuses and costs, to the bit", "another vector")
            )
    for key, group in generation.groups.items():
        fitness, rank = amounts[key[1]] if key[0] is CandidateKind.SAMPLE else (_mean(group), None)
        if (group.fitness, group.rank) != (fitness, rank):
            expected, seen = f"fitness {fitness!r}, rank {rank}", f"fitness {group.fitness!r}, rank {group.rank}"
            found.append((_place(key), expected, seen))
    return found


def _mean(group: Group) -> float:
    return fsum(reward for reward in group.rewards if reward is not None) / len(group.rewards)


def _outcomes(generation: Closed) -> list[Outcome]:
    return [
        Outcome(index, replicate, reward)
        for (kind, index, _), group in generation.groups.items()
        if kind is CandidateKind.SAMPLE
        for replicate, reward in zip(group.replicates, group.rewards, strict=True)
    ]


def _place(key: Key) -> str:
    kind, index, purpose = key
    return f"{kind} {index}, {purpose}"
