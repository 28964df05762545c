"""Generated problems."""

from __future__ import annotations

from collections import Counter

import pytest

from services.benchmarks.registry import load
from services.core.errors import SpecError
from services.core.families import FAMILIES, solve
from services.core.problem import Problem, Split, content_hash
from services.core.problem_source import GeneratedFamily, GeneratedProblems
from services.core.scoring.scorer import Graders, check_reference, grade


def source(*names: str, training: int = 12, validation: int = 6, heldout: int = 9, seed: int = 1) -> GeneratedProblems:
    families = tuple(GeneratedFamily(name) for name in names)
    return GeneratedProblems(seed, families, training, validation, heldout)


def questions(problems: dict[Split, list[Problem]]) -> list[str]:
    return [one.question for split in Split for one in problems[split]]


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_gives_different_problems_with_exact_answers(name: str) -> None:
    problems = load(source(name, training=30, heldout=30), [])
    assert {split: len(found) for split, found in problems.items()} == {
        Split.TRAINING: 30,
        Split.VALIDATION: 6,
        Split.HELDOUT: 30,
    }
    assert len(set(questions(problems))) == 66
    for one in problems[Split.HELDOUT]:
        check_reference(one)
        assert grade(one, one.answer, None, Graders()).reward == 1.0
        solution = solve(one.question)
        assert solution is not None
        assert (solution.family.name, one.scorer) == (name, FAMILIES[name].scorer)


def test_the_same_seed_gives_the_same_problems_and_another_one_others() -> None:
    first = load(source("chain_sum", "gcd"), [])
    assert load(source("chain_sum", "gcd"), []) == first
    other = load(source("chain_sum", "gcd", seed=2), [])
    assert content_hash(other) != content_hash(first)
    assert not set(questions(first)) & set(questions(other))


def test_heldout_problems_stay_when_training_grows() -> None:
    small = load(source("chain_sum", "gcd"), [])
    large = load(source("chain_sum", "gcd", training=40), [])
    assert large[Split.HELDOUT] == small[Split.HELDOUT]
    assert large[Split.VALIDATION] == small[Split.VALIDATION]
    assert large[Split.TRAINING][:12] == small[Split.TRAINING]


def test_families_take_turns() -> None:
    training = load(source("chain_sum", "gcd", "lcm", training=10), [])[Split.TRAINING]
    assert [one.family for one in training[:4]] == ["chain_sum", "gcd", "lcm", "chain_sum"]
    assert Counter(one.family for one in training) == {"chain_sum": 4, "gcd": 3, "lcm": 3}
    assert len({one.key for one in training}) == 10


def test_options_go_before_the_families_own() -> None:
    families = (GeneratedFamily("chain_sum", {"min_terms": 6, "max_terms": 6, "max_digits": 1}),)
    for one in load(GeneratedProblems(1, families, 5, 0, 0), [])[Split.TRAINING]:
        assert one.question.count(" + ") + one.question.count(" - ") == 5


@pytest.mark.parametrize(
    ("families", "path", "words"),
    [
        ((GeneratedFamily("chess"),), "problems.families.0.name", "one of chain_sum"),
        ((GeneratedFamily("gcd"), GeneratedFamily("gcd")), "problems.families.1.name", "each family once"),
        ((GeneratedFamily("gcd", {"colour": 1}),), "problems.families.0.options", "colour"),
        ((GeneratedFamily("gcd", {"max_value": -1}),), "problems.families.0.options", "options that the generator gcd"),
        ((GeneratedFamily("gcd", {"max_value": "9"}),), "problems.families.0.options", "options that the generator"),
        ((GeneratedFamily("gcd", {"max_value": 2}),), "problems.families.0", "smaller splits"),
    ],
)
def test_each_mistake_names_its_field(families: tuple[GeneratedFamily, ...], path: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(GeneratedProblems(1, families, 50, 0, 0), [])
    assert caught.value.path == path
    assert words in str(caught.value)
