"""What the router's language model reads of a conversation: token ids under two limits.

Neither the paper nor its code says what happens to long ones. The rule here looks at the conversation alone:

1. Of each item's text at most ``item_tokens`` tokens are read: its head and its tail, a mark between.
2. If the whole is still longer than ``max_tokens``, older items, the oldest first, keep ``FLOOR`` tokens each; if that
   is not enough they are dropped, the oldest first, one mark in place of them all; then the newest gets what is left,
   down to nothing.
3. The question is read whole whenever it fits, even where no item fits beside it. One that is too long by itself
   loses its middle; then items may take a quarter of its room.

A text of more than 16 characters per token that it may have counts as too long whatever its tokens are. Only the router
reads cut texts, never a pool model. As long as nothing is cut for ``max_tokens``, the ids of a longer conversation
begin with those of a shorter one up to the generation prompt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from services.core.errors import SpecError
from services.core.protocol.prompts import Part, router_instruction, router_parts
from services.core.protocol.quoting import quote
from services.core.protocol.transcript import Transcript
from services.encoder.chat import ChatTokenizer, Ids
from services.encoder.passages import Passage

CUTTING_RULE = 1  # its version: heads that were trained under another one refuse this one
LEFT_OUT = "\n[... left out ...]\n"
FLOOR = 64  # tokens: a sentence of the beginning and one of the end

# A token of ordinary text has about four characters. Text beyond this many per token is dropped before it is tokenised,
# so that a megabyte costs no more than a page.
_CHARACTERS_PER_TOKEN = 16

Parts = Callable[[Transcript], Sequence[Part]]


@dataclass(frozen=True)
class Cuts:
    """How often something was left out, over all distinct conversations read: ``items`` shortened, ``dropped`` items,
    ``questions`` that lost their middle."""

    items: int = 0
    dropped: int = 0
    questions: int = 0


class CutCounter:
    """Counts of all readings of a process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._counts = Cuts()
        self._lock = threading.Lock()

    @property
    def counts(self) -> Cuts:
        return self._counts

    def add(self, cuts: Cuts) -> None:
        with self._lock:
            now = self._counts
            self._counts = Cuts(now.items + cuts.items, now.dropped + cuts.dropped, now.questions + cuts.questions)


class _Excerpt(NamedTuple):
    """What is tokenised of a part: its text, or head and tail of a text that is far too long."""

    opening: str
    head: str
    tail: str | None
    closing: str


class Reading:
    """How one campaign's router reads. Keep it: it remembers what it tokenised. Safe to share between threads."""

    def __init__(
        self,
        chat: ChatTokenizer,
        pool_size: int,
        max_tokens: int,
        item_tokens: int,
        counter: CutCounter | None = None,
        parts: Parts = router_parts,
    ) -> None:
        """Prepare what all conversations share.

        Args:
            chat: the model's tokenizer.
            pool_size: number of agents.
            max_tokens: most ids of a conversation.
            item_tokens: most tokens of one item's text, its tags and the mark not counted; at least 2.
            counter: told of every cut; None for one of its own.
            parts: what the router sees of a conversation, the question first.

        Raises:
            SpecError: the template alone takes more than half of ``max_tokens``.
        """
        before, between, self._after = chat.frame(("system", "user"))
        template = len(before) + len(between) + len(self._after)
        if 2 * template > max_tokens:
            raise SpecError("encoder.max_tokens", max_tokens, f"at least {2 * template}; the template has {template}")
        self._chat = chat
        self._item_tokens = item_tokens
        self._max_tokens = max_tokens
        self._parts = parts
        self._counter = CutCounter() if counter is None else counter
        self._mark = chat.spell(LEFT_OUT).ids
        instruction = self._tokenised(_Excerpt("", router_instruction(pool_size), None, ""))
        self._before = before + instruction.within(max_tokens // 2, self._mark) + between
        self._room = max_tokens - len(self._before) - len(self._after)
        self._passage = lru_cache(maxsize=1024)(self._tokenised)
        self._ids = lru_cache(maxsize=1024)(self._read)

    @property
    def cuts(self) -> Cuts:
        """What its counter has counted."""
        return self._counter.counts

    def token_ids(self, transcript: Transcript) -> Ids:
        """Return the conversation with its generation prompt, at most ``max_tokens`` ids."""
        question, *items = self._parts(transcript)
        excerpts = (_excerpt(item, self._item_tokens) for item in items)
        return self._ids(_excerpt(question, self._max_tokens), tuple(excerpts))

    def _read(self, question: _Excerpt, items: tuple[_Excerpt, ...]) -> Ids:
        asked = self._passage(question)
        passages = [self._passage(item) for item in items]
        fits = asked.whole and len(asked) <= self._room
        told = self._told(passages, self._room - len(asked) if fits else self._room // 4)
        room = self._room - len(told)
        asked_ids = asked.within(room, self._mark) or asked.front.ids[:room]
        if not fits:
            self._counter.add(Cuts(questions=1))
        return self._before + asked_ids + told + self._after

    def _told(self, items: Sequence[Passage], room: int) -> Ids:
        """Return the ids of the items by steps 1 and 2 of the rule, at most ``room``."""
        kept = [item.shortened(self._item_tokens, self._mark) for item in items]
        for number, item in enumerate(items[:-1]):
            if sum(map(len, kept)) > room:
                kept[number] = min(kept[number], item.shortened(FLOOR, self._mark), key=len)
        gap: Ids = ()
        while kept and len(gap) + sum(map(len, kept)) > room:
            newest = items[-1].within(room - len(gap), self._mark) if len(kept) == 1 else ()
            kept, gap = ([newest], gap) if newest else (kept[1:], self._mark)
        self._count(items, kept)
        ids = gap + tuple(chain.from_iterable(kept))
        return ids if len(ids) <= room else ()

    def _count(self, items: Sequence[Passage], kept: Sequence[Ids]) -> None:
        dropped = len(items) - len(kept)
        cut = sum(not item.is_all(ids) for item, ids in zip(items[dropped:], kept, strict=True))
        if cut or dropped:
            self._counter.add(Cuts(items=cut, dropped=dropped))

    def _tokenised(self, excerpt: _Excerpt) -> Passage:
        opening, head, tail, closing = excerpt
        if tail is None:
            return Passage.of(self._chat, opening, quote(head), closing)
        return Passage.of_ends(self._chat, opening, quote(head), quote(tail), closing)


def _excerpt(part: Part, tokens: int) -> _Excerpt:
    half = tokens * _CHARACTERS_PER_TOKEN // 2
    if len(part.text) <= 2 * half:
        return _Excerpt(part.opening, part.text, None, part.closing)
    return _Excerpt(part.opening, part.text[:half], part.text[-half:], part.closing)
