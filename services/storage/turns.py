"""What the scheduler reads at a turn of generations: a handful of short rows, however long the campaign's history.

No specification, no problem texts and no vectors of old generations: those are read once, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from services.core.errors import SpecError
from services.core.ids import CampaignId, GenerationId
from services.core.problem import Split
from services.core.states import CampaignState, GenerationKind, GenerationState
from services.storage.binary import unpack64, unpack_json
from services.storage.records import Float64, Fork, Json

# "for no key update" of the campaign keeps its state, and every other step of it, until the transaction ends.
CAMPAIGN = text("""
select id, name, state, seed, dimension, versions, spec_sha256, forked_from_id, forked_from_generation
from campaign where id = :campaign for no key update
""")
RUNNING = text("select id from campaign where state = 'running' order by id")
NAME = text("select name from campaign where id = :campaign")
SPEC = text("select spec from campaign where id = :campaign")
PROBLEM_IDS = text("select id from problem where campaign_id = :campaign and split = :split order by position")

OPEN = text("""
select id, number, kind from generation where campaign_id = :campaign and state = 'open' for no key update
""")
NEWEST = text("""
select number, kind, checksum, fitness from generation
where campaign_id = :campaign and state = 'closed' order by number desc limit 1
""")
LOG = text("""
select checksum, fitness from generation
where campaign_id = :campaign and state = 'closed' and kind = 'training' order by number
""")
VALIDATED = text("""
select number, cast(summary ->> 'mean_score' as double precision) as score from generation
where campaign_id = :campaign and state = 'closed' and kind <> 'evaluation' and summary ? 'mean_score'
order by number
""")
# The mean of an evaluation is the released one; where nothing was validated that is the learner's own, too.
CHECKPOINT = text("""
select number, kind, state, mean, memory, checksum from generation
where campaign_id = :campaign and state <> 'cancelled' and (kind <> 'evaluation' or not :validated)
order by number desc limit 1
""")
OPENING_MEAN = text("select mean from generation where campaign_id = :campaign and number = :number")
MEAN = text("""
select mean, sigma from generation where campaign_id = :campaign and number = :number and state = 'closed'
""")


@dataclass(frozen=True)
class Brief:
    """A campaign without its specification and its spend."""

    id: CampaignId
    name: str
    state: CampaignState
    seed: int
    dimension: int
    versions: Mapping[str, str]
    spec_sha256: str
    forked_from: Fork | None


@dataclass(frozen=True)
class OpenGeneration:
    id: GenerationId
    number: int
    kind: GenerationKind


@dataclass(frozen=True)
class Newest:
    """The newest closed generation; ``checksum`` of the search at its opening, ``fitness`` exactly if it trained."""

    number: int
    kind: GenerationKind
    checksum: str
    fitness: Float64 | None


@dataclass(frozen=True)
class Checkpoint:
    """A learner at the opening of the newest generation that has its own mean; ``memory`` of those that have one."""

    number: int
    kind: GenerationKind
    closed: bool
    mean: Float64
    memory: Float64 | None
    checksum: str


@dataclass(frozen=True)
class LogEntry:
    """One told generation, all that a replay of the search needs."""

    checksum: str
    fitness: Float64


@dataclass(frozen=True)
class Mean:
    """The search's mean and step size at the opening of a generation."""

    vector: Float64
    sigma: float


def running(conn: Connection) -> list[CampaignId]:
    """Return the campaigns in state running in the order of submission."""
    return [CampaignId(found) for found in conn.execute(RUNNING).scalars()]


def brief(conn: Connection, campaign_id: CampaignId) -> Brief:
    """Lock a campaign for its turn and return it.

    Raises:
        SpecError: there is none with that number.
    """
    row = conn.execute(CAMPAIGN, {"campaign": campaign_id}).one_or_none()
    if row is None:
        raise SpecError("campaign", campaign_id, "the number of a campaign")
    origin = row.forked_from_id
    return Brief(
        campaign_id,
        row.name,
        CampaignState(row.state),
        row.seed,
        row.dimension,
        unpack_json(row.versions),
        row.spec_sha256,
        None if origin is None else Fork(CampaignId(origin), row.forked_from_generation),
    )


def name(conn: Connection, campaign_id: CampaignId) -> str:
    return str(conn.execute(NAME, {"campaign": campaign_id}).scalar_one())


def spec(conn: Connection, campaign_id: CampaignId) -> Json:
    """Return a campaign's specification; it never changes."""
    return unpack_json(conn.execute(SPEC, {"campaign": campaign_id}).scalar_one())


def problem_ids(conn: Connection, campaign_id: CampaignId, split: Split) -> tuple[int, ...]:
    """Return the numbers of a split's problems in its order; they never change."""
    return tuple(conn.execute(PROBLEM_IDS, {"campaign": campaign_id, "split": split.value}).scalars())


def open_of(conn: Connection, campaign_id: CampaignId) -> OpenGeneration | None:
    """Lock and return the open generation, if there is one; call it after ``brief``."""
    row = conn.execute(OPEN, {"campaign": campaign_id}).one_or_none()
    return None if row is None else OpenGeneration(GenerationId(row.id), row.number, GenerationKind(row.kind))


def newest(conn: Connection, campaign_id: CampaignId) -> Newest | None:
    """Return the newest closed generation; None before the first."""
    row = conn.execute(NEWEST, {"campaign": campaign_id}).one_or_none()
    if row is None:
        return None
    fitness = None if row.fitness is None else unpack64(row.fitness)
    return Newest(row.number, GenerationKind(row.kind), row.checksum, fitness)


def log(conn: Connection, campaign_id: CampaignId) -> list[LogEntry]:
    """Return the closed training generations in order."""
    return [LogEntry(row.checksum, unpack64(row.fitness)) for row in conn.execute(LOG, {"campaign": campaign_id})]


def checkpoint(conn: Connection, campaign_id: CampaignId, *, validated: bool) -> Checkpoint | None:
    """Return the learner's newest checkpoint; ``validated``, whether the released mean is chosen by validation."""
    row = conn.execute(CHECKPOINT, {"campaign": campaign_id, "validated": validated}).one_or_none()
    if row is None:
        return None
    memory = None if row.memory is None else unpack64(row.memory)
    closed = row.state == GenerationState.CLOSED
    return Checkpoint(row.number, GenerationKind(row.kind), closed, unpack64(row.mean), memory, row.checksum)


def opening_mean(conn: Connection, campaign_id: CampaignId, number: int) -> Float64 | None:
    """Return the mean with which a generation was opened, closed or not; None when there is no such generation."""
    found = conn.execute(OPENING_MEAN, {"campaign": campaign_id, "number": number}).scalar_one_or_none()
    return None if found is None else unpack64(found)


def validated(conn: Connection, campaign_id: CampaignId) -> dict[int, float]:
    """Return the validation score of each generation's opening mean that has one, by generation."""
    return {row.number: row.score for row in conn.execute(VALIDATED, {"campaign": campaign_id})}


def mean(conn: Connection, campaign_id: CampaignId, number: int) -> Mean | None:
    """Return the mean of one closed generation; None when it is not stored or not closed."""
    row = conn.execute(MEAN, {"campaign": campaign_id, "number": number}).one_or_none()
    return None if row is None else Mean(unpack64(row.mean), row.sigma)
