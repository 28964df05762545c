"""The live view of a campaign, drawn from records."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from rich.console import Console

from services.cli import watching
from services.cli.advice import what_now
from services.core.campaign import BudgetLimits
from services.core.errors import BudgetExhausted
from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.core.states import CampaignState, EpisodeState, GenerationKind, GenerationState
from services.storage.records import CampaignRecord, CurvePoint, Progress, Spend
from tests.support.campaigns import small_campaign

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def record(**changes: object) -> CampaignRecord:
    spend = Spend(14, 20, 3000, 0, 0, Decimal("0.25"), Decimal("0.01"), Decimal(0))
    made = CampaignRecord(
        id=CampaignId(1),
        name="small",
        state=CampaignState.RUNNING,
        spec={},
        spec_sha256="0" * 64,
        seed=5,
        dimension=20,
        versions={},
        forked_from=None,
        budget=BudgetLimits(episodes=100, calls=40, usd=Decimal(2)),
        max_attempts=5,
        weight=1.5,
        spend=spend,
        running_seconds=65.0,
        stop_reason=None,
        created_at=NOW,
        started_at=NOW,
        ended_at=None,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def view(
    campaign: CampaignRecord | None = None,
    kind: GenerationKind = GenerationKind.TRAINING,
    failures: Mapping[str, int] | None = None,
) -> watching.View:
    progress = Progress(
        campaign=campaign or record(),
        generation=1,
        generation_kind=kind,
        generation_state=GenerationState.OPEN,
        episodes={EpisodeState.SCORED: 6, EpisodeState.RUNNING: 2, EpisodeState.PENDING: 4},
        agents={0: 9, 1: 3},
        roles={Role.WORKER: 12},
        failures=failures or {},
    )
    point = CurvePoint(0, 0.1, 0.5, 0.75, 0.25, {0: 1.0}, {Role.WORKER: 1.0}, 2.0, Decimal("0.1"), NOW)
    return watching.View(small_campaign(), progress, [point], {"episodes": 3, "validation": 0})


def drawn(shown: watching.View) -> str:
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(watching.page(shown))
    return console.export_text()


def test_the_page_shows_progress_choices_spend_and_queues() -> None:
    text = drawn(view())
    for part in ("small  running", "generation 1 (2 of 2)", "6 scored, 2 running, 4 pending", "mean 0.500, best 0.750",
                 "ada 75%  bob 25%", "worker 100%", "$0.25 of $2.00, 3,000 tokens", "episodes 3  validation 0",
                 "20 of 40; weight 1.5", "1 min 5 s"):  # fmt: skip
        assert part in text


def test_what_comes_from_outside_is_never_markup() -> None:
    text = drawn(view(record(stop_reason="[red]a\x1b[2J"), failures={"[bold]RateLimited": 2}))
    assert "[red]a [2J" in text
    assert "2 x [bold]RateLimited" in text


@pytest.mark.parametrize(
    ("kind", "text"),
    [(GenerationKind.VALIDATION, "validation of the last mean"), (GenerationKind.EVALUATION, "held-out evaluation")],
)
def test_measuring_generations_have_names(kind: GenerationKind, text: str) -> None:
    assert text in drawn(view(kind=kind))
    assert text in watching.status_line(view(kind=kind))


def test_lines_follow_generations_and_states_at_once_and_the_rest_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    lines = watching.Lines()
    running = view()
    for _ in range(3):
        lines.draw(running)
        running.progress = replace(running.progress, episodes={EpisodeState.SCORED: 7})
    for _ in range(2):
        lines.draw(view(record(state=CampaignState.PAUSED, stop_reason="lunch")))
    captured = capsys.readouterr()
    printed = captured.out.splitlines()
    assert len(printed) == 2
    assert captured.err == "cure the reason, then `manage.py campaign resume small`\n"
    assert printed[0].startswith(
        "small: running | generation 1 (2 of 2) 6/12 episodes | fitness 0.500, validation 0.250"
    )
    assert printed[1].startswith("small: paused (lunch)")


@pytest.mark.parametrize(
    ("scope", "option"),
    [
        ("episodes", "--add-episodes N"),
        ("calls", "--add-calls N"),
        ("tokens", "--add-tokens N"),
        ("USD", "--add-usd AMOUNT"),
        ("wall clock seconds", "--add-hours N"),
        ("something new", "--add-... N"),
    ],
)
def test_a_used_up_budget_names_the_option_that_raises_it(scope: str, option: str) -> None:
    reason = str(BudgetExhausted(scope, 1, 1, 0, 1))
    stopped = record(state=CampaignState.BUDGET_EXHAUSTED, stop_reason=reason)
    assert what_now(stopped) == f"`manage.py campaign budget small {option} --resume` raises the limit and goes on"
    assert option in " ".join(drawn(view(stopped)).split())


def test_every_state_says_what_can_be_done_about_it() -> None:
    assert what_now(record()) is None
    assert what_now(record(state=CampaignState.COMPLETED, stop_reason="all generations closed")) is None
    paused = what_now(record(state=CampaignState.PAUSED, stop_reason="lunch"))
    assert paused == "cure the reason, then `manage.py campaign resume small`"
    for state in (CampaignState.FAILED, CampaignState.CANCELLED):
        assert "`manage.py campaign fork small --name NEW`" in (what_now(record(state=state)) or "")
    assert "manage.py up" in (what_now(record(state=CampaignState.SUBMITTED)) or "")


def test_bars_and_sparklines() -> None:
    assert watching.bar(0, 0, 4) == "░░░░"
    assert watching.bar(3, 4, 4) == "███░"
    assert watching.sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert watching.sparkline([-0.4, 1.3]) == "▁█", "bonuses may lead out of the range of a reward"
    assert len(watching.sparkline([0.5] * 100)) == 40
