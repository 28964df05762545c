"""The Verifier's verdict and its strict grammar (paper, section 3.2: u_k and the diagnosis delta_k)."""

from __future__ import annotations

import re
from enum import StrEnum

from services.core.protocol.answers import without_reasoning


class Verdict(StrEnum):
    ACCEPT = "accept"
    REVISE = "revise"
    UNCLEAR = "unclear"  # treated as REVISE, counted apart


class VerdictSource(StrEnum):
    """Who gave a Verifier turn's verdict."""

    MODEL = "model"
    MACHINE = "machine"  # a program run on public examples failed; no model was asked
    RULE = "rule"  # there was nothing to check yet; no model was asked


_WORDS = {"accept": Verdict.ACCEPT, "revise": Verdict.REVISE, "reject": Verdict.REVISE}

# White space, Markdown and quotation marks may stand before the word; a hyphen or a letter after it makes another word.
_FIRST_WORD = re.compile(r"[\s*_#>\"'`(\[]*(?a:(accept|revise|reject))(?![^\W_]|-)", re.IGNORECASE)

# What follows at once can turn the word into a menu ("ACCEPT or REVISE") or a condition ("accept only if ...").
_SPOILED = {
    Verdict.ACCEPT: re.compile(r"\s+(only|if|unless|or|and|not)\b|[^a-z]{0,12}(revise|reject)\b", re.IGNORECASE),
    Verdict.REVISE: re.compile(r"(\s+or)?\s*[/|,]?\s*accept\b", re.IGNORECASE),
}
_PUNCTUATION = "*_\"'`)]:.,;!- \t\r\n"


def parse_verdict(text: str) -> tuple[Verdict, str]:
    """Return the verdict and the diagnosis of a Verifier's reply.

    Only the reply's first word counts, as a whole word in any case: ACCEPT, REVISE, or REJECT, which means REVISE.
    Everything else, also a verdict that is at once followed by the other one or by a condition, is UNCLEAR with the
    whole reply as its diagnosis. A prefix test would let "Acceptable only if ..." end an episode.
    """
    reply = without_reasoning(text).strip()
    match = _FIRST_WORD.match(reply)
    if match is None:
        return Verdict.UNCLEAR, reply
    verdict = _WORDS[match.group(1).lower()]
    if _SPOILED[verdict].match(reply, match.end()):
        return Verdict.UNCLEAR, reply
    return verdict, reply[match.end() :].lstrip(_PUNCTUATION).rstrip()


def write_verdict(verdict: Verdict, diagnosis: str) -> str:
    """Return a reply in the Verifier's format, for programs that stand in for a model."""
    if verdict is Verdict.UNCLEAR:
        return diagnosis
    return f"{verdict.upper()}: {diagnosis}" if diagnosis else verdict.upper()
