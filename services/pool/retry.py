"""The only layer that repeats a model call; litellm and the provider's SDK repeat nothing.

Waits are drawn uniformly from [0, min(cap, base * 2^(try-1))] ("full jitter": many workers that failed together do not
come back together), and are never shorter than the provider's Retry-After.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from services.core.errors import RateLimited, TransientPoolError
from services.core.protocol.ports import Reply


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a call is repeated.

    Attributes:
        tries: requests in all, at least 1.
        base_seconds: upper end of the first wait's range.
        cap_seconds: largest upper end.
        longest_wait_seconds: a provider that asks for more than this is not waited for; the call fails at once.
    """

    tries: int = 3
    base_seconds: float = 1.0
    cap_seconds: float = 30.0
    longest_wait_seconds: float = 60.0

    def wait_seconds(self, tried: int, error: TransientPoolError, rng: random.Random) -> float | None:
        """Return the wait after ``tried`` failed requests, or None when the call is given up."""
        if tried >= self.tries:
            return None
        asked = error.retry_after_seconds if isinstance(error, RateLimited) else None
        if asked is not None and asked > self.longest_wait_seconds:
            return None
        # 2**60 outgrows every cap; a larger exponent would overflow the float.
        jitter = rng.uniform(0.0, min(self.cap_seconds, self.base_seconds * 2.0 ** min(tried - 1, 60)))
        return jitter if asked is None else asked + jitter


def call_with_retries(
    attempt: Callable[[int], Reply],
    policy: RetryPolicy,
    wait: Callable[[float], None],
    rng: random.Random,
) -> Reply:
    """Return the first reply of ``attempt(1)``, ``attempt(2)``, ...

    Args:
        attempt: makes one request, given its number from 1; it reserves before and settles after, failures included.
        policy: bounds.
        wait: sleeps that many seconds; raises to give up, as a stopping worker does.
        rng: source of the jitter; waiting has no influence on results, so it needs no stored seed.

    Raises:
        TransientPoolError: the last one, when every try failed.
        Exception: whatever else ``attempt`` or ``wait`` raises, at once.
    """
    tried = 0
    while True:
        tried += 1
        try:
            return attempt(tried)
        except TransientPoolError as error:
            seconds = policy.wait_seconds(tried, error, rng)
            if seconds is None:
                raise
        wait(seconds)
