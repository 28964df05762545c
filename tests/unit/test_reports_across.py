"""Several campaigns in one comparison."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from services.core.errors import SpecError
from services.reports import across_page
from services.reports.across import Entry, across
from services.reports.comparison import COORDINATOR, ORACLE
from services.reports.records import PolicyKind, Score


def entry(name: str, rewards: list[float], *, first: int = 0, digest: str = "d", **changes: object) -> Entry:
    """A campaign whose coordinator got these rewards on problems from number ``first`` on, and ada and bob zeros."""
    policies = ((PolicyKind.COORDINATOR, COORDINATOR), (PolicyKind.SINGLE, "ada"), (PolicyKind.SINGLE, "bob"))
    scores = tuple(
        Score(kind, policy, f"p{first + at}", "sums", reward if kind is PolicyKind.COORDINATOR else 0.0)
        for kind, policy in policies
        for at, reward in enumerate(rewards)
    )
    contents = {score.problem: f"{digest} of {score.problem}" for score in scores}
    settings = {"learner": "sep_cma_es", "seed": "3", "state": "completed", "search": f"that of {name}"}
    return replace(Entry(name, 3, settings, Decimal("0.5"), scores, contents), **changes)  # type: ignore[arg-type]


def test_coordinators_stand_under_their_campaigns_names_beside_the_first_ones_baselines() -> None:
    found = across([entry("one", [1.0, 1.0, 0.0, 1.0]), entry("two", [0.0, 1.0, 0.0, 0.0])])
    lines = {line.policy: line for line in found.comparison.lines}
    assert list(lines) == ["one", "two", "ada", "bob", ORACLE]
    assert (lines["one"].interval.estimate, lines["two"].interval.estimate) == (0.75, 0.25)
    against = {each.against: each for each in found.comparison.differences}
    assert (against["two"].discordance.wins, against["two"].discordance.losses) == (2, 0)
    assert found.comparison.reference == "one"


def test_only_shared_problems_count() -> None:
    found = across([entry("one", [1.0, 0.0, 0.0]), entry("two", [1.0, 1.0], first=1), entry("three", [0.0] * 5)])
    assert found.shared == 2
    assert {line.policy: line.n for line in found.comparison.lines} == dict.fromkeys(
        ["one", "two", "three", "ada", "bob", ORACLE], 2
    )


def test_campaigns_that_share_nothing_are_refused_with_the_figures() -> None:
    with pytest.raises(SpecError, match=r"one answered 2, two 2, 0 of them the same$"):
        across([entry("one", [1.0, 0.0]), entry("two", [1.0, 0.0], first=5)])


def test_problems_with_the_same_key_and_another_question_are_not_shared() -> None:
    with pytest.raises(SpecError, match=r"2 have the same key, but not the same question and reference"):
        across([entry("one", [1.0, 0.0]), entry("two", [1.0, 0.0], digest="e")])


def test_a_third_campaign_must_share_what_the_first_two_share() -> None:
    with pytest.raises(SpecError, match="none of these is shared with the campaigns between"):
        across([entry("one", [1.0] * 4), entry("two", [1.0] * 2), entry("three", [1.0] * 2, first=2)])


def test_a_campaign_without_a_held_out_score_of_its_coordinator_is_refused() -> None:
    empty = entry("empty", [1.0])
    scores = tuple(score for score in empty.scores if score.kind is not PolicyKind.COORDINATOR)
    with pytest.raises(SpecError, match=r"empty.*has answered held-out problems"):
        across([entry("one", [1.0]), replace(empty, scores=scores)])
    with pytest.raises(SpecError, match="each campaign once"):
        across([entry("one", [1.0]), entry("one", [1.0])])


def test_the_page_tells_what_differs_and_escapes_names(tmp_path: Path) -> None:
    found = across([entry("one", [1.0] * 12), entry("<b>two</b>", [0.0] * 12)])
    page = across_page.write(found, tmp_path / "out").read_text()
    assert "12 held-out problems" in page
    assert "the coordinator of one does better than &lt;b&gt;two&lt;/b&gt;" in page
    assert "that of one" in page
    assert "<b>two" not in page
    assert (tmp_path / "out" / "comparison.csv").read_text().startswith("family,policy,")
    assert (tmp_path / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")
