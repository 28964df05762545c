"""Every benchmark of the catalogue: what it promises, and its loader on files with the hub's names and fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.benchmarks import sources
from services.benchmarks.catalogue import BENCHMARKS, benchmark
from services.benchmarks.folders import Opened, open_folder
from services.benchmarks.livecodebench import PRELUDE
from services.benchmarks.loading import splits_of
from services.benchmarks.record import Choices
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split, content_hash
from tests.support.benchmark_files import FILES, contest, packed, write, write_benchmark

PLAIN = Choices()
PAPER = ["math500", "mmlu", "rlpr", "livecodebench", "aime2025", "bigcodebench_hard", "mtbench", "gpqa_diamond"]
# training, validation, held out, left out
COUNTS = {
    "math500": (12, 4, 4, 0), "mmlu": (15, 5, 5, 0), "rlpr": (6, 2, 2, 1), "livecodebench": (6, 2, 2, 0),
    "aime2024": (0, 0, 3, 0), "aime2025": (0, 0, 3, 0), "bigcodebench": (0, 0, 1, 1),
    "bigcodebench_hard": (0, 0, 1, 0), "mtbench": (0, 0, 3, 0), "gpqa_diamond": (0, 0, 12, 0),
    "gsm8k": (18, 2, 4, 0), "humaneval": (0, 0, 2, 0), "mbpp": (2, 2, 2, 0), "theoremqa": (6, 2, 2, 1),
}  # fmt: skip


def opened(name: str, folder: Path, choices: Choices = PLAIN) -> Opened:
    if not (folder / name).exists():
        write_benchmark(name, folder)
    return open_folder(BENCHMARKS[name], folder / name, choices)


def problems(name: str, folder: Path, choices: Choices = PLAIN) -> list[Problem]:
    return [item.problem for part in opened(name, folder, choices).items.values() for item in part]


def refused(name: str, folder: Path, change: Callable[[dict[str, Any]], object]) -> str:
    write_benchmark(name, folder, change)
    with pytest.raises(SpecError) as caught:
        opened(name, folder)
    return str(caught.value)


def test_the_catalogue_begins_with_the_papers_benchmarks() -> None:
    assert list(BENCHMARKS)[:8] == PAPER
    assert {*COUNTS} == {*FILES} == {*BENCHMARKS}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_entry_says_everything(name: str) -> None:
    entry = BENCHMARKS[name]
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.hub)
    assert re.fullmatch(r"[0-9a-f]{40}|main", entry.revision)
    assert all((entry.title, entry.licence, entry.splits, entry.prompt, entry.fields))
    files = [file for part in entry.parts for file in part.hub]
    assert len({file.path for file in files}) == len(files) > 0
    assert all(file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in files)
    assert Split.HELDOUT in {split for part in entry.parts for split in part.feeds}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_hubs_files_become_problems(name: str, tmp_path: Path) -> None:
    found = opened(name, tmp_path)
    splits = splits_of(found)
    sizes = tuple(len(splits[split]) for split in (Split.TRAINING, Split.VALIDATION, Split.HELDOUT))
    assert (*sizes, sum(found.left_out.values())) == COUNTS[name]
    everything = [item.problem for part in found.items.values() for item in part]
    assert len({one.key for one in everything}) == len(everything)
    assert {(one.family, one.scorer) for one in everything} == {(name, found.benchmark.scorer)}
    assert all(one.key.startswith(f"{name}/") and "Final answer: " in one.question for one in everything)
    assert sum(found.rows.values()) == len(everything) + sum(found.left_out.values())
    dealt = [one.key for split in Split for one in splits[split]]
    assert len(set(dealt)) == len(dealt)
    again = splits_of(open_folder(found.benchmark, found.folder, Choices()))
    assert content_hash(again) == content_hash(splits)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_empty_folder_says_how_to_get_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteMissing, match=f"manage.py benchmark fetch {name}") as caught:
        open_folder(BENCHMARKS[name], tmp_path / "nothing", Choices())
    assert ("accept the terms" in str(caught.value)) == (name == "gpqa_diamond")


def test_an_unknown_name_gets_a_guess() -> None:
    with pytest.raises(SpecError, match=r"did you mean math500\?"):
        benchmark("math50")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("math500", lambda row: row.update(answer=""), "text in the field answer"),
        ("math500", lambda row: row.update(answer=None), "text in the field answer"),
        ("math500", lambda row: row.pop("problem"), "a field problem"),
        ("mmlu", lambda row: row.update(answer=4), "one of 4 options"),
        ("mmlu", lambda row: row.update(answer=-1), "one of 4 options"),
        ("mmlu", lambda row: row.update(question=" "), "text in the field question"),
        ("rlpr", lambda row: row.update(reward_model={"ground_truth": ""}), "reward_model.ground_truth"),
        ("rlpr", lambda row: row.update(prompt=[], reward_model={"ground_truth": "1"}), "a message of the user"),
        ("aime2025", lambda row: row.update(answer="1000"), "from 0 to 999"),
        ("aime2025", lambda row: row.update(answer="seven"), "a whole number"),
        ("gsm8k", lambda row: row.update(answer="seven"), "a number after ####"),
        ("gsm8k", lambda row: row.update(answer="#### seven"), "is not a number"),
        ("theoremqa", lambda row: row.update(Picture=None, Answer=""), "an answer in the field Answer"),
        ("theoremqa", lambda row: row.update(Picture=None, Answer_type="proof"), "in the field Answer_type"),
        ("mtbench", lambda row: row.update(prompt=["one"]), "2 turns"),
        ("gpqa_diamond", lambda row: row.update({"Correct Answer": "wrong 01"}), "among the wrong ones"),
        ("gpqa_diamond", lambda row: row.update({"Incorrect Answer 2": ""}), "text in the field Incorrect Answer 2"),
        ("humaneval", lambda row: row.update(entry_point="thrice"), "an entry_point that the prompt defines"),
        ("humaneval", lambda row: row.update(test="assert True"), "check(candidate)"),
        ("humaneval", lambda row: row.update(test="def check(:"), "Python source in the field test"),
        ("mbpp", lambda row: row.update(test_list=[]), "at least one test"),
        ("mbpp", lambda row: row.update(test_list=["assert other(1) == 2"]), "tests that call the code"),
        ("bigcodebench", lambda row: row.update(test="x = 1"), "a class TestCases"),
        ("bigcodebench", lambda row: row.update(libs="__import__('os')"), "a list of packages"),
        ("livecodebench", lambda row: row.update(public_test_cases="[]"), "at least one test"),
        ("livecodebench", lambda row: row.update(public_test_cases="{"), "JSON in the field public_test_cases"),
        ("livecodebench", lambda row: row.update(private_test_cases=packed("[]")), "at least one test"),
        ("livecodebench", lambda row: row.update(private_test_cases="gARLKi4="), "packed tests"),
        ("livecodebench", lambda row: row.update(metadata=json.dumps({"func_name": "a b"})), "a func_name"),
        ("livecodebench", lambda row: row.update(metadata="{}"), "testtype stdin"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named(name: str, change: Callable[[Any], object], words: str, tmp_path: Path) -> None:
    text = refused(name, tmp_path, change)
    assert words in text
    first = next(iter(FILES[name]))
    assert f"{tmp_path / name / first}:{2 if first.endswith('.csv') else 1}: " in text


def test_options_are_lettered_and_the_answer_is_a_letter(tmp_path: Path) -> None:
    first = problems("mmlu", tmp_path)[1]
    assert first.question == (
        "Which is the training number 1?\n\nA. 1w\nB. 1x\nC. 1y\nD. 1z\n\n"
        "Final answer: the letter of the right option and nothing else."
    )
    assert (first.answer, first.choices) == ("B", ("1w", "1x", "1y", "1z"))


def test_gpqa_options_are_shuffled_by_the_seed_and_by_each_row_alone(tmp_path: Path) -> None:
    first, again, other = (problems("gpqa_diamond", tmp_path, Choices(seed)) for seed in (1, 1, 2))
    assert first == again
    assert [one.choices for one in first] != [one.choices for one in other]
    for one in (*first, *other):
        assert one.answer is not None
        number = one.key.removeprefix("gpqa_diamond/rec")
        assert one.choices["ABCD".index(one.answer)] == f"right {number}"
        assert sorted(one.choices) == sorted([f"right {number}", *(f"wrong {number}{k}" for k in "123")])
    assert len({one.answer for one in first}) > 1
    write(tmp_path / "part" / "gpqa_diamond.csv", FILES["gpqa_diamond"]["gpqa_diamond.csv"][5:])
    fewer = open_folder(BENCHMARKS["gpqa_diamond"], tmp_path / "part", Choices(1)).items["train"]
    assert [item.problem for item in fewer] == first[5:]


def test_contest_problems_keep_public_and_hidden_tests_apart(tmp_path: Path) -> None:
    function, stdin = problems("livecodebench", tmp_path)[:2]
    called, read = (
        (Case("[1]", "2"), Case("[2]", "4"), Case("[3]", "6")),
        (Case("2", "4"), Case("3", "6"), Case("4", "8")),
    )
    assert function.program == ProgramTests(
        ProgramForm.FUNCTION, "double", (Case("[0]", "0"),), called, prelude=PRELUDE
    )
    assert stdin.program == ProgramTests(ProgramForm.STDIN, None, (Case("1", "2"),), read, prelude=PRELUDE)
    assert "class Solution:\n    def double(self, n: int) -> int:\n```" in function.question
    assert "standard input" in stdin.question
    assert "standard input" not in function.question


def test_several_arguments_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    row = contest(0, True)
    row["public_test_cases"] = json.dumps([{"input": '[1, 2]\n"a b"', "output": "[true]", "testtype": "functional"}])
    row["private_test_cases"] = row["public_test_cases"]  # some releases have them as plain JSON
    write(tmp_path / "livecodebench" / "test.jsonl", [row])
    (only,) = problems("livecodebench", tmp_path)
    assert only.program is not None
    assert only.program.public == only.program.hidden == (Case('[[1, 2], "a b"]', "[true]"),)


@pytest.mark.parametrize(("most", "kept"), [(None, [5, 3, 9, 1]), (18, [5, 3, 9, 1]), (17, [5, 3, 1]), (9, [5, 3, 1]),
                                            (8, [3, 1]), (0, [1])])  # fmt: skip
def test_the_largest_hidden_tests_may_be_left_out(most: int | None, kept: list[int], tmp_path: Path) -> None:
    row = contest(1, False)
    hidden = [{"input": "x" * size, "output": "", "testtype": "stdin"} for size in (5, 3, 9, 1)]
    row["private_test_cases"] = packed(json.dumps(hidden))
    write(tmp_path / "livecodebench" / "test.jsonl", [row])
    (only,) = problems("livecodebench", tmp_path, Choices(test_characters=most))
    assert only.program is not None
    assert [len(case.given) for case in only.program.hidden] == kept


def test_programs_for_assertions_know_the_helpers_of_the_prompt(tmp_path: Path) -> None:
    item = opened("humaneval", tmp_path).items["test"][0]
    tests = item.problem.program
    assert tests is not None
    assert (tests.form, tests.entry_point) == (ProgramForm.ASSERTIONS, "twice")
    assert tests.prelude == "import math\ndef helped(n: int) -> int:\n    return n + 1\n"
    assert tests.source.startswith(tests.prelude)
    assert tests.source.endswith("check(twice)\n")
    assert tests.public == (Case("[1]", "2"),)
    namespace: dict[str, Any] = {}
    exec(f"{item.solution}\n{tests.source}", namespace)


def test_tests_that_need_more_of_the_program_run_inside_it(tmp_path: Path) -> None:
    node = {"code": "class Node:\n    pass\n\ndef height(n):\n    return 1", "test_setup_code": "root = Node()\r\n"}
    write_benchmark("mbpp", tmp_path, lambda row: row.update(node, test_list=["assert height(root) == 1"]))
    first, second = problems("mbpp", tmp_path)[:2]
    assert first.program is not None
    assert second.program is not None
    assert (first.program.form, first.program.entry_point) == (ProgramForm.UNITTEST, "height")
    lines = [line.strip() for line in first.program.source.splitlines() if line.startswith(" " * 8)]
    assert lines == ["root = Node()", "assert height(root) == 1"]
    ast.parse(first.program.source)
    assert (second.program.form, second.program.entry_point) == (ProgramForm.ASSERTIONS, "add_974")
    assert "assert add_974(0) == 974\n```" in second.question
    assert "assert add_974(1)" not in second.question
    assert second.program.public == (Case("[0]", "974"),)
    assert first.program.public == ()


def test_tests_get_the_imports_of_the_code_that_they_count_on(tmp_path: Path) -> None:
    code = "import os, sys\nfrom math import pi\ndef size(x):\n    return sys.getsizeof(x)"
    change = {"code": code, "test_list": ["assert size(1) == sys.getsizeof(1)"]}
    write_benchmark("mbpp", tmp_path, lambda row: row.update(change))
    tests = problems("mbpp", tmp_path)[0].program
    assert tests is not None
    assert tests.form is ProgramForm.ASSERTIONS
    assert tests.source == "import os, sys\nassert size(1) == sys.getsizeof(1)\n"


@pytest.mark.parametrize(
    ("test", "case"),
    [
        ("assert f(1, 'a') == [2, None]", Case('[1, "a"]', "[2, null]")), ("assert f() == -1.5", Case("[]", "-1.5")),
        ("assert f({'a': True}) == 'b'", Case('[{"a": true}]', '"b"')), ("assert f((1, 2)) == 3", None),
        ("assert f(1) == (1, 2)", None), ("assert f(1) != 2", None), ("assert f(x) == 2", None), ("assert f(1)", None),
        ("assert g(1) == 2", None), ("assert f(a=1) == 2", None), ("assert f({1: 2}) == 2", None),
        ("assert f(1) == 1e999", None), ("assert sorted(f(1)) == [1]", None), ("assert f(*[1]) == 2", None),
        ("f(1) == 2", None), ("assert f(1) == {1, 2}", None), ("assert f(1) < 2 < 3", None),
    ],
)  # fmt: skip
def test_assertions_whose_values_json_holds_are_cases(test: str, case: Case | None) -> None:
    assert list(sources.asserted(ast.parse(test), "f")) == ([] if case is None else [case])


def test_packages_decide_which_library_problems_there_are(tmp_path: Path) -> None:
    (alone,) = problems("bigcodebench", tmp_path)
    both = problems("bigcodebench", tmp_path, Choices(packages=("numpy",)))
    assert both[0] == alone
    assert [one.key for one in both] == ["bigcodebench/1", "bigcodebench/2"]
    assert alone.program is not None
    assert alone.program.prelude == "import json\nLIMIT = 3\n"


def test_both_turns_stand_in_one_question(tmp_path: Path) -> None:
    first, second, _ = problems("mtbench", tmp_path)
    assert "<first_message>\nSay 1.\n</first_message>\n\n<second_message>\nSay 1 again.\n" in second.question
    assert (first.answer, second.answer) == ("Turn 1\nZero.\n\nTurn 2\nZero, zero.", None)


def test_a_file_of_references_wins_over_the_row(tmp_path: Path) -> None:
    folder = write_benchmark("mtbench", tmp_path)
    answer = {"question_id": 81, "choices": [{"index": 0, "turns": ["One.", "One, one."]}]}
    write(folder / "reference_answer_gpt-4.jsonl", [answer])
    assert [one.answer for one in problems("mtbench", tmp_path)][1] == "Turn 1\nOne.\n\nTurn 2\nOne, one."


def test_a_conversation_in_one_message_is_unwrapped(tmp_path: Path) -> None:
    whole = "A conversation between User and Assistant. Think first.\nUser: How many?\nAssistant: "
    message = [{"role": "user", "content": whole}]
    write_benchmark("rlpr", tmp_path, lambda row: row.update(prompt=message, reward_model={"ground_truth": "3"}))
    assert problems("rlpr", tmp_path)[0].question.startswith("How many?\n\nFinal answer: ")


@pytest.mark.parametrize(
    ("name", "answers"),
    [("theoremqa", ["0.5", "True", "[1, 2]", "12"]), ("aime2024", ["60", "61", "62"]), ("gsm8k", ["2", "3"])],
)
def test_references_are_written_out(name: str, answers: list[str], tmp_path: Path) -> None:
    assert [one.answer for one in problems(name, tmp_path)][: len(answers)] == answers


def test_a_judged_problem_may_have_no_reference_and_a_program_has_none(tmp_path: Path) -> None:
    for name in BENCHMARKS:
        for one in problems(name, tmp_path):
            assert (one.program is not None) == (one.scorer is ScorerKind.PROGRAM)
            assert bool(one.choices) == (one.scorer is ScorerKind.CHOICE)
            if one.scorer not in (ScorerKind.PROGRAM, ScorerKind.JUDGE):
                assert one.answer
