"""What policies cost: figures per question, quantiles, the front, and rows for CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from decimal import Decimal

import pytest

from services.reports import comparison
from services.reports.comparison_rows import csv_text, rows_of
from services.reports.costs import Costs
from services.reports.records import Effort, PolicyKind, Score

EFFORT = Effort(
    calls=2,
    hits=0,
    errors=0,
    estimated=0,
    tokens_in=100,
    tokens_out=20,
    usd=Decimal("0.002"),
    usd_without_reuse=Decimal("0.002"),
    latency_seconds=1.0,
    turns=2,
    stop="accepted",
    outcome="right",
)


def score(policy: str, problem: int, reward: float, effort: Effort | None, family: str = "sums") -> Score:
    kind = PolicyKind.COORDINATOR if policy == comparison.COORDINATOR else PolicyKind.SINGLE
    return Score(kind, policy, f"p{problem}", family, reward, effort)


def costs(scores: list[Score], policy: str = "ada") -> Costs:
    (found,) = [line.costs for line in comparison.compare(scores, seed=1).lines if line.policy == policy]
    assert found is not None
    return found


def test_figures_are_means_over_problems_and_money_is_added_up() -> None:
    dear = replace(EFFORT, usd=Decimal("0.006"), usd_without_reuse=Decimal("0.006"), calls=4, tokens_out=60, turns=4)
    found = costs([score("ada", 0, 1.0, EFFORT), score("ada", 1, 0.0, dear)])
    assert found.usd is not None
    assert found.usd.estimate == pytest.approx(0.004)
    assert found.usd_per_correct is not None
    assert found.usd_per_correct.estimate == pytest.approx(0.008)
    assert (found.calls, found.turns, found.tokens_in, found.tokens_out) == (3, 3, 100, 40)
    assert (found.paid, found.episodes, found.stops) == (Decimal("0.008"), 2, {"accepted": 2})


def test_a_problem_with_more_repeats_weighs_no_more() -> None:
    dear = replace(EFFORT, usd_without_reuse=Decimal("0.010"))
    found = costs([score("ada", 0, 1.0, EFFORT), *[score("ada", 1, 1.0, dear)] * 3])
    assert found.usd is not None
    assert found.usd.estimate == pytest.approx(0.006)


def test_kept_replies_cost_nothing_and_are_compared_at_their_list_price() -> None:
    kept = replace(EFFORT, hits=2, usd=Decimal(0), usd_without_reuse=Decimal("0.002"))
    found = costs([score("ada", 0, 1.0, kept)])
    assert (found.paid, found.hits) == (Decimal(0), 2)
    assert found.usd is not None
    assert found.usd.estimate == pytest.approx(0.002)


def test_what_is_not_known_is_not_zero() -> None:
    deleted = replace(EFFORT, usd_without_reuse=None, tokens_in=None, tokens_out=None, latency_seconds=None)
    found = costs([score("ada", 0, 1.0, EFFORT), score("ada", 1, 1.0, deleted)])
    assert (found.usd, found.usd_per_correct, found.tokens_in, found.latency_p50) == (None, None, None, None)
    assert found.paid == Decimal("0.004")
    result = comparison.compare([score("ada", 0, 1.0, EFFORT), score("ada", 1, 1.0, None)], seed=1)
    assert result.lines[0].costs is None


def test_without_a_correct_answer_there_is_no_price_of_one() -> None:
    assert costs([score("ada", 0, 0.0, EFFORT)]).usd_per_correct is None


def test_latency_quantiles_are_over_episodes() -> None:
    scores = [score("ada", at, 1.0, replace(EFFORT, latency_seconds=float(at))) for at in range(101)]
    found = costs(scores)
    assert (found.latency_p50, found.latency_p95) == (50, 95)


def frontier_scores() -> list[Score]:
    """The coordinator beats ada at the same price; bob is cheaper and worse; eve is dearer and worse than both."""
    prices = {comparison.COORDINATOR: "0.004", "ada": "0.004", "bob": "0.001", "eve": "0.009"}
    rewards = {comparison.COORDINATOR: [1, 1, 1, 1], "ada": [1, 1, 1, 0], "bob": [1, 0, 0, 0], "eve": [1, 1, 0, 0]}
    return [
        score(
            policy,
            at,
            float(reward),
            replace(EFFORT, usd_without_reuse=Decimal(prices[policy])),
            ["sums", "words"][at % 2],
        )
        for policy, own in rewards.items()
        for at, reward in enumerate(own)
    ]


def test_the_front_is_what_nothing_beats_in_reward_and_price() -> None:
    result = comparison.compare(frontier_scores(), seed=1)
    front = [line.policy for line in result.frontier]
    assert front == ["bob", comparison.COORDINATOR]
    assert next(line for line in result.lines if line.policy == comparison.ORACLE).costs is None


def test_the_rows_have_every_policy_in_all_and_by_family() -> None:
    result = comparison.compare(frontier_scores(), seed=1)
    rows = rows_of(result)
    policies = [line.policy for line in result.lines]
    assert [row["policy"] for row in rows] == policies * 3
    assert [row["family"] for row in rows] == [name for name in ("all", "sums", "words") for _ in policies]
    ada = rows[1]
    assert (ada["policy"], ada["reward"], ada["wins"], ada["losses"], ada["ties"]) == ("ada", 0.75, 1, 0, 3)
    assert ada["usd_per_question"] == pytest.approx(0.004)
    assert (rows[0]["on_frontier"], ada["on_frontier"]) == (True, False)


def test_csv_says_the_same_as_the_rows() -> None:
    result = comparison.compare(frontier_scores(), seed=1)
    read = list(csv.DictReader(io.StringIO(csv_text(result, first={"campaign": "small"}))))
    for row, line in zip(rows_of(result), read, strict=True):
        assert line.pop("campaign") == "small"
        assert line == {name: "" if value is None else str(value) for name, value in row.items()}
    assert csv_text(comparison.compare([], seed=1)) == ""
