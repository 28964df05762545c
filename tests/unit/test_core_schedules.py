from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.baselines.cascade import Actions, Cascade
from services.core.baselines.modes import Mode, Schedule, Turn, schedule
from services.core.baselines.schedule import Scheduled
from services.core.campaign import Notes, ProtocolSpec
from services.core.errors import AttemptInterrupted
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.episode import EpisodeResult, Termination
from services.core.protocol.roles import Role
from tests.support import scripted_calls
from tests.support.scripted_calls import Asked, ScriptedCall

W, T, V = Role.WORKER, Role.THINKER, Role.VERIFIER
TEAM = (Turn(2, T), Turn(0, W), Turn(1, V))


def short(turns: Schedule) -> list[str]:
    return [f"{turn.role[0]}{turn.agent}" for turn in turns]


@pytest.mark.parametrize(
    ("mode", "turns"),
    [
        (Mode.IO, ["w2"]),
        (Mode.COT, ["t2", "w2"]),
        (Mode.CHAIN, ["t2", "w0", "v1", "w2"]),
        (Mode.FULL_CONNECTED, ["t2", "w0", "v1", "t2", "w0", "v1", "w2"]),
        (Mode.DEBATE, ["w2", "w0", "w1", "w2", "w0", "w1", "w2"]),
        (Mode.REFLECTION, ["w2", "v0", "w2", "v1", "w2"]),
    ],
)
def test_every_mode_is_an_order_of_turns_that_ends_with_the_leads_answer(mode: Mode, turns: list[str]) -> None:
    assert short(schedule(mode, TEAM)) == turns


def test_one_agent_alone_does_not_answer_twice_in_a_row_to_decide() -> None:
    assert short(schedule(Mode.CHAIN, [Turn(1, W)])) == ["w1"]
    assert short(schedule(Mode.CHAIN, [Turn(1, V)])) == ["v1", "w1"]
    assert short(schedule(Mode.DEBATE, [Turn(1, W)])) == ["w1", "w1"]
    assert short(schedule(Mode.REFLECTION, [Turn(1, W)])) == ["w1", "v1", "w1"]


def test_a_team_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        schedule(Mode.IO, [])
    with pytest.raises(ValueError, match="at least one"):
        play((), recorder())


@given(st.integers(0, 10**6))
def test_every_cascade_ends_with_a_worker(seed: int) -> None:
    cascade = Cascade(4, 2, most_agents=4)
    rng = np.random.default_rng(seed)
    actions = cascade.sample(cascade.blocks(cascade.first(rng)), rng.standard_normal(2), rng)
    turns = cascade.schedule(actions)
    assert turns[-1].role is W
    assert len(turns) <= 2 * 4 + 1


def test_the_roles_of_a_team_are_those_of_the_cascade() -> None:
    cascade = Cascade(3, 2, (Mode.CHAIN,), (W, V), 3)
    assert short(cascade.schedule(Actions(0, (1, 0), (2, 0)))) == ["v2", "w0", "w2"]


def recorder(accepts: int = 0) -> ScriptedCall:
    """Return models that answer with the turn's number, and accept in the turn that is told."""

    def answers(asked: Asked) -> str:
        if asked.role is W:
            return write_worker(f"i{asked.turn}", f"{asked.turn}")
        if asked.role is V:
            return "ACCEPT" if asked.turn == accepts else "REVISE: no"
        return write_thinker("s", V)

    return ScriptedCall(answers)


def play(turns: Schedule, call: ScriptedCall, protocol: ProtocolSpec | None = None) -> EpisodeResult:
    return scripted_calls.play(Scheduled(turns), call, protocol or ProtocolSpec(max_turns=2))


def test_all_turns_are_played_one_call_each_beyond_the_campaigns_limit() -> None:
    call = recorder()
    result = play(schedule(Mode.DEBATE, TEAM), call)
    assert [(asked.turn, asked.agent) for asked in call.asked] == [
        (1, 2),
        (2, 0),
        (3, 1),
        (4, 2),
        (5, 0),
        (6, 1),
        (7, 2),
    ]
    assert (result.calls, result.answer, result.answered_by) == (7, "7", 2)
    assert result.termination is Termination.TURN_LIMIT


def test_a_thinker_names_no_role_and_is_not_asked_to() -> None:
    call = recorder()
    play(schedule(Mode.COT, TEAM), call)
    assert [asked.role for asked in call.asked] == [T, W]
    assert "suggested_role" not in call.asked[0].messages[0].content


def test_a_verifier_that_accepts_ends_the_team() -> None:
    call = recorder(accepts=2)
    result = play(schedule(Mode.REFLECTION, TEAM), call)
    assert (result.calls, result.termination, result.answer) == (2, Termination.ACCEPTED, "1")


def test_a_verifier_before_any_answer_asks_nobody() -> None:
    call = recorder()
    result = play(schedule(Mode.CHAIN, [Turn(1, V), Turn(0, W)]), call)
    assert [asked.role for asked in call.asked] == [W, W]
    assert (result.calls, result.turns) == (2, 3)


def test_turns_are_counted_also_where_a_router_reads_workers_only() -> None:
    call = recorder()
    play(schedule(Mode.CHAIN, TEAM), call, ProtocolSpec(notes=Notes.WORKER))
    assert [asked.role for asked in call.asked] == [T, W, V, W]


def test_a_check_that_fails_ends_the_episode_without_a_result() -> None:
    def check() -> None:
        raise AttemptInterrupted("stop")

    call = recorder()
    with pytest.raises(AttemptInterrupted):
        scripted_calls.play(Scheduled((Turn(0, W),)), call, check=check)
    assert call.asked == []
