"""A review that nobody has written: what a conversation reads like after some Verifier has rejected its answer."""

from __future__ import annotations

from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict, VerdictSource

DISAGREES = "My own answer is another."


def rejected(transcript: Transcript) -> Transcript:
    """Return the conversation with one more turn, a REVISE by a Verifier that goes by its own answer."""
    review = Item(
        number=len(transcript.items) + 1,
        agent=0,  # nobody reads who acted
        role=Role.VERIFIER,
        role_source=RoleSource.FIXED,
        output="",
        text=DISAGREES,
        verdict=Verdict.REVISE,
        verdict_source=VerdictSource.RULE,
    )
    return transcript.with_item(review)
