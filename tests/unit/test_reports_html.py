"""The HTML report: complete, self-contained, and safe against what campaigns contain."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from services.reports import html, plots
from services.reports.comparison import COORDINATOR, RANDOM
from services.reports.records import (
    CallFigure,
    CampaignFacts,
    ChoiceFigure,
    CurveFigure,
    Effort,
    LeftOut,
    OutcomeFigure,
    PolicyKind,
    Score,
)

HOSTILE = '<script>alert("x")</script>&\'"'


def facts(**changes: object) -> CampaignFacts:
    curve = tuple(
        CurveFigure(
            generation=number,
            sigma=0.1 * 0.99**number,
            mean_fitness=0.3 + 0.02 * number,
            best_fitness=0.5 + 0.02 * number,
            validation=0.4 + 0.02 * number if number % 4 == 0 else None,
            model_share={"ada": 0.5 - 0.02 * number, "bob": 0.5 + 0.02 * number},
            role_share={"worker": 0.6, "thinker": 0.1, "verifier": 0.3},
            mean_turns=2.2,
            usd=Decimal("0.0123"),
        )
        for number in range(12)
    )
    policies = ((PolicyKind.COORDINATOR, COORDINATOR), (PolicyKind.SINGLE, "ada"), (PolicyKind.SINGLE, "bob"))
    scores = tuple(
        Score(kind, policy, f"p{at}", ("sums", "words")[at % 2], float((at * 7 + len(policy)) % 3 > 0))
        for kind, policy in (*policies, (PolicyKind.RANDOM, RANDOM))
        for at in range(40)
    )
    made = CampaignFacts(
        name="small",
        state="completed",
        reason="all generations done",
        seed=7,
        settings={"seed": "7", "theta": "2,880 numbers"},
        models=("ada", "bob"),
        roles=("worker", "thinker", "verifier"),
        population=4,
        replicates=3,
        validation_problems=2,
        curve=curve,
        last_validation=0.66,
        scores=scores,
        calls=(CallFigure("ada", "worker", True, 1200, 3, 45_000, Decimal("0.5")),),
        commands=("manage.py campaign report small --out small",),
        specification={"version": 1},
        outcomes=(
            OutcomeFigure("training", "no_answer", True, 1234),
            OutcomeFigure("training", "GradingUnavailable", False, 5),
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mean", "best"), [(-0.4, 0.2), (0.9, 1.3)])
def test_fitness_with_bonuses_stays_within_the_plot(mean: float, best: float, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []

    def keep(figure: Figure) -> bytes:
        drawn.append(figure)
        return b""

    monkeypatch.setattr(plots, "png", keep)
    known = facts()
    curve = tuple(replace(point, mean_fitness=mean, best_fitness=best) for point in known.curve)
    plots.learning_curve(known)
    plots.learning_curve(replace(known, curve=curve, shaped=True))
    plain, (low, high) = [figure.axes[0].get_ylim() for figure in drawn]
    assert plain == (-0.02, 1.02)
    assert low < min(0.0, mean)
    assert high > max(1.0, best)


class Balanced(HTMLParser):
    """Fails on a tag that is closed without being open; collects what is left open."""

    VOID = frozenset({"meta", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_page_with_its_plots_inside_and_beside(tmp_path: Path) -> None:
    page = html.write(facts(), tmp_path / "report").read_text()
    plots = sorted(path.name for path in (tmp_path / "report").glob("*.png"))
    assert plots == ["comparison.png", "learning_curve.png", "models.png", "roles.png", "spend.png"]
    assert page.count("data:image/png;base64,") == len(plots)
    for path in (tmp_path / "report").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert not re.search(r"""(src|href)=["']?(https?:|//|/)""", page), "the page needs something outside itself"
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


def test_every_number_carries_its_sample_size_seed_and_command(tmp_path: Path) -> None:
    page = html.write(facts(), tmp_path).read_text()
    assert "95 %" in page
    assert "On 40 held-out problems" in page
    assert "manage.py campaign report small" in page
    assert "Mean reward by family" in page


def test_outcomes_tell_what_had_no_reward_apart(tmp_path: Path) -> None:
    page = html.write(facts(), tmp_path).read_text()
    assert "<h2>Outcomes</h2>" in page
    assert "<td>no_answer</td><td></td><td class=number>1,234</td>" in page
    assert "<td>GradingUnavailable</td><td>no reward</td><td class=number>5</td>" in page


@pytest.mark.parametrize("field", ["name", "state", "reason"])
def test_texts_of_a_campaign_are_never_markup(tmp_path: Path, field: str) -> None:
    page = html.write(facts(**{field: HOSTILE}), tmp_path).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_hostile_model_names_and_specifications_are_escaped(tmp_path: Path) -> None:
    calls = (CallFigure(HOSTILE, "worker", False, 1, 0, 1, Decimal(0)),)
    scores = (Score(PolicyKind.SINGLE, HOSTILE, "p", HOSTILE, 1.0), Score(PolicyKind.SINGLE, "ada", "q", "sums", 0.0))
    page = html.write(facts(calls=calls, scores=scores, specification={"a": HOSTILE}), tmp_path).read_text()
    assert "<script" not in page


def test_a_campaign_without_results_has_a_report_without_plots(tmp_path: Path) -> None:
    page = html.write(facts(curve=(), scores=(), calls=()), tmp_path).read_text()
    assert "No held-out problem has been answered yet" in page
    assert list(tmp_path.glob("*.png")) == []


def test_the_same_facts_give_the_same_plots(tmp_path: Path) -> None:
    first, second = html.write(facts(), tmp_path / "a"), html.write(facts(), tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("coordinator", "verdict"), [(1.0, "does better than"), (0.0, "does worse than"), (0.5, "cannot be told from")]
)
def test_the_lead_says_what_the_interval_says(tmp_path: Path, coordinator: float, verdict: str) -> None:
    scores = tuple(
        Score(kind, policy, f"p{at}", "sums", reward)
        for kind, policy, reward in (
            (PolicyKind.COORDINATOR, COORDINATOR, coordinator),
            (PolicyKind.SINGLE, "ada", 0.5),
        )
        for at in range(30)
    )
    assert f"{verdict} ada" in html.write(facts(scores=scores), tmp_path).read_text()


def priced(name: str = "ada") -> CampaignFacts:
    """A campaign whose policies have prices, with choices by turn and attempts that led to nothing."""
    policies = ((PolicyKind.COORDINATOR, COORDINATOR), (PolicyKind.SINGLE, name), (PolicyKind.RIVAL, "majority bob"))
    scores = tuple(
        Score(kind, policy, f"p{at}", "sums", float(at % (place + 2) > 0), effort(Decimal(place + 1) / 1000))
        for place, (kind, policy) in enumerate(policies)
        for at in range(30)
    )
    choices = tuple(
        ChoiceFigure(COORDINATOR, turn, model, role, 10 * turn)
        for turn in (1, 2)
        for model, role in ((name, "worker"), ("bob", "verifier"))
    )
    left_out = (LeftOut(name, 1, 3, Decimal("0.0125"), Decimal(0)), LeftOut("bob", 0, 0, Decimal(0), Decimal(0)))
    return facts(scores=scores, choices=choices, left_out=left_out, models=(name, "bob"))


def effort(usd: Decimal) -> Effort:
    return Effort(2, 1, 0, 0, 120, 30, usd / 2, usd, 1.5, 2, "accepted", "correct")


def test_prices_choices_and_what_was_left_out_are_told(tmp_path: Path) -> None:
    page = html.write(priced(), tmp_path).read_text()
    assert {"frontier.png", "turns.png", "comparison.csv"} <= {path.name for path in tmp_path.iterdir()}
    assert "<td class=number>1.0000</td><td class=number>1.0000 to 1.0000</td>" in page, "USD per 1,000 questions"
    assert "Not in these figures" in page
    assert "<td>ada</td><td class=number>1</td><td class=number>3</td><td class=number>0.012500</td>" in page
    rows = (tmp_path / "comparison.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows] == ["policy", COORDINATOR, "ada", "majority bob"]


def test_hostile_names_are_text_in_every_table_and_plot(tmp_path: Path) -> None:
    page = html.write(priced(f"$x^{{$ {HOSTILE}"), tmp_path).read_text()
    assert "<script" not in page
    assert (tmp_path / "frontier.png").read_bytes().startswith(b"\x89PNG")
