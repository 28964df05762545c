from __future__ import annotations

import pytest

from scheduler.stages import Stage, next_stage, released
from services.core.campaign import Campaign, EvaluationSpec, ValidationSpec
from services.core.states import GenerationKind
from tests.support.campaigns import small_campaign

TRAINING, VALIDATION, EVALUATION = GenerationKind.TRAINING, GenerationKind.VALIDATION, GenerationKind.EVALUATION
KINDS = {Stage.TRAIN: TRAINING, Stage.VALIDATE: VALIDATION, Stage.EVALUATE: EVALUATION}


def stages(campaign: Campaign) -> list[Stage]:
    """Return the stages of a campaign from its first generation to its completion."""
    seen: list[Stage] = []
    while Stage.COMPLETE not in seen:
        seen.append(next_stage(campaign, len(seen), KINDS[seen[-1]] if seen else None))
    return seen


def test_a_campaign_trains_validates_evaluates_and_completes() -> None:
    assert stages(small_campaign()) == [Stage.TRAIN, Stage.TRAIN, Stage.VALIDATE, Stage.EVALUATE, Stage.COMPLETE]


@pytest.mark.parametrize(
    ("validation", "evaluation", "expected"),
    [
        (0, 0, [Stage.COMPLETE]),
        (2, 0, [Stage.VALIDATE, Stage.COMPLETE]),
        (0, 3, [Stage.EVALUATE, Stage.COMPLETE]),
    ],
)
def test_switched_off_measurements_are_skipped(validation: int, evaluation: int, expected: list[Stage]) -> None:
    campaign = small_campaign(validation=ValidationSpec(1, validation), evaluation=EvaluationSpec(evaluation))
    assert stages(campaign) == [Stage.TRAIN, Stage.TRAIN, *expected]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [({0: 0.5, 1: 0.7, 2: 0.6}, 1), ({0: 0.7, 1: 0.5, 2: 0.7}, 2), ({1: 0.1}, 1), ({}, None)],
)
def test_the_best_validated_mean_is_released_and_the_latest_on_ties(
    scores: dict[int, float], expected: int | None
) -> None:
    assert released(scores) == expected
