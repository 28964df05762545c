"""I6: the stored generations are those of the search that the campaign's seed and their fitness vectors lead to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Row, text

from services.core.campaign import Campaign
from services.core.errors import ReplayMismatch, SpecError
from services.core.ids import CampaignId
from services.core.optimiser.ports import Search
from services.core.optimiser.replay import Replay
from services.core.policy.layout import Layout
from services.core.states import GenerationKind, GenerationState
from services.storage.audit.findings import Finding, Judge, Scope
from services.storage.binary import pack32, pack64, unpack64
from services.storage.records import CampaignRecord, Float64

# Vectors are compared by their digests: a long campaign's means would fill the memory.
GENERATIONS = text("""
select id, campaign_id, number, kind, state, sigma, checksum, fitness, sha256(mean) as mean from generation
where campaign_id = any(cast(:ids as bigint[])) order by campaign_id, number
""")
ORIGINS = text("""
select c.id, g.mean, g.sigma
from campaign c join generation g on g.campaign_id = c.forked_from_id and g.number = c.forked_from_generation
where c.id = any(cast(:ids as bigint[])) and g.state = 'closed'
""")
RELEASED = text("""
select campaign_id, name, generation, sha256(theta) as theta from coordinator
where campaign_id = any(cast(:ids as bigint[])) order by campaign_id, id
""")
MEANS = text("""
select g.campaign_id, g.number, g.mean from generation g
join coordinator o on o.campaign_id = g.campaign_id and o.generation = g.number
where g.campaign_id = any(cast(:ids as bigint[]))
""")


@dataclass(frozen=True)
class History:
    """A campaign's search as stored; ``origin`` is where a fork starts, None also when that is not there."""

    record: CampaignRecord
    campaign: Campaign
    generations: Sequence[Row[Any]]
    origin: tuple[Float64, float] | None

    @property
    def training(self) -> list[Row[Any]]:
        return [
            row
            for row in self.generations
            if row.kind == GenerationKind.TRAINING and row.state != GenerationState.CANCELLED
        ]

    def replay(self) -> Replay:
        """Return the search before its first step; ValueError or SpecError when there is none that fits."""
        search = self.campaign.search
        start, sigma0 = self.origin or (Layout.of_campaign(self.campaign).start(self.record.seed), search.sigma0)
        told = [unpack64(row.fitness) for row in self.training if row.fitness is not None]
        checksums = [row.checksum for row in self.training]
        version = self.record.versions.get("search", "an unknown version")
        seed, dimension = self.record.seed, self.record.dimension
        return Replay(seed, dimension, search.population, sigma0, told, checksums, version, start, search.step_size)


def read(conn: Connection, scope: Scope) -> Judge:
    histories = _histories(conn, scope)
    released = conn.execute(RELEASED, scope.ids).all()
    means = {(row.campaign_id, row.number): unpack64(row.mean) for row in conn.execute(MEANS, scope.ids)}

    def judge() -> list[Finding]:
        unreadable = [
            Finding(scope.name(campaign_id), "specification", "one that this code reads", reason)
            for campaign_id, reason in scope.unreadable.items()
        ]
        return [*unreadable, *(found for each in histories for found in _replayed(scope, each, released, means))]

    return judge


def _histories(conn: Connection, scope: Scope) -> list[History]:
    generations = _grouped(conn.execute(GENERATIONS, scope.ids).all())
    origins = {row.id: (unpack64(row.mean), row.sigma) for row in conn.execute(ORIGINS, scope.ids)}
    return [
        History(scope.campaigns[campaign_id], campaign, generations.get(campaign_id, []), origins.get(campaign_id))
        for campaign_id, campaign in scope.specifications.items()
    ]


def _grouped(rows: Sequence[Row[Any]]) -> dict[CampaignId, list[Row[Any]]]:
    return {CampaignId(key): list(group) for key, group in groupby(rows, key=lambda row: row.campaign_id)}


def _replayed(
    scope: Scope, history: History, released: Sequence[Row[Any]], means: Mapping[tuple[int, int], Float64]
) -> list[Finding]:
    name, fork = history.record.name, history.record.forked_from
    if fork is not None and history.origin is None:
        where = f"campaign {fork.campaign_id}, generation {fork.generation}"
        return [Finding(name, "the fork's origin", f"{where}, closed", "not there")]
    found, search = _trained(history)
    if search is not None:
        if search.generation < len(history.training):
            scope.searches[history.record.id] = search
        found += _measured(history, search)
        found += _coordinators(history, search, released, means)
    return [Finding(name, place, wanted, seen) for place, wanted, seen in found]


def _trained(history: History) -> tuple[list[tuple[str, str, str]], Search | None]:
    """Step through the training generations; the search is None when the stored ones do not lead to its end."""
    found: list[tuple[str, str, str]] = []
    place = "history"
    try:
        again = history.replay()
        for row in history.training:
            place = f"generation {row.number}"
            found += [(place, *difference) for difference in _differences(row, again.search)]
            again.step()
    except (ReplayMismatch, SpecError, ValueError) as error:
        return [*found, (place, "a search that replays", str(error))], None
    return found, again.search


def _differences(row: Row[Any], search: Search) -> list[tuple[str, str]]:
    found = []
    if row.mean != _digest64(search.mean):
        found.append(("the mean of the replayed search, to the bit", "another mean"))
    if row.sigma != search.sigma:
        found.append((f"sigma {search.sigma!r}, by replay", f"sigma {row.sigma!r}"))
    return found


def _measured(history: History, search: Search) -> list[tuple[str, str, str]]:
    """The generations after the search measure means that it went through."""
    means = {row.mean for row in history.training} | {_digest64(search.mean)}
    found = []
    for row in history.generations:
        if row.kind == GenerationKind.TRAINING or row.state == GenerationState.CANCELLED:
            continue
        known = {_digest64(search.mean)} if row.kind == GenerationKind.VALIDATION else means
        if (row.checksum, row.sigma) != (search.checksum(), search.sigma) or row.mean not in known:
            found.append((f"generation {row.number}", "checksum, sigma and a mean of the replayed search", "others"))
    return found


def _coordinators(
    history: History, search: Search, released: Sequence[Row[Any]], means: Mapping[tuple[int, int], Float64]
) -> list[tuple[str, str, str]]:
    found = []
    for row in released:
        if row.campaign_id != history.record.id:
            continue
        mean = means.get((row.campaign_id, row.generation), search.mean)
        if row.theta != _digest32(mean):
            found.append((f"coordinator {row.name}", f"the mean of generation {row.generation}", "another vector"))
    return found


def _digest64(vector: npt.NDArray[np.float64]) -> bytes:
    return hashlib.sha256(pack64(vector)).digest()


def _digest32(vector: npt.NDArray[np.float64]) -> bytes:
    return hashlib.sha256(pack32(vector)).digest()
