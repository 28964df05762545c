"""A chat as the transcript that the coordinator was trained to read.

The last message of the user is the query, whole. What follows it are answers to it: Worker turns. What stands before it
is context and answers nothing yet, which is what a Thinker's turns are to the encoder; each of these messages becomes
one, with its speaker's name before it. Instructions to the models (system, developer) are not read: in training there
were none, and they say how to answer, not what is asked. A chat of one question is therefore read exactly as a
campaign's first turn is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.core.errors import SpecError
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript

UNREAD = ("system", "developer")
SPEAKERS = ("user", "assistant")


def as_transcript(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Return the transcript of a chat in the form of OpenAI's API.

    Args:
        messages: each with ``role`` (system, developer, user, assistant) and ``content``, a text or a list of parts of
            type text.

    Raises:
        SpecError: a message is something else, or none is the user's; names it.
    """
    spoken = [(role, text) for role, text in map(_message, range(len(messages)), messages) if role not in UNREAD]
    asked = max((place for place, (role, _) in enumerate(spoken) if role == "user"), default=None)
    if asked is None:
        raise SpecError("messages", f"{len(messages)} messages", "a chat with at least one message of the user")
    before, after = spoken[:asked], spoken[asked + 1 :]
    items = [(Role.THINKER, f"{role}: {text}") for role, text in before] + [(Role.WORKER, text) for _, text in after]
    return Transcript(
        spoken[asked][1],
        tuple(
            Item(number, 0, role, RoleSource.FIXED, text, text) for number, (role, text) in enumerate(items, start=1)
        ),
    )


def _message(place: int, message: Mapping[str, Any]) -> tuple[str, str]:
    where = f"messages.{place}"
    if not isinstance(message, Mapping):
        raise SpecError(where, type(message).__name__, "an object with role and content")
    role = message.get("role")
    if role not in (*UNREAD, *SPEAKERS):
        raise SpecError(f"{where}.role", role, f"one of {', '.join((*UNREAD, *SPEAKERS))}")
    return str(role), _text(f"{where}.content", message.get("content"))


def _text(where: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        texts = [part.get("text") for part in content]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(str(text) for text in texts)
    raise SpecError(where, type(content).__name__, "a text, or a list of parts of type text")
