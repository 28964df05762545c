"""What campaign files may ask of learners, and what every mistake says."""

from __future__ import annotations

import pytest

from services.core.campaign import Algorithm, Start
from services.core.errors import SpecError
from services.core.learners import Baseline, ReinforceSpec, SupervisedSpec, Targets
from services.core.ledger.plan import plan_of
from services.core.optimiser.searches import search_of
from services.core.policy.layout import Layout
from tests.unit.test_config_presets import resolved

FILE = """
name: two
problems: {source: generated, families: [chain_sum], training: 40, validation: 20, heldout: 20}
pool:
  - {name: a, model: openai/a, price: {input: 1, output: 2}}
  - {name: b, model: openai/b, price: {input: 1, output: 2}}
encoder: {singular_values: none}
validation: {problems: 10}
"""
ONE_TURN = "protocol: {roles: [worker], max_turns: 1}\n"
LABELS = "labels: {problems: 12, repeats: 2}\n"

GOOD = {
    Algorithm.SEP_CMA_ES: "search: {algorithm: sep_cma_es, start: sft}\n" + LABELS,
    Algorithm.RANDOM_SEARCH: "search: {algorithm: random_search}\n",
    Algorithm.REINFORCE: "search: {algorithm: reinforce, start: sft}\n" + LABELS,
    Algorithm.SFT: "search: {algorithm: sft}\n" + ONE_TURN + LABELS,
    Algorithm.GIVEN: "search: {algorithm: given, coordinator: old}\nevaluation: {problems: 5}\n",
}
UNTRAINED = (Algorithm.SFT, Algorithm.GIVEN)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_every_algorithm_has_a_file_a_learner_and_a_plan(algorithm: Algorithm) -> None:
    campaign = resolved(FILE + GOOD[algorithm])
    layout = Layout.of_campaign(campaign)
    learner = search_of(campaign, campaign.seed, layout.size)
    assert campaign.search.algorithm is algorithm
    assert (learner.dimension, len(learner.ask())) == (layout.size, learner.population)
    plan = plan_of(campaign, (100,))
    assert plan.labelling_episodes == 2 * 12 * 2 * (campaign.labels.problems > 0)
    assert plan.training_episodes == (0 if algorithm in UNTRAINED else campaign.search.population * 16 * 60)
    assert campaign.budget.episodes == plan.episodes
    assert campaign.fits_labels == (algorithm not in (Algorithm.RANDOM_SEARCH, Algorithm.GIVEN))


def test_settings_of_learners() -> None:
    text = """
reinforce: {rate: 0.01, clip: 0.5, entropy: 0.1, weight_decay: 1e-3, baseline: batch, plays: 2, spread: 0.1}
supervised: {targets: hard, temperature: 0.5, rate: 0.1, batch: 8, epochs: 7, folds: 1, weight_decay: 0.0}
"""
    campaign = resolved(FILE + text)
    assert campaign.reinforce == ReinforceSpec(0.01, 0.5, 0.1, 1e-3, Baseline.BATCH, 2, 0.1)
    assert campaign.supervised == SupervisedSpec(Targets.HARD, 0.5, 0.1, 8, 7, 1, 0.0)
    assert resolved(FILE).reinforce == ReinforceSpec()
    assert resolved(FILE).supervised == SupervisedSpec()
    assert resolved(FILE).search.start is Start.ZERO


SFT = "search: {algorithm: sft}\n"
WARM = "search: {start: sft}\n" + LABELS
TEAM = "supervised: {targets: team}\n"
REINFORCE = "search: {algorithm: reinforce}\n"


@pytest.mark.parametrize(
    ("text", "field", "wanted"),
    [
        (SFT + ONE_TURN, "labels.problems", "at least 4: search.algorithm sft is fitted"),
        ("search: {start: sft}\nlabels: {problems: 3}\n", "labels.problems", "at least 4: search.start sft"),
        (
            "evaluation: {problems: 5, rivals: [{kind: random_worker}, {kind: lookup}]}\nlabels: {problems: 3}\n",
            "labels.problems",
            r"at least 4: evaluation.rivals.1 \(lookup\)",
        ),
        ("labels: {problems: 41}\n", "labels.problems", "at most the 40 training problems"),
        (SFT + LABELS + "protocol: {max_turns: 1}\n", "protocol.roles", r"\[worker\] beside search.algorithm sft"),
        (SFT + LABELS + "protocol: {roles: [worker]}\n", "protocol.max_turns", "1 beside search.algorithm sft"),
        (
            SFT + LABELS + TEAM + "protocol: {roles: [worker, thinker], max_turns: 3}\n",
            "protocol.roles",
            "verifier among",
        ),
        (SFT + LABELS + TEAM + "protocol: {max_turns: 2}\n", "protocol.max_turns", "at least 3 beside supervised"),
        (
            WARM + TEAM + "protocol: {max_turns: 3, notes: worker}\n",
            "protocol.notes",
            "the router has to read verdicts",
        ),
        ("search: {start: sft}\nhead: {kind: sparse}\n" + LABELS, "head.kind", "linear: no other head"),
        (REINFORCE + "head: {kind: sparse}\n", "head.kind", "linear beside search.algorithm reinforce"),
        (REINFORCE + "head: {output: argmax}\n", "head.output", "softmax beside"),
        ("search: {algorithm: reinforce, entropy_bonus: 0.1}\n", "search.entropy_bonus", "see reinforce.entropy"),
        ("search: {algorithm: reinforce, turn_bonus: 0.1}\n", "search.turn_bonus", "0 beside"),
        ("search: {algorithm: given}\nevaluation: {problems: 5}\n", "search.coordinator", "name of a released"),
        ("search: {coordinator: old}\n", "search.coordinator", "none beside search.algorithm sep_cma_es"),
        ("search: {algorithm: given, coordinator: old}\n", "evaluation.problems", "at least 1 beside"),
        (
            "search: {algorithm: given, coordinator: old, start: sft}\nevaluation: {problems: 5}\n" + LABELS,
            "search.start",
            "zero beside",
        ),
        ("search: {algorithm: adam}\n", "search.algorithm", "sep_cma_es"),
        ("reinforce: {rate: 0}\n", "reinforce.rate", "above 0"),
        ("reinforce: {speed: 1}\n", "reinforce", "one of the keys"),
        ("supervised: {folds: 0}\n", "supervised.folds", "at least 1"),
        ("labels: {problems: 5, repeats: 0}\n", "labels.repeats", "at least 1"),
    ],
)
def test_what_a_learner_cannot_do_is_refused_with_the_field(text: str, field: str, wanted: str) -> None:
    with pytest.raises(SpecError, match=wanted) as caught:
        resolved(FILE + text)
    assert field in caught.value.path


@pytest.mark.parametrize("learner", [SFT + LABELS, WARM])
def test_a_team_is_fitted_with_its_roles_and_turns(learner: str) -> None:
    campaign = resolved(FILE + learner + TEAM + "protocol: {max_turns: 3}\n")
    assert campaign.fits_team
    assert not resolved(FILE + TEAM).fits_team, "nothing is fitted"


def test_a_team_is_looked_for_among_few_models() -> None:
    model = "  - {{name: m{0}, model: openai/m{0}, price: {{input: 1, output: 2}}}}\n"
    models = "".join(model.format(number) for number in range(19))
    text = WARM + TEAM + "protocol: {max_turns: 3}\n"
    with pytest.raises(SpecError, match=r"21 models.*at most 20"):
        resolved(FILE.replace("encoder:", models + "encoder:") + text)


def test_reinforce_has_no_gradient_for_singular_values() -> None:
    text = FILE.replace("encoder: {singular_values: none}", "encoder: {singular_values: second_to_last_layer}")
    with pytest.raises(SpecError, match="only the head is learnt"):
        resolved(text + REINFORCE)


@pytest.mark.parametrize("text", [REINFORCE, SFT + ONE_TURN + LABELS])
def test_something_has_to_keep_the_last_vector(text: str) -> None:
    with pytest.raises(SpecError, match="is kept by what measures it"):
        resolved(FILE.replace("validation: {problems: 10}", "") + text)


def test_the_first_generation_may_be_the_labelling_one() -> None:
    with pytest.raises(SpecError, match=r"2 models x 12 labelled problems x 2 repeats"):
        resolved(FILE + LABELS + "budget: {episodes: 47}\n")
    assert resolved(FILE + LABELS + "budget: {episodes: 48}\n").budget.episodes == 48
