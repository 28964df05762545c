"""What a checkpoint says about a coordinator whose campaign is in this database."""

from __future__ import annotations

from importlib import metadata

import numpy as np

from services.checkpoint.description import Description, Origin, PoolModel, Score, Scores, Training, prompts_digest
from services.cli import heldout
from services.cli.candidates import preset_text
from services.cli.releasing import trained_generations
from services.config import document
from services.core.campaign import Campaign
from services.core.fingerprint import Fingerprint
from services.core.policy.layout import Layout
from services.core.seeds import derive
from services.core.states import CandidateKind, GenerationKind, Purpose
from services.reports.comparison import COORDINATOR, Line, compare, interval_of
from services.reports.records import PolicyKind
from services.storage import campaigns, coordinators, evaluations, generations
from services.storage.engine import Connection
from services.storage.records import CampaignRecord, CoordinatorRecord

MEASURED = (PolicyKind.COORDINATOR, PolicyKind.SINGLE, PolicyKind.RANDOM)


def describe(conn: Connection, row: CoordinatorRecord) -> Description:
    """Return the description of a coordinator that a campaign of this database released."""
    if row.campaign_id is None:
        raise ValueError("an imported coordinator brings its description")
    record = campaigns.by_id(conn, row.campaign_id)
    campaign = document.from_json(record.spec)
    return Description(
        name=row.name,
        encoder=campaign.encoder,
        reading=None if row.reading is None else Fingerprint.from_json(row.reading),
        layout=Layout.from_json(row.layout),
        pool=tuple(PoolModel(model.name, model.litellm_model) for model in campaign.pool),
        protocol=campaign.protocol,
        prompts=prompts_digest(),
        origin=Origin(record.name, record.spec_sha256, record.seed, row.generation, dict(record.versions)),
        training=training_of(conn, record, campaign, row.generation),
        scores=Scores(validation_of(conn, record, row), evaluation_of(conn, record, campaign, row)),
        product=metadata.version("trinity-coordinator"),
    )


def training_of(conn: Connection, record: CampaignRecord, campaign: Campaign, generation: int) -> Training:
    spend, search = record.spend, campaign.search
    return Training(
        generations=trained_generations(coordinators.openings(conn, record.id), generation),
        population=search.population,
        replicates=search.replicates,
        episodes=spend.episodes_reserved,
        calls=spend.calls_started,
        tokens=spend.tokens_charged,
        usd=spend.usd_charged,
        preset=preset_text(campaign),
    )


def validation_of(conn: Connection, record: CampaignRecord, row: CoordinatorRecord) -> Score | None:
    """Return the validation score of this very mean, None when it has none."""
    found = [each for each in generations.history(conn, record.id) if each.number == row.generation]
    rewards = [
        outcome.reward
        for generation in found
        for outcome in generations.outcomes(conn, generation.id)
        if outcome.purpose is Purpose.VALIDATION and outcome.candidate_kind is CandidateKind.MEAN
        if outcome.reward is not None
    ]
    if not rewards:
        return None
    interval = interval_of(rewards, derive(record.seed, "report", "validation"))
    return Score(
        PolicyKind.COORDINATOR.value, COORDINATOR, len(rewards), interval.estimate, interval.low, interval.high
    )


def evaluation_of(
    conn: Connection, record: CampaignRecord, campaign: Campaign, row: CoordinatorRecord
) -> tuple[Score, ...]:
    """Return the held-out scores; the coordinator's own only if it was this mean that was compared."""
    scores = heldout.scores(evaluations.read(conn, record.id).episodes, campaign)
    lines = compare(scores, record.seed).lines
    compared = any(
        np.array_equal(each.mean.astype(np.float32), row.theta)
        for each in generations.history(conn, record.id, GenerationKind.EVALUATION)
    )
    wanted = [kind for kind in MEASURED if compared or kind is not PolicyKind.COORDINATOR]
    return tuple(score(line) for line in lines if line.kind in wanted)


def score(line: Line) -> Score:
    interval = line.interval
    return Score(line.kind.value, line.policy, line.n, interval.estimate, interval.low, interval.high)
