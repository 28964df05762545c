"""Judges and evidence in the real worker: what they cost is in the books, and what they cannot tell is no reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from services.cli import inspection
from services.core.campaign import BudgetLimits, EvidenceUse, ModelSpec, ProtocolSpec, ScoringSpec
from services.core.errors import GradingUnavailable
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.protocol.verdict import VerdictSource
from services.core.scoring.ports import Execution, Job
from services.core.scoring.scorer import Graders
from services.core.states import CampaignState, Purpose
from services.pool.litellm_client import LitellmPool
from services.storage import ledger, overview
from services.storage.engine import Database
from services.storage.records import OutcomeCount, VerdictCount
from tests.support.campaigns import PRICE, small_campaign
from tests.support.plain_runner import PlainRunner
from tests.support.provider import Logged, ScriptedProvider, Step, reply
from tests.support.stub_models import StubEncoders
from tests.support.waiting import wait_for
from tests.support.worker import Bench, bench_of

pytestmark = pytest.mark.usefixtures("ends_clean")

JUDGED = "update problem set scorer = 'judge', answer = null"
PROGRAMS = """update problem set scorer = 'program', answer = null, checks = '{"program": {"form": "stdin",
    "entry_point": null, "public": [{"given": "2", "wanted": "4"}], "hidden": [{"given": "5", "wanted": "10"}],
    "source": "", "prelude": "", "seconds": 6.0}}'"""
DONE = "<answer>roses are red</answer>"


def script(replies: Mapping[str, str]) -> Any:
    """Return a provider's script that answers by the first words of the system message."""

    def answer(request: Logged) -> Step:
        system = request.body["messages"][0]["content"]
        return reply(next(text for opening, text in replies.items() if system.startswith(opening)))

    return answer


@contextmanager
def bench(database: Database, provider: ScriptedProvider, problems: str, **changes: Any) -> Iterator[Bench]:
    models = tuple(ModelSpec(name, f"openai/{name}", PRICE, base_url=provider.url) for name in ("ada", "bob"))
    campaign = small_campaign(pool=models, scoring=ScoringSpec("bob"))
    protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)
    changed = replace(campaign, **{"protocol": protocol, **changes})
    encoders, make_pool = StubEncoders(lambda: 4), lambda campaign: LitellmPool(campaign.pool)
    with bench_of(database, changed, encoders, make_pool, heartbeat_seconds=0.05) as at:
        with at.database.transaction() as conn:
            conn.exec_driver_sql(problems)
        yield at


def calls(at: Bench) -> list[tuple[Any, ...]]:
    return at.query("select turn, try, role, model, state from llm_call order by id")


def test_a_rating_is_metered_after_the_last_turn(database: Database) -> None:
    said = script({"You are the Worker.": DONE, "You are the Judge.": "Fine.\nRating: [[7]]"})
    with ScriptedProvider(said) as provider, bench(database, provider, JUDGED) as at:
        at.run()
        found = at.query(
            "select state, reward, outcome, outcome_detail, decided_by from episode where reward is not null"
        )
        assert found == [("scored", 0.7, "partial", "rated 7 of 10", "judge bob")]
        worker = calls(at)[0][3]
        assert calls(at) == [(1, 1, "worker", worker, "settled"), (2, 1, "judge", "bob", "settled")]
        cost = (11 * PRICE.input_per_million + 3 * PRICE.output_per_million) / 1_000_000
        assert at.campaign().spend.usd_charged == 2 * cost
        with database.transaction() as conn:
            totals = {(each.role.value, each.calls) for each in ledger.totals(conn, at.campaign_id)}
            outcomes = overview.outcomes(conn, at.campaign_id)
        assert totals == {("worker", 1), ("judge", 1)}
        assert outcomes == [OutcomeCount(Purpose.TRAINING, "partial", False, 1)]


def test_a_rating_is_asked_for_again_under_the_next_number(database: Database) -> None:
    turns = iter([DONE, "Rating: [[11]]", "Rating: [[8/10]]", "Rating: [[9]]"])
    with ScriptedProvider(lambda request: reply(next(turns))) as provider, bench(database, provider, JUDGED) as at:
        at.run()
        assert at.episode()[:2] == ("scored", 0.9)
        assert [call[:3] for call in calls(at)] == [(1, 1, "worker"), (2, 1, "judge"), (3, 1, "judge"), (4, 1, "judge")]


def test_a_judge_that_never_rates_fails_the_attempt_and_never_gives_a_reward(database: Database) -> None:
    said = script({"You are the Worker.": DONE, "You are the Judge.": "Rating: [[11]]"})
    with ScriptedProvider(said) as provider, bench(database, provider, JUDGED) as at:
        at.run()
        assert at.episode() == ("pending", None, 1, None)
        with database.transaction() as conn:
            conn.exec_driver_sql("update episode set available_at = now()")
        at.run()
        assert at.episode() == ("failed", None, 2, "GradingUnavailable")
        with database.transaction() as conn:
            outcomes = overview.outcomes(conn, at.campaign_id)
        assert outcomes == [OutcomeCount(Purpose.TRAINING, "GradingUnavailable", True, 1)]
        assert at.campaign().spend.usd_reserved == Decimal(0)


def test_a_rating_that_does_not_fit_the_budget_is_not_asked_for(database: Database) -> None:
    said = script({"You are the Worker.": DONE, "You are the Judge.": "Rating: [[7]]"})
    limits = BudgetLimits(episodes=1000, calls=1)
    with ScriptedProvider(said) as provider, bench(database, provider, JUDGED, budget=limits) as at:
        at.run()
        assert len(provider.requests) == 1
        assert at.episode()[:2] == ("pending", None)
        assert at.campaign().state is CampaignState.BUDGET_EXHAUSTED


WORK_THEN_VERIFY = ProtocolSpec(max_turns=2, max_output_tokens=64, evidence=EvidenceUse.DECIDE)


def worker_then_verifier(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first turn be a Worker's and the second a Verifier's."""
    from services.core.policy import policies
    from services.core.protocol.ports import Decision

    def decide(self: Any, transcript: Transcript, rng: np.random.Generator) -> Decision:
        logits: npt.NDArray[np.float32] = np.zeros(5, dtype=np.float32)
        return Decision(0, (Role.WORKER, Role.VERIFIER)[len(transcript.items)], tuple(logits.tolist()))

    monkeypatch.setattr(policies.HeadPolicy, "decide", decide)


@pytest.mark.parametrize(
    ("program", "source", "roles"),
    [("print(5)", "machine", ["worker"]), ("print(2 * int(input()))", "model", ["worker", "verifier"])],
)
def test_a_failed_public_example_is_a_verdict_without_a_call(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    source: str,
    roles: list[str],
) -> None:
    said = script({"You are the Worker.": f"<answer>{program}</answer>", "You are the Verifier.": "ACCEPT"})
    with ScriptedProvider(said) as provider, bench(database, provider, PROGRAMS, protocol=WORK_THEN_VERIFY) as at:
        worker_then_verifier(at, monkeypatch)
        at.runtime.graders = Graders(programs=PlainRunner())
        at.run()
        (turn,) = at.query("select verdict_source, text, output from turn where role = 'verifier'")
        assert turn[0] == source
        assert ("failed number 1" in turn[1]) == (source == "machine")
        assert [call[2] for call in calls(at)] == roles
        with database.transaction() as conn:
            (counted,) = overview.verdicts(conn, at.campaign_id)
        by_machine = VerdictCount(VerdictSource.MACHINE, None, 0, 1, 0, None)
        assert counted == (by_machine if source == "machine" else VerdictCount(VerdictSource.MODEL, 0, 1, 0, 0, 1.0))
        capsys.readouterr()
        inspection.show_campaign(database, "small", 0, as_json=False)
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert (["nobody", "asked", "machine", "0", "1", "0", "-"] in lines) == (source == "machine")
        assert (["ada", "model", "1", "0", "0", "1.000"] in lines) == (source == "model")
        assert ["training", "wrong" if source == "machine" else "correct", "1"] in lines


class Broken:
    """A sandbox that is there but runs nothing."""

    name = "broken"

    def run(self, job: Job) -> Execution:
        raise GradingUnavailable("the sandbox lost its runner")

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        raise GradingUnavailable("the sandbox lost its runner")


@pytest.mark.parametrize(
    ("graders", "failure"),
    [(Graders(), "PrerequisiteMissing"), (Graders(programs=Broken()), "GradingUnavailable")],
)
def test_evidence_that_cannot_be_had_is_a_failed_attempt(
    database: Database, monkeypatch: pytest.MonkeyPatch, graders: Graders, failure: str
) -> None:
    said = script({"You are the Worker.": "<answer>print(4)</answer>", "You are the Verifier.": "ACCEPT"})
    with ScriptedProvider(said) as provider, bench(database, provider, PROGRAMS, protocol=WORK_THEN_VERIFY) as at:
        worker_then_verifier(at, monkeypatch)
        at.runtime.graders = graders
        at.run()
        assert at.episode()[:2] == ("pending", None)
        assert at.query("select error_kind from attempt") == [(failure,)]


@dataclass
class Slow:
    """A sandbox whose program does not end before the lease was extended meanwhile."""

    database: Database
    name: str = "slow"

    def run(self, job: Job) -> Execution:
        with self.database.transaction() as conn:
            conn.exec_driver_sql("update episode set lease_expires_at = now() where state = 'running'")
        wait_for(self._extended, seconds=20, what="a heartbeat during the run", pause=0.02)
        return PlainRunner().run(job)

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        raise AssertionError("nothing is examined here")

    def _extended(self) -> bool:
        extended = "select lease_expires_at > now() + interval '30 seconds' from episode where state = 'running'"
        with self.database.transaction() as conn:
            return bool(conn.exec_driver_sql(extended).scalar_one())


def test_the_lease_is_kept_alive_while_an_answer_is_graded(database: Database) -> None:
    said = script({"You are the Worker.": "<answer>print(2 * int(input()))</answer>"})
    with ScriptedProvider(said) as provider, bench(database, provider, PROGRAMS) as at:
        at.runtime.graders = Graders(programs=Slow(database))
        at.runtime.held.start()
        try:
            at.run()
        finally:
            at.runtime.held.stop()
        assert at.episode()[:3] == ("scored", 1.0, 1)


def test_nothing_is_paid_where_programs_cannot_be_graded(database: Database) -> None:
    said = script({"You are the Worker.": "<answer>print(1)</answer>"})
    with ScriptedProvider(said) as provider, bench(database, provider, PROGRAMS) as at:
        at.run()
        assert (provider.requests, at.episode()[:2]) == ([], ("pending", None))
        assert at.query("select error_kind from attempt") == [("PrerequisiteMissing",)]
