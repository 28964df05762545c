"""The ``problems`` section of a campaign file: generated families, or JSONL files by field mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from services.config.fields import AmountOfProblems, Count, FilePath, Positive, Section, Seed, Text
from services.core.problem import ScorerKind, Split
from services.core.problem_source import (
    FieldSplit,
    GeneratedFamily,
    GeneratedProblems,
    JsonlProblems,
    JsonlSet,
    ProblemSource,
    SeededSplit,
)


def _family(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class FamilySection(Section):
    name: Text
    options: dict[str, Any] = Field(default_factory=dict)


class GeneratedSection(Section):
    source: Literal["generated"]
    seed: Seed | None = None
    families: tuple[Annotated[FamilySection, BeforeValidator(_family)], ...] = Field(min_length=1, strict=False)
    training: Positive
    validation: Count = 0
    heldout: Count = 0

    def record(self, campaign_seed: int) -> ProblemSource:
        families = tuple(GeneratedFamily(family.name, family.options) for family in self.families)
        seed = campaign_seed if self.seed is None else self.seed
        return GeneratedProblems(seed, families, self.training, self.validation, self.heldout)


class JsonlSetSection(Section):
    files: tuple[FilePath, ...] = Field(min_length=1, strict=False)
    question: Text
    scorer: ScorerKind = Field(strict=False)
    answer: Text | None = None
    answer_after: Text | None = None
    scores: Text | None = None
    id: Text | None = None
    family: Text | None = None
    family_name: Text | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        recorded = self.scorer is ScorerKind.RECORDED
        if recorded and (self.scores is None or self.answer is not None):
            raise ValueError("`scores` and no `answer` beside `scorer: recorded`")
        if not recorded and (self.answer is None or self.scores is not None):
            raise ValueError(f"`answer` and no `scores` beside `scorer: {self.scorer}`")
        if self.answer_after is not None and self.answer is None:
            raise ValueError("`answer_after` only beside `answer`")
        if self.family is not None and self.family_name is not None:
            raise ValueError("one of `family` (a field) and `family_name` (a fixed name)")
        return self

    def record(self) -> JsonlSet:
        return JsonlSet(**{name: getattr(self, name) for name in type(self).model_fields})


class SeededSplitSection(Section):
    seed: Seed | None = None
    training: AmountOfProblems
    validation: AmountOfProblems = 0
    heldout: AmountOfProblems = 0

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        shares = [size for size in (self.training, self.validation, self.heldout) if isinstance(size, float)]
        if sum(shares) > 1 + 1e-9:
            raise ValueError("shares that add up to at most 1")
        return self

    def record(self, campaign_seed: int) -> SeededSplit:
        seed = campaign_seed if self.seed is None else self.seed
        return SeededSplit(seed, self.training, self.validation, self.heldout)


class FieldSplitSection(Section):
    field: Text
    values: dict[str, Annotated[Split, Field(strict=False)]] = Field(min_length=1)

    def record(self, campaign_seed: int) -> FieldSplit:
        return FieldSplit(self.field, self.values)


def _split_kind(value: Any) -> str:
    return "field" if isinstance(value, Mapping) and ("field" in value or "values" in value) else "seeded"


class JsonlSection(Section):
    source: Literal["jsonl"]
    sets: tuple[JsonlSetSection, ...] = Field(min_length=1, strict=False)
    split: Annotated[
        Annotated[SeededSplitSection, Tag("seeded")] | Annotated[FieldSplitSection, Tag("field")],
        Discriminator(_split_kind),
    ]

    def record(self, campaign_seed: int) -> ProblemSource:
        return JsonlProblems(tuple(one.record() for one in self.sets), self.split.record(campaign_seed))


ProblemsSection = Annotated[GeneratedSection | JsonlSection, Field(discriminator="source")]
TAGS = frozenset({"generated", "jsonl", "seeded", "field"})
