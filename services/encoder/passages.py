"""A text between its tags as token ids, and what is left of it when it must be shorter."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from services.encoder.chat import ChatTokenizer, Ids, Spelling


@dataclass(frozen=True)
class _End:
    """The ids read from one end on.

    Attributes:
        ids: all ids that are known, in reading order.
        tag: how many of them, at this end, the tag takes.
        inside: where a cut would split a character: before the ids of these indices.
    """

    ids: Ids
    tag: int
    inside: frozenset[int]

    def head(self, tokens: int) -> Ids:
        """Return the tag and at most ``tokens`` ids after it."""
        cut = min(self.tag + tokens, len(self.ids))
        while cut in self.inside and cut > self.tag:
            cut -= 1
        return self.ids[:cut]

    def tail(self, tokens: int) -> Ids:
        """Return at most ``tokens`` ids and the tag after them."""
        cut = max(len(self.ids) - self.tag - tokens, 0)
        while cut in self.inside and cut < len(self.ids) - self.tag:
            cut += 1
        return self.ids[cut:]


@dataclass(frozen=True)
class Passage:
    """A text between its tags. ``front`` and ``back`` have the same ids if it is known ``whole``."""

    front: _End
    back: _End
    whole: bool

    @classmethod
    def of(cls, chat: ChatTokenizer, opening: str, text: str, closing: str) -> Passage:
        spelling = chat.spell(opening + text + closing)
        inside = _inside_a_character(spelling)
        end = len(opening) + len(text)
        front = _End(spelling.ids, sum(start < len(opening) for start, _ in spelling.spans), inside)
        back = _End(spelling.ids, sum(stop > end for _, stop in spelling.spans), inside)
        return cls(front, back, whole=True)

    @classmethod
    def of_ends(cls, chat: ChatTokenizer, opening: str, head: str, tail: str, closing: str) -> Passage:
        """Return the passage of a text of which only head and tail are looked at."""
        front, back = cls.of(chat, opening, head, "").front, cls.of(chat, "", tail, closing).back
        return cls(front, back, whole=False)

    def __len__(self) -> int:
        """Return the number of ids that are known."""
        return len(self.front.ids) if self.whole else len(self.front.ids) + len(self.back.ids)

    def is_all(self, ids: Ids) -> bool:
        """Return whether these ids leave nothing out."""
        return self.whole and ids == self.front.ids

    def shortened(self, tokens: int, mark: Ids) -> Ids:
        """Return the ids with at most ``tokens`` of the text, half from either end, and a mark for what is left out."""
        if self.whole and len(self) - self.front.tag - self.back.tag <= tokens:
            return self.front.ids
        return self.front.head(tokens // 2) + mark + self.back.tail(tokens - tokens // 2)

    def within(self, room: int, mark: Ids) -> Ids:
        """Return at most ``room`` ids: all, or both ends around a mark; none where tags and mark leave no place."""
        if self.whole and len(self) <= room:
            return self.front.ids
        tokens = room - self.front.tag - self.back.tag - len(mark)
        return self.shortened(tokens, mark) if tokens >= 2 else ()


def _inside_a_character(spelling: Spelling) -> frozenset[int]:
    pairs = enumerate(pairwise(spelling.spans), start=1)
    return frozenset(index for index, (before, here) in pairs if here[0] < before[1])
