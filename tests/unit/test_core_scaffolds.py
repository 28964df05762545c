"""Scaffolds on scripted models: what is asked, what is returned, and toy problems whose best is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.baselines.majority import Majority, plurality
from services.core.baselines.mixture import Mixture
from services.core.baselines.scaffold import Scaffold
from services.core.baselines.self_reflection import SelfReflection
from services.core.baselines.single_turn import LongAnswer, RandomWorker
from services.core.baselines.smoothie import Smoothie
from services.core.baselines.wording import RECONSIDER, SYNTHESISE
from services.core.campaign import Notes, ProtocolSpec
from services.core.errors import AttemptInterrupted
from services.core.protocol.answers import write_worker
from services.core.protocol.episode import Termination
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Transcript
from tests.support.scripted_calls import QUESTION, Asked, ScriptedCall, by_agent, by_turn, play, same

SCAFFOLDS: dict[str, tuple[Scaffold, int]] = {
    "random_worker": (RandomWorker((0, 1, 2)), 1),
    "long": (LongAnswer(1, 5), 1),
    "majority": (Majority(1, 5, same), 5),
    "self_reflection": (SelfReflection(1, 5), 5),
    "mixture": (Mixture((0, 1, 2)), 4),
    "smoothie": (Smoothie((0, 1, 2), same), 3),
}


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_every_call_is_a_numbered_turn_of_a_worker(name: str) -> None:
    scaffold, calls = SCAFFOLDS[name]
    call = by_turn(*"12345")
    result = play(scaffold, call)
    assert [asked.turn for asked in call.asked] == list(range(1, calls + 1))
    assert [(item.number, item.agent, item.role) for item in result.transcript.items] == [
        (asked.turn, asked.agent, Role.WORKER) for asked in call.asked
    ]
    assert (result.calls, result.turns, result.termination) == (calls, calls, Termination.TURN_LIMIT)
    assert {item.role_source for item in result.transcript.items} == {RoleSource.FIXED}
    assert result.transcript.query == QUESTION


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_nothing_is_asked_once_the_episode_must_not_go_on(name: str) -> None:
    scaffold, calls = SCAFFOLDS[name]
    call = by_turn(*"12345")
    checks = iter([None] * (calls - 1))

    def check() -> None:
        if next(checks, "over") == "over":
            raise AttemptInterrupted("stop")

    with pytest.raises(AttemptInterrupted):
        play(scaffold, call, check=check)
    assert len(call.asked) == calls - 1, "checked before every call"


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_no_answer_is_no_answer_and_a_cut_one_says_so(name: str) -> None:
    call = ScriptedCall(lambda asked: "I do not know", finish_reason="length")
    result = play(SCAFFOLDS[name][0], call)
    assert (result.termination, result.answer, result.answered_by) == (Termination.NO_ANSWER, None, None)
    assert result.truncated


def test_a_random_worker_is_drawn_uniformly_from_those_that_may_act() -> None:
    drawn = Counter(play(RandomWorker((0, 2)), by_agent("a", "b", "c"), seed=seed).answered_by for seed in range(400))
    assert set(drawn) == {0, 2}
    assert min(drawn.values()) > 150


def test_a_long_answer_alone_has_a_limit_of_its_own() -> None:
    call = by_turn("4")
    play(LongAnswer(2, 5), call, ProtocolSpec(max_output_tokens=100))
    assert [(asked.agent, asked.max_output_tokens) for asked in call.asked] == [(2, 500)]
    call = by_turn(*"44444")
    play(Majority(2, 5, same), call)
    assert {asked.max_output_tokens for asked in call.asked} == {None}


def test_samples_that_vote_read_the_question_alone() -> None:
    call = by_turn("4", "5", "5", "4", "9")
    result = play(Majority(1, 5, same), call)
    assert {tuple(asked.messages) for asked in call.asked} == {
        tuple(messages_for(Role.WORKER, Transcript(QUESTION), ProtocolSpec()))
    }
    assert (result.answer, result.answered_by) == ("4", 1), "ties go to the first"


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        (["a", "b", "b"], 1),
        (["a", "b"], 0),
        ([None, None, "b"], 2),
        ([None, None], 1),
        (["a", None, None], 0),
        (["c", " B ", "b", "a"], 1),
    ],
)
def test_the_plurality(answers: list[str | None], place: int) -> None:
    assert plurality(answers, same) == place


@given(st.lists(st.one_of(st.none(), st.sampled_from("abc")), min_size=1, max_size=12))
def test_the_plurality_is_the_most_frequent_answer(answers: list[str | None]) -> None:
    chosen = answers[plurality(answers, same)]
    counted = Counter(answer for answer in answers if answer is not None)
    assert (chosen is None) == (not counted)
    if chosen is not None:
        assert counted[chosen] == max(counted.values())


def accuracy(scaffold: Scaffold, answers: Callable[[Asked, np.random.Generator], str], questions: int = 4000) -> float:
    """Return how often the answer is "right", over questions with draws of their own."""
    right = 0
    for seed in range(questions):
        luck = np.random.default_rng([seed, 1])
        call = ScriptedCall(lambda asked, luck=luck: write_worker("", answers(asked, luck)))  # type: ignore[misc]
        right += play(scaffold, call, seed=seed).answer == "right"
    return right / questions


def test_the_majority_of_a_model_that_is_right_in_seven_of_ten() -> None:
    def answers(asked: Asked, luck: np.random.Generator) -> str:
        return "right" if luck.random() < 0.7 else "wrong"

    wanted = 0.7**5 + 5 * 0.7**4 * 0.3 + 10 * 0.7**3 * 0.3**2  # at least three of five: 0.837
    assert accuracy(Majority(0, 5, same), answers) == pytest.approx(wanted, abs=0.02)
    assert accuracy(RandomWorker((0,)), answers) == pytest.approx(0.7, abs=0.025)


def test_reflection_repairs_what_its_model_can_tell_to_be_wrong() -> None:
    def answers(asked: Asked, luck: np.random.Generator) -> str:
        last = asked.request.notes[-1].answer if asked.request.notes else None
        return "right" if last == "right" or luck.random() < 0.4 else "wrong"

    assert accuracy(SelfReflection(0, 5), answers) == pytest.approx(1 - 0.6**5, abs=0.02)
    assert accuracy(SelfReflection(0, 2), answers) == pytest.approx(1 - 0.6**2, abs=0.02)


def test_reflection_reads_its_own_last_answer_and_nothing_else() -> None:
    call = by_turn(*"123")
    result = play(SelfReflection(1, 3), call, ProtocolSpec(notes=Notes.WORKER))
    shown = [[(note.turn, note.answer) for note in asked.request.notes] for asked in call.asked]
    assert shown == [[], [(1, "1")], [(2, "2")]]
    assert [asked.request.added for asked in call.asked] == ["", RECONSIDER, RECONSIDER]
    assert {asked.agent for asked in call.asked} == {1}
    assert result.answer == "3", "the last answer counts"


def test_a_mixture_proposes_apart_and_aggregates_together() -> None:
    aggregators = set()
    for seed in range(30):
        call = by_turn("4", "5", "6", "7")
        result = play(Mixture((0, 1, 2)), call, ProtocolSpec(notes=Notes.WORKER), seed=seed)
        *proposers, last = call.asked
        assert [(asked.agent, asked.request.notes, asked.request.added) for asked in proposers] == [
            (agent, (), "") for agent in range(3)
        ]
        assert [note.answer for note in last.request.notes] == ["4", "5", "6"]
        assert last.request.added == SYNTHESISE
        assert (result.answer, result.answered_by) == ("7", last.agent)
        aggregators.add(last.agent)
    assert aggregators == {0, 1, 2}


def test_a_mixture_is_right_where_any_model_is_if_aggregators_can_tell() -> None:
    skills = (0.5, 0.4, 0.3)

    def answers(asked: Asked, luck: np.random.Generator) -> str:
        proposed = [note.answer for note in asked.request.notes]
        if proposed:
            return "right" if "right" in proposed else "wrong"
        return "right" if luck.random() < skills[asked.agent] else "wrong"

    assert accuracy(Mixture((0, 1, 2)), answers) == pytest.approx(1 - 0.5 * 0.6 * 0.7, abs=0.02)


def test_smoothie_is_right_where_the_majority_of_the_models_is() -> None:
    skills = (0.9, 0.6, 0.6)

    def answers(asked: Asked, luck: np.random.Generator) -> str:
        return "right" if luck.random() < skills[asked.agent] else f"wrong {asked.agent}"

    two = 0.9 * 0.6 * 0.4 * 2 + 0.1 * 0.6 * 0.6
    alone = 0.9 * 0.4 * 0.4  # all answers differ: the first model's counts, and it is right
    assert accuracy(Smoothie((0, 1, 2), same), answers) == pytest.approx(0.9 * 0.6 * 0.6 + two + alone, abs=0.02)
