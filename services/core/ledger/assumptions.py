"""Assumptions of expected figures, good to a factor of about two: replies of a paragraph, four bytes to a token."""

from __future__ import annotations

TYPICAL_OUTPUT_TOKENS = 200
BYTES_PER_TOKEN = 4
NOTE_BYTES = 64  # of the tags around an earlier reply
