from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.storage.binary import pack32, pack64, pack_json, unpack32, unpack64, unpack_json
from services.storage.money import QUANTUM, amount
from services.storage.text_codec import escape, unescape

any_text = st.text(st.characters(exclude_categories=()), max_size=200)
troubled = st.lists(st.sampled_from(["\x00", "\x1a", "\ud800", "\udfff", "0000", "a", "é"]), max_size=30).map("".join)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | troubled,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(troubled, inner, max_size=3),
    max_leaves=10,
)


@given(any_text | troubled)
def test_escaping_is_reversible_and_leaves_nothing_unstorable(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert "\x00" not in escaped
    escaped.encode("utf-8")


def test_ordinary_text_is_stored_as_it_is() -> None:
    assert escape("naïve — 数学 \\u0000 \n\t😀") == "naïve — 数学 \\u0000 \n\t😀"


@given(st.dictionaries(troubled, any_json, max_size=4))
def test_json_objects_survive(value: dict[str, Any]) -> None:
    assert unpack_json(json.loads(pack_json(value))) == value


def test_json_refuses_numbers_that_are_not_json() -> None:
    with pytest.raises(ValueError):
        pack_json({"fitness": float("nan")})


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_vectors_survive(values: list[float]) -> None:
    vector = np.array(values)
    assert unpack64(pack64(vector)).tolist() == values
    assert unpack32(pack32(vector)).tolist() == values
    assert len(pack32(vector)) * 2 == len(pack64(vector)) == 8 * len(values)


@given(st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False))
def test_amounts_are_rounded_up_to_the_quantum(value: Decimal) -> None:
    rounded = amount(value)
    assert value <= rounded < value + QUANTUM


@pytest.mark.parametrize("value", ["-0.1", "NaN", "Infinity", "100000001"])
def test_impossible_amounts_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="amount of USD"):
        amount(Decimal(value))
