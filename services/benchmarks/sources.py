"""What Python source defines, uses and shows, read without running it."""

from __future__ import annotations

import ast
import doctest
import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from services.benchmarks.jsonl import Line
from services.core.errors import SpecError
from services.core.problem import Case


def tree(line: Line, field: str, code: str) -> ast.Module:
    """Return the syntax tree; raises SpecError naming the row."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape only warns, and warnings may be errors
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


def imports(module: ast.Module, names: set[str]) -> str:
    """Return the imports at the top level that bind one of these names."""
    kinds = (ast.Import, ast.ImportFrom)
    bound = [(node, {alias.asname or alias.name.split(".")[0] for alias in node.names})
             for node in module.body if isinstance(node, kinds)]  # fmt: skip
    return "".join(f"{ast.unparse(node)}\n" for node, binds in bound if binds & names)


def imported(module: ast.Module) -> set[str]:
    """Return the packages that are imported anywhere, by the names that stand in the source."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names.add(node.module)
    return names


def without(module: ast.Module, name: str) -> str:
    """Return the source of the top level but for the function of that name: imports, constants, other functions."""
    kept = [node for node in module.body if not (isinstance(node, ast.FunctionDef) and node.name == name)]
    return "".join(f"{ast.unparse(node)}\n" for node in kept)


def beyond_the_library(packages: Iterable[str]) -> set[str]:
    """Return the packages that Python's standard library does not have, by their top-level names."""
    return {name for package in packages if (name := package.split(".")[0]) not in sys.stdlib_module_names}


def asserted(module: ast.Module, function: str) -> Iterator[Case]:
    """Yield the assertions ``function(literals) == literal`` whose values JSON holds without loss."""
    for node in module.body:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
            found = _case(node.test.left, node.test.comparators[0], function)
            if isinstance(node.test.ops[0], ast.Eq) and found is not None:
                yield found


def shown(module: ast.Module, function: str) -> Iterator[Case]:
    """Yield the examples ``>>> function(literals)`` of its docstring whose values JSON holds without loss."""
    docstrings = [
        ast.get_docstring(node) or ""
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    for example in _examples("\n\n".join(docstrings)):
        try:
            call, wanted = (ast.parse(text.strip(), mode="eval").body for text in (example.source, example.want))
        except SyntaxError:
            continue
        if (found := _case(call, wanted, function)) is not None:
            yield found


def _examples(docstring: str) -> list[doctest.Example]:
    try:
        return doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # a docstring that only looks like one with examples
        return []


def _case(call: ast.expr, wanted: ast.expr, function: str) -> Case | None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != function:
        return None
    try:
        given = [ast.literal_eval(argument) for argument in call.args]
        value = ast.literal_eval(wanted)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if call.keywords or not _is_json([given, value]):
        return None
    return Case(json.dumps(given), json.dumps(value))


def _is_json(value: Any) -> bool:
    """Tell whether JSON gives back the same value: no tuple, no set, no number but plain ones."""
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(part) for key, part in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
