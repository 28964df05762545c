"""LiveCodeBench: problems of programming contests with public and hidden tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from services.benchmarks import fields, wording
from services.benchmarks.dealing import Parts, by_ratio
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.packed import unpack
from services.benchmarks.record import Benchmark, Choices, Dealt, HubFile, Item, Part, each
from services.core.errors import SpecError
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split

NAME = "livecodebench"
SECONDS = 6.0  # for each test, as in the authors' harness
# What the authors' harness puts before every program: answers count on these names and on deep recursion.
PRELUDE = """\
from bisect import *
from collections import *
from copy import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from typing import *
from builtins import *
import bisect, collections, copy, datetime, functools, heapq, io, itertools, json, math, operator, random, re
import statistics, string, sys
sys.setrecursionlimit(50_000)
"""
LARGEST = 200_000_000  # characters of hidden tests: the database takes little more in one problem
STDIN = "The program reads its input from standard input and writes its output to standard output."


def _item(line: Line, part: str, choices: Choices) -> Item:
    function = _function(line)
    public = _cases(line, "public_test_cases", _listed(line, "public_test_cases"), function)
    hidden = _within(_cases(line, "private_test_cases", _hidden(line), function), choices.test_characters)
    if sum(map(_size, hidden)) > LARGEST:
        raise SpecError(line.place, "more", f"tests of at most {LARGEST:,} characters; set `test_megabytes`")
    form = ProgramForm.STDIN if function is None else ProgramForm.FUNCTION
    tests = ProgramTests(form, function, public, hidden, prelude=PRELUDE, seconds=SECONDS)
    key = f"{NAME}/{fields.text(line, 'question_id')}"
    problem = Problem(key, NAME, _question(line, function), ScorerKind.PROGRAM, program=tests)
    return Item(line.place, fields.checked(line, problem), None)


def _question(line: Line, function: str | None) -> str:
    content = fields.text(line, "question_content")
    if function is None:
        return wording.asked(content, STDIN, wording.PROGRAM)
    starter = fields.source(line, "starter_code")
    return wording.asked(content, "Begin with this code:", wording.fenced(starter), wording.PROGRAM)


def _function(line: Line) -> str | None:
    metadata = fields.parsed(line, "metadata", fields.text(line, "metadata"))
    name = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not (name is None or (isinstance(name, str) and name.isidentifier())):
        raise SpecError(line.place, shown(metadata), "an object with at most a func_name in the field metadata")
    return name


def _listed(line: Line, name: str) -> Any:
    value = line.field(name)
    return fields.parsed(line, name, value) if isinstance(value, str) else value


def _hidden(line: Line) -> Any:
    """Return the hidden tests, packed or as plain JSON."""
    value = line.field("private_test_cases")
    if not isinstance(value, str):
        return value
    try:
        text = value if value.lstrip().startswith("[") else unpack(value)
    except ValueError as error:
        raise SpecError(line.place, str(error), "packed tests in the field private_test_cases") from error
    return fields.parsed(line, "private_test_cases", text)


def _cases(line: Line, name: str, listed: Any, function: str | None) -> tuple[Case, ...]:
    if not isinstance(listed, Sequence) or not listed:
        raise SpecError(line.place, shown(listed), f"at least one test in the field {name}")
    return tuple(_case(line, name, one, function) for one in listed)


def _within(cases: tuple[Case, ...], most: int | None) -> tuple[Case, ...]:
    """Return the cases without the largest, so that they have at most so many characters; one at least is kept."""
    kept, total = set[int](), 0
    for place in sorted(range(len(cases)), key=lambda place: _size(cases[place])):
        total += _size(cases[place])
        if most is None or total <= most or not kept:
            kept.add(place)
    return tuple(case for place, case in enumerate(cases) if place in kept)


def _size(case: Case) -> int:
    return len(case.given) + len(case.wanted)


def _case(line: Line, name: str, test: Any, function: str | None) -> Case:
    kind = "stdin" if function is None else "functional"
    given, wanted = (test.get("input"), test.get("output")) if isinstance(test, Mapping) else (None, None)
    if not isinstance(given, str) or not isinstance(wanted, str) or test.get("testtype") != kind:
        raise SpecError(line.place, shown(test), f"tests with input, output and testtype {kind} in the field {name}")
    if function is None:
        return Case(given, wanted)
    try:
        arguments = [json.loads(one) for one in given.split("\n")]
        json.loads(wanted)
    except (ValueError, RecursionError) as error:
        raise SpecError(line.place, shown(given), f"arguments as JSON, one a line, in the field {name}") from error
    return Case(json.dumps(arguments), wanted)


def _deal(parts: Parts) -> Dealt:
    dealt = by_ratio(parts.get("v1", ()))
    return {**dealt, Split.HELDOUT: parts.get("v6", ())}


LIVECODEBENCH = Benchmark(
    name=NAME,
    title="LiveCodeBench",
    hub="livecodebench/code_generation_lite",
    revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    licence="CC, as the data set says; the problems are of AtCoder, LeetCode and Codeforces",
    scorer=ScorerKind.PROGRAM,
    fields=(
        "question_id", "question_content", "starter_code", "public_test_cases", "private_test_cases", "metadata",
    ),
    splits="release v1 shuffled by random.Random(42): 60 % training, 20 % validation, 20 % unused; those that "
    "release v6 added (January to April 2025) held out",
    prompt="the problem and its starter code; a whole program as plain text is wanted",
    parts=(
        Part(
            "v1", 400, (Split.TRAINING, Split.VALIDATION),
            (HubFile("test.jsonl", "2bd02b38beb48e8c46b5b9987095d999ff38cd8efc255ea5d58974317c48f63f"),),
            ("release_v1*.jsonl",),
        ),
        Part(
            "v6", 175, (Split.HELDOUT,),
            (HubFile("test6.jsonl", "bb4c364f71921c4495a6ad15abe1a927350b720009f4933e2e71f8af0f6fd1f5"),),
            ("v6*.jsonl",),
        ),
    ),
    read=each(_item),
    deal=_deal,
)  # fmt: skip
