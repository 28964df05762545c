"""Readers of what a Worker and a Thinker wrote, and writers of the same formats for programs that stand in for them."""

from __future__ import annotations

import re

from services.core.protocol.roles import Role

_FLAGS = re.IGNORECASE | re.DOTALL | re.ASCII
_OPEN = {tag: re.compile(rf"<\s*{tag}\s*>", _FLAGS) for tag in ("idea", "answer", "suggestion", "suggested_role")}
_CLOSE = {tag: re.compile(rf"<\s*/\s*{tag}\s*>", _FLAGS) for tag in _OPEN}
_REASONING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", _FLAGS)
_WORD = re.compile(r"[A-Za-z]+")

_SUGGESTED = {"worker": Role.WORKER, "solver": Role.WORKER, "verifier": Role.VERIFIER}


def without_reasoning(text: str) -> str:
    """Return the reply without the closed ``<think>`` block some models open it with; such reasoning is not kept."""
    match = _REASONING.match(text)
    return text[match.end() :] if match else text


def blocks(text: str, tag: str) -> list[str]:
    """Return the contents of the closed ``<tag>`` blocks in order, or of one that was never closed, else nothing.

    A block reaches from the last opening tag before a closing tag. Only when the text has no closed block does its
    last opening tag count: the content then runs to the end, as in a reply that was cut off or forgot to close.
    """
    closed: list[str] = []
    start = 0
    for close in _CLOSE[tag].finditer(text):
        opening = _last_opening(text, tag, start, close.start())
        if opening is not None:
            closed.append(text[opening : close.start()])
        start = close.end()
    if closed:
        return closed
    opening = _last_opening(text, tag, 0, len(text))
    return [] if opening is None else [text[opening:]]


def _last_opening(text: str, tag: str, start: int, end: int) -> int | None:
    position = None
    for match in _OPEN[tag].finditer(text, start, end):
        position = match.end()
    return position


def parse_worker(text: str) -> tuple[str, str | None]:
    """Return a Worker's ideas and its final answer.

    The last closed ``<answer>`` wins. A reply without the tag gives None: no answer; an empty tag gives ``""``, which
    is an answer. Without ``<idea>`` the whole reply counts as the idea (authors' code).
    """
    reply = without_reasoning(text)
    answers = blocks(reply, "answer")
    ideas = blocks(reply, "idea")
    shown = "\n".join(part.strip() for part in ideas) if ideas else reply
    return shown.strip(), answers[-1].strip() if answers else None


def parse_thinker(text: str) -> tuple[str, Role | None]:
    """Return a Thinker's suggestion and the role it names for the next turn, if it names one it may name.

    Without ``<suggestion>`` the whole reply is the suggestion: the paper appends every role's output.
    """
    reply = without_reasoning(text)
    suggestions = blocks(reply, "suggestion")
    roles = blocks(reply, "suggested_role")
    word = _WORD.search(roles[-1]) if roles else None
    role = _SUGGESTED.get(word.group().lower()) if word else None
    return (suggestions[-1] if suggestions else reply).strip(), role


def write_worker(ideas: str, answer: str | None) -> str:
    """Return a reply in the Worker's format; None leaves the answer tag out."""
    tail = "" if answer is None else f"<answer>{answer}</answer>"
    return f"<idea>{ideas}</idea>{tail}"


def write_thinker(suggestion: str, role: Role | None) -> str:
    """Return a reply in the Thinker's format; None names no role."""
    tail = "" if role is None else f"<suggested_role>{role}</suggested_role>"
    return f"<suggestion>{suggestion}</suggestion>{tail}"
