"""The campaign file's sections for benchmarks, options and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.config import campaign as campaigns
from services.core.errors import SpecError
from services.core.problem import ProgramForm, ScorerKind
from services.core.problem_source import AnswerForm, BenchmarkProblems, BenchmarkSet, JsonlProblems, ProgramFields

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"
POOL = "pool:\n  - {name: a, model: openai/a, price: {input: 1, output: 1}}\n"
SETS = """\
name: x
seed: 5
problems:
  source: benchmarks
  sets:
    - math500
    - {name: mmlu, training: 240, heldout: 0}
    - {name: bigcodebench, folder: bcb, packages: [numpy], exclude: [bigcodebench/1]}
    - {name: livecodebench, folder: "${DATA}/lcb", test_megabytes: 4}
"""
FILES = """\
name: x
problems:
  source: jsonl
  sets:
    - {files: [x.csv], question: q, SET}
  split: {training: 0.5, heldout: 0.5}
"""
VARIABLES = {"TRINITY_BENCHMARK_DIR": "/sets", "DATA": "/data"}


def source(text: str) -> object:
    return campaigns.problem_source(campaigns.parse(text + POOL, "f.yaml", Path("/home"), VARIABLES))


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        source(text)
    return str(caught.value)


def test_benchmarks_become_records() -> None:
    assert source(SETS) == BenchmarkProblems(
        5,
        (
            BenchmarkSet("math500", Path("/sets/math500")),
            BenchmarkSet("mmlu", Path("/sets/mmlu"), training=240, heldout=0),
            BenchmarkSet("bigcodebench", Path("/home/bcb"), packages=("numpy",), exclude=("bigcodebench/1",)),
            BenchmarkSet("livecodebench", Path("/data/lcb"), test_megabytes=4),
        ),
        balance=True,
    )
    other = source(SETS.replace("source: benchmarks", "source: benchmarks\n  balance: false\n  seed: 9"))
    assert isinstance(other, BenchmarkProblems)
    assert (other.seed, other.balance) == (9, False)


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("training: 240", "training: -1", "problems.sets.1.training (f.yaml:7)", "at least 0"),
        ("training: 240", "train: 240", "problems.sets.1.train (f.yaml:7)", "training"),
        ("- math500", "- MATH-500", "problems.sets.0.name", "text that matches"),
        ("- math500", "- ../x", "problems.sets.0.name", "text that matches"),
        ("- math500", "- 7", "problems.sets.0 (f.yaml:6)", "a mapping"),
        ("name: mmlu, ", "", "problems.sets.1", "a value"),
        ("${DATA}", "${NOWHERE}", "problems.sets.3.folder (f.yaml:9)", "set NOWHERE"),
        ("test_megabytes: 4", "test_megabytes: 0", "problems.sets.3.test_megabytes (f.yaml:9)", "at least 1"),
        ("source: benchmarks", "source: benchmark", "problems.source (f.yaml:4)", "'generated', 'jsonl', 'benchmarks'"),
        ("  source: benchmarks\n", "", "problems.source", "generated, jsonl or benchmarks"),
    ],
)
def test_mistakes_name_their_field(old: str, new: str, place: str, words: str) -> None:
    text = refused(SETS.replace(old, new))
    assert place in text
    assert words in text


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(problems:.*?)```", DOCS.read_text(), re.DOTALL))
def test_the_documented_examples_are_accepted(block: str) -> None:
    assert source(f"name: x\n{block}")


def test_without_a_folder_of_benchmarks_it_is_asked_for() -> None:
    with pytest.raises(SpecError, match="set TRINITY_BENCHMARK_DIR"):
        campaigns.parse(SETS + POOL, "f.yaml", Path("/home"), {"DATA": "/data"})


def test_options_and_tests_become_records() -> None:
    choice = source(FILES.replace("SET", "scorer: choice, answer: a, choices: c, answer_form: index, ask: Which one"))
    assert isinstance(choice, JsonlProblems)
    (one,) = choice.sets
    assert (one.scorer, one.choices, one.answer_form, one.ask) == (
        ScorerKind.CHOICE,
        "c",
        AnswerForm.INDEX,
        "Which one",
    )
    tests = "{form: function, entry_point: e, public: p, cases: c, prelude: h, seconds: 3}"
    program = source(FILES.replace("SET", f"scorer: program, tests: {tests}"))
    assert isinstance(program, JsonlProblems)
    assert program.sets[0].tests == ProgramFields(ProgramForm.FUNCTION, "e", None, "h", "p", "c", 3.0)
    for scorer in ("mathematics", "rules", "judge"):
        assert source(FILES.replace("SET", f"scorer: {scorer}, answer: a"))
    assert source(FILES.replace("SET", "scorer: judge"))


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("scorer: choice, answer: a", "`choices` beside `scorer: choice` and no other"),
        ("scorer: exact, answer: a, choices: c", "`choices` beside `scorer: choice` and no other"),
        ("scorer: choice, choices: c", "`answer` and no `scores` beside `scorer: choice`"),
        ("scorer: exact, answer: a, answer_form: text", "`answer_form` only beside `choices`"),
        ("scorer: choice, answer: a, choices: c, answer_form: word", "'letter', 'index' or 'text'"),
        ("scorer: choice, answer: a, choices: c, answer_after: x", "`answer_after` only beside `answer`"),
        ("scorer: program", "`tests` and no `answer` beside `scorer: program`"),
        ("scorer: program, answer: a, tests: {form: stdin, cases: c}", "`tests` and no `answer`"),
        ("scorer: exact, answer: a, tests: {form: stdin, cases: c}", "`tests` only beside `scorer: program`"),
        ("scorer: judge, scores: s", "`answer` and no `scores`"),
        ("scorer: recorded, scores: s, ask: x", "no `ask`"),
        ("scorer: program, tests: {form: stdin}", "`public`, `cases` or both, and no `source`"),
        ("scorer: program, tests: {form: stdin, cases: c, entry_point: e}", "`entry_point` beside every form but"),
        ("scorer: program, tests: {form: function, cases: c}", "`entry_point` beside every form but"),
        ("scorer: program, tests: {form: function, entry_point: e, source: s}", "and no `source`"),
        ("scorer: program, tests: {form: assertions, entry_point: e}", "`source`, and neither `public` nor `cases`"),
        ("scorer: program, tests: {form: unittest, entry_point: e, source: s, cases: c}", "neither `public` nor"),
        ("scorer: program, tests: {form: script, source: s}", "'stdin', 'function', 'assertions' or 'unittest'"),
        ("scorer: program, tests: {form: stdin, case: c}", "did you mean cases?"),
    ],
)
def test_what_does_not_fit_together_is_refused(mapping: str, words: str) -> None:
    text = refused(FILES.replace("SET", mapping))
    assert "problems.sets.0" in text
    assert words in text
