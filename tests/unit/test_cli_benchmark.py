"""The benchmark commands, and a campaign on benchmarks up to the point where services are needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.benchmarks.catalogue import BENCHMARKS
from services.cli import benchmarks, main, submission
from services.config import document
from services.config.settings import load_settings
from services.core.errors import Unscorable
from services.core.problem import Problem, Split, content_hash
from services.core.problem_source import BenchmarkProblems
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.scorer import Graders
from tests.support.benchmark_files import write_all, write_benchmark
from tests.support.hub import COMMIT, fake_hub

CAMPAIGN = """
name: small
seed: 3
problems:
  source: benchmarks
  sets: [math500, mmlu, {name: gsm8k, training: 4}, gpqa_diamond]
pool:
  - {name: ada, model: openai/ada, price: {input: 0.2, output: 0.8}}
search: {population: 4, replicates: 3, generations: 2}
evaluation: {problems: 20}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRINITY_BENCHMARK_DIR", str(tmp_path / "sets"))
    return write_all(tmp_path / "sets")


def run(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main.run(("benchmark", *arguments)) == code
    return capsys.readouterr().out


def test_the_list_tells_what_is_here(folder: Path, capsys: Captured) -> None:
    (folder / "mmlu" / "all" / "validation-00000-of-00001.parquet").unlink()
    (folder / "rlpr" / "rlpr_train.parquet").unlink()
    found = {one["name"]: one["here"] for one in json.loads(run(capsys, "list", "--json"))}
    assert found == dict.fromkeys(BENCHMARKS, "yes") | {"mmlu": "only auxiliary_train, test", "rlpr": "no"}
    assert "only auxiliary_train, test" in run(capsys, "list")


def test_one_is_shown_with_what_its_folder_has(folder: Path, capsys: Captured) -> None:
    shown = json.loads(run(capsys, "show", "theoremqa", "--json"))
    assert shown["source"] == "https://huggingface.co/datasets/TIGER-Lab/TheoremQA"
    assert shown["here"]["rows"] == {"test": "11 (the hub has 800)"}
    assert shown["here"]["left out"] == {"needs a picture": 1}
    assert shown["here"]["splits"] == {"training": 6, "validation": 2, "heldout": 2}
    assert shown["here"]["revision"] == "unknown: no manifest"
    text = run(capsys, "show", "theoremqa")
    assert "  left out: needs a picture 1\n" in text
    absent = run(capsys, "show", "theoremqa", "--folder", str(folder / "nowhere"))
    assert "here:" not in absent


def test_references_are_graded_and_failures_listed(folder: Path, capsys: Captured) -> None:
    report = json.loads(run(capsys, "check", "gsm8k", "--json", "--jobs", "3"))
    assert (report["passed"], report["graded"], report["failed"]) == (24, 24, [])
    assert report["p50_ms"] <= report["p99_ms"]
    assert "GSM8K: 5 of 5 references pass" in run(capsys, "check", "gsm8k", "--limit", "5")
    assert "3 problems have no reference that could be graded" in run(capsys, "check", "mtbench")


def test_a_failing_reference_is_named_with_exit_status_1(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(problem: Problem, answer: str, model: None, graders: Graders) -> Grade:
        if answer == "72":
            raise Unscorable(problem.key, "it is odd")
        return Grade(0.0, Outcome.WRONG, "no") if answer == "71" else Grade(1.0, Outcome.CORRECT)

    monkeypatch.setattr("services.benchmarks.checking.grade", strict)
    text = run(capsys, "check", "aime2025", code=1)
    assert "1 of 3 references pass" in text
    failed = [line.split() for line in text.splitlines() if line.startswith("aime2025/")]
    assert [words[:2] for words in failed] == [["aime2025/1", "wrong"], ["aime2025/2", "unscorable"]]


def test_problems_are_shown_as_models_read_them(folder: Path, capsys: Captured) -> None:
    text = run(capsys, "preview", "livecodebench", "-n", "2", "--split", "heldout")
    assert "=== livecodebench/q60 (program)" in text
    assert "--- tests: stdin, 1 public and 3 hidden cases, 6 s" in text
    options = [json.loads(run(capsys, "preview", "gpqa_diamond", "--json", "--seed", seed)) for seed in "112"]
    assert options[0] == options[1] != options[2]
    assert len(options[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "mmul"), "did you mean mmlu?"),
        (("preview", "mmlu", "--split", "test"), "one of training, validation, heldout"),
        (("check", "mmlu", "--folder", "/nowhere"), "manage.py benchmark fetch mmlu"),
        (("fetch", "mmlu", "--revision", "main"), "the catalogue has both"),
        (("fetch", "nothing"), "one of math500"),
        (("fetch", "a/b"), "at least one file"),
    ],
)
def test_mistakes_are_sentences(arguments: tuple[str, ...], words: str, folder: Path, capsys: Captured) -> None:
    assert main.run(("benchmark", *arguments)) == 1
    assert words in capsys.readouterr().err


def test_a_data_set_is_fetched_into_its_folder(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRINITY_BENCHMARK_DIR", str(tmp_path / "sets"))
    write_benchmark("theoremqa", tmp_path / "made")
    (tmp_path / "hub" / "TIGER-Lab").mkdir(parents=True)
    (tmp_path / "made" / "theoremqa").rename(tmp_path / "hub" / "TIGER-Lab" / "TheoremQA")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with fake_hub(tmp_path / "hub") as hub:
        monkeypatch.setenv("TRINITY_HUB_URL", hub.url)
        text = run(capsys, "fetch", "theoremqa")
        assert f"TIGER-Lab/TheoremQA at {COMMIT}: 11 rows" in text
        assert "rows: test 11 (the hub has 800)\nleft out: needs a picture 1\nsplits: training 6, " in text
        assert hub.asked[0][1] == "Bearer hf_secret"
        path = "data/test-00000-of-00001.parquet"
        found = json.loads(run(capsys, "fetch", "TIGER-Lab/TheoremQA", "--file", path, "--json"))
        assert found["folder"] == str(tmp_path / "sets" / "TIGER-Lab--TheoremQA")
    assert f"revision: {COMMIT}" in run(capsys, "show", "theoremqa")


def test_progress_is_told_in_tenths(capsys: Captured) -> None:
    say = benchmarks._progress()
    for done in range(0, 2_000_001, 10_000):
        say("x", done, 2_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "x: 2.0 of 2.0 MB"


def test_a_campaign_on_benchmarks_is_prepared_and_recorded(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(CAMPAIGN)
    prepared = submission.prepare(path, load_settings())
    assert {split: len(problems) for split, problems in prepared.problems.items()} == {
        Split.TRAINING: 12,
        Split.VALIDATION: 11,
        Split.HELDOUT: 25,
    }
    source = document.problems_from_json(json.loads(json.dumps(prepared.spec)))
    assert isinstance(source, BenchmarkProblems)
    assert [(one.name, one.hub, one.training) for one in source.sets] == [
        ("math500", "HuggingFaceH4/MATH-500", None), ("mmlu", "cais/mmlu", None), ("gsm8k", "openai/gsm8k", 4),
        ("gpqa_diamond", "Idavidrein/gpqa", None),
    ]  # fmt: skip
    assert content_hash(prepared.problems) == content_hash(submission.prepare(path, load_settings()).problems)
