"""Texts of failed calls: what is masked, what a Retry-After means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.pool.failures import CONTEXT, FILTER, LONGEST_MESSAGE, masked, retry_after_seconds

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(st.text(), st.text("abcdefghij", min_size=4), st.text())
def test_a_secret_is_never_shown(before: str, secret: str, after: str) -> None:
    assert secret not in masked(f"{before}{secret}{after}", (secret,))


@pytest.mark.parametrize(
    "text", ["key sk-abcdef123456 refused", "header 'Authorization: Bearer abc.def'", "bearer  xyz987"]
)
def test_what_looks_like_a_key_is_masked_unasked(text: str) -> None:
    shown = masked(text, ())

    assert "[key]" in shown
    assert not any(part in shown for part in ("abcdef", "abc.def", "xyz987"))


def test_messages_are_one_short_line() -> None:
    shown = masked("a\n\n  b" * 10_000, ())

    assert len(shown) == LONGEST_MESSAGE + 1
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Fri, 02 Jan 2026 03:05:05 GMT", 60.0),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0.0),
        ("99 Foo 2026", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOW) == seconds


@given(st.text())
def test_any_retry_after_is_read_without_an_error(value: str) -> None:
    seconds = retry_after_seconds(value, NOW)

    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("text", ["invalid temperature", "unknown parameter 'tokens'", "missing field messages"])
def test_other_refusals_are_neither_context_nor_filter(text: str) -> None:
    assert not CONTEXT.search(text)
    assert not FILTER.search(text)
