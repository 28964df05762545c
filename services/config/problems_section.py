"""The ``problems`` section of a campaign file: generated families, files by field mapping, or benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from services.config.fields import AmountOfProblems, Count, FilePath, Positive, Seconds, Section, Seed, Text
from services.core.problem import ProgramForm, ScorerKind, Split
from services.core.problem_source import (
    AnswerForm,
    BenchmarkProblems,
    BenchmarkSet,
    FieldSplit,
    GeneratedFamily,
    GeneratedProblems,
    JsonlProblems,
    JsonlSet,
    ProblemSource,
    ProgramFields,
    SeededSplit,
)

BENCHMARK_DIR = "TRINITY_BENCHMARK_DIR"


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


class ProgramFieldsSection(Section):
    form: ProgramForm = Field(strict=False)
    entry_point: Text | None = None
    source: Text | None = None
    prelude: Text | None = None
    public: Text | None = None
    cases: Text | None = None
    seconds: Seconds = 6.0

    @model_validator(mode="after")
    def _fits_the_form(self) -> Self:
        by_cases = self.form in (ProgramForm.STDIN, ProgramForm.FUNCTION)
        if by_cases and (self.source is not None or (self.public is None and self.cases is None)):
            raise ValueError(f"`public`, `cases` or both, and no `source`, beside `form: {self.form}`")
        if not by_cases and (self.source is None or self.public is not None or self.cases is not None):
            raise ValueError(f"`source`, and neither `public` nor `cases`, beside `form: {self.form}`")
        if (self.form is ProgramForm.STDIN) != (self.entry_point is None):
            raise ValueError("`entry_point` beside every form but `stdin`")
        return self

    def record(self) -> ProgramFields:
        return ProgramFields(**{name: getattr(self, name) for name in type(self).model_fields})


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
    choices: Text | None = None
    answer_form: AnswerForm | None = Field(default=None, strict=False)
    tests: ProgramFieldsSection | None = None
    ask: Text | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        beside = f"beside `scorer: {self.scorer}`"
        if self.scorer is ScorerKind.RECORDED and (self.scores is None or self.answer is not None):
            yield f"`scores` and no `answer` {beside}"
        if self.scorer is ScorerKind.PROGRAM and (self.tests is None or self.answer is not None):
            yield f"`tests` and no `answer` {beside}"
        unanswered = self.scorer in (ScorerKind.RECORDED, ScorerKind.PROGRAM, ScorerKind.JUDGE)
        if (self.answer is None and not unanswered) or (
            self.scores is not None and self.scorer is not ScorerKind.RECORDED
        ):
            yield f"`answer` and no `scores` {beside}"
        if self.tests is not None and self.scorer is not ScorerKind.PROGRAM:
            yield "`tests` only beside `scorer: program`"
        if (self.choices is not None) != (self.scorer is ScorerKind.CHOICE):
            yield "`choices` beside `scorer: choice` and no other"
        if self.answer_form is not None and self.choices is None:
            yield "`answer_form` only beside `choices`"
        if self.answer_after is not None and (self.answer is None or self.choices is not None):
            yield "`answer_after` only beside `answer`, without `choices`"
        if self.ask is not None and self.scorer is ScorerKind.RECORDED:
            yield "no `ask`: recorded answers are found by the question as it was"
        if self.family is not None and self.family_name is not None:
            yield "one of `family` (a field) and `family_name` (a fixed name)"

    def record(self) -> JsonlSet:
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return JsonlSet(**given | {"tests": self.tests and self.tests.record()})


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


def _benchmark(value: Any) -> Any:
    """Return the mapping with the folder that it does not say: the benchmark's own under the folder of all."""
    given = {"name": value} if isinstance(value, str) else value
    if isinstance(given, Mapping) and isinstance(given.get("name"), str) and "folder" not in given:
        return {**given, "folder": f"${{{BENCHMARK_DIR}}}/{given['name']}"}
    return given


class BenchmarkSetSection(Section):
    name: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]
    folder: FilePath
    training: Count | None = None
    validation: Count | None = None
    heldout: Count | None = None
    packages: tuple[Text, ...] = Field(default=(), strict=False)
    test_megabytes: Positive | None = None
    exclude: tuple[Text, ...] = Field(default=(), strict=False)

    def record(self) -> BenchmarkSet:
        return BenchmarkSet(**{name: getattr(self, name) for name in type(self).model_fields})


class BenchmarksSection(Section):
    source: Literal["benchmarks"]
    seed: Seed | None = None
    sets: tuple[Annotated[BenchmarkSetSection, BeforeValidator(_benchmark)], ...] = Field(min_length=1, strict=False)
    balance: bool = True

    def record(self, campaign_seed: int) -> ProblemSource:
        seed = campaign_seed if self.seed is None else self.seed
        return BenchmarkProblems(seed, tuple(one.record() for one in self.sets), self.balance)


ProblemsSection = Annotated[GeneratedSection | JsonlSection | BenchmarksSection, Field(discriminator="source")]
TAGS = frozenset({"generated", "jsonl", "benchmarks", "seeded", "field"})
