"""The protocol's stop rules on scripted conversations (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import ProtocolSpec, VerifierWithoutAnswer
from services.core.errors import AttemptInterrupted, ProviderUnavailable
from services.core.ledger.usage import Usage
from services.core.protocol.episode import EpisodeResult, Termination, run_episode, single_turn
from services.core.protocol.ports import Decision, Message, Reply
from services.core.protocol.request import read_request
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Transcript
from services.core.protocol.verdict import Verdict

W, T, V = Role.WORKER, Role.THINKER, Role.VERIFIER
ANSWER = "<idea>count</idea><answer>4</answer>"


@dataclass
class Script:
    """Policy and pool at once: each turn is (agent, role, the model's text)."""

    turns: Sequence[tuple[int, Role, str]]
    asked: list[tuple[int, int, Role, Sequence[Message]]] = field(default_factory=list)

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        agent, role, _ = self.turns[len(transcript.items)]
        return Decision(agent, role, (0.5, 1.5))

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply:
        self.asked.append((turn, agent, role, messages))
        return Reply(self.turns[turn - 1][2], "stop", Usage(1, 1), 0.0)


def play(script: Script, protocol: ProtocolSpec | None = None) -> EpisodeResult:
    return run_episode("2+2?", script, script, protocol or ProtocolSpec(), 3, np.random.default_rng(0))


def test_accept_before_the_turn_limit_ends_the_episode() -> None:
    script = Script([(0, W, ANSWER), (1, V, "ACCEPT: yes"), (2, W, "<answer>9</answer>")])
    result = play(script)
    assert (result.termination, result.answer, result.answered_by) == (Termination.ACCEPTED, "4", 0)
    assert (result.turns, result.calls, len(script.asked)) == (2, 2, 2)


def test_the_turn_limit_ends_the_episode_without_an_accept() -> None:
    script = Script([(0, W, ANSWER), (1, V, "REVISE: no"), (2, W, "<answer>5</answer>"), (1, V, "maybe"), (0, T, "hm")])
    result = play(script)
    assert (result.termination, result.answer, result.answered_by) == (Termination.TURN_LIMIT, "5", 2)
    assert [item.verdict for item in result.transcript.items] == [None, Verdict.REVISE, None, Verdict.UNCLEAR, None]


def test_accept_on_the_last_turn_counts_as_accepted() -> None:
    result = play(Script([(0, W, ANSWER), (1, V, "ACCEPT")]), ProtocolSpec(max_turns=2))
    assert result.termination is Termination.ACCEPTED


def test_no_worker_means_no_answer() -> None:
    result = play(Script([(0, T, "<suggestion>think</suggestion>")] * 5))
    assert (result.termination, result.answer, result.answered_by) == (Termination.NO_ANSWER, None, None)
    assert (result.turns, result.calls) == (5, 5)


def test_the_latest_worker_counts_even_without_an_answer() -> None:
    result = play(Script([(0, W, ANSWER), (1, W, "I give up")]), ProtocolSpec(max_turns=2))
    assert (result.termination, result.answer, result.answered_by) == (Termination.NO_ANSWER, None, None)


def test_an_empty_answer_is_an_answer() -> None:
    result = play(Script([(1, W, "<answer></answer>")]), ProtocolSpec(max_turns=1))
    assert (result.termination, result.answer, result.answered_by) == (Termination.TURN_LIMIT, "", 1)


def test_the_thinker_names_the_next_role_and_only_the_next() -> None:
    named = "<suggestion>just do it</suggestion><suggested_role>worker</suggested_role>"
    script = Script([(0, T, named), (1, T, ANSWER), (2, V, "ACCEPT")])
    result = play(script)
    assert [(item.role, item.role_source) for item in result.transcript.items] == [
        (T, RoleSource.POLICY),
        (W, RoleSource.THINKER),
        (V, RoleSource.POLICY),
    ]
    assert read_request(script.asked[1][3]).plan == "just do it"
    assert result.termination is Termination.ACCEPTED


def test_a_named_role_does_not_outlive_a_turn_without_a_call() -> None:
    named = "<suggestion>look</suggestion><suggested_role>verifier</suggested_role>"
    result = play(Script([(0, T, named), (1, W, "not asked"), (2, W, ANSWER), (1, V, "ACCEPT")]))
    assert [(item.role, item.role_source) for item in result.transcript.items][1:3] == [
        (V, RoleSource.THINKER),
        (W, RoleSource.POLICY),
    ]
    assert result.calls == 3


@pytest.mark.parametrize(
    "protocol",
    [ProtocolSpec(thinker_sets_role=False, max_turns=2), ProtocolSpec(roles=(T, V), max_turns=2)],
)
def test_the_thinkers_word_is_ignored_where_it_has_none(protocol: ProtocolSpec) -> None:
    named = "<suggestion>s</suggestion><suggested_role>worker</suggested_role>"
    result = play(Script([(0, T, named), (1, T, "more")]), protocol)
    assert [item.role for item in result.transcript.items] == [T, T]
    assert result.transcript.items[1].role_source is RoleSource.POLICY


def test_verifying_nothing_costs_a_turn_and_no_call() -> None:
    script = Script([(0, V, "ACCEPT"), (1, W, ANSWER), (2, V, "ACCEPT")])
    result = play(script)
    assert (result.termination, result.turns, result.calls) == (Termination.ACCEPTED, 3, 2)
    first = result.transcript.items[0]
    assert (first.role, first.verdict, first.output) == (V, Verdict.REVISE, "")
    assert [turn for turn, *_ in script.asked] == [2, 3]


def test_verifying_nothing_can_end_the_episode() -> None:
    script = Script([(0, V, "ACCEPT"), (1, W, ANSWER)])
    result = play(script, ProtocolSpec(verifier_without_answer=VerifierWithoutAnswer.END_ZERO))
    assert (result.termination, result.turns, result.calls) == (Termination.NO_ANSWER, 1, 0)


def test_verifying_nothing_can_become_work() -> None:
    script = Script([(2, V, ANSWER), (1, V, "ACCEPT")])
    result = play(script, ProtocolSpec(verifier_without_answer=VerifierWithoutAnswer.FORCE_WORKER))
    assert (result.termination, result.answered_by) == (Termination.ACCEPTED, 2)
    assert (result.transcript.items[0].role, result.transcript.items[0].role_source) == (W, RoleSource.FIXED)


def test_every_role_reads_every_earlier_output() -> None:
    script = Script([(0, T, "<suggestion>plan</suggestion>"), (1, W, ANSWER), (2, V, "REVISE: why 4"), (0, W, ANSWER)])
    play(script, ProtocolSpec(max_turns=4))
    notes = read_request(script.asked[3][3]).notes
    assert [(note.role, note.text, note.answer) for note in notes] == [
        (T, "plan", None),
        (W, "count", "4"),
        (V, "why 4", None),
    ]


def test_one_worker_turn_alone_is_fixed() -> None:
    protocol = single_turn(ProtocolSpec())
    result = play(Script([(1, W, ANSWER)]), protocol)
    assert (result.turns, result.answer) == (1, "4")
    assert result.transcript.items[0].role_source is RoleSource.FIXED
    assert result.transcript.items[0].logits == (0.5, 1.5)


def test_worker_only_campaigns_use_all_their_turns() -> None:
    result = play(Script([(0, W, ANSWER)] * 3), ProtocolSpec(roles=(W,), max_turns=3))
    assert (result.turns, result.termination) == (3, Termination.TURN_LIMIT)


@pytest.mark.parametrize(("agent", "role"), [(3, W), (-1, W), (0, T)])
def test_impossible_decisions_are_refused(agent: int, role: Role) -> None:
    with pytest.raises(ValueError, match="the policy chose"):
        play(Script([(agent, role, ANSWER)]), ProtocolSpec(roles=(W, V)))


def test_a_failing_call_fails_the_episode() -> None:
    script = Script([(0, W, ANSWER)])

    def call(*, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply:
        raise ProviderUnavailable("gone")

    with pytest.raises(ProviderUnavailable):
        run_episode("q", script, call, ProtocolSpec(), 3, np.random.default_rng(0))


def test_the_check_runs_before_each_turn_and_may_stop() -> None:
    script = Script([(0, W, ANSWER)] * 5)
    left = iter([None, None])

    def check() -> None:
        if next(left, "none") is not None:
            raise AttemptInterrupted("pausing")

    with pytest.raises(AttemptInterrupted):
        run_episode("q", script, script, ProtocolSpec(), 3, np.random.default_rng(0), check=check)
    assert len(script.asked) == 2


REPLIES = st.sampled_from(
    [ANSWER, "no tags", "ACCEPT", "REVISE: x", "<suggested_role>verifier</suggested_role>", "", "<answer></answer>"]
)
TURNS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([W, T, V]), REPLIES), min_size=6, max_size=6)


@given(TURNS, st.integers(1, 6), st.sampled_from(list(VerifierWithoutAnswer)))
def test_invariants_of_every_episode(
    turns: list[tuple[int, Role, str]], limit: int, rule: VerifierWithoutAnswer
) -> None:
    script = Script(turns)
    protocol = replace(ProtocolSpec(), max_turns=limit, verifier_without_answer=rule)
    result = play(script, protocol)
    items = result.transcript.items
    assert 1 <= result.turns <= limit
    assert [item.number for item in items] == list(range(1, result.turns + 1))
    assert (result.answer is None) == (result.termination is Termination.NO_ANSWER) == (result.answered_by is None)
    accepted = [item.number for item in items if item.verdict is Verdict.ACCEPT]
    assert accepted in ([], [result.turns])
    assert result.calls == len(script.asked) <= result.turns
    if result.termination is Termination.ACCEPTED:
        assert accepted
    if result.answer is not None:
        work = result.transcript.latest_work
        assert work is not None
        assert (work.answer, work.agent) == (result.answer, result.answered_by)
