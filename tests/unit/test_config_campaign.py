"""Campaign files: what is accepted, what it resolves to, and what every mistake says."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from services.config import campaign as campaigns
from services.core.campaign import Campaign, EncoderSpec, EvidenceUse, ModelLimits, VerifierWithoutAnswer
from services.core.errors import SpecError, TrinityError, UnknownPrice
from services.core.ledger.plan import plan_of
from services.core.ledger.price import Price
from services.core.problem import ScorerKind, Split
from services.core.problem_source import FieldSplit, GeneratedProblems, JsonlProblems, SeededSplit
from services.core.protocol.roles import ROLE_ORDER, Role
from services.encoder.catalogue import BUNDLED, KNOWN

SHIPPED = Path(__file__).parents[2] / "infra" / "campaigns"

SMALL = """\
name: small
problems:
  source: generated
  families: [chain_sum, {name: gcd, options: {max_value: 50}}]
  training: 20
  validation: 8
  heldout: 10
pool:
  - name: a
    model: openai/a
    base_url: local:specialists
    price: {input: 0.15, output: 1}
  - name: b
    model: openai/b
    price: {input: 1e-1, output: 0}
search:
  replicates: 4
"""

FILES = """\
name: files
problems:
  source: jsonl
  sets:
    - files: ["${DATA}/x.jsonl", y.jsonl]
      question: q
      scorer: numeric
      answer: a
  split: {training: 0.5, heldout: 0.5}
pool:
  - name: a
    model: openai/a
    price: {input: 1, output: 1}
"""


def resolved(text: str, variables: Mapping[str, str] | None = None) -> Campaign:
    return campaigns.resolve(campaigns.parse(text, "f.yaml", Path("/home"), variables or {}), KNOWN[BUNDLED])


def refused(text: str, old: str, new: str, variables: Mapping[str, str] | None = None) -> TrinityError:
    assert text.count(old) >= 1
    with pytest.raises((SpecError, UnknownPrice)) as caught:
        resolved(text.replace(old, new, 1), variables=variables)
    return caught.value


def test_defaults_are_filled_in() -> None:
    campaign = resolved(SMALL)
    assert campaign.search.population == 31  # 4 + 3 ln n = 30.2 for n = 3,264 + (2 agents + 3 roles) x 576
    assert campaign.search.sigma0 == 0.1
    assert campaign.protocol.roles == ROLE_ORDER
    assert campaign.protocol.verifier_without_answer is VerifierWithoutAnswer.COUNT_AS_REVISE
    assert campaign.pool[0].price.input_per_million == Decimal("0.15")
    assert campaign.pool[1].price.input_per_million == Decimal("0.1")
    assert campaign.pool[0].base_url == "local:specialists"
    assert campaign.budget.episodes == 31 * 4 * 60


def test_a_model_has_prices_of_parts_a_window_and_limits() -> None:
    text = SMALL.replace("{input: 0.15, output: 1}", "{input: 1, output: 2, cached_input: 0.1, reasoning: 3}")
    text = text.replace("- name: b", "- context_window: 32768\n    requests_per_minute: 60\n    name: b")
    first, second = resolved(text).pool
    assert first.price == Price(Decimal(1), Decimal(2), Decimal("0.1"), Decimal(3))
    assert (first.context_window, first.limits) == (None, ModelLimits())
    assert (second.context_window, second.limits) == (32768, ModelLimits(requests_per_minute=60))


def test_the_default_episode_budget_is_the_plan() -> None:
    campaign = resolved(SMALL + "  population: 4\n  generations: 3\nvalidation: {every: 2, problems: 8}\n")
    assert campaign.budget.episodes == 4 * 4 * 3 + (2 + 1) * 8
    campaign = resolved(SMALL + "  population: 4\n  generations: 3\nevaluation: {problems: 10}\n")
    assert campaign.budget.episodes == 4 * 4 * 3 + 10 * (1 + 2 + 1)


def test_hours_become_seconds_and_large_numbers_may_have_exponents() -> None:
    budget = resolved(SMALL + "budget: {hours: 1.5, tokens: 1e6, usd: 2.5, episodes: 2e3}\n").budget
    assert (budget.wall_clock_seconds, budget.tokens, budget.usd, budget.episodes) == (
        5400,
        1_000_000,
        Decimal("2.5"),
        2000,
    )


def test_control_has_defaults_and_can_be_set() -> None:
    plain = resolved(SMALL)
    assert (plain.weight, plain.max_failure_share, plain.budget.calls) == (1.0, 0.5, None)
    chosen = resolved(SMALL + "weight: 3\nmax_failure_share: 1\nbudget: {calls: 1e4}\n")
    assert (chosen.weight, chosen.max_failure_share, chosen.budget.calls) == (3.0, 1.0, 10_000)


def test_roles_are_kept_in_the_heads_order() -> None:
    assert resolved(SMALL + "protocol: {roles: [verifier, worker]}\n").protocol.roles == (Role.WORKER, Role.VERIFIER)


def test_problem_sources_become_records() -> None:
    generated = campaigns.problem_source(campaigns.parse(SMALL + "seed: 7\n", "f", Path("/home"), {}))
    assert isinstance(generated, GeneratedProblems)
    assert (generated.seed, generated.training, generated.families[1].options) == (7, 20, {"max_value": 50})
    files = campaigns.problem_source(campaigns.parse(FILES, "f", Path("/home"), {"DATA": "/data"}))
    assert isinstance(files, JsonlProblems)
    assert files.sets[0].files == (Path("/data/x.jsonl"), Path("/home/y.jsonl"))
    assert files.sets[0].scorer is ScorerKind.NUMERIC
    assert files.split == SeededSplit(0, 0.5, 0, 0.5)
    by_field = FILES.replace("{training: 0.5, heldout: 0.5}", "{field: s, values: {train: training, test: heldout}}")
    source = campaigns.problem_source(campaigns.parse(by_field, "f", Path("/home"), {"DATA": "/data"}))
    assert isinstance(source, JsonlProblems)
    assert source.split == FieldSplit("s", {"train": Split.TRAINING, "test": Split.HELDOUT})


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("name: small", "nmae: small", "name (f.yaml:1)", "did you mean name?"),
        ("replicates: 4", "replicate: 4", "search.replicate (f.yaml:17)", "did you mean replicates?"),
        ("replicates: 4", "replicates: four", "search.replicates (f.yaml:17)", "got 'four', wanted a whole number"),
        ("replicates: 4", "replicates: 4.5", "search.replicates (f.yaml:17)", "got 4.5"),
        ("replicates: 4", "replicates: true", "search.replicates (f.yaml:17)", "got True"),
        ("replicates: 4", "replicates: 0", "search.replicates (f.yaml:17)", "at least 1"),
        ("replicates: 4", "replicates: 21", "search.replicates (f.yaml:17)", "20 training problems"),
        ("replicates: 4", "population: 2", "search.population (f.yaml:17)", "at least 3"),
        ("replicates: 4", "sigma0: .inf", "search.sigma0 (f.yaml:17)", "a number"),
        ("replicates: 4", "sigma0: 1e999", "f.yaml:17", "ordinary size"),
        ("replicates: 4", "sigma0:", "search (f.yaml:16)", "one of `sigma0` and `logit_sigma0`"),
        ("replicates: 4", "sigma0: 1\n  logit_sigma0: 1", "search (f.yaml:16)", "one of `sigma0` and `logit_sigma0`"),
        ("replicates: 4", "logit_sigma0: 0", "search.logit_sigma0 (f.yaml:17)", "a number above 0"),
        ("replicates: 4", "logit_sigma0: 1001", "search.logit_sigma0 (f.yaml:17)", "at most 1000"),
        ("replicates: 4", "step_size: tap", "search.step_size (f.yaml:17)", "'tpa' or 'csa'"),
        ("replicates: 4", "entropy_bonus: -0.1", "search.entropy_bonus (f.yaml:17)", "at least 0"),
        ("replicates: 4", "turn_bonus: much", "search.turn_bonus (f.yaml:17)", "a number"),
        ("replicates: 4", "cost_weight: -1", "search.cost_weight (f.yaml:17)", "at least 0"),
        ("replicates: 4", "cost_unit_usd: 0", "search.cost_unit_usd (f.yaml:17)", "a number above 0"),
        (
            "replicates: 4",
            "cost_weight: 1\n  algorithm: reinforce",
            "search.cost_weight (f.yaml:17)",
            "beside reinforce",
        ),
        ("name: small", "name: small\npreset: papers", "preset (f.yaml:2)", "'authors_code' or 'recommended'"),
        (
            "name: small",
            "name: small\npreset: [paper]",
            "preset (f.yaml:2)",
            "'paper', 'authors_code' or 'recommended'",
        ),
        ("search:", "protocol: {agents: [c]}\nsearch:", "protocol.agents.0 (f.yaml:16)", "a name of the pool: a, b"),
        ("search:", "protocol: {agents: [a, a]}\nsearch:", "protocol.agents (f.yaml:16)", "at most once"),
        ("search:", "protocol: {agents: a}\nsearch:", "protocol.agents (f.yaml:16)", "a list"),
        (
            "search:",
            "protocol: {evidence: no}\nsearch:",
            "protocol.evidence (f.yaml:16)",
            "wanted 'none', 'show' or 'decide'",
        ),
        ("search:", "scoring: {judge: c}\nsearch:", "scoring.judge (f.yaml:16)", "a name of the pool: a, b"),
        ("search:", "scoring: {judge: 7}\nsearch:", "scoring.judge (f.yaml:16)", "text"),
        ("search:", "protocol: {notes: some}\nsearch:", "protocol.notes (f.yaml:16)", "'all' or 'worker'"),
        ("search:", "encoder: {norm: l2}\nsearch:", "encoder.norm (f.yaml:16)", "'none' or 'rms'"),
        ("search:", "encoder: {singular_values: seven}\nsearch:", "encoder.singular_values (f.yaml:16)", "a list of"),
        ("search:", "encoder: {singular_values: []}\nsearch:", "encoder.singular_values (f.yaml:16)", "none, second"),
        ("search:", "encoder: {singular_values: [7]}\nsearch:", "encoder.singular_values (f.yaml:16)", "a list of"),
        ("search:", "head: {kind: mlp}\nsearch:", "head.kind (f.yaml:16)", "'block_diagonal_10'"),
        ("search:", "head: {output: max}\nsearch:", "head.output (f.yaml:16)", "'softmax' or 'argmax'"),
        ("search:", "head: {rank: 4}\nsearch:", "head (f.yaml:16)", "`rank` only beside `kind: low_rank`"),
        ("search:", "head: {kind: low_rank, rank: 0}\nsearch:", "head.rank (f.yaml:16)", "at least 1"),
        (
            "search:",
            "head: {kind: sparse}\nsearch:\n  logit_sigma0: 1",
            "search.logit_sigma0 (f.yaml:18)",
            "sigma0 beside head.kind sparse",
        ),
        ("name: small", "name: Not Good", "name (f.yaml:1)", "a-z"),
        ("name: small", "name:", "name (f.yaml:1)", "text"),
        ("source: generated", "source: magic", "problems.source (f.yaml:3)", "'generated', 'jsonl'"),
        ("training: 20", "training: 0", "problems.training (f.yaml:5)", "at least 1"),
        ("input: 0.15", "input: 0.1234567", "pool.0.price.input (f.yaml:12)", "6 decimals"),
        ("input: 0.15", "input: '1'", "pool.0.price.input (f.yaml:12)", "a number"),
        ("input: 0.15", "input: -1", "pool.0.price.input (f.yaml:12)", "got -1"),
        ("local:specialists", "ftp://h", "pool.0.base_url (f.yaml:11)", "local:POOL"),
        ("local:specialists", "http://h:99999/v1", "pool.0.base_url (f.yaml:11)", "http(s)"),
        ("- name: b", "- name: a", "pool.1.name (f.yaml:13)", "pool.0"),
        ("input: 0.15", "cached: 1, input: 1", "pool.0.price.cached (f.yaml:12)", "did you mean cached_input?"),
        ("- name: b", "- max_concurrency: 0\n    name: b", "pool.1.max_concurrency (f.yaml:13)", "at least 1"),
        ("- name: b", "- context_window: 4096\n    name: b", "pool.1.context_window (f.yaml:13)", "4096"),
        ("search:", "protocol: {roles: [thinker]}\nsearch:", "protocol.roles (f.yaml:16)", "worker among them"),
        ("search:", "protocol: {roles: [worker, worker]}\nsearch:", "protocol.roles (f.yaml:16)", "at most once"),
        ("search:", "evaluation: {problems: 11}\nsearch:", "evaluation.problems (f.yaml:16)", "10 problems"),
        ("search:", "validation: {problems: 9}\nsearch:", "validation.problems (f.yaml:16)", "8 problems"),
        ("search:", "budget: {episodes: 123}\nsearch:", "budget.episodes", "at least 124 for one generation"),
        ("search:", "budget: {calls: 0}\nsearch:", "budget.calls (f.yaml:16)", "at least 1"),
        ("search:", "budget: {calls: 1.5}\nsearch:", "budget.calls (f.yaml:16)", "a whole number"),
        ("search:", "weight: 0\nsearch:", "weight (f.yaml:16)", "got 0, wanted a number above 0"),
        ("search:", "weight: heavy\nsearch:", "weight (f.yaml:16)", "a number"),
        ("search:", "weight: true\nsearch:", "weight (f.yaml:16)", "a number"),
        ("search:", "max_failure_share: 1.1\nsearch:", "max_failure_share (f.yaml:16)", "at most 1"),
        ("search:", "max_failure_share: -0.1\nsearch:", "max_failure_share (f.yaml:16)", "at least 0"),
        ("search:", "encoder: 3\nsearch:", "encoder (f.yaml:16)", "a mapping"),
        (
            "search:",
            "protocol: {call_timeout_seconds: 60, episode_timeout_seconds: 5}\nsearch:",
            "protocol (f.yaml:16)",
            "at least call_timeout_seconds",
        ),
    ],
)
def test_each_mistake_names_its_field(old: str, new: str, place: str, words: str) -> None:
    error = refused(SMALL, old, new)
    assert place in str(error)
    assert words in str(error)


@pytest.mark.parametrize("new", ["", "    price:\n", "    price: {input: 1}\n"])
def test_a_model_without_a_price(new: str) -> None:
    error = refused(SMALL, "    price: {input: 1e-1, output: 0}\n", new)
    assert isinstance(error, UnknownPrice)
    assert str(error).startswith("pool.1.price")
    assert "USD per million tokens" in str(error)


@pytest.mark.parametrize(
    ("new", "place"),
    [
        ("api_key_env: sk-SECRET-123", "pool.0.api_key_env"),
        ("api_key: sk-SECRET-123", "pool.0.api_key"),
        ("options: {api_key: sk-SECRET-123}", "pool.0.options"),
        ("options: {extra_headers: {authorization: sk-SECRET-123}}", "pool.0.options"),
        ("options: {extra_body: {max_tokens: 9}}", "pool.0.options"),
        ("options: {extra_body: {auth_token: hf_SECRET}}", "pool.0.options"),
        ("options: {metadata: [Bearer SECRET]}", "pool.0.options"),
        ("base_url: 'https://me:sk-SECRET-123@host/v1'", "pool.0.base_url"),
        ("base_url: 'https://host/v1?api_key=SECRET'", "pool.0.base_url"),
        ("base_url: 'https://host/sk-SECRET-123/v1'", "pool.0.base_url"),
    ],
)
def test_a_pasted_secret_is_refused_and_not_repeated(new: str, place: str) -> None:
    error = refused(SMALL, "base_url: local:specialists", new)
    assert place in str(error)
    assert "SECRET" not in str(error)
    assert error.__cause__ is None


def test_all_mistakes_are_told_the_first_one_first() -> None:
    text = SMALL.replace("replicates: 4", "sigma0: no").replace("training: 20", "training: x")
    with pytest.raises(SpecError) as caught:
        resolved(text)
    assert caught.value.path == "problems.training (f.yaml:5)"
    assert "; also search.sigma0 (f.yaml:17): got 'no'" in str(caught.value)


def test_the_first_mistake_is_the_first_in_the_file() -> None:
    with pytest.raises(SpecError) as caught:
        resolved("seed: x\n" + SMALL.replace("training: 20", "training: x"))
    assert caught.value.path == "seed (f.yaml:1)"


def test_a_wrong_entry_does_not_make_its_list_too_short() -> None:
    text = str(refused(FILES, "${DATA}", "${EMPTY}", {"DATA": "/data", "EMPTY": ""}))
    assert "set EMPTY" in text
    assert "at least 1 entry" not in text


def test_validation_counts_in_the_first_generation() -> None:
    text = SMALL + "  population: 5\nvalidation: {problems: 8}\nbudget: {episodes: 28}\n"
    assert resolved(text).budget.episodes == 28
    assert "at least 28 for one generation" in str(refused(text, "episodes: 28", "episodes: 27"))


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("${DATA}", "${NOWHERE}", "problems.sets.0.files.0 (f.yaml:5)", "set NOWHERE"),
        ("answer: a", "scores: a", "problems.sets.0 (f.yaml:5)", "`answer` and no `scores`"),
        ("scorer: numeric", "scorer: recorded", "problems.sets.0 (f.yaml:5)", "`scores` and no `answer`"),
        ("scorer: numeric", "scorer: fuzzy", "problems.sets.0.scorer (f.yaml:7)", "'numeric'"),
        ("training: 0.5", "training: 0.7", "problems.split (f.yaml:9)", "at most 1"),
        ("training: 0.5", "training: 1.5", "problems.split.training (f.yaml:9)", "a share between 0 and 1"),
        ("split: {training: 0.5, heldout: 0.5}", "split: {field: s, values: {x: test}}", "values.x", "'training'"),
        ("question: q", "qestion: q", "problems.sets.0.qestion (f.yaml:6)", "did you mean question?"),
    ],
)
def test_each_mistake_in_a_file_mapping_names_its_field(old: str, new: str, place: str, words: str) -> None:
    error = refused(FILES, old, new, {"DATA": "/data"})
    assert place in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    ("protocol", "place"),
    [("{max_turns: 1}", "protocol.roles"), ("{roles: [worker]}", "protocol.max_turns")],
)
def test_recorded_scores_need_single_worker_turns(protocol: str, place: str) -> None:
    recorded = FILES.replace("scorer: numeric", "scorer: recorded").replace("answer: a", "scores: s.*")
    error = refused(recorded, "pool:", f"protocol: {protocol}\npool:", {"DATA": "/data"})
    assert str(error).startswith(place)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_campaigns_are_valid(path: Path) -> None:
    file = campaigns.load(path, {"TRINITY_DATA_DIR": "/data", "TRINITY_BENCHMARK_DIR": "/sets"})
    campaign = campaigns.resolve(file, KNOWN[BUNDLED])
    assert campaign.name == path.stem
    assert campaign.evaluation.problems > 0
    assert campaign.budget.usd is not None


def test_an_encoder_folder_is_found_from_the_file() -> None:
    assert resolved(SMALL + "encoder: {model: ./tiny}\n").encoder.model == "/home/tiny"
    assert resolved(SMALL + "encoder: {model: Qwen/Qwen3-0.6B}\n").encoder.model == "Qwen/Qwen3-0.6B"


def test_a_low_rank_head_has_the_authors_smallest_rank_unless_one_is_given() -> None:
    seven = "pool:\n" + "".join(
        f"  - {{name: m{number}, model: openai/m, price: {{input: 1, output: 1}}}}\n" for number in range(7)
    )
    text = FILES[: FILES.index("pool:")] + seven
    variables = {"DATA": "/data"}
    assert resolved(text + "head: {kind: low_rank}\n", variables).head.rank == 20  # 2 x (7 agents + 3 roles)
    assert resolved(text + "head: {kind: low_rank, rank: 14}\n", variables).head.rank == 14
    masked = text + "head: {kind: low_rank}\nprotocol: {agents: [m6], roles: [worker]}\n"
    assert resolved(masked, variables).head.rank == 8


def test_evidence_and_a_judge_are_off_unless_named() -> None:
    plain = resolved(SMALL)
    assert (plain.protocol.evidence, plain.scoring.judge, plain.judge) == (EvidenceUse.NONE, None, None)
    checked = resolved(SMALL + "protocol: {evidence: decide}\nscoring: {judge: b}\n")
    assert (checked.protocol.evidence, checked.scoring.judge, checked.judge) == (EvidenceUse.DECIDE, "b", 1)


def test_masked_agents_have_no_output() -> None:
    text = SMALL + "encoder: {singular_values: none}\n"
    assert plan_of(resolved(text), (0,)).dimension == 5 * 576
    masked = resolved(text + "protocol: {agents: [b]}\n")
    assert masked.protocol.agents == ("b",)
    assert plan_of(masked, (0,)).dimension == 4 * 576


def test_the_first_step_size_may_be_given_in_units_of_a_logit() -> None:
    asked: list[tuple[EncoderSpec, int]] = []

    def norm(encoder: EncoderSpec, agents: int) -> float:
        asked.append((encoder, agents))
        return 50.0

    file = campaigns.parse(SMALL + "  logit_sigma0: 1.5\nencoder: {center: true}\n", "f.yaml", Path("/home"), {})
    campaign = campaigns.resolve(file, KNOWN[BUNDLED], norm)
    assert campaign.search.sigma0 == pytest.approx(0.03)
    assert asked == [(campaign.encoder, 2)]
    with pytest.raises(ValueError, match="measured"):
        campaigns.resolve(file, KNOWN[BUNDLED])
    assert campaigns.resolve(campaigns.parse(SMALL, "f", Path("/home"), {}), KNOWN[BUNDLED], norm).search.sigma0 == 0.1
    assert len(asked) == 1
