"""Simulated models under scaffolds: samples are drawn anew, proposals are judged, a coordinator answers in form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import reasoning_gym

from services.core.baselines.coordinator_prompt import coordinator_messages, read_choice
from services.core.baselines.majority import Majority
from services.core.baselines.mixture import Mixture
from services.core.baselines.scaffold import Episode, Scaffold
from services.core.baselines.self_reflection import SelfReflection
from services.core.campaign import ProtocolSpec
from services.core.families import FAMILIES, solve
from services.core.ledger.usage import Usage
from services.core.local_pool import ReplayPool, SimulatedModel, SimulatedPool, Skill
from services.core.problem import ScorerKind
from services.core.protocol.answers import parse_worker
from services.core.protocol.asked import messages_digest, split_sample, with_sample
from services.core.protocol.ports import Message, Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.scoring.scorer import agree
from services.pool.local.replay import Replay
from services.pool.local.simulated import Simulated
from services.pool.local.wire import ChatRequest, RefusalError

NAMES = ("ada", "bob", "cyd")
QUESTIONS = [
    str(problem["question"])
    for problem in reasoning_gym.create_dataset("chain_sum", size=400, seed=5, **FAMILIES["chain_sum"].config)
]


def pool(*skills: Skill) -> Simulated:
    models = tuple(SimulatedModel(name, {}, skill) for name, skill in zip(NAMES, skills, strict=False))
    return Simulated(SimulatedPool("sim", 3, models))


class Calls:
    """Calls that say which sample they want, as the worker's do."""

    def __init__(self, simulated: Simulated) -> None:
        self.simulated = simulated
        self.before: Counter[tuple[int, str]] = Counter()

    def __call__(
        self,
        *,
        turn: int,
        agent: int,
        role: object,
        messages: Sequence[Message],
        max_output_tokens: int | None = None,
    ) -> Reply:
        key = agent, messages_digest(messages)
        label = with_sample(f"g0/rival0/evaluation0/t{turn}", self.before[key])
        self.before[key] += 1
        answer = self.simulated.complete(ChatRequest(NAMES[agent], tuple(messages), None, label))
        return Reply(answer["choices"][0]["message"]["content"], "stop", Usage(1, 1), 0.0)


def same(a: str | None, b: str | None) -> bool:
    return agree(ScorerKind.NUMERIC, a, b)


def share_right(simulated: Simulated, scaffold: Scaffold) -> float:
    right = 0
    for number, question in enumerate(QUESTIONS):
        rng = np.random.default_rng(number)
        result = scaffold.play(Episode(question, Calls(simulated), ProtocolSpec(), 3, rng))
        solution = solve(question)
        assert solution is not None
        right += same(result.answer, solution.answer)
    return right / len(QUESTIONS)


def four_errors(rate: float) -> float:
    return 4 * math.sqrt(rate * (1 - rate) / len(QUESTIONS))


def test_samples_are_independent_draws_of_the_same_skill() -> None:
    simulated = pool(Skill(0.7, 0.5, 0.5))
    right = np.zeros((len(QUESTIONS), 3), dtype=bool)
    for row, question in enumerate(QUESTIONS):
        messages = messages_for(Role.WORKER, Transcript(question), ProtocolSpec())
        solution = solve(question)
        assert solution is not None
        for sample in range(3):
            right[row, sample] = same(parse_worker(simulated.reply("ada", messages, sample))[1], solution.answer)
    assert np.abs(right.mean(axis=0) - 0.7).max() < four_errors(0.7)
    assert (right[:, 0] & right[:, 1]).mean() == pytest.approx(0.49, abs=four_errors(0.49))


def test_the_first_sample_is_what_a_model_on_its_own_says() -> None:
    simulated = pool(Skill(0.5, 0.5, 0.5))
    messages = tuple(messages_for(Role.WORKER, Transcript(QUESTIONS[0]), ProtocolSpec()))
    plain = simulated.complete(ChatRequest("ada", messages, None))
    assert simulated.complete(ChatRequest("ada", messages, None, "g0/single0/evaluation0/t1")) == plain
    assert simulated.complete(ChatRequest("ada", messages, None, "g9/rival3/evaluation1/t4")) == plain


def test_a_vote_is_better_than_its_voter() -> None:
    simulated = pool(Skill(0.7, 0.5, 0.5))
    assert share_right(simulated, Majority(0, 5, same)) > 0.837 - four_errors(0.837)


def test_an_aggregator_that_judges_well_finds_the_right_proposal() -> None:
    judges = [Skill(0.5, 0.5, 1.0)] * 3
    proposed = 1 - 0.5**3
    wanted = proposed + (1 - proposed) * 0.5
    assert share_right(pool(*judges), Mixture((0, 1, 2))) == pytest.approx(wanted, abs=four_errors(wanted))


def test_reflection_helps_who_judges_well_and_harms_who_judges_badly() -> None:
    good, bad = (share_right(pool(Skill(0.5, 0.5, judging)), SelfReflection(0, 5)) for judging in (1.0, 0.0))
    assert good == pytest.approx(0.75, abs=four_errors(0.75)), "a second try where the first was wrong"
    assert bad < 0.5


def test_a_simulated_coordinator_has_answers_checked_and_done_again() -> None:
    simulated = pool(*[Skill(0.5, 0.5, 0.5)] * 3)
    agents: Counter[str] = Counter()
    for question in QUESTIONS:
        empty = Transcript(question)
        worked = empty.with_item(Item(1, 0, Role.WORKER, RoleSource.POLICY, "", "x", "4"))
        checked = worked.with_item(Item(2, 0, Role.VERIFIER, RoleSource.POLICY, "", "no", None))
        roles = []
        for transcript in (empty, worked, checked):
            messages = coordinator_messages(transcript, dict.fromkeys(NAMES, ""), ROLE_ORDER, 3)
            choice = read_choice(simulated.reply("ada", messages), NAMES, ROLE_ORDER)
            assert choice is not None
            agents[choice[0]] += 1
            roles.append(choice[1])
        assert roles == [Role.WORKER, Role.VERIFIER, Role.WORKER]
    assert min(agents.values()) > 300
    alone = coordinator_messages(worked, {"bob": ""}, (Role.WORKER,), 1)
    assert read_choice(simulated.reply("ada", alone), ["bob"], [Role.WORKER]) == ("bob", Role.WORKER)


def test_a_replay_pool_has_no_choices_recorded() -> None:
    replay = Replay(ReplayPool("rec", ("ada",), ()))
    messages = coordinator_messages(Transcript("?"), {"ada": ""}, ROLE_ORDER, 3)
    with pytest.raises(RefusalError) as caught:
        replay.reply("ada", messages)
    assert (caught.value.status, caught.value.code) == (400, "not_recorded")


@pytest.mark.parametrize("label", ["", "g0/rival1/evaluation2/t3", "odd#name", "x#", "#3", "a#-1"])
def test_a_label_without_a_sample_wants_the_first(label: str) -> None:
    assert split_sample(with_sample(label, 0)) == (label, 0)


def test_a_sample_travels_behind_the_label() -> None:
    assert with_sample("g0/rival1/evaluation2/t3", 4) == "g0/rival1/evaluation2/t3#4"
    request = ChatRequest("m", (), None, "g0/rival1/evaluation2/t3#4")
    assert (request.call, request.sample) == ("g0/rival1/evaluation2/t3", 4)
