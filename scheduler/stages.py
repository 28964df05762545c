"""What a campaign does next: pure, so that the order of its stages can be read and tested in one place.

Training generations feed the search. Then the last mean is scored on the validation problems, the mean with the best
validation score is compared with the baselines on held-out problems, and the campaign completes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from services.core.campaign import Campaign
from services.core.states import GenerationKind


class Stage(StrEnum):
    TRAIN = "train"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    COMPLETE = "complete"


def next_stage(campaign: Campaign, number: int, kind: GenerationKind | None) -> Stage:
    """Return the stage of a generation; stages only go forward, so that the one before decides.

    Args:
        campaign: the specification.
        number: of the generation about to open, from 0.
        kind: of the generation before; None for the first.
    """
    order = [Stage.TRAIN, Stage.VALIDATE, Stage.EVALUATE, Stage.COMPLETE]
    wanted = {
        Stage.TRAIN: number < campaign.search.generations,
        Stage.VALIDATE: campaign.validation.problems > 0,
        Stage.EVALUATE: campaign.evaluation.problems > 0,
        Stage.COMPLETE: True,
    }
    return next(stage for stage in order[passed(kind) :] if wanted[stage])


def passed(kind: GenerationKind | None) -> int:
    """Return how many stages a generation of this kind has left behind."""
    match kind:
        case None | GenerationKind.LABELLING | GenerationKind.TRAINING:
            return 0
        case GenerationKind.VALIDATION:
            return 2
        case GenerationKind.EVALUATION:
            return 3
    assert_never(kind)


def released(validated: Mapping[int, float]) -> int | None:
    """Return the number of the generation whose opening mean is released: the best validated, the latest on ties.

    None when nothing was validated: then the final mean is released. The choice uses validation problems only; the
    best sample of a generation is never released, because under noise it was picked for its luck.
    """
    return max(validated, key=lambda number: (validated[number], number), default=None)
