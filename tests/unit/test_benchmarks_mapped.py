"""Options, tests and other files by a mapping of fields."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.benchmarks.registry import load
from services.core.errors import SpecError
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split
from services.core.problem_source import AnswerForm, JsonlProblems, JsonlSet, ProgramFields, SeededSplit
from tests.support.benchmark_files import write

CHOICE = JsonlSet((), "q", ScorerKind.CHOICE, answer="a", choices="c")
PROGRAM = JsonlSet((), "q", ScorerKind.PROGRAM)


def one(folder: Path, mapping: JsonlSet, row: dict[str, Any], name: str = "x.jsonl") -> Problem:
    write(folder / name, [row])
    source = JsonlProblems((replace(mapping, files=(folder / name,)),), SeededSplit(1, 1, 0, 0))
    return load(source, [])[Split.TRAINING][0]


@pytest.mark.parametrize(
    ("answer", "choices", "form", "letter"),
    [
        ("B", ["x", "y"], None, "B"), ("b", ["x", "y"], None, "B"), ("y", ["x", "y"], None, "B"),
        (1, ["x", "y"], None, "B"), (0, ["x", "y"], None, "A"), ("1", ["x", "y"], AnswerForm.INDEX, "B"),
        ("A", ["B", "A"], AnswerForm.TEXT, "B"), ("A", ["B", "A"], AnswerForm.LETTER, "A"),
        ("A", ["A", "B"], None, "A"), ("7", [6, 7], None, "B"), ("y", '["x", "y"]', None, "B"),
    ],
)  # fmt: skip
def test_an_option_is_named_by_letter_index_or_text(
    answer: Any, choices: Any, form: AnswerForm | None, letter: str, tmp_path: Path
) -> None:
    found = one(tmp_path, replace(CHOICE, answer_form=form), {"q": "Which?", "a": answer, "c": choices})
    assert (found.answer, found.scorer) == (letter, ScorerKind.CHOICE)
    assert found.question.startswith(
        f"Which?\n\nA. {found.choices[0]}\nB. {found.choices[1]}\n\nFinal answer: the letter"
    )


@pytest.mark.parametrize(
    ("answer", "choices", "form", "words"),
    [
        ("C", ["x", "y"], None, "one of the options in the field a"), (2, ["x", "y"], None, "one of the options"),
        (-1, ["x", "y"], None, "one of the options"), (True, ["x", "y"], None, "one of the options"),
        ("", ["x", "y"], None, "one of the options"), (None, ["x", "y"], None, "one of the options"),
        ("A", ["B", "A"], None, "an `answer_form`"), ("x", ["x", "x"], None, "one of the options"),
        ("x", ["x", "y"], AnswerForm.LETTER, "the letter of one"), ("A", ["x"], None, "2 to 26 options"),
        ("A", "x or y", None, "JSON in the field c"), ("A", ["x", " "], None, "not empty"),
        ("A", ["x", None], None, "not empty"), ("A", {"text": ["x"]}, None, "a list of 2 to 26 options"),
    ],
)  # fmt: skip
def test_what_names_no_option_is_refused_with_its_line(
    answer: Any, choices: Any, form: AnswerForm | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=r"x\.jsonl:1: ") as caught:
        one(tmp_path, replace(CHOICE, answer_form=form), {"q": "Which?", "a": answer, "c": choices})
    assert words in str(caught.value)


def test_programs_by_standard_input(tmp_path: Path) -> None:
    mapping = replace(PROGRAM, tests=ProgramFields(ProgramForm.STDIN, public="shown", cases="tests", seconds=2.0))
    case = {"input": "1\n", "output": "2\n"}
    found = one(tmp_path, mapping, {"q": "Double.", "shown": [case], "tests": json.dumps([case, case])})
    tests = Case("1\n", "2\n")
    assert found.program == ProgramTests(ProgramForm.STDIN, None, (tests,), (tests, tests), seconds=2.0)
    assert found.question == (
        "Double.\n\nFinal answer: a complete Python 3 program as plain text, without code fences."
    )
    assert (found.answer, found.choices) == (None, ())


def test_programs_by_calls_and_by_source(tmp_path: Path) -> None:
    calls = replace(PROGRAM, tests=ProgramFields(ProgramForm.FUNCTION, "name", cases="tests"), ask="Only code.")
    row = {
        "q": "Double.",
        "name": "double",
        "tests": [{"input": [1, [2]], "output": {"a": 1}}, {"input": "[1]", "output": "2"}],
    }
    found = one(tmp_path, calls, row)
    assert found.program is not None
    assert found.program.hidden == (Case("[1, [2]]", '{"a": 1}'), Case("[1]", "2"))
    assert found.question == "Double.\n\nOnly code."
    mapping = ProgramFields(ProgramForm.ASSERTIONS, "name", source="lines", prelude="head")
    row = {
        "q": "Double.",
        "name": "double",
        "lines": ["assert double(1) == 2", "assert double(2) == 4"],
        "head": "import os",
    }
    found = one(tmp_path, replace(PROGRAM, tests=mapping), row)
    assert found.program is not None
    assert found.program.source == "assert double(1) == 2\nassert double(2) == 4\n"
    assert (found.program.prelude, found.program.entry_point) == ("import os", "double")
    assert "Python 3 source that defines double" in found.question


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ([], "at least one test"), ("[", "JSON in the field t"), ({"input": 1}, "a list of tests"),
        ([{"input": "1"}], "input and output"), ([{"input": 1, "output": "2"}], "texts as input"),
        ([7], "input and output"),
    ],
)  # fmt: skip
def test_tests_that_are_none_are_refused(tests: Any, words: str, tmp_path: Path) -> None:
    mapping = replace(PROGRAM, tests=ProgramFields(ProgramForm.STDIN, cases="t"))
    with pytest.raises(SpecError, match=r"x\.jsonl:1: ") as caught:
        one(tmp_path, mapping, {"q": "Double.", "t": tests})
    assert words in str(caught.value)


def test_a_judged_question_may_have_a_reference(tmp_path: Path) -> None:
    mapping = JsonlSet((), "q", ScorerKind.JUDGE, answer="a")
    assert one(tmp_path, mapping, {"q": "Write.", "a": "Like so."}).answer == "Like so."
    assert one(tmp_path, mapping, {"q": "Write.", "a": None}).answer is None
    assert one(tmp_path, replace(mapping, answer=None), {"q": "Write."}).answer is None


def test_a_question_without_options_stays_as_it_is_unless_something_is_asked(tmp_path: Path) -> None:
    mapping = JsonlSet((), "q", ScorerKind.NUMERIC, answer="a")
    assert one(tmp_path, mapping, {"q": " 1 + 1? ", "a": 2}).question == " 1 + 1? "
    assert one(tmp_path, replace(mapping, ask="A number."), {"q": "1 + 1?", "a": 2}).question == "1 + 1?\n\nA number."


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.jsonl"])
def test_csv_and_parquet_are_read_like_json_lines(name: str, tmp_path: Path) -> None:
    row = {"q": "Which, of\nthese?", "a": "y", "c": '["x", "y"]'}
    found = one(tmp_path, CHOICE, row, name)
    assert (found.answer, found.choices) == ("B", ("x", "y"))
    assert found.key == ("x:2" if name == "x.csv" else "x:1")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [("x.csv", b"q,a,c\n1,2\n", "as many cells"), ("x.csv", b"q,a,c\n1,2,3,4\n", "as many cells"),
     ("x.csv", b"q,a,c\n\xff,2,3\n", "UTF-8"), ("x.csv", b'q,a,c\n"1,2,3\n', "comma-separated"),
     ("x.parquet", b"PAR1", "Parquet"), ("x.parquet", b"", "Parquet")],
)  # fmt: skip
def test_files_that_are_not_what_their_name_says_are_refused(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    source = JsonlProblems((replace(CHOICE, files=(tmp_path / name,)),), SeededSplit(1, 1, 0, 0))
    with pytest.raises(SpecError) as caught:
        load(source, [])
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_an_absent_parquet_file_is_named(tmp_path: Path) -> None:
    source = JsonlProblems((replace(CHOICE, files=(tmp_path / "no.parquet",)),), SeededSplit(1, 1, 0, 0))
    with pytest.raises(SpecError, match=r"no\.parquet: got 'No such file"):
        load(source, [])
