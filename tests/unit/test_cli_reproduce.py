"""``reproduce --plan``: campaigns of a study from a base file, without any service."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from services.cli import studies
from services.config.settings import Settings
from services.core.problem import Split
from services.core.studies.learners import booked
from services.core.studies.paper import PAPER_MODELS
from services.core.studies.study import StudyName
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli

__all__ = ["bare_cli"]

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = str(ROOT / "infra/campaigns/quickstart.yaml")
POOL = "".join(
    f'  - {{name: {name}, model: openai/{name}, base_url: "http://127.0.0.1:9/v1", price: {{input: 1, output: 2}}}}\n'
    for name in PAPER_MODELS
)
SEVEN = CAMPAIGN[: CAMPAIGN.index("pool:")] + "pool:\n" + POOL + CAMPAIGN[CAMPAIGN.index("protocol:") :]
SEVEN = SEVEN.replace("training: 8", "training: 40").replace("replicates: 3", "replicates: 16")


def planned(cli: CommandLine, study: StudyName, file: str, *options: str) -> Any:
    done = cli("reproduce", study.value, file, "--plan", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("study", list(StudyName))
@pytest.mark.parametrize("seven", [False, True], ids=["quickstart", "seven models"])
def test_every_variant_of_every_study_is_a_valid_campaign(bare_cli: CommandLine, study: StudyName, seven: bool) -> None:
    document = planned(bare_cli, study, bare_cli.campaign(SEVEN) if seven else QUICKSTART)
    assert [line["label"] for line in document["left_out"]] == (["SFT"] if study is StudyName.FIGURE_6 else [])
    names = [campaign["name"] for campaign in document["campaigns"]]
    assert len(set(names)) == len(names)
    assert names[0] == document["base"]
    assert all(name.startswith(document["base"]) for name in names)
    for figure in ("episodes", "calls", "tokens"):
        assert document["total"][figure] == sum(campaign["plan"][figure] for campaign in document["campaigns"])
    usd = [Decimal(campaign["plan"]["usd"]) for campaign in document["campaigns"]]
    assert Decimal(document["total"]["usd"]) == sum(usd)
    assert not (bare_cli.folder / "var").exists(), "planning wrote something"


def test_a_plan_as_people_read_it(bare_cli: CommandLine) -> None:
    done = bare_cli("reproduce", "turns", QUICKSTART, "--plan")
    assert done.code == 0, done.err
    for text in ("Figure 4", "quickstart-turns-4", "6 turns", "3 campaigns", "USD at most"):
        assert text in done.out


def test_the_plan_warns_of_a_limit_that_ends_a_campaign(bare_cli: CommandLine) -> None:
    file = bare_cli.campaign(CAMPAIGN.replace("budget: {usd: 10}", "budget: {calls: 5}"))
    assert "will stop at its limit of model calls" in bare_cli("reproduce", "turns", file, "--plan").out


def test_the_table_of_two_models_names_both(bare_cli: CommandLine) -> None:
    document = planned(bare_cli, StudyName.TABLE_2, bare_cli.campaign())
    labels = [row for campaign in document["campaigns"] for row in campaign["rows"]]
    assert "ada only" in labels
    assert "bob only" in labels


def test_several_seeds_have_their_own_campaigns_and_the_same_problems(bare_cli: CommandLine) -> None:
    file = bare_cli.campaign()
    document = planned(bare_cli, StudyName.TURNS, file, "--seeds", "3,4")
    names = [campaign["name"] for campaign in document["campaigns"]]
    assert names == ["small", "small-turns-4", "small-turns-6", "small-seed4", "small-turns-4-seed4",
                     "small-turns-6-seed4"]  # fmt: skip
    prepared = studies.prepare(StudyName.TURNS, Path(file), Settings(), (3, 4))
    seeds = {run.prepared.campaign.seed for run in prepared.runs}
    assert seeds == {3, 4}
    assert len({tuple(one.question for one in run.prepared.problems[Split.HELDOUT]) for run in prepared.runs}) == 1
    assert all(run.prepared.spec["problems"] == prepared.base.spec["problems"] for run in prepared.runs)


def test_no_learner_books_more_than_the_base_before_the_evaluation() -> None:
    prepared = studies.prepare(StudyName.TABLE_4, Path(QUICKSTART), Settings())
    limit = booked(prepared.base.campaign)
    assert len(prepared.runs) == 4
    for run in prepared.runs:
        assert 0.9 * limit < booked(run.prepared.campaign) <= limit, run.name


@pytest.mark.parametrize("seeds", ["1,x", "-1", "1.5"])
def test_seeds_that_are_none_are_refused(bare_cli: CommandLine, seeds: str) -> None:
    assert bare_cli("reproduce", "turns", bare_cli.campaign(), "--plan", f"--seeds={seeds}").code == 2


def test_a_base_without_held_out_problems_is_refused(bare_cli: CommandLine) -> None:
    file = bare_cli.campaign(CAMPAIGN.replace("evaluation: {problems: 6}\n", ""))
    done = bare_cli("reproduce", "turns", file, "--plan")
    assert done.code == 1
    assert "evaluation.problems" in done.err


def test_a_variant_that_the_base_cannot_have_is_left_out_with_its_reason(bare_cli: CommandLine) -> None:
    """Recorded scores are those of single Worker turns."""
    lines = [
        json.dumps({"id": str(n), "question": f"q{n}", "responses": {"ada": 1.0, "bob": 0.0}, "split": split})
        for n, split in enumerate(["train"] * 4 + ["dev"] * 2 + ["test"] * 6)
    ]
    (bare_cli.folder / "rows.jsonl").write_text("\n".join(lines))
    problems = """problems:
  source: jsonl
  sets:
    - {files: [rows.jsonl], question: question, scorer: recorded, scores: responses.*, id: id, family_name: one}
  split: {field: split, values: {train: training, dev: validation, test: heldout}}
"""
    text = CAMPAIGN[: CAMPAIGN.index("problems:")] + problems + CAMPAIGN[CAMPAIGN.index("pool:") :]
    text = text.replace("protocol: {max_turns: 2,", "protocol: {roles: [worker], max_turns: 1,")
    document = planned(bare_cli, StudyName.TURNS, bare_cli.campaign(text))
    assert [campaign["name"] for campaign in document["campaigns"]] == ["small"]
    reasons = {line["label"]: line["reason"] for line in document["left_out"]}
    assert set(reasons) == {"2 turns", "4 turns", "6 turns"}
    assert all("recorded scores are those of single turns" in reason for reason in reasons.values())


def test_the_identity_of_a_campaign_is_all_but_its_name_and_weight(tmp_path: Path) -> None:
    def identity(text: str) -> str:
        path = tmp_path / "one.yaml"
        path.write_text(text)
        return studies.identity(studies.Workshop(path, Settings()).base.spec)

    same = CAMPAIGN.replace("name: small", "name: other\nweight: 3")
    assert identity(CAMPAIGN) == identity(same)
    assert identity(CAMPAIGN) != identity(CAMPAIGN.replace("seed: 3", "seed: 4"))
    assert identity(CAMPAIGN) != identity(CAMPAIGN.replace("training: 8", "training: 9"))
