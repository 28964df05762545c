"""Real rows of code benchmarks as problems with their reference programs, for tests of the scorer alone."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from services.core.problem import Problem, ProgramForm, ProgramTests
from services.core.scoring.program.syntax import read_python
from tests.support.programs import wanting

FOLDER = Path(os.environ.get("TRINITY_DATA_DIR") or Path(__file__).parents[3] / "shared" / "data")
Pair = tuple[Problem, str]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with (FOLDER / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def humaneval() -> Iterator[Pair]:
    for row in _rows("humaneval/HumanEval.jsonl"):
        tree = ast.parse(row["prompt"])
        tree.body = [item for item in tree.body if getattr(item, "name", None) != row["entry_point"]]
        tests = ProgramTests(
            ProgramForm.ASSERTIONS, row["entry_point"], source=row["test"], prelude=ast.unparse(tree) + "\n"
        )
        yield wanting(tests, row["task_id"]), row["prompt"] + row["canonical_solution"]


def mbpp() -> Iterator[Pair]:
    for row in _rows("mbpp/mbpp.jsonl"):
        program = row["code"].replace("\r\n", "\n")
        source = "\n".join([row["test_setup_code"], *row["test_list"]]).replace("\r\n", "\n")
        defined = {item.name for item in read_python(program).body if isinstance(item, ast.FunctionDef)}
        called = [node.id for node in ast.walk(read_python(row["test_list"][0])) if isinstance(node, ast.Name)]
        entry_point = next(name for name in called if name in defined)
        yield (
            wanting(ProgramTests(ProgramForm.ASSERTIONS, entry_point, source=source), f"MBPP/{row['task_id']}"),
            program,
        )


def bigcodebench() -> Iterator[Pair]:
    for row in _rows("bigcodebench/stdlib_200.jsonl"):
        tests = ProgramTests(ProgramForm.UNITTEST, row["entry_point"], source=row["test"], seconds=30.0)
        yield wanting(tests, row["task_id"]), row["complete_prompt"] + row["canonical_solution"]


SETS: dict[str, Callable[[], Iterator[Pair]]] = {"humaneval": humaneval, "mbpp": mbpp, "bigcodebench": bigcodebench}
