"""What a campaign does next: pure, so that the order of its stages can be read and tested in one place.

Training generations feed the search. Then the last mean is scored on the validation problems, the mean with the best
validation score is compared with the baselines on held-out problems, and the campaign completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.core.campaign import Campaign
from services.core.states import GenerationKind


class Stage(StrEnum):
    TRAIN = "train"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    COMPLETE = "complete"


@dataclass(frozen=True)
class ClosedGeneration:
    """A finished generation: its number, kind, and the validation score of the mean it opened with, if it has one."""

    number: int
    kind: GenerationKind
    validation: float | None


def next_stage(campaign: Campaign, closed: Sequence[ClosedGeneration]) -> Stage:
    """Return the stage that follows the closed generations."""
    kinds = [generation.kind for generation in closed]
    if kinds.count(GenerationKind.TRAINING) < campaign.search.generations:
        return Stage.TRAIN
    if campaign.validation.problems and GenerationKind.VALIDATION not in kinds:
        return Stage.VALIDATE
    if campaign.evaluation.problems and GenerationKind.EVALUATION not in kinds:
        return Stage.EVALUATE
    return Stage.COMPLETE


def released(closed: Sequence[ClosedGeneration]) -> int | None:
    """Return the number of the generation whose opening mean is released: the best validated, the latest on ties.

    None when nothing was validated: then the final mean is released. The choice uses validation problems only; the
    best sample of a generation is never released, because under noise it was picked for its luck.
    """
    validated = [generation for generation in closed if generation.validation is not None]
    if not validated:
        return None
    return max(validated, key=lambda generation: (generation.validation, generation.number)).number
