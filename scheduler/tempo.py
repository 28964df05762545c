"""How soon to look at the outbox again: often enough that workers never wait, seldom enough to cost nothing."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.dispatch import Round

SHORTEST_SECONDS = 0.01
# Looking for less than this many free places at a time is not worth the look.
WORTHWHILE = 4


@dataclass
class Tempo:
    """Adapts the wait between two looks while more is ready than the window holds; ``longest`` seconds otherwise.

    The next look is due when about half of what the broker holds will be used up, at the rate at which episodes ended
    since the last look.
    """

    longest: float
    _pause: float = SHORTEST_SECONDS
    _left_in_flight: int | None = None

    def next_pause(self, seen: Round, elapsed: float) -> float:
        """Return how long to wait after this look; ``elapsed`` seconds passed since the one before."""
        ended = 0 if self._left_in_flight is None else max(0, self._left_in_flight - seen.before)
        if not seen.backlog:
            self._pause, self._left_in_flight = SHORTEST_SECONDS, None
            return self.longest
        if ended:
            self._pause = max(WORTHWHILE, seen.queued / 2) * elapsed / ended
        elif self._left_in_flight is not None:
            self._pause *= 2
        self._left_in_flight = seen.after
        self._pause = min(max(self._pause, SHORTEST_SECONDS), self.longest)
        return self._pause
