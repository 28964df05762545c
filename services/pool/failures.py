"""What a failed model call means: one of the product's errors, without the key in its text.

The status of the real exchange decides where there is one. litellm's own classes decide for providers that it reaches
through other clients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from services.core.errors import (
    AuthenticationFailed,
    BadReply,
    CallTimedOut,
    ContentRefused,
    ContextTooLong,
    NetworkFailed,
    PoolError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UnknownModel,
)
from services.pool.exchange import BodyTooLarge, Exchange

LONGEST_MESSAGE = 500
SECRETS = re.compile(r"\bsk-[\w-]{6,}|\bAIza[\w-]{20,}|(?i:\bbearer\s+)[^\s'\",}]+|(?i:(?<=[?&]key=))[^\s&'\"]+")
# Providers word it freely (cases C1 to C4): limits of context, of prompt, of input, of tokens.
CONTEXT = re.compile(
    r"context[ _-]?(length|window|limit|size)|maximum context|(prompt|input|request)[^.]{0,40} too (long|large)"
    r"|too many (input )?tokens|(exceeds?|over|beyond)[^.]{0,60}\btokens?\b|\btokens?\b[^.]{0,60}exceeds?",
    re.IGNORECASE,
)
# A limit on the reply alone is a wrong setting, not a long conversation.
OUTPUT_LIMIT = re.compile(
    r"\A(?!.*\b(context|input|prompt))(?=.*(max_(completion_|output_|new_)?tokens|(output|completion|new) tokens))",
    re.IGNORECASE | re.DOTALL,
)
FILTER = re.compile(
    r"content[ _-]?(filter|policy|management|moderation)|responsible ?ai|safety (system|filter|setting)|\bflagged\b"
    r"|\bmoderation\b|violat\w+ [^.]{0,40}polic",
    re.IGNORECASE,
)
NO_CREDIT = re.compile(r"insufficient_quota|insufficient[ _](funds|balance|credits?)", re.IGNORECASE)


def masked(text: str, secrets: Sequence[str]) -> str:
    """Return the text, shortened, with every secret and everything that looks like one replaced."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    text = " ".join(SECRETS.sub("[key]", text).split())
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Return the wait a ``Retry-After`` header asks for: seconds or an HTTP date; None when it says neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return max(seconds, 0.0) if seconds == seconds and seconds != float("inf") else None


def failure_of(model: str, error: Exception, exchange: Exchange, secrets: Sequence[str]) -> PoolError:
    """Return the product's error for a call that raised ``error``."""
    said = masked(str(error), secrets)
    if exchange.failure is not None or (exchange.status is not None and not exchange.complete):
        return _lost(model, said, exchange)
    status = exchange.status if exchange.status is not None else _claimed_status(error)
    if status is None:
        return ProviderUnavailable(f"{model}: the call failed: {said}", billed_unknown=True)
    retry_after = retry_after_seconds(exchange.headers.get("retry-after"), datetime.now(UTC))
    return _refused(model, status, said, retry_after, f"{said} {exchange.refusal}")


def _claimed_status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _lost(model: str, said: str, exchange: Exchange) -> PoolError:
    charged = not exchange.reached_nobody
    if isinstance(exchange.failure, BodyTooLarge):
        return BadReply(f"{model}: {exchange.failure}", billed_unknown=True)
    if exchange.remaining_seconds <= 0:
        return CallTimedOut(f"{model}: no complete reply before the deadline", billed_unknown=charged)
    cause = masked(str(exchange.failure or said), ())
    return NetworkFailed(f"{model}: the connection failed: {cause}", billed_unknown=charged)


def _refused(model: str, status: int, said: str, retry_after: float | None, evidence: str) -> PoolError:
    if status < 300:
        return BadReply(f"{model}: the reply is not a chat completion: {said}", billed_unknown=True)
    if status < 400:
        return RequestRejected(f"{model}: the provider redirects (HTTP {status}); set base_url to the final address")
    if status in (401, 403):
        return AuthenticationFailed(f"{model}: the provider refused the key (HTTP {status}): {said}")
    if status == 402 or (status == 429 and NO_CREDIT.search(evidence)):
        return AuthenticationFailed(f"{model}: the key's account has no credit (HTTP {status}): {said}")
    if status == 404:
        return UnknownModel(f"{model}: the provider knows no such model or address (HTTP 404): {said}")
    if status == 429 or (status in (503, 529) and retry_after is not None):
        return RateLimited(f"{model}: asked to slow down (HTTP {status}): {said}", retry_after_seconds=retry_after)
    if status in (408, 504):
        return ProviderUnavailable(f"{model}: the provider timed out (HTTP {status}): {said}", billed_unknown=True)
    if status in (409, 425) or status >= 500:
        return ProviderUnavailable(f"{model}: the provider failed (HTTP {status}): {said}")
    return _rejected(model, status, said, evidence)


def _rejected(model: str, status: int, said: str, evidence: str) -> PoolError:
    if status == 413 or (CONTEXT.search(evidence) and not OUTPUT_LIMIT.search(evidence)):
        return ContextTooLong(f"{model}: the conversation is too long (HTTP {status}): {said}")
    if FILTER.search(evidence):
        return ContentRefused(f"{model}: refused by the provider's filter (HTTP {status}): {said}")
    return RequestRejected(f"{model}: the provider refused the request (HTTP {status}): {said}")
