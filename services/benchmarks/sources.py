"""What Python source defines and uses, read without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from services.benchmarks.jsonl import Line
from services.core.errors import SpecError


def tree(line: Line, field: str, code: str) -> ast.Module:
    """Return the syntax tree; raises SpecError naming the row."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise SpecError(line.place, reason, f"Python source in the field {field}") from error


def defined(module: ast.Module) -> set[str]:
    """Return the functions and classes at the top level."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in module.body if isinstance(node, kinds)}


def used(module: ast.Module) -> list[str]:
    """Return every name that is read, in the order of the text."""
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return [node.id for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset))]


def without(module: ast.Module, name: str) -> str:
    """Return the source of the top level but for the function of that name: imports, constants, other functions."""
    kept = [node for node in module.body if not (isinstance(node, ast.FunctionDef) and node.name == name)]
    return "".join(f"{ast.unparse(node)}\n" for node in kept)


def beyond_the_library(packages: Iterable[str]) -> set[str]:
    """Return the packages that Python's standard library does not have, by their top-level names."""
    return {name for package in packages if (name := package.split(".")[0]) not in sys.stdlib_module_names}
