"""What a study is made of: campaigns that differ from a base in a few fields, and the rows that are read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from services.core.campaign import Campaign
from services.core.studies.paper import PaperTable

Changes = Mapping[str, Any]


class StudyName(StrEnum):
    """What ``reproduce`` can be asked for."""

    TABLE_2 = "table2"
    TABLE_3 = "table3"
    TABLE_4 = "table4"
    TABLE_7 = "table7"
    TABLE_8 = "table8"
    TABLE_9 = "table9"
    FIGURE_3 = "figure3"
    FIGURE_6 = "figure6"
    TURNS = "turns"


class Measure(StrEnum):
    """What a row's figure is."""

    REWARD = "mean reward"
    TOKENS = "output tokens per question"
    CHOICES = "entropy of the chosen models"


class Who(StrEnum):
    """Which policy of a campaign's held-out evaluation a row is about."""

    COORDINATOR = "coordinator"
    SINGLE = "single"
    RANDOM = "random"
    RIVAL = "rival"
    BEST_PER_PROBLEM = "best per problem"  # the union of the single models' correct answers


@dataclass(frozen=True)
class Policy:
    """One policy; ``name`` is the model's for a single one and the label for a rival."""

    who: Who
    name: str = ""


COORDINATOR = Policy(Who.COORDINATOR)


@dataclass(frozen=True)
class Variant:
    """A campaign that differs from the base.

    Attributes:
        key: its part of the campaign's name; empty for the base itself.
        changes: fields in the campaign file's own words, section -> field -> value.
        rivals: entries of ``evaluation.rivals``. Variants of the same key are one campaign, which has all their rivals.
    """

    key: str = ""
    changes: Changes = field(default_factory=dict)
    rivals: tuple[Mapping[str, Any], ...] = ()


BASE = Variant()


@dataclass(frozen=True)
class Row:
    """One line of the comparison.

    Attributes:
        label: as tables print it.
        paper: the paper's row that it stands beside; None where the paper has none.
        against: the paper's row to which the paper's difference is taken, where that is not the study's reference.
    """

    label: str
    variant: Variant
    policy: Policy = COORDINATOR
    paper: str | None = None
    against: str | None = None


def labels_of(rows: Sequence[Row]) -> str:
    """Return the labels of lines, of more than two the first and the number of the others."""
    return ", ".join(row.label for row in rows) if len(rows) <= 2 else f"{rows[0].label} and {len(rows) - 1} more"


@dataclass(frozen=True)
class LeftOut:
    """A line that this base has no campaign for, and why."""

    label: str
    reason: str
    paper: str | None = None


@dataclass(frozen=True)
class Ground:
    """What a study is built on: the resolved base and how many training problems it has."""

    campaign: Campaign
    training_problems: int

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.campaign.pool)


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Attributes:
        question: what it is to tell, in a sentence.
        rows: builds the lines for a base; the first one is the reference of all differences.
        captions: what has to be said below the comparison.
    """

    name: StudyName
    title: str
    question: str
    measure: Measure
    paper: PaperTable
    rows: Callable[[Ground], Sequence[Row | LeftOut]]
    captions: tuple[str, ...] = ()
