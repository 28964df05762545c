"""MMLU: four options from 57 subjects."""

from __future__ import annotations

from services.benchmarks import fields, wording
from services.benchmarks.dealing import Parts, shuffled
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, Dealt, HubFile, Item, Part, each
from services.core.problem import Problem, ScorerKind, Split

NAME = "mmlu"
VALIDATION = 1531  # rows of the hub's validation part; the other splits are cut to multiples of it
TRAINING_MULTIPLE = 3


def _item(line: Line, part: str, choices: Choices) -> Item:
    shown = fields.texts(line, "choices")
    answer = fields.letter_of(line, fields.whole(line, "answer"), shown)
    question = wording.asked(fields.text(line, "question"), wording.options(shown), wording.LETTER)
    problem = Problem(f"{NAME}/{part}-{line.number}", NAME, question, ScorerKind.CHOICE, answer, choices=shown)
    return Item(line.place, fields.checked(line, problem), answer)


def _deal(parts: Parts) -> Dealt:
    validation = parts.get("validation", ())
    size = len(validation) or VALIDATION
    return {
        Split.HELDOUT: shuffled(parts.get("test", ()))[:size],
        Split.VALIDATION: validation,
        Split.TRAINING: shuffled(parts.get("auxiliary_train", ()))[: TRAINING_MULTIPLE * size],
    }


def _part(name: str, rows: int, split: Split, sha256: str | None = None) -> Part:
    hub = HubFile(f"all/{name}-00000-of-00001.parquet", sha256)
    return Part(name, rows, (split,), (hub,), tuple(f"{name}*.{ending}" for ending in ("jsonl", "parquet", "csv")))


MMLU = Benchmark(
    name=NAME,
    title="MMLU",
    hub="cais/mmlu",
    revision="c30699e8356da336a370243923dbaf21066bb9fe",
    licence="MIT",
    scorer=ScorerKind.CHOICE,
    fields=("question", "choices", "answer"),
    splits="auxiliary_train 4,593, validation 1,531, test 1,531: the first and last drawn by random.Random(42)",
    prompt="the question with options A to D, one a line; a letter is wanted",
    parts=(
        _part("auxiliary_train", 99842, Split.TRAINING),
        _part("validation", 1531, Split.VALIDATION),
        _part("test", 14042, Split.HELDOUT, "74a41822ce7d3def56e1682f958469c04642a5336a5ce912fa375fdb90fb25d7"),
    ),
    read=each(_item),
    deal=_deal,
)
