"""``coordinator release``: a mean that a person chose, beside the one that the campaign's search releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from services.cli import render
from services.cli.submission import campaign_name
from services.config import document
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.states import GenerationKind
from services.storage import campaigns, coordinators
from services.storage.coordinators import Opening
from services.storage.engine import Database
from services.storage.records import CampaignRecord, NewCoordinator


@dataclass(frozen=True)
class Released:
    """What was released and why this mean."""

    name: str
    generation: int
    validation: float | None
    reason: str


def release(database: Database, name: str, generation: int | None, new_name: str | None) -> Released:
    """Release the mean with which a generation opened.

    Args:
        database: where the campaign is, in whatever state, beside a running scheduler or not.
        name: of the campaign.
        generation: one that was opened; None for the best validated mean, the latest on ties, or else the newest.
        new_name: of the coordinator; None for ``CAMPAIGN-gN``.

    Raises:
        SpecError: unknown campaign or generation, or a name that is taken.
    """
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        opening, reason = chosen(record, coordinators.openings(conn, record.id), generation)
        new = new_coordinator(record, opening, campaign_name(new_name or f"{record.name}-g{opening.number}"))
        coordinators.release_by_hand(conn, new)
    return Released(new.name, opening.number, opening.validation, reason)


def chosen(record: CampaignRecord, openings: Sequence[Opening], wanted: int | None) -> tuple[Opening, str]:
    """Return the generation whose mean is released, and in words why this one.

    The default is the rule of the search (``scheduler.stages.released``): the best validated mean, the latest on ties.
    Unlike the search, a person may want the newest mean of a campaign that validated none and has not ended.
    """
    if not openings:
        raise SpecError("campaign", record.name, "a campaign that has opened a generation")
    if wanted is not None:
        found = next((opening for opening in openings if opening.number == wanted), None)
        if found is None:
            raise SpecError("--generation", wanted, f"a generation of {record.name}: 0 to {openings[-1].number}")
        return found, f"validation score {render.figure(found.validation)}"
    validated = [
        (opening.validation, opening.number, opening) for opening in openings if opening.validation is not None
    ]
    if validated:
        score, _, best = max(validated, key=lambda each: each[:2])
        return best, f"the best of {len(validated)} validated ones with {score:.3f}"
    return openings[-1], "the newest: none has a validation score"


def new_coordinator(record: CampaignRecord, opening: Opening, name: str) -> NewCoordinator:
    campaign = document.from_json(record.spec)
    return NewCoordinator(
        campaign_id=record.id,
        name=name,
        generation=opening.number,
        theta=opening.mean,
        layout=Layout.of_campaign(campaign).to_json(),
        encoder=asdict(campaign.encoder),
        pool={"models": [{"name": model.name, "model": model.litellm_model} for model in campaign.pool]},
        validation=opening.validation,
    )


def trained_generations(openings: Sequence[Opening], generation: int) -> int:
    """Return how many training generations the search had been told before this one opened."""
    return sum(opening.kind is GenerationKind.TRAINING and opening.number < generation for opening in openings)
