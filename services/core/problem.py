"""A benchmark item with a checkable answer; "task" is a Celery word here, so an item is a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Split(StrEnum):
    TRAINING = "training"
    VALIDATION = "validation"
    HELDOUT = "heldout"


class ScorerKind(StrEnum):
    EXACT = "exact"  # the same text after normalising white space and case
    NUMERIC = "numeric"  # the same rational number
    LITERAL = "literal"  # the same Python literal
    RECORDED = "recorded"  # the recorded score of the model that answered


@dataclass(frozen=True)
class Problem:
    """One question.

    Attributes:
        key: unique within its campaign, chosen by the source.
        family: the domain or task kind it belongs to, for tables by family.
        question: what the models read.
        scorer: how an answer is judged.
        answer: the reference; present unless the scorer is ``recorded``.
        scores: pool model name -> recorded score in [0, 1]; present exactly for ``recorded``.
    """

    key: str
    family: str
    question: str
    scorer: ScorerKind
    answer: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
