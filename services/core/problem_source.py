"""Where a campaign's problems come from: plain records between the campaign file and the loaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.core.problem import ScorerKind, Split


@dataclass(frozen=True)
class GeneratedFamily:
    """One kind of generated question; ``options`` are the generator's own settings, such as ``{"max_terms": 4}``."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratedProblems:
    """Seeded questions with exact answers; the three sizes count problems over all families together."""

    seed: int
    families: tuple[GeneratedFamily, ...]
    training: int
    validation: int
    heldout: int


@dataclass(frozen=True)
class JsonlSet:
    """JSONL files that share one shape. Field names are dotted paths into a line's object.

    Attributes:
        files: read in this order.
        question: field with the text that the models read.
        scorer: how answers to this set are judged.
        answer: field with the reference answer; None exactly for the ``recorded`` scorer.
        answer_after: only what follows the last occurrence of this mark in the answer counts, e.g. ``####``.
        scores: field with model name -> score; ``*`` stands for the model name, e.g. ``responses.*.correct``.
        id: field with a unique id; None: file name and line number.
        family: field with the family; None: ``family_name``.
        family_name: family of all lines; None with ``family`` None: the file's name without its ending.
    """

    files: tuple[Path, ...]
    question: str
    scorer: ScorerKind
    answer: str | None = None
    answer_after: str | None = None
    scores: str | None = None
    id: str | None = None
    family: str | None = None
    family_name: str | None = None


@dataclass(frozen=True)
class SeededSplit:
    """A seeded draw that keeps every family's share: an int is a number of problems, a float a share of all."""

    seed: int
    training: int | float
    validation: int | float
    heldout: int | float


@dataclass(frozen=True)
class FieldSplit:
    """The files say themselves where a line belongs; a line with a value that is not listed is an error."""

    field: str
    values: Mapping[str, Split]


@dataclass(frozen=True)
class JsonlProblems:
    sets: tuple[JsonlSet, ...]
    split: SeededSplit | FieldSplit


ProblemSource = GeneratedProblems | JsonlProblems
