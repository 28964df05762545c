"""Streamed completions put together again: the text so far is known when a stream is cut, and so is what it cost.

Servers send events (``data: {...}``), each with a piece of the reply, the last one ``data: [DONE]``; one of them may
carry the usage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

PREFIX = "data:"
DONE = "[DONE]"
REASONING = ("reasoning_content", "reasoning")  # servers name the field differently


class BrokenStream(Exception):
    """The stream held something that is no piece of a completion; says what."""


def collected(lines: Iterable[str], heard: Callable[[str], None]) -> Any | None:
    """Return the response shaped as one that was not streamed; None when the stream ended before the reply did.

    Args:
        lines: of the body, without their ends.
        heard: told every piece of text or reasoning as it comes.

    Raises:
        BrokenStream: an event with an error, or no JSON object.
    """
    text: list[str] = []
    thoughts: list[str] = []
    reason: str | None = None
    usage: Any = None
    done = False
    for line in lines:
        if not line.startswith(PREFIX):
            continue  # names of events, comments that keep the connection alive
        data = line[len(PREFIX) :].strip()
        if data == DONE:
            done = True
            break
        event = _event(data)
        usage = event.get("usage") or usage
        for choice in _mappings(event.get("choices") or [], data):
            (delta,) = _mappings([choice.get("delta") or {}], data)
            spoken, thought = delta.get("content"), next((delta[name] for name in REASONING if delta.get(name)), None)
            for piece, pieces in ((spoken, text), (thought, thoughts)):
                if isinstance(piece, str):
                    pieces.append(piece)
                    heard(piece)
            reason = choice.get("finish_reason") or reason
    if reason is None and not done:
        return None
    message = SimpleNamespace(content="".join(text), reasoning_content="".join(thoughts) or None)
    return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason=reason)], usage=_object(usage))


def _event(data: str) -> Mapping[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise BrokenStream(data[:200] or "an empty event") from None
    if not isinstance(event, Mapping) or event.get("error"):
        raise BrokenStream(data[:200])
    return event


def _mappings(found: Any, data: str) -> list[Mapping[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise BrokenStream(data[:200])
    return found


def _object(value: Any) -> Any:
    if isinstance(value, Mapping):
        return SimpleNamespace(**{name: _object(inner) for name, inner in value.items()})
    return value
