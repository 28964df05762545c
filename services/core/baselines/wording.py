"""What scaffolds add to the Worker's instruction; everything else a model reads is the protocol's own prompt."""

from __future__ import annotations

RECONSIDER = (
    "The note is your own last answer to this question. Check it step by step for mistakes, then give your final "
    "answer again, corrected if need be."
)
SYNTHESISE = (
    "The notes are the answers of several models to this question. Some may be wrong, also where many agree: judge "
    "each on its merits, do not copy one unchecked, and give the one best answer."
)

LONGEST = max(RECONSIDER, SYNTHESISE, key=len)
