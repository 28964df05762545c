"""Resolved campaigns as JSON: an exact round trip, and nothing else is read."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.config import campaign as campaigns
from services.config.document import from_json, problems_from_json, sha256, to_json
from services.config.model_section import RESERVED_OPTIONS
from services.core.architecture import Architecture
from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    EvidenceUse,
    HeadKind,
    HeadSpec,
    Matrix,
    ModelLimits,
    ModelSpec,
    Norm,
    Notes,
    Output,
    ProtocolSpec,
    ScoringSpec,
    SearchSpec,
    StepSize,
    ValidationSpec,
)
from services.core.errors import SpecError
from services.core.ledger.price import Price
from services.core.problem import ProgramForm, ScorerKind, Split
from services.core.problem_source import (
    AnswerForm,
    BenchmarkProblems,
    BenchmarkSet,
    FieldSplit,
    GeneratedFamily,
    GeneratedProblems,
    JsonlProblems,
    JsonlSet,
    ProblemSource,
    ProgramFields,
    SeededSplit,
)
from services.core.protocol.roles import ROLE_ORDER

MONEY = st.decimals(min_value=0, max_value=10**6, places=6)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@+:/-]{0,20}", fullmatch=True)
MODELS = st.builds(
    ModelSpec,
    name=NAMES,
    litellm_model=NAMES,
    price=st.builds(Price, MONEY, MONEY, st.none() | MONEY, st.none() | MONEY),
    base_url=st.sampled_from([None, "local:pair", "https://host:8000/v1"]),
    api_key_env=st.sampled_from([None, "OPENAI_API_KEY"]),
    options=st.dictionaries(TEXT.filter(lambda key: key not in RESERVED_OPTIONS), JSON, max_size=3),
    context_window=st.none() | st.integers(1, 2**31 - 1),
    limits=st.builds(ModelLimits, *[st.none() | st.integers(1, 2**31 - 1)] * 3),
)
CAMPAIGNS = st.builds(
    Campaign,
    name=TEXT,
    seed=st.integers(0, 2**63 - 1),
    pool=st.lists(MODELS, min_size=1, max_size=3).map(tuple),
    encoder=st.builds(
        EncoderSpec,
        model=st.sampled_from(["smollm2-135m-instruct", "/home/tiny"]),
        revision=st.none() | TEXT,
        norm=st.sampled_from(Norm),
        singular_values=st.sampled_from([(), (Matrix("lm_head", 8), Matrix("layers.0.mlp.up_proj", 3))]),
    ),
    head=st.sampled_from([HeadSpec(), HeadSpec(HeadKind.LOW_RANK, Output.ARGMAX, 20), HeadSpec(HeadKind.SPARSE)]),
    hidden_size=st.integers(1, 8192),
    protocol=st.builds(
        ProtocolSpec,
        roles=st.sampled_from([ROLE_ORDER, ROLE_ORDER[:1]]),
        temperature=st.floats(0, 2),
        max_turns=st.integers(1, 100),
        notes=st.sampled_from(Notes),
        evidence=st.sampled_from(EvidenceUse),
    ),
    search=st.builds(
        SearchSpec,
        population=st.integers(2, 64),
        replicates=st.integers(1, 64),
        generations=st.integers(1, 60),
        sigma0=st.floats(1e-6, 10),
        step_size=st.sampled_from(StepSize),
        entropy_bonus=st.floats(0, 1),
        turn_bonus=st.floats(0, 1),
        half_width=st.floats(0.01, 10),
        mean_rate=st.floats(0.01, 1),
        antithetic=st.booleans(),
        cost_weight=st.floats(0, 1),
        cost_unit_usd=st.none() | st.floats(1e-9, 10),
    ),
    validation=st.builds(ValidationSpec, every=st.integers(1, 9), problems=st.integers(0, 99)),
    evaluation=st.builds(EvaluationSpec, problems=st.integers(0, 99)),
    budget=st.builds(
        BudgetLimits,
        episodes=st.integers(1, 10**6),
        calls=st.none() | st.integers(1, 2**62 - 1),
        usd=st.none() | MONEY,
        wall_clock_seconds=st.none() | st.floats(1, 10**6),
    ),
    max_failure_share=st.floats(0, 1),
    weight=st.floats(0.001, 1000),
)

SOURCES: list[ProblemSource | None] = [
    None,
    GeneratedProblems(3, (GeneratedFamily("gcd", {"max_value": 9}), GeneratedFamily("lcm")), 3, 2, 1),
    JsonlProblems(
        (JsonlSet((Path("/a/b.jsonl"),), "q", ScorerKind.EXACT, answer="a"),), FieldSplit("s", {"t": Split.TRAINING})
    ),
    JsonlProblems((JsonlSet((Path("/a"),), "q", ScorerKind.RECORDED, scores="s.*"),), SeededSplit(1, 0.5, 3, 0.25)),
    JsonlProblems(
        (
            JsonlSet(
                (Path("/a"),), "q", ScorerKind.CHOICE, "a", choices="c", answer_form=AnswerForm.TEXT, ask="Which?"
            ),
            JsonlSet(
                (Path("/b.csv"),), "q", ScorerKind.PROGRAM, tests=ProgramFields(ProgramForm.STDIN, cases="t", seconds=2)
            ),
        ),
        SeededSplit(1, 1, 0, 0),
    ),
    BenchmarkProblems(
        7,
        (
            BenchmarkSet("mmlu", Path("/m"), 240, 0, None),
            BenchmarkSet("x", Path("/x"), packages=("numpy",), test_megabytes=4, hub="a/b", revision="c"),
        ),
        balance=False,
    ),
]

EXAMPLE = Campaign(
    name="x",
    seed=1,
    pool=(ModelSpec("a", "openai/a", Price(Decimal("0.15"), Decimal(1))),),
    encoder=EncoderSpec("smollm2-135m-instruct"),
    hidden_size=576,
    protocol=ProtocolSpec(),
    search=SearchSpec(8, 4, 3, 0.1),
    validation=ValidationSpec(5, 0),
    evaluation=EvaluationSpec(0),
    budget=BudgetLimits(96, usd=Decimal("2.50")),
)


@given(CAMPAIGNS, st.sampled_from(SOURCES))
def test_round_trip_through_json_text(campaign: Campaign, source: ProblemSource | None) -> None:
    document = json.loads(json.dumps(to_json(campaign, source)))
    assert from_json(document) == campaign
    assert problems_from_json(document) == source
    assert sha256(document) == sha256(to_json(campaign, source))


def test_the_hash_sees_every_field() -> None:
    document = to_json(EXAMPLE)
    changed = copy.deepcopy(document)
    changed["campaign"]["pool"][0]["price"]["input_per_million"] = "0.16"
    assert sha256(changed) != sha256(document)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("search", "sgima0"), 0.2, "search: got 'sgima0', wanted one of the keys"),
        (("search", "sigma0"), "wide", "search.sigma0: got 'wide', wanted a number"),
        (("search", "sigma0"), -1.0, "search.sigma0: got -1.0, wanted a number above"),
        (("search", "population"), "8", "search.population: got '8'"),
        (("hidden_size",), True, "hidden_size: got True"),
        (("protocol", "max_turns"), 0, "protocol.max_turns: got 0"),
        (("protocol", "roles"), ["boss"], "protocol.roles.0: got 'boss'"),
        (("protocol", "thinker_sets_role"), 1, "protocol.thinker_sets_role: got 1"),
        (("pool", 0, "price", "input_per_million"), "cheap", "pool.0.price.input_per_million: got 'cheap'"),
        (("pool", 0, "price", "input_per_million"), "-1", "pool.0.price.input_per_million: got "),
        (("pool", 0, "price", "output_per_million"), "0.1234567", "pool.0.price.output_per_million: got "),
        (("pool", 0, "price", "cached_input_per_million"), "-1", "pool.0.price.cached_input_per_million: got "),
        (("pool", 0, "context_window"), 0, "pool.0.context_window: got 0, wanted a number of at least 1"),
        (("pool", 0, "limits", "requests_per_minute"), 0, "pool.0.requests_per_minute: got 0"),
        (("pool", 0, "limits", "per_day"), 9, "pool.0.limits: got 'per_day'"),
        (("pool", 0, "litellm_model"), "two words", "pool.0.litellm_model: got 'two words'"),
        (("pool", 0, "options"), {"api_key": "x"}, "pool.0.options: got "),
        (("encoder", "norm"), "l2", "encoder.norm: got 'l2'"),
        (("encoder", "singular_values"), "none", "encoder.singular_values: got 'none'"),
        (("encoder", "singular_values"), [{"name": "lm_head"}], "encoder.singular_values.0.size: got "),
        (("encoder", "singular_values"), [{"name": "x", "size": 0}], "encoder.singular_values: got "),
        (("encoder", "singular_values"), [{"name": "x", "size": 1}] * 2, "encoder.singular_values: got "),
        (("head", "kind"), "mlp", "head.kind: got 'mlp'"),
        (("head", "rank"), 4, "head: got "),
        (("head",), {"kind": "low_rank", "output": "softmax", "rank": None}, "head: got "),
        (("protocol", "agents"), ["b"], "protocol.agents.0: got 'b', wanted a name of the pool: a"),
        (("protocol", "agents"), ["a", "a"], "protocol.agents: got "),
        (("protocol", "notes"), "few", "protocol.notes: got 'few'"),
        (("search", "step_size"), "one-fifth", "search.step_size: got 'one-fifth'"),
        (("search", "entropy_bonus"), -1.0, "search.entropy_bonus: got -1.0"),
        (("search", "turn_bonus"), 101.0, "search.turn_bonus: got 101.0"),
        (("search", "cost_weight"), -0.5, "search.cost_weight: got -0.5"),
        (("search", "cost_unit_usd"), 0.0, "search.cost_unit_usd: got 0.0, wanted a number above 0"),
        (("encoder", "position"), "first", "encoder.position: got 'first'"),
        (("seed",), -1, "seed: got -1, wanted a number of at least 0"),
        (("weight",), 0.0, "weight: got 0.0, wanted a number above 0"),
        (("weight",), 1001.0, "weight: got 1001.0, wanted a number of at most 1000"),
        (("max_failure_share",), 1.5, "max_failure_share: got 1.5, wanted a number of at most 1"),
        (("max_attempts",), 0, "max_attempts: got 0, wanted a number of at least 1"),
        (("budget", "episodes"), 0, "budget.episodes: got 0, wanted a number of at least 1"),
        (("budget", "calls"), 0, "budget.calls: got 0, wanted a number of at least 1"),
        (("budget", "calls"), "many", "budget.calls: got 'many', wanted a whole number"),
        (("budget", "usd"), "-1", "budget.usd: got "),
        (("budget", "wall_clock_seconds"), 0.0, "budget.wall_clock_seconds: got 0.0"),
    ],
)
def test_a_changed_document_is_refused_with_its_path(path: tuple[Any, ...], value: Any, words: str) -> None:
    document = json.loads(json.dumps(to_json(EXAMPLE)))
    inner: Any = document["campaign"]
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    with pytest.raises(SpecError) as caught:
        from_json(document)
    assert str(caught.value).startswith(words)


def test_another_version_or_half_a_document_is_refused() -> None:
    with pytest.raises(SpecError, match="version"):
        from_json({**to_json(EXAMPLE), "version": 2})
    with pytest.raises(SpecError, match="campaign: got nothing"):
        from_json({"version": 1})
    document = to_json(EXAMPLE)
    del document["campaign"]["seed"]
    with pytest.raises(SpecError, match="seed"):
        from_json(document)


# What the product stored before there were limits of calls, weights and failure shares.
OLD_TEXT = """
{"version": 1, "campaign": {"name": "small", "seed": 3, "pool": [{"name": "ada", "litellm_model": "openai/ada",
"price": {"input_per_million": "0.2", "output_per_million": "0.8"}, "base_url": "local:pair", "api_key_env": null,
"options": {}}], "encoder": {"model": "smollm2-135m-instruct", "revision": null, "position": "penultimate",
"max_tokens": 4096, "item_tokens": 512, "center": false}, "hidden_size": 8, "protocol": {"roles": ["worker", "thinker",
"verifier"], "max_turns": 5, "max_output_tokens": 4096, "temperature": 0.1, "thinker_sets_role": true,
"verifier_without_answer": "count_as_revise", "call_timeout_seconds": 120.0, "episode_timeout_seconds": 900.0},
"search": {"population": 4, "replicates": 3, "generations": 2, "sigma0": 0.1, "minibatch": "common"},
"validation": {"every": 5, "problems": 0}, "evaluation": {"problems": 0, "baselines": ["single", "random"]},
"budget": {"episodes": 24, "tokens": null, "usd": "10", "wall_clock_seconds": 3600.0}, "max_attempts": 5},
"problems": {"seed": 3, "families": [{"name": "chain_sum", "options": {}}], "training": 8, "validation": 2,
"heldout": 6}}
"""
OLD_SHA256 = "214d4ef977e8140e3058f2e8c6693e3682c93696d5a49a01c589c6e3b36d7fab"
OLD_FILE = """
name: small
seed: 3
problems: {source: generated, families: [chain_sum], training: 8, validation: 2, heldout: 6}
pool:
  - {name: ada, model: openai/ada, base_url: "local:pair", price: {input: 0.2, output: 0.8}}
encoder: {singular_values: none}
search:
  {population: 4, replicates: 3, generations: 2, sigma0: 0.1, step_size: tpa, mean_rate: 1.0, antithetic: false}
budget: {usd: 10, hours: 1}
"""


def test_a_document_from_before_the_added_fields_has_their_defaults_and_keeps_its_hash() -> None:
    document = json.loads(OLD_TEXT)
    assert sha256(document) == OLD_SHA256
    campaign = from_json(document)
    assert (campaign.budget.calls, campaign.weight, campaign.max_failure_share) == (None, 1.0, 0.5)
    assert (campaign.protocol.evidence, campaign.scoring.judge) == (EvidenceUse.NONE, None)
    file = campaigns.parse(OLD_FILE, "f.yaml", Path("/home"), {})
    assert campaign == campaigns.resolve(file, Architecture("llama", 8))
    assert problems_from_json(document) == campaigns.problem_source(file)


def test_a_set_from_before_the_added_fields_has_their_defaults() -> None:
    source = JsonlProblems((JsonlSet((Path("/a"),), "q", ScorerKind.EXACT, answer="a"),), SeededSplit(1, 1, 0, 0))
    document = json.loads(json.dumps(to_json(EXAMPLE, source)))
    for name in ("choices", "answer_form", "tests", "ask"):
        del document["problems"]["sets"][0][name]
    assert problems_from_json(document) == source
    del document["problems"]["sets"][0]["family"]
    with pytest.raises(SpecError, match=r"sets\.0\.family: got nothing"):
        problems_from_json(document)


def test_only_added_fields_may_be_absent() -> None:
    for path in (("max_attempts",), ("protocol", "max_turns"), ("budget", "usd"), ("encoder", "center")):
        document = json.loads(OLD_TEXT)
        inner: Any = document["campaign"]
        for part in path[:-1]:
            inner = inner[part]
        del inner[path[-1]]
        with pytest.raises(SpecError, match=f"^{'.'.join(path)}: got nothing"):
            from_json(document)


def test_a_judge_is_kept_and_must_be_in_the_pool() -> None:
    judged = replace(EXAMPLE, scoring=ScoringSpec("a"))
    assert from_json(to_json(judged)) == judged
    with pytest.raises(SpecError, match=r"^scoring\.judge: got 'b', wanted a name of the pool: a"):
        from_json(to_json(replace(EXAMPLE, scoring=ScoringSpec("b"))))
