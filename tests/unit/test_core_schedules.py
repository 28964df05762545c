from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.baselines.cascade import Actions, Cascade
from services.core.baselines.modes import Mode, Schedule, Turn, schedule
from services.core.baselines.schedule import Scheduled
from services.core.campaign import Notes, ProtocolSpec
from services.core.errors import AttemptInterrupted
from services.core.ledger.usage import Usage
from services.core.protocol.episode import EpisodeResult, Termination
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import Role

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
        Scheduled(()).play("2+2?", Recorder(), ProtocolSpec(), 3, np.random.default_rng(0), lambda: None)


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


@dataclass
class Recorder:
    """Answers with the turn's number, and accepts when told to."""

    accepts: int = 0
    asked: list[tuple[int, int, Role, Sequence[Message]]] = field(default_factory=list)

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply:
        self.asked.append((turn, agent, role, messages))
        verdict = "ACCEPT" if turn == self.accepts else "REVISE: no"
        texts = {W: f"<idea>i{turn}</idea><answer>{turn}</answer>", V: verdict}
        return Reply(
            texts.get(role, "<suggestion>s</suggestion><suggested_role>verifier</suggested_role>"),
            "stop",
            Usage(1, 1),
            0.0,
        )


def play(turns: Schedule, call: Recorder, protocol: ProtocolSpec | None = None) -> EpisodeResult:
    chosen = protocol or ProtocolSpec(max_turns=2)
    return Scheduled(turns).play("2+2?", call, chosen, 3, np.random.default_rng(0), lambda: None)


def test_all_turns_are_played_one_call_each_beyond_the_campaigns_limit() -> None:
    call = Recorder()
    result = play(schedule(Mode.DEBATE, TEAM), call)
    assert [(turn, agent) for turn, agent, _, _ in call.asked] == [
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
    call = Recorder()
    play(schedule(Mode.COT, TEAM), call)
    assert [role for _, _, role, _ in call.asked] == [T, W]
    assert "suggested_role" not in call.asked[0][3][0].content


def test_a_verifier_that_accepts_ends_the_team() -> None:
    call = Recorder(accepts=2)
    result = play(schedule(Mode.REFLECTION, TEAM), call)
    assert (result.calls, result.termination, result.answer) == (2, Termination.ACCEPTED, "1")


def test_a_verifier_before_any_answer_asks_nobody() -> None:
    call = Recorder()
    result = play(schedule(Mode.CHAIN, [Turn(1, V), Turn(0, W)]), call)
    assert [role for _, _, role, _ in call.asked] == [W, W]
    assert (result.calls, result.turns) == (2, 3)


def test_turns_are_counted_also_where_a_router_reads_workers_only() -> None:
    call = Recorder()
    play(schedule(Mode.CHAIN, TEAM), call, ProtocolSpec(notes=Notes.WORKER))
    assert [role for _, _, role, _ in call.asked] == [T, W, V, W]


def test_a_check_that_fails_ends_the_episode_without_a_result() -> None:
    def check() -> None:
        raise AttemptInterrupted("stop")

    call = Recorder()
    with pytest.raises(AttemptInterrupted):
        Scheduled((Turn(0, W),)).play("2+2?", call, ProtocolSpec(), 3, np.random.default_rng(0), check)
    assert call.asked == []
