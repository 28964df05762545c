"""Small data sets with the hub's file names and fields, and invented content."""

from __future__ import annotations

import base64
import csv
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from services.benchmarks.catalogue import BENCHMARKS

Row = dict[str, Any]


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode()


def _mathematics(count: int) -> list[Row]:
    return [
        {"problem": f"What is $\\frac{{{n}}}{{7}}$ doubled?", "solution": "Twice.", "answer": f"\\frac{{{2 * n}}}{{7}}",
         "subject": "Algebra", "level": 1, "unique_id": f"test/algebra/{n}.json"}
        for n in range(1, count + 1)
    ]  # fmt: skip


def _options(count: int, kind: str) -> list[Row]:
    return [
        {"question": f"Which is the {kind} number {n}?", "subject": "", "choices": [f"{n}{k}" for k in "wxyz"],
         "answer": n % 4}
        for n in range(count)
    ]  # fmt: skip


def _short(count: int) -> list[Row]:
    return [
        {"data_source": "invented", "ability": "reasoning", "extra_info": {"index": n},
         "prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": f"How long are {n} ells?"}],
         "reward_model": {"ground_truth": f"{n} ells" if n else "x" * 31, "style": "rule"}}
        for n in range(count)
    ]  # fmt: skip


def contest(number: int, function: bool) -> Row:
    """Return a row of LiveCodeBench: doubling a number, by standard input or by a method."""
    kind = "functional" if function else "stdin"
    tests = [{"input": str(n), "output": str(2 * n), "testtype": kind} for n in range(number, number + 4)]
    return {
        "question_title": f"Double {number}", "question_content": f"Double the number, variant {number}.",
        "platform": "invented", "question_id": f"q{number}", "contest_id": "c", "contest_date": "2025-01-04T00:00:00",
        "starter_code": "class Solution:\n    def double(self, n: int) -> int:\n        " if function else "",
        "difficulty": "easy", "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": packed(json.dumps(tests[1:])),
        "metadata": json.dumps({"func_name": "double"} if function else {}),
    }  # fmt: skip


def _libraries(libs: Sequence[str], number: int) -> Row:
    code = "import json\nLIMIT = 3\ndef task_func(n):\n"
    return {
        "task_id": f"BigCodeBench/{number}", "complete_prompt": code, "instruct_prompt": f"Write {number} as JSON.",
        "canonical_solution": "    return json.dumps(n)\n", "code_prompt": code, "entry_point": "task_func",
        "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n        "
        "self.assertEqual(task_func(1), '1')\n",
        "doc_struct": "{}", "libs": str(list(libs)),
    }  # fmt: skip


def _function(number: int) -> Row:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": "import math\n\n\ndef helped(n: int) -> int:\n    return n + 1\n\n\n"
        f'def twice(n: int) -> int:\n    """Double, variant {number}.\n    >>> twice(1)\n    2\n    """\n',
        "entry_point": "twice", "canonical_solution": "    return 2 * n\n",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == helped(5)\n",
    }  # fmt: skip


def _sentence(number: int) -> Row:
    name = f"add_{number}"
    asserts = [f"assert {name}({n}) == {n + number}" for n in range(3)]
    return {
        "task_id": number, "text": f"Write a function to add {number}.", "challenge_test_list": [],
        "code": f"def {name}(n):\r\n    return n + {number}", "test_setup_code": "", "test_list": asserts,
    }  # fmt: skip


def _theorem(number: int) -> Row:
    answers = ["12", "0.5", "True", "[1, 2]"]
    kinds = ["integer", "float", "bool", "list of integer"]
    place = number % 4
    return {"Question": f"Theorem {number}?", "Answer": answers[place], "Answer_type": kinds[place],
            "Picture": {"bytes": b"x", "path": None} if number == 0 else None}  # fmt: skip


GPQA = [
    {"Record ID": f"rec{n}", "Question": f"Invented question {n}?", "Correct Answer": f"right {n}",
     **{f"Incorrect Answer {k}": f"wrong {n}{k}" for k in (1, 2, 3)}, "Explanation": "none"}
    for n in range(12)
]  # fmt: skip

TURNS = [
    {"prompt_id": 80 + n, "category": "writing", "prompt": [f"Say {n}.", f"Say {n} again."],
     "reference": [] if n else ["Zero.", "Zero, zero."]}
    for n in range(3)
]  # fmt: skip

CONTESTS = {
    "test.jsonl": [contest(n, n % 2 == 0) for n in range(10)],
    "test6.jsonl": [contest(n, False) for n in (60, 61)],
}

# Benchmark -> file -> rows.
FILES: Mapping[str, Mapping[str, Sequence[Row]]] = {
    "math500": {"test.jsonl": _mathematics(20)},
    "mmlu": {
        "all/auxiliary_train-00000-of-00001.parquet": _options(40, "training"),
        "all/validation-00000-of-00001.parquet": _options(5, "validation"),
        "all/test-00000-of-00001.parquet": _options(30, "test"),
    },
    "rlpr": {"rlpr_train.parquet": _short(11)},
    "livecodebench": CONTESTS,
    "aime2025": {
        "test.jsonl": [{"problem": f"Add {n} and 70.", "answer": str(n + 70), "id": str(n)} for n in range(3)]
    },
    "aime2024": {
        "data/train-00000-of-00001.parquet": [
            {"id": n, "problem": f"Add {n} and 60.", "solution": "", "answer": f"0{n + 60}", "url": "", "year": "2024"}
            for n in range(3)
        ]
    },
    "bigcodebench": {"data/v0.1.4-00000-of-00001.parquet": [_libraries(["json"], 1), _libraries(["json", "numpy"], 2)]},
    "bigcodebench_hard": {"data/v0.1.4-00000-of-00001.parquet": [_libraries(["json"], 3)]},
    "mtbench": {"raw/question.jsonl": TURNS},
    "gpqa_diamond": {"gpqa_diamond.csv": GPQA},
    "gsm8k": {
        f"main/{part}-00000-of-00001.parquet": [
            {"question": f"{part}: {n} and 2 more?", "answer": f"{n} + 2 = {n + 2}\n#### {n + 2}"} for n in range(count)
        ]
        for part, count in (("train", 20), ("test", 4))
    },
    "humaneval": {"openai_humaneval/test-00000-of-00001.parquet": [_function(0), _function(1)]},
    "mbpp": {
        f"full/{part}-00000-of-00001.parquet": [_sentence(n) for n in numbers]
        for part, numbers in (
            ("train", (601, 974)),
            ("test", (11, 510)),
            ("validation", (511, 600)),
            ("prompt", (1, 10)),
        )
    },
    "theoremqa": {"data/test-00000-of-00001.parquet": [_theorem(n) for n in range(11)]},
}


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows in the form that the file's ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_benchmark(name: str, folder: Path, change: Callable[[Row], object] = lambda row: None) -> Path:
    """Write a benchmark's files into ``folder/name``; ``change`` may edit the first row of the first file."""
    for index, (path, rows) in enumerate(FILES[name].items()):
        copies = [json.loads(json.dumps(row, default=str)) for row in rows]
        if index == 0:
            change(copies[0])
        write(folder / name / path, copies)
    return folder / name


def write_all(folder: Path) -> Path:
    """Write every benchmark of the catalogue below a folder."""
    for name in BENCHMARKS:
        write_benchmark(name, folder)
    return folder
