"""Who reads what of the earlier turns (trinity.md 4.2).

The paper appends every role's output to the conversation. In the authors' code only the Workers' ideas are appended;
a Thinker's suggestion goes into the next prompt and is then dropped, and a Verifier's reasons are read by nobody.
"""

from __future__ import annotations

from dataclasses import replace

from services.core.campaign import Notes
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Item, Transcript


def router_view(transcript: Transcript, notes: Notes) -> Transcript:
    """Return the conversation as the router reads it, which is all that its state may depend on.

    With ``Notes.WORKER`` it changes after Worker turns only: their ideas are kept, numbered from 1, without answers.
    """
    if notes is Notes.ALL:
        return transcript
    works = (item for item in transcript.items if item.role is Role.WORKER)
    return Transcript(transcript.query, tuple(_idea(item, number) for number, item in enumerate(works, start=1)))


def agent_items(role: Role, transcript: Transcript, notes: Notes) -> tuple[Item, ...]:
    """Return the earlier turns that an agent reads which acts in ``role`` next.

    With ``Notes.WORKER`` a Worker reads ideas, while Thinker and Verifier read the proposed answers as well; a
    Thinker's suggestion is there in the very next turn.
    """
    if notes is Notes.ALL:
        return transcript.items
    kept = [item for item in transcript.items if item.role is Role.WORKER]
    if transcript.items and transcript.items[-1].role is Role.THINKER:
        kept.append(transcript.items[-1])
    return tuple(_idea(item, item.number) if role is Role.WORKER else item for item in kept)


def _idea(item: Item, number: int) -> Item:
    return replace(item, number=number, answer=None)
