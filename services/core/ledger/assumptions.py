"""Assumptions of expected figures, good to a factor of about two: replies of a paragraph, four bytes to a token."""

from __future__ import annotations

from services.core.campaign import ProtocolSpec, VerifierWithoutAnswer
from services.core.protocol.roles import Role

TYPICAL_OUTPUT_TOKENS = 200
BYTES_PER_TOKEN = 4
NOTE_BYTES = 64  # of the tags around an earlier reply


def usual_turns(protocol: ProtocolSpec) -> int:
    """Return the middle of the possible numbers of turns, rounded down.

    Only a Verifier ends an episode before its last turn, and only what a Worker has said in an earlier one.
    """
    if Role.VERIFIER not in protocol.roles:
        return protocol.max_turns
    ends_at_once = protocol.verifier_without_answer is VerifierWithoutAnswer.END_ZERO
    earliest = 1 if ends_at_once else min(2, protocol.max_turns)
    return (earliest + protocol.max_turns) // 2
