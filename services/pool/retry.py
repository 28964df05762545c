"""The only layer that repeats a model call, and what becomes of each kind of failure.

- Rate limited, 5xx, network, timed out, no completion: repeated, ``tries`` requests in all; then the attempt fails.
- Empty, reasoning only: repeated, ``empty_tries`` requests in all; then it is an empty turn.
- Truncated, filtered: never repeated; what there is of the text is the turn.
- Refused by a filter, known not to fit the window: never repeated; an empty turn.
- Key, model or request refused, the provider's word on the window: never repeated; the attempt fails for good.

Waits are drawn uniformly from [0, min(cap, base * 2^(try-1))] ("full jitter": many workers that failed together do not
come back together), and are never shorter than the provider's Retry-After.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from services.core.errors import ContentRefused, ContextTooLong, RateLimited, TransientPoolError
from services.core.ledger.usage import Usage
from services.core.protocol.ports import Reply, ReplyKind

# The same question may well be answered next time: sampling differs, and servers under load send such replies.
REPEATED = frozenset({ReplyKind.EMPTY, ReplyKind.REASONING_ONLY})


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a call is repeated.

    Attributes:
        tries: requests in all, at least 1.
        base_seconds: upper end of the first wait's range.
        cap_seconds: largest upper end.
        longest_wait_seconds: a provider that asks for more than this is not waited for; the call fails at once.
        empty_tries: replies without text after which the turn counts as empty.
    """

    tries: int = 3
    base_seconds: float = 1.0
    cap_seconds: float = 30.0
    longest_wait_seconds: float = 60.0
    empty_tries: int = 2

    def wait_seconds(self, tried: int, error: TransientPoolError, rng: random.Random) -> float | None:
        """Return the wait after ``tried`` failed requests, or None when the call is given up."""
        if tried >= self.tries:
            return None
        asked = error.retry_after_seconds if isinstance(error, RateLimited) else None
        if asked is not None and asked > self.longest_wait_seconds:
            return None
        jitter = self.jitter_seconds(tried, rng)
        return jitter if asked is None else asked + jitter

    def jitter_seconds(self, tried: int, rng: random.Random) -> float:
        """Return a wait after ``tried`` requests."""
        # 2**60 outgrows every cap; a larger exponent would overflow the float.
        return rng.uniform(0.0, min(self.cap_seconds, self.base_seconds * 2.0 ** min(tried - 1, 60)))


def call_with_retries(
    attempt: Callable[[int], Reply],
    policy: RetryPolicy,
    wait: Callable[[float], None],
    rng: random.Random,
) -> Reply:
    """Return the first reply of ``attempt(1)``, ``attempt(2)``, ... that is not to be repeated.

    Args:
        attempt: makes one request, given its number from 1; it reserves before and settles after, failures included.
        policy: bounds.
        wait: sleeps that many seconds; raises to give up, as a stopping worker does.
        rng: source of the jitter; waiting has no influence on results, so it needs no stored seed.

    Raises:
        TransientPoolError: the last one, when every try failed.
        Exception: whatever else ``attempt`` or ``wait`` raises, at once.
    """
    tried = empty = 0
    while True:
        tried += 1
        try:
            reply = attempt(tried)
        except TransientPoolError as error:
            seconds = policy.wait_seconds(tried, error, rng)
            if seconds is None:
                raise
        except (ContentRefused, ContextTooLong) as error:
            return _unanswered(error)
        else:
            empty += reply.kind in REPEATED
            if reply.kind not in REPEATED or empty >= policy.empty_tries or tried >= policy.tries:
                return reply
            seconds = policy.jitter_seconds(tried, rng)
        wait(seconds)


def _unanswered(error: ContentRefused | ContextTooLong) -> Reply:
    """Return the empty turn of a question that this model does not take, which is for the coordinator to learn.

    Raises:
        ContextTooLong: the provider's word: it may as well mean a setting that lets no call through.
    """
    if isinstance(error, ContentRefused):
        return Reply("", "content_filter", Usage(0, 0), 0.0)
    if not error.foreseen:
        raise error
    return Reply("", "context_window", Usage(0, 0), 0.0)
