"""What a campaign does next: pure, so that the order of its stages can be read and tested in one place.

Where there is something to label, every model answers training problems on its own first. Training generations feed the
search. Then the last mean is scored on the validation problems, the mean with the best validation score is compared
with baselines and rivals on held-out problems, and the campaign completes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from services.core.campaign import Campaign
from services.core.states import GenerationKind


class Stage(StrEnum):
    LABEL = "label"
    TRAIN = "train"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    COMPLETE = "complete"


# What a stage opens.
OPENED: Mapping[Stage, GenerationKind] = {
    Stage.LABEL: GenerationKind.LABELLING,
    Stage.TRAIN: GenerationKind.TRAINING,
    Stage.VALIDATE: GenerationKind.VALIDATION,
    Stage.EVALUATE: GenerationKind.EVALUATION,
}


def next_stage(campaign: Campaign, number: int, kind: GenerationKind | None) -> Stage:
    """Return the stage of a generation; stages only go forward, so that the one before decides.

    Args:
        campaign: the specification.
        number: of the generation about to open, from 0.
        kind: of the generation before; None for the first.
    """
    order = list(Stage)
    wanted = {
        Stage.LABEL: campaign.labels.problems > 0,
        Stage.TRAIN: number < campaign.first_training + campaign.search.rounds,
        Stage.VALIDATE: campaign.validation.problems > 0,
        Stage.EVALUATE: campaign.evaluation.problems > 0,
        Stage.COMPLETE: True,
    }
    return next(stage for stage in order[passed(kind) :] if wanted[stage])


def passed(kind: GenerationKind | None) -> int:
    """Return how many stages a generation of this kind has left behind; there may be more than one to train."""
    match kind:
        case None:
            return 0
        case GenerationKind.LABELLING | GenerationKind.TRAINING:
            return 1
        case GenerationKind.VALIDATION:
            return 3
        case GenerationKind.EVALUATION:
            return 4
    assert_never(kind)


def released(validated: Mapping[int, float]) -> int | None:
    """Return the number of the generation whose opening mean is released: the best validated, the latest on ties.

    None when nothing was validated: then the final mean is released. The choice uses validation problems only; the
    best sample of a generation is never released, because under noise it was picked for its luck.
    """
    return max(validated, key=lambda number: (validated[number], number), default=None)
