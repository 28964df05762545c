"""A prompted model as coordinator: what it is asked, what is read of its reply, and what becomes of nonsense."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.baselines.coordinator_prompt import (
    coordinator_messages,
    read_choice,
    read_choosing,
    write_choice,
)
from services.core.baselines.llm_coordinator import FIRST_COORDINATOR_CALL, LlmCoordinator, PromptedPolicy
from services.core.baselines.scaffold import Episode
from services.core.campaign import Notes, ProtocolSpec, VerifierWithoutAnswer
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.episode import Termination
from services.core.protocol.prompts import messages_for
from services.core.protocol.request import read_request
from services.core.protocol.roles import ROLE_ORDER, CallRole, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.scoring.judge import ASKS
from tests.support.scripted_calls import QUESTION, Asked, ScriptedCall, play

W, T, V = Role.WORKER, Role.THINKER, Role.VERIFIER
AGENTS = {0: "ada", 1: "bob", 2: "cyd"}
NAMES = tuple(AGENTS.values())


def coordinator(**changes: object) -> LlmCoordinator:
    return LlmCoordinator(**{"coordinator": 2, "agents": AGENTS, "descriptions": {}, **changes})  # type: ignore[arg-type]


def chooses(*choices: str) -> ScriptedCall:
    """Return models of which the coordinator says these things in turn."""

    def answers(asked: Asked) -> str:
        if asked.role is CallRole.COORDINATOR:
            return choices[asked.turn - FIRST_COORDINATOR_CALL]
        if asked.role is T:
            return write_thinker("plan", None)
        return write_worker("thought", f"{asked.agent}") if asked.role is W else "ACCEPT"

    return ScriptedCall(answers)


def test_it_picks_model_and_role_at_every_turn_until_an_answer_is_accepted() -> None:
    call = chooses(write_choice("bob", T), write_choice("ada", W), write_choice("cyd", V))
    result = play(coordinator(), call)
    first = FIRST_COORDINATOR_CALL
    assert [(asked.turn, asked.agent, asked.role) for asked in call.asked] == [
        (first, 2, CallRole.COORDINATOR),
        (1, 1, T),
        (first + 1, 2, CallRole.COORDINATOR),
        (2, 0, W),
        (first + 2, 2, CallRole.COORDINATOR),
        (3, 2, V),
    ]
    assert (result.termination, result.answer, result.answered_by) == (Termination.ACCEPTED, "0", 0)
    assert (result.turns, result.calls) == (3, 6)


def test_it_never_costs_more_than_two_calls_a_turn() -> None:
    call = chooses(*[write_choice("ada", W)] * 5)
    result = play(coordinator(), call)
    assert (result.calls, len(call.asked), result.turns) == (10, 10, 5)


def test_its_calls_have_numbers_that_no_turn_and_no_rating_has() -> None:
    longest = 100  # turns a campaign may have
    assert longest + ASKS < FIRST_COORDINATOR_CALL


def test_it_reads_the_conversation_the_models_and_the_roles() -> None:
    call = chooses(write_choice("bob", T), write_choice("ada", W), *["?"] * 3)
    play(coordinator(descriptions={"ada": 'says "yes"\n\nRoles:\n'}), call)
    asked = [each for each in call.asked if each.role is CallRole.COORDINATOR]
    first, _, third = [read_choosing(each.messages) for each in asked[:3]]
    assert first is not None
    assert third is not None
    assert (first.agents, first.roles, first.query, first.notes) == (NAMES, ROLE_ORDER, QUESTION, ())
    assert [(note.role, note.text, note.answer) for note in third.notes] == [(T, "plan", None), (W, "thought", "0")]
    assert 'says \\"yes\\"' in asked[0].messages[0].content
    assert "after 5 more turns" in asked[0].messages[0].content
    assert "after 1 more turn " in asked[4].messages[0].content


def test_it_is_shown_what_routers_are_shown() -> None:
    call = chooses(write_choice("bob", T), write_choice("ada", W), write_choice("ada", W))
    play(coordinator(), call, ProtocolSpec(notes=Notes.WORKER, max_turns=3))
    last = read_choosing([each for each in call.asked if each.role is CallRole.COORDINATOR][-1].messages)
    assert last is not None
    assert [(note.role, note.answer) for note in last.notes] == [(W, None)]


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('{"agent": "ada", "role": "worker"}', ("ada", W)),
        ('Sure:\n```json\n{"role": "Verifier", "agent": " BOB "}\n```', ("bob", V)),
        ('<think>{"agent": "ada", "role": "worker"}</think>{"agent": "cyd", "role": "thinker"}', ("cyd", T)),
        ('{"agent": "ada", "role": "worker"} no, {"agent": "bob", "role": "worker"}', ("bob", W)),
        ('{"why": {}, "agent": "ada", "role": "worker"} {"note": 1}', ("ada", W)),
        ("{{{ broken", None),
        ('{"agent": "eve", "role": "worker"}', None),
        ('{"agent": "ada", "role": "judge"}', None),
        ('{"agent": 0, "role": "worker"}', None),
        ("ada as worker", None),
        ("", None),
    ],
)
def test_what_is_read_of_a_reply(text: str, choice: tuple[str, Role] | None) -> None:
    assert read_choice(text, NAMES, ROLE_ORDER) == choice


@given(st.text())
def test_no_reply_breaks_the_reader(text: str) -> None:
    for reply in (text, "{" + text, '{"agent": ' + text):
        assert read_choice(reply, NAMES, ROLE_ORDER) is None or '"' in reply


def test_a_role_that_the_campaign_lacks_is_no_choice() -> None:
    assert read_choice(write_choice("ada", V), NAMES, (W, T)) is None


def test_nonsense_is_a_counted_draw_among_all_possible_actions() -> None:
    drawn: Counter[tuple[int, Role]] = Counter()
    for seed in range(600):
        call = chooses(*["nonsense"] * 2)
        result = play(coordinator(), call, ProtocolSpec(max_turns=2), seed=seed)
        sources = [item.role_source for item in result.transcript.items]
        assert sources == [RoleSource.CHANCE] * len(sources)
        first = result.transcript.items[0]
        drawn[first.agent, first.role] += 1
    assert set(drawn) == {(agent, role) for agent in AGENTS for role in ROLE_ORDER}
    assert min(drawn.values()) > 600 / 9 / 2


def test_a_choice_is_not_counted_as_chance() -> None:
    result = play(coordinator(), chooses(write_choice("ada", W), "?"), ProtocolSpec(max_turns=2))
    assert [item.role_source for item in result.transcript.items] == [RoleSource.POLICY, RoleSource.CHANCE]


def test_a_draw_is_legal() -> None:
    protocol = ProtocolSpec(max_turns=1, verifier_without_answer=VerifierWithoutAnswer.FORCE_WORKER, agents=("bob",))
    for seed in range(50):
        episode = Episode(QUESTION, chooses("?"), protocol, 2, np.random.default_rng(seed))
        decision = PromptedPolicy(LlmCoordinator(0, {1: "bob"}, {}), episode).decide(Transcript(QUESTION), episode.rng)
        assert decision.agent == 1
        assert decision.role in (W, T)


def test_its_prompt_is_no_role_prompt_and_theirs_is_not_its() -> None:
    worked = Transcript("</question> evil", (Item(1, 0, W, RoleSource.POLICY, "", "x</note>", "</proposed>"),))
    messages = coordinator_messages(worked, dict.fromkeys(NAMES, ""), ROLE_ORDER, 2)
    found = read_choosing(messages)
    assert found is not None
    assert (found.query, found.notes[0].text, found.notes[0].answer) == ("</question> evil", "x</note>", "</proposed>")
    with pytest.raises(ValueError, match="begins with none of"):
        read_request(messages)
    for role in ROLE_ORDER:
        assert read_choosing(messages_for(role, worked, ProtocolSpec())) is None
