"""HumanEval: functions by signature and docstring, judged by assertions."""

from __future__ import annotations

from services.benchmarks import dealing, fields, sources, wording
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ProgramForm, ProgramTests, ScorerKind, Split

NAME = "humaneval"
WRONG_EXAMPLES = frozenset({"HumanEval/47"})  # its docstring shows a median of 15.0 where the tests want 8.0


def _item(line: Line, part: str, choices: Choices) -> Item:
    prompt, test = fields.source(line, "prompt"), fields.source(line, "test")
    entry = fields.text(line, "entry_point")
    given = sources.tree(line, "prompt", prompt)
    if entry not in sources.defined(given):
        raise SpecError(line.place, entry, "an entry_point that the prompt defines")
    if "check" not in sources.defined(sources.tree(line, "test", test)):
        raise SpecError(line.place, "no function check", "tests in a function check(candidate)")
    # Some tests call other functions of the prompt, such as encode_cyclic: they know them as the answer does.
    prelude = sources.without(given, entry)
    known = fields.text(line, "task_id")
    public = () if known in WRONG_EXAMPLES else tuple(sources.shown(given, entry))
    source = f"{prelude}{test}\ncheck({entry})\n"
    tests = ProgramTests(ProgramForm.ASSERTIONS, entry, public, source=source, prelude=prelude)
    question = wording.asked("Complete this Python function.", wording.fenced(prompt), wording.function(entry))
    key = f"{NAME}/{known.rpartition('/')[2]}"
    problem = fields.checked(line, Problem(key, NAME, question, ScorerKind.PROGRAM, program=tests))
    return Item(line.place, problem, prompt + fields.source(line, "canonical_solution"))


HUMANEVAL = Benchmark(
    name=NAME,
    title="HumanEval",
    hub="openai/openai_humaneval",
    revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    licence="MIT",
    scorer=ScorerKind.PROGRAM,
    fields=("task_id", "prompt", "entry_point", "canonical_solution", "test"),
    splits="all held out",
    prompt="the signature with its docstring; the whole function as plain text is wanted",
    parts=(
        Part(
            "test",
            164,
            (Split.HELDOUT,),
            (HubFile("openai_humaneval/test-00000-of-00001.parquet"),),
            ("HumanEval*.jsonl", "test*.jsonl", "test*.parquet"),
        ),
    ),
    read=each(_item),
    deal=dealing.held_out,
)
