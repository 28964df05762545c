"""Changing fields of a specification for a fork."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.cli import forking
from services.core.campaign import Campaign, EncoderSpec, HeadKind, HeadSpec, Matrix, ProtocolSpec
from services.core.errors import SpecError
from services.core.protocol.roles import Role
from tests.support.campaigns import small_campaign

FIELDS: dict[str, Any] = {
    "name": "a",
    "search": {"generations": 3, "sigma0": 0.1},
    "pool": [{"name": "x", "input_per_million": "1"}, {"name": "y"}],
    "budget": {"usd": None},
}


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("search.generations=40", ("search", "generations"), 40),
        ("search.sigma0=0.25", ("search", "sigma0"), 0.25),
        ("pool.1.name=z=1", ("pool", 1, "name"), "z=1"),
        ("budget.usd=null", ("budget", "usd"), None),
        ('budget.usd="2.5"', ("budget", "usd"), "2.5"),
        ("budget.usd=2.50", ("budget", "usd"), "2.50"),
        ("pool.0.input_per_million=3", ("pool", 0, "input_per_million"), "3"),
    ],
)
def test_one_field_is_set_and_nothing_else(change: str, path: tuple[Any, ...], value: object) -> None:
    fields = copy.deepcopy(FIELDS)
    forking.apply(fields, change)
    expected: Any = copy.deepcopy(FIELDS)
    place = expected
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert fields == expected


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("search.generation=4", "generations, sigma0"),
        ("pool.2.name=z", "0 to 1"),
        ("pool.x=1", "0 to 1"),
        ("name.first=1", "none"),
        ("search", "FIELD=VALUE"),
        ("=1", "FIELD=VALUE"),
        ("name=b", "--name"),
    ],
)
def test_a_wrong_change_says_what_there_is(change: str, named: str) -> None:
    fields = copy.deepcopy(FIELDS)
    with pytest.raises(SpecError, match="--set") as caught:
        forking.apply(fields, change)
    assert named in str(caught.value)
    assert fields == FIELDS


MATRIX = Matrix("layers.28.mlp.up_proj", 576)
SVF = EncoderSpec("smollm2-135m-instruct", singular_values=(MATRIX,))
ORIGIN = small_campaign(encoder=SVF, hidden_size=576)


def with_agents(*agents: str) -> Campaign:
    return replace(ORIGIN, protocol=ProtocolSpec(agents=agents))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        (with_agents("bob"), "protocol.agents"),
        (replace(ORIGIN, protocol=ProtocolSpec(roles=(Role.WORKER,))), "protocol.roles"),
        (replace(ORIGIN, encoder=replace(SVF, singular_values=())), "encoder.singular_values"),
        (replace(ORIGIN, head=HeadSpec(HeadKind.LOW_RANK, rank=20)), "head.kind"),
        (replace(ORIGIN, encoder=replace(SVF, model="Qwen/Qwen3-0.6B")), "encoder"),
    ],
)
def test_a_fork_keeps_what_theta_s_entries_mean(changed: Campaign, field: str) -> None:
    with pytest.raises(SpecError, match="as before") as caught:
        forking.require_same_vector(ORIGIN, changed)
    assert caught.value.path == f"--set {field}"


def test_another_encoder_of_the_same_width_needs_the_same_matrices(tmp_path: Path) -> None:
    settings = {"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536,
                "num_attention_heads": 9, "vocab_size": 100}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(settings))
    forking.require_same_vector(ORIGIN, replace(ORIGIN, encoder=replace(SVF, model=str(tmp_path))))
    (tmp_path / "config.json").write_text(json.dumps(settings | {"num_hidden_layers": 28}))
    with pytest.raises(SpecError, match=r"a matrix layers\.28\.mlp\.up_proj of 576"):
        forking.require_same_vector(ORIGIN, replace(ORIGIN, encoder=replace(SVF, model=str(tmp_path))))


def test_naming_all_agents_masks_none() -> None:
    forking.require_same_vector(ORIGIN, with_agents("bob", "ada"))
