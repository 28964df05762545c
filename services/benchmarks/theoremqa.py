"""TheoremQA: university science; numbers, lists, truth values and options."""

from __future__ import annotations

from typing import Any

from services.benchmarks import dealing, fields, wording
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, LeftOut, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

NAME = "theoremqa"
NEEDS_PICTURE = "needs a picture"

FORMS = {
    "float": "Final answer: a decimal number without its unit and nothing else.",
    "integer": wording.WHOLE_NUMBER,
    "bool": "Final answer: True or False and nothing else.",
    "list of integer": "Final answer: a list of whole numbers such as [1, 2] and nothing else.",
    "list of float": "Final answer: a list of decimal numbers such as [0.5, 2.0] and nothing else.",
    "option": "Final answer: the letter of the right option in parentheses, such as (a), and nothing else.",
}


def _item(line: Line, part: str, choices: Choices) -> Item | LeftOut:
    if line.field("Picture") is not None:
        return LeftOut(NEEDS_PICTURE)
    kind = fields.text(line, "Answer_type")
    if kind not in FORMS:
        raise SpecError(line.place, kind, f"one of {', '.join(FORMS)} in the field Answer_type")
    answer = _answer(line, line.field("Answer"))
    question = wording.asked(fields.text(line, "Question"), FORMS[kind])
    problem = Problem(f"{NAME}/{line.number}", NAME, question, ScorerKind.RULES, answer)
    return Item(line.place, fields.checked(line, problem), answer)


def _answer(line: Line, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, bool | int | float) or (isinstance(value, list) and value):
        return str(value)
    raise SpecError(line.place, shown(value), "an answer in the field Answer")


THEOREMQA = Benchmark(
    name=NAME,
    title="TheoremQA",
    hub="TIGER-Lab/TheoremQA",
    revision="main",
    licence="MIT",
    scorer=ScorerKind.RULES,
    fields=("Question", "Answer", "Answer_type", "Picture"),
    splits="shuffled by random.Random(42): 20 % held out, 20 % validation, 60 % training",
    prompt="the question; the kind of answer (number, list, True or False, option) is named",
    parts=(
        Part(
            "test",
            800,
            tuple(Split),
            (HubFile("data/test-00000-of-00001.parquet"),),
            ("test*.jsonl", "test*.parquet"),
        ),
    ),
    read=each(_item),
    deal=dealing.one_piece,
    filters="rows that need a picture (53 of 800)",
)
