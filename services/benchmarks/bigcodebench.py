"""BigCodeBench: functions that use libraries, judged by ``unittest`` cases inside the program's module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from services.benchmarks import dealing, fields, sources, wording
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, LeftOut, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ProgramForm, ProgramTests, ScorerKind, Split

NEEDS_PACKAGES = "needs packages beyond the standard library"
SECONDS = 30.0  # some tests sleep, compress or talk to themselves
FILE = "data/v0.1.4-00000-of-00001.parquet"


def _reader(name: str) -> Callable[[Line, str, Choices], Item | LeftOut]:
    def item(line: Line, part: str, choices: Choices) -> Item | LeftOut:
        # Tests import packages, such as faker, that the field does not name.
        test = sources.tree(line, "test", fields.source(line, "test"))
        if sources.beyond_the_library({*_libraries(line), *sources.imported(test)}) - set(choices.packages):
            return LeftOut(NEEDS_PACKAGES)
        return _item(name, line, test)

    return item


def _item(name: str, line: Line, test: ast.Module) -> Item:
    entry = fields.text(line, "entry_point")
    if "TestCases" not in sources.defined(test):
        raise SpecError(line.place, "no class TestCases", "tests in a class TestCases")
    # As in the authors' calibrated score: an answer may count on the imports that the task shows.
    begun = sources.tree(line, "code_prompt", fields.source(line, "code_prompt") + "    pass\n")
    source = fields.source(line, "test")
    tests = ProgramTests(
        ProgramForm.UNITTEST, entry, source=source, prelude=sources.without(begun, entry), seconds=SECONDS
    )
    question = wording.asked(fields.text(line, "instruct_prompt"), wording.function(entry))
    key = f"{name}/{fields.text(line, 'task_id').rpartition('/')[2]}"
    problem = fields.checked(line, Problem(key, name, question, ScorerKind.PROGRAM, program=tests))
    return Item(line.place, problem, fields.source(line, "complete_prompt") + fields.source(line, "canonical_solution"))


def _libraries(line: Line) -> Sequence[str]:
    """Return the field ``libs``: a list, or the text of one as Python writes it."""
    value = line.field("libs")
    try:
        found = ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise SpecError(line.place, shown(value), "a list of packages in the field libs")
    return found


def _benchmark(name: str, title: str, hub: str, revision: str, rows: int, sha256: str) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        hub=hub,
        revision=revision,
        licence="Apache-2.0",
        scorer=ScorerKind.PROGRAM,
        fields=(
            "task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test",
            "entry_point", "libs",
        ),
        splits="all held out",
        prompt="the instruct prompt; a function as plain text is wanted",
        parts=(
            Part(
                "v0.1.4", rows, (Split.HELDOUT,), (HubFile(FILE, sha256),),
                ("stdlib*.jsonl", "BigCodeBench*.jsonl", "v0*.parquet", "*.jsonl"),
            ),
        ),
        read=each(_reader(name)),
        deal=dealing.held_out,
        filters="problems that need packages which programs do not find where they run; `packages` of the set names "
        "those that they find",
    )  # fmt: skip


BIGCODEBENCH = _benchmark(
    "bigcodebench",
    "BigCodeBench",
    "bigcode/bigcodebench",
    "b74c0d0bf70d2c0bc459be537895cca163007f1a",
    1140,
    "d9a4965821c9507ebdfb551c288656b2d5fe553234f5183044333ca8a4018267",
)
# The subset whose size fits the paper's figures.
BIGCODEBENCH_HARD = _benchmark(
    "bigcodebench_hard",
    "BigCodeBench-Hard",
    "bigcode/bigcodebench-hard",
    "main",
    148,
    "73a4270b43feb81abefad7bb1b592937c768ea45c3263bedc1cabd30a9a6ce79",
)
