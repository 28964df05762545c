"""References of every kind through the real graders: symbolic comparison in processes, programs in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.benchmarks.catalogue import BENCHMARKS
from services.benchmarks.folders import open_folder
from services.benchmarks.record import Choices
from services.cli import main
from services.cli.graders import open_graders
from services.core.problem import ScorerKind
from services.core.scoring.scorer import grade
from tests.support.benchmark_files import FILES, write, write_benchmark

CHECKED = {"math500": 20, "mmlu": 75, "rlpr": 10, "theoremqa": 10, "gpqa_diamond": 12, "humaneval": 2, "mbpp": 8,
           "bigcodebench": 1}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_references_pass_their_own_scorer(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_benchmark(name, tmp_path)
    assert main.run(("benchmark", "check", name, "--folder", str(folder), "--jobs", "2", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["passed"], report["graded"], report["failed"]) == (CHECKED[name], CHECKED[name], [])


def test_a_canonical_solution_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path, rows), *_ = FILES["humaneval"].items()
    wrong = {**rows[0], "canonical_solution": "    return n\n"}
    write(tmp_path / path, [wrong, rows[1]])
    assert main.run(("benchmark", "check", "humaneval", "--folder", str(tmp_path), "--json")) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(one["key"], one["outcome"]) for one in report["failed"]] == [("humaneval/0", "wrong")]


METHOD = "class Solution:\n    def double(self, n: int) -> int:\n        return {} * n\n"
SCRIPT = "print({} * int(input()))\n"


def test_contest_programs_are_graded_by_public_and_hidden_tests(tmp_path: Path) -> None:
    folder = write_benchmark("livecodebench", tmp_path)
    method, script = open_folder(BENCHMARKS["livecodebench"], folder, Choices()).items["v1"][:2]
    assert method.problem.program is not None
    assert method.problem.program.public[0].given == "[0]"  # any multiple of 0 passes: the hidden tests decide
    with open_graders({ScorerKind.PROGRAM}, 2) as graders:
        for item, text in ((method, METHOD), (script, SCRIPT)):
            assert grade(item.problem, text.format(2), None, graders).reward == 1.0
            assert grade(item.problem, text.format(3), None, graders).reward == 0.0
