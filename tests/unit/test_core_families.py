"""Every family's reader against the generator's own answers."""

from __future__ import annotations

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st

from services.core.families import FAMILIES, solve
from services.core.problem import ScorerKind
from services.core.scoring.numeric import parse_number

PROBLEMS = 300


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_the_generators_own(name: str) -> None:
    dataset = reasoning_gym.create_dataset(name, size=PROBLEMS, seed=20251129, **FAMILIES[name].config)

    wrong = []
    for problem in dataset:
        solution = solve(problem["question"])
        if solution is None or (solution.family.name, solution.answer) != (name, problem["answer"]):
            wrong.append((problem["question"], problem["answer"], solution))

    assert not wrong


@pytest.mark.parametrize("name", FAMILIES)
def test_default_settings_of_the_generator_are_read_as_well(name: str) -> None:
    solved = 0
    for problem in reasoning_gym.create_dataset(name, size=100, seed=7):
        solution = solve(problem["question"])
        if solution is not None:
            assert (solution.family.name, solution.answer) == (name, problem["answer"])
            solved += 1

    assert solved >= 20  # fractions come in styles that are not read, equations may have no unique root


@pytest.mark.parametrize("name", FAMILIES)
def test_numeric_families_have_numbers_for_answers(name: str) -> None:
    family = FAMILIES[name]
    for problem in reasoning_gym.create_dataset(name, size=20, seed=3, **family.config):
        assert (parse_number(problem["answer"]) is not None) >= (family.scorer is ScorerKind.NUMERIC)


def test_methods_tell_families_apart() -> None:
    methods = [family.method for family in FAMILIES.values()]

    assert all(first == second or first not in second for first in methods for second in methods)
    assert len(set(methods)) == len(methods)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "What is the capital of France?",
        "State the final answer to the following arithmetic problem: __import__('os') =",
        "State the final answer to the following arithmetic problem: 1 + 1 = 2",
        "Solve for x: 0 = 0",
        "Solve for x: 2*x = 5",
        "Simplify the fraction 4/0 to its lowest terms. Give only the simplified fraction as your final answer.",
        'How many times does the letter "ab" appear in the text: "abab"?',
    ],
)
def test_other_questions_are_not_known(question: str) -> None:
    assert solve(question) is None


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    solve(text)
    for start in ("Spell this word backward (example: sun -> nus): ", "Solve for x: "):
        solve(start + text)


@given(
    st.integers(-999, 999).filter(bool),
    st.integers(-(10**6), 10**6),
    st.integers(-999, 999),
    st.sampled_from(["{s}*x + {c} = {r}", "{c} + {s}*x = {r}", "{c} - {s}*x = {r}"]),
)
def test_a_linear_equations_root_solves_it(slope: int, root: int, constant: int, form: str) -> None:
    sign = -1 if " - " in form else 1
    if sign == -1 or form.startswith("{c}"):
        slope = abs(slope)
    constant = abs(constant)
    question = f"Solve for x: {form.format(s=slope, c=constant, r=constant + sign * slope * root)}"

    solution = solve(question)

    assert solution is not None
    assert solution.answer == str(root)
