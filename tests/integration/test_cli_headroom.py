"""`pool headroom` and `pool select` on each of their sources."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from services.core.campaign import LabelsSpec
from services.core.states import CampaignState
from services.storage.engine import Database
from tests.support.campaigns import small_campaign, submit
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.fault_doubles import submit as submit_tiny
from tests.support.fault_doubles import tiny_campaign
from tests.support.faults import Stage as DrivenStage
from tests.support.faults import hurry
from tests.support.story import Stage
from tests.support.tiny_qwen3 import build_tiny_qwen3

__all__ = ["bare_cli", "cli", "hurry"]

RECORDED = """
name: recorded
problems:
  source: jsonl
  sets: [{files: [rows.jsonl], id: id, question: text, family: kind, scorer: recorded, scores: scores.*}]
  split: {training: 20, validation: 4, heldout: 16}
pool:
  - {name: ada, model: openai/ada, base_url: "local:nobody", price: {input: 0.2, output: 0.8}}
  - {name: bob, model: openai/bob, base_url: "local:nobody", price: {input: 0.1, output: 0.4}}
encoder: {model: smollm2-135m-instruct, singular_values: none}
protocol: {roles: [worker], max_turns: 1, max_output_tokens: 64}
search: {population: 4, replicates: 3, generations: 2, sigma0: 0.1}
validation: {every: 1, problems: 2}
evaluation: {problems: 6}
"""
ANSWERED = RECORDED.replace("scorer: recorded, scores: scores.*", "scorer: numeric, answer: gold").replace(
    "local:nobody", "local:replayed"
)
POOL = """
kind: replay
name: replayed
models: [ada, bob]
recordings: [{files: [FILE], question: text, answer: said.*, scorer: numeric}]
"""


def rows() -> list[dict[str, object]]:
    """Ada knows the sums, Bob the words; neither knows every fourth of his own."""
    found: list[dict[str, object]] = []
    for number in range(40):
        sums, known = number % 2 == 0, number // 2 % 4 != 0
        scores = {"ada": float(sums and known), "bob": float(not sums and known)}
        said = {model: str(number) if right else "-1" for model, right in scores.items()}
        kind = "sums" if sums else "words"
        found.append({"id": f"q{number}", "text": f"Question {number}?", "kind": kind, "gold": str(number)})
        found[-1] |= {"scores": scores, "said": said}
    return found


@pytest.fixture
def folder(bare_cli: CommandLine) -> Path:
    path = bare_cli.folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows()))
    pools = bare_cli.folder / "pools"
    pools.mkdir()
    (pools / "replayed.yaml").write_text(POOL.replace("FILE", str(path)))
    bare_cli.set("TRINITY_LOCAL_POOL_DIR", str(pools))
    return bare_cli.folder


def figures(cli: CommandLine, *arguments: str) -> dict[str, object]:
    done = cli("pool", "headroom", *arguments, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    values = {line["way"]: round(line["value"]["estimate"], 6) for line in found["lines"]}
    return {"n": found["questions"], "repeats": found["repeats"], "verdict": found["verdict"]["finding"], **values}


WANTED = {
    "n": 40,
    "repeats": 1,
    "verdict": "worth training",
    "random model": 0.375,
    "best model per family": 0.75,
    "clairvoyant union": 0.75,
}


@pytest.mark.parametrize("text", [RECORDED, ANSWERED])
def test_a_campaign_file_with_recordings_is_weighed_without_services(
    bare_cli: CommandLine, folder: Path, text: str
) -> None:
    path = bare_cli.campaign(text, "recorded.yaml")
    found = figures(bare_cli, path, "--heldout")
    assert found | WANTED == found
    assert figures(bare_cli, path)["n"] == 24, "held-out problems are left alone unless they are asked for"


def test_tables_long_and_wide_say_the_same(bare_cli: CommandLine, folder: Path) -> None:
    wide = figures(bare_cli, str(folder / "rows.jsonl"), "--question", "id", "--family", "kind", "--reward", "scores.*")
    long = folder / "long.csv"
    with long.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["question", "family", "model", "reward"])
        for row in rows():
            assert isinstance(row["scores"], dict)
            writer.writerows([row["id"], row["kind"], model, reward] for model, reward in row["scores"].items())
    assert figures(bare_cli, str(long)) == wide
    assert wide | WANTED == wide


def test_repeats_are_lists_or_rows_of_their_own(bare_cli: CommandLine, folder: Path) -> None:
    wide, long = folder / "wide.jsonl", folder / "long.jsonl"
    answers = [({"question": f"q{n}"}, {"ada": [1, n % 2], "bob": [0, 1]}) for n in range(10)]
    wide.write_text("\n".join(json.dumps(key | {"reward": given}) for key, given in answers))
    single = [key | {"model": m, "reward": r} for key, given in answers for m, own in given.items() for r in own]
    long.write_text("\n".join(json.dumps(row) for row in single))
    found = figures(bare_cli, str(wide), "--reward", "reward.*")
    assert found == figures(bare_cli, str(long))
    assert (found["repeats"], found["n"]) == (2, 10)
    assert "routing oracle, cross-fitted" in found


def test_the_table_and_the_page_are_written(bare_cli: CommandLine, folder: Path) -> None:
    path = bare_cli.campaign(RECORDED, "recorded.yaml")
    done = bare_cli("pool", "headroom", path, "--heldout", "--by-family", "--output", str(folder / "page"))
    assert done.code == 0, done.err
    assert "worth training: best model per family gains" in done.out
    assert "40 questions (sums 20, words 20), one answer of each model; families count alike" in done.out
    page = (folder / "page" / "index.html").read_text()
    assert "best model per family" in page
    assert "<script" not in page
    assert json.loads((folder / "page" / "headroom.json").read_text())["questions"] == 40
    assert {each.name for each in (folder / "page").iterdir()} >= {"ways.png", "disagreement.png"}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"question": "q", "model": "a", "reward": 2}, "bad.jsonl:1: got 2, wanted a reward of a in [0, 1]"),
        ({"question": "q", "model": "a", "reward": "much"}, "a reward of a in [0, 1]"),
        ({"question": "q", "model": "a"}, "a field reward"),
        ({"question": "q", "model": "a", "reward": 1, "price": "cheap"}, "a price in USD"),
        ({"question": "q", "model": "a", "reward": 1}, "rewards of at least two models"),
    ],
)
def test_broken_tables_are_refused(bare_cli: CommandLine, folder: Path, row: dict[str, object], named: str) -> None:
    path = folder / "bad.jsonl"
    path.write_text(json.dumps(row))
    done = bare_cli("pool", "headroom", str(path))
    assert (done.code, done.out) == (1, "")
    assert named in done.err


@pytest.mark.parametrize("names", [("absent.csv",), ("rows.jsonl", "absent"), ("absent.yaml",)])
def test_files_that_are_not_there_are_named(bare_cli: CommandLine, folder: Path, names: tuple[str, ...]) -> None:
    done = bare_cli("pool", "headroom", *(str(folder / name) for name in names))
    assert done.code == 1
    assert "absent" in done.err


def test_a_pool_that_has_to_be_asked_is_refused(bare_cli: CommandLine, folder: Path) -> None:
    asked = ANSWERED.replace("local:replayed", "http://127.0.0.1:9/v1")
    done = bare_cli("pool", "headroom", bare_cli.campaign(asked, "asked.yaml"))
    assert done.code == 1
    assert "pool.0.base_url" in done.err
    assert "labels.problems" in done.err


def test_select_prints_both_rules_and_keeps_to_a_price(bare_cli: CommandLine, folder: Path) -> None:
    path = bare_cli.campaign(RECORDED, "recorded.yaml")
    done = bare_cli("pool", "select", path, "--heldout", "--json")
    assert done.code == 0, done.err
    pools = json.loads(done.out)["pools"]
    assert [pool["aim"] for pool in pools] == ["relative error reduction", "mean of the best members"]
    assert all(pool["members"] == ["ada", "bob"] for pool in pools)
    assert {round(pool["flattering"]["reduction"], 6) for pool in pools} == {0.6}, "(0.75 - 0.375) / (1 - 0.375)"
    text = bare_cli("pool", "select", path, "--heldout").out
    assert "by relative error reduction: ada, bob" in text
    assert [line.split() for line in text.splitlines() if line.startswith("  sums")] == [["sums", "ada", "0.8"]] * 2
    dear = bare_cli("pool", "select", path, "--max-price", "0.5")
    assert dear.code == 1
    assert "ada 0.8, bob 0.4" in dear.err
    unknown = bare_cli("pool", "select", str(folder / "rows.jsonl"), "--reward", "scores.*", "--question", "id",
                       "--max-price", "1")  # fmt: skip
    assert "that of ada, bob is not" in unknown.err


def test_a_submitted_campaign_is_weighed_by_its_single_models(cli: CommandLine, database: Database) -> None:
    campaign_id = submit(database, small_campaign())
    stage = Stage(database)
    stage.take_office()
    stage.advance(campaign_id)
    missing = cli("pool", "headroom", "small")
    assert missing.code == 1
    assert "labelled problems" in missing.err
    for _ in range(4):
        stage.play(campaign_id)
    with database.transaction() as conn:
        wanted = conn.execute(
            text(
                "select avg(e.reward) from episode e join candidate c on c.id = e.candidate_id"
                " where c.kind = 'single' and e.state = 'scored'"
            )
        ).scalar_one()
    found = figures(cli, "small")
    assert found["n"] == 3
    assert found["random model"] == pytest.approx(wanted)


@pytest.fixture
def labelled(database_url: str, database: Database, hurry: None) -> Iterator[DrivenStage]:
    made = DrivenStage(database_url, database)
    yield made
    made.close()


def test_the_encoder_of_a_campaign_file_reads_its_questions(bare_cli: CommandLine, folder: Path) -> None:
    encoder = build_tiny_qwen3(folder / "tiny")
    text = RECORDED.replace("model: smollm2-135m-instruct", f"model: {encoder}")
    path = bare_cli.campaign(text, "recorded.yaml")
    done = bare_cli("pool", "headroom", path, "--states", "--json")
    assert done.code == 0, done.err
    ways = {line["way"]: line["in_sample"] for line in json.loads(done.out)["lines"]}
    assert ways["ridge regression on states"] >= ways["best single model"]
    wrong = bare_cli("pool", "headroom", str(folder / "rows.jsonl"), "--states")
    assert wrong.code == 1
    assert "a campaign file" in wrong.err


def test_labels_are_weighed_with_their_repeats_and_states(cli: CommandLine, labelled: DrivenStage) -> None:
    campaign = tiny_campaign(name="labelled", labels=LabelsSpec(problems=6, repeats=2))
    assert labelled.play(submit_tiny(labelled.look, campaign)) is CampaignState.COMPLETED
    done = cli("pool", "headroom", "labelled", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["source"] == "campaign labelled, labelling generation"
    assert (found["questions"], found["repeats"]) == (6, 2)
    assert [line["way"] for line in found["lines"]] == [
        "random model",
        "best single model",
        "ridge regression on states",
        "routing oracle, cross-fitted",
        "clairvoyant union",
    ]
