"""Which earlier turns agents and router read: all of them, or the Workers' (authors' code)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from services.core.campaign import Notes, ProtocolSpec
from services.core.ledger.usage import Usage
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.episode import Termination, run_episode
from services.core.protocol.ports import Decision, Message, Reply
from services.core.protocol.prompts import messages_for, router_parts
from services.core.protocol.request import read_request
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict
from services.core.protocol.visibility import router_view

W, T, V = Role.WORKER, Role.THINKER, Role.VERIFIER


def item(number: int, role: Role) -> Item:
    return Item(
        number, 0, role, RoleSource.POLICY, "", f"{role} {number}",
        answer=f"answer {number}" if role is W else None,
        verdict=Verdict.REVISE if role is V else None,
    )  # fmt: skip


def conversation(*roles: Role) -> Transcript:
    return Transcript("q", tuple(item(number, role) for number, role in enumerate(roles, start=1)))


def shown(role: Role, transcript: Transcript, notes: Notes) -> list[str]:
    return [note.text for note in read_request(messages_for(role, transcript, ProtocolSpec(notes=notes))).notes]


def test_by_default_everybody_reads_everything() -> None:
    transcript = conversation(T, W, V, W)
    assert router_view(transcript, Notes.ALL) == transcript
    for role in Role:
        assert shown(role, transcript, Notes.ALL) == ["thinker 1", "worker 2", "verifier 3", "worker 4"]


def test_the_router_reads_ideas_alone_numbered_as_if_nobody_else_had_spoken() -> None:
    view = router_view(conversation(T, W, V, T, W), Notes.WORKER)
    assert [part.text for part in router_parts(view)[1:]] == ["worker 2", "worker 5"]
    assert [one.number for one in view.items] == [1, 2]
    assert router_view(conversation(T, V), Notes.WORKER) == conversation()


@pytest.mark.parametrize("role", Role)
def test_advice_reaches_the_very_next_turn_and_diagnoses_nobody(role: Role) -> None:
    assert shown(role, conversation(W, T), Notes.WORKER) == ["worker 1", "thinker 2"]
    assert shown(role, conversation(W, T, V), Notes.WORKER) == ["worker 1"]
    assert shown(role, conversation(T, W), Notes.WORKER) == ["worker 2"]
    assert shown(role, conversation(T, T), Notes.WORKER) == ["thinker 2"]


def test_a_worker_reads_ideas_and_the_others_the_answers_too() -> None:
    transcript = conversation(W, T)
    protocol = ProtocolSpec(notes=Notes.WORKER)
    answers = {role: read_request(messages_for(role, transcript, protocol)).answer_under_review for role in Role}
    assert answers == {W: None, T: "answer 1", V: "answer 1"}
    assert messages_for(V, transcript, protocol)[1].content.endswith("<review>\nanswer 1\n</review>")


class Script:
    """Chooses and answers by a list, and keeps what it was shown."""

    def __init__(self, *turns: tuple[Role, str]) -> None:
        self.turns = turns
        self.views: list[Transcript] = []
        self.prompts: list[str] = []

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        self.views.append(transcript)
        return Decision(0, self.turns[len(self.views) - 1][0])

    def __call__(self, *, turn: int, agent: int, role: Role, messages: Sequence[Message]) -> Reply:
        self.prompts.append(messages[1].content)
        return Reply(self.turns[turn - 1][1], "stop", Usage(1, 1), 0.0)


def test_an_episode_in_the_authors_mode() -> None:
    script = Script(
        (T, write_thinker("count them", None)),
        (W, write_worker("three of them", "3")),
        (V, "REVISE: one is hidden"),
        (W, write_worker("four of them", "4")),
        (V, "ACCEPT"),
    )
    protocol = ProtocolSpec(notes=Notes.WORKER)
    result = run_episode("how many?", script, script, protocol, 1, np.random.default_rng(0))
    assert (result.termination, result.answer, result.turns) == (Termination.ACCEPTED, "4", 5)
    texts = [tuple(part.text for part in router_parts(view)[1:]) for view in script.views]
    assert texts == [(), (), ("three of them",), ("three of them",), ("three of them", "four of them")]
    assert "count them" in script.prompts[1]
    assert not any("count them" in prompt for prompt in script.prompts[2:])
    assert not any("hidden" in prompt for prompt in script.prompts)
    assert [one.text for one in result.transcript.items][2] == "one is hidden"
