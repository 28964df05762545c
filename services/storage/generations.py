"""Generations: opened with all their episodes in one transaction, closed when no episode is left unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy.typing as npt
from sqlalchemy import Connection, Row, text

from services.core.errors import BudgetExhausted, IllegalTransition, SpecError
from services.core.events import EventType
from services.core.ids import CampaignId, GenerationId
from services.core.states import UNFINISHED, CandidateKind, EpisodeState, GenerationKind, GenerationState, Purpose
from services.storage import campaigns, events, leadership
from services.storage.binary import pack32, pack64, pack_json, unpack64, unpack_json
from services.storage.records import CandidateScore, GenerationRecord, Json, NewCandidate, NewEpisode, Outcome

RESERVE = text("""
update campaign set episodes_reserved = episodes_reserved + :wanted
where id = :campaign and state = 'running' and episodes_reserved + :wanted <= episode_budget
returning id
""")
WHY_NOT = text("select name, state, episodes_reserved, episode_budget from campaign where id = :campaign")

INSERT = text("""
insert into generation (campaign_id, number, kind, state, epoch, mean, sigma, checksum, memory)
values (:campaign, :number, :kind, 'open', :epoch, :mean, :sigma, :checksum, :memory)
returning id
""")

# All vectors travel as one value in binary form: an array of them would be written out as text, ten times slower.
INSERT_CANDIDATES = text("""
insert into candidate (generation_id, kind, index, theta)
select :generation, c.kind, c.index, case when c.length > 0 then substring(v.vectors from c.start for c.length) end
from (select cast(:vectors as bytea) as vectors) v
cross join unnest(cast(:kinds as text[]), cast(:indexes as integer[]), cast(:starts as integer[]),
    cast(:lengths as integer[])) with ordinality as c(kind, index, start, length, place)
order by c.place
returning id, kind, index as place_in_kind
""")

INSERT_EPISODES = text("""
insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state)
select :campaign, :generation, e.candidate, e.purpose, e.replicate, e.problem, e.seed, 'pending'
from unnest(cast(:candidates as bigint[]), cast(:purposes as text[]), cast(:replicates as integer[]),
    cast(:problems as bigint[]), cast(:seeds as bigint[]))
    with ordinality as e(candidate, purpose, replicate, problem, seed, place)
order by e.place
""")

SELECT = """
select id, campaign_id, number, kind, state, epoch, mean, sigma, checksum, fitness, summary, opened_at, closed_at
from generation
"""
OPEN_OF = text(SELECT + "where campaign_id = :campaign and state = 'open'")
OPEN_OF_LOCKED = text(SELECT + "where campaign_id = :campaign and state = 'open' for no key update")
HISTORY = text(
    SELECT + "where campaign_id = :campaign and state = 'closed' and kind = coalesce(:kind, kind) order by number"
)

COUNTS = text("select state, count(*) as episodes from episode where generation_id = :generation group by state")

OUTCOMES = text("""
select c.kind, c.index as place_in_kind, e.purpose, e.replicate, e.problem_id, e.state, e.reward, e.turns
from episode e join candidate c on c.id = e.candidate_id
where e.generation_id = :generation
order by c.kind, c.index, e.purpose, e.replicate
""")

CLOSE = text("""
update generation set state = 'closed', fitness = :fitness, summary = cast(:summary as jsonb),
    closed_at = clock_timestamp()
where id = :generation and state = 'open' and not exists (
    select from episode where generation_id = :generation and state in ('pending', 'queued', 'running'))
returning campaign_id, number
""")
STATE_OF = text("select number, state from generation where id = :generation")

# A campaign keeps its means only: the samples can be drawn again from the seed and the fitness vectors.
SCORE_CANDIDATES = text("""
update candidate c set fitness = s.fitness, rank = s.rank, theta = case when c.kind <> 'sample' then c.theta end
from candidate o left join unnest(cast(:kinds as text[]), cast(:indexes as integer[]),
    cast(:fitness as double precision[]), cast(:ranks as integer[])) as s(kind, index, fitness, rank)
    on s.kind = o.kind and s.index = o.index
where o.generation_id = :generation and c.id = o.id
""")


def open_generation(
    conn: Connection,
    campaign_id: CampaignId,
    *,
    epoch: int,
    number: int,
    kind: GenerationKind,
    mean: npt.NDArray[Any],
    sigma: float,
    checksum: str,
    candidates: Sequence[NewCandidate],
    episodes: Sequence[NewEpisode],
    memory: npt.NDArray[Any] | None = None,
) -> GenerationId:
    """Insert a generation with its candidates and pending episodes, reserve the episodes, and tell it in the journal.

    Args:
        conn: an open transaction.
        campaign_id: its campaign, in state running.
        epoch: the leadership that opens it.
        number: 0 for the first; each number exists once.
        kind: what it is for.
        mean: mean of the search, (dimension,), kept as float64.
        sigma: step size of the search.
        checksum: of the search state at this point; a replay has to meet it.
        candidates: what acts.
        episodes: one per candidate, purpose and replicate, in the order in which they will be sent.
        memory: what the learner remembers beyond its mean, kept as float64; None for one that is told again.

    Raises:
        BudgetExhausted: the episodes do not fit under the campaign's limit; scope ``episodes``.
        IllegalTransition: the campaign is not running.
        LeadershipLost: another scheduler took office.
    """
    leadership.require(conn, epoch)
    _reserve(conn, campaign_id, len(episodes))
    values = {"campaign": campaign_id, "number": number, "kind": kind.value, "epoch": epoch, "mean": pack64(mean)}
    kept = {"sigma": float(sigma), "checksum": checksum, "memory": None if memory is None else pack64(memory)}
    inserted = conn.execute(INSERT, {**values, **kept}).scalar_one()
    generation_id = GenerationId(inserted)
    ids = _insert_candidates(conn, generation_id, candidates)
    columns = {
        "candidates": [ids[episode.candidate] for episode in episodes],
        "purposes": [episode.purpose.value for episode in episodes],
        "replicates": [episode.replicate for episode in episodes],
        "problems": [episode.problem_id for episode in episodes],
        "seeds": [episode.seed for episode in episodes],
    }
    conn.execute(INSERT_EPISODES, {"campaign": campaign_id, "generation": generation_id, **columns})
    events.append(conn, campaign_id, EventType.GENERATION_OPENED, {"generation": number, "episodes": len(episodes)})
    return generation_id


def open_of(conn: Connection, campaign_id: CampaignId, *, for_update: bool = True) -> GenerationRecord | None:
    """Return the campaign's open generation, if there is one; ``for_update`` locks campaign and generation."""
    if for_update:
        campaigns.lock(conn, [campaign_id])
    row = conn.execute(OPEN_OF_LOCKED if for_update else OPEN_OF, {"campaign": campaign_id}).one_or_none()
    return None if row is None else _record(row)


def history(conn: Connection, campaign_id: CampaignId, kind: GenerationKind | None = None) -> list[GenerationRecord]:
    """Return the closed generations by number; the training ones rebuild the search."""
    values = {"campaign": campaign_id, "kind": None if kind is None else kind.value}
    return [_record(row) for row in conn.execute(HISTORY, values)]


def counts(conn: Connection, generation_id: GenerationId) -> dict[EpisodeState, int]:
    """Return how many episodes are in each state; states without any are left out."""
    rows = conn.execute(COUNTS, {"generation": generation_id})
    return {EpisodeState(row.state): row.episodes for row in rows}


def unfinished(conn: Connection, generation_id: GenerationId) -> int:
    """Return how many episodes are still pending, queued or running."""
    return sum(count for state, count in counts(conn, generation_id).items() if state in UNFINISHED)


def outcomes(conn: Connection, generation_id: GenerationId) -> list[Outcome]:
    """Return every episode, ordered by candidate kind and index, purpose, replicate."""
    return [
        Outcome(
            CandidateKind(row.kind),
            row.place_in_kind,
            Purpose(row.purpose),
            row.replicate,
            row.problem_id,
            EpisodeState(row.state),
            row.reward,
            row.turns,
        )
        for row in conn.execute(OUTCOMES, {"generation": generation_id})
    ]


def close(
    conn: Connection,
    generation_id: GenerationId,
    *,
    epoch: int,
    fitness: npt.NDArray[Any] | None,
    scores: Sequence[CandidateScore] = (),
    summary: Json,
) -> None:
    """Close a generation with what came of it and drop the vectors of its samples.

    Args:
        conn: an open transaction, in which ``open_of`` has locked the generation.
        generation_id: an open generation without unfinished episodes.
        epoch: the leadership that closes it.
        fitness: float64, one entry per sample in index order; given exactly for a training generation.
        scores: fitness and rank of candidates.
        summary: figures to keep.

    Raises:
        IllegalTransition: it is not open, or an episode is unfinished.
        LeadershipLost: another scheduler took office.
    """
    leadership.require(conn, epoch)
    packed = None if fitness is None else pack64(fitness)
    values = {"generation": generation_id, "fitness": packed, "summary": pack_json(summary)}
    closed = conn.execute(CLOSE, values).one_or_none()
    if closed is None:
        _refuse_close(conn, generation_id)
    else:
        _score_candidates(conn, generation_id, scores)
        events.append(conn, closed.campaign_id, EventType.GENERATION_CLOSED, {"generation": closed.number})


def _reserve(conn: Connection, campaign_id: CampaignId, wanted: int) -> None:
    if conn.execute(RESERVE, {"campaign": campaign_id, "wanted": wanted}).scalar_one_or_none() is not None:
        return
    row = conn.execute(WHY_NOT, {"campaign": campaign_id}).one_or_none()
    if row is None:
        raise SpecError("campaign", campaign_id, "the number of a campaign")
    if row.state != "running":
        raise IllegalTransition(f"campaign {row.name}", row.state, "opening a generation", "only a running one can")
    raise BudgetExhausted("episodes", row.episode_budget, 0, row.episodes_reserved, wanted)


def _insert_candidates(conn: Connection, generation_id: GenerationId, new: Sequence[NewCandidate]) -> list[int]:
    vectors = [b"" if candidate.theta is None else pack32(candidate.theta) for candidate in new]
    lengths = [len(vector) for vector in vectors]
    columns = {
        "kinds": [candidate.kind.value for candidate in new],
        "indexes": [candidate.index for candidate in new],
        "starts": list(accumulate(lengths, initial=1))[:-1],
        "lengths": lengths,
        "vectors": b"".join(vectors),
    }
    rows = conn.execute(INSERT_CANDIDATES, {"generation": generation_id, **columns})
    ids = {(row.kind, row.place_in_kind): int(row.id) for row in rows}
    return [ids[candidate.kind.value, candidate.index] for candidate in new]


def _score_candidates(conn: Connection, generation_id: GenerationId, scores: Sequence[CandidateScore]) -> None:
    columns = {
        "kinds": [score.kind.value for score in scores],
        "indexes": [score.index for score in scores],
        "fitness": [float(score.fitness) for score in scores],
        "ranks": [score.rank for score in scores],
    }
    conn.execute(SCORE_CANDIDATES, {"generation": generation_id, **columns})


def _refuse_close(conn: Connection, generation_id: GenerationId) -> None:
    row = conn.execute(STATE_OF, {"generation": generation_id}).one_or_none()
    if row is None:
        raise SpecError("generation", generation_id, "the number of a generation")
    left = unfinished(conn, generation_id)
    raise IllegalTransition(f"generation {row.number}", row.state, "closed", f"{left} of its episodes are unfinished")


def _record(row: Row[Any]) -> GenerationRecord:
    return GenerationRecord(
        id=GenerationId(row.id),
        campaign_id=CampaignId(row.campaign_id),
        number=row.number,
        kind=GenerationKind(row.kind),
        state=GenerationState(row.state),
        epoch=row.epoch,
        mean=unpack64(row.mean),
        sigma=row.sigma,
        checksum=row.checksum,
        fitness=None if row.fitness is None else unpack64(row.fitness),
        summary=None if row.summary is None else unpack_json(row.summary),
        opened_at=row.opened_at,
        closed_at=row.closed_at,
    )
