"""Problems from JSONL files."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.benchmarks.jsonl import MISSING, lookup, read
from services.benchmarks.registry import load, require_sizes
from services.benchmarks.splits import by_seed
from services.config import campaign as campaigns
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split, content_hash
from services.core.problem_source import FieldSplit, JsonlProblems, JsonlSet, SeededSplit
from services.encoder.catalogue import BUNDLED, KNOWN

INFRA = Path(__file__).parents[2] / "infra"
HALF = SeededSplit(1, 0.5, 0, 0.5)


def data_folder() -> Path:
    folder = Path(os.environ.get("TRINITY_DATA_DIR") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "replay").is_dir():
        pytest.skip(f"no recordings in {folder}; set TRINITY_DATA_DIR")
    return folder.resolve()


def file_of(folder: Path, rows: list[Any], name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answers(path: Path, split: SeededSplit | FieldSplit = HALF, **changes: Any) -> JsonlProblems:
    return JsonlProblems((replace(JsonlSet((path,), "q", ScorerKind.NUMERIC, answer="a"), **changes),), split)


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"q": f"question {number}", "a": number, **more} for number in range(count)]


def test_fields_are_mapped(tmp_path: Path) -> None:
    row = {"task": {"text": "how many?"}, "gold": "#### 3 of\n#### 1,072", "n": 7, "kind": "gsm"}
    source = answers(
        file_of(tmp_path, [row, {**row, "task": {"text": "again?"}, "n": 8}]),
        question="task.text", answer="gold", answer_after="####", id="n", family="kind",
    )  # fmt: skip
    found = [one for split in Split for one in load(source, [])[split]]
    assert sorted((one.key, one.family, one.answer) for one in found) == [("7", "gsm", "1,072"), ("8", "gsm", "1,072")]


def test_names_default_to_file_and_line(tmp_path: Path) -> None:
    problems = load(answers(file_of(tmp_path, rows(4), "some.jsonl")), [])
    found = sorted((one.key, one.family) for split in Split for one in problems[split])
    assert found == [(f"some:{number}", "some") for number in (1, 2, 3, 4)]


def test_recorded_scores_of_the_pool_are_kept(tmp_path: Path) -> None:
    row = {"r": {"m-1.5": {"correct": 1}, "other": {"correct": 0.25}, "third": {"correct": 9}}}
    path = file_of(tmp_path, [{"q": str(number), **row} for number in range(2)])
    source = answers(path, scorer=ScorerKind.RECORDED, answer=None, scores="r.*.correct")
    problems = load(source, ["m-1.5", "other"])
    assert problems[Split.TRAINING][0].scores == {"m-1.5": 1.0, "other": 0.25}
    with pytest.raises(SpecError, match=r"x\.jsonl:1: got 9, wanted a score in \[0, 1\]"):
        load(source, ["third"])
    with pytest.raises(SpecError, match=r"x\.jsonl:1: .* a recorded score of the pool model absent"):
        load(source, ["absent"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "a JSON object"),
        ("[1]", "a JSON object"),
        ("NaN", "a JSON object"),
        ('{"q": "x"}', "a field a"),
        ('{"a": 1}', "a field q"),
        ('{"q": "x", "a": null}', "an answer in the field a"),
        ('{"q": "x", "a": "  "}', "an answer in the field a"),
        ('{"q": "x", "a": [1]}', "an answer in the field a"),
        ('{"q": "x", "a": true}', "an answer in the field a"),
        ('{"q": "x", "a": "seven"}', "an answer for the scorer numeric"),
        ('{"q": " ", "a": 1}', "text in the field q"),
        ('{"q": 0.5, "a": 1}\n{"q": 0.5, "a": 1}', "x.jsonl:4 does not ask already"),
        ('{"q": "question 1", "a": 1}', "a question that"),
        ("[" * 100_000, "a JSON object"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = file_of(tmp_path, rows(2))
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(SpecError) as caught:
        load(answers(path), [])
    assert caught.value.path.startswith(f"{path}:")
    assert caught.value.path.endswith((":4", ":5"))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_repeated_id_is_named(tmp_path: Path) -> None:
    path = file_of(tmp_path, [{"q": "x", "a": 1, "n": 1}, {"q": "y", "a": 1, "n": 1}])
    with pytest.raises(SpecError, match=r"x\.jsonl:2: got '1', wanted an id that .*x\.jsonl:1"):
        load(answers(path, id="n"), [])


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.jsonl: got 'No such file"):
        load(answers(tmp_path / "absent.jsonl"), [])
    with pytest.raises(SpecError, match="directory"):
        load(answers(tmp_path), [])
    (tmp_path / "latin.jsonl").write_bytes(b'{"q": "\xe9", "a": 1}')
    with pytest.raises(SpecError, match=r"latin\.jsonl:1.*UTF-8"):
        load(answers(tmp_path / "latin.jsonl"), [])


def test_splits_by_field(tmp_path: Path) -> None:
    path = file_of(tmp_path, [{**row, "s": "dev" if row["a"] < 2 else "test"} for row in rows(5)])
    split = FieldSplit("s", {"dev": Split.TRAINING, "test": Split.HELDOUT})
    problems = load(answers(path, split), [])
    assert [len(problems[one]) for one in Split] == [2, 0, 3]
    with pytest.raises(SpecError, match=r"x\.jsonl:3: got 'test', wanted one of dev in the field s"):
        load(answers(path, FieldSplit("s", {"dev": Split.TRAINING})), [])


@pytest.mark.parametrize(
    ("split", "path", "words"),
    [
        (SeededSplit(1, 4, 1, 1), "problems.split", "at most the 5 problems"),
        (SeededSplit(1, 0.1, 1, 1), "problems.split.training", "at least one"),
        (SeededSplit(1, 2, 0.1, 1), "problems.split.validation", "at least one"),
    ],
)
def test_splits_that_do_not_fit(tmp_path: Path, split: SeededSplit, path: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(answers(file_of(tmp_path, rows(5)), split), [])
    assert caught.value.path == path
    assert words in str(caught.value)


@given(st.lists(st.sampled_from("abc"), min_size=10, max_size=200), st.integers(0, 2**63 - 1), st.randoms())
def test_seeded_splits_are_disjoint_stratified_and_blind_to_file_order(
    families: list[str], seed: int, rng: Any
) -> None:
    problems = [
        Problem(f"k{place}", family, f"q{place}", ScorerKind.EXACT, answer="x") for place, family in enumerate(families)
    ]
    split = SeededSplit(seed, 0.5, 0.2, 0.3)
    dealt = by_seed(split, problems)
    keys = [one.key for name in Split for one in dealt[name]]
    assert len(set(keys)) == len(keys)
    sizes = Counter(families)
    for name in Split:
        for family, found in Counter(one.family for one in dealt[name]).items():
            assert abs(found - sizes[family] * len(dealt[name]) / len(problems)) <= len(sizes)
    shuffled = problems[:]
    rng.shuffle(shuffled)
    assert by_seed(split, shuffled) == dealt


def test_heldout_stays_when_training_grows() -> None:
    problems = [Problem(str(place), "f", str(place), ScorerKind.EXACT, answer="x") for place in range(100)]
    assert (
        by_seed(SeededSplit(1, 10, 5, 20), problems)[Split.HELDOUT]
        == by_seed(SeededSplit(1, 70, 5, 20), problems)[Split.HELDOUT]
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_with_their_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(data)
    try:
        found = list(read(path))
    except SpecError as error:
        place = error.path
    else:
        place = f"{path}:{len(found)}"
    assert place.startswith(f"{path}:")


def test_lookup_finds_nested_keys_and_keys_with_dots() -> None:
    value = {"a": {"b": 1}, "a.c": 2, "d": {"gpt-3.5": {"x": None}}}
    assert lookup(value, "a.b") == 1
    assert lookup(value, "a.c") == 2
    assert lookup(value, "d.gpt-3.5.x") is None
    assert lookup(value, "a.z") is MISSING
    assert lookup(value, "a.b.c") is MISSING


def test_the_content_hash_sees_order_text_and_scores() -> None:
    one = Problem("k", "f", "q", ScorerKind.RECORDED, scores={"m": 1.0, "n": 0.0})
    two = replace(one, key="l", question="r")
    base = {Split.TRAINING: [one, two], Split.VALIDATION: [], Split.HELDOUT: []}
    same = {**base, Split.TRAINING: [replace(one, scores={"n": 0.0, "m": 1.0}), two]}
    assert content_hash(same) == content_hash(base)
    for training in ([two, one], [replace(one, question="Q"), two], [replace(one, scores={"m": 0.5, "n": 0.0}), two]):
        assert content_hash({**base, Split.TRAINING: training}) != content_hash(base)


def test_too_few_problems_are_refused() -> None:
    campaign = campaigns.resolve(campaigns.load(INFRA / "campaigns" / "quickstart.yaml", {}), KNOWN[BUNDLED])
    one = Problem("k", "f", "q", ScorerKind.EXACT, answer="a")
    enough = {Split.TRAINING: [one] * 96, Split.VALIDATION: [one] * 96, Split.HELDOUT: [one] * 200}
    require_sizes(campaign, enough)
    for split, path in (
        (Split.TRAINING, "problems"),
        (Split.VALIDATION, "validation.problems"),
        (Split.HELDOUT, "evaluation.problems"),
    ):
        with pytest.raises(SpecError) as caught:
            require_sizes(campaign, {**enough, split: []})
        assert caught.value.path == path
    with pytest.raises(SpecError, match=r"search\.replicates"):
        require_sizes(campaign, {**enough, Split.TRAINING: [one]})


@pytest.mark.parametrize(
    ("name", "families", "sizes"),
    [
        ("llmrouter", 7, {Split.TRAINING: 900, Split.VALIDATION: 164, Split.HELDOUT: 300}),
        ("zeroeval", 3, {Split.TRAINING: 1400, Split.VALIDATION: 150, Split.HELDOUT: 600}),
    ],
)
def test_the_shipped_file_campaigns_find_their_problems(name: str, families: int, sizes: dict[Split, int]) -> None:
    file = campaigns.load(INFRA / "campaigns" / f"{name}.yaml", {"TRINITY_DATA_DIR": str(data_folder())})
    campaign = campaigns.resolve(file, KNOWN[BUNDLED])
    problems = load(campaigns.problem_source(file), [model.name for model in campaign.pool])
    require_sizes(campaign, problems)
    assert {split: len(found) for split, found in problems.items()} == sizes
    assert all(len({one.family for one in found}) == families for found in problems.values())
    texts = [one.question for found in problems.values() for one in found]
    assert len(set(texts)) == len(texts)
