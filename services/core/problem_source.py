"""Where a campaign's problems come from: plain records between the campaign file and the loaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from services.core.problem import ProgramForm, ScorerKind, Split


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


class AnswerForm(StrEnum):
    """How the reference of a question with options names the right one."""

    LETTER = "letter"
    INDEX = "index"  # from 0
    TEXT = "text"


@dataclass(frozen=True)
class ProgramFields:
    """Fields with the tests of a program.

    Attributes:
        form: how the program is run.
        entry_point: field with the name of the function to call; None for ``stdin``.
        source: field with the source of the tests, as text or as a list of texts, one below the other.
        prelude: field with source that stands before the answer.
        public: field with cases that the question shows.
        cases: field with further cases: a list of ``{input, output}``, or the JSON text of one.
        seconds: CPU time for each case, or for the whole source.
    """

    form: ProgramForm
    entry_point: str | None = None
    source: str | None = None
    prelude: str | None = None
    public: str | None = None
    cases: str | None = None
    seconds: float = 6.0


@dataclass(frozen=True)
class JsonlSet:
    """Files that share one shape: JSON lines, CSV or Parquet. Field names are dotted paths into a row.

    Attributes:
        files: read in this order.
        question: field with the text that the models read.
        scorer: how answers to this set are judged.
        answer: field with the reference answer; None for ``recorded`` and ``program``, optional for ``judge``.
        answer_after: only what follows the last occurrence of this mark in the answer counts, e.g. ``####``.
        scores: field with model name -> score; ``*`` stands for the model name, e.g. ``responses.*.correct``.
        id: field with a unique id; None: file name and line number.
        family: field with the family; None: ``family_name``.
        family_name: family of all lines; None with ``family`` None: the file's name without its ending.
        choices: field with the list of options; present exactly for the ``choice`` scorer.
        answer_form: how the answer names an option; None: a whole number is an index, text a letter or an option.
        tests: fields with tests; present exactly for the ``program`` scorer.
        ask: text that ends every question, such as the form in which the answer is wanted.
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
    choices: str | None = None
    answer_form: AnswerForm | None = None
    tests: ProgramFields | None = None
    ask: str | None = None


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


@dataclass(frozen=True)
class BenchmarkSet:
    """One benchmark of the catalogue.

    Attributes:
        name: in the catalogue.
        folder: with its files.
        training: most training problems; None: all that its rule gives. Likewise the other two.
        validation: most validation problems.
        heldout: most held-out problems.
        packages: Python packages beyond the standard library that programs find where they run.
        test_megabytes: most of hidden tests that a problem keeps, the largest tests left out; None: all of them.
        exclude: keys of problems to leave out, such as those whose reference fails where programs run.
        hub: hub data set, filled in for the record.
        revision: commit of it that was fetched into the folder, filled in likewise; None: files put there otherwise.
    """

    name: str
    folder: Path
    training: int | None = None
    validation: int | None = None
    heldout: int | None = None
    packages: tuple[str, ...] = ()
    test_megabytes: int | None = None
    exclude: tuple[str, ...] = ()
    hub: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class BenchmarkProblems:
    """Benchmarks with splits of their own.

    Attributes:
        seed: of what a benchmark leaves open, such as the order of options.
        sets: the benchmarks.
        balance: cut the training problems of every set to the smallest number that one of them has.
    """

    seed: int
    sets: tuple[BenchmarkSet, ...]
    balance: bool = True


ProblemSource = GeneratedProblems | JsonlProblems | BenchmarkProblems
