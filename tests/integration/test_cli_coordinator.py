"""``coordinator list``, ``show``, ``release``, ``export`` and ``import`` on campaigns that were played step by step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.stages import released
from services.checkpoint import folder as checkpoints
from services.core.ids import CampaignId
from services.storage import coordinators, readings, turns
from services.storage.engine import Database
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign, submit
from tests.support.checkpoints import checkpoint, describe
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.story import Stage
from tests.support.stub_models import fingerprint
from tests.support.threads import at_once

__all__ = ["bare_cli", "cli"]

TURNS = 4  # two of training, one of validation, one of evaluation


@pytest.fixture
def stage(database: Database) -> Stage:
    made = Stage(database)
    made.take_office()
    return made


def begin(stage: Stage, name: str, *, read: bool = True) -> CampaignId:
    """Submit a campaign, open its first generation and, as its first worker does, record what it is read with."""
    campaign_id = submit(stage.database, small_campaign(name=name))
    stage.advance(campaign_id)
    if read:
        with stage.database.transaction() as conn:
            readings.settle(conn, campaign_id, fingerprint())
    return campaign_id


def play(stage: Stage, campaign_id: CampaignId, turns_to_play: int = TURNS) -> None:
    for _ in range(turns_to_play):
        stage.play(campaign_id)


def listed(cli: CommandLine) -> dict[str, Any]:
    done = cli("coordinator", "list", "--json")
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)}


def test_what_a_search_released_is_shown_and_taken_home(
    cli: CommandLine, database: Database, stage: Stage, tmp_path: Path
) -> None:
    play(stage, begin(stage, "done"))
    assert "done  search" in cli("coordinator", "list").out
    folder = tmp_path / "new" / "done"
    exported = cli("coordinator", "export", "done", str(folder))
    assert (exported.code, exported.out, exported.err) == (0, f"{folder}\n", "")
    kept = checkpoints.read(folder)
    with database.transaction() as conn:
        row = coordinators.by_name(conn, "done")
    assert kept.theta.tobytes() == row.theta.tobytes()
    description = kept.description
    assert description.reading == fingerprint()
    assert (description.origin.name, description.origin.generation) == ("done", row.generation)
    assert description.scores.validation is not None
    assert (description.scores.validation.mean, description.scores.validation.n) == (row.validation, 2)
    policies = [(score.kind, score.n) for score in description.scores.evaluation]
    assert policies == [("coordinator", 3), ("single", 3), ("single", 3), ("random", 3)]
    assert (description.training.episodes, description.training.calls) == (42, 42)
    assert "local:specialists" not in (folder / "config.json").read_text()
    by_name, by_folder = cli("coordinator", "show", "done"), cli("coordinator", "show", str(folder))
    assert by_name.out == by_folder.out
    assert "held-out    trained coordinator" in by_name.out
    assert json.loads(cli("coordinator", "show", "done", "--json").out) == description.to_json()
    again = cli("coordinator", "export", "done", str(folder))
    assert again.code == 1
    assert "does not exist yet or is empty" in again.err


def test_a_release_by_hand_beside_a_running_search(cli: CommandLine, database: Database, stage: Stage) -> None:
    campaign_id = begin(stage, "small")
    play(stage, campaign_id, 2)
    with database.transaction() as conn:
        best = released(turns.validated(conn, campaign_id))
    done = cli("coordinator", "release", "small", "--json")
    assert json.loads(done.out)["generation"] == best
    opened = cli("coordinator", "release", "small", "--generation", "2", "--name", "opened")
    assert opened.out == "released opened, the mean of generation 2, validation score -\n"
    play(stage, campaign_id, 2)
    for name in ("same", "measured"):
        generation = listed(cli)["small"]["generation"] if name == "same" else 3
        assert cli("coordinator", "release", "small", "--generation", str(generation), "--name", name).code == 0
    found = listed(cli)
    assert {name: row["origin"] for name, row in found.items()} == {
        f"small-g{best}": "hand",
        "opened": "hand",
        "small": "search",
        "same": "hand",
        "measured": "hand",
    }
    assert {row["reading"]["weights"] for row in found.values()} == {"0" * 64}
    assert f"small, the mean of generation {found['small']['generation']}" in cli("campaign", "show", "small").out
    assert_clean(database)


def test_a_mean_that_was_not_compared_has_no_held_out_score_of_its_own(
    cli: CommandLine, stage: Stage, tmp_path: Path
) -> None:
    play(stage, begin(stage, "small"))
    other = next(number for number in (0, 1) if number != listed(cli)["small"]["generation"])
    cli("coordinator", "release", "small", "--generation", str(other), "--name", "other")
    cli("coordinator", "export", "other", str(tmp_path / "other"))
    scores = checkpoints.read(tmp_path / "other").description.scores
    assert [score.kind for score in scores.evaluation] == ["single", "single", "random"]
    assert scores.validation is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), "the name of a campaign"),
        (("small", "--generation", "7"), "a generation of small: 0 to 0"),
        (("small", "--name", "A B"), "--name"),
        (("small", "--name", "small"), "a name that no campaign has"),
        (("fresh",), "a campaign that has opened a generation"),
    ],
)
def test_a_wrong_release_writes_nothing(
    cli: CommandLine, database: Database, stage: Stage, arguments: tuple[str, ...], message: str
) -> None:
    begin(stage, "small")
    submit(database, small_campaign(name="fresh"))
    done = cli("coordinator", "release", *arguments)
    assert done.code == 1
    assert message in done.err
    assert listed(cli) == {}


def test_without_any_validation_the_newest_mean_is_released(cli: CommandLine, stage: Stage) -> None:
    begin(stage, "small")
    done = cli("coordinator", "release", "small")
    assert done.out == "released small-g0, the mean of generation 0, the newest: none has a validation score\n"


def test_a_reading_that_was_never_recorded_is_unknown(cli: CommandLine, stage: Stage, tmp_path: Path) -> None:
    play(stage, begin(stage, "old", read=False))
    done = cli("coordinator", "export", "old", str(tmp_path / "old"))
    assert done.code == 0
    assert "unknown: with which weights, tokenizer and template" in done.err
    assert checkpoints.read(tmp_path / "old").description.reading is None
    assert "nobody recorded" in cli("coordinator", "show", "old").out


def test_a_checkpoint_comes_in_and_goes_out_unchanged(cli: CommandLine, database: Database, tmp_path: Path) -> None:
    kept = checkpoint(describe(name="abroad"))
    folder = checkpoints.write(tmp_path / "abroad", kept)
    assert cli("coordinator", "import", str(folder)).out == "imported abroad\n"
    assert cli("coordinator", "import", str(folder), "--name", "renamed").out == "imported renamed\n"
    for name in ("abroad", "renamed"):
        assert cli("coordinator", "export", name, str(tmp_path / f"{name}-again")).code == 0
        again = checkpoints.read(tmp_path / f"{name}-again")
        assert again.description == replace(kept.description, name=name)
        assert again.theta.tobytes() == kept.theta.tobytes()
    assert {row["origin"] for row in listed(cli).values()} == {"import"}
    assert_clean(database)


def test_a_wrong_import_writes_nothing(cli: CommandLine, stage: Stage, tmp_path: Path) -> None:
    begin(stage, "small")
    folder = checkpoints.write(tmp_path / "abroad", checkpoint())
    taken = cli("coordinator", "import", str(folder), "--name", "small")
    assert "a name that no campaign has" in taken.err
    with (folder / "coordinator.safetensors").open("r+b") as file:
        file.truncate(100)
    cut = cli("coordinator", "import", str(folder))
    assert "one of the two was altered" in cut.err
    absent = cli("coordinator", "import", str(tmp_path / "absent"))
    assert "No such file" in absent.err
    assert (taken.code, cut.code, absent.code, listed(cli)) == (1, 1, 1, {})


def test_a_campaign_completes_although_its_name_is_taken(
    cli: CommandLine, database: Database, stage: Stage, tmp_path: Path
) -> None:
    folder = checkpoints.write(tmp_path / "abroad", checkpoint(describe(name="late")))
    assert cli("coordinator", "import", str(folder)).code == 0
    play(stage, begin(stage, "late"))
    assert {name: row["origin"] for name, row in listed(cli).items()} == {"late": "import", "late-2": "search"}
    assert "late-2, the mean of generation" in cli("campaign", "show", "late").out
    assert_clean(database)


def test_of_many_releases_under_one_name_one_is_kept(database: Database, stage: Stage) -> None:
    from services.cli import releasing
    from services.core.errors import SpecError

    begin(stage, "small")
    outcomes: list[str] = []

    def release(_: int) -> None:
        try:
            outcomes.append(releasing.release(database, "small", 0, "chosen").name)
        except SpecError as error:
            outcomes.append(str(error))

    at_once(4, release)
    assert sorted(outcome == "chosen" for outcome in outcomes) == [False, False, False, True]
    assert all("no other coordinator" in outcome for outcome in outcomes if outcome != "chosen")


def test_a_folder_is_shown_without_a_database(bare_cli: CommandLine, tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "kept", checkpoint())
    shown = bare_cli("coordinator", "show", str(folder))
    assert shown.code == 0, shown.err
    assert "theta       28 numbers: svf 8 + head 20" in shown.out
