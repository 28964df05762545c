"""Text answers: the same words."""

from __future__ import annotations


def normalise(text: str) -> str:
    """Return the text with runs of white space as one blank, trimmed, without case."""
    return " ".join(text.split()).casefold()
