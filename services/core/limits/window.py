"""The rule for limits of a minute: no more than so many in any minute, wherever it begins.

A bucket that refills lets up to twice its size through in a minute that begins at the right moment. Here every request
counts from when it was allowed until a minute and ``SLACK_SECONDS`` later. The slack is what a request may take from
there to the provider: requests that the provider sees within a minute were allowed within a minute and the slack. Under
load 60 / 62 of the limit are used, or 97 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.core.campaign import ModelLimits

MINUTE_SECONDS = 60.0
SLACK_SECONDS = 2.0
COUNTED_SECONDS = MINUTE_SECONDS + SLACK_SECONDS
# How long to wait for a request under way to end, which nobody can foretell.
CONCURRENCY_SECONDS = 0.25
SHORTEST_SECONDS = 0.05


@dataclass(frozen=True)
class Use:
    """What counts against the limits of a model at one moment.

    Attributes:
        requests: allowed within the last ``COUNTED_SECONDS``.
        tokens: theirs; the most that they can be as long as a request is under way.
        under_way: requests that have not ended.
        oldest_seconds: how long ago the oldest of ``requests`` was allowed.
    """

    requests: int = 0
    tokens: int = 0
    under_way: int = 0
    oldest_seconds: float = 0.0

    def with_request(self, tokens: int) -> Use:
        """Return the use once a request of so many tokens is allowed as well."""
        return replace(
            self, requests=self.requests + 1, tokens=self.tokens + tokens, under_way=self.under_way + 1
        )  # fmt: skip


def wait_seconds(limits: ModelLimits, use: Use, tokens: int) -> float:
    """Return 0 if a request may begin, else how long to wait before asking again.

    A request that may need more tokens than the limit begins when no other one counts.

    Args:
        limits: of the model.
        use: by everybody, without this request.
        tokens: the most that the request can use.
    """
    if limits.max_concurrency is not None and use.under_way >= limits.max_concurrency:
        return CONCURRENCY_SECONDS
    requests, most = limits.requests_per_minute, limits.tokens_per_minute
    full = requests is not None and use.requests >= requests
    full = full or (most is not None and use.requests > 0 and use.tokens + tokens > most)
    return max(SHORTEST_SECONDS, COUNTED_SECONDS - use.oldest_seconds) if full else 0.0
