"""What a submission refuses before anything is spent: answers that nobody could judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.cli import submission
from services.config.settings import Settings
from services.core.campaign import ScoringSpec
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.problem import Problem, ScorerKind, Split
from services.sandbox import opening
from tests.support.campaigns import small_campaign, small_problems

ESSAY = Problem("essay", "writing", "Write a poem.", ScorerKind.JUDGE, "a reference of forty characters, or more")
PROGRAM = Problem("double", "code", "Double it.", ScorerKind.PROGRAM)


def with_problem(problem: Problem) -> dict[Split, list[Problem]]:
    return small_problems() | {Split.HELDOUT: [problem]}


def test_answers_that_have_to_be_rated_need_a_judge() -> None:
    submission.require_judge(small_campaign(), small_problems())
    submission.require_judge(small_campaign(scoring=ScoringSpec("bob")), with_problem(ESSAY))
    with pytest.raises(SpecError, match=r"^scoring\.judge: got None, wanted .* as problem essay needs one: ada, bob"):
        submission.require_judge(small_campaign(), with_problem(ESSAY))


def test_a_judge_reads_the_reference_too() -> None:
    plain = Problem("essay", "writing", "Write a poem.", ScorerKind.JUDGE)
    (longer,), (shorter,) = (submission.question_bytes({Split.HELDOUT: [one]}) for one in (ESSAY, plain))
    assert longer - shorter == len(ESSAY.answer or "")


def test_programs_need_a_sandbox_here_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def none(**options: Any) -> str:
        asked.append(options["python"])
        raise PrerequisiteMissing("nothing confines programs", "install bubblewrap")

    monkeypatch.setattr(opening, "available", none)
    submission.require_sandbox(small_problems(), Settings())
    assert asked == []
    cure = "nothing confines programs; install bubblewrap; or `--sandbox-elsewhere`"
    with pytest.raises(PrerequisiteMissing, match=cure):
        submission.require_sandbox(with_problem(PROGRAM), Settings(sandbox_python=Path("/opt/python")))
    assert asked == [Path("/opt/python")]
