"""GSM8K: word problems of primary school with a number after ``####``."""

from __future__ import annotations

from services.benchmarks import fields, wording
from services.benchmarks.dealing import Parts, shuffled
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.record import Benchmark, Choices, Dealt, HubFile, Item, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

NAME = "gsm8k"
MARK = "####"


def _item(line: Line, part: str, choices: Choices) -> Item:
    worked = fields.text(line, "answer")
    _, mark, last = worked.rpartition(MARK)
    if not mark or not last.strip():
        raise SpecError(line.place, shown(worked), f"a number after {MARK} in the field answer")
    question = wording.asked(fields.text(line, "question"), wording.NUMBER)
    problem = Problem(f"{NAME}/{part}-{line.number}", NAME, question, ScorerKind.NUMERIC, last.strip())
    return Item(line.place, fields.checked(line, problem), last.strip())


def _deal(parts: Parts) -> Dealt:
    row = shuffled(parts.get("train", ()))
    tenth = len(row) // 10
    return {
        Split.HELDOUT: parts.get("test", ()),
        Split.VALIDATION: row[:tenth],
        Split.TRAINING: row[tenth:],
    }


GSM8K = Benchmark(
    name=NAME,
    title="GSM8K",
    hub="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    licence="MIT",
    scorer=ScorerKind.NUMERIC,
    fields=("question", "answer"),
    splits="test held out; train shuffled by random.Random(42): 10 % validation, the rest training",
    prompt="the question; a number without unit is wanted",
    parts=(
        Part(
            "train",
            7473,
            (Split.TRAINING, Split.VALIDATION),
            (HubFile("main/train-00000-of-00001.parquet"),),
            ("train*.jsonl", "train*.parquet"),
        ),
        Part(
            "test",
            1319,
            (Split.HELDOUT,),
            (
                HubFile(
                    "main/test-00000-of-00001.parquet",
                    "ee7b8da9e381df27b9e3f7758a159ab2bdaa4dbaa910546cbbc47e0cb44e4f59",
                ),
            ),
            ("test*.jsonl", "test*.parquet"),
        ),
    ),
    read=each(_item),
    deal=_deal,
)
