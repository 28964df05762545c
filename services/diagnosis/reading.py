"""From the database to the evidence: everything of one moment, and the search told again from its seed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.config import document
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.optimiser.ports import Search
from services.core.optimiser.replay import Replay
from services.core.optimiser.searches import search_of
from services.core.optimiser.sep_cma_es import SepCmaEs
from services.core.policy.layout import Layout
from services.core.problem import Problem, Split
from services.core.statistics.theory import condition
from services.core.statistics.variance import Rewards
from services.diagnosis.evidence import Evidence, SearchTrace
from services.storage import campaigns, coordinators, diagnosis, problems, readings, turns
from services.storage.diagnosis import PlayedEpisode, RewardRow
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord

PLAYED_EPISODES = 512  # the paper's REINFORCE batch: one generation of 32 candidates with 16 replicates


def of_campaign(database: Database, name: str) -> Evidence:
    """Return what the database holds of a campaign.

    Raises:
        SpecError: there is none of that name, or it has another search than sep-CMA-ES.
        ReplayMismatch: its search cannot be told again here.
    """
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        campaign = document.from_json(record.spec)
        layout = Layout.of_campaign(campaign)
        log = turns.log(conn, record.id)
        replay = _replay(conn, record, campaign, log)
        rewards = diagnosis.rewards(conn, record.id)
        choices = tuple(diagnosis.choices(conn, record.id))
        played = _played(conn, record, campaign, len(log))
        released = coordinators.of_campaign(conn, record.id)
        reading = readings.of_campaign(conn, record.id)
        by_split = problems_of(conn, record)
    trace = told_again(replay, [entry.fitness for entry in log], by_generation(rewards, campaign))
    if released is not None:
        theta = released.theta.astype(np.float64)
        vector = f"coordinator {released.name} (generation {released.generation})"
    else:
        theta, vector = trace.means[-1], f"the search's mean after {len(log)} generations"
    return Evidence(
        subject=f"campaign {record.name}",
        seed=record.seed,
        agents=tuple(model.name for model in campaign.pool),
        encoder=campaign.encoder,
        protocol=campaign.protocol,
        layout=layout,
        theta=theta,
        vector=vector,
        problems=by_split,
        reading=reading,
        logged=campaign.search,
        trace=trace,
        choices=choices,
        played=played,
    )


def told_again(replay: Replay, fitness: list[NDArray[np.float64]], rewards: dict[int, Rewards]) -> SearchTrace:
    """Step through a replay and keep what was sampled where; samples are kept in single precision."""
    search = replay.search
    samples, means, conditions = [], [search.mean], [scaling(search)]
    for number in range(len(fitness)):
        scale = search.sigma * scaling(search)
        samples.append(((search.ask() - search.mean) / scale).astype(np.float32))
        replay.step()
        means.append(search.mean)
        conditions.append(scaling(search))
        if number not in rewards:
            raise ValueError(f"generation {number} is closed, but its rewards are not complete")
    return SearchTrace(
        tuple(samples),
        tuple(fitness),
        tuple(rewards[number] for number in range(len(fitness))),
        tuple(means),
        tuple(condition(each) for each in conditions),
    )


def scaling(search: Search) -> NDArray[np.float64]:
    """Return the search's diagonal scaling D, shape (n,)."""
    strategy = getattr(search, "_strategy")  # noqa: B009 - the port has no name for it
    found: NDArray[np.float64] = np.broadcast_to(
        np.asarray(strategy.sigma_vec.scaling, dtype=np.float64), (search.dimension,)
    )
    return found


def by_generation(rows: list[RewardRow], campaign: Campaign) -> dict[int, Rewards]:
    """Return the rewards of every complete training generation, counted from 0, as (population, replicates)."""
    found: dict[int, Rewards] = {}
    shape = (campaign.search.population, campaign.search.replicates)
    for row in rows:
        place = row.generation - campaign.first_training
        found.setdefault(place, np.full(shape, math.nan))[row.candidate, row.replicate] = row.reward
    return {number: rewards for number, rewards in found.items() if np.isfinite(rewards).all()}


def _replay(conn: Connection, record: CampaignRecord, campaign: Campaign, log: list[turns.LogEntry]) -> Replay:
    fitted = turns.opening_mean(conn, record.id, campaign.first_training) if campaign.fits_labels else None
    start, sigma0 = fitted, campaign.search.sigma0
    if record.forked_from is not None:
        origin = turns.mean(conn, record.forked_from.campaign_id, record.forked_from.generation)
        if origin is not None:
            start, sigma0 = origin.vector, origin.sigma
    search = search_of(campaign, record.seed, record.dimension, start, sigma0)
    version = record.versions.get("search", "an unknown version")
    if not isinstance(search, SepCmaEs):
        raise SpecError("search.algorithm", str(campaign.search.algorithm), "sep_cma_es: its samples are diagnosed")
    return Replay(search, [entry.fitness for entry in log], [entry.checksum for entry in log], version)


def _played(conn: Connection, record: CampaignRecord, campaign: Campaign, closed: int) -> tuple[PlayedEpisode, ...]:
    """Return the conversations of the newest generations, enough for one batch."""
    each = campaign.search.population * campaign.search.replicates
    wanted = range(max(0, closed - math.ceil(PLAYED_EPISODES / each)), closed)
    return tuple(diagnosis.played(conn, record.id, [campaign.first_training + place for place in wanted]))


def problems_of(conn: Connection, record: CampaignRecord) -> dict[Split, tuple[Problem, ...]]:
    """Return the problems that a campaign was submitted with, by split."""
    return {split: tuple(problem for _, problem in problems.load(conn, record.id, split)) for split in Split}
