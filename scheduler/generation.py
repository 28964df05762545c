"""The turn of a generation: close the finished one, open what comes next, in one transaction.

``advance`` looks at the state of the database and takes the step that is due, so it may be called after any event, any
number of times: a second call finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from scheduler.closing import result_of
from scheduler.memory import Memory
from scheduler.opening import Composition, compose, vectors_of
from scheduler.release import release
from scheduler.searches import beginning
from scheduler.stages import OPENED, Stage, next_stage, released
from services.core.baselines.fitting import fit
from services.core.campaign import Algorithm, Campaign
from services.core.errors import BudgetExhausted, TrinityError
from services.core.fitness import Effort, Incomplete
from services.core.ids import CampaignId
from services.core.labels import Labels
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.searches import AnyLearner
from services.core.policy.layout import Layout
from services.core.problem import Split
from services.core.rivals import FITTED, RivalSpec
from services.core.states import UNFINISHED, CampaignState, EpisodeState
from services.storage import campaign_states, decisions, efforts, failures, generations, labels, turns
from services.storage.engine import Connection
from services.storage.turns import Brief, Newest, OpenGeneration

Vector = npt.NDArray[np.float64]

NAMED = 3  # failed episodes that a reason names


@dataclass(frozen=True)
class Turn:
    """One campaign at the moment of its turn, inside the transaction of an office holder."""

    conn: Connection
    epoch: int
    brief: Brief
    campaign: Campaign
    memory: Memory


@dataclass(frozen=True)
class Chosen:
    """The mean to release: its generation, the vector, and its validation score unless nothing was validated."""

    generation: int
    mean: Vector
    validation: float | None


def advance(conn: Connection, epoch: int, campaign_id: CampaignId, memory: Memory) -> list[str]:
    """Take every step that is due for a campaign; return what was done, in words, for the log.

    Raises:
        LeadershipLost: another scheduler took office.
        ReplayMismatch: the stored search cannot be rebuilt; the campaign's state is left as it is.
        StillComputing: the search takes longer to rebuild; undo the transaction and come again.
    """
    done: list[str] = []
    brief = turns.brief(conn, campaign_id)
    if brief.state is CampaignState.SUBMITTED:
        campaign_states.start(conn, campaign_id, epoch)
        brief = replace(brief, state=CampaignState.RUNNING)
        done.append("started")
    if brief.state is not CampaignState.RUNNING:
        memory.forget(campaign_id)
        return done
    turn = Turn(conn, epoch, brief, memory.campaign(conn, campaign_id, brief.spec_sha256), memory)
    opened = turns.open_of(conn, campaign_id)
    if opened is not None and not close(turn, opened, done):
        return done
    open_next(turn, done)
    return done


def close(turn: Turn, generation: OpenGeneration, done: list[str]) -> bool:
    """Close a generation whose episodes all have a reward; pause the campaign when one never will.

    Nothing happens before every episode has ended: one that failed for good keeps no other from its reward.
    """
    counts = generations.counts(turn.conn, generation.id)
    if not UNFINISHED.isdisjoint(counts):
        return False
    if failed := counts.get(EpisodeState.FAILED, 0):
        named = ", ".join(failures.failed_for_good(turn.conn, generation.id, NAMED))
        more = "" if failed <= NAMED else f" and {failed - NAMED} more"
        return pause(turn, f"generation {generation.number} has episodes that failed for good: {named}{more}", done)
    effort = efforts.of(turn.conn, [generation.id], turn.campaign).get(generation.id, Effort())
    result = result_of(turn.campaign, generation.kind, generations.outcomes(turn.conn, generation.id), effort)
    if isinstance(result, Incomplete):
        return pause(turn, f"generation {generation.number} lacks {len(result.missing)} rewards", done)
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


def pause(turn: Turn, problem: str, done: list[str]) -> bool:
    """Pause the campaign for a problem that a person has to look at; return that the generation is not closed."""
    reason = f"{problem}; see `manage.py campaign show {turn.brief.name}`"
    if campaign_states.pause(turn.conn, turn.brief.id, reason):
        done.append(f"paused: {reason}")
    return False


def open_next(turn: Turn, done: list[str]) -> None:
    """Open the next generation, or complete the campaign and release its coordinator."""
    newest = turns.newest(turn.conn, turn.brief.id)
    number = 0 if newest is None else newest.number + 1
    stage = next_stage(turn.campaign, number, None if newest is None else newest.kind)
    learner = learner_of(turn, stage, newest)
    if stage is Stage.COMPLETE:
        complete(turn, learner, number, done)
        return
    mean = chosen(turn, learner).mean if stage is Stage.EVALUATE else learner.mean
    composition = composed(turn, stage, number, learner, mean)
    try:
        generations.open_generation(
            turn.conn,
            turn.brief.id,
            epoch=turn.epoch,
            number=number,
            kind=composition.kind,
            mean=mean,
            sigma=learner.sigma,
            checksum=learner.checksum(),
            candidates=composition.candidates,
            episodes=composition.episodes,
            memory=learner.memory if isinstance(learner, Reinforce) else None,
        )
    except BudgetExhausted as error:
        campaign_states.exhaust(turn.conn, turn.brief.id, error)
        done.append(str(error))
        return
    forget_states(turn, number)
    done.append(f"opened generation {number} ({composition.kind}) with {len(composition.episodes)} episodes")


def learner_of(turn: Turn, stage: Stage, newest: Newest | None) -> AnyLearner:
    """Return what decides about the vectors of a stage; before there are labels nothing has been learnt."""
    if stage is Stage.LABEL:
        return beginning(turn.conn, turn.brief, turn.campaign)
    return turn.memory.searches.at(turn.conn, turn.brief, turn.campaign, newest)


def forget_states(turn: Turn, number: int) -> None:
    """Delete the states of the generation before this number: what learns from them has its new checkpoint.

    Not at its closing: a budget that does not hold the next generation leaves a campaign between the two.
    """
    if turn.campaign.search.algorithm is Algorithm.REINFORCE:
        decisions.forget(turn.conn, turn.brief.id, number - 1)


def complete(turn: Turn, learner: AnyLearner, number: int, done: list[str]) -> None:
    """Release the coordinator and end the campaign instead of opening the generation of this number.

    One that was released before is not released again.
    """
    forget_states(turn, number)
    if turn.campaign.search.coordinator is None:
        best = chosen(turn, learner)
        name = release(turn.conn, turn.epoch, turn.brief, turn.campaign, best.generation, best.mean, best.validation)
        done.append(f"released {name}")
    campaign_states.complete(turn.conn, turn.brief.id, turn.epoch, "all generations closed")
    turn.memory.forget(turn.brief.id)
    done.append("completed")


def composed(turn: Turn, stage: Stage, number: int, learner: AnyLearner, mean: Vector) -> Composition:
    """Compose the generation of a stage from the campaign's stored problems."""
    population = learner.ask() if stage is Stage.TRAIN else ()
    rivals = fitted_rivals(turn) if stage is Stage.EVALUATE else {}
    ids = {split: turn.memory.problem_ids(turn.conn, turn.brief.id, split) for split in Split}
    return compose(turn.campaign, OPENED[stage], number, vectors_of(population, mean, rivals), ids)


def fitted_rivals(turn: Turn) -> dict[int, Vector]:
    """Return the parameters of the rivals that are fitted to labels, by their place among the rivals.

    They choose among the models that the coordinator may choose.

    Raises:
        StillComputing: one of them is being fitted.
    """
    rivals = {index: spec for index, spec in enumerate(turn.campaign.evaluation.rivals) if spec.kind in FITTED}
    if not rivals:
        return {}
    agents, seed = Layout.of_campaign(turn.campaign).agents, turn.brief.seed
    fits = turn.memory.searches.fits

    @cache
    def known() -> Labels:
        return labels.read(turn.conn, turn.brief.id, turn.campaign).among(agents)

    def prepared(spec: RivalSpec) -> Callable[[], Vector]:
        return partial(fit, spec, known(), seed)

    return {index: fits.of(turn.brief.id, index, partial(prepared, spec)) for index, spec in rivals.items()}


def chosen(turn: Turn, learner: AnyLearner) -> Chosen:
    """Return the mean that is released: the best validated one, or the last."""
    validated = turns.validated(turn.conn, turn.brief.id)
    number = released(validated)
    if number is None:
        return Chosen(turn.campaign.first_training + learner.generation, learner.mean, None)
    found = turns.mean(turn.conn, turn.brief.id, number)
    if found is None:
        raise TrinityError(f"the mean of generation {number} of {turn.brief.name} is not stored")
    return Chosen(number, found.vector, validated[number])
