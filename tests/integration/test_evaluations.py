"""What policies got and took on held-out problems, out of real campaigns, and campaigns held against each other."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.cli import heldout
from services.core.campaign import AnswersSpec, Campaign, EvaluationSpec, Reuse
from services.core.ids import CampaignId, EpisodeId
from services.core.ledger.usage import Usage
from services.core.problem import Split
from services.core.protocol.ports import Message, Reply
from services.core.scoring.grade import graded
from services.core.states import CampaignState, CandidateKind, EpisodeState, GenerationKind, Purpose
from services.reports.comparison import COORDINATOR, compare
from services.reports.costs import Costs
from services.storage import episodes, evaluations, generations, problems, replies
from services.storage.engine import Database
from services.storage.evaluations import HeldOut
from services.storage.records import NewCandidate, NewEpisode
from tests.support.auditing import assert_clean
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli
from tests.support.fault_doubles import StubPool, submit, tiny_campaign
from tests.support.faults import Stage, hurry
from tests.support.storage import DIMENSION, query, scene

__all__ = ["bare_cli", "cli", "hurry"]

SECONDS = 0.25


class Slow(StubPool):
    """Every call is said to have taken a quarter of a second."""

    def complete(self, agent: int, messages: Sequence[Message], **settings: Any) -> Reply:
        return replace(super().complete(agent, messages, **settings), latency_seconds=SECONDS)


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database, pool=Slow())
    yield made
    made.close()


def campaign_of(name: str, reuse: Reuse = Reuse.NEVER) -> Campaign:
    evaluation = EvaluationSpec(problems=3, baselines=("single", "random"))
    return tiny_campaign(name=name, answers=AnswersSpec(reuse), evaluation=evaluation)


def play(stage: Stage, campaign: Campaign) -> CampaignId:
    campaign_id = submit(stage.look, campaign)
    assert stage.play(campaign_id) is CampaignState.COMPLETED, (stage.stops, stage.notes.lines[-3:])
    return campaign_id


def read(database: Database, campaign_id: CampaignId) -> HeldOut:
    with database.transaction() as conn:
        return evaluations.read(conn, campaign_id)


def costs_of(found: HeldOut, campaign: Campaign) -> dict[str, Costs]:
    lines = compare(heldout.scores(found.episodes, campaign), 1).lines
    return {line.policy: line.costs for line in lines if line.costs is not None}


def booked(database: Database, campaign_id: CampaignId) -> Decimal:
    """Return what the ledger charged for the episodes of the evaluation, whatever came of them."""
    statement = (
        "select sum(x.usd) from generation g join episode e on e.generation_id = g.id"
        " join llm_call l on l.episode_id = e.id join ledger_entry x on x.llm_call_id = l.id and x.kind = 'charge'"
        f" where g.campaign_id = {campaign_id} and g.kind = 'evaluation'"
    )
    with database.transaction() as conn:
        ((usd,),) = query(conn, statement)
    return Decimal(usd)


def test_every_policy_is_told_with_what_its_calls_took(stage: Stage) -> None:
    campaign = campaign_of("plain")
    campaign_id = play(stage, campaign)
    found = read(stage.look, campaign_id)
    counts = [(each.candidate_kind, each.candidate_index) for each in found.episodes]
    policies = [
        (CandidateKind.MEAN, 0),
        (CandidateKind.RANDOM, 0),
        (CandidateKind.SINGLE, 0),
        (CandidateKind.SINGLE, 1),
    ]
    assert counts == [policy for policy in policies for _ in range(3)]
    for each in found.episodes:
        assert each.state is EpisodeState.SCORED
        assert each.latency_seconds == pytest.approx(SECONDS * each.calls)
        assert (each.hits, each.errors, each.estimated, each.failures, each.uncounted_usd) == (0, 0, 0, 0, Decimal(0))
        assert each.completion_tokens == 3 * each.calls
    for each in found.episodes[-3:]:  # the second model on its own: one turn, one call
        assert (each.turns, each.calls, each.prompt_tokens) == (1, 1, 12)
        assert each.usd == campaign.pool[1].price.cost(Usage(12, 3))
    assert sum(each.usd for each in found.episodes) == booked(stage.look, campaign_id)
    turns = sum(each.turns or 0 for each in found.episodes)
    assert sum(choice.turns for choice in found.choices) == turns
    assert {choice.number for choice in found.choices} <= {1, 2}
    assert_clean(stage.look)


def test_policies_stay_comparable_when_replies_are_kept(stage: Stage) -> None:
    first, second = campaign_of("first", Reuse.ALWAYS), campaign_of("second", Reuse.ALWAYS)
    paid = play(stage, first)
    free = play(stage, second)
    theirs, mine = costs_of(read(stage.look, paid), first), costs_of(read(stage.look, free), second)
    assert list(mine) == list(theirs)
    assert COORDINATOR in mine
    for policy, own in mine.items():
        assert own.paid == 0
        assert own.hits > 0
        assert (own.usd, own.usd_per_correct) == (theirs[policy].usd, theirs[policy].usd_per_correct)
        assert (own.tokens_in, own.tokens_out, own.calls) == (
            theirs[policy].tokens_in,
            theirs[policy].tokens_out,
            theirs[policy].calls,
        )
        assert (own.latency_p50, own.latency_p95) == (theirs[policy].latency_p50, theirs[policy].latency_p95)
    assert any(own.usd is not None and own.usd.estimate > 0 for own in mine.values())


def test_what_a_deleted_reply_took_is_unknown_and_not_nothing(stage: Stage) -> None:
    play(stage, campaign_of("first", Reuse.ALWAYS))
    campaign = campaign_of("second", Reuse.ALWAYS)
    campaign_id = play(stage, campaign)
    with stage.look.transaction() as conn:
        assert replies.delete(conn, replies.Choice()) > 0
    for own in costs_of(read(stage.look, campaign_id), campaign).values():
        assert (own.usd, own.tokens_in, own.latency_p50, own.paid) == (None, None, None, Decimal(0))


def test_attempts_that_led_to_no_reward_stand_apart_and_nothing_is_lost(stage: Stage) -> None:
    broken: list[int] = []

    def trouble(number: int) -> None:
        if number % 9 == 0:
            broken.append(number)
            raise RuntimeError("the machine fails in the middle of a call")

    stage.pool.trouble = trouble
    stage.resumes = 5
    campaign_id = play(stage, campaign_of("troubled"))
    found = read(stage.look, campaign_id)
    assert broken
    failures = sum(each.failures for each in found.episodes)
    assert failures > 0
    uncounted = sum(each.uncounted_usd for each in found.episodes)
    assert uncounted > 0
    assert sum(each.usd for each in found.episodes) + uncounted == booked(stage.look, campaign_id)
    left_out = heldout.left_out(found.episodes, campaign_of("troubled"))
    assert sum(each.failures for each in left_out) == failures
    assert sum(each.usd for each in left_out) == uncounted


def test_labels_tell_the_best_model_of_a_family(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        training = problems.load(conn, made.campaign, Split.TRAINING)
        conn.exec_driver_sql("update generation set state = 'cancelled', closed_at = now()")
        generation = generations.open_generation(
            conn,
            made.campaign,
            epoch=made.epoch,
            number=1,
            kind=GenerationKind.LABELLING,
            mean=np.ones(DIMENSION),
            sigma=0.25,
            checksum="d",
            candidates=[NewCandidate(CandidateKind.SINGLE, index) for index in range(2)],
            episodes=[
                NewEpisode(candidate, Purpose.TRAINING, replicate, problem_id, 5)
                for candidate in range(2)
                for replicate, (problem_id, _) in enumerate(training[:2])
            ],
        )
        for (number,) in query(conn, f"select id from episode where generation_id = {generation} order by id"):
            claim = episodes.claim(conn, EpisodeId(number), "w", 60)
            assert claim is not None
            episodes.record_score(conn, claim, graded(0.25 + 0.5 * claim.candidate_index), "accepted", [])
        found = evaluations.read(conn, made.campaign)
    assert found.labels == {"sums": {0: 0.25, 1: 0.75}}
    assert heldout.family_choice(found.labels, campaign_of("any")) == {"sums": "bob"}


def test_comparing_campaigns_on_the_command_line(stage: Stage, cli: CommandLine, tmp_path: Path) -> None:
    play(stage, campaign_of("first"))
    play(stage, replace(campaign_of("second"), search=replace(campaign_of("second").search, sigma0=0.1)))
    shown = cli("campaign", "compare", "first", "second", "--csv", str(tmp_path / "all.csv"))
    assert shown.code == 0
    assert "3 held-out problems, answered by all" in shown.out
    document = json.loads(cli("campaign", "compare", "first", "second", "--json").out)
    assert document["shared_problems"] == 3
    assert [line["policy"] for line in document["lines"]][:2] == ["first", "second"]
    assert document["differences"][0]["against"] == "second"
    assert document["frontier"]
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == [line["policy"] for line in document["lines"]]
    page = cli("campaign", "compare", "first", "second", "--out", str(tmp_path / "page"))
    assert page.code == 0
    assert "Comparison of first, second" in (tmp_path / "page" / "index.html").read_text()
    alone = json.loads(cli("campaign", "compare", "first", "--json").out)
    assert alone["lines"][0]["policy"] == "first"
    show = json.loads(cli("campaign", "show", "first", "--json").out)["comparison"]
    assert show["lines"][0]["policy"] == COORDINATOR
    assert show["choices"]


def test_campaigns_that_cannot_be_compared_are_refused(stage: Stage, cli: CommandLine) -> None:
    play(stage, campaign_of("first"))
    cli("campaign", "submit", cli.campaign(CAMPAIGN))
    refused = cli("campaign", "compare", "first", "small")
    assert refused.code == 1
    assert "has answered held-out problems" in refused.err
    assert cli("campaign", "compare", "first", "nobody").code == 1
