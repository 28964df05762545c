"""Changing fields of a specification for a fork."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from services.cli import forking
from services.core.errors import SpecError

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
