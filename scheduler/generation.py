"""The turn of a generation: close the finished one, open what comes next, in one transaction.

``advance`` looks at the state of the database and takes the step that is due, so it may be called after any event, any
number of times: a second call finds nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from scheduler.closing import result_of
from scheduler.opening import Composition, compose_evaluation, compose_training, compose_validation
from scheduler.release import release
from scheduler.searches import Searches, specification
from scheduler.stages import ClosedGeneration, Stage, next_stage, released
from services.core.campaign import Campaign
from services.core.errors import BudgetExhausted
from services.core.fitness import Incomplete
from services.core.ids import CampaignId
from services.core.optimiser.ports import Search
from services.core.problem import Split
from services.core.states import CampaignState, EpisodeState
from services.storage import campaign_states, campaigns, generations, problems
from services.storage.engine import Connection
from services.storage.records import CampaignRecord, GenerationRecord

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Turn:
    """One campaign at the moment of its turn, inside the transaction of an office holder."""

    conn: Connection
    epoch: int
    record: CampaignRecord
    campaign: Campaign
    searches: Searches


def advance(conn: Connection, epoch: int, campaign_id: CampaignId, searches: Searches) -> list[str]:
    """Take every step that is due for a campaign; return what was done, in words, for the log.

    Raises:
        LeadershipLost: another scheduler took office.
        ReplayMismatch: the stored search cannot be rebuilt; the campaign's state is left as it is.
    """
    done: list[str] = []
    if campaigns.by_id(conn, campaign_id).state is CampaignState.SUBMITTED:
        campaign_states.start(conn, campaign_id, epoch)
        done.append("started")
    record = campaigns.by_id(conn, campaign_id)
    if record.state is not CampaignState.RUNNING:
        searches.forget(campaign_id)
        return done
    turn = Turn(conn, epoch, record, specification(record), searches)
    opened = generations.open_of(conn, campaign_id)
    if opened is not None and not close(turn, opened, done):
        return done
    open_next(turn, done)
    return done


def close(turn: Turn, generation: GenerationRecord, done: list[str]) -> bool:
    """Close a generation whose episodes all have a reward; pause the campaign when one never will."""
    counts = generations.counts(turn.conn, generation.id)
    if failed := counts.get(EpisodeState.FAILED, 0):
        reason = f"generation {generation.number} is incomplete: {failed} episodes failed for good; see `campaign show`"
        if campaign_states.pause(turn.conn, turn.record.id, reason):
            done.append(f"paused: {reason}")
        return False
    if generations.unfinished(turn.conn, generation.id):
        return False
    result = result_of(turn.campaign, generation.kind, generations.outcomes(turn.conn, generation.id))
    if isinstance(result, Incomplete):
        campaign_states.pause(
            turn.conn, turn.record.id, f"generation {generation.number} lacks {len(result.missing)} rewards"
        )
        return False
    generations.close(
        turn.conn,
        generation.id,
        epoch=turn.epoch,
        fitness=result.fitness,
        scores=result.scores,
        summary=result.summary,
    )
    done.append(f"closed generation {generation.number}")
    return True


def open_next(turn: Turn, done: list[str]) -> None:
    """Open the next generation, or complete the campaign and release its coordinator."""
    search = turn.searches.at(turn.conn, turn.record, turn.campaign)
    history = generations.history(turn.conn, turn.record.id)
    closed = [closed_generation(generation) for generation in history]
    stage = next_stage(turn.campaign, closed)
    if stage is Stage.COMPLETE:
        done.append(
            f"released {release(turn.conn, turn.epoch, turn.record, turn.campaign, *chosen(history, closed, search))}"
        )
        campaign_states.complete(turn.conn, turn.record.id, turn.epoch, "all generations closed")
        turn.searches.forget(turn.record.id)
        done.append("completed")
        return
    number = len(history)
    mean = chosen(history, closed, search)[1] if stage is Stage.EVALUATE else search.mean
    composition = composed(turn, stage, number, search, mean)
    try:
        generations.open_generation(
            turn.conn,
            turn.record.id,
            epoch=turn.epoch,
            number=number,
            kind=composition.kind,
            mean=mean,
            sigma=search.sigma,
            checksum=search.checksum(),
            candidates=composition.candidates,
            episodes=composition.episodes,
        )
    except BudgetExhausted as error:
        campaign_states.exhaust(turn.conn, turn.record.id, error)
        done.append(str(error))
        return
    done.append(f"opened generation {number} ({composition.kind}) with {len(composition.episodes)} episodes")


def composed(turn: Turn, stage: Stage, number: int, search: Search, mean: Vector) -> Composition:
    """Compose the generation of a stage from the campaign's stored problems."""

    def ids(split: Split) -> list[int]:
        return [problem_id for problem_id, _ in problems.load(turn.conn, turn.record.id, split)]

    if stage is Stage.TRAIN:
        return compose_training(turn.campaign, number, search.ask(), mean, ids(Split.TRAINING), ids(Split.VALIDATION))
    if stage is Stage.VALIDATE:
        return compose_validation(turn.campaign, mean, ids(Split.VALIDATION))
    if stage is Stage.EVALUATE:
        return compose_evaluation(turn.campaign, mean, ids(Split.HELDOUT))
    if stage is Stage.COMPLETE:
        raise ValueError("a completed campaign opens nothing")
    assert_never(stage)


def closed_generation(generation: GenerationRecord) -> ClosedGeneration:
    """The part of a stored generation that decides what comes next."""
    score = (generation.summary or {}).get("mean_score")
    return ClosedGeneration(generation.number, generation.kind, None if score is None else float(score))


def chosen(
    history: list[GenerationRecord], closed: list[ClosedGeneration], search: Search
) -> tuple[int, Vector, float | None]:
    """Return the released mean: its generation, the vector, its validation score (None: it was not validated)."""
    number = released([entry for entry in closed if entry.kind != "evaluation"])
    if number is None:
        return search.generation, search.mean, None
    return number, history[number].mean, closed[number].validation
