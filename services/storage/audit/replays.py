"""I6: the stored generations are those of the learner that the campaign's seed and their fitness vectors lead to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Row, text

from services.core.ids import CampaignId
from services.core.optimiser.ports import Learner
from services.core.states import GenerationKind
from services.storage.audit.findings import Finding, Judge, Scope
from services.storage.audit.learners import History, Told, checkpoints_of, digest64, fitted_of
from services.storage.binary import pack32, unpack32, unpack64
from services.storage.records import Float64

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
COORDINATORS = text("select name, theta from coordinator where name = any(cast(:names as text[]))")
RELEASED = text("""
select campaign_id, name, generation, sha256(theta) as theta from coordinator
where campaign_id = any(cast(:ids as bigint[])) order by campaign_id, id
""")
MEANS = text("""
select g.campaign_id, g.number, g.mean from generation g
join coordinator o on o.campaign_id = g.campaign_id and o.generation = g.number
where g.campaign_id = any(cast(:ids as bigint[]))
""")


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
    origins = {**_compared(conn, scope), **_forked(conn, scope)}
    return [
        History(
            scope.campaigns[campaign_id],
            campaign,
            generations.get(campaign_id, []),
            origins.get(campaign_id),
            fitted_of(conn, campaign_id, campaign),
            checkpoints_of(conn, scope, campaign_id, campaign),
        )
        for campaign_id, campaign in scope.specifications.items()
    ]


def _forked(conn: Connection, scope: Scope) -> dict[CampaignId, tuple[Float64, float]]:
    return {CampaignId(row.id): (unpack64(row.mean), row.sigma) for row in conn.execute(ORIGINS, scope.ids)}


def _compared(conn: Connection, scope: Scope) -> dict[CampaignId, tuple[Float64, float]]:
    """Return the vectors of released coordinators that campaigns compare, with the step size of their specification."""
    searches = {campaign_id: campaign.search for campaign_id, campaign in scope.specifications.items()}
    names = sorted({search.coordinator for search in searches.values() if search.coordinator is not None})
    rows = conn.execute(COORDINATORS, {"names": names}) if names else ()
    thetas = {row.name: unpack32(row.theta).astype(np.float64) for row in rows}
    return {
        campaign_id: (thetas[search.coordinator], search.sigma0)
        for campaign_id, search in searches.items()
        if search.coordinator in thetas
    }


def _grouped(rows: Sequence[Row[Any]]) -> dict[CampaignId, list[Row[Any]]]:
    return {CampaignId(key): list(group) for key, group in groupby(rows, key=lambda row: row.campaign_id)}


def _replayed(
    scope: Scope, history: History, released: Sequence[Row[Any]], means: Mapping[tuple[int, int], Float64]
) -> list[Finding]:
    name, fork = history.record.name, history.record.forked_from
    if fork is not None and history.origin is None:
        where = f"campaign {fork.campaign_id}, generation {fork.generation}"
        return [Finding(name, "the fork's origin", f"{where}, closed", "not there")]
    found, search = history.trained()
    found += _labelled(history)
    if search is not None:
        if search.generation < len(history.training):
            scope.searches[history.record.id] = search
        found += _measured(history, search)
        found += _coordinators(history, search, released, means)
    return [Finding(name, place, wanted, seen) for place, wanted, seen in found]


def _labelled(history: History) -> list[Told]:
    """A labelling generation opens before anything is learnt."""
    return [
        (f"generation {row.number}", "the mean, sigma and checksum of the campaign's beginning", "others")
        for row in history.standing
        if row.kind == GenerationKind.LABELLING
        and (row.checksum, row.sigma, row.mean)
        != (history.beginning.checksum(), history.beginning.sigma, digest64(history.beginning.mean))
    ]


def _measured(history: History, search: Learner) -> list[Told]:
    """The generations after the search measure means that it went through."""
    means = {row.mean for row in history.training} | {digest64(search.mean)}
    found = []
    for row in history.standing:
        if row.kind in (GenerationKind.TRAINING, GenerationKind.LABELLING):
            continue
        known = {digest64(search.mean)} if row.kind == GenerationKind.VALIDATION else means
        if (row.checksum, row.sigma) != (search.checksum(), search.sigma) or row.mean not in known:
            found.append((f"generation {row.number}", "checksum, sigma and a mean of the replayed search", "others"))
    return found


def _coordinators(
    history: History, search: Learner, released: Sequence[Row[Any]], means: Mapping[tuple[int, int], Float64]
) -> list[Told]:
    found = []
    for row in released:
        if row.campaign_id != history.record.id:
            continue
        mean = means.get((row.campaign_id, row.generation), search.mean)
        if row.theta != _digest32(mean):
            found.append((f"coordinator {row.name}", f"the mean of generation {row.generation}", "another vector"))
    return found


def _digest32(vector: npt.NDArray[np.float64]) -> bytes:
    return hashlib.sha256(pack32(vector)).digest()
