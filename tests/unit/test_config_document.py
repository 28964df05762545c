"""Resolved campaigns as JSON: an exact round trip, and nothing else is read."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.config.document import from_json, problems_from_json, sha256, to_json
from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    SearchSpec,
    ValidationSpec,
)
from services.core.errors import SpecError
from services.core.ledger.price import Price
from services.core.problem import ScorerKind, Split
from services.core.problem_source import (
    FieldSplit,
    GeneratedFamily,
    GeneratedProblems,
    JsonlProblems,
    JsonlSet,
    ProblemSource,
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
MODELS = st.builds(
    ModelSpec,
    name=TEXT,
    litellm_model=TEXT,
    price=st.builds(Price, MONEY, MONEY),
    base_url=st.none() | TEXT,
    api_key_env=st.none() | TEXT,
    options=st.dictionaries(TEXT, JSON, max_size=3),
)
CAMPAIGNS = st.builds(
    Campaign,
    name=TEXT,
    seed=st.integers(0, 2**63 - 1),
    pool=st.lists(MODELS, min_size=1, max_size=3).map(tuple),
    encoder=st.builds(EncoderSpec, model=TEXT, revision=st.none() | TEXT),
    hidden_size=st.integers(1, 8192),
    protocol=st.builds(
        ProtocolSpec,
        roles=st.sampled_from([ROLE_ORDER, ROLE_ORDER[:1]]),
        temperature=st.floats(0, 2),
        max_turns=st.integers(1, 100),
    ),
    search=st.builds(
        SearchSpec,
        population=st.integers(2, 64),
        replicates=st.integers(1, 64),
        generations=st.integers(1, 60),
        sigma0=st.floats(1e-6, 10),
    ),
    validation=st.builds(ValidationSpec, every=st.integers(1, 9), problems=st.integers(0, 99)),
    evaluation=st.builds(EvaluationSpec, problems=st.integers(0, 99)),
    budget=st.builds(
        BudgetLimits,
        episodes=st.integers(1, 10**6),
        usd=st.none() | MONEY,
        wall_clock_seconds=st.none() | st.floats(1, 10**6),
    ),
)

SOURCES: list[ProblemSource | None] = [
    None,
    GeneratedProblems(3, (GeneratedFamily("gcd", {"max_value": 9}), GeneratedFamily("lcm")), 3, 2, 1),
    JsonlProblems(
        (JsonlSet((Path("/a/b.jsonl"),), "q", ScorerKind.EXACT, answer="a"),), FieldSplit("s", {"t": Split.TRAINING})
    ),
    JsonlProblems((JsonlSet((Path("/a"),), "q", ScorerKind.RECORDED, scores="s.*"),), SeededSplit(1, 0.5, 3, 0.25)),
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
