"""Finding the program in an answer: a fenced block, or the whole text."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from services.core.scoring.program.syntax import NotPython, read_python

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*([^\s`]*)(?:\s[^`]*)?")
_PYTHON = frozenset(
    {"", "python", "python3", "py", "python2", "pypy", "pypy3", "cpython", "code", "solution", "ipython"}
)
_STARTS = re.compile(
    r"(?:import|from|def|class|async def|if|for|while|try|with|print)\b|@\w|[A-Za-z_][\w, .\[\]]*=(?!=)|\w[\w.]*\("
)
_MEANT_AS_CODE = re.compile(r"^(?:(?:def|class)\s+\w+.*:|import\s+\w+|from\s+[\w.]+\s+import\b)", re.MULTILINE)
_NO_BREAK_INDENT = re.compile(r"^[ \t\u00a0]+", re.MULTILINE)
_BARE = (ast.Constant, ast.Name, ast.Tuple, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.List, ast.Set)
_MOST_STARTS = 8


@dataclass(frozen=True)
class _Block:
    language: str
    code: str


def find_program(answer: str, entry_point: str | None = None) -> str | None:
    """Return the program an answer holds, or None when it holds none.

    An answer that is Python and does something is the program. Else the last fenced block in Python counts; when a
    function is asked for, the last one that defines it. A block that was never closed runs to the end. Without a fence,
    what follows the first line that looks like code counts.
    """
    text = _plain(answer)
    whole = _dedented(text)
    if _does_something(whole):
        return whole
    blocks = [block for block in _blocks(text) if block.code.strip()]
    if not blocks:
        return _unfenced(whole)
    python = [block.code for block in blocks if block.language in _PYTHON] or [blocks[-1].code]
    defining = [code for code in python if entry_point is not None and _defines(code, entry_point)]
    return (defining or python)[-1]


def _plain(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    return _NO_BREAK_INDENT.sub(lambda found: found[0].replace("\u00a0", " "), lines)


def _defines(code: str, name: str) -> bool:
    """Tell whether a text looks as if it defines a function, or gives a name a value, at any depth."""
    found = rf"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b|{re.escape(name)}[ \t]*=[^=])"
    return re.search(found, code, re.MULTILINE) is not None


def _blocks(text: str) -> list[_Block]:
    found: list[_Block] = []
    fence, language, lines = "", "", list[str]()
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, language, lines = match[1], match[2].strip("{}.").lower(), []
        elif fence and match and match[1].startswith(fence) and not match[2]:
            found.append(_block(language, lines))
            fence = ""
        elif fence and line.rstrip().endswith(fence) and not line.strip().startswith(fence):
            found.append(_block(language, [*lines, line.rstrip()[: -len(fence)]]))
            fence = ""
        elif fence:
            lines.append(line)
    return [*found, _block(language, lines)] if fence else found


def _block(language: str, lines: list[str]) -> _Block:
    return _Block(language, _dedented("\n".join(lines)))


def _dedented(text: str) -> str:
    """Return a text without the indentation of all its lines; one without is left alone, blank lines included."""
    code = text.strip("\n")
    return textwrap.dedent(code) if code[:1] in (" ", "\t") else code


def _unfenced(text: str) -> str | None:
    """Return what follows the first line that begins a program, without prose behind it; None when no line does."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _STARTS.match(line)][:_MOST_STARTS]
    rests = [_without_prose_behind("\n".join(lines[first:])) for first in starts]
    return next((rest for rest in rests if _does_something(rest)), None) or next(
        (rest for rest in rests if _MEANT_AS_CODE.match(rest)), None
    )


def _without_prose_behind(code: str) -> str:
    try:
        read_python(code)
    except NotPython as error:
        lines = code.split("\n")
        stop = lines[error.line - 1] if 1 < error.line <= len(lines) else ""
        if stop[:1].strip() and not _STARTS.match(stop):
            return "\n".join(lines[: error.line - 1]).rstrip()
    return code


def _does_something(code: str) -> bool:
    """Tell whether a text is Python with a statement beyond a bare value: ``42`` and ``Yes`` are Python too."""
    try:
        body = read_python(code).body
    except NotPython:
        return False
    return any(not isinstance(item, ast.Expr) or not isinstance(item.value, _BARE) for item in body)
