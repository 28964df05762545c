"""MBPP: small Python functions by one sentence, judged by three assertions of which the first is shown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from services.benchmarks import fields, sources, wording
from services.benchmarks.dealing import Parts
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, Dealt, HubFile, Item, Part, each
from services.core.errors import SpecError
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split

NAME = "mbpp"
# By task_id, as in the paper of MBPP; 1 to 10 are examples for prompts.
SPLITS = {Split.HELDOUT: range(11, 511), Split.VALIDATION: range(511, 601), Split.TRAINING: range(601, 975)}

_IN_THE_PROGRAM = """import unittest

class TestCases(unittest.TestCase):
    def test_all(self):
{}
"""


def _item(line: Line, part: str, choices: Choices) -> Item:
    code, setup = fields.source(line, "code"), fields.source(line, "test_setup_code")
    shown = fields.texts(line, "test_list")
    if not shown or not shown[0].strip():
        raise SpecError(line.place, "no test", "at least one test in the field test_list")
    test = "\n".join((setup, *shown)).replace("\r\n", "\n").strip() + "\n"
    written = sources.tree(line, "code", code)
    names = sources.used(sources.tree(line, "test_list", test))
    entry, alone = _entry_point(line, sources.defined(written), names, shown[0])
    number = fields.whole(line, "task_id")
    question = wording.asked(
        fields.text(line, "text", "prompt").strip(), "It has to pass this test:", wording.fenced(shown[0]),
        wording.function(entry),
    )  # fmt: skip
    # Some tests count on an import of the code, such as that of sys.
    whole = sources.imports(written, set(names)) + test
    public = tuple(sources.asserted(sources.tree(line, "test_list", shown[0]), entry))
    tests = _tests(entry, whole, alone, public)
    problem = Problem(f"{NAME}/{number}", NAME, question, ScorerKind.PROGRAM, program=tests)
    return Item(line.place, fields.checked(line, problem), code)


def _tests(entry: str, test: str, alone: bool, public: tuple[Case, ...]) -> ProgramTests:
    if alone:
        return ProgramTests(ProgramForm.ASSERTIONS, entry, public, source=test)
    source = _IN_THE_PROGRAM.format(textwrap.indent(test, " " * 8))
    return ProgramTests(ProgramForm.UNITTEST, entry, public, source=source)


def _entry_point(line: Line, known: set[str], names: Sequence[str], shown: str) -> tuple[str, bool]:
    """Return the function that the tests call, and whether they need nothing else of the program, such as a class."""
    named = [name for name in names if name in known]
    if not named:
        raise SpecError(line.place, f"tests that call none of {', '.join(sorted(known))}", "tests that call the code")
    asserted = [name for name in sources.used(sources.tree(line, "test_list", shown)) if name in known]
    return (asserted or named)[0], len(set(named)) == 1


def _deal(parts: Parts) -> Dealt:
    numbered = [(int(one.key.rpartition("/")[2]), one) for part in parts.values() for one in part]
    return {split: [one for number, one in numbered if number in range_] for split, range_ in SPLITS.items()}


MBPP = Benchmark(
    name=NAME,
    title="MBPP",
    hub="google-research-datasets/mbpp",
    revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    licence="CC BY 4.0",
    scorer=ScorerKind.PROGRAM,
    fields=("text", "code", "task_id", "test_setup_code", "test_list"),
    splits="by task_id: 11 to 510 held out, 511 to 600 validation, 601 to 974 training, 1 to 10 unused",
    prompt="the sentence and the first test; a function as plain text is wanted",
    parts=(
        Part(
            "all",
            974,
            tuple(Split),
            tuple(HubFile(f"full/{name}-00000-of-00001.parquet") for name in ("train", "test", "validation", "prompt")),
            ("mbpp*.jsonl", "mbpp*.parquet"),
        ),
    ),
    read=each(_item),
    deal=_deal,
)
