from __future__ import annotations

import pytest

from scheduler.stages import ClosedGeneration, Stage, next_stage, released
from services.core.campaign import EvaluationSpec, ValidationSpec
from services.core.states import GenerationKind
from tests.support.campaigns import small_campaign

TRAINING = GenerationKind.TRAINING


def closed(*kinds: GenerationKind) -> list[ClosedGeneration]:
    return [ClosedGeneration(number, kind, None) for number, kind in enumerate(kinds)]


def test_a_campaign_trains_validates_evaluates_and_completes() -> None:
    campaign = small_campaign()
    kinds: list[GenerationKind] = []
    seen = []
    while (stage := next_stage(campaign, closed(*kinds))) is not Stage.COMPLETE:
        seen.append(stage)
        kinds.append(
            {"train": TRAINING, "validate": GenerationKind.VALIDATION, "evaluate": GenerationKind.EVALUATION}[stage]
        )
    assert seen == [Stage.TRAIN, Stage.TRAIN, Stage.VALIDATE, Stage.EVALUATE]


def test_switched_off_measurements_are_skipped() -> None:
    campaign = small_campaign(validation=ValidationSpec(1, 0), evaluation=EvaluationSpec(0))
    assert next_stage(campaign, closed(TRAINING, TRAINING)) is Stage.COMPLETE


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([0.5, 0.7, 0.6], 1), ([0.7, 0.5, 0.7], 2), ([None, 0.1, None], 1), ([None, None], None), ([], None)],
)
def test_the_best_validated_mean_is_released_and_the_latest_on_ties(
    scores: list[float | None], expected: int | None
) -> None:
    assert released([ClosedGeneration(n, TRAINING, score) for n, score in enumerate(scores)]) == expected
