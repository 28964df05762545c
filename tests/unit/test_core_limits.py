"""Limits of a minute hold for any minute and are used; breakers open, try and close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import ModelLimits, ModelSpec
from services.core.ledger.price import Price
from services.core.limits.breaker import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    OPENS_AFTER,
    PROBED_SECONDS,
    Breaker,
    BreakerState,
)
from services.core.limits.meter import meter_of
from services.core.limits.window import COUNTED_SECONDS, MINUTE_SECONDS, SLACK_SECONDS, Use, wait_seconds

MODEL = ModelSpec("able", "openai/gpt", Price(Decimal(1), Decimal(1)), "https://one.example/v1", "A_KEY")


def use_at(log: Sequence[tuple[float, int]], now: float) -> Use:
    """Return what counts at a moment, of requests allowed at these moments with so many tokens."""
    counted = [(at, tokens) for at, tokens in log if at > now - COUNTED_SECONDS]
    oldest = now - min((at for at, _ in counted), default=now)
    return Use(len(counted), sum(tokens for _, tokens in counted), 0, oldest)


def allowed(limits: ModelLimits, demand: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Serve requests one after another; each comes so long after the last one was allowed."""
    log: list[tuple[float, int]] = []
    now = 0.0
    for pause, tokens in demand:
        now += pause
        while (seconds := wait_seconds(limits, use_at(log, now), tokens)) > 0:
            now += seconds
        log.append((now, tokens))
    return log


PAUSES = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(0, 40)), st.integers(1, 60)), min_size=1, max_size=120
)  # fmt: skip


@given(PAUSES, st.integers(1, 20), st.lists(st.floats(0, SLACK_SECONDS * 0.999), min_size=1, max_size=7))
def test_no_minute_has_more_requests_than_the_limit_whatever_the_way_takes(
    demand: list[tuple[float, int]], limit: int, ways: list[float]
) -> None:
    log = allowed(ModelLimits(requests_per_minute=limit), demand)
    arrivals = sorted(at + ways[place % len(ways)] for place, (at, _) in enumerate(log))
    for first, beyond in zip(arrivals, arrivals[limit:], strict=False):
        assert beyond - first > MINUTE_SECONDS


@given(PAUSES, st.integers(60, 300))
def test_no_minute_has_more_tokens_than_the_limit(demand: list[tuple[float, int]], limit: int) -> None:
    log = allowed(ModelLimits(tokens_per_minute=limit), demand)
    for start, _ in log:
        assert sum(tokens for at, tokens in log if start <= at <= start + MINUTE_SECONDS) <= limit


def test_a_limit_is_used_under_load() -> None:
    log = allowed(ModelLimits(requests_per_minute=60), [(0.0, 1)] * 600)
    assert len(log) * MINUTE_SECONDS / (log[-1][0] + COUNTED_SECONDS) >= 0.95 * 60


def test_a_request_larger_than_the_limit_waits_for_an_empty_minute() -> None:
    limits = ModelLimits(tokens_per_minute=100)
    assert wait_seconds(limits, Use(), 500) == 0
    assert wait_seconds(limits, Use(1, 1, 0, 2.0), 500) == COUNTED_SECONDS - 2.0


def test_requests_under_way_are_limited_apart() -> None:
    limits = ModelLimits(max_concurrency=2)
    assert wait_seconds(limits, Use(9, 999, 1), 500) == 0
    assert 0 < wait_seconds(limits, Use(2, 10, 2), 1) < 1


def test_without_limits_nobody_waits() -> None:
    assert wait_seconds(ModelLimits(), Use(10**6, 10**9, 10**3), 10**6) == 0
    assert not ModelLimits().any
    assert ModelLimits(max_concurrency=1).any


def test_campaigns_share_a_meter_when_the_provider_would_count_them_together() -> None:
    same = replace(MODEL, name="other", price=Price(Decimal(9), Decimal(9)), options={"seed": 1})
    assert meter_of(same) == meter_of(MODEL)
    for change in ({"litellm_model": "openai/other"}, {"base_url": None}, {"api_key_env": "B_KEY"}):
        assert meter_of(replace(MODEL, **change)).key != meter_of(MODEL).key
    assert meter_of(MODEL).label == "openai/gpt at https://one.example/v1 with A_KEY"


def opened(times: int = 1) -> Breaker:
    breaker, now = Breaker(), 0.0
    for _ in range(OPENS_AFTER):
        breaker = breaker.failed(now)
    for _ in range(times - 1):
        breaker = breaker.failed(float(breaker.open_until or 0))
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker()
    for number in range(OPENS_AFTER):
        assert (breaker.failures, breaker.state(0.0)) == (number, BreakerState.CLOSED)
        breaker = breaker.failed(0.0)
    assert (breaker.state(0.0), breaker.wait_seconds(10.0)) == (BreakerState.OPEN, FIRST_SECONDS - 10.0)


def test_calls_that_began_before_it_opened_prolong_nothing() -> None:
    late = opened().failed(5.0)
    assert late.open_until == opened().open_until


def test_one_call_at_a_time_tries_it() -> None:
    breaker = opened()
    assert breaker.state(FIRST_SECONDS) is BreakerState.HALF_OPEN
    assert breaker.wait_seconds(FIRST_SECONDS) == 0
    tried = breaker.probed(FIRST_SECONDS, 60.0)
    assert tried.wait_seconds(FIRST_SECONDS + 1) == PROBED_SECONDS
    assert tried.wait_seconds(FIRST_SECONDS + 61) == 0, "whoever tried it has died"


def test_it_opens_for_longer_each_time_up_to_a_bound() -> None:
    times = [float(opened(number).open_until or 0) for number in range(1, 10)]
    spans = [after - before for before, after in pairwise(times)]
    assert spans[:4] == [60.0, 120.0, 240.0, 480.0]
    assert set(spans[4:]) == {LONGEST_SECONDS}
