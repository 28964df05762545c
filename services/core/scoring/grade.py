"""What judging an answer gives: a reward, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Why a reward is what it is. That nothing could be judged is no outcome but an error, never a reward."""

    CORRECT = "correct"
    PARTIAL = "partial"  # a recorded fraction or a rating strictly between 0 and 1
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # the reply holds no answer in the form asked for
    TRUNCATED = "truncated"  # no answer, and the reply was cut off at its limit of tokens
    TIMEOUT = "timeout"  # the program used up its time
    MEMORY = "memory"  # the program used up its memory
    OUTPUT = "output"  # the program wrote more than is read
    CRASH = "crash"  # the program ended by an error of its own


@dataclass(frozen=True)
class Grade:
    """A judged answer.

    Attributes:
        reward: in [0, 1].
        outcome: why.
        detail: one sentence for people, at most 500 characters, such as the first test that failed; may be empty.
        decided_by: what decided, with version or backend where that matters, e.g. ``math-verify 0.9.0``.
    """

    reward: float
    outcome: Outcome
    detail: str = ""
    decided_by: str = ""


def graded(reward: float, *, detail: str = "", decided_by: str = "") -> Grade:
    """Return the grade of an answer whose reward says all: 1 correct, 0 wrong, else partial."""
    outcome = Outcome.CORRECT if reward == 1.0 else Outcome.WRONG if reward == 0.0 else Outcome.PARTIAL
    return Grade(reward, outcome, detail, decided_by)
