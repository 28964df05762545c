"""AIME 2024 and 2025: whole numbers from 0 to 999."""

from __future__ import annotations

from collections.abc import Callable

from services.benchmarks import dealing, fields, wording
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

LARGEST = 999


def _reader(name: str) -> Callable[[Line, str, Choices], Item]:
    def item(line: Line, part: str, choices: Choices) -> Item:
        answer = fields.whole(line, "answer")
        if not 0 <= answer <= LARGEST:
            raise SpecError(line.place, answer, f"a whole number from 0 to {LARGEST} in the field answer")
        question = wording.asked(fields.text(line, "problem", "question"), wording.WHOLE_NUMBER)
        known = fields.text(line, "id") if "id" in line.value else f"{line.path.stem}-{line.number}"
        problem = Problem(f"{name}/{known}", name, question, ScorerKind.NUMERIC, str(answer))
        return Item(line.place, fields.checked(line, problem), str(answer))

    return item


AIME2024 = Benchmark(
    name="aime2024",
    title="AIME 2024",
    hub="HuggingFaceH4/aime_2024",
    revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
    licence="none stated by the data set; the problems are by the Mathematical Association of America",
    scorer=ScorerKind.NUMERIC,
    fields=("problem", "answer"),
    splits="all held out",
    prompt="the problem; a whole number is wanted",
    parts=(
        Part(
            "train",
            30,
            (Split.HELDOUT,),
            (
                HubFile(
                    "data/train-00000-of-00001.parquet",
                    "26139847601a5037c237d5928b195e7260ca8074cf4f264b794af42847f79ccf",
                ),
            ),
            ("test*.jsonl", "train*.jsonl", "train*.parquet", "test*.parquet"),
        ),
    ),
    read=each(_reader("aime2024")),
    deal=dealing.held_out,
)

AIME2025 = Benchmark(
    name="aime2025",
    title="AIME 2025",
    hub="math-ai/aime25",
    revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
    licence="Apache-2.0; the problems are by the Mathematical Association of America",
    scorer=ScorerKind.NUMERIC,
    fields=("problem", "answer"),
    splits="all held out",
    prompt="the problem; a whole number is wanted",
    parts=(
        Part(
            "test",
            30,
            (Split.HELDOUT,),
            (HubFile("test.jsonl", "b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331"),),
            ("test*.jsonl", "aime2025*.jsonl", "test*.parquet"),
        ),
    ),
    read=each(_reader("aime2025")),
    deal=dealing.held_out,
)
