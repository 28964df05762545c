"""References of every kind through the real graders: symbolic comparison in processes, programs in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.cli import main
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
