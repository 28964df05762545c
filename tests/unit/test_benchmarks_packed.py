"""Packed tests are read without doing what a pickle says."""

from __future__ import annotations

import base64
import builtins
import contextlib
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.benchmarks import packed


class Hostile:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.reduced = call, arguments

    def __reduce__(self) -> Any:
        return self.reduced


def wrapped(pickled: bytes) -> str:
    return base64.b64encode(zlib.compress(pickled)).decode()


@given(st.text(), st.integers(0, 5))
def test_any_text_comes_back_from_every_protocol(text: str, protocol: int) -> None:
    assert packed.unpack(wrapped(pickle.dumps(text, protocol))) == text


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_in_a_hostile_pickle_is_done(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    hostile = [
        Hostile(os.system, f"touch {trace}"),
        Hostile(builtins.open, str(trace), "w"),
        Hostile(builtins.eval, f"open({str(trace)!r}, 'w')"),
        ["a", Hostile(os.mkdir, str(trace))],
        {"tests": Hostile(os.mkdir, str(trace))},
    ]
    for value in hostile:
        with pytest.raises(ValueError, match=r"instruction|strings"):
            packed.unpack(wrapped(pickle.dumps(value, protocol)))
        assert not trace.exists()
    pickle.loads(pickle.dumps(hostile[0], protocol))
    assert trace.exists()  # the payloads are real


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(["text"]), pickle.dumps(b"text"), pickle.dumps(7), pickle.dumps(None), pickle.dumps(("a", "b")),
        pickle.dumps("text")[:-1], pickle.dumps("text") + b"more", pickle.dumps("a")[:-1] + pickle.dumps("b"),
        b"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00Q.", b"cos\nsystem\n.", b"\x82\x01.", b"", b"(lp0\n.",
        b"\x80\x04\x8c\x01a\x94h\x00.", b"\x80\x02X\xff\xff\xff\x7fshort.",
    ],
    ids=repr,
)  # fmt: skip
def test_whatever_is_not_one_string_is_refused(pickled: bytes) -> None:
    with pytest.raises(ValueError):
        packed.unpack(wrapped(pickled))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!!!", "base64"), ("äöü", "base64|ASCII"), (base64.b64encode(b"plain").decode(), "zlib"),
        (base64.b64encode(zlib.compress(pickle.dumps("x" * 99))[:-4]).decode(), "cut off"),
    ],
)  # fmt: skip
def test_what_is_packed_otherwise_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        packed.unpack(text)


def test_a_small_file_does_not_become_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST", 1000)
    assert packed.unpack(wrapped(pickle.dumps("x" * 900))) == "x" * 900
    with pytest.raises(ValueError, match="longer than 1000"):
        packed.unpack(wrapped(pickle.dumps("x" * 10**6)))


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: pickle.dumps("text")[:-1] + tail))
def test_any_bytes_are_a_string_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(packed.pickled_string(data), str)
