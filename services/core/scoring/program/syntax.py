"""Reading Python without running it, within bounds."""

from __future__ import annotations

import ast
import re

LONGEST = 100_000

# Odd escapes and numbers that touch words only warn, and warnings may be errors: whether a text is Python must not
# depend on that. Escapes that are errors are found when the program is loaded.
_ODD_ESCAPE = re.compile(r"\\(?:([\\\n\r'\"])|.)")
_NUMBER_THEN_WORD = re.compile(r"(?<![\w.])(\d[\d_.]*)(and|else|for|if|in|is|not|or)\b")


class NotPython(Exception):
    """A text is no Python; ``line`` is where, 0 when no line is to blame."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.line = line


def read_python(text: str) -> ast.Module:
    """Return the tree of a program. Escapes in its string literals are not kept.

    Raises:
        NotPython: it is none, or is too long or too deeply nested to be read safely.
    """
    if len(text) > LONGEST:
        raise NotPython(f"it is longer than {LONGEST:,} characters")
    quiet = _NUMBER_THEN_WORD.sub(r"\1 \2", _ODD_ESCAPE.sub(lambda found: found[0] if found[1] else "__", text))
    try:
        return ast.parse(quiet)
    except SyntaxError as error:
        raise NotPython(error.msg or "invalid syntax", error.lineno or 0) from None
    except ValueError:
        raise NotPython("it holds a NUL or half of a character") from None
    except (RecursionError, MemoryError):
        raise NotPython("it is nested too deeply") from None
