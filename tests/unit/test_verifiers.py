"""Measuring Verifiers: what is planted, what it costs, and that the figures are those of the models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from services.benchmarks import generated
from services.core.campaign import EvidenceUse
from services.core.errors import AuthenticationFailed, BadReply, CallTimedOut, PoolError, SpecError
from services.core.ledger.usage import Usage
from services.core.local_pool import SimulatedModel, SimulatedPool, Skill
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split
from services.core.problem_source import GeneratedFamily, GeneratedProblems
from services.core.protocol.equations import recompute
from services.core.protocol.ports import Message, Reply
from services.core.protocol.request import read_request
from services.core.scoring.ports import CodeRunner
from services.core.scoring.scorer import agree
from services.pool.local.simulated import Simulated
from services.pool.retry import RetryPolicy
from services.storage.answers import GradedAnswer
from services.verifiers import asking
from services.verifiers.__main__ import Known, Wanted, measure
from services.verifiers.planting import PLAYED, RIGHT, SILENT, SLIP, Planted, planted, played, slips_of
from tests.support.campaigns import small_campaign
from tests.support.plain_runner import PlainRunner

CAMPAIGN = small_campaign()
NUMBERS = [Problem(f"p{n}", "sums", f"What is {n} + 1?", ScorerKind.NUMERIC, str(n + 1)) for n in range(40)]

KINDS = [
    Problem("whole", "f", "q", ScorerKind.NUMERIC, "42"),
    Problem("decimal", "f", "q", ScorerKind.NUMERIC, "-3.50"),
    Problem("money", "f", "q", ScorerKind.NUMERIC, "$1,200"),
    Problem("fraction", "f", "q", ScorerKind.NUMERIC, "3/4"),
    Problem("zero", "f", "q", ScorerKind.NUMERIC, "0"),
    Problem("latex", "f", "q", ScorerKind.MATHEMATICS, r"\frac{3}{4}\sqrt{2}"),
    Problem("letter", "f", "q", ScorerKind.CHOICE, "B", choices=("x", "y", "z")),
    Problem("words", "f", "q", ScorerKind.EXACT, "Paris"),
    Problem("list", "f", "q", ScorerKind.LITERAL, "[1, 2, 3]"),
    Problem("number literal", "f", "q", ScorerKind.LITERAL, "17"),
    Problem("rule", "f", "q", ScorerKind.RULES, "9.81"),
]


@pytest.mark.parametrize("problem", KINDS, ids=lambda problem: problem.key)
def test_every_kind_of_reference_has_near_misses_that_its_scorer_tells_from_it(problem: Problem) -> None:
    slips = slips_of(problem)
    assert slips
    assert not any(agree(problem.scorer, slip, problem.answer) for slip in slips)
    right, wrong = planted([problem], 1, 0)
    assert (right.answer, right.kind, wrong.right) == (problem.answer, RIGHT, False)
    assert wrong.answer in slips


def test_slips_state_a_false_equation_and_nothing_else_does() -> None:
    found = planted(NUMBERS, 20, seed=3)
    assert [sum(one.kind == kind for one in found) for kind in (RIGHT, SLIP, SILENT)] == [20, 10, 10]
    for one in found:
        claims = recompute(one.ideas)
        assert (claims.right, len(claims.wrong)) == ((0, 1) if one.kind == SLIP else (1, 0))
        assert one.ideas.endswith(f"= {one.answer}")


def test_what_is_planted_follows_from_the_seed() -> None:
    assert planted(NUMBERS, 10, 1) == planted(NUMBERS, 10, 1)
    assert planted(NUMBERS, 10, 1) != planted(NUMBERS, 10, 2)


def test_problems_without_a_reference_are_passed_over() -> None:
    bare = [
        Problem("r", "f", "q", ScorerKind.RECORDED, scores={"ada": 1.0}),
        Problem("j", "f", "q", ScorerKind.JUDGE, "a model answer"),
        Problem("p", "f", "q", ScorerKind.PROGRAM),
        Problem("m", "f", "q", ScorerKind.MATHEMATICS, "x"),
    ]
    assert planted(bare, 4, 0) == []


def test_played_answers_are_drawn_from_both_sides() -> None:
    answers = [GradedAnswer(place, str(place), "ideas", place % 3 == 0) for place in range(30)]
    found = played(dict(enumerate(NUMBERS)), answers, 5, seed=1)
    assert [one.kind for one in found] == [RIGHT] * 5 + [PLAYED] * 5
    assert all(int(one.answer) % 3 == 0 for one in found[:5])


@dataclass
class Pool:
    """Answers by ``reply``, and keeps what was asked."""

    reply: Callable[[int, Sequence[Message]], str]
    asked: list[tuple[int, Sequence[Message]]] = field(default_factory=list)

    def complete(self, agent: int, messages: Sequence[Message], **limits: Any) -> Reply:
        self.asked.append((agent, messages))
        return Reply(self.reply(agent, messages), "stop", Usage(100, 20), 0.0)


def wanted(*uses: EvidenceUse, **changes: Any) -> Wanted:
    fields: dict[str, Any] = {
        "campaign": "small", "source": "planted", "problems": 40, "seed": 0, "evidence": uses or (EvidenceUse.NONE,),
        "models": (), "largest_usd": Decimal(100), "parallel": 4, "plan": False,
    }  # fmt: skip
    return Wanted(**fields | changes)


def run(request: Wanted, known: Sequence[Planted], pool: Any, programs: CodeRunner | None = None) -> dict[str, Any]:
    found = measure(request, Known(CAMPAIGN, tuple(known)), lambda campaign: pool, programs)
    return dict(json.loads(json.dumps(found, allow_nan=False)))


def verifiers(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["model"], row["evidence"]): row for row in found["verifiers"]}


def test_a_credulous_and_a_stubborn_model_have_the_rates_of_their_kind() -> None:
    pool = Pool(lambda agent, messages: ("ACCEPT", "Well, acceptable only if it is right.")[agent])
    rows = verifiers(run(wanted(), planted(NUMBERS, 20, 0), pool))
    ada, bob = rows["ada", "none"], rows["bob", "none"]
    assert (ada["false_accepts"]["count"], ada["false_rejects"]["count"], ada["unclear"]) == (20, 0, 0)
    assert (bob["false_accepts"]["count"], bob["false_rejects"]["count"], bob["unclear"]) == (0, 20, 40)
    assert ada["false_accepts"]["low"] > 0.8
    assert ada["false_accepts"]["high"] == 1.0
    assert ada["false_accepts_by_kind"][SLIP]["n"] == 10


def test_a_simulated_models_rates_are_those_of_its_skill() -> None:
    source = GeneratedProblems(1, (GeneratedFamily("chain_sum", {}),), 200, 0, 0)
    problems = generated.load(source)[Split.TRAINING]
    models = tuple(SimulatedModel(name, {}, Skill(0.5, 0.5, skill)) for name, skill in (("ada", 0.9), ("bob", 0.6)))
    simulated = Simulated(SimulatedPool("sim", 1, models))
    pool = Pool(lambda agent, messages: simulated.reply(("ada", "bob")[agent], messages))
    rows = verifiers(run(wanted(problems=200), planted(problems, 200, 0), pool))
    for name, skill in (("ada", 0.9), ("bob", 0.6)):
        for kind in ("false_accepts", "false_rejects"):
            rate = rows[name, "none"][kind]
            assert rate["n"] == 200
            assert rate["estimate"] == pytest.approx(1 - skill, abs=4 * (0.24 / 200) ** 0.5)


def test_evidence_is_shown_where_it_is_wanted_and_the_same_messages_are_paid_once() -> None:
    def heeds(agent: int, messages: Sequence[Message]) -> str:
        return "REVISE" if "does not hold" in (read_request(messages).evidence or "") else "ACCEPT"

    pool = Pool(heeds)
    found = run(wanted(*EvidenceUse), planted(NUMBERS, 20, 0), pool)
    rows = verifiers(found)
    assert rows["ada", "none"]["false_accepts"]["count"] == 20
    assert rows["ada", "show"]["false_accepts"]["count"] == rows["ada", "decide"]["false_accepts"]["count"] == 10
    assert rows["ada", "show"]["false_accepts_by_kind"] == {
        SILENT: rows["ada", "none"]["false_accepts_by_kind"][SILENT],
        SLIP: rows["ada", "show"]["false_accepts_by_kind"][SLIP],
    }
    assert len(pool.asked) == found["price"]["calls"] == 2 * 40 * 2, "decide has nothing of its own to ask here"


DOUBLE = Problem(
    "double", "code", "Double it.", ScorerKind.PROGRAM,
    program=ProgramTests(ProgramForm.STDIN, public=(Case("2", "4"),), hidden=(Case("3", "6"),)),
)  # fmt: skip


def test_a_machines_verdict_on_a_program_costs_no_call() -> None:
    answers = [
        GradedAnswer(0, "print(2 * int(input()))", "", True),
        GradedAnswer(0, "print(int(input()) ** 3)", "", False),
    ]
    pool = Pool(lambda agent, messages: "ACCEPT")
    request = wanted(EvidenceUse.DECIDE, source="played", models=("bob",))
    found = run(request, played({0: DOUBLE}, answers, 5, 0), pool, PlainRunner())
    (row,) = found["verifiers"]
    assert (row["model"], row["by_machine"], row["false_accepts"]["count"]) == ("bob", 1, 0)
    assert len(pool.asked) == found["price"]["calls"] == 1


def test_no_more_is_spent_than_was_said_before() -> None:
    pool = Pool(lambda agent, messages: "ACCEPT")
    known = planted(NUMBERS, 10, 0)
    price = run(wanted(plan=True), known, None)["price"]
    assert price["calls"] == 40
    found = run(wanted(), known, pool)
    assert 0 < Decimal(found["spent_usd"]) <= Decimal(price["largest_usd"])
    assert Decimal(price["expected_usd"]) < Decimal(price["largest_usd"])


def test_an_empty_reply_is_paid_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "RETRIES", RetryPolicy(tries=2, base_seconds=0.001, cap_seconds=0.001))
    known = planted(NUMBERS, 5, 0)
    once = Decimal(run(wanted(), known, Pool(lambda agent, messages: "ACCEPT"))["spent_usd"])
    silent = Pool(lambda agent, messages: "")
    found = run(wanted(), known, silent)
    assert len(silent.asked) == 2 * found["price"]["calls"]
    assert Decimal(found["spent_usd"]) == 2 * once


def test_what_could_cost_more_than_the_limit_is_not_begun() -> None:
    with pytest.raises(SpecError, match="--max-usd"):
        run(wanted(largest_usd=Decimal("0.0001")), planted(NUMBERS, 10, 0), None)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(SpecError, match="ada, bob"):
        run(wanted(models=("carol",)), planted(NUMBERS, 1, 0), None)


@pytest.mark.parametrize("error", [CallTimedOut("late", billed_unknown=True), BadReply("html")])
def test_a_call_without_a_reply_is_counted_apart_and_never_as_a_verdict(
    error: PoolError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "RETRIES", RetryPolicy(tries=2, base_seconds=0.001, cap_seconds=0.001))

    def silent(agent: int, messages: Sequence[Message]) -> str:
        if agent == 1:
            raise error
        return "ACCEPT"

    found = run(wanted(), planted(NUMBERS, 5, 0), Pool(silent))
    bob = verifiers(found)["bob", "none"]
    assert (bob["no_reply"], bob["false_accepts"], bob["false_rejects"]) == (10, None, None)
    assert found["failures"] == {type(error).__name__: 10}
    assert Decimal(found["spent_usd"]) <= Decimal(found["price"]["largest_usd"])


def test_a_refused_key_ends_it() -> None:
    def refused(agent: int, messages: Sequence[Message]) -> str:
        raise AuthenticationFailed("no key")

    pool = Pool(refused)
    with pytest.raises(AuthenticationFailed):
        run(wanted(parallel=2), planted(NUMBERS, 20, 0), pool)
    assert len(pool.asked) < 40
