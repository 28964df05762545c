"""A benchmark item with a checkable answer; "task" is a Celery word here, so an item is a problem."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
    MATHEMATICS = "mathematics"  # the same mathematical object
    CHOICE = "choice"  # the letter of the right option
    RULES = "rules"  # the same text or number within a tolerance (RLPR)
    PROGRAM = "program"  # a program that passes the tests
    JUDGE = "judge"  # a model's rating


class ProgramForm(StrEnum):
    """How a program is asked to show that it is right."""

    STDIN = "stdin"  # reads standard input, writes standard output
    FUNCTION = "function"  # a function, or a method of ``class Solution``, is called with JSON arguments
    ASSERTIONS = "assertions"  # Python source of tests calls the entry point; they run apart from the program
    UNITTEST = "unittest"  # a ``unittest.TestCase`` that reaches into the program's own module


@dataclass(frozen=True)
class Case:
    """One test of a program.

    Attributes:
        given: what it reads: a text for ``stdin``, a JSON array of arguments for ``function``.
        wanted: what it must answer: a text, or a JSON value.
    """

    given: str
    wanted: str


@dataclass(frozen=True)
class ProgramTests:
    """What a program has to do. Only ``public`` cases may ever be shown or run before the answer is final.

    Attributes:
        form: how it is run.
        entry_point: name of the function to call; None for ``stdin``.
        public: cases that the question shows.
        hidden: further cases.
        source: Python source of the tests for ``assertions`` and ``unittest``.
        prelude: Python source that stands before the answer, such as imports the answer may count on.
        seconds: CPU time for each case, or for the whole source.
    """

    form: ProgramForm
    entry_point: str | None = None
    public: tuple[Case, ...] = ()
    hidden: tuple[Case, ...] = ()
    source: str = ""
    prelude: str = ""
    seconds: float = 6.0


@dataclass(frozen=True)
class Problem:
    """One question.

    Attributes:
        key: unique within its campaign, chosen by the source.
        family: the domain or task kind it belongs to, for tables by family.
        question: what the models read.
        scorer: how an answer is judged.
        answer: the reference; present unless the scorer is ``recorded`` or ``program``; optional for ``judge``.
        scores: pool model name -> recorded score in [0, 1]; present exactly for ``recorded``.
        choices: the options' texts in the order the question shows them; present exactly for ``choice``, whose answer
            is a letter.
        program: the tests; present exactly for ``program``.
    """

    key: str
    family: str
    question: str
    scorer: ScorerKind
    answer: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    program: ProgramTests | None = None


def content_hash(problems: Mapping[Split, Sequence[Problem]]) -> str:
    """Return a SHA-256 in hex of everything that can change a reward or the order of the problems."""
    digest = hashlib.sha256()
    for split in Split:
        for one in problems.get(split, ()):
            digest.update(json.dumps([split, asdict(one)], sort_keys=True).encode() + b"\n")
    return digest.hexdigest()
