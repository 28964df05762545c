"""How a question ends: the form in which its answer is wanted. The Worker's prompt says where the answer goes."""

from __future__ import annotations

import string
from collections.abc import Sequence

LETTERS = string.ascii_uppercase

EXPRESSION = "Final answer: one mathematical expression in LaTeX, or the word the question asks for, and nothing else."
WHOLE_NUMBER = "Final answer: a whole number and nothing else."
NUMBER = "Final answer: a number without its unit and nothing else."
SHORT = "Final answer: as short as possible, the number, expression, word or name alone."
LETTER = "Final answer: the letter of the right option and nothing else."
PROGRAM = "Final answer: a complete Python 3 program as plain text, without code fences."


def asked(question: str, *parts: str) -> str:
    """Return the question with what else stands in it, an empty line between them."""
    return "\n\n".join(part.strip("\n").rstrip() for part in (question, *parts) if part.strip())


def options(choices: Sequence[str]) -> str:
    """Return the options with their letters, one a line."""
    return "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))


def function(name: str) -> str:
    """Return the form of an answer that is a function or class."""
    return f"Final answer: Python 3 source that defines {name}, with its imports, as plain text without code fences."


def fenced(code: str) -> str:
    return f"```python\n{code.strip(chr(10)).rstrip()}\n```"
