"""The comparison on held-out problems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.reports import comparison
from services.reports.records import PolicyKind, Score

Rewards = dict[str, list[float]]
MODELS = ("ada", "bob")

rewards = st.sampled_from([0.0, 0.25, 1.0])
tables = st.integers(1, 12).flatmap(
    lambda n: st.fixed_dictionaries({name: st.lists(rewards, min_size=n, max_size=n) for name in ("mean", *MODELS)})
)


def scores_of(table: Rewards, families: tuple[str, ...] = ("sums",)) -> list[Score]:
    found = []
    for name, values in table.items():
        kind = PolicyKind.SINGLE if name in MODELS else PolicyKind.COORDINATOR
        policy = name if name in MODELS else comparison.COORDINATOR
        for at, reward in enumerate(values):
            found.append(Score(kind, policy, f"p{at}", families[at % len(families)], reward))
    return found


def estimates(result: comparison.Comparison) -> dict[str, float]:
    return {line.policy: line.interval.estimate for line in result.lines}


@given(tables)
def test_estimates_are_means_and_lie_in_their_intervals(table: Rewards) -> None:
    result = comparison.compare(scores_of(table), seed=1)
    found = estimates(result)
    for name, values in table.items():
        policy = name if name in MODELS else comparison.COORDINATOR
        assert found[policy] == pytest.approx(sum(values) / len(values))
    for line in result.lines:
        assert line.n == len(table["mean"])
        assert line.interval.low <= line.interval.estimate + 1e-12
        assert line.interval.estimate <= line.interval.high + 1e-12


@given(tables)
def test_oracle_is_no_worse_than_the_best_per_family_which_is_no_worse_than_any_model(table: Rewards) -> None:
    found = estimates(comparison.compare(scores_of(table, ("sums", "words")), seed=1))
    best_model = max(found[name] for name in MODELS)
    per_family = found.get(comparison.FAMILY_BEST, best_model)
    assert best_model <= per_family + 1e-12
    assert per_family <= found[comparison.ORACLE] + 1e-12
    expected = [max(pair) for pair in zip(*(table[name] for name in MODELS), strict=True)]
    assert found[comparison.ORACLE] == pytest.approx(sum(expected) / len(expected))


@given(tables)
def test_the_paired_difference_is_to_the_best_single_model(table: Rewards) -> None:
    result = comparison.compare(scores_of(table), seed=1)
    (difference,) = result.headline
    found = estimates(result)
    assert found[difference.against] == max(found[name] for name in MODELS)
    assert difference.interval.estimate == pytest.approx(found[comparison.COORDINATOR] - found[difference.against])


def test_differences_use_only_problems_that_both_answered() -> None:
    scores = scores_of({"mean": [1.0, 1.0, 0.0], "ada": [0.0, 1.0], "bob": [0.0, 0.0]})
    difference, *_ = comparison.compare(scores, seed=1).differences
    assert (difference.against, difference.n) == ("ada", 2)
    assert difference.interval.estimate == pytest.approx(0.5)


def test_replicates_of_a_problem_are_averaged_not_counted() -> None:
    scores = [Score(PolicyKind.SINGLE, "ada", "p0", "sums", reward) for reward in (0.0, 1.0)]
    (line, *_) = comparison.compare(scores, seed=1).lines
    assert (line.n, line.interval.estimate) == (1, 0.5)


def test_the_same_scores_give_the_same_intervals() -> None:
    values = [at / 40 for at in range(40)]
    scores = scores_of({"mean": values, "ada": values[::-1], "bob": [value**2 for value in values]})
    assert comparison.compare(scores, seed=4) == comparison.compare(scores, seed=4)
    assert comparison.compare(scores, seed=4) != comparison.compare(scores, seed=5)


@given(tables)
def test_every_policy_has_a_paired_difference_and_bounds_have_no_p_value(table: Rewards) -> None:
    result = comparison.compare(scores_of(table, ("sums", "words")), seed=1)
    assert [each.against for each in result.differences] == [line.policy for line in result.lines[1:]]
    found = estimates(result)
    for each in result.differences:
        assert each.interval.estimate == pytest.approx(found[comparison.COORDINATOR] - found[each.against])
        assert each.discordance.wins + each.discordance.losses + each.discordance.ties == each.n
        assert (each.p is None) is (each.against in (comparison.FAMILY_BEST, comparison.ORACLE))
        assert (each.adjusted is None) is (each.p is None)
        if each.p is not None and each.adjusted is not None:
            assert each.p <= each.adjusted <= min(1.0, len(MODELS) * each.p) + 1e-12


def test_repeats_of_a_problem_are_no_independent_evidence() -> None:
    """Ten problems asked eight times tell as much as asked once when the repeats agree."""
    once = scores_of({"mean": [1.0] * 10, "ada": [0.0] * 6 + [1.0] * 4})
    often = once * 8
    first, second = comparison.compare(once, seed=1), comparison.compare(often, seed=1)
    assert [line.interval for line in first.lines] == [line.interval for line in second.lines]
    assert first.differences == second.differences
    assert [line.repeats for line in second.lines] == [8, 8]
    assert first.differences[0].p == pytest.approx(2 / 2**6)


def test_the_best_per_family_is_chosen_on_labels_where_there_are_any() -> None:
    """The labels prefer bob on words although ada is better on the held-out words: that is what it would have got."""
    table = {"mean": [1.0] * 4, "ada": [1.0, 1.0, 1.0, 1.0], "bob": [0.0, 0.0, 0.0, 1.0]}
    scores = scores_of(table, ("sums", "words"))
    optimistic = estimates(comparison.compare(scores, seed=1))
    labelled = comparison.compare(scores, 1, {"sums": "ada", "words": "bob"})
    assert optimistic[comparison.FAMILY_BEST] == 1.0
    assert estimates(labelled)[comparison.FAMILY_BEST_LABELLED] == 0.75
    assert comparison.FAMILY_BEST not in estimates(labelled)
    line = next(line for line in labelled.lines if line.policy == comparison.FAMILY_BEST_LABELLED)
    assert not line.bound
    only_sums = comparison.compare(scores, 1, {"sums": "ada"})
    assert comparison.FAMILY_BEST in estimates(only_sums), "a family without labels"


def test_a_rival_called_like_a_model_is_told_apart() -> None:
    scores = scores_of({"mean": [1.0], "ada": [0.0], "bob": [0.0]})
    scores.append(Score(PolicyKind.RIVAL, "ada", "p0", "sums", 1.0))
    result = comparison.compare(scores, seed=1)
    assert [line.policy for line in result.lines] == [
        comparison.COORDINATOR,
        "ada",
        "bob",
        "ada (rival)",
        comparison.ORACLE,
    ]
    against = {each.against: each.interval.estimate for each in result.differences}
    assert (against["ada"], against["ada (rival)"]) == (1.0, 0.0)


def test_the_headline_names_the_best_rival_whoever_wins() -> None:
    scores = scores_of({"mean": [1.0, 0.0, 0.0], "ada": [0.0, 1.0, 0.0], "bob": [0.0, 0.0, 0.0]})
    for name, reward in (("lookup", 1.0), ("mixture", 0.0)):
        scores += [Score(PolicyKind.RIVAL, name, f"p{at}", "sums", reward) for at in range(3)]
    told = comparison.compare(scores, seed=1).headline
    assert [(each.against, each.interval.estimate) for each in told] == [
        ("ada", 0.0),
        ("lookup", pytest.approx(-2 / 3)),
    ]


def test_no_scores_give_an_empty_comparison() -> None:
    assert comparison.compare([], seed=1) == comparison.Comparison((), (), {})


def test_families_are_split_when_there_are_several() -> None:
    scores = scores_of({"mean": [1.0, 0.0], "ada": [1.0, 0.0], "bob": [0.0, 1.0]}, ("sums", "words"))
    result = comparison.compare(scores, seed=1)
    assert list(result.families) == ["sums", "words"]
    by_name = {line.policy: line.interval.estimate for line in result.families["words"]}
    assert (by_name["ada"], by_name["bob"]) == (0.0, 1.0)
