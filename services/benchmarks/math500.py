"""MATH-500: competition mathematics with answers in LaTeX."""

from __future__ import annotations

from services.benchmarks import dealing, fields, wording
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, Part, each
from services.core.problem import Problem, ScorerKind, Split

NAME = "math500"


def _item(line: Line, part: str, choices: Choices) -> Item:
    answer = fields.text(line, "answer").strip()
    question = wording.asked(fields.text(line, "problem"), wording.EXPRESSION)
    key = f"{NAME}/{fields.text(line, 'unique_id')}"
    problem = fields.checked(line, Problem(key, NAME, question, ScorerKind.MATHEMATICS, answer))
    return Item(line.place, problem, answer)


MATH500 = Benchmark(
    name=NAME,
    title="MATH500",
    hub="HuggingFaceH4/MATH-500",
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    licence="MIT; some problems come from AMC, AIME and AoPS pages",
    scorer=ScorerKind.MATHEMATICS,
    fields=("problem", "answer", "unique_id"),
    splits="shuffled by random.Random(42): 20 % held out, 20 % validation, 60 % training",
    prompt="the problem; one expression in LaTeX is wanted",
    parts=(
        Part(
            "test",
            500,
            tuple(Split),
            (HubFile("test.jsonl", "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132"),),
            ("test*.jsonl", "test*.parquet", "test*.csv"),
        ),
    ),
    read=each(_item),
    deal=dealing.one_piece,
)
