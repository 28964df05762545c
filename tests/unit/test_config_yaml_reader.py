"""The strict YAML reader."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.config.yaml_reader import parse, read_text
from services.core.errors import SpecError

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
VALUES = st.recursive(
    SCALARS | PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(PRINTABLE, VALUES, max_size=4))
def test_json_is_read_as_it_is(value: dict[str, object]) -> None:
    assert parse(json.dumps(value), "x.yaml").value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("1e3", 1000.0),
        ("1e-3", 0.001),
        ("010", 10),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        ("'5'", "5"),
        ("~", None),
        ("", None),
        ("0x10", "0x10"),
        (".nan", ".nan"),
        ("1_000", "1_000"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = parse(f"a: {text}", "x.yaml").value["a"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: 2\na: 3", "x.yaml:3", "line 1"),
        ("a: {b: 1,\n b: 2}", "x.yaml:2", "each key once"),
        ("a: &x 1\nb: *x", "x.yaml:2", "aliases"),
        ("a: !!python/object:os.system 1", "x.yaml:1", "without a tag"),
        ("- 1", "x.yaml", "a mapping"),
        ("", "x.yaml", "a mapping"),
        ("a: 1\nb: [1", "x.yaml:2", "valid YAML"),
        ("a: 1\n---\nb: 2", "x.yaml:2", "valid YAML"),
        ("a: 1\nb: \x00", "x.yaml:2", "control characters"),
        ("[" * 100_000, "x.yaml:1", "flatter"),
        ('a: "x\\0y"', "x.yaml:1", "without NUL"),
        ('a: 1\n"\\ud800": 1', "x.yaml:2", "half surrogates"),
        ("a:\n  - 1e999", "x.yaml:2", "ordinary size"),
        ("? [a]\n: 1", "x.yaml:1", "a plain word"),
    ],
)
def test_broken_files_name_file_and_line(text: str, place: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text, "x.yaml")
    assert caught.value.path == place
    assert words in str(caught.value)


def test_where_gives_the_nearest_line() -> None:
    document = parse("a:\n  b:\n    - 1\n    - c: 2\n", "x.yaml")
    assert document.where(("a", "b", 1, "c")) == "a.b.1.c (x.yaml:4)"
    assert document.where(("a", "b", 1, "missing")) == "a.b.1.missing (x.yaml:4)"
    assert document.where(("z",)) == "z (x.yaml:1)"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_a_sentence(data: bytes) -> None:
    with contextlib.suppress(SpecError):
        assert isinstance(parse(data.decode("latin-1"), "x.yaml").value, dict)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        read_text(tmp_path / "absent.yaml")
    with pytest.raises(SpecError, match="directory"):
        read_text(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9")
    with pytest.raises(SpecError, match=r"latin\.yaml:2.*UTF-8"):
        read_text(tmp_path / "latin.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(SpecError, match="at most"):
        read_text(tmp_path / "big.yaml")
