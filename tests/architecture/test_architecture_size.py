"""The size budget: no file above 400 lines, no function above 60, half of the functions at most 10 lines."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [
    ROOT / "manage.py",
    *(path for name in ("services", "scheduler", "worker") for path in (ROOT / name).rglob("*.py")),
]
EVERYTHING = [*PRODUCT, *(path for name in ("tests", "bench", "migrations") for path in (ROOT / name).rglob("*.py"))]
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}


def functions(path: Path) -> list[tuple[str, int]]:
    """Return every function's name and the number of lines of its body without the docstring."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body:
                found.append((f"{path.relative_to(ROOT)}:{node.name}", (body[-1].end_lineno or 0) - body[0].lineno + 1))
    return found


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_no_function_is_longer_than_60_lines() -> None:
    assert [item for path in EVERYTHING for item in functions(path) if item[1] > 60] == []


def test_half_of_the_product_functions_have_at_most_10_lines() -> None:
    lengths = [length for path in PRODUCT for _, length in functions(path)]
    assert statistics.median(lengths) <= 10


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [path for path in EVERYTHING if path.stem in FORBIDDEN_NAMES or path.parent.name in FORBIDDEN_NAMES] == []


def test_every_test_folder_and_product_folder_is_known() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {"var"}
    folders = {name for name in folders if not name.endswith(".egg-info")}
    assert folders == {"services", "scheduler", "worker", "migrations", "infra", "tests", "docs", "bench"}
