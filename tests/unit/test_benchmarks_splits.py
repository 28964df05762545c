"""Benchmarks of a campaign: what the splits hold, in which order, and what is refused."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.benchmarks import checking, manifest
from services.benchmarks.catalogue import BENCHMARKS
from services.benchmarks.folders import Opened, open_folder
from services.benchmarks.loading import splits_of
from services.benchmarks.manifest import Manifest
from services.benchmarks.record import Choices
from services.benchmarks.registry import load, resolved
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.problem import Problem, ScorerKind, Split, content_hash
from services.core.problem_source import BenchmarkProblems, BenchmarkSet
from services.core.scoring.scorer import Graders
from tests.support.benchmark_files import write, write_all, write_benchmark

PAPER_TRAINING = ("math500", "mmlu", "rlpr", "livecodebench")
PAPER_HELDOUT = ("aime2025", "bigcodebench_hard", "mtbench", "gpqa_diamond")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("benchmarks"))


def source(folder: Path, *names: str, balance: bool = True, **limits: Any) -> BenchmarkProblems:
    return BenchmarkProblems(1, tuple(BenchmarkSet(name, folder / name, **limits) for name in names), balance)


def families(problems: list[Problem]) -> Counter[str]:
    return Counter(one.family for one in problems)


def test_the_papers_campaign_is_balanced_and_keeps_held_out_sets_apart(folder: Path) -> None:
    splits = load(source(folder, *PAPER_TRAINING, *PAPER_HELDOUT), [])
    assert families(splits[Split.TRAINING]) == dict.fromkeys(PAPER_TRAINING, 6)
    assert families(splits[Split.VALIDATION]) == {"math500": 4, "mmlu": 5, "rlpr": 2, "livecodebench": 2}
    assert set(families(splits[Split.HELDOUT])) == {*PAPER_TRAINING, *PAPER_HELDOUT}
    assert families(splits[Split.HELDOUT])["gpqa_diamond"] == 12
    questions = [{one.question for one in problems} for problems in splits.values()]
    assert not questions[0] & questions[1] | questions[0] & questions[2] | questions[1] & questions[2]


def test_without_balance_every_set_keeps_its_training_problems(folder: Path) -> None:
    splits = load(source(folder, *PAPER_TRAINING, balance=False), [])
    assert families(splits[Split.TRAINING]) == {"math500": 12, "mmlu": 15, "rlpr": 6, "livecodebench": 6}


def test_any_stretch_of_a_split_holds_its_sets_in_proportion(folder: Path) -> None:
    training = load(source(folder, *PAPER_TRAINING), [])[Split.TRAINING]
    for start in range(0, 24, 4):
        assert set(families(training[start : start + 4])) == set(PAPER_TRAINING)


def test_the_same_source_gives_the_same_problems_wherever_they_lie(folder: Path, tmp_path: Path) -> None:
    first = content_hash(load(source(folder, *PAPER_TRAINING), []))
    assert content_hash(load(source(write_all(tmp_path), *PAPER_TRAINING), [])) == first
    shuffled = source(folder, "gpqa_diamond")
    assert content_hash(load(replace(shuffled, seed=2), [])) != content_hash(load(shuffled, []))
    assert content_hash(load(replace(source(folder, "math500"), seed=2), [])) == content_hash(
        load(source(folder, "math500"), [])
    )


def test_limits_take_the_first_of_a_split(folder: Path) -> None:
    whole = load(source(folder, "math500"), [])
    cut = load(source(folder, "math500", training=5, validation=0, heldout=2), [])
    assert cut[Split.TRAINING] == whole[Split.TRAINING][:5]
    assert cut[Split.VALIDATION] == []
    assert cut[Split.HELDOUT] == whole[Split.HELDOUT][:2]


def test_more_than_there_are_is_refused(folder: Path) -> None:
    with pytest.raises(
        SpecError, match=r"problems\.sets\.1\.training: got 13, wanted at most the 12 training problems"
    ):
        load(BenchmarkProblems(1, (*source(folder, "mmlu").sets, *source(folder, "math500", training=13).sets)), [])
    with pytest.raises(SpecError, match=r"problems\.sets\.0\.training: got 1, wanted at most the 0 training"):
        load(source(folder, "aime2025", training=1), [])


def test_a_missing_part_is_refused_unless_its_split_is_not_wanted(tmp_path: Path) -> None:
    write_benchmark("mmlu", tmp_path)
    (tmp_path / "mmlu" / "all" / "auxiliary_train-00000-of-00001.parquet").unlink()
    with pytest.raises(
        PrerequisiteMissing, match=r"no file of MMLU \(auxiliary_train\); `manage.py benchmark fetch mmlu`"
    ):
        load(source(tmp_path, "mmlu"), [])
    splits = load(source(tmp_path, "mmlu", training=0), [])
    assert [len(splits[split]) for split in Split] == [0, 5, 5]


@pytest.mark.parametrize(
    ("names", "words"),
    [(("math500", "gsm8k", "math500"), r"problems\.sets\.2\.name: got 'math500', wanted each benchmark once"),
     (("math500", "gsm9k"), r"problems\.sets\.1\.name: got 'gsm9k', .* did you mean gsm8k")],
)  # fmt: skip
def test_unknown_and_repeated_names_are_refused(names: tuple[str, ...], words: str, folder: Path) -> None:
    with pytest.raises(SpecError, match=words):
        load(source(folder, *names), [])


def test_a_question_of_two_splits_stays_in_the_held_out_one(tmp_path: Path) -> None:
    write_benchmark("mmlu", tmp_path)
    row = {"question": "Asked twice?", "subject": "", "choices": ["a", "b"], "answer": 0}
    other = {**row, "question": "Asked once?"}
    for part, rows in (("auxiliary_train", [row, other, other]), ("validation", [row, other]), ("test", [row, row])):
        write(tmp_path / "mmlu" / "all" / f"{part}-00000-of-00001.parquet", rows)
    splits = load(source(tmp_path, "mmlu"), [])
    asked = {split: [one.question.split("?")[0] for one in splits[split]] for split in Split}
    assert asked == {Split.TRAINING: [], Split.VALIDATION: ["Asked once"], Split.HELDOUT: ["Asked twice"] * 2}


def test_problems_are_left_out_by_key(folder: Path) -> None:
    whole = load(source(folder, "math500"), [])
    gone = whole[Split.TRAINING][0].key, whole[Split.HELDOUT][1].key
    splits = load(source(folder, "math500", exclude=gone), [])
    assert splits[Split.TRAINING] == whole[Split.TRAINING][1:]
    assert splits[Split.HELDOUT] == [one for one in whole[Split.HELDOUT] if one.key not in gone]
    with pytest.raises(SpecError, match=r"problems\.sets\.0\.exclude: got 'math500/no'"):
        load(source(folder, "math500", exclude=("math500/no",)), [])


def recorded(asked: BenchmarkProblems) -> BenchmarkProblems:
    found = resolved(asked)
    assert isinstance(found, BenchmarkProblems)
    return found


def test_the_record_knows_hub_and_revision(tmp_path: Path) -> None:
    write_benchmark("gsm8k", tmp_path)
    asked = source(tmp_path, "gsm8k")
    (plain,) = recorded(asked).sets
    assert (plain.hub, plain.revision) == ("openai/gsm8k", None)
    manifest.write(tmp_path / "gsm8k", Manifest("openai/gsm8k", "7" * 40, "MIT", 24, {}))
    (fetched,) = recorded(asked).sets
    assert fetched.revision == "7" * 40
    assert load(replace(asked, sets=(fetched,)), []) == load(asked, [])


# Real rows. Figures are those of the files, which hold all or a part of the benchmark.
def real(name: str) -> Opened:
    folder = Path(os.environ.get("TRINITY_DATA_DIR") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / name).is_dir():
        pytest.skip(f"no {name} in {folder}; set TRINITY_DATA_DIR")
    return open_folder(BENCHMARKS[name], folder / name, Choices())


@pytest.mark.parametrize(
    ("name", "rows", "left_out", "sizes"),
    [
        ("math500", {"test": 500}, {}, (300, 100, 100)),
        ("mmlu", {"test": 1710}, {}, (0, 0, 1531)),
        ("aime2024", {"train": 30}, {}, (0, 0, 30)),
        ("aime2025", {"test": 30}, {}, (0, 0, 30)),
        ("gsm8k", {"train": 500, "test": 1319}, {}, (450, 50, 1319)),
        ("theoremqa", {"test": 800}, {"needs a picture": 53}, (449, 149, 149)),
        ("mtbench", {"questions": 80, "references": 30}, {}, (0, 0, 80)),
        ("humaneval", {"test": 164}, {}, (0, 0, 164)),
        ("mbpp", {"all": 974}, {}, (374, 90, 500)),
        ("bigcodebench", {"v0.1.4": 200}, {"needs packages beyond the standard library": 20}, (0, 0, 180)),
    ],
)
def test_real_rows_become_problems(
    name: str, rows: dict[str, int], left_out: dict[str, int], sizes: tuple[int, int, int]
) -> None:
    found = real(name)
    splits = splits_of(found)
    assert (dict(found.rows), dict(found.left_out)) == (rows, left_out)
    assert tuple(len(splits[split]) for split in (Split.TRAINING, Split.VALIDATION, Split.HELDOUT)) == sizes
    dealt = [one.key for split in Split for one in splits[split]]
    assert len(set(dealt)) == len(dealt)


@pytest.mark.parametrize("name", ["aime2024", "aime2025", "gsm8k"])
def test_real_numeric_references_pass(name: str) -> None:
    items = [item for part in real(name).items.values() for item in part]
    report = checking.check(items, Graders(), 2, lambda done, of: None)
    assert (len(report.graded), report.failed, report.without) == (len(items), [], 0)


def test_the_split_of_math500_is_the_authors() -> None:
    found = real("math500")
    ids = [json.loads(line)["unique_id"] for line in found.files["test"][0].read_text().splitlines()]
    random.Random(42).shuffle(ids)
    assert [one.key for one in splits_of(found)[Split.HELDOUT]] == [f"math500/{one}" for one in ids[:100]]
    assert [one.key for one in splits_of(found)[Split.VALIDATION]] == [f"math500/{one}" for one in ids[100:200]]


def test_real_references_of_judged_questions() -> None:
    items = real("mtbench").items["questions"]
    # Questions 101 to 130 are those of reasoning, mathematics and coding.
    answered = [item for item in items if item.problem.answer]
    assert {int(item.problem.key.removeprefix("mtbench/")) for item in answered} >= set(range(101, 131))
    assert all(item.problem.scorer is ScorerKind.JUDGE for item in items)
