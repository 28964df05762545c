r"""Putting other people's text between tags without letting it close or forge one.

Inside quoted text the opening ``<`` of anything that reads like one of the protocol's own tags gets a backslash:
``</answer>`` becomes ``<\/answer>``, and ``<\/answer>`` becomes ``<\\/answer>``. Everything else stays as it is, so
that code and formulas reach the models unharmed. One backslash more on the way in and one less on the way out makes
the mapping reversible for every text.
"""

from __future__ import annotations

import re

TAGS = (
    "question", "note", "proposed", "review", "evidence", "reference", "idea", "answer", "suggestion", "suggested_role",
    "thought",
)  # fmt: skip

# One run of white space can match in one way only: two adjoining ones would make a long run cost its square.
_TAG_AHEAD = rf"(?=\s*(?:/\s*)?(?:{'|'.join(TAGS)})(?![a-z0-9_]))"
_PLAIN = re.compile(rf"<(\\*){_TAG_AHEAD}", re.IGNORECASE | re.ASCII)
_QUOTED = re.compile(rf"<\\(\\*){_TAG_AHEAD}", re.IGNORECASE | re.ASCII)


def quote(text: str) -> str:
    """Return the text with every look-alike of a protocol tag defused."""
    return _PLAIN.sub(r"<\\\1", text)


def unquote(text: str) -> str:
    """Return the text that ``quote`` was given."""
    return _QUOTED.sub(r"<\1", text)
