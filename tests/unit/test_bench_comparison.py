"""Playing the recorded game from its table is playing the product's own episodes with the replay pool's answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.comparison_game import ENDS, Game, choices, expected, game_of, play, rewards_at_end, uniforms
from bench.comparison_learners import Budget, Lesson, Recipe, train
from bench.comparison_set import RecordedSet, read
from bench.comparison_tree import Recorder, Tree, answers, grow, reward_of, texts
from services.core.campaign import Output, Start
from services.core.learners import SupervisedSpec, Targets
from services.core.optimiser.supervised import objective_of
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.problem import Split
from services.core.protocol.episode import run_episode
from services.core.protocol.review import rejected
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript

Array = NDArray[np.float32]

MODELS = (
    "Qwen2-7B-Instruct",
    "gemma-2-9b-it",
    "Meta-Llama-3.1-8B-Instruct",
    "Yi-1.5-9B-Chat",
    "Phi-3.5-mini-instruct",
    "gpt-3.5-turbo-0125",
    "claude-3-haiku-20240307",
)
HIDDEN = 6
EPISODES = 40


def recorded_answers(folder: Path, seed: int) -> Path:
    """Write a few made-up recordings in the files that the campaign names; return the folder above ``replay``."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, tuple[str, list[str | None]]] = {
        "zeroeval_gsm_a": ("math-word", ["1", "$1", "2", None]),
        "zeroeval_gsm_b": ("math-word", ["3", "1"]),
        "zeroeval_crux": ("code-reasoning", ["[1]", "[2]", "'a", None]),
        "zeroeval_math_l5": ("math-competition", ["x", "y", "</answer>"]),
    }
    (folder / "replay").mkdir()
    for name, (domain, given) in kinds.items():
        rows = []
        for number in range(2):
            replies = {model: {"answer": given[rng.integers(len(given))]} for model in MODELS}
            question = f"{name}, number {number}?"
            rows.append(
                {
                    "id": f"{name}:{number}",
                    "domain": domain,
                    "question": question,
                    "gold": f"# {given[0]}" if "gsm" in name else given[0],
                    "responses": replies,
                }
            )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "replay" / f"{name}.jsonl").write_text(text)
    return folder


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedSet:
    return read("zeroeval", recorded_answers(tmp_path, 3))


def with_states(recorded: RecordedSet, seed: int) -> tuple[list[Tree], Game]:
    """Return the trees of all questions, and their game with drawn states, equal ones for equal texts."""
    rng = np.random.default_rng(seed)
    trees = [grow(recorded, problem) for problem in recorded.problems]
    known: dict[object, Array] = {}

    def read(transcripts: Sequence[Transcript]) -> Array:
        keys = [(one.query, texts(one)) for one in transcripts]
        for key in keys:
            known.setdefault(key, rng.normal(size=HIDDEN).astype(np.float32))
        return np.stack([known[key] for key in keys])

    states = [read(tree.transcripts) for tree in trees]
    after = np.stack([read([rejected(answer) for answer in answers(tree)]) for tree in trees])
    return trees, game_of(trees, states, after, len(recorded.models))


@pytest.mark.parametrize("output", list(Output))
def test_the_table_plays_the_episodes_of_the_product(recorded: RecordedSet, output: Output) -> None:
    trees, game = with_states(recorded, 1)
    read_of = {
        (tree.problem.question, texts(transcript)): game.states[start + index]
        for tree, start in zip(trees, game.roots, strict=True)
        for index, transcript in enumerate(tree.transcripts)
    }
    campaign = recorded.campaign
    layout = Layout.of(len(recorded.models), campaign.protocol.roles, HIDDEN)
    layout = replace(layout, spec=replace(layout.spec, output=output))
    theta = np.random.default_rng(2).normal(size=layout.size)
    policy = HeadPolicy(theta, layout, lambda transcript, _: read_of[transcript.query, texts(transcript)])
    questions = np.arange(game.questions).repeat(EPISODES)
    seeds = list(range(len(questions)))
    found = play(game, layout, theta[None], questions, uniforms(seeds, game.turns))
    for episode, (question, seed) in enumerate(zip(questions, seeds, strict=True)):
        problem = trees[question].problem
        rng = np.random.Generator(np.random.PCG64(seed))
        result = run_episode(problem.question, policy, Recorder(recorded), campaign.protocol, len(recorded.models), rng)
        items = result.transcript.items
        turns = found.nodes[0, episode] != ENDS
        assert found.agents[0, episode][turns].tolist() == [item.agent for item in items]
        assert [layout.allowed[role] for role in found.roles[0, episode][turns]] == [item.role for item in items]
        assert found.rewards[0, episode] == reward_of(recorded, problem, result)
        assert (game.prompt_bytes[found.nodes, found.roles, found.agents][0, episode][turns] > 0).sum() == result.calls


@pytest.mark.parametrize("output", list(Output))
def test_expectations_are_what_many_episodes_come_to(recorded: RecordedSet, output: Output) -> None:
    _, game = with_states(recorded, 4)
    layout = Layout.of(len(recorded.models), recorded.campaign.protocol.roles, HIDDEN)
    layout = replace(layout, spec=replace(layout.spec, output=output))
    theta = np.random.default_rng(5).normal(size=layout.size)
    worth = rewards_at_end(game)[..., None]
    wanted = expected(game, choices(game, layout, theta), worth)[:, 0]
    draws = np.random.default_rng(6).random((20_000, game.turns, 2))
    for question in range(game.questions):
        rewards = play(game, layout, theta[None], np.full(len(draws), question), draws).rewards
        assert rewards.mean() == pytest.approx(wanted[question], abs=0.02)


def lesson_of(recorded: RecordedSet, game: Game) -> Lesson:
    layout = Layout.of(len(recorded.models), recorded.campaign.protocol.roles, HIDDEN)
    families = [problem.family for problem in recorded.problems]
    training, validation, heldout = np.arange(4), np.arange(4, 6), np.arange(6, game.questions)
    given = [[recorded.index[one.question].answers[served] for served in recorded.served] for one in recorded.problems]
    scorers = [problem.scorer for problem in recorded.problems]
    return Lesson(game, layout, 1, training, validation, heldout, families, given, scorers)


def test_a_teams_worth_is_what_it_earns_in_the_recorded_game(recorded: RecordedSet) -> None:
    """Recorded Verifiers go by their own answers, as the fit assumes: drawn agents in a team's roles earn just that."""
    _, game = with_states(recorded, 8)
    lesson = lesson_of(recorded, game)
    plain = [all("<" not in (answer or "") for answer in row) for row in lesson.answers]  # a tag is quoted on its way
    lesson = replace(lesson, training=np.flatnonzero(plain))
    labels = lesson.labels(reviews=True)
    team = objective_of(labels, SupervisedSpec(targets=Targets.TEAM), np.ones(HIDDEN), 1)
    weights = np.random.default_rng(9).normal(size=team.shape)
    theta = np.concatenate([weights.ravel(), np.zeros(lesson.layout.role_rows * HIDDEN)])
    layout = replace(lesson.layout, spec=replace(lesson.layout.spec, output=Output.SOFTMAX))
    agents = choices(game, layout, theta).sum(axis=1)
    verifies = game.depth == 1
    chosen = np.stack([agents * ~verifies[:, None], agents * verifies[:, None]], axis=1)
    assert lesson.layout.allowed == (Role.WORKER, Role.VERIFIER)
    earned = expected(game, chosen, rewards_at_end(game)[..., None])[lesson.training].mean()
    assert -team.loss(weights) == pytest.approx(earned, abs=1e-6)


@pytest.mark.parametrize("kind", ["sep_cma_es", "random_search", "reinforce", "sft"])
@pytest.mark.parametrize("start", list(Start))
def test_no_learner_spends_more_than_its_budget(recorded: RecordedSet, kind: str, start: Start) -> None:
    lesson = lesson_of(recorded, with_states(recorded, 7)[1])
    output = Output.SOFTMAX if kind == "reinforce" else Output.ARGMAX
    recipe = Recipe("one", kind, start, population=8, replicates=4, output=output)
    course = train(lesson, recipe, Budget(episodes=200, every=2))
    labels = 4 * len(recorded.models) if kind == "sft" or start is Start.SFT else 0
    assert labels <= course.episodes <= 200
    assert course.curve[0][0] == labels
    assert course.curve[-1][0] == course.episodes
    assert course.validation_episodes == 2 * len(course.curve)
    again = train(lesson, recipe, Budget(episodes=200, every=2))
    assert again.theta.tobytes() == course.theta.tobytes()


def test_splits_share_no_question_and_keep_the_domains(recorded: RecordedSet) -> None:
    dealt = recorded.dealt(3, recorded.problems)
    keys = [problem.key for split in Split for problem in dealt[split]]
    assert len(keys) == len(set(keys))
