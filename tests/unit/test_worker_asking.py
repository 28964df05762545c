"""Which failures show that a model is there."""

from __future__ import annotations

import pytest

from services.core import errors
from services.core.errors import ContextTooLong, PoolError
from worker.calls import _answered


@pytest.mark.parametrize(
    ("kind", "answered"),
    [
        ("RateLimited", True),
        ("ContentRefused", True),
        ("UnknownModel", True),
        ("ContextTooLong", True),
        ("ProviderUnavailable", False),
        ("CallTimedOut", False),
        ("BadReply", False),
        ("AuthenticationFailed", None),
    ],
)
def test_a_refusal_is_an_answer_and_silence_is_not(kind: str, answered: bool | None) -> None:
    error = getattr(errors, kind)("it said no")
    assert isinstance(error, PoolError)
    assert _answered(error) is answered


def test_what_was_never_sent_says_nothing() -> None:
    assert _answered(ContextTooLong("too long", foreseen=True)) is None
